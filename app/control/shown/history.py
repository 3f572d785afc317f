"""The last hour, query by query, for the console: one point per `SLOT_MS`, in memory of constant size.

Batches are added up while their slot lasts; what is written into the ring when it closes is never touched again. Nothing here decides anything, and nothing of it is stored: a restart begins anew.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import isnan

import numpy as np
from numpy.typing import NDArray

from app.audit.estimates import Estimate
from app.control.messages.decision_reports import DecisionReport
from app.control.messages.reports import QueryTally
from app.control.shown.batch_metrics import FinishedBatch
from app.observe.latency import LATENCY_BOUNDS_MS, interpolated_quantile

SLOT_MS = 5_000
SLOTS = 720
"""An hour. A query's ring takes 40 KB: a thousand queries 40 MB."""
DECISIONS = 20
LATELY = 12
"""Slots that "now" means where a single one holds too few composite events: a minute."""

OF_QUERY = (
    "arrivals_per_s",
    "capacity_per_s",
    "drop_ratio",
    "dropped",
    "composite_events_per_s",
    "latency_p50_ms",
    "latency_p95_ms",
    "partial_matches",
    "recall_lower",
    "recall",
    "recall_upper",
    "precision_lower",
    "precision",
    "precision_upper",
)
OF_ALL = ("consumed_per_s", "batch_ms", "lag_records", "shed_per_s")

Counts = NDArray[np.int64]
NOTHING: Counts = np.zeros(len(LATENCY_BOUNDS_MS) + 1, np.int64)


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a query when a slot closes.

    Attributes:
        arrivals_per_s: records that arrive on its streams.
        capacity_per_s: of these, so many could be done within its bound; None without a bound, or where nobody knows yet.
        estimates: recall and precision, where they are known.
    """

    arrivals_per_s: float | None = None
    capacity_per_s: float | None = None
    estimates: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Noted:
    """A batch that is over.

    Attributes:
        at_ms: the clock when it was.
        tallies: by query, what tasks and owners counted.
        ratios: drop ratios of the queries that were asked to shed.
        in_matching: of them, those whose ratio speaks of partial matches.
        shed: events that some query lost, at least: those of the one that lost most.
        lag_records: that the batch left behind.
    """

    at_ms: int
    duration_ms: float
    consumed: int
    shed: int
    lag_records: int
    tallies: Mapping[str, QueryTally]
    ratios: Mapping[str, float]
    in_matching: frozenset[str] = frozenset()

    @staticmethod
    def of(batch: FinishedBatch) -> Noted:
        """What is worth remembering of it."""
        totals, progress = batch.totals, batch.progress
        ratios = {query: shedding.drop_ratio for query, shedding in batch.directive.shedding.items()}
        return Noted(
            at_ms=batch.now_ms,
            duration_ms=progress.duration_ms,
            consumed=totals.counts.get("consumed", 0),
            shed=max([totals.counts.get("shed", 0), *(tally.shed for tally in totals.queries.values())]),
            lag_records=progress.remaining,
            tallies=totals.queries,
            ratios=ratios,
            in_matching=frozenset(query for query, shedding in batch.directive.shedding.items() if shedding.place == "matching"),
        )


class Ring:
    """Series of equal length, one value per slot; NaN where there is none.

    Args:
        names: of the series.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._values = np.full((len(self._places), SLOTS), np.nan, dtype=np.float32)
        self._newest = -1

    def put(self, slot: int, values: Mapping[str, float | None]) -> None:
        """Writes the values of a slot; those that are missing, or None, stay NaN, and so do slots that were skipped."""
        if self._newest - LATELY <= slot < self._newest:
            return  # the clock went back a little
        for never in range(slot + 1, min(self._newest, slot + SLOTS) + 1):  # it was put right: what it said before never was
            self._values[:, never % SLOTS] = np.nan
        self._newest = min(self._newest, slot)
        for skipped in range(max(self._newest + 1, slot - SLOTS + 1), slot + 1):
            self._values[:, skipped % SLOTS] = np.nan
        self._newest = slot
        for name, value in values.items():
            if value is not None:
                self._values[self._places[name], slot % SLOTS] = value

    def read(self, newest: int) -> dict[str, NDArray[np.float32]]:
        """The values of the `SLOTS` slots up to this one, oldest first."""
        slots = np.arange(newest - SLOTS + 1, newest + 1)
        there = (slots > self._newest - SLOTS) & (slots <= self._newest)
        rows = np.where(there, self._values[:, slots % SLOTS], np.float32(np.nan))
        return {name: rows[place] for name, place in self._places.items()}

    def newest(self, newest: int) -> dict[str, float | None]:
        """The last known value of each series in the `LATELY` slots up to this one."""
        first = max(newest, self._newest) - LATELY + 1
        slots = np.arange(max(first, self._newest - SLOTS + 1), self._newest + 1)
        if not len(slots):
            return dict.fromkeys(self._places)
        values = self._values[:, slots % SLOTS][:, ::-1]
        there = np.isfinite(values)
        found = values[np.arange(len(values)), there.argmax(axis=1)].tolist()  # NaN where there is none
        return {name: None if isnan(value) else value for name, value in zip(self._places, found, strict=True)}


