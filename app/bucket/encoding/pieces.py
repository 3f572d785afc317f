"""Records put together from pieces of text.

Every cell of a record is a span of text: numbers are written an array at a time, texts once per dictionary entry. A record is then constant text with its cells between, and its elements
(the events of a match, the values of a list) one after the other behind the last cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from app.bucket.encoding.kernels_pieces import Cells, Template, measure_records, write_records
from app.bucket.lists import starts_of


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Cells as texts, or records.

    Attributes:
        data: uint8 (bytes,).
        starts, ends: int64 (cells,).
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def to_bytes(self) -> list[bytes]:
        """Each one as an object."""
        data = self.data.tobytes()
        return [data[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]

    def at(self, codes: NDArray[Any]) -> Texts:
        """Some of them, in another order or more than once."""
        return Texts(self.data, self.starts[codes], self.ends[codes])

    def where(self, missing: NDArray[np.bool_], other: bytes) -> Texts:
        """These, and another text where they are missing."""
        if not missing.any():
            return self
        place = len(self.data)
        data = np.concatenate([self.data, np.frombuffer(other, dtype=np.uint8)])
        return Texts(data, np.where(missing, place, self.starts), np.where(missing, place + len(other), self.ends))


def texts_of(entries: Sequence[bytes]) -> Texts:
    """One cell for each."""
    bounds = starts_of(np.array([len(text) for text in entries], dtype=np.int64))
    return Texts(np.frombuffer(b"".join(entries), dtype=np.uint8), bounds[:-1], bounds[1:])


def repeated(text: bytes, size: int) -> Texts:
    """The same text in every cell."""
    return texts_of([text]).at(np.zeros(size, dtype=np.int64))


def decimals(values: NDArray[Any]) -> Texts:
    """Numbers as orjson writes them, NaN and infinity as null."""
    if not len(values):
        return texts_of([])
    data = np.frombuffer(orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY), dtype=np.uint8)
    commas = np.flatnonzero(data == ord(","))
    return Texts(data, np.concatenate([np.ones(1, np.int64), commas + 1]), np.append(commas, len(data) - 1))


def template_of(parts: Sequence[bytes], items: Sequence[bytes], between: bytes, end: bytes) -> Template:
    """Constant text, ready for the kernels.

    Args:
        parts: what stands before every cell, and behind the last one.
        items: what stands before an element, by its item.
        between: two elements.
        end: of a record.
    """
    texts = [*parts, *items, between, end]
    bounds = starts_of(np.array([len(text) for text in texts], dtype=np.int64))
    spans = np.stack([bounds[:-1], bounds[1:]], axis=1)
    count = len(parts)
    return Template(
        np.frombuffer(bytearray(b"".join(texts)), dtype=np.uint8),
        np.ascontiguousarray(spans[:count]),
        np.ascontiguousarray(spans[count:-2]),
        np.ascontiguousarray(spans[-2]),
        np.ascontiguousarray(spans[-1]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """What stands behind the cells of records.

    Attributes:
        bounds: int64 (records + 1,); those of record k stand at ``bounds[k] : bounds[k + 1]``.
        item: int64 (elements,), which of the template's items stands before each.
        texts: of the elements.
    """

    bounds: NDArray[np.int64]
    item: NDArray[np.int64]
    texts: Texts

    @staticmethod
    def alike(bounds: NDArray[np.int64], texts: Texts) -> Elements:
        """All of the first item."""
        return Elements(bounds, np.zeros(len(texts), dtype=np.int64), texts)


def cells_of(columns: Sequence[Texts], elements: Elements) -> Cells:
    """Cells, ready for the kernels: the texts of all in one.

    Args:
        columns: at least one, in order.
        elements: of the records.
    """
    everything = [*columns, elements.texts]
    shifts = starts_of(np.array([len(one.data) for one in everything], dtype=np.int64)).tolist()
    moved = [(one.starts + shift, one.ends + shift) for one, shift in zip(everything, shifts[:-1], strict=True)]
    return Cells(
        np.concatenate([one.data for one in everything]),
        np.ascontiguousarray(np.stack([starts for starts, _ in moved[:-1]])),
        np.ascontiguousarray(np.stack([ends for _, ends in moved[:-1]])),
        np.ascontiguousarray(elements.bounds, dtype=np.int64),
        np.ascontiguousarray(elements.item, dtype=np.int64),
        *moved[-1],
    )


def put_together(template: Template, cells: Cells) -> Texts:
    """The records, one after the other."""
    ends = np.empty(len(cells.bounds), dtype=np.int64)
    measure_records(template, cells, ends)
    data = np.empty(int(ends[-1]), dtype=np.uint8)
    write_records(template, cells, ends, data)
    return Texts(data, ends[:-1], ends[1:])


def side_by_side(*columns: Texts) -> Texts:
    """The cells of several columns as one.

    >>> side_by_side(texts_of([b"a", b"b"]), decimals(np.array([1, 22]))).to_bytes()
    [b'a1', b'b22']
    """
    nothing = Elements(np.zeros(len(columns[0]) + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), texts_of([]))
    return put_together(template_of([b""] * (len(columns) + 1), [], b"", b""), cells_of(columns, nothing))


def spans(texts: Texts) -> list[memoryview]:
    """Records that were put together, as views of their bytes."""
    view = texts.data.data
    return [view[start:end] for start, end in pairwise([*texts.starts.tolist(), len(texts.data)])]
