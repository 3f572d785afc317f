"""Query groups that count events (`Plan.ranks`): their engines see all of them, in total order and in one place, and find the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from app.asc.selected import SelectedEvents
from app.asc.selection import Selection
from app.bucket import matching, recording
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.bucket.route import group_identity
from app.bucket.trusted import trusted
from app.cep.stacks.engine import StacksEngine
from app.query.plan import Catalog, Plan, QueryGroup
from tests.naive.arrival import on_time
from tests.naive.language import Event, Query, yaml_text
from tests.naive.matching import matches, order
from tests.property.application_way import expected, plan_of
from tests.property.event_arrays import event_batch
from tests.property.random_queries import queries, schemas, streams
from tests.property.test_bucket_recording import answers_of
from tests.property.test_bucket_way import SOURCES, arrivals_of, run, split

QUARTER = settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))


class Seen(dict[int, list[tuple[tuple[int, int, int], int]]]):
    """What engines were fed, by engine: (time, source, offset) and items."""


@contextmanager
def watched() -> Iterator[Seen]:
    """Engines tell what they are fed."""
    seen = Seen()

    class Watched(StacksEngine):
        def feed(self, batch: Any, items: Any, watermarks: Any) -> Any:
            places = zip(batch.time.tolist(), batch.source.tolist(), batch.offset.tolist(), strict=True)
            seen.setdefault(id(self), []).extend(zip(places, items.tolist(), strict=True))
            alive.append(self)
            return super().feed(batch, items, watermarks)

    alive: list[Any] = []  # so that no id is used twice
    with patch.object(matching, "new_engine", lambda plan, _memory: Watched(plan)):
        yield seen


def in_a_partition(query: Query, event: Event) -> bool:
    """Null and NaN equal nothing, so an event with one of them is in no partition."""
    values = [event["attributes"].get(one.attribute) for one in query.equivalence]
    return all(value is not None and value == value for value in values)  # noqa: PLR0124


def counting(plan: Plan, ranks: str) -> Plan:
    return replace(plan, name="q", ranks=ranks)


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict, Query, str]:
    known = draw(schemas())
    return known, draw(queries(known)), draw(st.sampled_from(["partition", "stream"]))


@QUARTER
@given(st.data())
def test_engines_see_every_on_time_event_that_they_count(data: st.DataObject) -> None:
    known, query, ranks = data.draw(cases())
    note(yaml_text(query))
    catalog = Catalog.of((counting(plan_of(query, known), ranks),))
    arrivals = arrivals_of(data, data.draw(streams(known)))
    note(arrivals)
    lateness = data.draw(st.sampled_from([0, 2, 9]))
    steps = split(data, arrivals)
    with watched() as seen:
        found = run(catalog, known, steps, TimeRules("input", lateness), data.draw(st.integers(1, 3)), set())
    fed = [event for event in on_time(arrivals, lateness) if ranks == "stream" or in_a_partition(query, event)]
    for events in seen.values():
        assert [place for place, _ in events] == sorted(place for place, _ in events), "total order"
    if ranks == "stream":
        assert len([events for events in seen.values() if events]) <= 1, "one place"
        assert [place for events in seen.values() for place, _ in events] == sorted(map(order, fed))
    else:
        keyed = [place for events in seen.values() for place, items in events]
        assert set(map(order, fed)) <= set(keyed), "all that are in a partition"
        others = [items for events in seen.values() for place, items in events if place not in set(map(order, fed))]
        assert all(others), "others come as candidates only"
        owner = {place: number for number, events in seen.items() for place, _ in events}
        keys = {(tuple(repr(e["attributes"][one.attribute]) for one in query.equivalence), owner[order(e)]) for e in fed}
        assert len(keys) == len({key for key, _ in keys}), "a partition lies in one bucket"
    assert found.answers == expected(matches(query, on_time(arrivals, lateness)), known)


@QUARTER
@given(st.data())
def test_counted_events_change_nothing_for_who_does_not_count_them(data: st.DataObject) -> None:
    """Restarts, splits, several queries of a group, lateness: as without counting."""
    known, query, ranks = data.draw(cases())
    note(yaml_text(query))
    plan = counting(plan_of(query, known), ranks)
    other = replace(
        plan_of(data.draw(queries(known)), known), name="r", fingerprint="other", ranks=data.draw(st.sampled_from(["none", ranks]))
    )
    arrivals = arrivals_of(data, data.draw(streams(known)))
    rules = TimeRules("input", data.draw(st.sampled_from([0, 9])))
    steps = split(data, arrivals)
    restarts = data.draw(st.sets(st.integers(0, len(steps))))
    found = run(Catalog.of((plan, other)), known, steps, rules, data.draw(st.integers(1, 3)), restarts)
    plain = run(Catalog.of((replace(plan, ranks="none"), replace(other, ranks="none"))), known, [[arrivals]], rules, 1, set())
    assert found.identities == plain.identities
    assert found.answers == plain.answers


@QUARTER
@given(st.data())
def test_a_recording_is_counted_as_streams_are(data: st.DataObject) -> None:
    known, query, ranks = data.draw(cases())
    note(yaml_text(query))
    catalog = Catalog.of((counting(plan_of(query, known), ranks),))
    events = data.draw(streams(known))
    with patch.object(recording, "SLICE", data.draw(st.integers(1, 6))), watched() as seen:
        found = recording.match_sorted(catalog, event_batch(events, known))
    fed = [order(event) for event in events if ranks == "stream" or in_a_partition(query, event)]
    (places,) = [[place for place, items in own if place in fed or not items] for own in seen.values()] or [[]]
    assert places == fed
    assert answers_of(catalog, found) == expected(matches(query, events), known)


@QUARTER
@given(st.data())
def test_shed_events_are_counted_still(data: st.DataObject) -> None:
    known, query, ranks = data.draw(cases())
    catalog = Catalog.of((counting(plan_of(query, known), ranks),))
    events = data.draw(streams(known))
    batch = event_batch(events, known)

    def shed_all(_: Any, selected: SelectedEvents) -> SelectedEvents:
        return selected.with_bitmaps(np.zeros_like(selected.bitmaps)).without_empty()

    plan = IngressPlan(catalog, TimeRules("input", 1000), 1)
    ingested = plan.ingest(batch, Progress({}, SOURCES), shed_all)
    (chunk,) = ingested.chunks
    sent = sorted((int(o), int(s)) for section in chunk.sections for s, o in zip(section.batch.source, section.batch.offset, strict=True))
    assert sent == sorted((e["offset"], e["source"]) for e in events if ranks == "stream" or in_a_partition(query, e))
    assert not any(section.bitmaps.any() for section in chunk.sections)
    assert len(events) == len(ingested.late) + ingested.irrelevant + ingested.shed + ingested.forwarded
    assert ingested.shed == len(Selection(catalog, "input").select(batch).relevant)


def test_groups_that_count_otherwise_are_other_groups() -> None:
    groups = [QueryGroup(0, ("s",), ("k",), (), (), ranks) for ranks in ("none", "partition", "stream")]
    assert len({group_identity(group) for group in groups}) == 3
    assert group_identity(groups[0]) == 9403760010355283279, "state and routing of groups that count nothing stay what they were"


def test_a_group_that_counts_all_events_trusts_no_order_of_keys() -> None:
    rules = TimeRules("s", ordered_by="k")
    own = Plan("q", 1, "", (), 1.0, ("s",), (), ("k",), (), None, (), ())
    for ranks, wanted in (("none", True), ("partition", True), ("stream", False)):
        catalog = Catalog.of((replace(own, ranks=ranks),))
        assert trusted(catalog, catalog.groups[0], rules) is wanted
