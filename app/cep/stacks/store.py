"""The memory of an engine: stored events, partitions, waiting matches. Memory follows live windows, not everything ever seen.

Rows are only appended, and die from the oldest on. Between feeds, when room is needed, the live ones move to new arrays; matches that were
handed out keep the old ones. Partitions that died are overwritten by new ones, and dropped when their table is renewed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from app.cep.candidates.layout import spotted_cells, text_cells
from app.cep.cells.texts import TextTable, keep_used, renumber_cells
from app.cep.partitions.arrays import KEY, NEWEST
from app.cep.partitions.kernels_slots import live_slots, refill_slots
from app.cep.partitions.slots import empty_slots, key_places, slots_for
from app.cep.stacks import arrays as at
from app.cep.stacks.arrays import Memory
from app.cep.stacks.layout import Layout


class Store:
    """Arrays of one engine, see `app.cep.stacks.arrays.Memory`.

    Args:
        layout: widths of the tables.
    """

    def __init__(self, layout: Layout) -> None:
        self.state = np.zeros(at.WILD_HEADS + max(1, layout.wild_stacks), np.int64)
        self.state[at.PENDING_FREE] = -1
        self.state[at.WILD_HEADS :] = -1
        self.links = np.empty((0, layout.link_width), np.int64)
        self.cells = np.empty((0, layout.taking.width), np.int64)
        self.slots = empty_slots(64, layout.slot_width)
        self.pending = np.empty((0, 1 + int(layout.tables.shape[at.POSITIVES])), np.int64)
        self.spotted: set[int] = set()
        """Cells that were not present in some event so far; the others need no look at their states."""

    def memory(self) -> Memory:
        """What the kernels read and write."""
        return Memory(self.links, self.cells, self.slots, self.pending, self.state)

    @property
    def live(self) -> slice:
        """Places of the live rows."""
        base = int(self.state[at.BASE])
        return slice(int(self.state[at.LOW]) - base, int(self.state[at.ROWS]) - base)

    def prepare(self, expected: int, texts: TextTable, layout: Layout) -> None:
        """Room for that many more rows, so that a feed never moves rows; texts that died go when they are as many as the live ones."""
        if int(self.state[at.ROWS] - self.state[at.BASE]) + expected > len(self.links):
            live = self.live.stop - self.live.start
            self._move(live + max(expected, min(live, 1 << 20), 1024))
        if texts.doubled:
            self.renew_slots(layout)
            self._keep_texts(texts, layout)

    def _move(self, capacity: int) -> None:
        live = self.live
        count = live.stop - live.start
        links = np.empty((capacity, self.links.shape[1]), np.int64)
        cells = np.empty((capacity, self.cells.shape[1]), np.int64)
        links[:count], cells[:count] = self.links[live], self.cells[live]
        self.links, self.cells = links, cells
        self.state[at.BASE] = self.state[at.LOW]

    def compact(self, texts: TextTable, layout: Layout) -> None:
        """Leaves nothing but what is alive."""
        self._move(self.live.stop - self.live.start)
        self.renew_slots(layout)
        self._keep_texts(texts, layout)

    def _keep_texts(self, texts: TextTable, layout: Layout) -> None:
        # new arrays: matches that were handed out keep the old numbers, and dead rows do not keep dangling ones
        self._move(len(self.links))
        live, columns = self.live, text_cells(layout.taking)
        renumbered = keep_used(texts, self.cells[live][:, columns])
        renumber_cells(self.cells[live], columns, renumbered)
        keys = layout.taking.keys.tolist()
        if set(keys) & set(columns):
            slots = empty_slots(len(self.slots), self.slots.shape[1])
            alive = self.slots[self.slots[:, NEWEST] >= self.state[at.LOW]].copy()
            for k, key in enumerate(keys):
                if key in columns:
                    alive[:, KEY + k] = renumbered[alive[:, KEY + k]]
            self.state[at.OCCUPIED] = refill_slots(key_places(len(layout.taking.keys)), alive, slots, self.state[at.LOW])
            self.slots = slots

    def renew_slots(self, layout: Layout) -> None:
        """A partition table with the live partitions only, an eighth to a quarter full."""
        low = int(self.state[at.LOW])
        slots = empty_slots(slots_for(live_slots(self.slots, low)), layout.slot_width)
        self.state[at.OCCUPIED] = refill_slots(key_places(len(layout.taking.keys)), self.slots, slots, low)
        self.slots = slots

    def grow_pending(self, room: int) -> None:
        """Room for that many more waiting matches."""
        top = int(self.state[at.PENDING_TOP])
        pending = np.empty((2 * (top + room), self.pending.shape[1]), np.int64)
        pending[:top] = self.pending[:top]
        self.pending = pending

    def saved(self) -> Mapping[str, NDArray[np.int64]]:
        """Arrays from which `load` makes the same memory; call `compact` before."""
        alive = self.slots[self.slots[:, NEWEST] >= self.state[at.LOW]]
        live = self.live
        top = int(self.state[at.PENDING_TOP])
        return {"state": self.state, "links": self.links[live], "cells": self.cells[live], "slots": alive, "pending": self.pending[:top]}

    def load(self, arrays: Mapping[str, NDArray[np.int64]], layout: Layout) -> None:
        """Takes over what `saved` gave."""
        self.state[:] = arrays["state"]
        self.links, self.cells, self.pending = (arrays[name].copy() for name in ("links", "cells", "pending"))
        self.slots = empty_slots(slots_for(len(arrays["slots"])), layout.slot_width)
        self.spotted = spotted_cells(self.cells, layout.taking.states_at)
        self.state[at.OCCUPIED] = refill_slots(
            key_places(len(layout.taking.keys)), arrays["slots"].copy(), self.slots, int(self.state[at.LOW])
        )
