"""The memory of a chains engine: tables that grow, and are swept when they are full. Memory follows live partial matches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from app.cep.candidates.layout import spotted_cells, text_cells
from app.cep.cells.arrays import ALL_ABSENT, Integers
from app.cep.cells.tables import grown
from app.cep.cells.texts import TextTable, keep_used, renumber_cells
from app.cep.chains import arrays as at
from app.cep.chains.arrays import ChainMemory
from app.cep.chains.kernels_sweep import end_runs, list_runs, sweep
from app.cep.chains.layout import ChainLayout
from app.cep.partitions import arrays as stacks
from app.cep.partitions.kernels_slots import refill_slots
from app.cep.partitions.slots import empty_slots, key_places, slots_for

ROOM = 1024
"""Rows that the tables of a new engine have."""


class ChainStore:
    """Arrays of one engine, see `app.cep.chains.arrays`.

    Args:
        layout: widths of the tables.
    """

    def __init__(self, layout: ChainLayout) -> None:
        self.state = np.zeros(at.STATE_SIZE, np.int64)
        self.state[at.FREE], self.state[at.ROWS] = -1, 1
        self.runs = np.zeros((ROOM, layout.run_width), np.int64)
        self.nodes = np.zeros((ROOM, layout.node_width), np.int64)
        self.cells = np.zeros((1, layout.taking.width), np.int64)
        self.cells[at.NO_ROW, layout.taking.states_at :] = ALL_ABSENT
        self.slots = empty_slots(64, layout.slot_width)
        self.found = np.zeros((ROOM, layout.found_width), np.int64)
        self.spotted: set[int] = set()
        """Cells that were not present in some event so far."""

    def memory(self) -> ChainMemory:
        """What the kernels read and write."""
        return ChainMemory(self.runs, self.nodes, self.cells, self.slots, self.found, self.state)

    def reserve(self, events: int) -> None:
        """Room for the rows of that many events."""
        rows = int(self.state[at.ROWS])
        if rows + events > len(self.cells):
            cells = np.empty((2 * (rows + events), self.cells.shape[1]), np.int64)
            cells[:rows] = self.cells[:rows]
            self.cells = cells

    def end_runs(self, layout: ChainLayout, passing: tuple[Integers, Integers, int], *, final: bool) -> int:
        """Ends partial matches that have run out of window by the watermarks, or all of them; returns how many live."""
        state = self.state
        self.found = grown(self.found, int(state[at.MATCHES] + state[at.RUNS]))
        return int(end_runs(layout.tables.shape, self.memory(), layout.base, *passing, final))

    def listed(self, layout: ChainLayout, column: int = at.HEAD) -> Integers:
        """int64 (runs, 2): number and slot of every live partial match, or (HELD) of those that wait with their match."""
        listed = np.empty((int(self.state[at.RUNS]), 2), np.int64)
        return listed[: list_runs(self.memory(), layout.base + column, listed)]

    def waiting(self, layout: ChainLayout) -> int:
        """How many partial matches have a match to report that only time, or others, will release."""
        policy, waiting = int(layout.tables.shape[at.POLICY]), int(layout.tables.shape[at.WAITING])
        if waiting:
            return int(np.count_nonzero(self.runs[self.listed(layout)[:, 0], at.LENGTH] == waiting))
        return 0 if policy < 0 else int(np.count_nonzero(self.runs[self._in_use(layout)[:, 0], policy + at.BEST_LENGTH]))

    def _in_use(self, layout: ChainLayout) -> Integers:
        live = self.listed(layout)
        return np.concatenate([live, self.listed(layout, at.HELD)]) if layout.ordered else live

    def make_room(self, layout: ChainLayout) -> None:
        """Sweeps what is dead; tables of which more than half is alive after that double."""
        self.sweep(layout, self.cells)
        state, needed = self.state, int(self.state[at.NEEDED])
        self.nodes = grown(self.nodes, 2 * (int(state[at.NODES]) + needed))
        self.found = grown(self.found, 2 * (int(state[at.MATCHES]) + needed))
        if state[at.FREE] < 0:
            self.runs = grown(self.runs, 2 * int(state[at.RUNS]))

    def sweep(self, layout: ChainLayout, cells: Integers) -> None:
        """Keeps only what live partial matches and found matches need; cells move to a table (or inside their own)."""
        state = self.state
        nodes, rows = np.zeros(int(state[at.NODES]), np.int64), np.zeros(int(state[at.ROWS]), np.int64)
        sweep(layout.tables.shape, self.memory(), cells, self._in_use(layout), nodes, rows)
        self.cells = cells

    def compact(self, layout: ChainLayout, texts: TextTable, *, now: int) -> None:
        """Leaves nothing but what is alive, when no event to come is earlier than ``now``."""
        self.sweep(layout, np.empty_like(self.cells))
        self.drop_texts(layout, texts, now=now)
        self.renew_slots(layout, now=now)

    def drop_texts(self, layout: ChainLayout, texts: TextTable, *, now: int) -> None:
        """Drops texts that no stored event uses, where they have doubled. Only between chunks: candidates taken up hold numbers, too."""
        if not texts.doubled:
            return
        self.renew_slots(layout, now=now)
        columns, live = text_cells(layout.taking), slice(1, int(self.state[at.ROWS]))
        keys = [1 + k for k, key in enumerate(layout.tables.keys.tolist()) if key in columns]
        registers = [at.REGISTERS + k for k, cell in enumerate(layout.registers) if cell in columns]
        taken = self.slots[:, stacks.NEWEST] != stacks.FREE
        used = [self.cells[live][:, columns].reshape(-1), self.slots[taken][:, keys].reshape(-1)]
        renumbered = keep_used(texts, np.concatenate(used))
        # new arrays: matches that were handed out keep the old numbers
        self.cells = self.cells.copy()
        renumber_cells(self.cells[live], columns, renumbered)
        renumber_cells(self.runs[: self.state[at.RUNS]], registers, renumbered)
        for key in keys:
            self.slots[taken, key] = renumbered[self.slots[taken, key]]
        if keys:
            self.renew_slots(layout, now=now)

    def renew_slots(self, layout: ChainLayout, *, now: int) -> None:
        """A partition table with the live partitions only, an eighth to a quarter full."""
        live = self.slots[:, stacks.NEWEST] != stacks.FREE
        lists = [at.HEAD, at.HELD] if layout.ordered else [at.HEAD]
        needed = (self.slots[:, [layout.base + one for one in lists]] >= 0).any(axis=1)
        if layout.tables.shape[at.STARTS]:
            needed |= self._barred(layout, now)
        self._fill_slots(self.slots[live & needed], layout)

    def _barred(self, layout: ChainLayout, now: int) -> NDArray[np.bool_]:
        """Partitions whose newest event of a negated start may still be too near to a match that has not begun."""
        shape = layout.tables.shape
        marks = layout.base + int(shape[at.ORIGIN_SLOT])
        newest = self.slots[:, marks + at.NEWEST_BAR]
        here = self.slots[:, marks + at.P_RANK] if shape[at.RANKED] else now
        return (newest > at.NEVER) & (here - np.maximum(newest, at.NEVER) < shape[at.BAR])

    def _fill_slots(self, live: Integers, layout: ChainLayout) -> None:
        slots = empty_slots(slots_for(len(live)), layout.slot_width)
        places = key_places(len(layout.tables.keys))
        self.state[at.OCCUPIED] = refill_slots(places, live, slots, 0)
        self.slots = slots

    def saved(self) -> Mapping[str, NDArray[np.int64]]:
        """Arrays from which `load` makes the same memory; call `compact` before."""
        state = self.state
        return {
            "state": state,
            "runs": self.runs[: state[at.RUNS]],
            "nodes": self.nodes[: state[at.NODES]],
            "cells": self.cells[: state[at.ROWS]],
            "slots": self.slots[self.slots[:, stacks.NEWEST] != stacks.FREE],
        }

    def load(self, arrays: Mapping[str, NDArray[np.int64]], layout: ChainLayout) -> None:
        """Takes over what `saved` gave."""
        self.state[:] = arrays["state"]
        self.runs, self.nodes = (grown(arrays[name].copy(), max(ROOM, 2 * len(arrays[name]))) for name in ("runs", "nodes"))
        self.cells = arrays["cells"].copy()
        self.spotted = spotted_cells(self.cells[1:], layout.taking.states_at)
        self._fill_slots(arrays["slots"].copy(), layout)

    def validate(self, layout: ChainLayout) -> None:
        """Every partial match is on one list or free, and has as many events as it says.

        Raises:
            AssertionError: one of them does not.
        """
        live, runs = self._in_use(layout)[:, 0].tolist(), self.runs
        assert len(set(live)) == len(live), "a partial match is on two lists"  # noqa: S101
        counts = [at.COUNT, at.HELD_COUNT] if layout.ordered else [at.COUNT]
        taken = self.slots[self.slots[:, stacks.NEWEST] != stacks.FREE]
        assert len(live) == taken[:, [layout.base + one for one in counts]].sum(), "they are counted"  # noqa: S101
        free, run = set(), int(self.state[at.FREE])
        while run >= 0:
            assert run not in free, "the free ones are a ring"  # noqa: S101
            free.add(run)
            run = int(runs[run, at.NEXT_RUN])
        assert free | set(live) == set(range(int(self.state[at.RUNS]))), "every row is in use or free"  # noqa: S101
        assert not free & set(live), "a partial match is free"  # noqa: S101
        for run in live:
            node, count = int(runs[run, at.NEWEST_NODE]), 0
            while node >= 0:
                assert node < self.state[at.NODES], "an event does not exist"  # noqa: S101
                count, first = count + 1, node
                assert self.nodes[node, at.PARENT] < node, "events stand before those behind them"  # noqa: S101
                node = int(self.nodes[node, at.PARENT])
            assert count == runs[run, at.LENGTH], "a partial match has as many events as it says"  # noqa: S101
            assert self.cells[self.nodes[first, at.ROW], 0] == runs[run, at.FIRST_TIME], "and begins when it says"  # noqa: S101
