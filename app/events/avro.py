"""Avro schemas → event types: which attributes a stream has, of which kind, under which name.

fastavro checks the schemas; here they become leaves: one per attribute, with the path that leads to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import fastavro

from app.errors import CepError, ConfigurationError, Finding
from app.events.elements import element_path
from app.events.types import Attribute, EventType, Kind, StreamSchema

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
KINDS: Mapping[str, Kind] = {
    "boolean": Kind.BOOLEAN,
    "int": Kind.INTEGER,
    "long": Kind.INTEGER,
    "float": Kind.FLOAT,
    "double": Kind.FLOAT,
    "bytes": Kind.BYTES,
    "fixed": Kind.BYTES,
    "string": Kind.STRING,
    "enum": Kind.STRING,
}
LOGICAL_KINDS: Mapping[tuple[str, str], Kind] = {
    ("int", "date"): Kind.TIME,
    ("bytes", "decimal"): Kind.FLOAT,
    ("fixed", "decimal"): Kind.FLOAT,
    ("fixed", "uuid"): Kind.STRING,
    **{("long", f"{local}timestamp-{unit}"): Kind.TIME for local in ("", "local-") for unit in ("millis", "micros", "nanos")},
}
TIME_SCALES: Mapping[str, tuple[int, int]] = {
    "date": (86_400_000, 1),
    **{f"{local}timestamp-millis": (1, 1) for local in ("", "local-")},
    **{f"{local}timestamp-micros": (1, 1000) for local in ("", "local-")},
    **{f"{local}timestamp-nanos": (1, 1_000_000) for local in ("", "local-")},
}
"""Logical type → (multiplier, divisor) to milliseconds."""
GREATEST_SCALE = 1000
"""Of a decimal. Ten to the power of the scale is reckoned per record: with a scale of two thousand millions it would never end."""

Node = str | dict[str, Any] | list[Any]
Path = tuple[str | int, ...]


class SchemaError(CepError):
    """A schema that is no Avro schema, or cannot be read as the one that the stream expects."""


@dataclass(frozen=True, slots=True, eq=False)
class AvroSchema:
    """A checked schema: all names are full names, named types are found in `names`."""

    root: Node
    names: Mapping[str, dict[str, Any]]

    def resolved(self, node: Node) -> Node:
        """The node itself, or the named type that it names."""
        return self.names[node] if isinstance(node, str) and node not in PRIMITIVES else node

    def records(self) -> tuple[dict[str, Any], ...]:
        """The record, or the records of the union, that a message can be."""
        nodes = [self.resolved(node) for node in (self.root if isinstance(self.root, list) else [self.root])]
        return tuple(node for node in nodes if isinstance(node, dict) and node["type"] in ("record", "error"))


def parse_schema(schema: str | Node, references: Iterable[str | Node] = ()) -> AvroSchema:
    """Checks a schema.

    Args:
        schema: JSON text, or what it stands for.
        references: schemas of the named types that it takes from elsewhere, those without needs of their own first.

    Raises:
        SchemaError: it is none.

    >>> parse_schema('{"type": "record", "name": "a.B", "fields": [{"name": "x", "type": "int"}]}').records()[0]["name"]
    'a.B'
    """
    return _parsed(schema, references, fastavro.parse_schema)


def parse_writer_schema(schema: str | Node, references: Iterable[str | Node] = ()) -> AvroSchema:
    """As `parse_schema`, for what records were written with: its defaults are never used, so wrong ones do no harm.

    Raises:
        SchemaError: it is no schema.

    >>> parse_writer_schema({"type": "record", "name": "B", "fields": [{"name": "x", "type": "int", "default": None}]}).records()[0]["name"]
    'B'
    """
    return _parsed(schema, references, partial(fastavro.parse_schema, _ignore_default_error=True))


def _parsed(schema: str | Node, references: Iterable[str | Node], parse: Callable[..., Any]) -> AvroSchema:
    names: dict[str, dict[str, Any]] = {}
    try:
        for reference in references:
            parse(_unwrapped(_loaded(reference)), named_schemas=names, _force=True)
        root = parse(_unwrapped(_loaded(schema)), named_schemas=names, _force=True)
    except SchemaError:
        raise
    except Exception as error:
        # fastavro raises several classes of its own, and KeyError or TypeError for odd shapes
        raise SchemaError(f"no Avro schema: {error or type(error).__name__}") from error
    return AvroSchema(root, names)


def self_contained(schema: AvroSchema) -> str:
    """The schema as JSON text that refers to nothing outside: each named type is written out where it is first named.

    >>> address = {"type": "record", "name": "a.Address", "fields": [{"name": "city", "type": "string"}]}
    >>> order = {"type": "record", "name": "a.Order", "fields": [{"name": n, "type": "a.Address"} for n in ("from", "to")]}
    >>> parse_schema(self_contained(parse_schema(order, [address]))).records()[0]["fields"][1]["type"]
    'a.Address'
    """
    written: set[str] = set()

    def whole(node: Node) -> Node:
        if isinstance(node, list):
            return [whole(branch) for branch in node]
        if isinstance(node, str):
            return node if node in PRIMITIVES or node in written else whole(schema.names[node])
        if "name" in node:
            written.add(node["name"])
        plain = {key: value for key, value in node.items() if not key.startswith("__")}
        for inside in ("items", "values"):
            if inside in plain:
                plain[inside] = whole(plain[inside])
        if "fields" in plain:
            plain["fields"] = [{**entry, "type": whole(entry["type"])} for entry in plain["fields"]]
        return plain

    return json.dumps(whole(schema.root))


def _loaded(schema: str | Node) -> Node:
    if not isinstance(schema, str) or schema in PRIMITIVES:
        return schema
    try:
        loaded: Node = json.loads(schema)
    except ValueError as error:
        raise SchemaError(f"no Avro schema: no JSON: {error}") from error
    return loaded


def _unwrapped(node: Any) -> Any:
    """Without needless layers like ``{"type": {"type": "string"}}``, which Java accepts and writes, and fastavro does not."""
    if isinstance(node, list):
        return [_unwrapped(branch) for branch in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("type"), (dict, list)):
        return _unwrapped(node["type"])
    plain = dict(node)
    for inside in ("items", "values"):
        if inside in plain:
            plain[inside] = _unwrapped(plain[inside])
    if isinstance(plain.get("fields"), list):
        plain["fields"] = [_unwrapped_field(entry) for entry in plain["fields"]]
    return plain


def _unwrapped_field(entry: dict[str, Any]) -> dict[str, Any]:
    """Also with ``"default": 0`` of ``{"type": "double"}`` as the float that fastavro wants there; Java takes either."""
    plain = {**entry, "type": _unwrapped(entry["type"])}
    kind, default = plain["type"], plain.get("default")
    if isinstance(kind, dict) and kind.get("type") in ("float", "double") and isinstance(default, int) and not isinstance(default, bool):
        plain["default"] = float(default)
    return plain


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    """What a stream's configuration says about its records.

    Attributes:
        stream: name of the stream.
        type_attribute: attribute (by its path) whose value is the event type; None: the name of the Avro record is.
        time_attribute: attribute (by its path) that is the event's time: a date or timestamp, or a number of milliseconds;
            None: the record's own timestamp is (`BatchDecoder.decode` is then given the timestamps).
        renames: path (``a.b``, or ``Record.a.b`` for one type only) → name of the attribute.
        elements: elements of arrays and maps that become attributes: ``tags[0]``, ``labels['k']``.
    """

    stream: str
    type_attribute: str | None = None
    time_attribute: str | None = "time"
    renames: Mapping[str, str] = field(default_factory=dict)
    elements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """An attribute and the way to it through the record."""

    path: Path
    attribute: Attribute


@dataclass(frozen=True, slots=True, eq=False)
class RecordType:
    """An event type with the record that defines it.

    Attributes:
        name: of the event type: the record's name without namespace.
        schema: that the record belongs to.
        record: its node.
        time: path of the time; empty when it comes from outside the record.
        leaves: the attributes; the time is none of them.
        type_path: path of the attribute that holds the type, or None.
    """

    name: str
    schema: AvroSchema
    record: dict[str, Any]
    time: Path
    leaves: tuple[Leaf, ...]
    type_path: Path | None = None

    def event_type(self) -> EventType:
        """As queries see it."""
        return EventType(self.name, tuple(leaf.attribute for leaf in self.leaves))


@dataclass(frozen=True, slots=True, eq=False)
class StreamRecords:
    """A stream's schema together with the records that define it."""

    definition: StreamDefinition
    types: tuple[RecordType, ...]
    schema: StreamSchema


