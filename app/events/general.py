"""The general path: records that the kernel leaves to fastavro, one by one, into the same cells.

For elements of arrays and maps, recursive types, fixed UUIDs, long decimals. Some 300 k records/s at best; the kernel does 50 times that.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import fastavro
import numpy as np
from fastavro._read_py import schemaless_reader as read_in_python
from fastavro.read import SchemaResolutionError

from app.events.avro import (
    TIME_SCALES,
    AvroSchema,
    Node,
    RecordType,
    SchemaError,
    StreamRecords,
    logical_type,
    parse_writer_schema,
    scale_of,
    type_name,
    without_null,
)
from app.events.batch import ABSENT, NULL
from app.events.bounds import is_blind, is_recursive
from app.events.failures import Failure
from app.events.interning import Interner
from app.events.kernels import Cells, Records
from app.events.program import TYPE_COLUMN, Layout, record_type_of
from app.events.promotions import is_itself, is_same
from app.events.rows import converted, element
from app.events.types import Kind


@dataclass(frozen=True, slots=True, eq=False)
class _Branch:
    """One record type that a message can be, prepared for fastavro."""

    writer: Node
    reader: Node
    record: RecordType
    columns: Mapping[int, tuple[tuple[str | int, ...], Kind, Node | None, Node | None]]
    """Column → path, kind, writer's type as far as it is found, reader's type."""
    absent: tuple[int, ...]


@dataclass(slots=True, eq=False)
class GeneralReader:
    """Reads records of one writer's schema by fastavro."""

    branches: Sequence[_Branch | None]
    """Of the writer's union, None where a branch is unreadable; one if it is none."""
    is_union: bool
    layout: Layout
    recursive: bool
    """Whether records may hold themselves; see `app.events.bounds`."""
    blind: bool
    """Whether the end of a record may be missed for long; see there."""
    details: dict[int, str] = field(default_factory=dict)

    def decode(self, records: Records, cells: Cells, interner: Interner) -> dict[int, str]:
        """Fills the cells of ``records.rows``.

        Returns:
            Row → what failed, in fastavro's words.
        """
        details: dict[int, str] = {}
        texts: dict[int, tuple[list[int], list[bytes]]] = {column: ([], []) for column in self.layout.texts}
        for row in records.rows.tolist():
            payload = records.data[records.starts[row] : records.ends[row]].tobytes()
            try:
                self._decode_one(payload, row, cells, texts)
                cells.failures[row] = Failure.NONE
            except _FailedError as error:
                cells.failures[row] = error.failure
            except SchemaResolutionError as error:
                cells.failures[row], details[row] = Failure.BRANCH_UNREADABLE, str(error)
            except UnicodeDecodeError:
                cells.failures[row] = Failure.INVALID_UTF8
            except EOFError:
                cells.failures[row] = Failure.TRUNCATED
            except RecursionError:
                cells.failures[row], details[row] = Failure.OTHER, "nested too deeply"
            except Exception as error:  # noqa: BLE001
                # whatever broken bytes lead fastavro to: IndexError, ValueError, OverflowError, struct.error, MemoryError …
                cells.failures[row], details[row] = Failure.OTHER, f"{type(error).__name__}: {error}"
        for column, (rows, entries) in texts.items():
            if rows:
                cells.values[column, rows] = interner.codes(self.layout.texts[column], entries)
        return details

    def _decode_one(self, payload: bytes, row: int, cells: Cells, texts: dict[int, tuple[list[int], list[bytes]]]) -> None:
        source = _WatchedBytes(payload) if self.blind else io.BytesIO(payload)
        branch = self.branches[self._branch(source)]
        if branch is None:
            raise _FailedError(Failure.BRANCH_UNREADABLE)
        read = read_in_python if self.recursive else fastavro.schemaless_reader
        values = read(source, branch.writer, branch.reader)
        if source.tell() != len(payload):
            raise _FailedError(Failure.TRAILING_BYTES)
        cells.states[:, row] = 0
        for column in branch.absent:
            cells.states[column, row] = ABSENT
            cells.touched[column] = 1
        for column, (path, kind, written, read) in branch.columns.items():
            value = element(values, path)
            if value is None:
                cells.states[column, row] = NULL
                cells.touched[column] = 1
                continue
            cell = converted(_plain(value, kind, written, read), kind)
            if kind.textual:
                texts[column][0].append(row)
                texts[column][1].append(cell)
            elif kind is Kind.FLOAT:
                cells.values[column, row] = np.float64(cell).view(np.int64)
            else:
                cells.values[column, row] = cell
        if branch.record.type_path is None:
            texts[TYPE_COLUMN][0].append(row)
            texts[TYPE_COLUMN][1].append(branch.record.name.encode())

    def _branch(self, source: io.BytesIO) -> int:
        if not self.is_union:
            return 0
        branch = fastavro.schemaless_reader(source, "long", None)
        if not isinstance(branch, int) or not 0 <= branch < len(self.branches):
            raise _FailedError(Failure.BAD_UNION_BRANCH)
        return branch


class _WatchedBytes(io.BytesIO):
    """Says where it ends, for half the speed."""

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        if size is not None and len(found) < size:
            raise EOFError
        return found


class _FailedError(Exception):
    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.name)


