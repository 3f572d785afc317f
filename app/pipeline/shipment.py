"""What crosses the shuffle: one row is (bucket, payload); the payload's first byte says what it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

SHIPMENT_DDL = "bucket int, payload binary"
SHIPMENT_SCHEMA = pa.schema([("bucket", pa.int32()), ("payload", pa.binary())])
CHUNK, REFUSED, TICK = b"C", b"R", b"T"
"""A chunk of events; refused records; nothing but time."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Records that are not matched, by place: late ones (``reason`` "late") and dead letters."""

    source: int
    offsets: tuple[int, ...]
    reason: str
    texts: tuple[str, ...] = ()

    def pack(self) -> bytes:
        """As payload."""
        return REFUSED + json.dumps([self.source, self.offsets, self.reason, self.texts], separators=(",", ":")).encode()

    @staticmethod
    def unpack(payload: bytes) -> Refused:
        """What `pack` made."""
        source, offsets, reason, texts = json.loads(payload[1:])
        return Refused(source, tuple(offsets), reason, tuple(texts))


def shipment(rows: Sequence[tuple[int, bytes]]) -> pa.RecordBatch:
    """Rows for the shuffle."""
    return pa.RecordBatch.from_arrays(
        [pa.array([bucket for bucket, _ in rows], pa.int32()), pa.array([payload for _, payload in rows], pa.binary())],
        schema=SHIPMENT_SCHEMA,
    )


def payloads_by_bucket(batches: Iterable[pa.RecordBatch]) -> dict[int, list[bytes]]:
    """What arrived, by bucket. Sorted, because the order in which a shuffle delivers is not the same in a repeated batch."""
    found: dict[int, list[bytes]] = {}
    for batch in batches:
        for bucket, payload in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            found.setdefault(bucket, []).append(payload)
    return {bucket: sorted(payloads) for bucket, payloads in sorted(found.items())}
