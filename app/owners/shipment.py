"""What tasks send to owners: payloads by bucket; a payload's first byte says what it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

Payload = bytes | memoryview
CHUNK, REFUSED = b"C", b"R"
"""A chunk of events; refused records."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Records that are not matched, by place: late ones (``reason`` "late") and dead letters."""

    source: int
    offsets: tuple[int, ...]
    reason: str
    texts: tuple[str, ...] = ()

    def pack(self) -> bytes:
        """As payload."""
        return REFUSED + orjson.dumps([self.source, self.offsets, self.reason, self.texts])

    @staticmethod
    def unpack(payload: Payload) -> Refused:
        """What `pack` made."""
        source, offsets, reason, texts = orjson.loads(payload[1:])
        return Refused(source, tuple(offsets), reason, tuple(texts))


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a bucket got in one batch, from all tasks.

    Sorted, because tasks deliver in any order, and a repeated batch must write the same records.
    """

    chunks: Sequence[Payload]
    refused: Sequence[Refused]


def arrived(deliveries: Iterable[Mapping[int, Sequence[Payload]]], bucket: int) -> Arrived:
    """One bucket's part of all tasks' deliveries."""
    payloads = sorted(bytes(payload) for delivery in deliveries for payload in delivery.get(bucket, ()))
    chunks = [payload[1:] for payload in payloads if payload[:1] == CHUNK]
    return Arrived(chunks, [Refused.unpack(payload) for payload in payloads if payload[:1] == REFUSED])
