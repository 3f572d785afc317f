"""Recent composite events and what audits say of them, read from their topics when somebody looks. All of it is foreign text."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import fastavro

from app.console.schemas import Look, SchemaOf, Schemas
from app.delivery.composite_schema import NAMESPACE, RETRACTED, record_name
from app.delivery.tail import Tail, TailRecord, Tails
from app.events.avro import AvroSchema
from app.query.plan import Plan

MOST_SHOWN = 20
MOST_AUDIT_RECORDS = 2000
"""That are looked through for a query's verdicts. The audit topic is everybody's, and has a shed report with every batch: 200 of its records are half a minute."""
LONGEST_TEXT = 500
"""Of a field's value."""
MOST_CONSTITUENTS = 50
"""A match of a closure can have thousands."""
VERDICT = "cep.audit.Verdict"


class Recent:
    """Reads topics of the application's output.

    Args:
        tails: the last records of topics.
        schema_of: the schema of an id of the registry.
    """

    def __init__(self, tails: Tails, schema_of: SchemaOf) -> None:
        self._tails, self._schemas = tails, Schemas(schema_of)

    def of_query(self, plan: Plan, topic: str, audit: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The newest composite events of a query, each with its verdict, and the newest verdicts, as JSON values.

        Args:
            plan: of the query.
            topic: of its composite events.
            audit: the audit topic.
        """
        look = self._schemas.look()
        tail, audits = self._tails.last(topic), self._tails.last(audit, MOST_AUDIT_RECORDS)
        events = list(islice(_standing(_own(tail.records, f"{NAMESPACE}.{record_name(plan.name)}", plan.name, look)), MOST_SHOWN))
        unread = look.problem
        judged = [record for record in audits.records if record.key == plan.name.encode()]
        verdicts = [plain(value) for _, value in _own(judged, VERDICT, plan.name, look)]
        shown = with_verdicts([_composite_event(record, value) for record, value in events], verdicts)
        return _told(tail, unread, shown), _told(audits, look.problem, verdicts[:MOST_SHOWN])


def _own(records: Iterable[TailRecord], name: str, query: str, look: Look) -> Iterator[tuple[TailRecord, dict[str, Any]]]:
    """A query's records of a schema of this name that are what it says."""
    for record in records:
        schema = look.schema(record.value)
        if schema is None or str(schema.records()[0].get("name", "")) != name:
            continue
        value = decoded(record.value or b"", schema)
        if value is not None and value.get("query") == query:
            yield record, value


def decoded(value: bytes, schema: AvroSchema) -> dict[str, Any] | None:
    """A record's value; None when it is not what its schema says."""
    try:
        found = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema.root, None)
    except Exception:  # noqa: BLE001 - whatever stands on a topic
        return None
    return found if isinstance(found, dict) else None


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
    """As JSON values, with how many constituents it has: of a list only the first are told."""
    place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    told, events = plain(value), value.get("events")
    return {**told, "constituents": len(events) if isinstance(events, list) else 0, "place": place, "latency_ms": _latency(told)}


def _latency(value: Mapping[str, Any]) -> int | None:
    """How long after its match time it was built, by event time; queries on recordings have none that means anything."""
    detected, matched = value.get("detected_at"), value.get("time")
    return detected - matched if isinstance(detected, int) and isinstance(matched, int) else None


def _told(tail: Tail, unread: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    return {"records": records, "looked_at": len(tail.records), "problem": "; ".join(filter(None, (tail.problem, unread)))}


def with_verdicts(events: Sequence[dict[str, Any]], verdicts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Composite events, each with its newest verdict's word where there is one.

    Args:
        events: as JSON values.
        verdicts: as JSON values, the newest first.

    >>> with_verdicts([{"id": "a"}, {"id": "b"}], [{"composite_event": "b", "verdict": "CONFIRMED"}])
    [{'id': 'a', 'verdict': None}, {'id': 'b', 'verdict': 'CONFIRMED'}]
    """
    words = {str(verdict.get("composite_event")): verdict.get("verdict") for verdict in reversed(verdicts)}
    return [{**event, "verdict": words.get(str(event.get("id")))} for event in events]
