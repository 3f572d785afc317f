"""Builds the columns of the matches, and of the timeouts, of stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from app.cep.candidates.layout import Parts
from app.cep.cells.arrays import ALL_ABSENT, Integers
from app.cep.cells.texts import TextTable
from app.cep.matches import Matches
from app.cep.returns.columns import Columns, FieldSource, event_table
from app.cep.stacks.arrays import BASE, ROWS, Output
from app.cep.stacks.layout import Layout
from app.cep.stacks.store import Store
from app.events.batch import Column


def matches_of(output: Output, count: int, layout: Layout, texts: TextTable, store: Store) -> Matches:
    """The first ``count`` matches of an output as columns."""
    rows, time = output.rows[:count], output.time[:count]
    if 2 * count + 1024 < len(output.time):  # do not keep a large buffer alive for a few matches
        rows, time = rows.copy(), time.copy()
    parts = Parts(layout.taking, texts, store)
    stored = int(store.state[ROWS] - store.state[BASE])
    cells = store.cells[:stored] if count else store.cells[:0].copy()
    columns = Columns(rows, parts).of(layout.fields)
    fields = {field.name: column for field, column in zip(layout.fields, columns, strict=True)}
    return Matches(time, rows, event_table(cells, texts), fields, _key(rows, parts, layout.fields, fields))


def timeouts_of(output: Output, count: int, layout: Layout, texts: TextTable, store: Store) -> Matches:
    """The first ``count`` timeouts of an output as columns. They are few: their events are copied, and one that has nothing is added."""
    parts = Parts(layout.taking, texts, store)
    rows, time = output.expired_rows[:count].copy(), output.expired_time[:count].copy()
    used, places = np.unique(rows[rows >= 0], return_inverse=True)
    rows[rows >= 0] = places
    nothing = np.zeros((1, layout.taking.width), np.int64)
    nothing[0, layout.taking.states_at :] = ALL_ABSENT
    cells = np.concatenate([store.cells[used], nothing])
    bound = np.where(rows >= 0, rows, len(used))
    columns = Columns(bound, parts, cells).of(layout.fields)
    fields = {field.name: column for field, column in zip(layout.fields, columns, strict=True)}
    sources = [FieldSource(name, kind, 0, cell, 0, 0) for name, kind, cell in parts.taking.key]
    key = {source.name: column for source, column in zip(sources, Columns(bound, parts, cells).of(sources), strict=True)}
    return Matches(time, rows, event_table(cells[:-1], texts), fields, key)


def _key(rows: Integers, parts: Parts, sources: Sequence[FieldSource], fields: Mapping[str, Column]) -> dict[str, Column]:
    """The partition key; where a field returns the attribute of some event, it is that column: equal in all events of a match."""
    known = {field.cell: fields[field.name] for field in sources if field.cell >= 0}
    key = {}
    for name, kind, cell in parts.taking.key:
        if cell not in known:
            (known[cell],) = Columns(rows, parts).of([FieldSource(name, kind, 0, cell, 0, 0)])
        key[name] = known[cell]
    return key
