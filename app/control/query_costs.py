"""What each query costs: its work per event, or per event and partial match, as its owners measured it, and what its candidates are of the stream.

The work is that of the slowest owner, in time of the processor: a batch is over when its last owner is done, and what others do on the machine is no cost of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from math import exp, log, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.control.running import NEWEST, smoothed
from shedding.detector_matches import Curve, fitted

FADING = 0.05
"""How much of what a query's composite events were late is forgotten with a batch in which it has none."""
MOST_OFFSET_MS = 60_000.0
"""Later ones waited for something else."""
FEED_MS = 1.0
"""Of a query's work in a batch, what there is whatever is in the batch: calls and arrays. Taken for work per event, ten events would foretell a burst of them a hundred times too dear."""
LEVELS = 2.0
"""Samples of the cost by partial matches are means, by numbers of them: so many to twice as many. What was seen of few and of many partial matches is remembered while a steady overload shows neither."""
LEAST_SPREAD = 3.0
"""The most partial matches of the samples by the fewest: below, they say nothing about how the cost grows, and it is taken to be in proportion."""
NO_EFFECT = 0.1
"""Of what was asked: when less than this is dropped, shedding is in vain (all events are guarded, say)."""
SLOWEST_TURN = 0.1
"""Of the state at least so much is taken to be replaced in a batch: what live events are said to be may be partial matches."""
SLOW = 0.15
"""Weight of the newest batch in what is known of a query's lumps."""
NOISY = 0.35
"""Of its scatter: batches whose costs miss what was known by so little on average miss it by chance."""
LEAST_GAIN = 0.2
"""Of what a batch counts in a query's costs: a batch of a noisy query."""
LEAST_RETAINED = 0.02
"""Of what there would be without shedding: below, there is nothing left to be measured."""
FORGIVEN = 0.003
"""Of what is missing: so fast a shedder that dropped less than it was asked to gets another chance while it is not asked."""


@dataclass(frozen=True, slots=True)
class QueryObservation:
    """One query in one batch.

    Attributes:
        candidates: events that it could use, shed ones included.
        shed: of them.
        work_ms: that the slowest owner spent on it, time of the processor.
        matches: partial matches that an event was held against on average, as far as known.
        reference: where partial matches are shed, how many there would be without; else 0.
        asked: the drop ratio under which the batch ran.
        latency_ms: of its composite events, broker time of the last constituent to the end of matching, on average; None without any.
    """

    candidates: int = 0
    shed: int = 0
    work_ms: float = 0.0
    matches: float = 0.0
    reference: int = 0
    asked: float = 0.0
    latency_ms: float | None = None


