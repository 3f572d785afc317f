"""Reports of a batch added up, where they arise and again by the driver: work grows with tasks and with queries, not with their product.

A report travels packed: a head in JSON, then its queries' counts as columns of the narrowest integers that hold them, by the query's number in
the deployment (`ops/bench/driver.py` measures what a thousand queries on eighty owners cost).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from app.control.messages.reports import ENDS, QueryTally, SelectionTally, SourceProgress, StageReport, Trouble
from app.errors import SnapshotError
from app.observe.latency import LATENCY_BOUNDS_MS

COUNTS = tuple(one.name for one in fields(QueryTally) if one.name not in ("query", "latencies"))
_WIDTH = len(COUNTS) + len(LATENCY_BOUNDS_MS) + 1
_PLACES = frozenset(range(_WIDTH))
_OF_TASKS = {"batch", "stage", "queries", "undelivered", "unknown", "copy"}  # what an owner without buckets does not tell
_HEAD = {one.name for one in fields(StageReport)} - _OF_TASKS
MOST_QUERIES = 1 << 20
"""Of one deployment: a number beyond is none, and a table up to it would not fit."""


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """All reports of a batch, added up.

    Attributes:
        fed: log entries that owners fed, by why: ``own`` (as the batch came), or why a bucket was rebuilt (`app.owners.orders.BucketOrder`).
        damaged: snapshots that were passed over when buckets were rebuilt.
        handed: rows that the ingress handed out to buckets.
        unpacked: rows that buckets unpacked.
        records: output records that were told.
        sent: output records that arrived.
        attempts: how often the batch was begun.
        samples: by query, what the control sample says (`app.audit.sample.counted`, flat).
        slowest_ns: of the owner that spent most on queries, its processor time by query: a batch is over when its last owner is done.
        judging_ns: of that, what judging took, by query.
        phases_ns: time of the clock in the driver, by phase (`app.pipeline.batches.Phase`), all attempts together.
    """

    batch: int
    reports: int = 0
    sources: Mapping[int, SourceProgress] = field(default_factory=dict)
    queries: Mapping[str, QueryTally] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    cost_ns: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    next_release_ms: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    selection: Mapping[str, SelectionTally] = field(default_factory=dict)
    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    fed: Mapping[str, int] = field(default_factory=dict)
    damaged: int = 0
    handed: int = 0
    unpacked: int = 0
    records: int = 0
    sent: int = 0
    attempts: int = 1
    phases_ns: Mapping[str, int] = field(default_factory=dict)
    slowest_ns: Mapping[str, int] = field(default_factory=dict)
    judging_ns: Mapping[str, int] = field(default_factory=dict)
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def unaccounted(self) -> int:
        """Consumed events whose end nobody reported; 0 when nothing was dropped silently."""
        return self.counts.get("consumed", 0) - sum(self.counts.get(end, 0) for end in ENDS)

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        rest = {one.name: getattr(self, one.name) for one in fields(BatchTotals)}
        return {
            **rest,
            "sources": [list(_values(source)) for source in self.sources.values()],
            "queries": {
                name: [*(getattr(tally, count) for count in COUNTS), list(tally.latencies)] for name, tally in self.queries.items()
            },
            "selection": [asdict(tally) for tally in self.selection.values()],
            "troubles": [asdict(trouble) for trouble in self.troubles.values()],
        }

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> BatchTotals:
        """Reads what `to_plain` gave."""
        values = dict(plain)
        values["sources"] = {one[0]: SourceProgress(*one) for one in plain["sources"]}
        values["queries"] = {
            name: QueryTally(name, **dict(zip(COUNTS, counts, strict=False)), latencies=tuple(latencies))  # older ones count less
            for name, (*counts, latencies) in plain["queries"].items()
        }
        values["selection"] = {one["stream"]: SelectionTally(**{**one, "samples": tuple(one["samples"])}) for one in plain["selection"]}
        values["troubles"] = {one["what"]: Trouble(**one) for one in plain.get("troubles", ())}
        return BatchTotals(**values)


@dataclass(frozen=True, slots=True, eq=False)
class _Opened:
    """A packed report, opened: its head, its queries' numbers, and by place the counts that are not all zero."""

    head: dict[str, Any]
    numbers: NDArray[np.int64]
    counts: Mapping[int, NDArray[Any]]


