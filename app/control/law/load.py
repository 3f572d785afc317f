"""Records and what is known of costs: what they take at which drop ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.control.law.elasticity import left
from app.control.law.query_cost import FEED_MS, QueryObservation, turned_by
from app.control.law.running import NEWEST, followed


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
        self.base_ms = followed(self.base_ms if self.records else None, base)
        keep = (1 - NEWEST) * self.records
        self.records = keep + records
        for name, newest in (
            ("work_ms", sum(one.work_ms for one in listed) - base),
            ("candidates", sum(one.candidates for one in listed)),
            ("most", max((one.candidates for one in listed), default=0)),
        ):
            setattr(self, name, (keep * getattr(self, name) + newest) / self.records)


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What events of queries are held against, as it is now. Queries are rows.

    Attributes:
        retained: float64 (queries,), share of all events that it was made from.
        held: float64 (queries,), events or partial matches in it.
    """

    retained: NDArray[np.float64]
    held: NDArray[np.float64]

    def met(self, part: NDArray[np.float64], candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (queries,): the share that a batch finds in it on average, of which this part of so many candidates is kept: where windows are short, a batch meets what it brings itself."""
        turned = turned_by(part * candidates, self.held)
        return self.retained + turned * (part - self.retained) / 2


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Records and what is known of costs: what they take at which ratios. Queries are rows, in the order of `QueryCosts.queries`.

    Attributes:
        records: of all streams.
        candidates: float64 (queries,).
        effect: float64 (queries,), see `QueryCost`.
        base_ms: work that has nothing to do with events, of all queries.
        whole_ms: float64 (queries,), work per candidate if all are kept, and were.
        curve: float64 (queries, pieces), exponents of the work by the share that is kept, see `Elasticity`.
        holds: bool (queries,), whether a query holds anything against its events.
        judging_ms: float64 (queries,), per candidate, of verdicts: only of who sheds.
        state: the states that events are held against as they are now; None: as the ratios make them.
        by_matches: rows of queries whose partial matches are what is shed.
        in_place: bool (queries,), whether all of a query's events are handed over, and what it drops goes behind that.
        overlap: see `QueryCosts`.
        lumpy: float64 (queries,), see `QueryCost`; of partial matches, whose number scatters with it, its scatter.
    """

    records: float
    candidates: NDArray[np.float64]
    effect: NDArray[np.float64]
    base_ms: float
    whole_ms: NDArray[np.float64]
    curve: NDArray[np.float64]
    holds: NDArray[np.bool_]
    judging_ms: NDArray[np.float64]
    state: State | None
    by_matches: Mapping[int, Callable[[float], float]]
    in_place: NDArray[np.bool_]
    rest: Rest
    overlap: float
    lumpy: NDArray[np.float64]

    def part(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (queries,): share of each one's candidates that reach it; of whose partial matches are shed first, what its ratio is beyond 1 goes of the events."""
        return (1 - self.effect * np.minimum(ratios, 1.0)) * (1 - np.maximum(0.0, ratios - 1))

    def kept(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (queries,): events that reach each at these ratios, float64 (queries,)."""
        return self.candidates * self.part(ratios)

    def work_ms(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (queries,): their work for events."""
        part = self.part(ratios)
        met = part if self.state is None else self.state.met(part, self.candidates)
        work = self.candidates * self.whole_ms * left(part, np.where(self.holds, met, 1.0), self.curve)
        for row, known in self.by_matches.items():
            work[row] = self.candidates[row] * part[row] * known(float(ratios[row]))
        return work

    def total_ms(self, ratios: NDArray[np.float64]) -> float:
        """Work of all queries, and verdicts on what those find that shed."""
        return self.totals_ms(ratios)[0]

    def totals_ms(self, ratios: NDArray[np.float64]) -> tuple[float, float]:
        """The same, and by how much more it typically is, where it is more: of each query as lumpy as it is known to be. Together, since each decision asks some hundred times."""
        work_ms = self.work_ms(ratios)
        judging_ms = float((self.candidates * self.judging_ms)[ratios > 0].sum())
        total_ms = self.base_ms + float(work_ms.sum()) + judging_ms + self.rest.work_ms * self.records
        return total_ms, float((self.lumpy * work_ms).sum())

    def handed_over(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (queries,): events of each that travel to its buckets."""
        return np.where(self.in_place, self.candidates, self.kept(ratios))

    def shipped(self, ratios: NDArray[np.float64]) -> float:
        """Events that travel for some query: at least those of the query of which most do."""
        own = self.handed_over(ratios)
        most = max(float(own.max(initial=0.0)), self.rest.most * self.records)
        return max(most, self.overlap * (float(own.sum()) + self.rest.candidates * self.records))