@dataclass(slots=True)
class QueryCost:
    """What is known of one query; all of it goes through `snapshot`.

    Attributes:
        share: candidates per record of its streams.
        base_ms: work in a batch that has nothing to do with events.
        spent_ms: the rest of it, the newest batches counting most.
        events: that it was spent on. Sums, not a mean of means: a large batch says more about an event than ten small ones.
        retained: share of its events that its state was made from: what an event costs depends on what it is held against, and that follows the drop ratio a window later.
        effect: share of what it was asked to drop that it did drop.
        offset_ms: by how much its composite events are later than the batches explain.
        reference: partial matches without shedding.
        matches: partial matches when that was measured.
        samples: partial matches, and ms per event with so many, by levels of `LEVELS`.
        fuller: by how much there are more partial matches while some are shed than the reference and the ratio say, as a logarithm: shedding may have begun while the state was still growing.
        bias: by how much an event cost more than was known, as a logarithm, on average.
        scatter: the same without its sign: how lumpy the query's work is.
    """

    share: float | None = None
    base_ms: float = 0.0
    spent_ms: float = 0.0
    events: float = 0.0
    retained: float = 1.0
    effect: float = 1.0
    offset_ms: float = 0.0
    reference: float = 0.0
    matches: float = 0.0
    samples: list[list[float]] = field(default_factory=list)
    fuller: float = 0.0
    bias: float = 0.0
    scatter: float = 0.0

    def learn(self, seen: QueryObservation, consumed: int, explained_ms: float | None, *, warm: bool, reads_others: bool = False) -> None:
        """Takes a batch into account.

        Args:
            seen: of the query.
            consumed: records of its streams.
            explained_ms: how late composite events are on average by what is known of the batch; None where nothing can be said.
            reads_others: whether it reads other queries' composite events alone: what they are counts as the stream.
            warm: whether the processes are; until then only what is cheaper than before is believed.
        """
        candidates = seen.candidates or (consumed if reads_others and seen.work_ms > 0 else 0)
        if consumed > 0:
            self.share = _followed(self.share, candidates / consumed)
        self._learn_work(seen, candidates - seen.shed, warm=warm)
        self.reference = float(seen.reference)
        self._learn_effect(seen)
        if seen.latency_ms is None:
            self.offset_ms *= 1 - FADING
        elif explained_ms is not None:
            self.offset_ms = _followed(self.offset_ms, max(0.0, min(seen.latency_ms - explained_ms, MOST_OFFSET_MS)))

    def _learn_work(self, seen: QueryObservation, kept: int, *, warm: bool) -> None:
        base = min(seen.work_ms, FEED_MS)
        self.base_ms = _followed(self.base_ms or None, base)
        if kept <= 0:
            return
        spent, before = seen.work_ms - base, self.per_event_ms
        turned = max(SLOWEST_TURN, min(1.0, kept / max(1.0, seen.matches)))
        passed = 1.0 if seen.reference else kept / (kept + seen.shed)
        self.retained = max(LEAST_RETAINED, self.retained + turned * (passed - self.retained))
        if warm:
            keep = 1 - NEWEST * self._gain(spent / kept, before)
            self.spent_ms, self.events = keep * self.spent_ms + spent, keep * self.events + kept
        elif self.events == 0 or spent / kept < before:
            self.spent_ms, self.events = spent, float(kept)
        self.matches = seen.matches if before == 0 or not warm else _followed(self.matches, seen.matches)
        if seen.reference:
            self._learn_level(seen.matches, spent / kept)
            self._learn_reference(seen)

    def _learn_level(self, matches: float, each_ms: float) -> None:
        level = round(LEVELS * log2(max(1.0, matches)))
        for sample in self.samples:
            if round(LEVELS * log2(max(1.0, sample[0]))) == level:
                sample[0], sample[1] = smoothed(sample[0], matches, SLOW), smoothed(sample[1], each_ms, SLOW)
                return
        self.samples.append([matches, each_ms])

    def _learn_reference(self, seen: QueryObservation) -> None:
        left = seen.reference * (1 - seen.asked)
        if seen.asked > 0 and min(left, seen.matches) > 0:
            self.fuller = smoothed(self.fuller, log(seen.matches / left), SLOW)
        else:
            self.fuller *= 1 - SLOW

    def _gain(self, each_ms: float, before_ms: float) -> float:
        """How much a batch counts: little while costs only scatter, all while they go somewhere (Trigg and Leach 1967, the tracking signal)."""
        if before_ms <= 0 or each_ms <= 0:
            return 1.0
        off = log(each_ms / before_ms)
        self.bias, self.scatter = smoothed(self.bias, off, SLOW), smoothed(self.scatter, abs(off), SLOW)
        return min(1.0, max(LEAST_GAIN, (abs(self.bias) / self.scatter - NOISY) / NOISY)) if self.scatter > 0 else 1.0

    @property
    def per_event_ms(self) -> float:
        """Work per event that reaches it."""
        return self.spent_ms / self.events if self.events else 0.0

    def _learn_effect(self, seen: QueryObservation) -> None:
        if seen.asked > 0.05 and seen.candidates > 100 and not seen.reference:
            self.effect = _followed(self.effect, min(1.0, seen.shed / seen.candidates / seen.asked))
        else:
            self.effect += FORGIVEN * (1 - self.effect)

    def candidates(self, records: float) -> float:
        """Of so many records of its streams."""
        return (self.share or 0.0) * records

    def by_matches(self) -> Callable[[float], float]:
        """Work per event when such a share of the partial matches is gone: by the curve that fits what was seen, or in proportion while all batches had equally many.

        The curve is fitted once; a decision asks it hundreds of times.
        """
        curve, there = self._curve(), self.reference * exp(self.fuller)
        if curve is not None:
            return lambda ratio: curve.latency_s(there * (1 - ratio))
        each = self.per_event_ms
        return lambda ratio: each * there * (1 - ratio) / self.matches if self.matches > 0 else each

    def _curve(self) -> Curve | None:
        counts, spent = np.array(self.samples, dtype=np.float64).reshape(-1, 2).T
        if len(counts) < 3 or counts.max() < LEAST_SPREAD * max(counts.min(), 1.0):
            return None
        curve = fitted(counts, spent)
        return curve if curve.slope > 0 else None


