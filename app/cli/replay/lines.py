"""Matches → JSON lines in bulk: columns become texts, texts become lines, and no match ever becomes an object.

Every cell of a line is a span of text: numbers are written by orjson an array at a time, texts once per dictionary entry. A line is then
the query's constant text with the cells between (`app.bucket.encoding.pieces`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from app.bucket.chunk import compacted, compacted_batch
from app.bucket.encoding.kernels_pieces import Cells, Template, measure_records, write_records
from app.bucket.encoding.pieces import Elements, Texts, cells_of, decimals, put_together, repeated, template_of, texts_of
from app.bucket.lists import starts_of
from app.bucket.values import whole_numbers
from app.cep.matches import Lists
from app.cli.inputs.events import LineFinder
from app.cli.replay.kernels_lines import Keys, sort_matches
from app.cli.replay.matches import QueryMatches
from app.events.batch import Column
from app.events.types import Kind

BLOCK = 1 << 15
"""Matches whose texts are in memory at a time, some 10 MB."""
MILLISECOND_KINDS = (Kind.TIME, Kind.DURATION)


def line_blocks(queries: Sequence[QueryMatches], finder: LineFinder, topics: Sequence[str] | None) -> Iterator[bytes]:
    """The JSON lines of all matches, by match time, then their events in total order, then query name.

    Args:
        queries: matches of all queries, and timeouts, each in any order.
        finder: of the events' lines.
        topics: for identities, which are written where this is given (empty: positions of the file have none).
    """
    written = [(query, _template(query, identities=topics is not None)) for query in queries]
    yield from (data for _, data in blocks_of(written, lambda query: _cells(query, finder, topics)))


def blocks_of(written: Sequence[tuple[QueryMatches, Template]], cells: Callable[[QueryMatches], Cells]) -> Iterator[tuple[int, bytes]]:
    """The records of all matches in their order, some at a time: how many, and their bytes.

    Args:
        written: matches of all queries with the constant text of each.
        cells: of some matches of a query.
    """
    if not written:
        return
    queries = [query for query, _ in written]
    order = total_order(queries)
    firsts = starts_of(np.array([len(query) for query in queries], dtype=np.int64))
    for start in range(0, len(order), BLOCK):
        numbers = order[start : start + BLOCK]
        owners = np.searchsorted(firsts, numbers, side="right") - 1
        yield len(numbers), _block(written, owners, numbers - firsts[owners], cells)


def total_order(queries: Sequence[QueryMatches]) -> NDArray[np.int64]:
    """int64 (matches,), the matches of all queries, counted on from query to query, in the order in which they are written."""
    names = sorted({(query.plan.name, query.kind) for query in queries})
    bound = [query.bound for query in queries]
    counts = np.concatenate([np.diff(one.starts) for one in bound])

    def together(parts: list[NDArray[Any]]) -> NDArray[np.int64]:
        return np.ascontiguousarray(np.concatenate(parts), dtype=np.int64)

    keys = Keys(
        match_time=together([query.fields.time for query in queries]),
        starts=starts_of(counts),
        time=together([one.time for one in bound]),
        source=together([one.source for one in bound]),
        place=together([one.place for one in bound]),
        query=together([np.full(len(query), names.index((query.plan.name, query.kind))) for query in queries]),
        window=together([query.windows.number for query in queries]),
        item=together([one.item for one in bound]),
    )
    order = np.arange(len(counts), dtype=np.int64)
    if len(queries) > 1:
        # runs that are almost in order are merged in no time, queries one after the other are not
        order = np.argsort(keys.match_time, kind="stable")
    sort_matches(keys, order, np.empty_like(order))
    return order


def _block(
    queries: Sequence[tuple[QueryMatches, Template]],
    owners: NDArray[np.int64],
    rows: NDArray[np.int64],
    cells_of_part: Callable[[QueryMatches], Cells],
) -> bytes:
    """The lines of some matches in their order.

    Args:
        queries: all of them, each with its constant text.
        owners: int64 (matches,), whose match it is.
        rows: int64 (matches,), which of its matches.
        cells_of_part: of some matches of a query.
    """
    lengths = np.empty(len(rows), dtype=np.int64)
    parts = []
    for owner, places in by_owner(owners):
        query, template = queries[owner]
        part = query.take(rows[places])
        cells = cells_of_part(_with_few_texts(part))
        ends = np.empty(len(places) + 1, dtype=np.int64)
        measure_records(template, cells, ends)
        lengths[places] = np.diff(ends)
        parts.append((template, cells, places))
    starts = starts_of(lengths)
    data = np.empty(int(starts[-1]), dtype=np.uint8)
    for template, cells, places in parts:
        write_records(template, cells, np.ascontiguousarray(starts[places]), data)
    return data.tobytes()


def by_owner(owners: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Every owner with the places at which it stands."""
    order = np.argsort(owners, kind="stable")
    distinct, first = np.unique(owners[order], return_index=True)
    return zip(distinct.tolist(), np.split(order, first[1:]), strict=True)


