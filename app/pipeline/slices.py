"""A task's records while they come in: Arrow batches put together to slices of moderate size, and what was read per topic partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.control.messages.reports import SourceProgress

SLICE_BYTES = 32 << 20
"""Most batches are smaller and so one slice, which costs least: joining slices copies what was decoded."""


def slices(batches: Iterator[pa.RecordBatch], limit: int = SLICE_BYTES) -> Iterator[pa.Table]:
    """Tables of at most so many bytes, or of one Arrow batch; none is empty. What was handed out is not kept."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if held and size + batch.nbytes > limit:
            yield pa.Table.from_batches(held)
            held, size = [], 0
        held.append(batch)
        size += batch.nbytes
    if held:
        yield pa.Table.from_batches(held)


def _int64_column(table: pa.Table, name: str) -> NDArray[np.int64]:
    """A column without nulls."""
    column = table.column(name)
    values: NDArray[np.int64] = column.to_numpy()
    return values.copy() if column.num_chunks == 1 else values  # a view would keep all bytes of the Arrow batch


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where the records of a slice stand, by row: source, offset, Kafka timestamp (ms) and bytes of the value, int64 (records,) each."""

    source: NDArray[np.int64]
    offset: NDArray[np.int64]
    ingested_ms: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def rows(self, rows: NDArray[np.int64]) -> Places:
        """Some of them."""
        return Places(self.source[rows], self.offset[rows], self.ingested_ms[rows], self.sizes[rows])


@dataclass(slots=True)
class Read:
    """What a task has read so far."""

    _parts: list[Places] = field(default_factory=list)

    def add(self, records: pa.Table) -> Places:
        """Notes a slice."""
        sizes = pc.fill_null(pc.binary_length(records.column("value")), 0).to_numpy()
        ingested_ms = _int64_column(records, "ingested_us") // 1000
        self._parts.append(Places(_int64_column(records, "source"), _int64_column(records, "offset"), ingested_ms, sizes))
        return self._parts[-1]

    def progress(self, greatest: Mapping[int, int]) -> tuple[SourceProgress, ...]:
        """Per topic partition. Rows of one lie together, in order of offset.

        Args:
            greatest: event times, ms, by source.
        """
        if not self._parts:
            return ()
        source, offset, ingested_ms, sizes = (
            _joined([getattr(part, name) for part in self._parts]) for name in ("source", "offset", "ingested_ms", "sizes")
        )
        return tuple(
            _progress(number, greatest.get(number), offset[own], ingested_ms[own], sizes[own])
            for number, own in ((number, np.flatnonzero(source == number)) for number in np.unique(source).tolist())
        )


def _joined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _progress(
    source: int, greatest: int | None, offset: NDArray[np.int64], ingested_ms: NDArray[np.int64], sizes: NDArray[np.int64]
) -> SourceProgress:
    return SourceProgress(
        source,
        len(offset),
        greatest,
        int(ingested_ms.min()),
        int(ingested_ms.max()),
        int(offset[0]),
        int(offset[-1]) + 1,
        int(sizes.sum(dtype=np.int64)),
    )
