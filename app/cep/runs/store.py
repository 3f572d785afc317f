"""The memory of a runs engine: tables that grow, and are swept when they are full. Memory follows live runs, not everything ever seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.cep.candidates.layout import spotted_cells, text_cells
from app.cep.cells.arrays import ALL_ABSENT, Integers, Programs, Scratch, Texts
from app.cep.cells.tables import grown
from app.cep.cells.texts import TextTable, keep_used, renumber_cells
from app.cep.partitions import arrays as stacks
from app.cep.partitions.kernels_slots import refill_slots
from app.cep.partitions.slots import empty_slots, key_places, slots_for
from app.cep.runs import arrays as at
from app.cep.runs.arrays import Addresses, RunMachine, RunMemory, RunTables, world_of
from app.cep.runs.kernels_outside import mark_newest
from app.cep.runs.kernels_sweep import least_window, mark, mark_negated, mark_slots, move, number_marked
from app.cep.runs.layout import RunLayout

ROOM = 256
"""Matches that a new engine has room for."""
NODES_IN_CACHE = 1 << 21
"""Cells of nodes: 16 MB."""
_LINE, _TABLE = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
_NO_MACHINE = RunMachine(Programs(_TABLE, _TABLE), Texts(np.zeros(0, np.uint8), _LINE), Scratch(_LINE, _LINE), _LINE)


class Holder(Protocol):
    """Who holds matches back (`app.cep.runs.policies.Policies`): their nodes stay, and get new numbers."""

    def held_nodes(self) -> Integers:
        """Nodes that must stay."""

    def held_windows(self) -> Integers:
        """Windows that their matches were found in."""

    def move(self, numbers: Integers) -> None:
        """Nodes have new numbers."""


class RunStore:
    """Arrays of one engine, see `app.cep.runs.arrays`.

    Args:
        layout: widths of the tables.
    """

    def __init__(self, layout: RunLayout) -> None:
        self.state = np.zeros(at.WILD_HEADS + max(1, layout.wild_lists), np.int64)
        self.state[at.WILD_HEADS :] = -1
        self.state[at.LAST_TIME] = -at.END_OF_TIME
        self.nodes = np.zeros((4 * ROOM, layout.node_width), np.int64)
        self.cells = np.zeros((0, layout.taking.width), np.int64)
        self.slots = empty_slots(64, layout.slot_width)
        self.negated = np.zeros((64, 4), np.int64)
        self.crossed = np.zeros((ROOM, 4), np.int64)
        self.waiting = np.zeros((64, 6), np.int64)
        self.windows = np.zeros((64, 4), np.int64)
        self.found = np.zeros((ROOM, 3), np.int64)
        self.expired = np.zeros((ROOM, 3), np.int64)
        self.spotted: set[int] = set()
        """Cells that were not present in some event so far."""
        self.addresses = Addresses()
        """Of what kernels get, as of the last time."""
        self.rows_stay = False
        """While matches that were handed over in this feed name rows by their number."""
        self._grow_cells(1, layout)
        self.cells[at.ABSENT_ROW, layout.taking.states_at :] = ALL_ABSENT
        self.state[at.ROWS] = 1

    def memory(self) -> RunMemory:
        """What the kernels read and write."""
        return RunMemory(
            self.nodes,
            self.cells,
            self.slots,
            self.negated,
            self.crossed,
            self.waiting,
            self.windows,
            self.state,
            self.found,
            self.expired,
        )

    def _world(self, tables: RunTables) -> Integers:
        """For kernels that evaluate nothing."""
        return world_of(tables, _NO_MACHINE, self.memory())

    def reserve(self, events: int, layout: RunLayout) -> None:
        """Room for the rows, negated events and windows of that many events."""
        self._grow_cells(int(self.state[at.ROWS]) + events + 1, layout)
        shape = layout.static["shape"]
        self.negated = grown(self.negated, int(self.state[at.NEGATED]) + events * int(shape[at.LISTS]) + 1)
        if shape[at.WINDOW_KIND] in at.LISTED_WINDOWS:
            self.windows = grown(self.windows, int(self.state[at.WINDOWS] - self.state[at.WINDOW_BASE]) + events + 1)

    def sweep_rows(self, events: int, tables: RunTables, layout: RunLayout, held: Holder, *, now: int) -> None:
        """Before the rows double for that many events, those go that nobody needs: where no partial match begins nothing else fills up. Where more than half stay they double."""
        if self.rows_stay or int(self.state[at.ROWS]) + events < len(self.cells):
            return
        self._sweep(tables, held, now)
        if 2 * (int(self.state[at.ROWS]) + events) >= len(self.cells):
            self._grow_cells(len(self.cells) + 1, layout)

    def _grow_cells(self, rows: int, layout: RunLayout) -> None:
        width = layout.taking.width
        if self.cells.shape[1] != width:
            raise ValueError("the width of cells has changed")
        if rows > len(self.cells):
            cells = np.empty((2 * rows, width), np.int64)
            cells[: len(self.cells)] = self.cells
            self.cells = cells

    def grow_output(self) -> None:
        """Room for twice as many matches and timeouts."""
        self.found = grown(self.found, 2 * len(self.found) + int(self.state[at.WAITS]))
        self.expired = grown(self.expired, 4 * len(self.expired))

    def make_room(self, tables: RunTables, held: Holder, *, now: int, fan: int, again: bool) -> None:
        """Sweeps what is dead; where more than half is alive after that, or it is swept ``again`` in one feed, the tables double."""
        self._sweep(tables, held, now)
        needed = int(self.state[at.NEEDED]) + fan + 2
        roomy = NODES_IN_CACHE // self.nodes.shape[1] if again else 0
        self.nodes = grown(self.nodes, max(2 * int(self.state[at.NODES]) + 2 * needed, min(2 * len(self.nodes), roomy)))
        negations = len(tables.negations)
        self.crossed = grown(self.crossed, 2 * int(self.state[at.CROSSINGS]) + 2 * (needed + 1) * negations)
        self.waiting = grown(self.waiting, 2 * int(self.state[at.WAITS]) + 2 * needed)
        self.found = grown(self.found, max(2 * int(self.state[at.MATCHES]) + 2 * needed, min(2 * len(self.found), roomy)))
        self.expired = grown(self.expired, 2 * int(self.state[at.EXPIRED]) + 2 * needed)

    def compact(self, tables: RunTables, texts: TextTable, layout: RunLayout, held: Holder, *, now: int) -> None:
        """Leaves nothing but what is alive, when no event to come is earlier than ``now``."""
        self._sweep(tables, held, now)
        self.drop_texts(tables, texts, layout)
        self.renew_slots(tables)

    def drop_texts(self, tables: RunTables, texts: TextTable, layout: RunLayout) -> None:
        """Drops texts that no stored event uses, where they have doubled. Only between chunks: candidates taken up hold numbers, too."""
        if texts.doubled and not self.rows_stay:
            self._keep_texts(texts, layout, tables)

    def let_rows_go(self, tables: RunTables, held: Holder, *, now: int) -> None:
        """Sweeps the rows that had to stay during a feed."""
        if self.rows_stay:
            self.rows_stay = False
            self.state[at.EXPIRED] = 0
            self._sweep(tables, held, now)

    def _sweep(self, tables: RunTables, held: Holder, now: int) -> None:
        state, memory = self.state, self.memory()
        world = self._world(tables)
        counts = [int(state[k]) for k in (at.ROWS, at.NODES, at.CROSSINGS, at.NEGATED)]
        rows, nodes, crossings, negated = (np.zeros(max(1, count), np.int64) for count in counts)
        rows[at.ABSENT_ROW] = 1
        mark(world, held.held_nodes(), nodes, rows, crossings)
        mark_negated(world, nodes, rows, negated, now)
        if tables.shape[at.REACHING]:
            mark_newest(world, rows, negated)
        base = self._kept_windows(tables, held, nodes, rows)
        kept = [number_marked(marks, count) for marks, count in zip((nodes, crossings, negated), counts[1:], strict=True)]
        kept_rows = counts[0] if self.rows_stay else number_marked(rows, counts[0])
        if self.rows_stay:
            rows = np.arange(len(rows))
        new = memory._replace(
            nodes=np.empty_like(self.nodes),
            cells=self.cells if self.rows_stay else np.empty_like(self.cells),
            crossed=np.empty_like(self.crossed),
            negated=np.empty_like(self.negated),
        )
        move(world, world_of(tables, _NO_MACHINE, new), nodes, rows, crossings, negated, base)
        held.move(nodes)
        self.nodes, self.cells, self.crossed, self.negated = new.nodes, new.cells, new.crossed, new.negated
        for counter, count in zip((at.ROWS, at.NODES, at.CROSSINGS, at.NEGATED), (kept_rows, *kept), strict=True):
            state[counter] = count

    def _kept_windows(self, tables: RunTables, held: Holder, nodes: Integers, rows: Integers) -> int:
        """The first window that is still of interest; events that opened later ones stay."""
        state = self.state
        if tables.shape[at.WINDOW_KIND] not in at.LISTED_WINDOWS:
            return 0
        base = least_window(self._world(tables), int(state[at.WINDOW_FIRST_OPEN]), nodes, int(state[at.NODES]))
        base = max(min(base, int(held.held_windows().min(initial=base))), int(state[at.WINDOW_BASE]))
        kept = self.windows[base - state[at.WINDOW_BASE] : state[at.WINDOWS] - state[at.WINDOW_BASE], at.O_ROW]
        rows[kept[(kept >= 0) & (kept < len(rows))]] = 1
        return int(base)

    def _keep_texts(self, texts: TextTable, layout: RunLayout, tables: RunTables) -> None:
        columns = text_cells(layout.taking)
        live = slice(0, int(self.state[at.ROWS]))
        used = self.cells[live][:, columns].reshape(-1)
        keys = [(k, key) for k, key in enumerate(tables.keys.tolist()) if key in columns]
        slots = self.slots[self.slots[:, stacks.NEWEST] != stacks.FREE]
        used = np.concatenate([used, *(slots[:, 1 + k] for k, _ in keys)])
        renumbered = keep_used(texts, used)
        renumber_cells(self.cells[live], columns, renumbered)
        if keys:
            for k, _ in keys:
                taken = self.slots[:, stacks.NEWEST] != stacks.FREE
                self.slots[taken, 1 + k] = renumbered[self.slots[taken, 1 + k]]
            self.renew_slots(tables)

    def renew_slots(self, tables: RunTables) -> None:
        """A partition table with the live partitions only, an eighth to a quarter full."""
        mark_slots(self._world(tables))
        live = int(np.count_nonzero(self.slots[:, stacks.NEWEST] >= 0))
        slots = empty_slots(slots_for(live), self.slots.shape[1])
        self.state[at.OCCUPIED] = refill_slots(key_places(len(tables.keys)), self.slots, slots, 0)
        self.slots = slots

    def used_bytes(self) -> int:
        """Of the rows in use of all tables that follow partial matches: what is live, and what is dead and not swept yet."""
        state = self.state
        tables = (
            (self.nodes, at.NODES),
            (self.cells, at.ROWS),
            (self.crossed, at.CROSSINGS),
            (self.negated, at.NEGATED),
            (self.waiting, at.WAITS),
        )
        return sum(int(state[counter]) * table.shape[1] * table.itemsize for table, counter in tables)

    def saved(self) -> Mapping[str, NDArray[np.int64]]:
        """Arrays from which `load` makes the same memory; call `compact` before."""
        state = self.state
        return {
            "state": state,
            "nodes": self.nodes[: state[at.NODES]],
            "cells": self.cells[: state[at.ROWS]],
            "slots": self.slots[self.slots[:, stacks.NEWEST] != stacks.FREE, : at.S_SEEN],
            "negated": self.negated[: state[at.NEGATED]],
            "crossed": self.crossed[: state[at.CROSSINGS]],
            "waiting": self.waiting[: state[at.WAITS]],
            "windows": self.windows[: state[at.WINDOWS] - state[at.WINDOW_BASE]],
        }

    def load(self, arrays: Mapping[str, NDArray[np.int64]], layout: RunLayout, states: Integers) -> None:
        """Takes over what `saved` gave; ``states``: by number in the snapshot, the number in this automaton."""
        self.state[:] = arrays["state"]
        for name in ("nodes", "cells", "negated", "crossed", "waiting", "windows"):
            own, given = getattr(self, name), arrays[name]
            table = np.zeros((max(len(own), 2 * len(given) + 64), own.shape[1]), np.int64)
            table[: len(given)] = given
            setattr(self, name, table)
        count = int(self.state[at.NODES])
        old = self.nodes[:count, at.STATE].copy()
        self.nodes[:count, at.STATE] = np.where(old >= 0, states[np.maximum(old, 0)], at.LEFT - states[np.maximum(at.LEFT - old, 0)])
        self.spotted = spotted_cells(self.cells[1 : self.state[at.ROWS]], layout.taking.states_at)
        self.slots = empty_slots(slots_for(len(arrays["slots"])), layout.slot_width)
        places = key_places(len(layout.static["keys"]))
        slots = np.pad(arrays["slots"], ((0, 0), (0, 1)), constant_values=-1)
        self.state[at.OCCUPIED] = refill_slots(places, slots, self.slots, 0)

    def validate(self, tables: RunTables) -> None:
        """Every run is on one list, behind its parent, in a state that is known.

        Raises:
            AssertionError: one of them is not.
        """
        base = 1 + len(tables.keys)
        seen: set[int] = set()
        for slot in self.slots[self.slots[:, stacks.NEWEST] != stacks.FREE]:
            node, listed = int(slot[base + at.S_HEAD]), list[int]()
            while node >= 0:
                assert node not in seen, f"run {node} is on two lists"  # noqa: S101
                assert node < self.state[at.NODES], f"run {node} does not exist"  # noqa: S101
                assert 0 <= self.nodes[node, at.STATE] < len(tables.states), f"run {node} has no state"  # noqa: S101
                assert self.nodes[node, at.PARENT] < node, f"run {node} is older than its parent"  # noqa: S101
                seen.add(node)
                listed.append(node)
                node = int(self.nodes[node, at.NEXT_RUN])
            assert len(listed) == slot[base + at.S_COUNT], "runs of a partition are counted"  # noqa: S101
            assert slot[at.S_SEEN] in {-1, *listed}, "the run up to which shedders have looked is on the list"  # noqa: S101
