"""Directives: what the clock decided about a micro-batch, decided once, written down, and the same ever after.

A repeated batch (retry, restart, replay) must do exactly what it did before. So the first request for batch *n* freezes the driver's
current decision into a file of the checkpoint; every later request gets that file's content (`app.control.messages.batch_log`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from app.asc.sequence import Sequence
from app.control.messages.decision_reports import DecisionReport
from app.control.messages.shed_reports import Place, QualityReport, ShedReport
from app.errors import SnapshotError

DIRECTIVE_FORMAT = 1
"""Of a directive, wherever it is kept: in the batch log, and before the chunks of a log entry."""


OF_EVENTS = "random"
"""Who drops events where all partial matches are not enough."""


@dataclass(frozen=True, slots=True)
class QueryShedding:
    """How one query sheds in one batch.

    Attributes:
        drop_ratio: share of the query's candidate events to drop, 0 to 1.
        shedder: name in `shedding.registry`.
        place: where to drop: whole events at the ingress, or in the bucket, where what was kept is remembered; partial matches, and events that are hidden from single ones, in matching.
        unshed_latency_ms: latency that was predicted without shedding; for the report only.
        reference: in matching, partial matches that the query would have without shedding, as far as known; the drop ratio speaks of these.
        share: in matching, the share of live partial matches to end before the batch, so that no more than those that the ratio leaves are there.
        events: in matching, the share of candidate events to drop at random as well: where all partial matches that may go are gone, and what events cost by themselves is still too much.
    """

    drop_ratio: float
    shedder: str = OF_EVENTS
    place: Place = "ingress"
    unshed_latency_ms: float | None = None
    reference: int = 0
    share: float = 0.0
    events: float = 0.0

    @property
    def asked(self) -> float:
        """The watchdog's ratio: beyond 1 the share of the events that go as well."""
        return 1 + self.events if self.events else self.drop_ratio

    @property
    def of_events(self) -> QueryShedding | None:
        """How the events go that go as well: at random, at the ingress."""
        return QueryShedding(self.events, unshed_latency_ms=self.unshed_latency_ms) if self.events else None

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {name: value for name, value in asdict(self).items() if value or name != "events"}


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
        estimates: of what shedding costs, to be written to the audit topic by this batch.
        reached: by stream that had come further before this batch than the batch can tell, the time without its allowed lateness, ms (`app.control.messages.reached`).
        state_shares: by query whose state is too large (``limits.state_bytes``), the share of its partial matches to end before the batch.
        decisions: of the watchdog about this batch that are worth telling, to be written to the audit topic by it.
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
    estimates: tuple[QualityReport, ...] = ()
    decisions: tuple[DecisionReport, ...] = ()
    state_shares: Mapping[str, float] = field(default_factory=dict)
    reached: Mapping[str, int] = field(default_factory=dict)

    def drop_ratio(self, query: str) -> float:
        """The share of the query's events to drop.

        >>> Directive(7, shedding={"a": QueryShedding(0.25)}).drop_ratio("a"), Directive(7).drop_ratio("a")
        (0.25, 0.0)
        """
        shedding = self.shedding.get(query)
        return 0.0 if shedding is None else shedding.drop_ratio

    def latency_share(self, query: str) -> float:
        """The share of the query's partial matches to end before the batch, for its latency bound."""
        shedding = self.shedding.get(query)
        return shedding.share if shedding is not None and shedding.place == "matching" else 0.0

    def share_ended(self, query: str) -> float:
        """The same for whatever reason: the larger share contains the other one."""
        return max(self.latency_share(query), self.state_shares.get(query, 0.0))

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "format": DIRECTIVE_FORMAT,
            "batch": self.batch,
            "catalog_version": self.catalog_version,
            "deployment": self.deployment,
            "decided_at_ms": self.decided_at_ms,
            "seed": self.seed,
            "shedding": {query: shedding.to_plain() for query, shedding in sorted(self.shedding.items())},
            "greatest_times": {str(source): time for source, time in sorted(self.greatest_times.items())},
            "sources": list(self.sources),
            "idle": list(self.idle),
            "stream_times": dict(sorted(self.stream_times.items())),
            "schema_ids": dict(sorted(self.schema_ids.items())),
            "shed_reports": [report.to_plain() for report in self.shed_reports],
            "selection": {stream: orders.to_plain() for stream, orders in sorted(self.selection.items())},
            "coming": self.coming,
            **({"estimates": [asdict(one) for one in self.estimates]} if self.estimates else {}),
            **({"decisions": [one.to_plain() for one in self.decisions]} if self.decisions else {}),
            **({"state_shares": dict(sorted(self.state_shares.items()))} if self.state_shares else {}),
            **({"reached": dict(sorted(self.reached.items()))} if self.reached else {}),
        }

    def to_json(self) -> bytes:
        """Equal directives give equal bytes."""
        return json.dumps(self.to_plain(), separators=(",", ":")).encode()

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Directive:
        """Reads what `to_plain` gave, in this version or an older one.

        Raises:
            SnapshotError: it is no directive, or one of a newer version.
        """
        try:
            number = plain["format"]
            if number not in DIRECTIVE_READERS:
                raise SnapshotError(f"directive of a newer version: format {number}, this one reads up to {DIRECTIVE_FORMAT}")
            return DIRECTIVE_READERS[number](plain)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise SnapshotError(f"this is no directive: {error!r}") from error

    @staticmethod
    def from_json(data: bytes) -> Directive:
        """Reads what `to_json` wrote.

        Raises:
            SnapshotError: see `from_plain`.
        """
        try:
            return Directive.from_plain(json.loads(data))
        except (ValueError, RecursionError) as error:
            raise SnapshotError(f"this is no directive: {error!r}") from error


def _from_plain(plain: Mapping[str, Any]) -> Directive:
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
        selection={stream: SelectionOrders.from_plain(orders) for stream, orders in plain["selection"].items()},
        coming=plain.get("coming", ""),
        estimates=tuple(map(QualityReport.from_plain, plain.get("estimates", ()))),
        decisions=tuple(map(DecisionReport.from_plain, plain.get("decisions", ()))),
        state_shares=dict(plain.get("state_shares", {})),
        reached=dict(plain.get("reached", {})),
    )


DIRECTIVE_READERS: Mapping[int, Callable[[Mapping[str, Any]], Directive]] = {1: _from_plain}
"""By format; those of old formats stay."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """A directive and what the driver must remember to go on after it (the watchdogs' and idle detection's memory, what is known of recall and precision)."""

    directive: Directive
    memory: Mapping[str, Any] = field(default_factory=dict)

    def of_batch(self, batch: int, greatest_times: Mapping[int, int]) -> Frozen:
        """The same for another batch, in which nothing is shed and nothing told."""
        silent: dict[str, Any] = {"shedding": {}, "shed_reports": (), "estimates": (), "decisions": (), "state_shares": {}}
        directive = replace(self.directive, batch=batch, greatest_times=dict(greatest_times), **silent)
        return Frozen(directive, self.memory)
