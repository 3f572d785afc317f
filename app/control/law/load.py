"""Records and what is known of costs: what they take at which drop ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.control.law.elasticity import left
from app.control.law.query_cost import FEED_MS, QueryObservation, turned_by
from app.control.law.running import NEWEST, followed

CROWDED = 2.0
"""So many times what a state held that was made from all events, or more: then a batch is reckoned with that fills it beyond what any has met. Less is within what costs are known by."""
FEW = 1_000.0
"""In a smaller state an event costs what calls take, and not what it is held against."""


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
class Crowding:
    """What is in a state on average while a batch's events come, in full states. Queries are rows.

    Attributes:
        stays: float64 (queries,), of each event or partial match that was there before.
        adds: float64 (queries,), of what an event adds that is kept.
    """

    stays: NDArray[np.float64]
    adds: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What events of queries are held against, as it is now. Queries are rows.

    Attributes:
        retained: float64 (queries,), share of all events that it was made from.
        held: float64 (queries,), events or partial matches in it.
        crowding: how it fills while the batch's events come; None: not asked.
    """

    retained: NDArray[np.float64]
    held: NDArray[np.float64]
    crowding: Crowding | None = None

    def met(self, part: NDArray[np.float64], candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (queries,): the share that a batch finds in it on average, of which this part of so many candidates is kept: where windows are short, a batch meets what it brings itself. More than 1 where that is more than a state of all events ever held."""
        turned = turned_by(part * candidates, self.held)
        met = self.retained + turned * (part - self.retained) / 2
        if self.crowding is None:
            return met
        crowd = self.held * self.crowding.stays + part * candidates * self.crowding.adds
        return np.where(crowd >= CROWDED, np.maximum(met, crowd - (CROWDED - 1)), met)


@dataclass(frozen=True, slots=True, eq=False)
class Filling:
    """What is known of how states fill. Queries are rows.

    Attributes:
        full: float64 (queries,), what a state holds that was made from all events.
        dense: float64 (queries,), events per ms that it was made from.
        born: float64 (queries,), what each added.
        window_ms: float64 (queries,), after which that is gone; NaN where no time says.
    """

    full: NDArray[np.float64]
    dense: NDArray[np.float64]
    born: NDArray[np.float64]
    window_ms: NDArray[np.float64]

    def crowding(self, span_ms: float) -> Crowding:
        """What is in a state on average while events come, evenly over a time: each of those that were there, and what each that comes adds, in full states. What was there goes with its window, and so does what they add.

        How long things stay there follows from how many there are (Little's law), if that is less than the window: partial matches may end long before it.

        Args:
            span_ms: in which the events come.

        Returns:
            0 where not all of that is known.
        """
        known = (self.full > 0) & (self.dense > 0) & (self.born > 0) & ~np.isnan(self.window_ms)
        stay_ms = np.where(known, self.full, 1.0) / np.where(known, self.dense * self.born, 1.0)
        lives = span_ms / np.maximum(1.0, np.minimum(np.where(known, self.window_ms, 1.0), stay_ms))
        longer = np.maximum(1.0, lives)
        stays = np.where(lives < 1, 1 - lives / 2, 0.5 / longer)
        adds = np.where(lives < 1, 0.5, (1 - 0.5 / longer) / longer)
        each = known / np.maximum(FEW, self.full)
        return Crowding(stays * each, adds * self.born * each)


@dataclass(frozen=True, slots=True)
class Taken:
    """What records take.

    Attributes:
        shipped: events that travel for some query: at least those of the query of which most do.
        work_ms: of all queries, and verdicts on what those find that shed.
        lumps_ms: by how much more that typically is, where it is more: of each query as lumpy as it is known to be.
    """

    shipped: float
    work_ms: float
    lumps_ms: float


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

    def work_ms(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (queries,): their work for events."""
        return self._work_ms(self.part(ratios), ratios)

    def handed_over(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (queries,): events of each that travel to its buckets."""
        return self._handed_over(self.part(ratios))

    def taken(self, ratios: NDArray[np.float64]) -> Taken:
        """What all of it takes: all at once, since each decision asks some hundred times."""
        part = self.part(ratios)
        work_ms, handed_over = self._work_ms(part, ratios), self._handed_over(part)
        judging_ms = float((self.candidates * self.judging_ms)[ratios > 0].sum())
        most = max(float(handed_over.max(initial=0.0)), self.rest.most * self.records)
        return Taken(
            max(most, self.overlap * (float(handed_over.sum()) + self.rest.candidates * self.records)),
            self.base_ms + float(work_ms.sum()) + judging_ms + self.rest.work_ms * self.records,
            float((self.lumpy * work_ms).sum()),
        )

    def _work_ms(self, part: NDArray[np.float64], ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        met = part if self.state is None else self.state.met(part, self.candidates)
        work = self.candidates * self.whole_ms * left(part, np.where(self.holds, met, 1.0), self.curve)
        for row, known in self.by_matches.items():
            work[row] = self.candidates[row] * part[row] * known(float(ratios[row]))
        return work

    def _handed_over(self, part: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(self.in_place, self.candidates, self.candidates * part)


def records_of(streams: Iterable[str], records: Mapping[str, float]) -> float:
    """How many records are of these streams; all of them, where none is: a query then reads what other queries emit."""
    own = [records[name] for name in streams if name in records]
    return sum(own) if own else sum(records.values())
