"""Directives: what the clock decided about a micro-batch, decided once, written down, and the same ever after.

A repeated batch (retry, restart, replay) must do exactly what it did before. So the first request for batch *n* freezes the driver's
current decision into a file of the checkpoint; every later request gets that file's content. Reports of the tasks are appended to the same
file before they are acknowledged, so that directive *n + 1*, which carries the greatest times after *n*, can be made after a crash too.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from app.asc.sequence import Sequence
from app.control.reports import BatchTotals, StageReport, total
from app.control.shed_reports import ShedReport
from app.errors import SnapshotError

FORMAT = 1
"""Version of the files; older ones stay readable."""
KEPT_BATCHES = 100
"""Files that stay after their batch was committed: as many as Spark keeps of its own log, so that a checkpoint can be rewound as far as Spark allows."""


@dataclass(frozen=True, slots=True)
class QueryShedding:
    """How one query sheds in one batch.

    Attributes:
        drop_ratio: share of the query's candidate events to drop, 0 to 1.
        shedder: name in `shedding.registry`.
        place: where to drop: whole events at the ingress, partial matches in matching.
        unshed_latency_ms: latency that was predicted without shedding; for the report only.
        reference: in matching, partial matches that the query would have without shedding, as far as known; the drop ratio speaks of these.
        share: in matching, the share of live partial matches to end before the batch, so that no more than those that the ratio leaves are there.
    """

    drop_ratio: float
    shedder: str = "random"
    place: Literal["ingress", "matching"] = "ingress"
    unshed_latency_ms: float | None = None
    reference: int = 0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class SelectionOrders:
    """How the events of one stream are selected in one batch.

    Attributes:
        sequence: in which order constructs are evaluated.
        sample: of how many events every task reports the regions; 0 while no other sequence is looked for.
    """

    sequence: Sequence
    sample: int = 0

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {**self.sequence.to_plain(), "sample": self.sample}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> SelectionOrders:
        """Reads what `to_plain` gave."""
        return SelectionOrders(Sequence.from_plain(plain), plain["sample"])


@dataclass(frozen=True, slots=True)
class Directive:
    """All that tasks need to know about a batch and may not find out by themselves.

    Attributes:
        batch: Spark's batch id.
        catalog_version: `app.query.plan.Catalog.version` to use.
        deployment: fingerprint of the compiled catalog to use.
        decided_at_ms: the clock when this was frozen.
        seed: of every hash that decides about shedding and sampling.
        shedding: queries that shed in this batch; others do not.
        greatest_times: per source, the greatest event time (ms) *before* this batch; a source without an event is missing.
        sources: all topic partitions that are read, also those without an event yet: they hold watermarks up until they count as idle.
        idle: those among them that the watermark leaves out, ascending.
        stream_times: streams whose sources are all idle: the virtual time (ms) to which the clock has carried them.
        schema_ids: registry ids of output schemas, by subject.
        shed_reports: of the batch before, to be written to the audit topic by this one.
        selection: by stream; a stream without orders is selected in the initial order.
        coming: fingerprint of a deployment that will soon be used: whoever has time gets ready for it. Empty while there is none.
    """

    batch: int
    catalog_version: int = 1
    deployment: str = ""
    decided_at_ms: int = 0
    seed: int = 0
    shedding: Mapping[str, QueryShedding] = field(default_factory=dict)
    greatest_times: Mapping[int, int] = field(default_factory=dict)
    sources: tuple[int, ...] = ()
    idle: tuple[int, ...] = ()
    stream_times: Mapping[str, int] = field(default_factory=dict)
    schema_ids: Mapping[str, int] = field(default_factory=dict)
    shed_reports: tuple[ShedReport, ...] = ()
    selection: Mapping[str, SelectionOrders] = field(default_factory=dict)
    coming: str = ""

    def drop_ratio(self, query: str) -> float:
        """The share of the query's events to drop.

        >>> Directive(7, shedding={"a": QueryShedding(0.25)}).drop_ratio("a"), Directive(7).drop_ratio("a")
        (0.25, 0.0)
        """
        shedding = self.shedding.get(query)
        return 0.0 if shedding is None else shedding.drop_ratio

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "batch": self.batch,
            "catalog_version": self.catalog_version,
            "deployment": self.deployment,
            "decided_at_ms": self.decided_at_ms,
            "seed": self.seed,
            "shedding": {query: asdict(shedding) for query, shedding in sorted(self.shedding.items())},
            "greatest_times": {str(source): time for source, time in sorted(self.greatest_times.items())},
            "sources": list(self.sources),
            "idle": list(self.idle),
            "stream_times": dict(sorted(self.stream_times.items())),
            "schema_ids": dict(sorted(self.schema_ids.items())),
            "shed_reports": [report.to_plain() for report in self.shed_reports],
            "selection": {stream: orders.to_plain() for stream, orders in sorted(self.selection.items())},
            "coming": self.coming,
        }

    def to_json(self) -> bytes:
        """Equal directives give equal bytes."""
        return json.dumps(self.to_plain(), separators=(",", ":")).encode()

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Directive:
        """Reads what `to_plain` gave."""
        return Directive(
            batch=plain["batch"],
            catalog_version=plain["catalog_version"],
            deployment=plain["deployment"],
            decided_at_ms=plain["decided_at_ms"],
            seed=plain["seed"],
            shedding={query: QueryShedding(**s) for query, s in plain["shedding"].items()},
            greatest_times={int(source): time for source, time in plain["greatest_times"].items()},
            sources=tuple(plain["sources"]),
            idle=tuple(plain["idle"]),
            stream_times=dict(plain["stream_times"]),
            schema_ids=dict(plain["schema_ids"]),
            shed_reports=tuple(ShedReport.from_plain(report) for report in plain["shed_reports"]),
            selection={stream: SelectionOrders.from_plain(orders) for stream, orders in plain.get("selection", {}).items()},
            coming=plain.get("coming", ""),
        )

    @staticmethod
    def from_json(data: bytes) -> Directive:
        """Reads what `to_json` wrote."""
        return Directive.from_plain(json.loads(data))


@dataclass(frozen=True, slots=True)
class Frozen:
    """A directive and what the driver must remember to go on after it (the watchdogs' and idle detection's memory)."""

    directive: Directive
    memory: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Entry:
    frozen: Frozen | None
    reports: dict[tuple[str, int], StageReport]


class DirectiveLog:
    """The directives and reports of a checkpoint, one file per batch.

    A file's first line is the directive, written to a temporary name, synced and renamed; reports follow, one line each, synced before
    `record` returns. A torn last line is a report that was never acknowledged: its task repeats it.
    Safe to use from several threads; one process per folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._entries: dict[int, _Entry] = {}
        self._batches = sorted(int(path.stem) for path in folder.glob("*.jsonl") if path.stem.isdigit())

    def directive(self, batch: int, decide: Callable[[int, Mapping[int, int]], Frozen]) -> Directive:
        """The directive of a batch: the logged one, else the decision of now, logged first.

        Args:
            batch: Spark's batch id.
            decide: makes the decision from the batch id and the greatest times before it; called at most once per batch, ever.
        """
        with self._lock:
            entry = self._entry(batch)
            if entry is not None and entry.frozen is not None:
                return entry.frozen.directive
            frozen = decide(batch, self.greatest_times_before(batch))
            # Reports that came before their directive (only from tasks that got it from an earlier driver) are kept.
            self._write(batch, _Entry(frozen, {} if entry is None else entry.reports))
            return frozen.directive

    def record(self, report: StageReport) -> None:
        """Keeps a task's report; when this returns it survives a crash. Sent again, it replaces the earlier one."""
        with self._lock:
            entry = self._entry(report.batch)
            if entry is None:
                entry = _Entry(None, {})
                self._write(report.batch, entry)
            _replace(entry.reports, report)
            file = self._path(report.batch).open("ab")
            file.write(report.to_json() + b"\n")
            file.flush()
        # Synced outside the lock: the file system then syncs the reports of many tasks in one go.
        with file:
            os.fsync(file.fileno())

    def totals(self, batch: int) -> BatchTotals:
        """The reports of a batch that came so far, added up."""
        with self._lock:
            entry = self._entry(batch)
            return total(batch, [] if entry is None else entry.reports.values())

    def logged(self, batch: int) -> Directive | None:
        """The directive of a batch if there is one; never decides."""
        with self._lock:
            entry = self._entry(batch)
            return None if entry is None or entry.frozen is None else entry.frozen.directive

    def latest(self) -> Frozen | None:
        """The newest directive and its memory: where a restarted driver goes on."""
        with self._lock:
            return self._latest_before(None)

    def greatest_times_before(self, batch: int) -> dict[int, int]:
        """Per source, the greatest event time that any batch before this one has seen, ms."""
        with self._lock:
            earlier = self._latest_before(batch)
            if earlier is None:
                return {}
            times = dict(earlier.directive.greatest_times)
            for number in [n for n in self._batches if earlier.directive.batch <= n < batch]:
                for source in self.totals(number).sources.values():
                    if source.greatest_time is not None:
                        times[source.source] = max(times.get(source.source, source.greatest_time), source.greatest_time)
            return times

    def prune(self, committed: int) -> None:
        """Deletes files of batches that Spark committed long ago.

        Args:
            committed: the newest batch that Spark has committed.
        """
        with self._lock:
            for batch in [n for n in self._batches if n <= committed - KEPT_BATCHES]:
                self._path(batch).unlink(missing_ok=True)
                self._batches.remove(batch)
            for batch in [n for n in self._entries if n < committed - 2]:
                del self._entries[batch]

    def _latest_before(self, batch: int | None) -> Frozen | None:
        for number in reversed(self._batches):
            if batch is not None and number >= batch:
                continue
            entry = self._entry(number)
            if entry is not None and entry.frozen is not None:
                return entry.frozen
        return None

    def _entry(self, batch: int) -> _Entry | None:
        if batch not in self._entries and batch in self._batches:
            _close_torn_line(self._path(batch))
            self._entries[batch] = _read(self._path(batch))
        return self._entries.get(batch)

    def _write(self, batch: int, entry: _Entry) -> None:
        frozen = None if entry.frozen is None else {"directive": entry.frozen.directive.to_plain(), "memory": dict(entry.frozen.memory)}
        head = json.dumps({"format": FORMAT, "frozen": frozen}, separators=(",", ":")).encode()
        lines = [head, *(report.to_json() for report in entry.reports.values())]
        temporary = self._path(batch).with_suffix(".tmp")
        with temporary.open("wb") as file:
            file.write(b"\n".join(lines) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path(batch))
        _sync_folder(self._folder)
        self._entries[batch] = entry
        if batch not in self._batches:
            self._batches = sorted([*self._batches, batch])

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch:020}.jsonl"