@dataclass(slots=True)
class Rest:
    """What is known of all queries that never shed, together; per record of all streams, where nothing else is said.

    Attributes:
        base_ms: work in a batch that has nothing to do with records.
        work_ms: the rest.
        candidates: events that are shipped for them, each counted for every one of them.
        most: candidates of the one that has most.
        records: that this was learned from, the newest batches counting most.
    """

    base_ms: float = 0.0
    work_ms: float = 0.0
    candidates: float = 0.0
    most: float = 0.0
    records: float = 0.0

    def learn(self, seen: Iterable[QueryObservation], records: int) -> None:
        """Takes a batch into account, by its size."""
        listed = list(seen)
        base = sum(min(one.work_ms, FEED_MS) for one in listed)
        self.base_ms = _followed(self.base_ms if self.records else None, base)
        keep = (1 - NEWEST) * self.records
        self.records = keep + records
        for name, newest in (
            ("work_ms", sum(one.work_ms for one in listed) - base),
            ("candidates", sum(one.candidates for one in listed)),
            ("most", max((one.candidates for one in listed), default=0)),
        ):
            setattr(self, name, (keep * getattr(self, name) + newest) / self.records)


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Records and what is known of costs: what they take at which ratios. Queries are rows, in the order of `QueryCosts.queries`.

    Attributes:
        records: of all streams.
        candidates: float64 (queries,).
        effect: float64 (queries,), see `QueryCost`.
        base_ms: work that has nothing to do with events, of all queries.
        per_event_ms: float64 (queries,).
        growth: float64 (queries,), how much more an event costs once the state has been made from all events; None: the state is what it is now.
        by_matches: rows of queries whose partial matches are what is shed.
        overlap: see `QueryCosts`.
        scatter: float64 (queries,), see `QueryCost`.
    """

    records: float
    candidates: NDArray[np.float64]
    effect: NDArray[np.float64]
    base_ms: float
    per_event_ms: NDArray[np.float64]
    growth: NDArray[np.float64] | None
    by_matches: Mapping[int, Callable[[float], float]]
    rest: Rest
    overlap: float
    scatter: NDArray[np.float64]

    def kept(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (queries,): events that reach each at these ratios, float64 (queries,)."""
        return self.candidates * (1 - self.effect * ratios)

    def work_ms(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (queries,): their work for events."""
        work = self.kept(ratios) * self.per_event_ms
        if self.growth is not None:
            work *= self.growth * (1 - self.effect * ratios)
        for row, known in self.by_matches.items():
            work[row] = self.candidates[row] * known(float(ratios[row]))
        return work

    def total_ms(self, ratios: NDArray[np.float64]) -> float:
        """Work of all queries."""
        return self.base_ms + float(self.work_ms(ratios).sum()) + self.rest.work_ms * self.records

    def lumps_ms(self, ratios: NDArray[np.float64]) -> float:
        """By how much more the work of all queries typically is, where it is more: of each as lumpy as it is known to be."""
        return float((self.scatter * self.work_ms(ratios)).sum())

    def shipped(self, ratios: NDArray[np.float64]) -> float:
        """Events that some query keeps: at least those of the query that keeps most."""
        kept = self.kept(ratios)
        most = max(float(kept.max(initial=0.0)), self.rest.most * self.records)
        return max(most, self.overlap * (float(kept.sum()) + self.rest.candidates * self.records))


class QueryCosts:
    """All queries of a catalog: one by one those that may shed, together those that never do.

    Args:
        streams: by query that may shed, the streams that it reads.

    Attributes:
        queries: those that may shed.
        overlap: events that are shipped for each candidate of a query: 1 where no two queries want the same events, a third where three do.
    """

    def __init__(self, streams: Mapping[str, Iterable[str]]) -> None:
        self.queries = tuple(streams)
        self._streams = {query: tuple(names) for query, names in streams.items()}
        self._known = {query: QueryCost() for query in streams}
        self._rest = Rest()
        self.overlap = 1.0

    def __getitem__(self, query: str) -> QueryCost:
        return self._known[query]

    def learn(
        self,
        seen: Mapping[str, QueryObservation],
        consumed: Mapping[str, int],
        relevant: int,
        explained_ms: float | None,
        *,
        warm: bool = True,
    ) -> None:
        """Takes a batch into account.

        Args:
            seen: by query.
            consumed: records, by stream.
            relevant: events that any query could use.
            explained_ms: see `QueryCost.learn`.
            warm: see `QueryCost.learn`.
        """
        everything = sum(consumed.values())
        if everything <= 0:
            return
        for query, known in self._known.items():
            records, others = round(self._records_of(query, consumed)), not any(name in consumed for name in self._streams[query])
            known.learn(seen.get(query, QueryObservation()), records, explained_ms, warm=warm, reads_others=others)
        self._rest.learn((one for query, one in seen.items() if query not in self._known), everything)
        candidates = sum(one.candidates for one in seen.values())
        if candidates > 0:
            self.overlap = _followed(self.overlap, min(1.0, relevant / candidates))

    def load(self, records: Mapping[str, float], *, settled: bool = True) -> Load:
        """What so many records are.

        Args:
            records: by stream.
            settled: whether the ratios have been what they are for a window: a query that keeps half of its events then holds them against half as many. Otherwise its state is what it is now.
        """
        known = list(self._known.values())
        candidates = [one.candidates(self._records_of(query, records)) for query, one in self._known.items()]
        return Load(
            float(sum(records.values())),
            np.array(candidates, dtype=np.float64),
            np.array([0.0 if one.reference else one.effect for one in known], dtype=np.float64),
            sum(one.base_ms for one in known) + self._rest.base_ms,
            np.array([one.per_event_ms for one in known], dtype=np.float64),
            np.array([1 / one.retained for one in known], dtype=np.float64) if settled else None,
            {row: one.by_matches() for row, one in enumerate(known) if one.reference},
            self._rest,
            self.overlap,
            np.array([one.scatter for one in known], dtype=np.float64),
        )

    def rows(self, ratios: Mapping[str, float]) -> NDArray[np.float64]:
        """float64 (queries,): ratios in the order of `queries`; 0 where there is none."""
        return np.array([ratios.get(query, 0.0) for query in self.queries], dtype=np.float64)

    def snapshot(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "queries": {query: asdict(known) for query, known in self._known.items()},
            "rest": asdict(self._rest),
            "overlap": self.overlap,
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Goes on from a snapshot, with the queries that there still are."""
        self._known |= {query: QueryCost(**values) for query, values in plain["queries"].items() if query in self._known}
        self._rest, self.overlap = Rest(**plain["rest"]), plain["overlap"]

    def _records_of(self, query: str, records: Mapping[str, float]) -> float:
        """Of the query's streams; of all streams, where it reads what other queries emit."""
        own = [records[name] for name in self._streams[query] if name in records]
        return sum(own) if own else sum(records.values())


def _followed(average: float | None, newest: float) -> float:
    return newest if average is None else smoothed(average, newest)
