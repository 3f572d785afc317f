"""Composite events as an Avro container: a record per query (``PriceRun``, ``PriceRunTimeout``), put together from texts of bytes as JSON lines are.

A record has ``query``, ``version``, ``time``, ``window``, ``fields`` (a record of the return fields) and ``events`` (``var``, ``position``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from app.bucket.chunk import compacted
from app.bucket.composite import Outcome
from app.bucket.lists import starts_of
from app.cep.matches import Lists
from app.cli.inputs.events import LineFinder
from app.cli.replay.kernels_avro import write_numbers
from app.cli.replay.kernels_lines import Cells, Template
from app.cli.replay.lines import Texts, blocks_of, cells_of, template_of, whole_milliseconds
from app.cli.replay.matches import QueryMatches
from app.delivery.composite_schema import AVRO_TYPES, NAMESPACE, field_name, record_name
from app.events.batch import Column
from app.events.types import Kind
from app.query.plan import Catalog, Plan, ReturnField

NULL = b"\x00"
VALUE = b"\x02"
"""Branches of a union with null in front."""
EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": "var", "type": ["null", "string"]}, {"name": "position", "type": "long", "doc": "0-based line of the input"}],
}


class AvroFile:
    """Writes a container.

    Args:
        file: empty.
        catalog: the queries.
    """

    def __init__(self, file: BinaryIO, catalog: Catalog) -> None:
        self._file = file
        self._sync = os.urandom(16)
        self._branches: dict[tuple[str, Outcome], int] = {}
        schemas: list[dict[str, Any]] = []
        for plan in catalog.plans:
            for kind in outcomes_of(plan):
                self._branches[plan.name, kind] = len(schemas)
                schemas.append(record_schema(plan, kind, first=not schemas))
        meta = {"avro.schema": json.dumps(schemas).encode(), "avro.codec": b"null"}
        entries = b"".join(_text(key.encode()) + _text(value) for key, value in meta.items())
        file.write(b"Obj\x01" + _number(len(meta)) + entries + NULL + self._sync)

    def write(self, queries: Sequence[QueryMatches], finder: LineFinder, topics: Sequence[str] | None) -> None:
        """Writes all matches in their order, a block of the container per block of them."""
        written = [(query, self._template(query)) for query in queries]
        for count, data in blocks_of(written, lambda query: _cells(query, finder)):
            self._file.write(_number(count) + _number(len(data)) + data + self._sync)

    def _template(self, query: QueryMatches) -> Template:
        plan = query.plan
        head = _number(self._branches[plan.name, query.kind]) + _text(plan.name.encode()) + _number(plan.version)
        # behind the head: time, window, fields, number of events
        items = [NULL if item.variable is None else VALUE + _text(item.variable.encode()) for item in plan.items]
        return template_of([head, *([b""] * (len(plan.returns) + 2)), b""], items, b"", NULL)


def outcomes_of(plan: Plan) -> tuple[Outcome, ...]:
    """What a query can write."""
    return ("match", "timeout") if plan.on_timeout == "emit" else ("match",)


def record_schema(plan: Plan, kind: Outcome, *, first: bool) -> dict[str, Any]:
    """The record of a query's composite events, or of its timeouts; the ``first`` one of a container defines what all use."""
    name = record_name(plan.name) + ("Timeout" if kind == "timeout" else "")
    returned = [{"name": field_name(one.name), "type": _return_type(one)} for one in plan.returns]
    return {
        "type": "record",
        "name": name,
        "namespace": NAMESPACE,
        "fields": [
            {"name": "query", "type": "string"},
            {"name": "version", "type": "int"},
            {"name": "time", "type": AVRO_TYPES[Kind.TIME]},
            {"name": "window", "type": ["null", "long"]},
            {"name": "fields", "type": {"type": "record", "name": f"{name}Fields", "fields": returned}},
            {"name": "events", "type": {"type": "array", "items": EVENT if first else f"{NAMESPACE}.Event"}},
        ],
    }


def _return_type(returned: ReturnField) -> Any:
    element = ["null", AVRO_TYPES[returned.kind]]
    return ["null", {"type": "array", "items": element}] if returned.array else element


def _cells(query: QueryMatches, finder: LineFinder) -> Cells:
    """All cells of a query's matches as Avro's bytes."""
    windows, counts = query.window_texts(finder), np.diff(query.bound.starts)
    columns = [_numbers(query.fields.time), _nothing(len(query)) if windows is None else _union(_numbers(np.asarray(windows)), None)]
    for returned in query.plan.returns:
        lists = query.lists.get(returned.name)
        columns.append(_of_column(query.fields.columns[returned.name], returned.kind) if lists is None else _of_lists(lists, returned.kind))
    # an array without elements has no block at all: only what ends it
    several = _numbers(counts)
    number = Texts(several.data, several.starts, np.where(counts > 0, several.ends, several.starts))
    positions = _numbers(np.asarray(query.position_texts(finder, query.bound.source, query.bound.offset)))
    return cells_of(query, [*columns, number], positions)