def _replace(reports: dict[tuple[str, int], StageReport], report: StageReport) -> None:
    # A restart may cut the batch into other tasks: parts of the earlier run would be counted beside those of the new one.
    for key in [key for key, known in reports.items() if known.stage == report.stage and known.run != report.run]:
        del reports[key]
    reports[report.stage, report.part] = report


def _close_torn_line(path: Path) -> None:
    with path.open("rb+") as file:
        if file.seek(0, os.SEEK_END) > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")  # else the next report would be appended to the torn one and lost with it


def _read(path: Path) -> _Entry:
    lines = path.read_bytes().split(b"\n")
    try:
        head = json.loads(lines[0])
        if head["format"] != FORMAT:
            raise SnapshotError(f"{path}: directive of format {head['format']}, this version reads {FORMAT}")
        plain = head["frozen"]
        frozen = None if plain is None else Frozen(Directive.from_plain(plain["directive"]), plain["memory"])
    except (ValueError, KeyError, TypeError) as error:
        raise SnapshotError(f"{path}: no directive: {error}") from error
    reports: dict[tuple[str, int], StageReport] = {}
    for line in lines[1:-1]:
        try:
            _replace(reports, StageReport.from_json(line))
        except ValueError:
            continue  # torn by a crash, so never acknowledged: its task repeats it
    return _Entry(frozen, reports)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
