"""The temporal engine against the definitions: random queries and streams, any split into batches, any restart."""

from __future__ import annotations

from collections import Counter
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from app.asc.selection import Selection
from app.bucket import temporal
from app.bucket.engines import new_engine, restore_engine
from app.cep.engine import Watermarks
from app.coalesce import coalescer
from app.owners.tuple_memory import tuple_memory
from app.query.plan import Catalog, Plan
from tests.naive.language import Event
from tests.naive.temporal import TemporalQuery, coalesced
from tests.property.event_arrays import event_batch
from tests.property.random_queries import cuts
from tests.property.temporal_cases import (
    SCHEMAS,
    bounded_queries,
    coalesced_of,
    crowded_case,
    temporal_plan,
    temporal_queries,
    tie_of,
    tuple_streams,
    watermark_after,
)

END = 2**63 - 1


class Run:
    """An engine behind its selection."""

    def __init__(self, query: TemporalQuery, plan: Plan) -> None:
        self.query, self.plan = query, plan
        self.selection = Selection(Catalog.of((plan,)), "input")
        self.engine = new_engine(plan, tuple_memory)

    def feed(self, events: list[Event], watermarks: Watermarks) -> Counter:
        batch = event_batch(events, SCHEMAS)
        rows, masks = self.selection.select(batch).of_query(0)
        items = np.zeros(len(batch), dtype=np.uint64)
        items[rows] = masks
        matches, tally = self.engine.feed(batch, items, watermarks)
        self.engine.validate()
        assert tally.matches == len(matches)
        return Counter(coalesced_of(self.query, matches))

    def restart(self) -> None:
        self.engine = restore_engine(self.plan, self.engine.snapshot(), tuple_memory)
        self.engine.validate()


def check(data: st.DataObject, of: st.SearchStrategy[TemporalQuery]) -> None:
    """One random query over one random stream, cut and restarted anywhere."""
    query, events = data.draw(of), data.draw(tuple_streams())
    note(query.text("input"))
    note(events)
    run, found, begin, reached = Run(query, temporal_plan(query)), Counter(), 0, None
    for end in data.draw(cuts(len(events))):
        watermark = watermark_after(events, end, data)
        reached = watermark if reached is None else max(reached, watermark)
        found += run.feed(events[begin:end], Watermarks(reached))
        begin = end
        if data.draw(st.booleans()):
            run.restart()
    found += run.feed(events[begin:], Watermarks(END, end_ms=events[-1]["time"] if events else None))
    wanted = Counter(coalesced(query, events, SCHEMAS, reached, tie_of))
    assert (found - wanted, wanted - found) == (Counter(), Counter())


@settings(phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_any_split_and_restart_finds_what_the_definitions_find(data: st.DataObject) -> None:
    check(data, temporal_queries())


@settings(phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_with_bounded_memory_the_tuples_kept_are_coalesced(data: st.DataObject) -> None:
    check(data, bounded_queries())


@settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_tables_and_output_that_are_always_too_small_change_nothing(data: st.DataObject) -> None:
    with patch.object(coalescer, "ROOM", 1), patch.object(temporal, "CHUNK", 3):
        check(data, temporal_queries() | bounded_queries())


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_crowded_memory_keeps_and_coalesces_what_the_definitions_do(first: int) -> None:
    """Hypothesis repeats itself too much for what is rare."""
    for seed in range(first, first + 40):
        chance, (query, events) = Random(seed), crowded_case(seed)
        run, found, begin = Run(query, temporal_plan(query)), Counter(), 0
        while begin < len(events):
            end = begin + chance.randint(1, 12)
            found += run.feed(events[begin:end], Watermarks(events[min(end, len(events)) - 1]["time"]))
            begin = end
            if chance.random() < 0.3:
                run.restart()
        found += run.feed([], Watermarks(END, end_ms=events[-1]["time"]))
        wanted = Counter(coalesced(query, events, SCHEMAS, None, tie_of))
        assert (seed, found - wanted, wanted - found) == (seed, Counter(), Counter())


def readings(*values: tuple[int, int]) -> list[Event]:
    """(time, value) of one key, and a last event of another type that is no tuple."""
    events = [{"type": "T", "time": time, "attributes": {"v": v, "g": "x", "f": 0.0, "b": True}} for time, v in values]
    events.append({"type": "W", "time": 40, "attributes": {"f": 0.0}})
    return [{**event, "source": 0, "offset": k} for k, event in enumerate(events)]


def at_least(length: int) -> tuple:
    return f">= {length} ms", lambda start, end: end - start >= length


PLACES = [
    ("OVERLAPS (5, 7)", lambda start, end: start < 7 and end > 5),
    ("OVERLAPS (15, 16)", lambda start, end: start < 16 and end > 15),
    ("CONTAINS (5, 12)", lambda start, end: start <= 5 and end >= 12),
    ("CONTAINS (22, 23)", lambda start, end: start <= 22 and end >= 23),
    ("DURING (3, 30)", lambda start, end: start >= 3 and end <= 30),
    ("DURING (0, 7)", lambda start, end: start >= 0 and end <= 7),
]


@pytest.mark.parametrize(
    ("query", "events"),
    [
        # longer than the window, and then over
        (TemporalQuery(("v",), ("g",), None, 7, 0, 5, 1), readings((0, 0))),
        # too short once its start is cut, long enough again when a gap is bridged: new
        (TemporalQuery(("v",), ("g",), None, 7, 20, 10, 2, test=at_least(4)), readings((0, 0), (15, 0))),
        # a silence, and an end exactly where a window ends
        (TemporalQuery(("v",), ("g",), None, None, 0, 5, 5), readings((0, 0), (30, 1))),
        # exactly as long as asked for, at a slide
        (TemporalQuery(("v",), ("g",), None, None, 0, 20, 1, test=(">= 6 ms", at_least(6)[1])), readings((0, 0), (9, 1))),
        (TemporalQuery(("v",), ("g",), None, None, 0, 20, 1, test=("> 6 ms", at_least(7)[1])), readings((0, 0), (9, 1))),
        # short enough again when its start is cut
        (TemporalQuery(("v",), ("g",), None, 9, 0, 12, 1, test=("< 6 ms", lambda start, end: end - start < 6)), readings((0, 0))),
        (TemporalQuery(("v",), ("g",), None, 9, 0, 12, 1, test=("<= 6 ms", lambda start, end: end - start <= 6)), readings((0, 0))),
        # reaches the place asked for in a silence, as a whole, open, or with its start cut; and leaves it
        *(
            (TemporalQuery(("v",), ("g",), None, duration, 0, size, 1, test=test), readings((0, 0), (35, later)))
            for duration in (None, 9, 25)
            for size in (8, 20)
            for test in PLACES
            for later in (0, 1)
        ),
    ],
)
def test_what_sleeping_runs_must_not_sleep_through(query: TemporalQuery, events: list[Event]) -> None:
    run = Run(query, temporal_plan(query))
    found = [one for k in range(len(events)) for one in run.feed(events[k : k + 1], Watermarks(events[k]["time"]))]
    found += run.feed([], Watermarks(END, end_ms=events[-1]["time"]))
    wanted = coalesced(query, events, SCHEMAS)
    assert len(wanted) >= 2 or query.test in PLACES
    assert Counter(found) == Counter(wanted)