def _with_few_texts(query: QueryMatches) -> QueryMatches:
    return QueryMatches(query.plan, query.kind, compacted_batch(query.fields), query.lists, query.bound, query.windows, query.read)


def _template(query: QueryMatches, *, identities: bool) -> Template:
    """The constant text of a query's lines."""
    plan = query.plan
    kind = b'"kind":"timeout",' if query.kind == "timeout" else b""
    head = kind + b'"query":%s,"version":%d,"time":' % (orjson.dumps(plan.name), plan.version)
    begin = [b'{"id":', b"," + head] if identities else [b"{" + head]
    fields = [orjson.dumps(returned.name) + b":" for returned in plan.returns]
    before = [b',"window":', *(b',"fields":{' * (k == 0) + b"," * (k > 0) + name for k, name in enumerate(fields))]
    last = (b"}" if fields else b',"fields":{}') + b',"events":['
    parts = [*begin, *before, last]
    items = [b'{"var":' + orjson.dumps(item.variable) + b',"position":' for item in plan.items]
    return template_of(parts, items, b"},", b"}]}\n")


def _cells(query: QueryMatches, finder: LineFinder, topics: Sequence[str] | None) -> Cells:
    """All cells of a query's matches."""
    size = len(query)
    columns = [] if topics is None else [_of_values(query.identities(topics))]
    columns += [decimals(query.fields.time), _of_values_or_none(query.window_texts(finder), size)]
    for returned in query.plan.returns:
        lists = query.lists.get(returned.name)
        columns.append(_of_column(query.fields.columns[returned.name], returned.kind) if lists is None else _of_lists(lists, returned.kind))
    bound = query.bound
    positions = _of_values_or_none(query.position_texts(finder, bound.source, bound.offset), len(bound.item))
    return cells_of(columns, Elements(bound.starts, bound.item, positions))


def _of_entries(entries: Sequence[Any], codes: NDArray[Any]) -> Texts:
    """Values of which each distinct one is written once."""
    return texts_of([orjson.dumps(entry) for entry in entries]).at(codes)


def _of_values(values: Sequence[Any]) -> Texts:
    return _of_entries(values, np.arange(len(values)))


def _of_values_or_none(values: Sequence[Any] | NDArray[np.int64] | None, size: int) -> Texts:
    if values is None:
        return _of_entries([None], np.zeros(size, dtype=np.int64))
    return decimals(values) if isinstance(values, np.ndarray) else _of_values(values)


def _of_column(column: Column, kind: Kind) -> Texts:
    """A return field; null where it is null or absent."""
    texts = _of_present(column, kind)
    return texts if column.state is None else texts.where(column.state != 0, b"null")


def _of_present(column: Column, kind: Kind) -> Texts:
    values = column.values
    if column.dictionary is not None:
        entries = column.dictionary.entries()
        if not entries:
            return _of_entries([None], np.zeros(len(values), dtype=np.int64))
        decoding = "utf-8" if kind is Kind.STRING else "latin-1"
        return _of_entries([entry.decode(decoding, errors="replace") for entry in entries], values)
    if kind is Kind.BOOLEAN:
        return _of_entries([False, True], (values != 0).astype(np.int64))
    if kind in MILLISECOND_KINDS and values.dtype.kind == "f":
        return _of_milliseconds(values)
    return decimals(values)


def _of_milliseconds(values: NDArray[Any]) -> Texts:
    """Times and durations as whole milliseconds, half away from zero; what is none, or none of 64 bit, is null, as in Avro."""
    whole, none = whole_numbers(values)
    return _of_column(Column(Kind.INTEGER, whole, none.astype(np.uint8) if none.any() else None), Kind.INTEGER)


def _of_lists(lists: Lists, kind: Kind) -> Texts:
    """A return field that holds a list per match, null where it is empty."""
    elements = Elements.alike(lists.starts, _of_column(compacted(lists.values), kind))
    empty = lists.starts[1:] == lists.starts[:-1]
    return put_together(template_of([b"[", b""], [b""], b",", b"]"), cells_of([repeated(b"", len(empty))], elements)).where(empty, b"null")
