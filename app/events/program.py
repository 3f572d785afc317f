"""A writer's schema, read as a stream's records → a small program that the kernel runs over the bytes of every record.

Avro's schema resolution happens here, once per pair of schemas: promotions, defaults, aliases, fields added, removed, reordered.
An instruction is five integers: operation, column (-1: skip), and three arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.events.avro import (
    TIME_SCALES,
    AvroSchema,
    Node,
    Path,
    RecordType,
    SchemaError,
    StreamRecords,
    logical_type,
    scale_of,
    type_name,
    without_null,
)
from app.events.batch import ABSENT, NULL
from app.events.failures import Failure
from app.events.kernels import Op
from app.events.promotions import is_default_of, is_itself, is_promotable, is_same, least_size, same_name, spoken
from app.events.types import Attribute, Kind

TIME_COLUMN, TYPE_COLUMN = 0, 1
"""Columns that every stream has; its attributes follow."""
MAX_NESTING = 8
"""Arrays within arrays that the kernel has counters for."""
MOST_STEPS = 100_000
"""Of compiling, each an instruction, a value or a symbol; real schemas have thousands. Every occurrence of a record is written out, and
thirty records, each with two of the one before, would be a thousand million."""
MAX_SCALE = 22
"""10**22 is the greatest power of ten that a float64 holds exactly."""


class TooGeneralError(Exception):
    """The kernel cannot do this pair of schemas; fastavro can."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The columns of a stream's batches.

    Attributes:
        attributes: of the columns from 2 on.
        texts: column → number of its dictionary.
    """

    attributes: tuple[Attribute, ...]
    texts: Mapping[int, int]

    @property
    def count(self) -> int:
        """Number of columns, with time and type."""
        return len(self.attributes) + 2

    def kind(self, column: int) -> Kind:
        """The kind of a column."""
        if column in (TIME_COLUMN, TYPE_COLUMN):
            return Kind.TIME if column == TIME_COLUMN else Kind.STRING
        return self.attributes[column - 2].kind

    def paths(self, record: RecordType) -> dict[Path, int]:
        """Which paths of a record fill which columns."""
        place = {attribute.name: k + 2 for k, attribute in enumerate(self.attributes)}
        paths = {leaf.path: place[leaf.attribute.name] for leaf in record.leaves if leaf.attribute.name in place}
        if record.type_path is not None:
            paths.setdefault(record.type_path, TYPE_COLUMN)
        return {record.time: TIME_COLUMN, **paths} if record.time else paths


def layout_of(records: StreamRecords, wanted: frozenset[str] | None = None) -> Layout:
    """The columns of a stream; only the `wanted` attributes if given."""
    attributes = tuple(a for a in records.schema.columns() if wanted is None or a.name in wanted)
    textual = [TYPE_COLUMN, *(k + 2 for k, attribute in enumerate(attributes) if attribute.kind.textual)]
    return Layout(attributes, {column: number for number, column in enumerate(textual)})


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """What the kernel runs.

    Attributes:
        code: int64 (instructions, 5).
        jumps: int64, tables of unions (places in the code) and enums (symbols).
        symbol_data: uint8, texts of enums, defaults and type names.
        symbol_offsets: int64 (symbols + 1,).
    """

    code: NDArray[np.int64]
    jumps: NDArray[np.int64]
    symbol_data: NDArray[np.uint8]
    symbol_offsets: NDArray[np.int64]


def compile_program(writer: AvroSchema, records: StreamRecords, layout: Layout) -> Program:
    """The program for records of a writer's schema.

    Raises:
        SchemaError: no record of this schema can be read as one of the stream's.
        TooGeneralError: leave it to fastavro.
    """
    compiler = _Compiler(writer, layout)
    node = writer.resolved(writer.root)
    if isinstance(node, list):
        compiler.union([writer.resolved(branch) for branch in node], lambda branch: compiler.message(branch, records))
    else:
        compiler.message(node, records)
    return compiler.program()


def record_type_of(node: Node, records: StreamRecords) -> RecordType:
    """The stream's record as which a message's type is read.

    Raises:
        SchemaError: there is none.
    """
    if isinstance(node, dict) and type_name(node) == "record":
        for record in records.types:
            if same_name(node, record.record):
                return record
        name = node["name"]
        raise SchemaError(f'record "{name}" is no type of stream "{records.definition.stream}", which has {_listed(records)}')
    raise SchemaError(f"a message of type {type_name(node)} is no record")


def _listed(records: StreamRecords) -> str:
    return ", ".join(record.name for record in records.types)


@dataclass(slots=True)
class _Compiler:
    writer: AvroSchema
    layout: Layout
    reader: AvroSchema | None = None
    columns: dict[Path, int] = field(default_factory=dict)
    code: list[list[int]] = field(default_factory=list)
    jumps: list[int] = field(default_factory=list)
    symbols: list[bytes] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    nesting: int = 0
    steps: int = 0

    def program(self) -> Program:
        offsets = np.zeros(len(self.symbols) + 1, dtype=np.int64)
        np.cumsum([len(symbol) for symbol in self.symbols], out=offsets[1:])
        code = np.array(self.code, dtype=np.int64).reshape(-1, 5)
        return Program(code, np.array(self.jumps, dtype=np.int64), np.frombuffer(b"".join(self.symbols), dtype=np.uint8), offsets)

    def spend(self, steps: int = 1) -> None:
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise TooGeneralError

    def emit(self, op: Op, column: int = -1, a: int = 0, b: int = 0, c: int = 0) -> int:
        self.spend()
        self.code.append([int(op), column, a, b, c])
        return len(self.code) - 1

    def symbol(self, text: bytes) -> int:
        self.symbols.append(text)
        return len(self.symbols) - 1

    def message(self, node: Node, records: StreamRecords) -> None:
        """A whole message: type, absent columns, record."""
        record = record_type_of(node, records)
        self.reader = record.schema
        self.columns = self.layout.paths(record)
        if any(crosses_collection(record, path) for path in self.columns):
            raise TooGeneralError
        if record.type_path is None:
            self.emit(Op.SYMBOL, TYPE_COLUMN, self.symbol(record.name.encode()), self.layout.texts[TYPE_COLUMN])
        filled = set(self.columns.values())
        self.states(sorted(set(range(2, self.layout.count)) - filled), ABSENT)
        self.record(node, record.record, ())

    def states(self, columns: list[int], state: int) -> None:
        """Sets the state of columns, neighbours by one instruction."""
        start = 0
        for k in range(1, len(columns) + 1):
            if k == len(columns) or columns[k] != columns[k - 1] + 1:
                self.emit(Op.STATES, columns[start], columns[k - 1] + 1, state)
                start = k

    def union(self, branches: list[Node], compiled: Any) -> None:
        """A jump table; a branch that cannot be read fails per record."""
        base = len(self.jumps)
        self.jumps.extend([0] * len(branches))
        self.emit(Op.UNION, -1, len(branches), base)
        ends = []
        for k, branch in enumerate(branches):
            mark, inside, nesting = len(self.code), len(self.inside), self.nesting
            self.jumps[base + k] = mark
            try:
                compiled(branch)
            except SchemaError:
                del self.code[mark:], self.inside[inside:]
                self.nesting = nesting
                self.emit(Op.FAIL, -1, Failure.BRANCH_UNREADABLE)
            ends.append(self.emit(Op.JUMP))
        for end in ends:
            self.code[end][2] = len(self.code)

    def value(self, writer: Node, reader: Node | None, path: Path) -> None:
        """Any type. Without a reader it is skipped."""
        self.spend()
        writer = self.writer.resolved(writer)
        if isinstance(writer, list):
            branches = [self.writer.resolved(branch) for branch in writer]
            self.union(branches, lambda branch: self.value(branch, reader, path))
            return
        if reader is not None:
            reader = self._counterpart(writer, reader)
        name = type_name(writer)
        if name == "record":
            assert isinstance(writer, dict)  # noqa: S101
            self.record(writer, reader, path)
        elif name in ("array", "map"):
            assert isinstance(writer, dict)  # noqa: S101
            self.blocks(writer, reader, path)
        elif name == "null":
            if reader is not None:
                self.states(self._under(path), NULL)
        else:
            self.scalar(writer, reader, path)

    def _under(self, path: Path) -> list[int]:
        """Columns of a path and of all paths that go on from it."""
        return sorted(column for other, column in self.columns.items() if other[: len(path)] == path)

    def _counterpart(self, writer: Node, reader: Node) -> Node:
        """The reader's type for a writer's type that is no union.

        Raises:
            SchemaError: none fits.
        """
        assert self.reader is not None  # noqa: S101
        reader = self.reader.resolved(reader)
        choices = [self.reader.resolved(branch) for branch in reader] if isinstance(reader, list) else [reader]
        for fits in (is_itself, is_same, is_promotable):
            for choice in choices:
                if fits(writer, choice):
                    return choice
        raise SchemaError(f"{spoken(writer)} cannot be read as {spoken(reader)}")

    def record(self, writer: Any, reader: Any, path: Path) -> None:
        """Fields in the writer's order; then the defaults of those that only the reader has."""
        if writer["name"] in self.inside:
            raise TooGeneralError
        self.inside.append(writer["name"])
        fields = {} if reader is None else {name: entry for entry in reader["fields"] for name in entry.get("aliases", ())}
        fields |= {} if reader is None else {entry["name"]: entry for entry in reader["fields"]}
        read = set()
        for entry in writer["fields"]:
            own = fields.get(entry["name"])
            if own is None or own["name"] in read:
                self.value(entry["type"], None, ())
            else:
                read.add(own["name"])
                self._field(entry, own, (*path, own["name"]))
        for entry in () if reader is None else reader["fields"]:
            if entry["name"] not in read:
                self.missing(entry, (*path, entry["name"]))
        self.inside.pop()

    def _field(self, writer: Any, reader: Any, path: Path) -> None:
        try:
            self.value(writer["type"], reader["type"], path)
        except SchemaError as error:
            raise SchemaError(f'field "{reader["name"]}": {error}') from error

    def missing(self, entry: Any, path: Path) -> None:
        if "default" not in entry:
            raise SchemaError(f'field "{entry["name"]}" has no default and the writer does not have it')
        self.default(entry["type"], entry["default"], path)

    def default(self, reader: Node, value: Any, path: Path) -> None:
        """Stores a default of the reader's schema."""
        assert self.reader is not None  # noqa: S101
        reader = self.reader.resolved(reader)
        if isinstance(reader, list):
            branches = [self.reader.resolved(branch) for branch in reader]
            reader = next((branch for branch in branches if is_default_of(branch, value)), branches[0])
        name = type_name(reader)
        if name == "record" and isinstance(reader, dict):
            for entry in reader["fields"]:
                inner = value.get(entry["name"], entry.get("default")) if isinstance(value, dict) else None
                self.default(entry["type"], inner, (*path, entry["name"]))
        elif name == "null" or value is None:
            self.states(self._under(path), NULL)
        elif path in self.columns:
            self._constant(reader, value, self.columns[path])

    def _constant(self, reader: Node, value: Any, column: int) -> None:
        kind = self.layout.kind(column)
        if kind.textual:
            raw = type_name(reader) in ("bytes", "fixed")
            if raw and kind is Kind.STRING:
                raise TooGeneralError
            text = str(value).encode("latin-1" if raw else "utf-8")
            self.emit(Op.SYMBOL, column, self.symbol(text), self.layout.texts[column])
        elif kind is Kind.FLOAT:
            if logical_type(reader) == "decimal":
                unscaled = int.from_bytes(str(value).encode("latin-1"), "big", signed=True)
                value = unscaled / 10 ** scale_of(None, reader)
            self.emit(Op.CONSTANT, column, int(np.float64(value).view(np.int64)))
        else:
            multiplier, divisor = TIME_SCALES.get(logical_type(reader), (1, 1)) if kind is Kind.TIME else (1, 1)
            self.emit(Op.CONSTANT, column, int(value) * multiplier // divisor)

    def blocks(self, writer: dict[str, Any], reader: Any, path: Path) -> None:
        """Arrays and maps: their elements are no attributes here, but they are read like any other value."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise TooGeneralError
        inside = "items" if writer["type"] == "array" else "values"
        start = self.emit(Op.BLOCK)
        if inside == "values":
            self.emit(Op.TEXT)
        self.value(writer[inside], None if reader is None else reader[inside], (*path, "[]"))
        self.emit(Op.NEXT, -1, start)
        least = max(0, least_size(self.writer, writer[inside], ())) + (inside == "values")
        self.code[start][2:4] = [len(self.code), least]
        self.nesting -= 1

    def scalar(self, writer: Node, reader: Node | None, path: Path) -> None:
        """A value of the writer's type, stored as the column's kind."""
        column = -1 if reader is None else self.columns.get(path, -1)
        kind = None if column < 0 else self.layout.kind(column)
        name = type_name(writer)
        dictionary = self.layout.texts.get(column, 0)
        if name in ("int", "long"):
            self._integer(name, writer, reader, column, kind)
        elif name in ("string", "bytes", "fixed"):
            self._bytes(name, writer, reader, column, kind)
        elif name == "enum":
            self._enum(writer, reader, column, dictionary)
        else:
            self.emit({"boolean": Op.BOOLEAN, "float": Op.FLOAT, "double": Op.DOUBLE}[name], column)

    def _integer(self, name: str, writer: Node, reader: Node | None, column: int, kind: Kind | None) -> None:
        narrow = int(name == "int")
        unit = logical_type(writer) or (logical_type(reader) if reader is not None else "")
        multiplier, divisor = TIME_SCALES.get(unit, (1, 1))
        if kind is Kind.FLOAT:
            self.emit(Op.INTEGER_AS_FLOAT, column, narrow)
        elif kind is Kind.TIME and (multiplier, divisor) != (1, 1):
            self.emit(Op.SCALED, column, multiplier, divisor, narrow)
        else:
            self.emit(Op.INT if narrow else Op.LONG, column)

    def _bytes(self, name: str, writer: Any, reader: Any, column: int, kind: Kind | None) -> None:
        size = int(writer["size"]) if name == "fixed" else -1
        if kind is Kind.FLOAT:
            scale = scale_of(writer, reader)
            power = int(np.float64(10.0**scale).view(np.int64)) if scale <= MAX_SCALE else 0
            self.emit(Op.DECIMAL, column, size, power, int(scale <= MAX_SCALE))
            return
        if kind is Kind.STRING and name == "fixed":
            raise TooGeneralError
        dictionary = self.layout.texts.get(column, 0)
        if size >= 0:
            self.emit(Op.FIXED, column, dictionary, size)
        else:
            self.emit(Op.TEXT, column, dictionary, int(kind is Kind.STRING))

    def _enum(self, writer: Any, reader: Any, column: int, dictionary: int) -> None:
        self.spend(len(writer["symbols"]))
        base = len(self.jumps)
        known = None if reader is None else set(reader["symbols"])
        for text in writer["symbols"]:
            symbol = text if known is None or text in known else reader.get("default")
            self.jumps.append(-1 if symbol is None else self.symbol(symbol.encode()))
        self.emit(Op.ENUM, column, len(writer["symbols"]), base, dictionary)


def crosses_collection(record: RecordType, path: Path) -> bool:
    """Whether a path leads through an array or a map."""
    node: Node = record.record
    for step in path:
        node, _ = without_null(record.schema, node)
        if type_name(node) != "record" or not isinstance(node, dict):
            return True
        node = next(entry["type"] for entry in node["fields"] if entry["name"] == step)
    return False
