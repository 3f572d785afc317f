"""Invariants of an engine's memory as code: tests call this after every step; it is slow and obvious."""

from __future__ import annotations

import numpy as np

from app.cep.partitions.arrays import FREE, KEY, NEWEST
from app.cep.partitions.kernels_slots import find_slot, hash_key
from app.cep.stacks import arrays as at
from app.cep.stacks.layout import Layout
from app.cep.stacks.store import Store


def validate_store(store: Store, layout: Layout) -> None:
    """Checks counters, links, partitions and chains of waiting matches.

    Raises:
        AssertionError: an invariant does not hold.
    """
    _counters_fit(store)
    _links_point_back(store, layout)
    _partitions_are_found(store, layout)
    _waiting_matches_are_chained(store, layout)


def _expect(holds: object, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def _counters_fit(store: Store) -> None:
    state = store.state
    _expect(0 <= state[at.BASE] <= state[at.LOW] <= state[at.ROWS], "rows die in order: base <= low <= rows")
    _expect(state[at.ROWS] - state[at.BASE] <= len(store.links) == len(store.cells), "all rows have a place")
    _expect(state[at.OCCUPIED] == np.count_nonzero(store.slots[:, NEWEST] != FREE), "used slots are counted")
    _expect(2 * state[at.OCCUPIED] <= len(store.slots), "the partition table is at most half full")


def _links_point_back(store: Store, layout: Layout) -> None:
    """Every pointer points to an earlier row, and a live target is not later in time (inside a partition)."""
    base, stop = int(store.state[at.BASE]), store.live.stop
    stacks = int(layout.tables.shape[at.STACKS])
    for place in range(store.live.start, stop):
        for row in store.links[place, 1 : 1 + stacks].tolist():
            _expect(row < base + place, "an event's links point to earlier events")
            if row >= base + store.live.start:
                _expect(store.links[row - base, 0] <= store.links[place, 0], "links point back in time")


def _partitions_are_found(store: Store, layout: Layout) -> None:
    keys = len(layout.tables.keys)
    places = np.arange(KEY, KEY + keys, dtype=np.int64)
    stacks = int(layout.tables.shape[at.SLOT_STACKS])
    low = int(store.state[at.LOW])
    for slot, row in enumerate(store.slots):
        if row[NEWEST] < low:
            continue
        _expect(row[NEWEST] < store.state[at.ROWS], "the newest event of a partition is stored")
        _expect(np.all(row[KEY + keys : KEY + keys + stacks] <= row[NEWEST]), "no stack is newer than its partition")
        found = find_slot(store.slots, places, store.slots, slot, hash_key(places, store.slots, slot), low)
        _expect(found == slot, "a live partition is found under its key")


def _waiting_matches_are_chained(store: Store, layout: Layout) -> None:
    chain = int(layout.tables.shape[at.CHAIN])
    if chain < 0:
        return
    base, seen = int(store.state[at.BASE]), 0
    for place in range(store.live.start, store.live.stop):
        entry = int(store.links[place, chain])
        while entry >= 0:
            seen += 1
            _expect(seen <= store.state[at.PENDING_LIVE], "chains end")
            rows = store.pending[entry, 1:]
            _expect(rows[0] == base + place, "a waiting match hangs on its first event")
            _expect(np.all(np.diff(rows) > 0), "its events are in order")
            entry = int(store.pending[entry, 0])
    _expect(seen == store.state[at.PENDING_LIVE], "every waiting match is on a chain")
