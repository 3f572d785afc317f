"""Writers' schemas under which few bytes could mean endless work: anybody may register one, and then a record of random bytes is enough.

* A record that holds itself without a way out: no bytes, endless depth.
* An array whose items take no bytes (nulls, empty records): ten bytes may announce 2⁶² of them.
* A fixed of negative size: a decoder would go back.
* A record that may hold itself: a byte per level is enough for a depth at which fastavro's compiled reader, which does not count, ends the
  process. Such schemas are read by its Python twin, which gives up in time.
"""

from __future__ import annotations

from app.events.avro import PRIMITIVES, AvroSchema, Node, SchemaError, type_name

_LEAST_BYTES = {"null": 0, "float": 4, "double": 8}
"""Of all other types but records and fixed, one."""


def check_bounds(writer: AvroSchema) -> None:
    """Refuses schemas that a decoder could not bound by the number of bytes it is given.

    Raises:
        SchemaError: it is one.
    """
    _Bounds(writer).least_bytes(writer.root, ())


def is_recursive(writer: AvroSchema) -> bool:
    """Whether a record of the schema may hold another of its own type, at any depth."""
    bounds = _Bounds(writer)
    bounds.least_bytes(writer.root, ())
    return bounds.recursive


class _Bounds:
    """Walks a schema; every named type once."""

    def __init__(self, writer: AvroSchema) -> None:
        self._writer = writer
        self._known: dict[str, int] = {}
        self.recursive = False

    def least_bytes(self, node: Node, inside: tuple[str, ...]) -> int:
        """The bytes of the shortest value. ``inside``: the records around, those behind a choice (union, array, map) marked by a blank."""
        node = self._writer.resolved(node)
        if isinstance(node, list):
            for branch in node:
                self.least_bytes(branch, (*inside, " "))
            return 1
        kind = type_name(node)
        if isinstance(node, str) or kind in PRIMITIVES:
            return _LEAST_BYTES.get(kind, 1)
        if kind == "record":
            return self._of_record(node, inside)
        if kind == "fixed":
            if node["size"] < 0:
                raise SchemaError(f"fixed {node['name']} has a negative size")
            return int(node["size"])
        if kind == "map":
            self.least_bytes(node["values"], (*inside, " "))
        if kind == "array" and self.least_bytes(node["items"], (*inside, " ")) == 0:
            raise SchemaError("an array has items that take no bytes, so nothing bounds their number")
        return 1

    def _of_record(self, node: dict[str, object], inside: tuple[str, ...]) -> int:
        name = str(node["name"])
        if name in inside:
            self.recursive = True
            if " " not in inside[inside.index(name) :]:
                raise SchemaError(f"record {name} holds itself without end")
            return 1  # an item of an array would be bounded by the choice in between, which takes a byte
        if name not in self._known:
            fields = node["fields"]
            assert isinstance(fields, list)  # noqa: S101 - parsed by fastavro
            self._known[name] = sum(self.least_bytes(entry["type"], (*inside, name)) for entry in fields)
        return self._known[name]