def scalar_kind(node: Node) -> Kind | None:
    """The kind of a scalar type; None for null, records, arrays, maps, unions.

    >>> scalar_kind({"type": "long", "logicalType": "timestamp-micros"})
    <Kind.TIME: 'time'>
    """
    if isinstance(node, list):
        return None
    name = type_name(node)
    return LOGICAL_KINDS.get((name, logical_type(node)), KINDS.get(name))


def type_name(node: Node) -> str:
    """``int``, ``record``, ``union`` … of a resolved node."""
    if isinstance(node, list):
        return "union"
    name = node if isinstance(node, str) else str(node["type"])
    return "record" if name == "error" else name


def logical_type(node: Node) -> str:
    """The logical type, or an empty text. A decimal with an impossible scale is none: Avro ignores a logical type that is invalid."""
    if not isinstance(node, dict):
        return ""
    name, scale = str(node.get("logicalType") or ""), node.get("scale", 0)
    possible = isinstance(scale, int) and not isinstance(scale, bool) and 0 <= scale <= GREATEST_SCALE
    return name if name != "decimal" or possible else ""


def scale_of(writer: Node | None, reader: Node | None) -> int:
    """Of a decimal: its value is the stored number over ten to the power of this.

    The writer's counts, if it has one: registries let it change, and what was stored does not change with it.
    """
    decimals = (node for node in (writer, reader) if isinstance(node, dict) and logical_type(node) == "decimal")
    return next((int(node.get("scale", 0)) for node in decimals), 0)


