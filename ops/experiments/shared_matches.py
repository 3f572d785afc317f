"""Several queries in one operator, whose partial matches are dropped together: which query's cost more is for the shedder to know.

**Source:** pSPICE, figure 7 and its text, E-c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.cep.door import RunsEngine, end_runs, live_runs
from app.cep.matches import Matches
from app.evaluation.operator import Outcome
from app.evaluation.partial_matches import MatchLoad, MatchOperator
from app.evaluation.virtual_time import Queue
from shedding.candidates import JudgedMatches
from shedding.interface import Model
from shedding.observations import MatchObservations


@dataclass(frozen=True, slots=True, eq=False)
class SharedCourse:
    """What happened.

    Attributes:
        outcomes: by query.
        latency_s: float64 (events,).
        burden: float64 (intervals,), partial matches times their queries' cost factors, before shedding.
        left: float64 (intervals,), the same after shedding.
    """

    outcomes: tuple[Outcome, ...]
    latency_s: NDArray[np.float64]
    burden: NDArray[np.float64]
    left: NDArray[np.float64]

    @property
    def held(self) -> float:
        """What events were held against, on average: what was left after shedding, and what came until the next look; as `MatchCourse.held`, times factors."""
        return float((self.left + np.append(self.burden[1:], self.left[-1:])).mean() / 2) if len(self.left) else 0.0


class SharedOperator:
    """Queries over the same recording.

    Args:
        operators: of the queries; their recordings are one.
        factors: what holding an event against a partial match of each query costs, beside ``match_cost_s``.
    """

    def __init__(self, operators: Sequence[MatchOperator], factors: Sequence[float]) -> None:
        self.operators, self.factors = tuple(operators), tuple(factors)
        self.batch = operators[0].batch

    def observations(self) -> MatchObservations:
        """Steps of the partial matches of all queries."""
        return several([one.observations() for one in self.operators], self.factors)

    def run(self, load: MatchLoad, model: Model[JudgedMatches] | None) -> SharedCourse:
        """As `MatchOperator.run`, where ``most`` speaks of partial matches times factors."""
        burdens, remaining = [], []
        engines = [RunsEngine(one.plan) for one in self.operators]
        parts: list[list[Matches]] = [[] for _ in engines]
        queue, saved, left = Queue(len(self.batch), load.rate, load.interval, load.begun_s), 0.0, 0.0
        for start, stop in queue.intervals():
            lives = [live_runs(engine) for engine in engines]
            alive = [len(live) for live in lives]
            burden = self._burden(alive)
            burdens.append(burden)
            saved += load.interval * ((load.most or 0.0) - (left + burden) / 2)
            allowed = load.allowed(max(0.0, queue.waiting_s(start)), round(burden), saved)
            if model is not None and allowed < burden:
                judged = [one.judged(engine, live, start) for one, engine, live in zip(self.operators, engines, lives, strict=True)]
                kept = np.split(model.gate(1.0 - allowed / burden).keep(together(judged)), np.cumsum(alive)[:-1])
                alive = [len(live) - end_runs(engine, live, own) for engine, live, own in zip(engines, lives, kept, strict=True)]
            for one, engine, found in zip(self.operators, engines, parts, strict=True):
                found.append(one.feed(engine, start, stop, ends=stop == len(self.batch)))
            left = self._burden(alive)
            remaining.append(left)
            queue.work(start, np.full(stop - start, load.cost_s + load.match_cost_s * left))
        outcomes = tuple(one.outcome(found) for one, found in zip(self.operators, parts, strict=True))
        return SharedCourse(outcomes, queue.latency_s, np.array(burdens), np.array(remaining))

    def _burden(self, counts: Sequence[int]) -> float:
        return float(sum(factor * count for factor, count in zip(self.factors, counts, strict=True)))


def several(observed: Sequence[MatchObservations], factors: Sequence[float]) -> MatchObservations:
    """The steps of several queries' partial matches, which take ``factors`` as long."""
    return MatchObservations(
        np.concatenate([np.full(len(one.query), k, np.int32) for k, one in enumerate(observed)]),
        np.concatenate([one.before for one in observed]),
        np.concatenate([one.after for one in observed]),
        np.concatenate([factor * one.spent_s for factor, one in zip(factors, observed, strict=True)]),
        np.concatenate([one.states for one in observed]),
        np.concatenate([one.weight for one in observed]),
        np.concatenate([one.window_size for one in observed]),
    )


def together(judged: Sequence[JudgedMatches]) -> JudgedMatches:
    """The partial matches of several queries as one, without attributes: each query has its own."""
    numbered = [replace(one, query=np.full(len(one), k, np.int32)) for k, one in enumerate(judged)]
    rows = [name for name in JudgedMatches.__dataclass_fields__ if name != "values"]
    return JudgedMatches(**{name: np.concatenate([getattr(one, name) for one in numbered]) for name in rows})
