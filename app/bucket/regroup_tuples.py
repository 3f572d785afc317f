"""States of temporal queries, put together and taken apart by key: the texts and the keys of what `app.coalesce.regroup` moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from app.bucket.temporal import STATE_FORMAT, MemoryOf, TemporalEngine
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.regroup import Arrays, Owner, Union, numbers_in, opened, packed
from app.coalesce import arrays as at
from app.coalesce import regroup, regroup_bounded
from app.coalesce.arrays import Integers
from app.coalesce.bounded import OPEN_ROWS, is_memory, tables_of
from app.events.batch import NULL, Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.plan import Plan
from app.query.resolved.vocabulary import BUILT_IN


def merged(plan: Plan, states: Sequence[Buffer], memory_of: MemoryOf | None = None) -> Buffer:
    """One state of the keys of all.

    Args:
        plan: theirs.
        states: at least one.
        memory_of: makes its memory, where that is bounded.

    Raises:
        SnapshotError: one of them is no state of the plan.
        ValueError: it bounds its memory, and nobody says how.
    """
    union = _opened(plan, states, memory_of)
    tables = [_tables(state.arrays) for state in union.states]
    if not plan.shedding.bounds_memory:
        return packed(STATE_FORMAT, plan, union, regroup.merged(tables))
    tables, ranks = regroup_bounded.reranked(tables)
    every = [np.ones(len(state[OPEN_ROWS]), np.bool_) for state in tables]
    return packed(STATE_FORMAT, plan, union, {**regroup.merged(tables), **_bounded(plan, memory_of, tables, every, ranks)})


def parted(plan: Plan, state: Buffer, owner: Owner, parts: int, memory_of: MemoryOf | None = None) -> list[Buffer]:
    """The state's keys, by the part that each goes to; see `merged`.

    Raises:
        SnapshotError: it is no state of the plan.
    """
    union = _opened(plan, [state], memory_of)
    tables = _tables(union.states[0].arrays)
    found = regroup.parted(tables, owner(_keys(plan, union, tables["keys"][:, at.CELLS :])), parts)
    if plan.shedding.bounds_memory:
        owners = owner(_keys(plan, union, _open_tables(plan, tables[OPEN_ROWS])[0]))
        found = [{**part, **_bounded(plan, memory_of, [tables], [owners == k], [_as_they_are])} for k, part in enumerate(found)]
    return [packed(STATE_FORMAT, plan, union, part) for part in found]


def _bounded(
    plan: Plan,
    memory_of: MemoryOf | None,
    states: Sequence[regroup.State],
    keys: Sequence[NDArray[np.bool_]],
    ranks: Sequence[Callable[[Integers], Integers]],
) -> regroup.State:
    assert memory_of is not None, "without it there is no engine"  # noqa: S101
    return regroup_bounded.gathered(memory_of(plan), states, keys, ranks)


def _as_they_are(ranks: Integers) -> Integers:
    return ranks


def _open_tables(plan: Plan, rows: Integers) -> tuple[Integers, list[Integers]]:
    assert plan.temporal is not None, "a temporal query"  # noqa: S101
    return tables_of(rows, 1 + len(plan.temporal.key), 1 + len(plan.temporal.select))


def _opened(plan: Plan, states: Sequence[Buffer], memory_of: MemoryOf | None) -> Union:
    engine = TemporalEngine(plan, memory_of)
    union = opened(STATE_FORMAT, plan, states, engine.constants)
    key, values = engine.text_places()
    for state in union.states:
        arrays = state.arrays
        numbers = numbers_in(union.known.texts, arrays)
        for name in ("tuples", "keys", "runs", OPEN_ROWS):
            if name in arrays:
                arrays[name] = arrays[name].copy()
        arrays["tuples"][:, at.TYPE] = numbers[arrays["tuples"][:, at.TYPE]]
        tables = [(arrays["keys"][:, at.CELLS :], key), (arrays["runs"][:, at.VALUES :], values)]
        if OPEN_ROWS in arrays:
            keys, both = _open_tables(plan, arrays[OPEN_ROWS])
            tables += [(keys, key), *((cells, values) for cells in both)]
        for cells, places in tables:
            for place in places:
                there = cells[:, 0] >> place & 1 == 0
                cells[there, 1 + place] = numbers[cells[there, 1 + place]]
    return union


def _tables(arrays: Arrays) -> regroup.State:
    return {name: array for name, array in arrays.items() if name in ("tuples", "runs", "keys", "counters", OPEN_ROWS) or is_memory(name)}


def _keys(plan: Plan, union: Union, cells: Integers) -> EventBatch:
    """Every key as an event that has its attributes and nothing else."""
    assert plan.temporal is not None, "a temporal query"  # noqa: S101
    none = np.zeros(len(cells), np.int64)
    declared = {field.name: field.kind for field in plan.returns}
    columns = {}
    for place, name in enumerate(plan.temporal.key):
        if name not in BUILT_IN:
            columns[name] = _column(cells, place, union.known.kinds.get(name, declared[name]), union.known.texts.dictionary())
    return EventBatch(none, none, none, Column(Kind.STRING, none.astype(np.int32), None, union.known.texts.dictionary()), columns)


def _column(cells: Integers, place: int, kind: Kind, dictionary: Dictionary) -> Column:
    values, state = np.ascontiguousarray(cells[:, 1 + place]), np.where(cells[:, 0] >> place & 1, NULL, 0).astype(np.uint8)
    if kind.textual:
        return Column(kind, values.astype(np.int32), state, dictionary)
    return Column(kind, values.view(np.float64) if kind is Kind.FLOAT else values, state)
