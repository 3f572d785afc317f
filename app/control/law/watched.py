"""What the watchdog is told: which queries it watches, which batches are over, and which one is about to begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.audit.verdicts import is_audited
from app.control.law.levels import hides_events, sheds_matches
from app.control.law.query_cost import QueryObservation
from app.query.plan import Plan
from app.query.text.keys import TUPLE_SHEDDERS
from shedding.registry import METHODS

ALL_BUT_ALL = 0.95
"""Who allows less to be dropped wants more to be left than a bound that nothing else keeps would."""


@dataclass(frozen=True, slots=True)
class WatchedQuery:
    """What the watchdog needs to know of a query.

    Attributes:
        streams: that it reads.
        catch_up: after an outage, whether it sheds so that new events keep the bound, or is complete first.
        judged: whether verdicts are given on what it finds while it sheds.
        of_matches: whether partial matches are what its shedder drops.
        in_place: whether all of its events are handed over, and its shedder drops or hides them behind that.
        window_ms: of ``within``, how long its events matter at most; None where that is no time.
    """

    query: str
    shedder: str = "none"
    latency_bound_ms: int | None = None
    safety: float = 0.8
    max_drop_ratio: float = 0.99
    weight: float = 1.0
    streams: tuple[str, ...] = ()
    catch_up: Literal["shed", "complete"] = "shed"
    judged: bool = False
    of_matches: bool = False
    in_place: bool = False
    window_ms: float | None = None

    @staticmethod
    def of(plan: Plan, catch_up: Literal["shed", "complete"] = "shed") -> WatchedQuery:
        """The watched side of a plan.

        Args:
            plan: the query's.
            catch_up: for queries that do not say.
        """
        shedding = plan.shedding
        return WatchedQuery(
            plan.name,
            shedding.shedder,
            shedding.latency_bound_ms,
            shedding.safety,
            shedding.max_drop_ratio,
            plan.weight,
            plan.streams,
            shedding.catch_up or catch_up,
            is_audited(plan),
            sheds_matches(plan),
            hides_events(plan) or METHODS[shedding.shedder].remembers,
            plan.within.size if plan.within is not None and plan.within.unit == "ms" else None,
        )

    @property
    def most(self) -> float:
        """The largest ratio: of partial matches up to 1, and where all but all of these may go, beyond 1 of events as well."""
        return self.max_drop_ratio + (self.of_matches and self.max_drop_ratio >= ALL_BUT_ALL)

    @property
    def sheds(self) -> bool:
        """Whether anything of it is ever dropped for its bound. Shedders of tuples drop what memory does not hold, whatever the latency is."""
        return self.shedder not in ("none", *TUPLE_SHEDDERS) and self.max_drop_ratio > 0 and self.latency_bound_ms is not None


@dataclass(frozen=True, slots=True)
class BatchObservation:
    """A finished batch.

    Attributes:
        planned_at_ms: clock when its offsets were chosen.
        duration_ms: from there to its commit.
        arrived: by stream, records in the input topics at planning, since their beginning (sum of latest offsets); without it, what was consumed counts.
        remaining: records that the batch left behind at planning.
        consumed: by stream, records of the batch.
        shipped: events that were handed to matching.
        shed: events that were dropped altogether.
        oldest_broker_ms: least Kafka timestamp in the batch, when known.
        queries: by query.
        of_catalog: whether it ran what is watched: one that was under way when queries changed says nothing of their costs.
    """

    batch: int
    planned_at_ms: int
    duration_ms: float
    arrived: Mapping[str, int]
    remaining: int
    consumed: Mapping[str, int]
    shipped: int
    shed: int = 0
    oldest_broker_ms: int | None = None
    queries: Mapping[str, QueryObservation] = field(default_factory=dict)
    of_catalog: bool = True


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch that is about to begin.

    Attributes:
        at_ms: the time of day.
        records: by stream, those that it will read; None where nobody knows.
        since_ms: since the batch before was planned, by a clock that only goes on; None where this run planned none yet, or nobody knows: then the times of day say.
    """

    batch: int
    at_ms: int
    records: Mapping[str, int] | None = None
    since_ms: float | None = None
