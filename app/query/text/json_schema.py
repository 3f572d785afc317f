"""The JSON schema of query files, for editors; made from the table of keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from app.config.durations import DURATION_PATTERN
from app.query.text import keys as k


def query_schema() -> dict[str, Any]:
    """The schema of one query document."""
    schema = _record(k.QUERY)
    schema["oneOf"] = [{"required": ["event"]}, {"required": ["coalesce"]}]
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "A query: YAML around SASE", **schema}


def query_schema_text() -> str:
    """The text of ``schemas/query.schema.json``."""
    return orjson.dumps(query_schema(), option=orjson.OPT_INDENT_2).decode() + "\n"


def _of(shape: k.Shape) -> dict[str, Any]:
    return _SCHEMAS[type(shape)](shape)


def _record(shape: k.Record) -> dict[str, Any]:
    properties = {}
    for key in shape.keys:
        entry = {"description": key.description, **_of(key.shape)}
        if key.default is not None:
            entry["default"] = key.default
        properties[key.name] = entry
    required = [key.name for key in shape.keys if key.required]
    return {"type": "object", "additionalProperties": False, "properties": properties, **({"required": required} if required else {})}


def _number(shape: k.Number) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer" if shape.integer else "number"}
    if shape.low is not None:
        schema["exclusiveMinimum" if shape.above else "minimum"] = shape.low
    if shape.high is not None:
        schema["maximum"] = shape.high
    return schema


def _list(shape: k.ListOf) -> dict[str, Any]:
    listed = {"type": "array", "items": _of(shape.shape)}
    return {"anyOf": [_of(shape.shape), listed]} if shape.single else listed


def _mapping(shape: k.MapOf) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "additionalProperties": _of(shape.shape)}
    if shape.key_pattern != ".+":
        schema["propertyNames"] = {"pattern": f"^({shape.key_pattern})$".replace(r"[^\W\d]\w*", "[A-Za-z_][A-Za-z0-9_]*")}
    return schema


def _text(shape: k.Text) -> dict[str, Any]:
    pattern = None if shape.pattern is None else shape.pattern.replace(r"[^\W\d]\w*", "[A-Za-z_][A-Za-z0-9_]*")
    return {"type": ["string", "number", "boolean"]} if pattern is None else {"type": "string", "pattern": f"^({pattern})$"}


_SCHEMAS: dict[type, Callable[[Any], dict[str, Any]]] = {
    k.Text: _text,
    k.Expression: lambda shape: {"type": ["string", "number", "boolean"]} if shape.language == "value" else {"type": "string"},
    k.Number: _number,
    k.Flag: lambda _: {"type": "boolean"},
    k.Choice: lambda shape: {"enum": list(shape.words)},
    k.Duration: lambda _: {"type": "string", "pattern": DURATION_PATTERN},
    k.Count: lambda shape: {"type": "string", "pattern": rf"^\s*[0-9]+\s*{shape.unit[:-1]}s?\s*$"},
    k.Either: lambda shape: {"anyOf": [_of(one) for one in shape.shapes]},
    k.ListOf: _list,
    k.MapOf: _mapping,
    k.Anything: lambda _: {},
    k.Record: _record,
}
