"""States of the stacks evaluator, put together and taken apart; see `app.cep.snapshot.regroup`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.cep.candidates.layout import text_constants
from app.cep.cells.arrays import Integers
from app.cep.engine import EngineOptions
from app.cep.partitions.arrays import KEY, NEWEST
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.regroup import (
    Arrays,
    Owner,
    Union,
    events_in,
    followed,
    in_total_order,
    is_of,
    moved,
    numbered,
    opened,
    packed,
    partitions_in,
    renumbered,
)
from app.cep.stacks import arrays as at
from app.cep.stacks.engine import STATE_FORMAT
from app.cep.stacks.layout import Layout, layout_of
from app.query.plan import Plan


def merged(plan: Plan, states: Sequence[Buffer]) -> Buffer:
    """One state of the partitions of all.

    Raises:
        SnapshotError: one of them is no state of the plan.
    """
    union, layout = _laid_out(plan, states)
    numbers, rows = in_total_order([state.arrays["cells"] for state in union.states])
    sources = [
        _Source(state.arrays, new, np.ones(len(state.arrays["slots"]), np.bool_)) for state, new in zip(union.states, numbers, strict=True)
    ]
    return packed(STATE_FORMAT, plan, union, _gathered(layout, sources, rows))


def parted(plan: Plan, state: Buffer, owner: Owner, parts: int) -> list[Buffer]:
    """The state's partitions, by the part that each goes to.

    Raises:
        SnapshotError: it is no state of the plan.
    """
    union, layout = _laid_out(plan, [state])
    arrays = union.states[0].arrays
    dictionary = union.known.texts.dictionary()
    rows = owner(events_in(arrays["cells"], layout.taking, dictionary))
    slots = owner(partitions_in(arrays["slots"], layout.taking, KEY, dictionary))
    found: list[Buffer] = []
    for part in range(parts):
        kept = is_of(rows, part)
        source = _Source(arrays, numbered(kept), is_of(slots, part))
        found.append(packed(STATE_FORMAT, plan, union, _gathered(layout, [source], int(np.count_nonzero(kept)))))
    return found


def _laid_out(plan: Plan, states: Sequence[Buffer]) -> tuple[Union, Layout]:
    union = opened(STATE_FORMAT, plan, states, text_constants(plan))
    layout = layout_of(plan, union.known.kinds, union.known.texts, EngineOptions())
    renumbered(union, layout.taking, KEY)
    return union, layout


@dataclass(frozen=True, slots=True)
class _Source:
    """Rows to be moved.

    Attributes:
        arrays: of the state that holds them.
        numbers: by place, the row's new number; -1: it is not moved.
        slots: bool (slots,), which of the partitions are.
    """

    arrays: Arrays
    numbers: Integers
    slots: NDArray[np.bool_]

    def follow(self, pointers: Integers) -> Integers:
        """New numbers of absolute rows; dead ones stay dead."""
        places = pointers - int(self.arrays["state"][at.LOW])
        return np.where(places >= 0, self.numbers[np.maximum(places, 0)], -1) if len(self.numbers) else np.full_like(pointers, -1)


def _gathered(layout: Layout, sources: Sequence[_Source], rows: int) -> Arrays:
    shape = layout.tables.shape
    stacks, chain, expiry = int(shape[at.STACKS]), int(shape[at.CHAIN]), int(shape[at.EXPIRY])
    links, cells = np.full((rows, layout.link_width), -1, np.int64), np.empty((rows, layout.taking.width), np.int64)
    if expiry >= 0:
        links[:, expiry] = 0
    state = np.zeros(at.WILD_HEADS + max(1, layout.wild_stacks), np.int64)
    state[at.WILD_HEADS :] = -1
    state[at.ROWS], state[at.PENDING_FREE] = rows, -1
    waiting: list[Integers] = []
    for source in sources:
        kept = np.flatnonzero(source.numbers >= 0)
        to, own = source.numbers[kept], source.arrays["links"][kept]
        cells[to] = source.arrays["cells"][kept]
        links[to, 0] = own[:, 0]
        # an event outside partitions is held by several: each knows the newest of those that it still holds
        links[to, 1 : 1 + stacks] = np.maximum(links[to, 1 : 1 + stacks], source.follow(own[:, 1 : 1 + stacks]))
        if expiry >= 0:
            links[to, expiry] = np.maximum(links[to, expiry], own[:, expiry])
        if chain >= 0:
            before = sum(map(len, waiting))
            numbers, entries = _waiting(source, own[:, chain], before)
            links[to, chain] = np.maximum(links[to, chain], moved(numbers, own[:, chain]))
            waiting.append(entries)
        heads = slice(at.WILD_HEADS, at.WILD_HEADS + layout.wild_stacks)
        state[heads] = np.maximum(state[heads], source.follow(source.arrays["state"][heads]))
    pending = np.concatenate([np.empty((0, 1 + int(shape[at.POSITIVES])), np.int64), *waiting])
    state[at.PENDING_TOP] = state[at.PENDING_LIVE] = len(pending)
    slots = np.concatenate([_slots(source, layout) for source in sources])
    return {"state": state, "links": links, "cells": cells, "slots": slots, "pending": pending}


def _waiting(source: _Source, heads: Integers, before: int) -> tuple[Integers, Integers]:
    """Matches that wait at rows that are moved: new numbers of the entries, behind those that are there ``before``; the entries."""
    table = source.arrays["pending"]
    used = followed(heads, table[:, 0])
    numbers = np.where(used, numbered(used) + before, -1)
    entries = table[used].copy()
    entries[:, 0] = moved(numbers, entries[:, 0])
    entries[:, 1:] = source.follow(entries[:, 1:])
    return numbers, entries


def _slots(source: _Source, layout: Layout) -> Integers:
    slots = source.arrays["slots"][source.slots].copy()
    heads = KEY + len(layout.taking.keys)
    tops = slice(heads, heads + int(layout.tables.shape[at.SLOT_STACKS]))
    slots[:, NEWEST] = source.follow(slots[:, NEWEST])
    slots[:, tops] = source.follow(slots[:, tops])
    return slots