def _number(value: int) -> bytes:
    texts = _numbers(np.array([value], dtype=np.int64))
    return texts.data.tobytes()


def _text(value: bytes) -> bytes:
    return _number(len(value)) + value


def _numbers(values: NDArray[Any]) -> Texts:
    data, ends = np.empty(10 * len(values), dtype=np.uint8), np.empty(len(values) + 1, dtype=np.int64)
    used = write_numbers(np.ascontiguousarray(values, dtype=np.int64), data, ends)
    return Texts(data[:used], ends[:-1], ends[1:])


def _nothing(size: int) -> Texts:
    return Texts(np.frombuffer(NULL, dtype=np.uint8), np.zeros(size, np.int64), np.ones(size, np.int64))


def _union(texts: Texts, missing: NDArray[np.bool_] | None) -> Texts:
    """Values behind the number of their branch, which take turns with it; null where they are missing."""
    lengths = texts.ends - texts.starts
    bounds = starts_of(lengths + 1)
    data = np.full(int(bounds[-1]), VALUE[0], dtype=np.uint8)
    places = np.ones(len(data), dtype=bool)
    places[bounds[:-1]] = False
    within = np.arange(int(lengths.sum())) + np.repeat(texts.starts - starts_of(lengths)[:-1], lengths)
    data[places] = texts.data[within]
    if missing is None:
        return Texts(data, bounds[:-1], bounds[1:])
    data = np.append(data, np.uint8(NULL[0]))
    return Texts(data, np.where(missing, len(data) - 1, bounds[:-1]), np.where(missing, len(data), bounds[1:]))


def _of_column(column: Column, kind: Kind) -> Texts:
    missing = np.zeros(len(column.values), dtype=bool) if column.state is None else column.state != 0
    values = column.values
    if column.dictionary is not None:
        entries = column.dictionary.entries()
        texts = [entry if kind is Kind.BYTES else entry.decode(errors="replace").encode() for entry in entries] or [b""]
        encoded = [VALUE + _text(text) for text in texts]
        bounds = starts_of(np.array([len(text) for text in encoded], dtype=np.int64))
        codes = np.where(missing, 0, values)
        data, place = np.frombuffer(b"".join([*encoded, NULL]), dtype=np.uint8), int(bounds[-1])
        return Texts(data, np.where(missing, place, bounds[:-1][codes]), np.where(missing, place + 1, bounds[1:][codes]))
    if values.dtype.kind == "f":
        missing = missing | ~np.isfinite(values)
        if kind in (Kind.TIME, Kind.DURATION):
            values = whole_milliseconds(np.where(missing, 0.0, values)).astype(np.int64)
    if kind is Kind.FLOAT:
        doubles = np.ascontiguousarray(values, dtype="<f8").view(np.uint8)
        starts = np.arange(len(values), dtype=np.int64) * 8
        return _union(Texts(doubles, starts, starts + 8), missing)
    if kind is Kind.BOOLEAN:
        starts = np.arange(len(values), dtype=np.int64)
        return _union(Texts((values != 0).astype(np.uint8), starts, starts + 1), missing)
    return _union(_numbers(np.where(missing, 0, values)), missing)


def _of_lists(lists: Lists, kind: Kind) -> Texts:
    """Lists are arrays of one block, null where they are empty."""
    elements = _of_column(compacted(lists.values), kind)
    counts = np.diff(lists.starts)
    lengths = elements.ends - elements.starts
    sums = starts_of(lengths)
    inner = sums[lists.starts[1:]] - sums[lists.starts[:-1]]
    flat = elements.data[np.arange(int(lengths.sum())) + np.repeat(elements.starts - sums[:-1], lengths)]
    heads = _numbers(counts)
    parts = []
    for k in range(len(counts)):
        head, start = heads.data[heads.starts[k] : heads.ends[k]].tobytes(), int(sums[lists.starts[k]])
        parts.append(VALUE + head + flat[start : start + int(inner[k])].tobytes() + NULL if counts[k] else NULL)
    bounds = starts_of(np.array([len(part) for part in parts], dtype=np.int64))
    return Texts(np.frombuffer(b"".join(parts), dtype=np.uint8), bounds[:-1], bounds[1:])