def pack_report(report: StageReport, names: Sequence[str]) -> bytes:
    """The report as it travels.

    Args:
        report: of a task, or of one bucket.
        names: of the deployment's plans, in their order.
    """
    number_of = {name: number for number, name in reversed(list(enumerate(names)))}
    numbers = np.array([number_of[tally.query] for tally in report.queries], dtype=np.int64)
    counts = np.zeros((len(report.queries), _WIDTH), dtype=np.int64)
    for row, tally in enumerate(report.queries):
        counts[row, : len(COUNTS)] = [getattr(tally, name) for name in COUNTS]
        counts[row, len(COUNTS) : len(COUNTS) + len(tally.latencies)] = tally.latencies
    nested = ("queries", "sources", "selection", "troubles")
    head = {one.name: getattr(report, one.name) for one in fields(StageReport) if one.name not in nested}
    head |= {"sources": [list(_values(source)) for source in report.sources], "selection": [asdict(one) for one in report.selection]}
    head |= {"troubles": [asdict(one) for one in report.troubles]}
    return _packed(head, numbers, counts)


def _values(source: SourceProgress) -> Iterable[int | None]:
    return (getattr(source, one.name) for one in fields(SourceProgress))


def _packed(head: Mapping[str, Any], numbers: NDArray[np.int64], counts: NDArray[np.int64]) -> bytes:
    used = np.flatnonzero(counts.any(axis=0))
    columns = [_narrow(numbers), *(_narrow(counts[:, column]) for column in used)]
    described = {**head, "rows": len(numbers), "used": used.tolist(), "types": [column.dtype.str for column in columns]}
    text = orjson.dumps(described, option=orjson.OPT_NON_STR_KEYS)
    return b"".join([struct.pack("<I", len(text)), text, *(column.tobytes() for column in columns)])


def _narrow(values: NDArray[np.int64]) -> NDArray[Any]:
    least, greatest = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    # with a negative one among them a signed type, never a float: that is what numpy makes of int64 with uint64
    return values.astype(np.min_scalar_type(greatest if least >= 0 else min(least, -greatest - 1)))


def _open(data: bytes | memoryview) -> _Opened:
    try:
        (length,) = struct.unpack_from("<I", data)
        head = orjson.loads(memoryview(data)[4 : 4 + length])
        at, rows, columns = 4 + length, head["rows"], []
        for kind in head["types"]:
            columns.append(np.frombuffer(data, np.dtype(kind), rows, at))
            at += columns[-1].nbytes
        counts = dict(zip(head["used"], columns[1:], strict=True))
        _require_known(head, columns, counts)
        rest = {name: value for name, value in head.items() if name not in ("rows", "used", "types")}
        return _Opened(rest, columns[0].astype(np.int64), counts)
    except (struct.error, ValueError, LookupError, TypeError, AttributeError) as error:
        raise SnapshotError(f"no report: {error}") from error


def _require_known(head: Mapping[str, Any], columns: Sequence[NDArray[Any]], counts: Mapping[int, NDArray[Any]]) -> None:
    """A report of another version, or of other bytes, ends here and not in the middle of a sum."""
    rows = head["rows"]
    if rows < 0 or not head.keys() >= _HEAD or not all(column.dtype.kind in "iu" for column in columns):
        raise ValueError("no columns of integers, or not all that is told")
    if not set(counts) <= _PLACES or (rows and not 0 <= int(columns[0].min()) <= int(columns[0].max()) < MOST_QUERIES):
        raise ValueError("counts or queries that nobody knows")


def head_of(packed: bytes | memoryview) -> Mapping[str, Any]:
    """The fields of a packed report that are no queries' counts.

    Raises:
        SnapshotError: the bytes are no report.
    """
    return _open(packed).head


def with_fields(packed: bytes, **values: int) -> bytes:
    """The report with some fields of its head as given."""
    opened = _open(packed)
    counts = np.zeros((len(opened.numbers), _WIDTH), dtype=np.int64)
    for place, column in opened.counts.items():
        counts[:, place] = column
    return _packed({**opened.head, **values}, opened.numbers, counts)


