"""Timeouts through ingress and buckets: every unfinished prefix once, with one identity, however the input was split."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from app.bucket.hold import TimeRules
from app.query.plan import Catalog
from tests.naive.arrival import on_time
from tests.naive.language import yaml_text
from tests.property.application_way import plan_of
from tests.property.random_queries import streams
from tests.property.test_bucket_way import arrivals_of, cases, run, split
from tests.property.test_cep_engine import unfinished


@settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_timeouts_are_the_unfinished_prefixes_whatever_the_split(data: st.DataObject) -> None:
    known, query = data.draw(cases())
    query = replace(query, within=query.within or data.draw(st.integers(1, 25)))
    note(yaml_text(query))
    catalog = Catalog.of((replace(plan_of(query, known), name="q", on_timeout="emit"),))
    arrivals = arrivals_of(data, data.draw(streams(known)))
    note(arrivals)
    lateness = data.draw(st.sampled_from([0, 2, 9]))
    rules = TimeRules("input", lateness)
    steps = split(data, arrivals)
    found = run(catalog, known, steps, rules, data.draw(st.integers(1, 3)), data.draw(st.sets(st.integers(0, len(steps)))))
    wanted = [
        (time, tuple((source, offset) for _, source, offset in bound)) for time, bound in unfinished(query, on_time(arrivals, lateness))
    ]
    assert Counter((time, events) for time, events, _ in found.timeouts.elements()) == Counter(wanted)
    assert max(found.timeouts.values(), default=1) == 1
    assert found.timeouts == run(catalog, known, [[arrivals]], rules, 1, set()).timeouts
    assert not {identity for _, _, identity in found.timeouts} & set(found.identities)
