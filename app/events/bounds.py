"""Writers' schemas under which few bytes could mean endless work: anybody may register one, and then a record of random bytes is enough.

* A record that holds itself without a way out: no bytes, endless depth.
* An array whose items take no bytes (nulls, empty records): ten bytes may announce 2⁶² of them.
* A record with very many values that take no bytes: thirty records, each with two of the one before and the first with a null, are a
  thousand million values in none.
* A fixed of negative size: a decoder would go back.
* A record that may hold itself: a byte per level is enough for a depth at which fastavro's compiled reader, which does not count, ends the
  process. Such schemas are read by its Python twin, which gives up in time.
* An array of floats, or thirty such records of them: the compiled reader passes over booleans, floats and fixed without asking whether
  they are there, 2⁶² times if ten bytes say so. Such schemas are read from a source that says itself where it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.events.avro import PRIMITIVES, AvroSchema, Node, SchemaError, type_name

MOST_EMPTY = 1000
"""Values without bytes that a record may hold. A reader takes some 0.1 µs for each, per record and, in an array, per byte."""
MOST_BLIND = 10_000
"""Values that are passed over before somebody sees that a record has ended: some 2 ms."""


@dataclass(frozen=True, slots=True)
class _Size:
    """Of the shortest value of a type.

    Attributes:
        bytes: that it takes.
        blind: values in it, with itself, that fastavro's compiled reader passes over without asking whether they are there.
        checked: whether it asks at least once.
    """

    bytes: int
    blind: int
    checked: bool


_CHECKED = _Size(1, 0, checked=True)
"""Of all types but records, fixed, and these."""
_BLIND = {kind: _Size(count, 1, checked=False) for kind, count in {"null": 0, "boolean": 1, "float": 4, "double": 8}.items()}


def check_bounds(writer: AvroSchema) -> None:
    """Refuses schemas that a decoder could not bound by the number of bytes it is given.

    Raises:
        SchemaError: it is one.
    """
    _walked(writer)


def is_recursive(writer: AvroSchema) -> bool:
    """Whether a record of the schema may hold another of its own type, at any depth."""
    return _walked(writer).recursive


def is_blind(writer: AvroSchema) -> bool:
    """Whether fastavro's compiled reader may pass over very many values that are not there."""
    return _walked(writer).blind


def _walked(writer: AvroSchema) -> _Bounds:
    bounds = _Bounds(writer)
    bounds.size(writer.root, ())
    return bounds


class _Bounds:
    """Walks a schema; every named type once."""

    def __init__(self, writer: AvroSchema) -> None:
        self._writer = writer
        self._known: dict[str, _Size] = {}
        self.recursive = False
        self.blind = False

    def size(self, node: Node, inside: tuple[str, ...]) -> _Size:
        """Of the shortest value. ``inside``: the records around, those behind a choice (union, array, map) marked by a blank."""
        node = self._writer.resolved(node)
        if isinstance(node, list):
            for branch in node:
                self.size(branch, (*inside, " "))
            return _CHECKED
        kind = type_name(node)
        if isinstance(node, str) or kind in PRIMITIVES:
            return _BLIND.get(kind, _CHECKED)
        if kind == "record":
            return self._of_record(node, inside)
        if kind == "fixed":
            if node["size"] < 0:
                raise SchemaError(f"fixed {node['name']} has a negative size")
            return _Size(int(node["size"]), 1, checked=False)
        if kind == "map":
            self.size(node["values"], (*inside, " "))
        if kind == "array":
            items = self.size(node["items"], (*inside, " "))
            if items.bytes == 0:
                raise SchemaError("an array has items that take no bytes, so nothing bounds their number")
            self.blind |= not items.checked
        return _CHECKED

    def _of_record(self, node: dict[str, object], inside: tuple[str, ...]) -> _Size:
        name = str(node["name"])
        if name in inside:
            self.recursive = True
            if " " not in inside[inside.index(name) :]:
                raise SchemaError(f"record {name} holds itself without end")
            return _CHECKED  # an item of an array would be bounded by the choice in between, which takes a byte
        if name not in self._known:
            fields = node["fields"]
            assert isinstance(fields, list)  # noqa: S101 - parsed by fastavro
            self._known[name] = self._of_fields(name, [self.size(entry["type"], (*inside, name)) for entry in fields])
        return self._known[name]

    def _of_fields(self, name: str, fields: Sequence[_Size]) -> _Size:
        empty = sum(field.blind for field in fields if not field.bytes)
        if empty > MOST_EMPTY:
            raise SchemaError(f"record {name} has {empty:,} values that take no bytes, and at most {MOST_EMPTY:,} are read")
        blind = 1 + sum(field.blind for field in fields)
        self.blind |= blind > MOST_BLIND
        return _Size(sum(field.bytes for field in fields), blind, any(field.checked for field in fields))
