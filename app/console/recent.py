"""Recent composite events and what audits say of them, read from their topics when somebody looks. All of it is foreign text."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import fastavro

from app.delivery.composite_schema import NAMESPACE, RETRACTED, record_name
from app.delivery.tail import Tail, TailRecord, Tails
from app.errors import DependencyError
from app.events.avro import AvroSchema, SchemaError
from app.events.wire import MAGIC_ID
from app.query.plan import Plan

MOST_SHOWN = 20
MOST_AUDIT_RECORDS = 2000
"""That are looked through for a query's verdicts. The audit topic is everybody's, and has a shed report with every batch: 200 of its records are half a minute."""
LONGEST_TEXT = 500
"""Of a field's value."""
MOST_CONSTITUENTS = 50
"""A match of a closure can have thousands."""
VERDICT = "cep.audit.Verdict"

SchemaOf = Callable[[int], AvroSchema | None]


class Recent:
    """Reads topics of the application's output.

    Args:
        tails: the last records of topics.
        schema_of: the schema of an id of the registry.
    """

    def __init__(self, tails: Tails, schema_of: SchemaOf) -> None:
        self._tails, self._schema_of = tails, schema_of

    def composite_events(self, plan: Plan, topic: str) -> dict[str, Any]:
        """The newest composite events of a query, as JSON values."""
        tail = self._tails.last(topic)
        read = self._read(tail.records, f"{NAMESPACE}.{record_name(plan.name)}")
        own = [(record, value) for record, value in read if value.get("query") == plan.name]
        return _told(tail, [_composite_event(record, value) for record, value in _standing(own)])

    def verdicts(self, query: str, topic: str) -> dict[str, Any]:
        """The newest verdicts on a query's composite events, as JSON values."""
        tail = self._tails.last(topic, MOST_AUDIT_RECORDS)
        own = [record for record in tail.records if record.key == query.encode()]
        return _told(tail, [value for _, value in self._read(own, VERDICT) if value.get("query") == query])

    def _read(self, records: Iterable[TailRecord], name: str) -> Iterator[tuple[TailRecord, dict[str, Any]]]:
        """The records of a schema of this name that are what it says, as JSON values."""
        for record in records:
            schema = self._schema(record.value)
            if schema is None or str(schema.records()[0].get("name", "")) != name:
                continue
            if (value := decoded(record.value or b"", schema)) is not None:
                yield record, value

    def _schema(self, value: bytes | None) -> AvroSchema | None:
        if value is None or len(value) < 5 or value[0] != MAGIC_ID:
            return None
        try:
            schema = self._schema_of(int.from_bytes(value[1:5], "big"))
        except (DependencyError, SchemaError):
            return None
        return schema if schema is not None and len(schema.records()) == 1 else None


def decoded(value: bytes, schema: AvroSchema) -> dict[str, Any] | None:
    """A record's value as JSON values; None when it is not what its schema says."""
    try:
        found = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema.root, None)
    except Exception:  # noqa: BLE001 - whatever stands on a topic
        return None
    return plain(found) if isinstance(found, dict) else None


def plain(value: Any) -> Any:
    r"""A decoded value as JSON values of moderate size: times in ms since the epoch, bytes as hexadecimal text.

    >>> plain({"a": b"\x01", "b": [1, None]})
    {'a': '01', 'b': [1, None]}
    """
    match value:
        case dict():
            return {str(name): plain(one) for name, one in value.items()}
        case list():
            return [plain(one) for one in value[:MOST_CONSTITUENTS]]
        case datetime():
            return round(value.timestamp() * 1000)
        case bytes():
            return _short(value[:LONGEST_TEXT].hex())
        case bool() | int() | float() | None:
            return value
    return _short(str(value))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def _standing(newest_first: Iterable[tuple[TailRecord, dict[str, Any]]]) -> Iterator[tuple[TailRecord, dict[str, Any]]]:
    """Of each composite event the newest record, unless that takes it back; a batch that is repeated writes it once more."""
    known = set[str]()
    for record, value in newest_first:
        if (identity := str(value.get("id"))) not in known:
            known.add(identity)
            if not (dict(record.headers).get("ce_type") or b"").endswith(RETRACTED.encode()):
                yield record, value


def _composite_event(record: TailRecord, value: Mapping[str, Any]) -> dict[str, Any]:
    place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    return {**value, "place": place, "latency_ms": _latency(value)}


def _latency(value: Mapping[str, Any]) -> int | None:
    """How long after its match time it was built, by event time; queries on recordings have none that means anything."""
    detected, matched = value.get("detected_at"), value.get("time")
    return detected - matched if isinstance(detected, int) and isinstance(matched, int) else None


def _told(tail: Tail, records: list[dict[str, Any]]) -> dict[str, Any]:
    return {"records": records[:MOST_SHOWN], "looked_at": len(tail.records), "problem": tail.problem}


def with_verdicts(events: list[dict[str, Any]], verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Composite events, each with its verdict's word where there is one.

    >>> with_verdicts([{"id": "a"}, {"id": "b"}], [{"composite_event": "b", "verdict": "CONFIRMED"}])
    [{'id': 'a', 'verdict': None}, {'id': 'b', 'verdict': 'CONFIRMED'}]
    """
    words = {verdict.get("composite_event"): verdict.get("verdict") for verdict in verdicts}
    return [{**event, "verdict": words.get(event.get("id"))} for event in events]
