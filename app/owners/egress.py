"""What leaves the application as records of the Kafka sink: shed reports, late events and dead letters, and with them composite events and timeouts (`app.owners.composites`).

All kinds leave through one sink of one query, so they are delivered together. A repeated batch makes the same records: nothing here
reads the clock, times come from the directive. Only `detected_at` of composite events is the moment at which an owner built them, so it alone may differ when a batch is repeated;
who looks for duplicates goes by ``ce_id``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import fastavro
import pyarrow as pa

from app.control.messages.decision_reports import DecisionReport
from app.control.messages.shed_reports import QualityReport, ShedReport
from app.delivery.dead_letters import (
    OFFSET_HEADER,
    ORIGINALS_HEADER,
    PARTITION_HEADER,
    PROBLEM_HEADER,
    REASON_HEADER,
    TEXT_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
)
from app.delivery.originals import Original
from app.delivery.record_headers import RecordHeaders
from app.owners.deployment import OutputTopic

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
OUTPUT_SCHEMA = pa.schema([("topic", pa.string()), ("key", pa.binary()), ("value", pa.binary()), ("headers", _HEADERS)])

Headers = RecordHeaders
OWN_HEADERS = ("__connect.errors.", "ce_", "cep.")

LONGEST_TEXT = 2000
"""Texts may quote what a record holds."""
REQUEST_OVERHEAD = 48 << 10
"""What the producer may add around a record of the largest size."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest record that is written, and where composite events go that are larger."""

    record_bytes: int = 1_000_000
    dead_letters_topic: str = ""


@dataclass(slots=True)
class Records:
    """Records for the sink, collected column by column. None is larger than the limit: one that is would end the query."""

    limit: Limit = Limit()
    oversized: int = 0
    """Composite events that were too large."""
    topics: list[str] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)

    def add(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, *, composite: bool = False, more_bytes: int = 0
    ) -> None:
        """Appends one record; what is too large goes without its value, and to the dead letters if it is a composite event: nobody else can complete it.

        Args:
            topic: where it goes.
            key: its key.
            value: its value.
            headers: its headers.
            composite: whether it is a composite event.
            more_bytes: that it may have beyond the limit.
        """
        size = _size(key, value, headers)
        if size > self.limit.record_bytes + more_bytes:
            topic, key, value, headers = self._cut(topic, size, key, headers, composite=composite)
        self.topics.append(topic)
        self.keys.append(key)
        self.values.append(value)
        self.headers.append(headers)

    def extend(
        self, topic: str, keys: Sequence[bytes | None], values: Sequence[bytes], headers: Sequence[Headers], longest: Headers
    ) -> None:
        """Appends composite events, each as `add` would.

        ``keys``, ``values`` and ``headers`` are of each, at least one; ``longest`` are the headers that no others exceed.
        """
        largest = max(map(len, values)) + max(len(key or b"") for key in keys) + _size(None, None, longest)
        if largest > self.limit.record_bytes:
            for key, value, own in zip(keys, values, headers, strict=True):
                self.add(topic, key, value, own, composite=True)
            return
        self.topics += [topic] * len(values)
        self.keys += keys
        self.values += values
        self.headers += headers

    def _cut(
        self, topic: str, size: int, key: bytes | None, headers: Headers, *, composite: bool
    ) -> tuple[str, bytes | None, bytes | None, Headers]:
        """Without the value; where that is not enough, without foreign headers and key as well."""
        told: Headers = ((ORIGINALS_HEADER, b"oversized"),)
        if composite:
            self.oversized += 1
            text = f"a composite event for {topic} has {size} bytes, topics.max_record_bytes is {self.limit.record_bytes}"
            told = ((REASON_HEADER, b"oversized"), (TEXT_HEADER, text.encode()))
            topic = self.limit.dead_letters_topic
        if _size(key, None, (*headers, *told)) > self.limit.record_bytes:
            key, headers = None, tuple(one for one in headers if one[0].startswith(OWN_HEADERS) and len(one[1] or b"") < REQUEST_OVERHEAD)
        return topic, key, None, (*headers, *told)

    def __len__(self) -> int:
        return len(self.topics)

    def to_arrow(self) -> pa.RecordBatch:
        """One batch of `OUTPUT_SCHEMA`."""
        headers = [[{"key": name, "value": value} for name, value in record] for record in self.headers]
        columns = [
            pa.array(self.topics, pa.string()),
            pa.array(self.keys, pa.binary()),
            pa.array(self.values, pa.binary()),
            pa.array(headers, _HEADERS),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=OUTPUT_SCHEMA)


