"""Columns as Avro: cells of records whose optional values are unions with null in front."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.chunk import compacted
from app.bucket.encoding.kernels_avro import write_numbers
from app.bucket.encoding.pieces import Elements, Texts, cells_of, put_together, repeated, side_by_side, template_of, texts_of
from app.bucket.values import whole_numbers
from app.cep.matches import Lists
from app.events.batch import Column
from app.events.types import Kind

NULL = b"\x00"
VALUE = b"\x02"
"""Branches of a union with null in front."""


def number(value: int) -> bytes:
    r"""A zigzag number.

    >>> number(3), number(-65)
    (b'\x06', b'\x81\x01')
    """
    bits, data = (value << 1) ^ (value >> 63), bytearray()
    while bits >= 128:
        data.append(bits & 127 | 128)
        bits >>= 7
    return bytes([*data, bits])


def text(value: bytes) -> bytes:
    """A string, or bytes."""
    return number(len(value)) + value


def numbers(values: NDArray[Any]) -> Texts:
    """Zigzag numbers."""
    data, ends = np.empty(10 * len(values), dtype=np.uint8), np.empty(len(values) + 1, dtype=np.int64)
    used = write_numbers(np.ascontiguousarray(values, dtype=np.int64), data, ends)
    return Texts(data[:used], ends[:-1], ends[1:])


def counts_of(bounds: NDArray[np.int64]) -> Texts:
    """How many elements arrays have, as what stands before them; an array without any has no block at all, only what ends it."""
    counts = np.diff(bounds)
    several = numbers(counts)
    return Texts(several.data, several.starts, np.where(counts > 0, several.ends, several.starts))


def nulls(size: int) -> Texts:
    """Of any union."""
    return repeated(NULL, size)


def union(texts: Texts, missing: NDArray[np.bool_] | None = None) -> Texts:
    """Values behind the number of their branch; null where they are missing."""
    valued = side_by_side(repeated(VALUE, len(texts)), texts)
    return valued if missing is None else valued.where(missing, NULL)


def of_column(column: Column, kind: Kind, *, nan: bool) -> Texts:
    """Return values of this kind as unions, null where they are null or absent.

    Args:
        column: may hold floats where whole numbers are declared; what is no number of 64 bit is null then, others are rounded half away from zero.
        kind: as declared.
        nan: whether NaN and infinity are written as they are; null otherwise.
    """
    missing = np.zeros(len(column.values), dtype=bool) if column.state is None else column.state != 0
    if column.dictionary is not None:
        return _of_entries(compacted(column), kind, missing)
    values = column.values
    if kind is Kind.FLOAT:
        doubles = np.ascontiguousarray(values, dtype="<f8")
        starts = np.arange(len(values), dtype=np.int64) * 8
        return union(Texts(doubles.view(np.uint8), starts, starts + 8), missing if nan else missing | ~np.isfinite(doubles))
    if kind is Kind.BOOLEAN:
        starts = np.arange(len(values), dtype=np.int64)
        return union(Texts((values != 0).astype(np.uint8), starts, starts + 1), missing)
    if values.dtype.kind == "f":
        values, none = whole_numbers(values)
        missing = missing | none
    return union(numbers(np.where(missing, 0, values)), missing)


def _of_entries(column: Column, kind: Kind, missing: NDArray[np.bool_]) -> Texts:
    """Each entry is written once."""
    entries = [] if column.dictionary is None else column.dictionary.entries()
    if not entries:
        return nulls(len(missing))
    encoded = [VALUE + text(entry if kind is Kind.BYTES else entry.decode(errors="replace").encode()) for entry in entries]
    return texts_of(encoded).at(np.where(missing, 0, column.values)).where(missing, NULL)


def of_lists(lists: Lists, kind: Kind, *, nan: bool) -> Texts:
    """Lists as arrays of one block, null where they are empty; ``nan`` as in `of_column`."""
    elements = Elements.alike(lists.starts, of_column(lists.values, kind, nan=nan))
    arrays = put_together(template_of([VALUE, b""], [b""], b"", NULL), cells_of([counts_of(lists.starts)], elements))
    return arrays.where(lists.starts[1:] == lists.starts[:-1], NULL)
