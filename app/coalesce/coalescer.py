"""The coalescing operator: tuples in as arrays, coalesced tuples out as arrays; pure, no clock, no files (queries/README.md, *Values that last*).

``coalescer = Coalescer(rules, key_cells, value_cells)``; ``found = coalescer.feed(arrivals)`` takes tuples in, in total order;
``coalescer.pass_time(until)`` and ``coalescer.close(end)`` evaluate the windows that are due without further tuples.
``coalescer.saved()`` and ``load(arrays)`` carry the state; ``validate()`` checks its invariants.

**Bounds.** A bound is *truncated* when the value goes on beyond it: when an equal tuple is valid just before the start, or at the end. So of a
value that stays, only the moving bound of the window moves, and that is no change.

**Source:** Al-Kateb and Lee, Load shedding in temporal queries over data streams, JCSE 5(4) 2011, for the operator; the windows, the gap and
``until-next`` are those of queries/README.md. Where memory is bounded (`app.coalesce.bounded`), tuples that went are as if they had never been;
a run whose tuples do not hang together any more becomes two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.coalesce import arrays as at
from app.coalesce.arrays import Arrivals, Integers, Memory, Output
from app.coalesce.bounded import Bound
from app.coalesce.kernels_memory import enter_places, sweep, wake_all
from app.coalesce.kernels_windows import close_count, pass_time, take_in
from app.coalesce.memory import NO_DROPS, TupleMemory
from app.coalesce.validation import validate_memory
from app.query.plan import Temporal

TESTS = {
    "<": at.SHORTER,
    "<=": at.AT_MOST,
    ">": at.LONGER,
    ">=": at.AT_LEAST,
    "OVERLAPS": at.OVERLAPS,
    "CONTAINS": at.CONTAINS,
    "DURING": at.DURING,
}
ROOM = 1024
"""Rows that tables have at least: below that, sweeping costs more than it frees."""


def rules_of(temporal: Temporal) -> Integers:
    """The query as integers, see `app.coalesce.arrays`."""
    rules = np.zeros(at.RULES, np.int64)
    rules[at.DURATION] = -1 if temporal.duration_ms is None else temporal.duration_ms
    rules[at.GAP] = temporal.max_gap_ms
    rules[at.RANGE], rules[at.SLIDE] = temporal.window.range, temporal.window.slide
    rules[at.COUNTED] = temporal.window.unit == "events"
    rules[at.CHANGES] = temporal.emit == "changes"
    if temporal.valid is not None:
        placed = temporal.valid.operator in ("OVERLAPS", "CONTAINS", "DURING")
        rules[at.TEST] = TESTS[temporal.valid.operator]
        rules[at.LOW] = temporal.valid.start_ms if placed else temporal.valid.length_ms
        rules[at.HIGH] = temporal.valid.end_ms
    return rules


@dataclass(frozen=True, slots=True, eq=False)
class Coalesced:
    """Coalesced tuples in the order of their windows.

    Attributes:
        found: int64 (found, columns of ``found`` in `app.coalesce.arrays`).
        key: int64 (found, key cells): mask of nulls, cells.
        values: int64 (found, value cells): mask of nulls, cells.
        members: int64 (merged, 4): time, source, offset, type of the merged tuples, those of each coalesced tuple in total order.
        windows: how many were evaluated.
    """

    found: Integers
    key: Integers
    values: Integers
    members: Integers
    windows: int


class Coalescer:
    """The operator of one query.

    Args:
        temporal: the query.
        key_cells: how many cells the key has, its mask of nulls among them.
        value_cells: how many cells the values have, likewise.
        bounded: the tuples that may stay; None: all.
    """

    def __init__(self, temporal: Temporal, key_cells: int, value_cells: int, bounded: TupleMemory | None = None) -> None:
        self.rules = rules_of(temporal)
        self._bound = None if bounded is None else Bound(self.rules, bounded, key_cells, value_cells)
        self.dropped = 0
        """Tuples that went because memory is bounded, since this object was made."""
        state = np.zeros(at.STATE, np.int64)
        state[[at.NEXT, at.LAST]] = at.NEVER
        self.memory = _tables(Sizes(ROOM, ROOM + 1, ROOM), (at.CELLS + key_cells, at.VALUES + value_cells), state)
        self._output = Output(np.empty((ROOM, at.FOUND_WIDTH), np.int64), np.empty(ROOM, np.int64))

    def feed(self, arrivals: Arrivals, until: int) -> list[Coalesced]:
        """Takes tuples in, and evaluates the windows that are due.

        Args:
            arrivals: in total order, none earlier than the tuples before.
            until: ms; every tuple that comes later has at least this time.

        Returns:
            What was found, in parts.
        """
        self._begin()
        parts: list[Coalesced] = []
        drops = self._drops(arrivals)
        begin, answer = 0, at.FULL
        while answer != at.DONE:
            answer, begin = take_in(self.rules, self.memory, self._output, arrivals, drops, begin)
            if answer == at.FULL:
                self._grow_output()
            elif answer == at.CROWDED:
                parts.append(self._coalesced())  # sweeping moves the rows that it speaks of
                self._begin()
                self.sweep()
        if not self.rules[at.COUNTED]:
            self._until_done(lambda: pass_time(self.rules, self.memory, self._output, until))
        return [*parts, self._coalesced()]

    def _drops(self, arrivals: Arrivals) -> Integers:
        """Per arrival which tuple goes."""
        if self._bound is None:
            return NO_DROPS
        drops = self._bound.drops(arrivals, int(self.memory.state[at.RANK]), int(self.memory.state[at.LAST]))
        self.dropped += int(np.count_nonzero(drops >= 0))
        return drops

    def close(self, end: int | None) -> Coalesced:
        """The end of all input: evaluates the windows up to the first one after the last event.

        Args:
            end: ms, time of the last event of the input, tuple or not; None: of the last tuple.
        """
        self._begin()
        last = max(int(self.memory.state[at.LAST]), at.NEVER if end is None else end)
        slide = int(self.rules[at.SLIDE])
        if self.rules[at.COUNTED]:
            self._until_done(lambda: close_count(self.rules, self.memory, self._output))
        elif last > at.NEVER:
            self._until_done(lambda: pass_time(self.rules, self.memory, self._output, (last // slide + 1) * slide + 1))
        return self._coalesced()

    def _until_done(self, evaluate: Callable[[], int]) -> None:
        while evaluate() == at.FULL:
            self._grow_output()

    def _begin(self) -> None:
        self.memory.state[[at.FOUND, at.MEMBERS, at.EVALUATED]] = 0

    def sweep(self) -> None:
        """Moves what is alive to new tables that have room for as much again."""
        old, gap = self.memory, int(self.rules[at.GAP])
        widths = (old.keys.shape[1], old.runs.shape[1])
        swept = _tables(Sizes(*(int(old.state[used]) for used in (at.TUPLES, at.RUNS, at.KEYS))), widths, np.empty_like(old.state))
        sweep(old, swept, gap)
        self.memory = _with_room(swept)
        enter_places(self.memory)

    def _grow_output(self) -> None:
        state, output = self.memory.state, self._output
        found, members = int(state[at.FOUND]), int(state[at.MEMBERS])
        grown = Output(
            np.empty((2 * (found + int(min(state[at.LIVE_RUNS], state[at.LIVE]))) + ROOM, at.FOUND_WIDTH), np.int64),
            np.empty(2 * (members + int(state[at.LIVE])) + ROOM, np.int64),
        )
        grown.found[:found], grown.members[:members] = output.found[:found], output.members[:members]
        self._output = grown

    def _coalesced(self) -> Coalesced:
        """What was found, copied out of the tables."""
        memory, state = self.memory, self.memory.state
        found = self._output.found[: state[at.FOUND]].copy()
        runs = memory.runs[found[:, at.FOUND_RUN]]
        members = memory.tuples[self._output.members[: state[at.MEMBERS]]]
        return Coalesced(
            found,
            memory.keys[runs[:, at.KEY], at.CELLS :],
            runs[:, at.VALUES :],
            members[:, [at.START, at.SOURCE, at.OFFSET, at.TYPE]],
            int(state[at.EVALUATED]),
        )

    def awake(self) -> int:
        """Runs of which time alone may still tell something new; the others, open and as long as the window, wait for a tuple."""
        return int(np.count_nonzero(self.memory.wakes[: self.memory.state[at.RUNS]] < at.OPEN))

    def places(self) -> Integers:
        """int64 (tuples, 2), source and offset of all tuples that are stored, perhaps of some that died."""
        return self.memory.tuples[: self.memory.state[at.TUPLES]][:, [at.SOURCE, at.OFFSET]]

    def renumber_texts(self, key: Sequence[int], values: Sequence[int], keep: Callable[[Integers], Integers]) -> None:
        """Gives texts new numbers.

        Args:
            key: places of texts among the key's attributes.
            values: likewise among the values.
            keep: told the numbers in use, says the new number of every old one.
        """
        self.sweep()
        memory, state = self.memory, self.memory.state
        tuples = memory.tuples[: state[at.TUPLES]]
        cells = [_TextColumn(memory.keys[: state[at.KEYS], at.CELLS :], place) for place in key]
        cells += [_TextColumn(memory.runs[: state[at.RUNS], at.VALUES :], place) for place in values]
        if self._bound is not None:
            own_key, own_values = self._bound.tables()
            cells += [_TextColumn(own_key, place) for place in key]
            cells += [_TextColumn(table, place) for table in own_values for place in values]
        numbers = keep(np.concatenate([tuples[:, at.TYPE], *(column.used() for column in cells)]))
        tuples[:, at.TYPE] = numbers[tuples[:, at.TYPE]]
        for column in cells:
            column.renumber(numbers)
        if self._bound is not None:
            self._bound.renumbered()
            wake_all(self.rules, self.memory)
        self._load(self._arrays())

    def saved(self) -> Mapping[str, Integers]:
        """Arrays from which `load` makes the same state; what is dead is swept out first."""
        self.sweep()
        if self._bound is None:
            return self._arrays()
        wake_all(self.rules, self.memory)
        self._bound.sweep(int(self.memory.state[at.RANK]), int(self.memory.state[at.LAST]))
        return {**self._arrays(), **self._bound.saved()}

    def _arrays(self) -> Mapping[str, Integers]:
        memory, state = self.memory, self.memory.state
        tables = {"tuples": at.TUPLES, "runs": at.RUNS, "keys": at.KEYS}
        return {**{name: getattr(memory, name)[: state[used]] for name, used in tables.items()}, "counters": state.copy()}

    def load(self, arrays: Mapping[str, Integers]) -> None:
        """Takes over what `saved` gave."""
        if self._bound is not None:
            self._bound.load(arrays)
        self._load(arrays)

    def _load(self, arrays: Mapping[str, Integers]) -> None:
        none = np.zeros(0, np.int64)
        wakes = np.full(len(arrays["runs"]), at.NEVER)
        tuples = arrays["tuples"]
        if tuples.shape[1] < at.TUPLE_WIDTH:  # of versions that did not know PAST; only bounded memory asks for it
            tuples = np.concatenate([tuples, np.full((len(tuples), 1), at.NEVER)], axis=1)
        read = Memory(tuples, arrays["runs"], wakes, arrays["keys"], none, none, arrays["counters"].copy(), none)
        self.memory = _with_room(read)
        enter_places(self.memory)

    def validate(self) -> None:
        """Invariants of the state.

        Raises:
            AssertionError: one of them does not hold.
        """
        validate_memory(self.memory, self.rules)


@dataclass(frozen=True, slots=True)
class _TextColumn:
    """Numbers of texts in a table of mask of nulls and cells (a view, in-out)."""

    cells: Integers
    place: int

    def _present(self) -> NDArray[np.bool_]:
        return self.cells[:, 0] >> self.place & 1 == 0

    def used(self) -> Integers:
        return self.cells[self._present(), 1 + self.place]

    def renumber(self, numbers: Integers) -> None:
        present = self._present()
        self.cells[present, 1 + self.place] = numbers[self.cells[present, 1 + self.place]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rows of tables."""

    tuples: int
    runs: int
    keys: int