@dataclass(slots=True)
class _Sums:
    """Of one query, of the batches of a slot."""

    considered: int = 0
    shed: int = 0
    judged: int = 0
    ended: int = 0
    matches: int = 0
    partial_matches: int = 0
    ratio: float = 0.0
    of_matches: bool = False
    latencies: Counts = field(default_factory=lambda: NOTHING)
    late: int = 0

    def add(self, tally: QueryTally) -> None:
        self.considered += tally.considered
        self.shed += tally.shed
        self.judged += tally.judged_matches
        self.ended += tally.ended_matches
        self.matches += tally.matches
        self.partial_matches = tally.partial_matches
        self.late += tally.late
        if tally.latencies:
            if self.latencies is NOTHING:
                self.latencies = NOTHING.copy()
            self.latencies[: len(tally.latencies)] += np.array(tally.latencies[: len(NOTHING)], np.int64)  # fewer where nothing is beyond

    @property
    def dropped(self) -> float:
        """The share that was dropped; of queries that shed partial matches, of these."""
        of_matches = self.of_matches or (self.judged and not self.shed)
        dropped, of = (self.ended, self.judged) if of_matches else (self.shed, self.considered)
        return dropped / of if of else 0.0


@dataclass(slots=True)
class _Slot:
    """What was added up since a slot began."""

    number: int
    batches: int = 0
    consumed: int = 0
    shed: int = 0
    lag_records: int = 0
    duration_ms: float = 0.0
    queries: dict[str, _Sums] = field(default_factory=dict)

    def of(self, query: str) -> _Sums:
        if query not in self.queries:
            self.queries[query] = _Sums()
        return self.queries[query]