def joined(packed: Sequence[bytes], part: int) -> bytes:
    """Several reports of one stage and batch as one: an owner's, over its buckets."""
    opened = [_open(one) for one in packed]
    numbers, counts = _summed_tallies(opened)
    heads = [one.head for one in opened]
    head = dict(heads[0]) if heads else {}
    for name in ("counts", "rejected", "cost_ns", "fed"):
        head[name] = _summed(one[name] for one in heads)
    for name in ("waiting", "state_rows", "state_bytes", "damaged", "handed", "unpacked", "records", "sent"):
        head[name] = sum(one[name] for one in heads)
    head["next_release_ms"] = _least(one["next_release_ms"] for one in heads)
    head["samples"] = _summed_samples(heads)
    for name in ("sources", "selection"):
        head[name] = [value for one in heads for value in one[name]]
    head["troubles"] = [asdict(trouble) for trouble in _joined_troubles(heads).values()]
    return _packed({**head, "part": part}, numbers, counts)


def add_up(batch: int, packed: Iterable[bytes | memoryview], names: Sequence[str]) -> BatchTotals:
    """Adds up packed reports.

    Args:
        batch: that they are about.
        packed: of all tasks and owners.
        names: of the deployment's plans, in their order.

    Raises:
        SnapshotError: one is no report.
    """
    try:
        return _added_up(batch, [_open(one) for one in packed], names)
    except (ValueError, LookupError, TypeError, AttributeError) as error:  # of another version, which none of them may tell
        raise SnapshotError(f"no report: {error}") from error


def _added_up(batch: int, opened: Sequence[_Opened], names: Sequence[str]) -> BatchTotals:
    heads = [one.head for one in opened]
    sources: dict[int, SourceProgress] = {}
    selection: dict[str, SelectionTally] = {}
    for head in heads:
        for values in head["sources"]:
            source = SourceProgress(*values)
            sources[source.source] = _joined_source(sources.get(source.source), source)
        for values in head["selection"]:
            selected = SelectionTally(**{**values, "samples": tuple(values["samples"])})
            selection[selected.stream] = _joined_selection(selection.get(selected.stream), selected)
    numbers, counts = _summed_tallies(opened)
    slowest = _slowest(opened)
    queries: dict[str, QueryTally] = {}
    for number, row in zip(numbers.tolist(), counts.tolist(), strict=True):
        tally = _tally(names[number], row)
        queries[tally.query] = tally if tally.query not in queries else _joined_tally(queries[tally.query], tally)
    return BatchTotals(
        batch=batch,
        reports=len(heads),
        sources=sources,
        queries=queries,
        counts=_summed(head["counts"] for head in heads),
        rejected=_summed(head["rejected"] for head in heads),
        cost_ns=_summed(head["cost_ns"] for head in heads),
        waiting=sum(head["waiting"] for head in heads),
        next_release_ms=_least(head["next_release_ms"] for head in heads),
        state_rows=sum(head["state_rows"] for head in heads),
        state_bytes=sum(head["state_bytes"] for head in heads),
        selection=selection,
        troubles=_joined_troubles(heads),
        fed=_summed(head["fed"] for head in heads),
        damaged=sum(head["damaged"] for head in heads),
        handed=sum(head["handed"] for head in heads),
        unpacked=sum(head["unpacked"] for head in heads),
        records=sum(head["records"] for head in heads),
        sent=sum(head["sent"] for head in heads),
        slowest_ns=_by_query(slowest, "cost_ns", names),
        judging_ns=_by_query(slowest, "judging_ns", names),
        samples=_summed_samples(heads),
    )


def _slowest(opened: Sequence[_Opened]) -> _Opened | None:
    """Of the owner that spent most on queries."""
    place = COUNTS.index("cost_ns")
    owners = [one for one in opened if one.head.get("stage") == "cep"]
    return max(owners, key=lambda one: int(one.counts[place].sum()) if place in one.counts else 0, default=None)


def _by_query(report: _Opened | None, count: str, names: Sequence[str]) -> dict[str, int]:
    """One of the counts of a report; of queries that have any."""
    place, found = COUNTS.index(count), dict[str, int]()
    if report is None or place not in report.counts:
        return found
    for number, value in zip(report.numbers.tolist(), report.counts[place].tolist(), strict=True):
        if value:
            found[names[number]] = found.get(names[number], 0) + value
    return found


