"""Which type of a writer may be read as which type of a reader, by the rules of Avro; and what else is asked of types alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.events.avro import AvroSchema, Node, type_name


def same_name(writer: dict[str, Any], reader: dict[str, Any]) -> bool:
    """Whether a named type can be read as another: by unqualified name (as fastavro and Java do) or by an alias."""
    name = writer["name"]
    short = name.rsplit(".", 1)[-1]
    aliases = reader.get("aliases", ())
    return short == reader["name"].rsplit(".", 1)[-1] or name in aliases or short in aliases


NAMED = frozenset({"record", "enum", "fixed"})


PROMOTIONS: Mapping[str, tuple[str, ...]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def is_same(writer: Node, reader: Node) -> bool:
    """Whether both are the same type."""
    name = type_name(writer)
    if name != type_name(reader):
        return False
    if name not in NAMED:
        return True
    assert isinstance(writer, dict)  # noqa: S101
    assert isinstance(reader, dict)  # noqa: S101
    return same_name(writer, reader) and (name != "fixed" or writer["size"] == reader["size"])


def is_itself(writer: Node, reader: Node) -> bool:
    """Whether both are the same type by its full name, which counts before short names: a union may hold two of one short name."""
    return is_same(writer, reader) and (type_name(writer) not in NAMED or writer["name"] == reader["name"])  # type: ignore[call-overload,index]


def is_promotable(writer: Node, reader: Node) -> bool:
    """Whether values of the writer's type are values of the reader's, too."""
    return type_name(reader) in PROMOTIONS.get(type_name(writer), ())


DEFAULTS: Mapping[type, tuple[str, ...]] = {
    type(None): ("null",),
    bool: ("boolean",),
    int: ("int", "long", "float", "double"),
    float: ("float", "double"),
    str: ("string", "enum", "bytes", "fixed"),
    dict: ("record", "map"),
    list: ("array",),
}


def is_default_of(node: Node, value: Any) -> bool:
    """Whether a default is one of the type."""
    return type_name(node) in DEFAULTS.get(type(value), ())


def least_size(schema: AvroSchema, node: Node, inside: tuple[str, ...]) -> int:
    """The fewest bytes that a value of the type takes: bounds how many elements a block can have."""
    node = schema.resolved(node)
    name = type_name(node)
    if name == "record" and isinstance(node, dict):
        if node["name"] in inside:
            return 0
        return sum(least_size(schema, entry["type"], (*inside, node["name"])) for entry in node["fields"])
    if name == "fixed" and isinstance(node, dict):
        return int(node["size"])
    return {"null": 0, "float": 4, "double": 8}.get(name, 1)


def spoken(node: Node) -> str:
    """The type in messages."""
    if isinstance(node, list):
        return "a union of " + ", ".join(str(branch if isinstance(branch, str) else branch["type"]) for branch in node)
    return type_name(node) if isinstance(node, str) or type_name(node) not in NAMED else f'{type_name(node)} "{node["name"]}"'
