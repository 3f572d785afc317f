"""Whole recordings in memory, in slices of any size: what the definitions find, sorted or as they arrive."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from app.bucket import recording
from app.bucket.hold import TimeRules
from app.query.plan import Catalog
from tests.naive.arrival import arrive, on_time
from tests.naive.language import yaml_text
from tests.naive.matching import matches
from tests.property.application_way import answers, expected, plan_of
from tests.property.event_arrays import event_batch
from tests.property.random_queries import streams
from tests.property.test_bucket_way import SOURCES, arrivals_of, cases, positions


def answers_of(catalog: Catalog, found: recording.Recording) -> Counter:
    total: Counter = Counter()
    for one in found.found:
        if catalog.plans[one.query].name == "q":
            total += Counter(answers(catalog.plans[one.query], one.matches))
    return total


@settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_slices_of_any_size_find_the_same(data: st.DataObject) -> None:
    known, query = data.draw(cases())
    note(yaml_text(query))
    plan = replace(plan_of(query, known), name="q")
    catalog = Catalog.of((plan, replace(plan, name="r", fingerprint="other")))
    events = data.draw(streams(known))
    with patch.object(recording, "SLICE", data.draw(st.integers(1, 6))):
        found = recording.match_sorted(catalog, event_batch(events, known))
    assert answers_of(catalog, found) == expected(matches(query, events), known)


@settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_arrivals_in_slices_of_any_size_lose_only_what_is_late(data: st.DataObject) -> None:
    known, query = data.draw(cases())
    catalog = Catalog.of((replace(plan_of(query, known), name="q"),))
    events = arrivals_of(data, data.draw(streams(known)))
    note(events)
    lateness = data.draw(st.sampled_from([0, 3, 9]))
    arrived = recording.Arrivals(TimeRules("input", lateness), event_batch(events, known), np.arange(len(events)))
    with patch.object(recording, "SLICE", data.draw(st.integers(1, 6))):
        found = recording.match_arrivals(catalog, [arrived])
    assert answers_of(catalog, found) == expected(matches(query, on_time(events, lateness)), known)
    assert [tuple(place) for place in found.late.tolist()] == positions(arrive(events, lateness, SOURCES).late)
