"""Columns with names → pieces: what files have in common whose rows all have the same attributes (CSV, Parquet, Arrow)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from app.events.batch import Column, Dictionary, EventBatch
from app.events.learnt import Learnt, Piece
from app.events.rows import TIME_FACTORS, BadValueError, time_in_ms
from app.events.types import Kind
from app.files.row_files import FileFormat


class RereadError(Exception):
    """Columns that were taken for something else turn out to be texts; their files are to be read again from the beginning."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = frozenset(names)


def tabular_piece(columns: Mapping[str, Column | None], lines: NDArray[np.int64], file_format: FileFormat, learnt: Learnt) -> Piece | None:
    """Columns as events; None where single rows want looking at, or kinds do not go together.

    Args:
        columns: by name, in their order; None: nothing but nulls.
        lines: int64 (events,), 0-based.
        file_format: where type and time stand.
        learnt: takes what the columns teach, unless None comes back.
    """
    own = next((column for place in file_format.time_places if (column := columns.get(place)) is not None), None)
    time = time_at_once(own, file_format.time_unit)
    types = _types(columns.get(file_format.type_attribute), file_format.type_name, len(lines))
    if time is None or types is None or types.dictionary is None:
        return None
    attributes = {name: column for name, column in columns.items() if name not in file_format.taken}
    present = {name: _widened(column, learnt.known(name)) for name, column in attributes.items() if column is not None}
    if any(not _fits(column.kind, name, learnt) for name, column in present.items()):
        return None
    streams = columns.get("stream")
    if streams is not None and streams.kind is not Kind.STRING:
        return None
    used = np.bincount(types.values, minlength=len(types.dictionary))
    entries = types.dictionary.entries()
    learnt.shapes.update({(entries[k].decode(), *attributes): None for k in np.flatnonzero(used).tolist()})
    learnt.kinds.update({name: column.kind for name, column in present.items()})
    return Piece(EventBatch(time, np.zeros(len(time), np.int64), lines, types, present), lines, streams)


def _fits(kind: Kind, name: str, learnt: Learnt) -> bool:
    """Whether a column's kind goes with what is known of the attribute."""
    known = learnt.known(name)
    return known in (None, kind) or ((known, kind) == (Kind.INTEGER, Kind.FLOAT) and name not in learnt.given)


def _widened(column: Column, known: Kind | None) -> Column:
    if column.kind is Kind.INTEGER and known is Kind.FLOAT:
        return Column(Kind.FLOAT, column.values.astype(np.float64), column.state)
    return column


def _types(column: Column | None, name: str | None, size: int) -> Column | None:
    if column is None and name is not None:
        return Column(Kind.STRING, np.zeros(size, np.int32), None, Dictionary.of([name.encode()]))
    return None if column is None or column.state is not None or column.kind is not Kind.STRING else column


def time_at_once(column: Column | None, unit: str) -> NDArray[np.int64] | None:
    """Milliseconds of a column of integers, times or ISO-8601 texts; None for anything else."""
    if column is None or column.state is not None:
        return None
    if column.kind is Kind.TIME:
        return column.values.astype(np.int64)
    if column.kind is Kind.STRING and column.dictionary is not None:
        return _time_of_texts(column)
    if column.kind is not Kind.INTEGER:
        return None
    multiplier, divisor = TIME_FACTORS[unit]
    if len(column.values) and np.abs(column.values.astype(np.float64)).max() * multiplier > 2.0**62:
        return None
    found: NDArray[np.int64] = column.values.astype(np.int64) * multiplier // divisor
    return found


def _time_of_texts(column: Column) -> NDArray[np.int64] | None:
    """Each distinct text is read once."""
    assert column.dictionary is not None  # noqa: S101 - a text column
    try:
        distinct = [time_in_ms(entry.decode()) for entry in column.dictionary.entries()]
    except BadValueError:
        return None
    found: NDArray[np.int64] = np.array(distinct, dtype=np.int64)[column.values]
    return found