def _size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Bytes of a record, at most."""
    return len(key or b"") + len(value or b"") + sum(len(name) + len(content or b"") + 10 for name, content in headers) + 100


@lru_cache(maxsize=4096)
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))


def encode(output: OutputTopic, value: dict[str, Any]) -> bytes:
    """A record in the registry's wire format: a zero byte, the schema's id, Avro."""
    stream = io.BytesIO()
    stream.write(b"\0" + output.schema_id.to_bytes(4, "big"))
    fastavro.schemaless_writer(stream, _parsed(output.schema), value)
    return stream.getvalue()


def add_reports(records: Records, reports: Iterable[ShedReport | QualityReport | DecisionReport], output: OutputTopic | None) -> None:
    """What shedding did in the batch before, what it cost over minutes, or what was decided, one record per query; nothing where there is no output for it."""
    if output is not None:
        for report in reports:
            add_audit_record(records, output, report.query, report.to_avro())


def add_audit_record(records: Records, output: OutputTopic, query: str, value: dict[str, Any]) -> None:
    """One record of the audit topic, keyed by its query."""
    records.add(output.topic, query.encode(), encode(output, value), (("content-type", b"application/avro"),))


def add_late_events(records: Records, topic: str, originals: Iterable[Original]) -> None:
    """Late events as they came, with where they came from."""
    for original in originals:
        records.add(topic, original.key, original.value, (*original.headers, *_origin(original), ("cep.reason", b"late")))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a record became a dead letter. ``reason`` is a stable word, ``text`` says more."""

    offset: int
    reason: str
    text: str


def add_dead_letters(records: Records, topic: str, application: str, originals: Sequence[Original], failures: Sequence[Failure]) -> None:
    """Dead letters with original key, value, headers and timestamp, and the ``__connect.errors.*`` headers of Kafka Connect."""
    reasons = {failure.offset: failure for failure in failures}
    for original in originals:
        failure = reasons[original.offset]
        added: Headers = (
            *_origin(original),
            ("__connect.errors.connector.name", application.encode()),
            ("__connect.errors.stage", b"VALUE_CONVERTER"),
            (REASON_HEADER, failure.reason.encode()),
            (TEXT_HEADER, failure.text.encode()[:LONGEST_TEXT]),
        )
        records.add(topic, original.key, original.value, (*original.headers, *added))


def _origin(original: Original) -> Headers:
    return (
        (TOPIC_HEADER, original.topic.encode()),
        (PARTITION_HEADER, str(original.partition).encode()),
        (OFFSET_HEADER, str(original.offset).encode()),
        (TIMESTAMP_HEADER, str(original.timestamp_ms).encode()),
        *_missing(original),
    )


def _missing(original: Original) -> Headers:
    if original.found and original.problem:
        return ((ORIGINALS_HEADER, b"without headers"), (PROBLEM_HEADER, original.problem.encode()[:LONGEST_TEXT]))
    if original.found:
        return ()
    if not original.problem:
        return ((ORIGINALS_HEADER, b"gone"),)
    return ((ORIGINALS_HEADER, b"unreadable"), (PROBLEM_HEADER, original.problem.encode()[:LONGEST_TEXT]))
