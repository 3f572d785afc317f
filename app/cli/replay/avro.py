"""Composite events as an Avro container: a record per query (``PriceRun``, ``PriceRunTimeout``), put together from texts of bytes as JSON lines are.

A record has ``query``, ``version``, ``time``, ``window``, ``fields`` (a record of the return fields) and ``events`` (``var``, ``position``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from app.bucket.encoding.avro import NULL, VALUE, counts_of, nulls, number, numbers, of_column, of_lists, text, union
from app.bucket.encoding.kernels_pieces import Cells, Template
from app.bucket.encoding.pieces import Elements, cells_of, template_of
from app.bucket.identity import Outcome
from app.cli.inputs.events import LineFinder
from app.cli.replay.lines import blocks_of
from app.cli.replay.matches import QueryMatches
from app.delivery.composite_schema import AVRO_TYPES, NAMESPACE, field_name, record_name
from app.events.types import Kind
from app.query.plan import Catalog, Plan, ReturnField

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
        entries = b"".join(text(key.encode()) + text(value) for key, value in meta.items())
        file.write(b"Obj\x01" + number(len(meta)) + entries + NULL + self._sync)

    def write(self, queries: Sequence[QueryMatches], finder: LineFinder, topics: Sequence[str] | None) -> None:
        """Writes all matches in their order, a block of the container per block of them."""
        written = [(query, self._template(query)) for query in queries]
        for count, data in blocks_of(written, lambda query: _cells(query, finder)):
            self._file.write(number(count) + number(len(data)) + data + self._sync)

    def _template(self, query: QueryMatches) -> Template:
        plan = query.plan
        head = number(self._branches[plan.name, query.kind]) + text(plan.name.encode()) + number(plan.version)
        # behind the head: time, window, fields, number of events
        items = [NULL if item.variable is None else VALUE + text(item.variable.encode()) for item in plan.items]
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
    windows, bound = query.window_texts(finder), query.bound
    columns = [numbers(query.fields.time), nulls(len(query)) if windows is None else union(numbers(np.asarray(windows)))]
    for returned in query.plan.returns:
        lists = query.lists.get(returned.name)
        if lists is None:
            columns.append(of_column(query.fields.columns[returned.name], returned.kind, nan=False))
        else:
            columns.append(of_lists(lists, returned.kind, nan=False))
    positions = numbers(np.asarray(query.position_texts(finder, bound.source, bound.offset)))
    return cells_of([*columns, counts_of(bound.starts)], Elements(bound.starts, bound.item, positions))
