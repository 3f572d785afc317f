"""The Avro schemas of a query's composite events and of its timeouts. One subject per query and kind: ``<topic>-<record name>``.

The schemas follow the query's ``return`` fields; everything else is the same for all queries, save the window: its number, or the place
of the event that opened it.
"""

from __future__ import annotations

import re
from typing import Any

from app.bucket.identity import opener_windows
from app.events.types import Kind
from app.query.plan import Plan, ReturnField

NAMESPACE = "cep"
RECONCILED, RETRACTED = ".reconciled", ".retracted"
"""What ``ce_type`` ends in where a reconciliation has added a composite event, or taken it back."""
AVRO_TYPES: dict[Kind, Any] = {
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "long",
    Kind.FLOAT: "double",
    Kind.STRING: "string",
    Kind.BYTES: "bytes",
    Kind.TIME: {"type": "long", "logicalType": "timestamp-millis"},
    Kind.DURATION: {"type": "long", "doc": "milliseconds"},
}
CONSTITUENT = {
    "type": "record",
    "name": "Constituent",
    "namespace": NAMESPACE,
    "doc": "An event that the match bound, by its place in Kafka.",
    "fields": [
        {"name": "variable", "type": ["null", "string"], "doc": "null for an anonymous item"},
        {"name": "type", "type": "string"},
        {"name": "topic", "type": "string"},
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def record_name(query: str) -> str:
    """A query's name as an Avro record name.

    >>> record_name("price-run")
    'PriceRun'
    """
    return "".join(part.capitalize() for part in query.split("-"))


def field_name(name: str) -> str:
    """A return field's name as Avro allows it: a dot or bracket becomes an underscore.

    >>> field_name("s_position.x")
    's_position_x'
    """
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return cleaned if re.match(r"[A-Za-z_]", cleaned) else f"_{cleaned}"


def subject(topic: str, plan: Plan) -> str:
    """The registry's subject of the composite events: topic and record name, since several queries may share a topic."""
    return f"{topic}-{NAMESPACE}.{record_name(plan.name)}"


def timeout_subject(topic: str, plan: Plan) -> str:
    """The registry's subject of the timeouts."""
    return f"{topic}-{NAMESPACE}.{record_name(plan.name)}Timeout"


def _return_type(field: ReturnField) -> Any:
    element = ["null", AVRO_TYPES[field.kind]]
    return ["null", {"type": "array", "items": element}] if field.array else element


def composite_schema(plan: Plan) -> dict[str, Any]:
    """The Avro schema of the plan's composite events, as JSON-like Python."""
    return _schema(plan, record_name(plan.name), plan.title or f"Composite events of the query {plan.name}.")


def timeout_schema(plan: Plan) -> dict[str, Any]:
    """The Avro schema of the plan's partial matches that timed out: as of composite events, and what is missing."""
    schema = _schema(plan, f"{record_name(plan.name)}Timeout", f"Partial matches of the query {plan.name} that ran out of their window.")
    missing = {"type": "array", "items": "string"}
    told = "what has no event: variables in textual order, of anonymous items their types"
    return {**schema, "fields": [*schema["fields"], {"name": "missing", "type": missing, "doc": told}]}


def _schema(plan: Plan, name: str, doc: str) -> dict[str, Any]:
    time = {"type": "long", "logicalType": "timestamp-millis"}
    returned = [{"name": field_name(f.name), "type": _return_type(f), "default": None} for f in plan.returns]
    return {
        "type": "record",
        "name": name,
        "namespace": NAMESPACE,
        "doc": doc,
        "fields": [
            {"name": "id", "type": "string", "doc": "stable identity: equal input, equal id"},
            {"name": "query", "type": "string"},
            {"name": "version", "type": "int"},
            {"name": "time", "type": time, "doc": "match time"},
            {
                "name": "detected_at",
                "type": time,
                "doc": "when it was built, by the clock of whoever built it; a repeated micro-batch writes the same id at another time",
            },
            _window(plan),
            {"name": "partition_key", "type": ["null", "string"], "default": None, "doc": "values of the equivalence attributes"},
            {"name": "fields", "type": {"type": "record", "name": f"{name}Fields", "fields": returned}},
            {"name": "events", "type": {"type": "array", "items": CONSTITUENT}},
        ],
    }


def _window(plan: Plan) -> dict[str, Any]:
    if opener_windows(plan):
        return {"name": "window", "type": ["null", "string"], "default": None, "doc": "topic/partition/offset of the event that opened it"}
    return {"name": "window", "type": ["null", "long"], "default": None, "doc": "number of the explicit window"}