def stream_records(definition: StreamDefinition, schemas: Sequence[AvroSchema]) -> StreamRecords:
    """The event types that the reader schemas of a stream define.

    Raises:
        ConfigurationError: everything that is wrong with them, at once.
    """
    problems: list[str] = []
    types = tuple(_record_type(definition, schema, record, problems) for schema in schemas for record in schema.records())
    if not types:
        problems.append("none of its schemas is a record")
    names = [record.name for record in types]
    problems += [f'two records are named "{name}"' for name in sorted({name for name in names if names.count(name) > 1})]
    if definition.type_attribute is not None and len(types) > 1:
        problems.append("with a type attribute it can have one record only")
    problems += _clashes(types)
    if problems:
        raise ConfigurationError(Finding(f'stream "{definition.stream}": {problem}') for problem in problems)
    schema = StreamSchema(definition.stream, tuple(record.event_type() for record in types), definition.type_attribute)
    return StreamRecords(definition, types, schema)


def _record_type(definition: StreamDefinition, schema: AvroSchema, record: dict[str, Any], problems: list[str]) -> RecordType:
    name = record["name"].rsplit(".", 1)[-1]
    found = {leaf.attribute.name: leaf for leaf in _leaves(schema, record, (), (record["name"],), nullable=False)}
    time = found.get(definition.time_attribute or "")
    time_kind = None if time is None else time.attribute.kind
    if definition.time_attribute is not None and time_kind not in (Kind.TIME, Kind.INTEGER):
        what = "has no attribute" if time_kind is None else "has no date, timestamp or number of milliseconds in"
        problems.append(f'record {name} {what} "{definition.time_attribute}", which is to be the time')
    type_path = None
    if definition.type_attribute is not None:
        type_leaf = found.get(definition.type_attribute)
        type_path = () if type_leaf is None else type_leaf.path
        if type_leaf is None or type_leaf.attribute.kind is not Kind.STRING:
            problems.append(f'record {name} has no text attribute "{definition.type_attribute}", which is to be the type')
    leaves = []
    for dotted, leaf in found.items():
        renamed = definition.renames.get(f"{name}.{dotted}", definition.renames.get(dotted, dotted))
        if leaf is not time and renamed not in ("time", "type"):
            leaves.append(Leaf(leaf.path, replace(leaf.attribute, name=renamed)))
    for wanted in definition.elements:
        path = element_path(wanted)
        inside = _element_kind(schema, record, path)
        if inside is not None and wanted not in found:
            leaves.append(Leaf(path, Attribute(definition.renames.get(wanted, wanted), inside, nullable=True)))
    attributes = [leaf.attribute.name for leaf in leaves]
    problems += [f'record {name} has two attributes "{a}"' for a in sorted({a for a in attributes if attributes.count(a) > 1})]
    return RecordType(name, schema, record, () if time is None else time.path, tuple(leaves), type_path)