class History:
    """The last hour of all queries, and of the application. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rings: dict[str, Ring] = {}
        self._all = Ring(OF_ALL)
        self._lately: dict[str, deque[tuple[int, Counts, int]]] = {}
        self._decisions: dict[str, deque[DecisionReport]] = {}
        self._begun: dict[str, DecisionReport] = {}
        self._slot: _Slot | None = None
        self._closed = -1
        """The slot that closed last."""

    def note(self, batch: Noted, standing: Callable[[], Mapping[str, Standing]]) -> None:
        """Adds a batch.

        Args:
            batch: that is over.
            standing: what is known of the running queries; asked when a slot closes. Queries that it does not name are forgotten.
        """
        number = batch.at_ms // SLOT_MS
        closes = self._slot is not None and self._slot.number != number
        known = standing() if closes else {}
        with self._lock:
            if closes:
                self._close(known)
            if self._slot is None:
                self._slot = _Slot(number)
            _add(self._slot, batch)

    def decide(self, decisions: Iterable[DecisionReport]) -> None:
        """Remembers decisions of the watchdog that are worth telling: the last `DECISIONS` of each query, and since when it sheds."""
        with self._lock:
            for decision in decisions:
                if decision.query not in self._decisions:
                    self._decisions[decision.query] = deque(maxlen=DECISIONS)
                self._decisions[decision.query].appendleft(decision)
                if decision.reason == "SHEDDING_BEGINS":
                    self._begun[decision.query] = decision
                elif decision.reason == "SHEDDING_ENDS":
                    self._begun.pop(decision.query, None)

    def decisions(self, name: str) -> list[DecisionReport]:
        """The last ones of a query, newest first, and the one since which it sheds, however long ago."""
        with self._lock:
            newest, begun = list(self._decisions.get(name, ())), self._begun.get(name)
            return newest if begun is None or begun in newest else [*newest, begun]

    def all(self, now_ms: int) -> dict[str, NDArray[np.float32]]:
        """The application's series up to now, oldest first."""
        with self._lock:
            return self._all.read(now_ms // SLOT_MS - 1)

    def query(self, name: str, now_ms: int) -> dict[str, NDArray[np.float32]]:
        """A query's series up to now, oldest first; all NaN of one that nothing is known of."""
        with self._lock:
            ring = self._rings.get(name)
            return (ring or Ring(OF_QUERY)).read(now_ms // SLOT_MS - 1)

    def all_lately(self, now_ms: int) -> dict[str, float | None]:
        """The newest values of `all`, if they are not older than a minute."""
        with self._lock:
            return self._all.newest(now_ms // SLOT_MS - 1)

    def lately(self, name: str, now_ms: int) -> dict[str, float | None]:
        """The newest values of `query`, if they are not older than a minute."""
        with self._lock:
            ring = self._rings.get(name)
            return dict.fromkeys(OF_QUERY) if ring is None else ring.newest(now_ms // SLOT_MS - 1)

    def latencies(self, name: str, now_ms: int) -> tuple[Counts, int]:
        """A query's composite events of the last minute: by bucket of `app.observe.latency`, and how many of them came after its latency bound."""
        oldest = now_ms // SLOT_MS - LATELY
        with self._lock:
            counts, late = NOTHING, 0
            for slot, own, own_late in self._lately.get(name, ()):
                if slot >= oldest:
                    counts, late = counts + own, late + own_late
            sums = None if self._slot is None or self._slot.number < oldest else self._slot.queries.get(name)
            return (counts, late) if sums is None else (counts + sums.latencies, late + sums.late)

    def _close(self, standing: Mapping[str, Standing]) -> None:
        slot = self._slot
        if slot is None:
            return
        self._slot = None
        seconds = SLOT_MS / 1000 * min(max(1, slot.number - self._closed), LATELY if self._closed >= 0 else 1)
        self._closed = slot.number
        whole = {
            "consumed_per_s": slot.consumed / seconds,
            "shed_per_s": slot.shed / seconds,
            "batch_ms": slot.duration_ms / max(1, slot.batches),
            "lag_records": slot.lag_records,
        }
        self._all.put(slot.number, whole)
        self._rings = {name: self._rings.get(name) or Ring(OF_QUERY) for name in standing}
        self._lately = {name: self._lately.get(name) or deque(maxlen=LATELY) for name in standing}
        self._decisions = {name: own for name, own in self._decisions.items() if name in standing}
        self._begun = {name: own for name, own in self._begun.items() if name in standing}
        for name, known in standing.items():
            sums = slot.queries.get(name) or _Sums()
            self._rings[name].put(slot.number, _values(sums, slot.batches, seconds, known))
            if sums.latencies is not NOTHING:
                self._lately[name].append((slot.number, sums.latencies, sums.late))


def _add(slot: _Slot, batch: Noted) -> None:
    slot.batches += 1
    slot.consumed += batch.consumed
    slot.shed += batch.shed
    slot.duration_ms += batch.duration_ms
    slot.lag_records = batch.lag_records
    for query, tally in batch.tallies.items():
        slot.of(query).add(tally)
    for query, ratio in batch.ratios.items():
        slot.of(query).ratio += ratio
    for query in batch.in_matching:
        slot.of(query).of_matches = True


def _values(sums: _Sums, batches: int, seconds: float, known: Standing) -> dict[str, float | None]:
    estimates = {
        name + end: getattr(at, of)
        for name, at in known.estimates.items()
        for end, of in (("_lower", "lower"), ("", "value"), ("_upper", "upper"))
    }
    found = sums.latencies is not NOTHING
    return {
        "arrivals_per_s": known.arrivals_per_s,
        "capacity_per_s": known.capacity_per_s,
        "drop_ratio": sums.ratio / max(1, batches),
        "dropped": sums.dropped,
        "composite_events_per_s": sums.matches / seconds,
        "latency_p50_ms": interpolated_quantile(sums.latencies, 0.5) if found else None,
        "latency_p95_ms": interpolated_quantile(sums.latencies, 0.95) if found else None,
        "partial_matches": sums.partial_matches,
        **estimates,
    }
