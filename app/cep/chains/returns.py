"""Builds the columns of the matches of chains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.cep.candidates.layout import Parts
from app.cep.cells.arrays import CELL_TIME, Integers, machine_scratch
from app.cep.cells.texts import TextTable
from app.cep.chains import arrays as at
from app.cep.chains.kernels_bound import fold, list_bound
from app.cep.chains.layout import ChainLayout
from app.cep.chains.store import ChainStore
from app.cep.matches import Constituents, Lists, Matches
from app.cep.returns.columns import Columns, FieldSource, event_table, typed_column
from app.events.batch import Column
from app.events.types import Kind
from app.query.planning.chain_values import Field
from app.query.planning.chains import Chain

_FUNCTIONS = {"sum": at.SUM, "avg": at.AVG, "min": at.MIN, "max": at.MAX}


def matches_of(chain: Chain, layout: ChainLayout, texts: TextTable, store: ChainStore) -> tuple[Matches, Matches | None]:
    """The matches found in a feed, and the partial matches that timed out (None: nobody asks)."""
    found = store.found[: store.state[at.MATCHES]]
    if chain.waits:
        return replace(_built(chain, layout, texts, store, found), time=found[:, at.FOUND_END].copy()), None
    if not chain.timeouts:
        return _built(chain, layout, texts, store, found), None
    ended = found[:, at.FOUND_END] != at.NO_END
    matches, timeouts = (_built(chain, layout, texts, store, found[which]) for which in (~ended, ended))
    return matches, replace(timeouts, time=found[ended, at.FOUND_END])


def _built(chain: Chain, layout: ChainLayout, texts: TextTable, store: ChainStore, found: Integers) -> Matches:
    """Rows of what was found as columns."""
    count = len(found)
    starts, anchored = np.zeros(count + 1, np.int64), np.empty((count, len(layout.anchors)), np.int64)
    items, rows = (np.empty(int(found[:, at.FOUND_LENGTH].sum()), np.int64) for _ in range(2))
    closed = int(chain.closing is not None)
    list_bound(store.nodes, found, layout.order, closed, layout.anchors, starts, items, rows, anchored)
    parts = Parts(layout.taking, texts, store)
    if layout.optional:
        # an event that is not there has no cell that is present
        store.spotted.update(range(layout.taking.states_at))
    columns = Columns(anchored, parts)
    time = FieldSource("", Kind.TIME, at.LAST, CELL_TIME, 0, 0)
    plain = [source for field, source in zip(chain.fields, layout.sources, strict=True) if source is not None and field.made == "value"]
    keys = [FieldSource(name, kind, at.FIRST, cell, 0, 0) for name, kind, cell in layout.taking.key]
    # equal in all events of a match: where a field returns it of the first or the last one, it is that column
    returned = {source.cell: source for source in plain if source.cell >= 0 and source.place <= at.LAST}
    asked = [key for key in keys if key.cell not in returned]
    gathered = columns.of([time, *plain, *asked])
    by_source = dict(zip([*plain, *asked], gathered[1:], strict=True))
    bound = Constituents(starts, items, rows)
    fields: dict[str, Column | Lists] = {}
    for field, source in zip(chain.fields, layout.sources, strict=True):
        if source is None:
            fields[field.name] = Column(Kind.INTEGER, _lengths(field, starts, closed))
        elif field.made == "value":
            fields[field.name] = by_source[source]
        elif field.made == "list":
            fields[field.name] = _elements(field, source, bound, parts, closed)
        else:
            fields[field.name] = _aggregate(field, source, layout, bound, parts, lengths=_lengths(field, starts, closed))
    key = {one.name: by_source[returned.get(one.cell, one)] for one in keys}
    stored = store.cells[: store.state[at.ROWS]] if count else store.cells[:0].copy()
    times = np.ascontiguousarray(gathered[0].values, np.int64)
    windows = found[:, at.FOUND_WINDOW].copy() if layout.tables.shape[at.WINDOW] else None
    return Matches(times, np.zeros((count, 0), np.int64), event_table(stored, texts), fields, key, bound, windows)


def _lengths(field: Field, starts: Integers, closed: int) -> Integers:
    """How many elements the field's closure has, match by match, with so many events behind it; of partial matches perhaps none."""
    behind = np.maximum(np.diff(starts) - field.first - closed, 0)
    return behind if field.count is None else np.minimum(behind, field.count)


def _elements(field: Field, source: FieldSource, bound: Constituents, parts: Parts, closed: int) -> Lists:
    """An attribute of all elements of a closure, match by match."""
    lengths = _lengths(field, bound.starts, closed)
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    places = np.arange(int(begins[-1])) + np.repeat(bound.starts[:-1] + field.first - begins[:-1], lengths)
    (values,) = Columns(bound.rows[places].reshape(-1, 1), parts).of([source])
    return Lists(values, begins)


def _aggregate(field: Field, source: FieldSource, layout: ChainLayout, bound: Constituents, parts: Parts, *, lengths: Integers) -> Column:
    """An aggregate over the elements of the closure, match by match."""
    count = len(bound.starts) - 1
    values, states = np.empty(count, np.int64), np.empty(count, np.uint8)
    is_float, to_float = int(source.kind is Kind.FLOAT), int(field.kind is Kind.FLOAT)
    own = (_FUNCTIONS[field.made], is_float, to_float, source.cell, layout.taking.states_at, field.first)
    stops = bound.starts[:-1] + field.first + lengths
    seen = fold(*own, bound.starts, stops, bound.rows, parts.store.cells, parts.texts.arrays(), machine_scratch(2), values, states)
    return typed_column(field.kind, parts.texts, values, states, seen)
