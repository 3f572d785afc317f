"""Names of a file → names in queries, as the stream's configuration says (`Stream.rename`). A file may have either, or both; see `applying` for names that are one thing here and another there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from app.events.batch import ABSENT, PRESENT, Column, EventBatch, concatenate, take
from app.events.conform import as_kind
from app.events.types import Attribute, EventType, Kind

BUILT_IN = ("time", "type")
NUMBERS = {Kind.INTEGER, Kind.FLOAT}


def renamed(batch: EventBatch, renames: Mapping[str, str], record: str | None = None, kept: str | None = None) -> EventBatch:
    """Events with their columns under the names that queries use.

    Args:
        batch: in file order.
        renames: path (``a.b``, or ``Record.a.b`` for one type only) → name in queries.
        record: the one record of a stream whose types are values of an attribute; None: a type is a record.
        kept: a column that also stays what it is called, which is the type.

    Returns:
        What an event has under the name in queries wins over what it has under the name in the data.
    """
    if batch.type.dictionary is None or not renames:
        return batch
    types = [entry.decode() for entry in batch.type.dictionary.entries()]
    parts: dict[str, list[Column]] = {}
    for name, column in sorted(batch.columns.items(), key=lambda item: item[0] in renames.values(), reverse=True):
        targets = [name_in_queries(name, record or own, renames) for own in types]
        for target in dict.fromkeys(targets):
            if target not in BUILT_IN:
                own = np.array([one == target for one in targets], dtype=bool)[batch.type.values]
                parts.setdefault(target, []).append(column if own.all() else _only(column, own))
    if kept is not None and kept in batch.columns:
        parts[kept] = [batch.columns[kept]]
    columns = {name: _merged(batch, parts[name]) for name in _in_order(batch.columns, parts, types, renames, record)}
    return EventBatch(batch.time, batch.source, batch.offset, batch.type, columns)


def applying(batch: EventBatch, renames: Mapping[str, str], record: str | None = None) -> Mapping[str, str]:
    """The renames that a file's events are still in need of.

    One name may be that of one attribute in the data and that of another one in queries, as tag in ``{id: tag, tag: old}``. Where
    events have a name that only queries know (old), they have the names of queries, and such a name stays what it is.

    Args:
        batch: in file order.
        renames: as in `renamed`.
        record: as in `renamed`.
    """
    types = [] if batch.type.dictionary is None else [entry.decode() for entry in batch.type.dictionary.entries()]
    records = {record} if record is not None else set(types)
    known = set(renames.values())
    both = {*known, *(f"{own}.{name}" for own in records for name in known)} & renames.keys()
    if not both:
        return renames
    of_queries = [name for name in batch.columns if name in known and all(name_in_queries(name, own, renames) == name for own in records)]
    told = any(_has_any(batch.columns[name]) for name in of_queries)
    return {path: name for path, name in renames.items() if path not in both} if told else renames


def _has_any(column: Column) -> bool:
    """Whether there is an event that has the attribute."""
    return bool(len(column.values) if column.state is None else (column.state != ABSENT).any())


def renamed_types(types: Sequence[EventType], batch: EventBatch, renames: Mapping[str, str]) -> tuple[EventType, ...]:
    """Event types that came from the data, with the attributes of the renamed events.

    Args:
        types: of the data.
        batch: the renamed events.
        renames: as in `renamed`.
    """
    found = []
    for one in types:
        names = dict.fromkeys(name_in_queries(attribute.name, one.name, renames) for attribute in one.attributes)
        columns = {name: batch.columns[name] for name in names if name in batch.columns}
        found.append(EventType(one.name, tuple(Attribute(name, column.kind, nullable=True) for name, column in columns.items())))
    return tuple(found)


def name_in_queries(path: str, record: str, renames: Mapping[str, str]) -> str:
    """What queries call an attribute.

    >>> name_in_queries("tagId", "Exit", {"tagId": "tag", "Exit.tagId": "exit_tag"}), name_in_queries("n", "Exit", {})
    ('exit_tag', 'n')
    """
    return renames.get(f"{record}.{path}", renames.get(path, path))


def _in_order(
    columns: Iterable[str], parts: Iterable[str], types: Sequence[str], renames: Mapping[str, str], record: str | None
) -> list[str]:
    """Names in queries, in the order of the file's columns."""
    named = dict.fromkeys(name_in_queries(name, record or own, renames) for name in columns for own in types)
    return list(dict.fromkeys([*(name for name in named if name in set(parts)), *parts]))


def _only(column: Column, own: NDArray[np.bool_]) -> Column:
    """The cells of some events; all others do not have the attribute."""
    state = np.zeros(len(own), dtype=np.uint8) if column.state is None else column.state
    return Column(column.kind, column.values, np.where(own, state, ABSENT).astype(np.uint8), column.dictionary)


def _merged(batch: EventBatch, columns: Sequence[Column]) -> Column:
    """One column of several: the first that has a value has its way."""
    first = columns[0]
    for other in columns[1:]:
        first = _both(batch, first, other)
    return first


def _both(batch: EventBatch, first: Column, other: Column) -> Column:
    if first.state is None:
        return first
    kind = first.kind if first.kind is other.kind else Kind.FLOAT if {first.kind, other.kind} <= NUMBERS else Kind.STRING
    parts = [EventBatch(batch.time, batch.source, batch.offset, batch.type, {"one": as_kind(column, kind)}) for column in (first, other)]
    state = np.zeros(len(batch), dtype=np.uint8) if other.state is None else other.state
    # of two that have none, one that is null wins over one that is absent
    taken = (first.state != PRESENT) & ((state == PRESENT) | (first.state == ABSENT))
    rows = np.arange(len(batch), dtype=np.int64)
    return take(concatenate(parts), np.where(taken, rows + len(batch), rows)).columns["one"]
