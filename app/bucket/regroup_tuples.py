"""States of temporal queries, put together and taken apart by key: the texts and the keys of what `app.coalesce.regroup` moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.bucket.temporal import STATE_FORMAT, TemporalEngine
from app.cep.preamble import Buffer
from app.cep.regroup import Arrays, Owner, Union, numbers_in, opened
from app.cep.snapshot import Header, pack
from app.coalesce import arrays as at
from app.coalesce import regroup
from app.coalesce.arrays import Integers
from app.errors import SnapshotError
from app.events.batch import NULL, Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.plan import Plan
from app.query.vocabulary import BUILT_IN


def merged(plan: Plan, states: Sequence[Buffer]) -> Buffer:
    """One state of the keys of all.

    Raises:
        SnapshotError: one of them is no state of the plan, or it bounds its memory.
    """
    union = _opened(plan, states)
    return _packed(plan, union, regroup.merged([_tables(state.arrays) for state in union.states]))


def parted(plan: Plan, state: Buffer, owner: Owner, parts: int) -> list[Buffer]:
    """The state's keys, by the part that each goes to.

    Raises:
        SnapshotError: it is no state of the plan, or it bounds its memory.
    """
    union = _opened(plan, [state])
    tables = _tables(union.states[0].arrays)
    owners = owner(_keys(plan, union, tables["keys"][:, at.CELLS :]))
    return [_packed(plan, union, part) for part in regroup.parted(tables, owners, parts)]


def _opened(plan: Plan, states: Sequence[Buffer]) -> Union:
    if plan.shedding.bounds_memory:
        raise SnapshotError("its memory is bounded, and which tuples stay was decided bucket by bucket")
    engine = TemporalEngine(plan)
    union = opened(STATE_FORMAT, plan, states, engine.constants)
    for state in union.states:
        arrays = state.arrays
        numbers = numbers_in(union.texts, arrays)
        for name in ("tuples", "keys", "runs"):
            arrays[name] = arrays[name].copy()
        arrays["tuples"][:, at.TYPE] = numbers[arrays["tuples"][:, at.TYPE]]
        for cells, places in zip((arrays["keys"][:, at.CELLS :], arrays["runs"][:, at.VALUES :]), engine.text_places(), strict=True):
            for place in places:
                there = cells[:, 0] >> place & 1 == 0
                cells[there, 1 + place] = numbers[cells[there, 1 + place]]
    return union


def _tables(arrays: Arrays) -> regroup.State:
    return {name: arrays[name] for name in ("tuples", "runs", "keys", "counters")}


def _packed(plan: Plan, union: Union, tables: regroup.State) -> Buffer:
    kinds = {name: kind.value for name, kind in union.kinds.items()}
    return b"".join(pack(STATE_FORMAT, Header(plan.fingerprint, kinds, partitioned=True), {**tables, **union.texts.saved()}))


def _keys(plan: Plan, union: Union, cells: Integers) -> EventBatch:
    """Every key as an event that has its attributes and nothing else."""
    assert plan.temporal is not None, "a temporal query"  # noqa: S101
    none = np.zeros(len(cells), np.int64)
    declared = {field.name: field.kind for field in plan.returns}
    columns = {}
    for place, name in enumerate(plan.temporal.key):
        if name not in BUILT_IN:
            columns[name] = _column(cells, place, union.kinds.get(name, declared[name]), union.texts.dictionary())
    return EventBatch(none, none, none, Column(Kind.STRING, none.astype(np.int32), None, union.texts.dictionary()), columns)


def _column(cells: Integers, place: int, kind: Kind, dictionary: Dictionary) -> Column:
    values, state = np.ascontiguousarray(cells[:, 1 + place]), np.where(cells[:, 0] >> place & 1, NULL, 0).astype(np.uint8)
    if kind.textual:
        return Column(kind, values.astype(np.int32), state, dictionary)
    return Column(kind, values.view(np.float64) if kind is Kind.FLOAT else values, state)
