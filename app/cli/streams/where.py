"""``--where``: a condition of the query language on the fields of composite events, as a temporal query has it on tuples: ``price > 100 AND symbol IN ('A', 'B')``.

A composite event is, here as for queries that read others, an event of its query's name with its fields as attributes, and ``time`` and ``type``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.cep.why_not.plain_values import MISSING, holds
from app.errors import Finding, FindingsError
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.resolved.resolve_expressions import Checker
from app.query.resolved.vocabulary import Vocabulary
from app.query.text.source import Scalar, SourceFile
from app.query.tree import tree as t
from app.query.tree.document import Written
from app.query.tree.parse import parse_condition

Fields = Mapping[str, Any]
KINDS = {"boolean": Kind.BOOLEAN, "long": Kind.INTEGER, "double": Kind.FLOAT, "string": Kind.STRING, "bytes": Kind.BYTES}
OPTION = "--where"


def fields_of(query: str, schema: Mapping[str, Any]) -> EventType:
    """The fields of a query's composite events by their Avro schema, as attributes; lists of closures cannot be asked for."""
    record = next(field["type"] for field in schema["fields"] if field["name"] == "fields")
    kinds = {field["name"]: _kind(field["type"]) for field in record["fields"]}
    return EventType(query, tuple(Attribute(name, kind, nullable=True) for name, kind in kinds.items() if kind is not None))


def _kind(written: Any) -> Kind | None:
    """``["null", type]`` as a kind; None for an array."""
    inner = next((one for one in written if one != "null"), None) if isinstance(written, list) else written
    if isinstance(inner, dict):
        if inner.get("logicalType") == "timestamp-millis":
            return Kind.TIME
        return Kind.DURATION if inner.get("doc") == "milliseconds" else KINDS.get(inner["type"])
    return KINDS.get(str(inner))


def condition_of(text: str, types: Sequence[EventType]) -> Callable[[str, int, Fields], bool]:
    """A function from a composite event's query, time (ms) and fields to whether the condition holds; false where it speaks of what the query does not return.

    Args:
        text: the condition.
        types: of the composite events that may come.

    Raises:
        FindingsError: it is none, or speaks of what no query returns.
    """
    parsed = parse_condition(text)
    scalar = Scalar(SourceFile.of(OPTION, text), 0, len(text), text, True, tuple(range(len(text) + 1)))
    if parsed.tree is None or parsed.problems:
        raise FindingsError(Finding(one.message, scalar.location(one.span.start, one.span.end), one.hint) for one in parsed.problems)
    findings: list[Finding] = []
    if isinstance(parsed.tree, t.Value):
        raise FindingsError([Finding("this is a value, not a condition", scalar.location(), "compare it: price > 100")])
    vocabulary = Vocabulary((StreamSchema("composite events", tuple(types)),))
    names = tuple(one.name for one in types)
    condition = Checker(Written(scalar, parsed.tree), vocabulary, {}, findings, "tuple", tuple_types=names).condition(parsed.tree)
    if findings:
        raise FindingsError(findings)

    def accepts(query: str, time_ms: int, fields: Fields) -> bool:
        built_in = {"time": time_ms, "type": query}
        return holds(condition, lambda one: built_in.get(one.attribute, fields.get(one.attribute, MISSING)), missing=False)

    return accepts
