"""An application in virtual time: batches whose length follows from what is kept, arrivals at a given rate, a watchdog that plans them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from app.config.settings import Watchdog as WatchdogSettings
from app.control.law.query_cost import QueryObservation
from app.control.law.watchdog import Watchdog
from app.control.law.watched import BatchObservation, PlannedBatch, WatchedQuery

LARGEST = 400_000
STREAM = "s"
LOOKS = 20
"""Events of a batch whose latencies are looked at, evenly spread over its arrivals."""


@dataclass
class Plant:
    """Micro-batches on simulated time.

    Attributes:
        rate: records per ms at a time.
        per_event_ms: by query, its work per event that reaches it.
        share: by query, the share of the records that it wants; 1 where nothing is said.
        noise: of whole batches, standard deviation of the logarithm.
        work_noise: of the measured work.
        slow: how many times longer everything takes, at a time (a neighbour); no owner measures it.
        delay: batches that Spark's progress comes late.
        told: whether the number of records is known when a batch is planned.
        effect: by query, the share of what it is asked to drop that it does.
        unseen_ms: by which events are older than the batches explain.
        judging_ms: of every query that sheds, work in a batch that does not depend on what is kept.
        verdicts_ms: the same by query, per event that it wants.
        elasticity: of the work by the share that is kept: below 1 where what costs little is dropped first.
        left: the same as a function, where it is no power: share kept → share of the work.
        stalls: how often a batch stalls, and for how long on average: no work explains it.
        in_place: whether all events are handed over, and those that are dropped go behind that.
        window_ms: where it is given, an event is held against the events of so long a time that were kept: it costs ``per_event_ms`` when none of them was shed.
        joined: where it is given, with a window: it costs ``per_event_ms`` when it is held against so many, and is the dearer the more there are.
    """

    rate: Callable[[float], float]
    per_event_ms: Mapping[str, float]
    fixed_ms: float = 350.0
    per_consumed_ms: float = 0.0006
    per_shipped_ms: float = 0.0005
    share: Mapping[str, float] = field(default_factory=dict)
    noise: float = 0.05
    work_noise: float = 0.05
    slow: Callable[[float], float] = lambda _: 1.0
    delay: int = 0
    told: bool = True
    effect: Mapping[str, float] = field(default_factory=dict)
    unseen_ms: float = 0.0
    window_ms: float = 0.0
    joined: float = 0.0
    judging_ms: float = 0.0
    verdicts_ms: Mapping[str, float] = field(default_factory=dict)
    elasticity: float = 1.0
    left: Callable[[float], float] | None = None
    stalls: tuple[float, float] = (0.0, 0.0)
    in_place: bool = False
    seed: int = 1
    now: float = 1_000_000.0
    arrived: float = 0.0
    taken: float = 0.0
    batch: int = 0
    starts: list[float] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)
    latencies: list[np.ndarray] = field(default_factory=list)
    ratios: list[dict[str, float]] = field(default_factory=list)
    marks: list[tuple[float, float]] = field(default_factory=list)
    waiting: list[BatchObservation] = field(default_factory=list)
    kept: dict[str, list[tuple[float, int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = np.random.default_rng(self.seed)
        self.marks.append((0.0, self.now))

    def arrive_until(self, until: float) -> None:
        while self.now < until - 1e-9:
            step = min(10.0, until - self.now)
            self.now += step
            self.arrived += self.rate(self.now) * step
            self.marks.append((self.arrived, self.now))

    def run(self, watchdog: Watchdog, *, until_ms: float | None = None, batches: int | None = None) -> Plant:
        """So many batches, or until so long after the beginning."""
        last = self.batch + batches if batches is not None else 10**9
        while self.batch < last and (until_ms is None or self.now < 1_000_000.0 + until_ms):
            self.one(watchdog)
        return self

    def one(self, watchdog: Watchdog) -> None:
        while self.arrived - self.taken < 1:
            self.arrive_until(self.now + 10)
        planned, latest = self.now, int(self.arrived)
        consumed = int(min(self.arrived - self.taken, LARGEST))
        places = self.taken + consumed * (np.arange(LOOKS) + 0.5) / LOOKS
        oldest, *times = np.interp([self.taken + 1, *places], *np.array(self.marks).T).tolist()
        watchdog.plan(PlannedBatch(self.batch, round(planned), {STREAM: consumed} if self.told else None))
        watchdog.validate()
        asked = watchdog.ratios
        queries, shipped = self.work(consumed, asked)
        work = sum(one.work_ms for one in queries.values())
        duration = self.fixed_ms + self.per_consumed_ms * consumed + self.per_shipped_ms * shipped + work
        duration *= float(np.exp(self.chance.normal(0, self.noise))) * self.slow(planned)
        often, stall_ms = self.stalls
        if often and self.chance.random() < often:
            duration += stall_ms * 2 * self.chance.random()
        self.arrive_until(planned + duration)
        self.taken += consumed
        self.marks = [mark for mark in self.marks if mark[0] >= self.taken - 1] or self.marks[-1:]
        self.starts.append(planned)
        self.durations.append(duration)
        self.latencies.append(self.now - np.array([oldest, *times]) + self.unseen_ms)
        self.ratios.append(asked)
        remaining = max(0, latest - int(self.taken))
        told = round(oldest - self.unseen_ms)
        wanted = round(consumed * max((self.share.get(one, 1.0) for one in self.per_event_ms), default=0.0))
        self.waiting.append(
            BatchObservation(
                self.batch,
                round(planned),
                duration,
                {STREAM: latest},
                remaining,
                {STREAM: consumed},
                shipped,
                wanted - shipped,
                told,
                queries,
            )
        )
        while len(self.waiting) > self.delay:
            watchdog.observe(self.waiting.pop(0))
        watchdog.validate()
        self.batch += 1

    def work(self, consumed: int, asked: Mapping[str, float]) -> tuple[dict[str, QueryObservation], int]:
        """What the queries cost, and how many events are shipped: all want the same ones, and equal ratios drop the same."""
        queries, shipped = {}, 0
        for query, cost in self.per_event_ms.items():
            candidates = round(consumed * self.share.get(query, 1.0))
            shed = round(candidates * asked.get(query, 0.0) * self.effect.get(query, 1.0))
            share, live, more = self.state(query, candidates, candidates - shed)
            kept = (candidates - shed) / max(1, candidates)
            kept = kept**self.elasticity if self.left is None else self.left(kept)
            spent = candidates * kept * cost * share * float(np.exp(self.chance.normal(0, self.work_noise)))
            judging = self.judging_ms + candidates * self.verdicts_ms.get(query, 0.0) if asked.get(query) else 0.0
            queries[query] = QueryObservation(
                candidates, shed, spent + judging, live, asked=asked.get(query, 0.0), judging_ms=judging, more_matches=more
            )
            shipped = max(shipped, candidates if self.in_place else candidates - shed)
        return queries, shipped

    def state(self, query: str, candidates: int, kept: int) -> tuple[float, float, int]:
        """What an event costs by what it is held against, how many these are, and by how many there are more of them behind the batch."""
        if not self.window_ms:
            return 1.0, 0.0, 0
        known = self.kept.get(query, [])
        before = [one for one in known if one[0] >= self.now - self.window_ms]
        more = max(0, kept - sum(one[2] for one in known[: len(known) - len(before)]))
        self.kept[query] = [*before, (self.now, candidates, kept)]
        count = sum(one[1] for one in before) + candidates / 2
        stays = sum(one[2] for one in before) + kept / 2
        return stays / (self.joined or max(1.0, count)), stays, more

    def capacity_per_ms(self) -> float:
        """Records that can be worked off without shedding, in the largest batches."""
        work = sum(cost * self.share.get(query, 1.0) for query, cost in self.per_event_ms.items())
        return LARGEST / (self.fixed_ms + LARGEST * (self.per_consumed_ms + self.per_shipped_ms + work))

    def late(self, quantile: float, after_ms: float = 0.0, until_ms: float = 1e12) -> float:
        """Quantile of the latencies of events in batches that began in this span; every batch's looks weigh alike."""
        own = [one for start, one in zip(self.starts, self.latencies, strict=True) if after_ms <= start - 1_000_000.0 < until_ms]
        return float(np.quantile(np.concatenate(own), quantile))

    def asked(self, query: str, after_ms: float = 0.0, until_ms: float = 1e12) -> np.ndarray:
        """Drop ratios of batches that began in this span."""
        pairs = zip(self.starts, self.ratios, strict=True)
        return np.array([one.get(query, 0.0) for start, one in pairs if after_ms <= start - 1_000_000.0 < until_ms])


def a_watchdog(*queries: WatchedQuery, **changes: object) -> Watchdog:
    """With these settings."""
    return Watchdog(queries, WatchdogSettings(**changes), LARGEST)  # type: ignore[arg-type]


def at_capacity(plant: Plant, times: float) -> Plant:
    """The plant under so much load."""
    level = plant.capacity_per_ms() * times
    plant.rate = lambda _: level
    return plant


def in_steps(plant: Plant, *steps: tuple[float, float]) -> Plant:
    """The plant under loads (multiples of the capacity), each until so many seconds after the beginning."""
    capacity = plant.capacity_per_ms()

    def rate(now: float) -> float:
        return capacity * next((load for load, until_s in steps if now < 1_000_000.0 + 1000 * until_s), steps[-1][0])

    plant.rate = rate
    return plant
