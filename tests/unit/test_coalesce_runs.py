"""What becomes of runs in the tables of a coalescer."""

from __future__ import annotations

import numpy as np
import pytest

from app.coalesce import arrays as at
from app.coalesce.arrays import Arrivals
from app.coalesce.coalescer import Coalesced, Coalescer
from app.query.plan import IntervalTest, SlidingWindow, Temporal


def arrivals(time: list[int], keys: list[int], values: list[int]) -> Arrivals:
    """Tuples of one stream with one attribute as key and one as value."""
    none, offsets = np.zeros(len(time), np.int64), np.arange(len(time))
    cells = [np.stack([none, np.array(one, np.int64)], axis=1) for one in (keys, values)]
    return Arrivals(np.array(time, np.int64), none + 1, np.stack([none, offsets, none], axis=1), *cells)


def found(parts: list[Coalesced]) -> int:
    return sum(len(part.found) for part in parts)


def test_keys_that_come_back_after_their_runs_are_over_leave_room_for_output() -> None:
    """Runs that were over twice made the count of runs too small, and windows wrote behind the end of their output."""
    coalescer = Coalescer(Temporal(("v",), ("k",), 15, 0, SlidingWindow(5, 1, "ms"), None, "all"), 2, 2)
    for time in range(0, 900, 100):
        coalescer.feed(arrivals([time] * 100, list(range(100)), [0] * 100), time)
        for until in range(time + 1, time + 50):  # window by window: little output, little room
            coalescer.feed(arrivals([], [], []), until)
        coalescer.validate()
    coalescer.feed(arrivals([900] * 100, list(range(100)), [0] * 100), 900)
    assert found(coalescer.feed(arrivals([], [], []), 950)) == 100 * 19


def test_a_count_window_looks_at_no_run_whose_tuples_have_left_it() -> None:
    """The last tuple of a key is valid until the next one, so its run waits for that; walking over all of them made windows as slow as there were keys."""
    coalescer = Coalescer(Temporal(("v",), ("k",), None, 0, SlidingWindow(100, 10, "events"), None, "changes"), 2, 2)
    for first in range(0, 10_000, 1_000):
        numbers = list(range(first, first + 1_000))
        assert found(coalescer.feed(arrivals(numbers, numbers, numbers), 0)) > 900
    coalescer.validate()
    memory = coalescer.memory
    runs, last = int(memory.state[at.RUNS]), int(memory.state[at.LAST])
    assert runs == 10_000
    assert np.count_nonzero(memory.wakes[:runs] <= last) <= 100
    assert np.count_nonzero(memory.blocks[: runs // at.BLOCK] <= last) <= 3
    (back,) = coalescer.feed(arrivals([20_000, *range(20_001, 20_010)], [7] + [-1] * 9, [7] * 10), 0)
    (told,) = back.found[back.key[:, 1] == 7]
    assert (told[at.FOUND_START], told[at.CUT_START]) == (20_000, 1), "the value has gone on since the tuple that left long ago"


def test_sweeping_makes_room_for_many_more_tuples_where_there_are_many_keys() -> None:
    """All tables are swept when one is full: with room for 1,024 tuples all of 20,000 keys were moved for every thousand that came."""
    coalescer = Coalescer(Temporal(("v",), ("k",), None, 0, SlidingWindow(100, 10, "events"), None, "changes"), 2, 2)
    keys = list(range(20_000))
    coalescer.feed(arrivals(keys, keys, keys), 0)
    coalescer.sweep()
    assert coalescer.memory.state[at.KEYS] == 20_000
    assert len(coalescer.memory.tuples) > 5_000
    coalescer.validate()


DAY = 86_400_000


@pytest.mark.parametrize("operator", ["OVERLAPS", "CONTAINS", "DURING", "<", "<=", ">", ">="])
@pytest.mark.parametrize("duration", [None, 3 * DAY])
@pytest.mark.parametrize("begin", [0, DAY, 3 * DAY])
def test_windows_of_a_silence_in_which_nothing_can_turn_are_skipped(operator: str, duration: int | None, begin: int) -> None:
    """A window every second for a month is 2.6 million; what can turn follows from the bounds."""
    valid = IntervalTest(operator, DAY // 2, begin, begin + DAY)  # type: ignore[arg-type]
    coalescer = Coalescer(Temporal(("v",), ("k",), duration, 0, SlidingWindow(DAY, 1_000, "ms"), valid, "changes"), 2, 2)
    parts = coalescer.feed(arrivals([1, 1, 1], [0, 1, 2], [0, 0, 1]), 30 * DAY)
    coalescer.validate()
    assert sum(part.windows for part in parts) <= 16
