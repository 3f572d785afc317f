"""Temporal queries on the whole way: out of order, late, any split over batches, tasks and buckets, restarts anywhere."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from app.bucket.hold import TimeRules
from app.query.plan import Catalog
from tests.naive.arrival import on_time
from tests.naive.composites import composite_events
from tests.naive.language import Equivalence, Item, Query
from tests.naive.temporal import TemporalQuery, coalesced
from tests.property.application_way import plan_of
from tests.property.temporal_cases import SCHEMAS, bounded_queries, coalesced_of, temporal_plan, temporal_queries, tie_of, tuple_streams
from tests.property.test_bucket_way import TOPICS, arrivals_of, driven, split

NEIGHBOUR = Query((Item(("T",), "a"), Item(("U",), "b")), (Equivalence("g"),), within=9)
"""A pattern query of the same stream and key: it must not share a group with a temporal one."""


def run(query: TemporalQuery, catalog: Catalog, steps: list, rules: TimeRules, buckets: int, restarts: set[int]) -> tuple[Counter, Counter]:
    """What the temporal query (named q) finds, and the identities of its composite events; closing comes as a last, empty step."""
    found, identities = Counter(), Counter()
    for _, news in driven(catalog, SCHEMAS, steps, rules, buckets, restarts):
        for one in news:
            if catalog.plans[one.query].name == "q":
                found += Counter(coalesced_of(query, one.matches))
                identities += Counter(event.id for event in composite_events(catalog.plans[one.query], one.matches, TOPICS))
    return found, identities


@settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_any_split_over_batches_tasks_and_buckets_with_restarts_finds_what_the_definitions_find(data: st.DataObject) -> None:
    query = data.draw(temporal_queries() | bounded_queries())
    note(query.text("input"))
    neighbour = replace(plan_of(NEIGHBOUR, SCHEMAS), name="r")
    catalog = Catalog.of((temporal_plan(query), neighbour))
    assert len(catalog.groups) == 2
    arrivals = arrivals_of(data, data.draw(tuple_streams(most=20)))
    note(arrivals)
    lateness = data.draw(st.sampled_from([0, 2, 9]))
    rules = TimeRules("input", lateness, ordered_by=data.draw(st.sampled_from([None, "g"])))
    steps = split(data, arrivals)
    found, identities = run(query, catalog, steps, rules, data.draw(st.integers(1, 3)), data.draw(st.sets(st.integers(0, len(steps)))))
    wanted = Counter(coalesced(query, on_time(arrivals, lateness), SCHEMAS, None, tie_of))
    assert (found - wanted, wanted - found) == (Counter(), Counter())
    assert max(identities.values(), default=1) == 1, "every composite event has an identity of its own"
    assert identities == run(query, catalog, [[arrivals]], rules, 1, set())[1]