def _dotted(path: Path) -> str:
    return ".".join(str(step) for step in path)


def _leaves(schema: AvroSchema, record: dict[str, Any], path: Path, inside: tuple[str, ...], *, nullable: bool) -> Iterator[Leaf]:
    """Scalars of a record and its nested records, by their paths, in order; recursion ends where a record would hold itself."""
    for entry in record["fields"]:
        here = (*path, entry["name"])
        node, null = without_null(schema, entry["type"])
        kind = merged_kind(schema, node)
        if kind is not None:
            symbols = tuple(node["symbols"]) if isinstance(node, dict) and type_name(node) == "enum" else ()
            yield Leaf(here, Attribute(_dotted(here), kind, nullable or null, symbols))
        elif isinstance(node, dict) and type_name(node) == "record" and node["name"] not in inside:
            yield from _leaves(schema, node, here, (*inside, node["name"]), nullable=nullable or null)


def without_null(schema: AvroSchema, node: Node) -> tuple[Node, bool]:
    """A node without its null branch, and whether it had one; a union of one type is that type."""
    node = schema.resolved(node)
    if not isinstance(node, list):
        return node, False
    rest = [schema.resolved(branch) for branch in node if type_name(schema.resolved(branch)) != "null"]
    return (rest[0] if len(rest) == 1 else rest), len(rest) < len(node)


def merged_kind(schema: AvroSchema, node: Node) -> Kind | None:
    """The kind of a scalar, or of a union whose branches go together (integer and float: float); else None."""
    if not isinstance(node, list):
        return scalar_kind(node)
    kinds = {scalar_kind(branch) for branch in node}
    if kinds == {Kind.INTEGER, Kind.FLOAT}:
        return Kind.FLOAT
    return kinds.pop() if len(kinds) == 1 else None


def _element_kind(schema: AvroSchema, node: Node, path: Path) -> Kind | None:
    """The kind of what a path through arrays and maps leads to; None if it leads nowhere."""
    for step in path:
        node, _ = without_null(schema, node)
        inside = _inside(node, step)
        if inside is None:
            return None
        node = inside
    return merged_kind(schema, without_null(schema, node)[0])


def _inside(node: Node, step: str | int) -> Node | None:
    name = type_name(node)
    if not isinstance(node, dict):
        return None
    if name == "record":
        return next((entry["type"] for entry in node["fields"] if entry["name"] == step), None)
    inside: Node | None = node["items"] if name == "array" and isinstance(step, int) else None
    return node["values"] if name == "map" and isinstance(step, str) else inside


def _clashes(types: Sequence[RecordType]) -> list[str]:
    """Attributes of one name must go together: they share a column."""
    problems = []
    first: dict[str, tuple[str, Kind]] = {}
    for record in types:
        for leaf in record.leaves:
            name, kind = leaf.attribute.name, leaf.attribute.kind
            owner, known = first.setdefault(name, (record.name, kind))
            if kind is not known and {kind, known} != {Kind.INTEGER, Kind.FLOAT}:
                problems.append(f'attribute "{name}" is {known} in {owner} but {kind} in {record.name}; rename one of them')
    return problems
