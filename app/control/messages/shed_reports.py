"""Shed reports: what was asked of each shedder in a batch, and what it did. See `schemas/ShedReport.avsc`.

The report of batch *n* is known when all its tasks have reported, that is, when batch *n + 1* is decided. It travels in that directive, so that the
egress of batch *n + 1* writes it like any other output: repeated batches write the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["EVENTS", "PAIRS", "PARTIAL_MATCHES", "TUPLES"]
"""What was dropped; pairs: events that were hidden from single partial matches."""
Place = Literal["ingress", "bucket", "matching"]
"""Where: whole events at the ingress, or in the bucket, where what was kept is remembered; in matching all that only the engine knows."""


@dataclass(frozen=True, slots=True)
class ShedReport:
    """One query, one batch.

    Attributes:
        decided_at_ms: when the batch's directive was frozen.
        considered: events (partial matches, tuples) that could have been dropped.
        dropped: those that were.
        utility_threshold: what lies below it was dropped; None for shedders without utilities.
        latency_ms: latency that was predicted without shedding.
        cost_ms: time that tasks of the ingress spent on deciding what to drop, all queries that shed there together; None where it is decided elsewhere.
        limit: which of the query's ``limits:`` kept the dropped ones from being made, or from staying; None where a latency bound was the reason.
        place: where it was dropped; None in reports of earlier versions.
    """

    decided_at_ms: int
    query: str
    version: int
    batch: int
    shedder: str
    asked_drop_ratio: float
    considered: int
    dropped: int
    level: Level = "EVENTS"
    utility_threshold: float | None = None
    latency_ms: float | None = None
    latency_bound_ms: int | None = None
    cost_ms: float | None = None
    limit: str | None = None
    place: Place | None = None

    @property
    def realised_drop_ratio(self) -> float:
        """Share that was dropped; 0 when there was nothing to consider."""
        return self.dropped / self.considered if self.considered else 0.0

    def to_avro(self) -> dict[str, Any]:
        """The record of the audit topic.

        >>> ShedReport(0, "q", 1, 7, "random", 0.5, considered=4, dropped=1).to_avro()["realised_drop_ratio"]
        0.25
        """
        return {
            "time": self.decided_at_ms,
            "query": self.query,
            "version": self.version,
            "batch_id": self.batch,
            "shedder": self.shedder,
            "level": self.level,
            "asked_drop_ratio": self.asked_drop_ratio,
            "realised_drop_ratio": self.realised_drop_ratio,
            "considered": self.considered,
            "dropped": self.dropped,
            "utility_threshold": self.utility_threshold,
            "latency_ms": self.latency_ms,
            "latency_bound_ms": self.latency_bound_ms,
            "cost_ms": self.cost_ms,
            "limit": self.limit,
            "place": self.place,
        }

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None or name != "place"}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> ShedReport:
        """Reads what `to_plain` gave."""
        return ShedReport(**plain)


@dataclass(frozen=True, slots=True)
class QualityReport:
    """What shedding cost a query over the last minutes. See `schemas/Estimate.avsc`.

    Attributes:
        decided_at_ms: when the directive was frozen that carries it.
        batch: that writes it.
        period_ms: how far back it looks.
        recall, precision: lower end, value and upper end of a 95 % interval; None where nothing is known.
    """

    decided_at_ms: int
    query: str
    version: int
    batch: int
    period_ms: int
    recall: tuple[float, float, float] | None = None
    precision: tuple[float, float, float] | None = None

    def to_avro(self) -> dict[str, Any]:
        """The record of the audit topic."""
        return {
            "time": self.decided_at_ms,
            "query": self.query,
            "version": self.version,
            "batch_id": self.batch,
            "period_ms": self.period_ms,
            "recall": _interval(self.recall),
            "precision": _interval(self.precision),
        }

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> QualityReport:
        """Reads what `dataclasses.asdict` gave."""
        intervals = {name: None if plain[name] is None else tuple(plain[name]) for name in ("recall", "precision")}
        return QualityReport(**{**plain, **intervals})


def _interval(told: tuple[float, float, float] | None) -> dict[str, float] | None:
    return None if told is None else dict(zip(("lower", "value", "upper"), told, strict=True))
