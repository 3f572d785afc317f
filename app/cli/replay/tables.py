"""Composite events as columns: Parquet and Arrow files with one row per composite event.

``query``, ``version``, ``kind`` (``match`` or ``timeout``), ``time``, ``window``, ``fields`` (a struct of the return fields of all queries, null where a
query has none of that name) and ``events`` (a list of structs of ``var`` and ``position``), in the order of the JSON lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.bucket.chunk import compacted
from app.bucket.lists import starts_of
from app.bucket.values import whole_numbers
from app.cep.matches import Lists
from app.cli.inputs.events import LineFinder
from app.cli.replay.lines import BLOCK, by_owner, total_order
from app.cli.replay.matches import QueryMatches
from app.errors import CepError
from app.events.batch import Column
from app.events.types import Kind
from app.query.plan import Catalog, ReturnField

TYPES: Mapping[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.TIME: pa.timestamp("ms", "UTC"),
    Kind.DURATION: pa.int64(),
}
EVENT = pa.struct([("var", pa.string()), ("position", pa.int64())])


def table_schema(catalog: Catalog) -> pa.Schema:
    """The columns of the composite events of all queries.

    Raises:
        CepError: two queries return a field of one name as different kinds.
    """
    fields: dict[str, pa.DataType] = {}
    for plan in catalog.plans:
        for returned in plan.returns:
            own = _type_of(returned)
            known = fields.setdefault(returned.name, own)
            if known != own and {known, own} != {pa.int64(), pa.float64()}:
                raise CepError(
                    f'query {plan.name}: the field "{returned.name}" is {own} here and {known} in another query, and a table has one column of a name'
                    "\nhint: write JSON lines, or rename one of them in return"
                )
            fields[returned.name] = known if known == own else pa.float64()
    columns = [("query", pa.string()), ("version", pa.int32()), ("kind", pa.string()), ("time", TYPES[Kind.TIME]), ("window", pa.int64())]
    # Parquet has no structs without members
    struct = [("fields", pa.struct(list(fields.items())))] if fields else []
    return pa.schema([*columns, *struct, ("events", pa.list_(EVENT))])


def _type_of(returned: ReturnField) -> pa.DataType:
    return pa.list_(TYPES[returned.kind]) if returned.array else TYPES[returned.kind]


def table_blocks(queries: Sequence[QueryMatches], finder: LineFinder, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of all matches, in the order of the JSON lines, block by block.

    Args:
        queries: matches of all queries, and timeouts, each in any order.
        finder: of the events' lines.
        schema: see `table_schema`.
    """
    if not queries:
        return
    order = total_order(queries)
    firsts = starts_of(np.array([len(query) for query in queries], dtype=np.int64))
    for start in range(0, len(order), BLOCK):
        numbers = order[start : start + BLOCK]
        owners = np.searchsorted(firsts, numbers, side="right") - 1
        parts, places = [], []
        for owner, own in by_owner(owners):
            parts.append(_rows(queries[owner].take((numbers - firsts[owners])[own]), finder, schema))
            places.append(own)
        back = np.argsort(np.concatenate(places))
        yield pa.Table.from_batches(parts).combine_chunks().take(pa.array(back)).to_batches()[0] if len(parts) > 1 else parts[0]


def _rows(query: QueryMatches, finder: LineFinder, schema: pa.Schema) -> pa.RecordBatch:
    size = len(query)
    windows = query.window_texts(finder)
    items = pa.array([item.variable for item in query.plan.items], pa.string())
    positions = pa.array(np.asarray(query.position_texts(finder, query.bound.source, query.bound.offset)), pa.int64())
    events = pa.StructArray.from_arrays([items.take(pa.array(query.bound.item)), positions], fields=list(EVENT))
    struct = list(schema.field("fields").type) if "fields" in schema.names else []
    returned = {one.name: one for one in query.plan.returns}
    fields = [_field(query, returned.get(field.name), field.type) for field in struct]
    return pa.record_batch(
        [
            pa.repeat(pa.scalar(query.plan.name), size),
            pa.repeat(pa.scalar(query.plan.version, pa.int32()), size),
            pa.repeat(pa.scalar(query.kind), size),
            pa.array(query.fields.time).cast(schema.field("time").type),
            pa.nulls(size, pa.int64()) if windows is None else pa.array(windows, pa.int64()),
            *([pa.StructArray.from_arrays(fields, fields=struct)] if fields else []),
            pa.ListArray.from_arrays(pa.array(query.bound.starts.astype(np.int32)), events),
        ],
        schema=schema,
    )


def _field(query: QueryMatches, returned: ReturnField | None, target: pa.DataType) -> pa.Array:
    if returned is None:
        return pa.nulls(len(query), target)
    lists = query.lists.get(returned.name)
    if lists is None:
        values = _values(query.fields.columns[returned.name], returned.kind)
        return values.cast(target, safe=not (values.type == pa.int64() and target == pa.float64()))  # 2^53 + 1 is no float
    return _lists(lists, returned.kind).cast(target)


def _lists(lists: Lists, kind: Kind) -> pa.Array:
    empty = np.append(lists.starts[1:] == lists.starts[:-1], False)
    offsets = pa.array(lists.starts.astype(np.int32), mask=empty)
    return pa.ListArray.from_arrays(offsets, _values(lists.values, kind))


def _values(column: Column, kind: Kind) -> pa.Array:
    """A column of return values; NaN and infinity are null, as in JSON lines, and so is what is declared whole and none of 64 bit, as in Avro."""
    missing = np.zeros(len(column.values), dtype=bool) if column.state is None else column.state != 0
    if column.dictionary is not None:
        return _texts(compacted(column), kind, missing)
    values: NDArray[Any] = column.values
    if values.dtype.kind == "f":
        if kind in (Kind.INTEGER, Kind.TIME, Kind.DURATION):
            values, none = whole_numbers(values)
        else:
            none = ~np.isfinite(values)
        missing = missing | none
    return pa.array(values != 0 if kind is Kind.BOOLEAN else values, mask=missing)


def _texts(column: Column, kind: Kind, missing: NDArray[np.bool_]) -> pa.Array:
    entries = [] if column.dictionary is None else column.dictionary.entries()
    if not entries:
        return pa.nulls(len(missing), TYPES[kind])
    values = pa.array(entries if kind is Kind.BYTES else [entry.decode(errors="replace") for entry in entries], TYPES[kind])
    return values.take(pa.array(column.values.astype(np.int64), mask=missing))