def total(batch: int, reports: Iterable[StageReport]) -> BatchTotals:
    """Adds up reports that were never packed.

    >>> total(3, [StageReport(3, "ingress", 0, counts={"consumed": 2, "irrelevant": 1}), StageReport(3, "ingress", 1, counts={"consumed": 5})]).counts
    {'consumed': 7, 'irrelevant': 1}
    """
    listed = list(reports)
    names = sorted({tally.query for report in listed for tally in report.queries})
    return add_up(batch, [pack_report(report, names) for report in listed], names)


def _summed_tallies(opened: Sequence[_Opened]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The queries of all reports, ascending, and their counts, added up."""
    if not opened:
        return np.zeros(0, dtype=np.int64), np.zeros((0, _WIDTH), dtype=np.int64)
    everywhere = np.concatenate([one.numbers for one in opened])
    seen = np.zeros(int(everywhere.max(initial=-1)) + 1, dtype=np.bool_)
    seen[everywhere] = True
    numbers, row_of = np.flatnonzero(seen), np.cumsum(seen) - 1
    counts = np.zeros((_WIDTH, len(numbers)), dtype=np.int64)
    for one in opened:
        rows = row_of[one.numbers]
        if (np.diff(rows) > 0).all():
            places: Any = slice(rows[0], rows[-1] + 1) if len(rows) and rows[-1] - rows[0] + 1 == len(rows) else rows
            for place, column in one.counts.items():
                counts[place, places] += _signed(column)
        else:  # a query twice, where an old version of it drains: many times as slow
            for place, column in one.counts.items():
                np.add.at(counts[place], rows, _signed(column))
    return numbers, counts.T


def _signed(column: NDArray[Any]) -> NDArray[Any]:
    """Numpy adds no unsigned 64 bits to signed ones; there are none beyond (`_packed` begins with int64)."""
    return column.view(np.int64) if column.dtype == np.uint64 else column


def _tally(query: str, row: Sequence[int]) -> QueryTally:
    latencies = tuple(row[len(COUNTS) :])
    return QueryTally(query, **dict(zip(COUNTS, row, strict=False)), latencies=latencies if any(latencies) else ())


def _joined_tally(known: QueryTally, more: QueryTally) -> QueryTally:
    width = max(len(known.latencies), len(more.latencies))
    padded = [tally.latencies + (0,) * (width - len(tally.latencies)) for tally in (known, more)]
    return QueryTally(
        more.query,
        **{name: getattr(known, name) + getattr(more, name) for name in COUNTS},
        latencies=tuple(a + b for a, b in zip(*padded, strict=True)),
    )


def _summed_samples(heads: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    added: dict[str, list[float]] = {}
    for head in heads:
        for query, counts in head.get("samples", {}).items():
            added[query] = [a + b for a, b in zip(added.get(query, [0.0] * len(counts)), counts, strict=True)]
    return added


def _summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    added: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            added[name] = added.get(name, 0) + count
    return added


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _greatest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _joined_source(known: SourceProgress | None, more: SourceProgress) -> SourceProgress:
    if known is None:
        return more
    return SourceProgress(
        source=more.source,
        events=known.events + more.events,
        greatest_time=_greatest((known.greatest_time, more.greatest_time)),
        oldest_broker_ms=_least((known.oldest_broker_ms, more.oldest_broker_ms)),
        newest_broker_ms=_greatest((known.newest_broker_ms, more.newest_broker_ms)),
        first_offset=_least((known.first_offset, more.first_offset)),
        next_offset=_greatest((known.next_offset, more.next_offset)),
        bytes=known.bytes + more.bytes,
    )


def _joined_troubles(heads: Iterable[Mapping[str, Any]]) -> dict[str, Trouble]:
    """By what failed, how often; the first reason stands for all."""
    joined: dict[str, Trouble] = {}
    for trouble in (Trouble(**values) for head in heads for values in head["troubles"]):
        known = joined.get(trouble.what)
        joined[trouble.what] = trouble if known is None else replace(known, count=known.count + trouble.count)
    return joined


def _joined_selection(known: SelectionTally | None, more: SelectionTally) -> SelectionTally:
    if known is None:
        return more
    return SelectionTally(
        stream=more.stream,
        events=known.events + more.events,
        pruned=known.pruned + more.pruned,
        evaluated=known.evaluated + more.evaluated,
        samples=known.samples + more.samples,
    )