def _tables(sizes: Sizes, widths: tuple[int, int], state: Integers) -> Memory:
    """Empty tables of so many rows; ``widths`` of keys and runs."""
    key_width, run_width = widths
    return Memory(
        np.empty((sizes.tuples, at.TUPLE_WIDTH), np.int64),
        np.empty((sizes.runs, run_width), np.int64),
        np.empty(sizes.runs, np.int64),
        np.empty((sizes.keys, key_width), np.int64),
        _places(sizes.runs),
        _places(sizes.keys),
        state,
        np.full(-(-sizes.runs // at.BLOCK), at.NEVER),
    )


def _with_room(memory: Memory) -> Memory:
    """The same with room for as much again, and for a quarter of the largest table; hash tables empty.

    Whichever table is full, all are swept: of 100 tuples in a count window over 200,000 keys it took 40 ms for every thousand that came.
    """
    state = memory.state
    tuples, runs, keys = (int(state[one]) for one in (at.TUPLES, at.RUNS, at.KEYS))
    room_tuples, room_runs, room_keys = (max(ROOM, 2 * used, used + max(tuples, runs, keys) // 4) for used in (tuples, runs, keys))
    rooms = Sizes(room_tuples, room_runs + 1, room_keys)  # a tuple that goes may make two runs of one
    new = _tables(rooms, (memory.keys.shape[1], memory.runs.shape[1]), state)
    for count, old, grown in zip((tuples, runs, runs, keys), memory, new, strict=False):
        grown[:count] = old[:count]
    return new


def _places(rows: int) -> Integers:
    """An empty hash table for so many rows, at most half full."""
    return np.zeros(max(64, 1 << int(2 * rows - 1).bit_length()), np.int64)
