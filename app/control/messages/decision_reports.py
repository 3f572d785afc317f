"""Decisions of the watchdog as records of the audit topic. See `schemas/WatchdogDecision.avsc`.

A decision travels in the directive that it is about, so that the batch writes it like any other output: repeated batches write the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Reason = Literal["SHEDDING_BEGINS", "SHEDDING_ENDS", "RATIO_CHANGED", "OUT_OF_REACH", "IN_REACH", "BOTTLENECK_MOVED"]
Bottleneck = Literal["FIXED", "INGRESS", "HAND_OVER", "MATCHING"]


@dataclass(frozen=True, slots=True)
class DecisionReport:
    """What is told of one query; the schema says what the fields mean.

    Attributes:
        decided_at_ms: when the batch's directive was frozen.
        batch: the first that runs by it.
        arrivals_per_s, capacity_per_s, backlog: records of the query's streams.
    """

    decided_at_ms: int
    query: str
    version: int
    batch: int
    reason: Reason
    shedder: str
    drop_ratio: float
    former_drop_ratio: float
    latency_bound_ms: int
    latency_ms: float
    unshed_latency_ms: float
    in_reach: bool
    bottleneck: Bottleneck
    arrivals_per_s: float
    capacity_per_s: float | None
    backlog: int
    events_drop_ratio: float = 0.0

    def to_avro(self) -> dict[str, Any]:
        """The record of the audit topic."""
        plain = asdict(self)
        return {"time": plain.pop("decided_at_ms"), "batch_id": plain.pop("batch"), **plain}

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return asdict(self)

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> DecisionReport:
        """Reads what `to_plain` gave."""
        return DecisionReport(**plain)
