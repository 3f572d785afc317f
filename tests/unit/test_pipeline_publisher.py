"""Corrections of composite events that are as large as they may be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.owners.egress import Headers, Limit, Records
from app.pipeline import publisher
from app.pipeline.publisher import Publisher
from app.pipeline.reconcile.corrections import FALSE, MISSED, RECONCILED, RETRACTED, corrected

MOST = 10_000
KEY = b"a key"
HEADERS: Headers = (
    ("ce_specversion", b"1.0"),
    ("ce_id", b"0" * 32),
    ("ce_source", b"/cep/queries/theft"),
    ("ce_type", b"cep.theft.v1"),
    ("ce_time", b"2026-01-01T00:00:00.000Z"),
    ("content-type", b"application/avro"),
)
"""Of every composite event; one of a window has a header more."""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Records]:
    """What went to Kafka."""
    gone: list[Records] = []
    outlet = SimpleNamespace(send=gone.append, flush=lambda: None)
    monkeypatch.setattr(publisher, "KafkaOutlet", lambda *_: outlet)
    monkeypatch.setattr(publisher, "shipped_options", lambda _: {})
    return gone


def made(largest: int = MOST) -> Publisher:
    settings: Any = SimpleNamespace(kafka=None, topics=SimpleNamespace(max_record_bytes=largest, dead_letters="letters"))
    return Publisher(settings)


def largest_value() -> bytes:
    """Of a composite event that the application publishes."""
    for size in range(MOST, 0, -1):
        records = Records(Limit(MOST, "letters"))
        records.add("found", KEY, bytes(size), HEADERS, composite=True)
        if not records.oversized:
            return bytes(size)
    raise AssertionError("none fits")


def kafka_bytes(key: bytes, value: bytes, headers: Headers) -> int:
    """Of a batch with this record alone, which is what a topic's ``max.message.bytes`` is held against (record format 2 of Kafka's protocol)."""

    def varint(number: int) -> int:
        return max(1, -(-(2 * number).bit_length() // 7))

    def long(data: bytes) -> int:
        return varint(len(data)) + len(data)

    body = 1 + varint(0) + varint(0) + long(key) + long(value) + varint(len(headers))
    body += sum(long(name.encode()) + long(content or b"") for name, content in headers)
    return 61 + varint(body) + body


@pytest.mark.parametrize(("ending", "reason"), [(RECONCILED, MISSED), (RETRACTED, FALSE)])
def test_a_correction_of_the_largest_composite_event_is_published_with_its_value(sent: list[Records], ending: str, reason: bytes) -> None:
    value, headers, publishing = largest_value(), corrected(HEADERS, ending, reason), made()
    publishing.add("found", KEY, value, headers)
    publishing.flush()
    (records,) = sent
    assert (records.topics, records.values, records.headers) == (["found"], [value], [headers])
    assert kafka_bytes(KEY, value, headers) <= MOST, "topics take no larger ones"


def test_a_correction_that_is_too_large_is_a_dead_letter_and_no_tombstone_on_the_topic(sent: list[Records]) -> None:
    """The limit has been lowered since the composite event was published."""
    publishing = made(MOST - 1000)
    publishing.add("found", KEY, largest_value(), corrected(HEADERS, RETRACTED, FALSE))
    publishing.flush()
    (records,) = sent
    (headers,) = records.headers
    assert (records.topics, records.values) == (["letters"], [None])
    assert dict(headers)["__connect.errors.exception.class.name"] == b"oversized"
    assert dict(headers)["ce_id"] == b"0" * 32