def general_reader(writer: AvroSchema, records: StreamRecords, layout: Layout) -> GeneralReader:
    """Prepares the general path for a writer's schema.

    Raises:
        SchemaError: no record of this schema can be read as one of the stream's.
    """
    root = writer.resolved(writer.root)
    branches: list[_Branch | None] = []
    problem: SchemaError | None = None
    for node in root if isinstance(root, list) else [root]:
        try:
            branches.append(_branch(writer, writer.resolved(node), records, layout))
        except SchemaError as error:
            problem = error
            branches.append(None)
    if problem is not None and not any(branches):
        raise problem
    return GeneralReader(branches, isinstance(root, list), layout, is_recursive(writer), is_blind(writer))


def _branch(writer: AvroSchema, node: Node, records: StreamRecords, layout: Layout) -> _Branch:
    record = record_type_of(node, records)
    columns = {
        column: (path, layout.kind(column), _written_at(writer, node, record, path), _node_at(record.schema, record.record, path))
        for path, column in layout.paths(record).items()
    }
    absent = tuple(set(range(2, layout.count)) - set(columns))
    return _Branch(plain_schema(writer, node), plain_schema(record.schema, record.record), record, columns, absent)


def plain_schema(schema: AvroSchema, node: Node) -> Node:
    """A schema for fastavro that stands for itself, without logical types: these are converted here, as the kernel does it.

    fastavro goes by the writer's logical types alone, rounds decimals to their declared precision, refuses texts that are no UUID, and times of day become objects.
    """
    spelt = _spelt(schema, node, set())
    return parse_writer_schema(spelt).root  # a reader's defaults were checked when it was first parsed


def _spelt(schema: AvroSchema, node: Node, seen: set[str]) -> Node:
    """The node with every named type written out where it occurs first."""
    if isinstance(node, list):
        return [_spelt(schema, branch, seen) for branch in node]
    if isinstance(node, str):
        if node in seen or node not in schema.names:
            return node
        node = schema.names[node]
    plain = {key: value for key, value in node.items() if not key.startswith("__")}
    plain.pop("logicalType", None)
    if "name" in plain:
        if plain["name"] in seen:
            return str(plain["name"])
        seen.add(plain["name"])
    if "fields" in plain:
        plain["fields"] = [{**entry, "type": _spelt(schema, entry["type"], seen)} for entry in plain["fields"]]
    for inside in ("items", "values"):
        if inside in plain:
            plain[inside] = _spelt(schema, plain[inside], seen)
    return plain


def _node_at(schema: AvroSchema, node: Node, path: Sequence[str | int]) -> Node | None:
    """The type at a path, without null; None where there is none."""
    for step in path:
        below = _below(without_null(schema, node)[0], step)
        if below is None:
            return None
        node = below
    return without_null(schema, node)[0]


def _below(node: Node, step: str | int | None) -> Node | None:
    """The type of a field, or of the elements."""
    if not isinstance(node, dict):
        return None
    inside = {"array": "items", "map": "values"}.get(type_name(node))
    return node.get(inside) if inside else next((entry["type"] for entry in node.get("fields", ()) if entry["name"] == step), None)


def _written_at(writer: AvroSchema, node: Node, record: RecordType, path: Sequence[str | int]) -> Node | None:
    """The writer's type at a path, which has the reader's names; None where there is none. Aliases count as they do in a program."""
    reader: Node = record.record
    for step in path:
        node, reader = without_null(writer, node)[0], without_null(record.schema, reader)[0]
        if isinstance(node, list):
            same = (branch for fits in (is_itself, is_same) for branch in map(writer.resolved, node) if fits(branch, reader))
            node = next(same, node)
        if type_name(node) != type_name(reader):
            return None
        below, known = _below(node, _written_name(node, reader, step) if type_name(node) == "record" else step), _below(reader, step)
        if below is None or known is None:
            return None
        node, reader = below, known
    return without_null(writer, node)[0]


def _written_name(node: Any, reader: Any, name: str | int) -> str | None:
    """What the writer's record calls a field of the reader's: a name counts before an alias, and of several the first is read."""
    readers = {alias: entry["name"] for entry in reader["fields"] for alias in entry.get("aliases", ())}
    readers |= {entry["name"]: entry["name"] for entry in reader["fields"]}
    return next((entry["name"] for entry in node["fields"] if readers.get(entry["name"]) == name), None)


def _plain(value: Any, kind: Kind, written: Node | None, read: Node | None) -> Any:
    """What fastavro left raw: logical types, the writer's before the reader's, and defaults of bytes, which are text in JSON."""
    written, read = _branch_of(written, value), _branch_of(read, value)
    if isinstance(value, str) and read is not None and type_name(read) in ("bytes", "fixed"):
        value = value.encode("latin-1")
    if isinstance(value, bytes):
        if kind is Kind.FLOAT:
            return int.from_bytes(value, "big", signed=True) / 10 ** scale_of(written, read)
        if read is not None and logical_type(read) == "uuid":
            return str(UUID(bytes=value))
    if kind is Kind.TIME and isinstance(value, int):
        unit = next((own for one in (written, read) if one is not None and (own := logical_type(one))), "")
        multiplier, divisor = TIME_SCALES.get(unit, (1, 1))
        return value * multiplier // divisor
    return value


def _branch_of(node: Node | None, value: Any) -> Node | None:
    """Of a union the first branch that such a value can be of."""
    if not isinstance(node, list):
        return node
    names = ("bytes", "fixed") if isinstance(value, bytes) else ("int", "long") if isinstance(value, int) else ()
    return next((branch for branch in node if type_name(branch) in names), None)
