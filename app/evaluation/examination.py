"""Models for an application: learned from the first part of a query's events, judged on the rest as the application would shed there, at equal work. A running one asks it for its newest events, `cep train` for a recording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from time import thread_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.recording import rows_between
from app.evaluation.at_the_ingress import JudgedBatch
from app.evaluation.calibration import calibrated
from app.evaluation.contest import Contest, Terms
from app.evaluation.features import Features
from app.evaluation.observing import without_chains
from app.evaluation.operator import candidate_items
from app.evaluation.shed_query import ShedQuery
from app.events.batch import EventBatch
from app.query.plan import Plan
from app.query.text.keys import AUTO, EVENT_SHEDDERS, WINDOW_SHEDDERS
from shedding.candidates import JudgedEvents
from shedding.drift import mean_squared_difference
from shedding.identity import identities
from shedding.interface import Model
from shedding.registry import METHODS, unlearned

RATES = (1.3, 1.8)
"""Multiples of the capacity at which models are judged."""
TIMED_S = 0.05
"""Of the processor: matching that takes less cannot be compared."""
POWERS = (0.2, 2.5)
"""By which work follows the share of the events that is kept: what is dear is kept, … a sequence of three of which each is dropped alike."""
MOST = 0.99
"""The most that the watchdog asks for by default."""
LEARN = 0.7
"""Share of the events that is learned from."""
FEWEST = 30
"""Composite events, in either part; with fewer the difference between two models is chance."""
BETTER, BETTER_BY = 0.01, 0.05
"""A model takes another one's place when it does so much less harm: in composite events as a share of the true ones, and as a share of the other one's harm; the larger counts."""
KINDS_DRIFT = 0.001
"""Mean squared difference of the shares of kinds of events (specification 1.2.6): a shift of five points between two of four kinds is a little more."""
VALUES_DRIFT = 0.1
"""Greatest distance of two cumulative distributions of an attribute's values: utilities follow from values."""
WORSE = 0.1
"""So much more harm than when it was learned, as a share of the true composite events, says that a model no longer fits, whatever the candidates look like: what becomes of them may have changed."""
SURELY = 3.0
"""And so many standard deviations of two shares of so many composite events."""
POINTS = 33
"""Steps by which a distribution is known; between two of them lie 3 % of the candidates."""


@dataclass(frozen=True, slots=True)
class Promise:
    """How a model did when it was judged last.

    Attributes:
        harm: see `Lesson`.
        random: see `Lesson`.
        true: see `Lesson`.
    """

    harm: float
    random: float
    true: int

    def broken_by(self, now: Promise) -> bool:
        """Whether it does more harm by more than chance, and lost what it was ahead of shedding at random: a stream of which everybody finds less is no reason to learn.

        >>> then = Promise(0.1, 0.5, 400)
        >>> [then.broken_by(Promise(harm, random, 400)) for harm, random in ((0.15, 0.5), (0.3, 0.5), (0.2, 0.95))]
        [False, True, False]
        """
        mean = (self.harm + now.harm) / 2
        chance = SURELY * sqrt(max(0.0, mean * (1 - mean)) * (1 / self.true + 1 / now.true))
        lost = now.harm * self.random > self.harm * now.random + WORSE * now.random * self.random
        return lost and now.harm - self.harm > max(WORSE, chance)


class TooFewError(ValueError):
    """The events hold too few composite events of the query to learn anything from them."""


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """A model, and how it did.

    Attributes:
        harm: lost and wrong composite events as a share of the true ones, mean of `RATES`.
        random: the same of shedding at random.
        in_use: the same of the model in use; None without one.
        true: composite events that were judged by.
    """

    model: Model[Any]
    harm: float
    random: float
    in_use: float | None
    true: int

    @property
    def shedder(self) -> str:
        """Name of the method."""
        return self.model.manifest.method

    @property
    def worth_taking(self) -> bool:
        """Whether it is better than chance, and clearly better than what is in use.

        >>> [Lesson(None, 0.2, 0.5, used, 100).worth_taking for used in (None, 0.205, 0.3)]
        [True, False, True]
        """
        clearly = self.in_use is None or self.harm < self.in_use - max(BETTER, BETTER_BY * self.in_use)
        return self.harm < self.random and clearly


class Examination:
    """A query and its newest events, cut in two.

    Args:
        query: with the events, unshed, in total order.
        seed: of all chance.
    """

    def __init__(self, query: ShedQuery, seed: int = 0) -> None:
        cut = int(len(query.batch) * LEARN)
        self.query, self._seed = query, seed
        self._learning, self._judging = rows_between(query.batch, 0, cut), rows_between(query.batch, cut, len(query.batch))
        self._contests: dict[bool, Contest] = {}
        self._features, self._judged = Features.of(query.plan), JudgedBatch(self._judging)

    @cached_property
    def true(self) -> int:
        """Composite events of the second part."""
        return len(self._contest("random").truth)

    @cached_property
    def random(self) -> float:
        """See `Lesson.random`."""
        return self.harm(unlearned("random", self._seed))

    @cached_property
    def _is_candidate(self) -> NDArray[np.bool_]:
        """Of the second part."""
        return candidate_items(self.query.plan, self._judging) != 0

    def lesson(self, in_use: Model[Any] | None) -> Lesson:
        """The best model of the query's shedder, or with `AUTO` of all that the application runs on whole events.

        Args:
            in_use: judged beside it.

        Raises:
            TooFewError: see there.
            ValueError: nothing can be learned, or the shedder does not fit the query.
        """
        if self.true < FEWEST:
            raise TooFewError(
                f"the newest {len(self._judging):,} of {len(self.query.batch):,} events hold {self.true} of its composite events; {FEWEST} are the least"
            )
        judged = {one: self.harm(one) for one in self._candidates()}
        best = min(judged, key=lambda one: judged[one])
        return Lesson(best, judged[best], self.random, None if in_use is None else self.harm(in_use), self.true)

    def decline(self, model: Model[Any], then: Promise) -> str | None:
        """Why a model does not do what it did when it was judged last; None where it does, or where there are too few composite events to tell.

        Args:
            model: in use.
            then: how it did.
        """
        if min(self.true, then.true) < FEWEST:
            return None
        now = Promise(self.harm(model), self.random, self.true)
        if not then.broken_by(now):
            return None
        return f"it does {now.harm:.0%} harm, {then.harm:.0%} when it was judged last (random {now.random:.0%}, {then.random:.0%})"

    def trained(self, shedder: str) -> Model[Any]:
        """A model learned from the first part.

        Raises:
            ValueError: nothing can be learned, or the shedder does not fit the query.
        """
        return calibrated(self._contest(shedder).train(self.query.method(shedder)), self.query.plan_for(shedder), self._learning)

    def harm(self, model: Model[Any]) -> float:
        """See `Lesson.harm`."""
        name = model.manifest.method
        if METHODS[name].of_matches:
            found = [one.quality for one in self._contest(name).standings(self.query.method(name), model, RATES)]
            return sum(one.harm for one in found) / len(found)
        own = calibrated(model, self.query.plan, self._judging)
        return sum(self._harm_at(own, rate) for rate in RATES) / len(RATES)

    def _harm_at(self, model: Model[Any], rate: float) -> float:
        return self._contest("random").quality_of(self._kept(model, self._share(model, rate))).harm

    def _share(self, model: Model[Any], rate: float) -> float:
        """Of the candidates, so much that matching what is left is the 1 / rate-th part of the work.

        Events do not cost the same: who keeps those that are worth most may keep those that cost most, and must then drop more of them than chance would. Work follows the share that is kept by a power (as the watchdog has it, `app.control.elasticity`), which is found by matching what
        is left when as much of the events goes as of the work should. Where all of the matching is too short to be timed an event is an event.
        """
        share = 1.0 - 1.0 / rate
        if self._unshed_s < TIMED_S:
            return share
        kept = self._kept(model, share)
        left = float(kept[self._is_candidate].mean()) if self._is_candidate.any() else 1.0
        if not 0 < left < 1:
            return share
        power = float(np.clip(np.log(max(1e-9, self._seconds(kept) / self._unshed_s)) / np.log(left), *POWERS))
        return min(MOST, 1.0 - rate ** (-1.0 / power))

    @cached_property
    def _unshed_s(self) -> float:
        """Of the processor, to match all of the second part; kernels are loaded and memory is there when it is asked."""
        return self._seconds(np.ones(len(self._judging), np.bool_)) if self.true else 0.0

    def _seconds(self, kept: NDArray[np.bool_]) -> float:
        begun = thread_time()
        self._contest("random").quality_of(kept)
        return thread_time() - begun

    def _kept(self, model: Model[Any], share: float) -> NDArray[np.bool_]:
        """Bool (events of the second part,): of the candidates just so many go, for every model.

        A model that knows another stream may drop next to nothing of what it has never seen, whatever it is asked for. The watchdog would ask for more and more; here chance takes what is
        missing, or doing nothing would be judged to do no harm.
        """
        kept = self._judged.kept(model, self._features, share)
        left = float(kept[self._is_candidate].mean()) if self._is_candidate.any() else 0.0
        too_many = 1.0 - (1.0 - share) / left if left else 0.0
        if too_many <= 0:
            return kept
        events = JudgedEvents(identities(self._judging.source, self._judging.offset), self._judging.time)
        return kept & unlearned("random", self._seed).gate(too_many).keep(events)

    def _candidates(self) -> Iterator[Model[Any]]:
        asked = self.query.plan.shedding.shedder
        names = tuple(one for one in competitors() if self._fits(one)) if asked == AUTO else (asked,)
        refused: ValueError | None = None
        learned = 0
        for name in names:
            try:
                model = self.trained(name)
            except ValueError as error:
                refused = error  # it does not fit the query; of several another one may
                continue
            learned += 1
            yield model
        if not learned:
            raise refused or ValueError("no shedder learns anything here")

    def _fits(self, shedder: str) -> bool:
        """Whether the application could ask it about the query's events."""
        return not METHODS[shedder].remembers or without_chains(self.query.plan) is None

    def _contest(self, shedder: str) -> Contest:
        of_matches = METHODS[shedder].of_matches
        if of_matches not in self._contests:
            plan, terms = self.query.plan_for(shedder), Terms(seed=self._seed, fixed=True)
            self._contests[of_matches] = Contest(plan, self._learning, self._judging, terms)
        return self._contests[of_matches]


def competitors() -> tuple[str, ...]:
    """Who competes under `AUTO`: shedders of whole events, which any engine of a query can have, so that changing them costs no state. The cheaper to decide first."""
    return tuple(name for name in (*EVENT_SHEDDERS, *WINDOW_SHEDDERS) if METHODS[name].learns)


@dataclass(frozen=True, slots=True)
class Profile:
    """What the candidates of a query look like: what shedders of all kinds decide by.

    Attributes:
        kinds: shares of the kinds of events.
        values: by numeric attribute that the query looks at: values, and which share of the candidates has at most each; the last of them is the share that has the attribute.
    """

    kinds: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)

    @staticmethod
    def of(plan: Plan, batch: EventBatch) -> Profile:
        """Of events in total order; empty without any candidate."""
        features, candidates = Features.of(plan), candidate_items(plan, batch) != 0
        kinds = features.kinds(batch)[candidates]
        counts = np.bincount(kinds[kinds >= 0], minlength=len(features.labels))
        total = int(candidates.sum())
        if not total:
            return Profile()
        shares = {label: round(count / total, 6) for label, count in zip(features.labels, counts.tolist(), strict=True)}
        return Profile(shares, dict(zip(features.attributes, map(_distribution, features.values(batch)[:, candidates]), strict=True)))

    def drift_to(self, now: Profile) -> str | None:
        """Why what was learned from these candidates no longer fits others; None where it does, or where there are none."""
        if not now.kinds:
            return None
        labels = sorted({*self.kinds, *now.kinds})
        then, current = (np.array([one.kinds.get(label, 0.0) for label in labels]) for one in (self, now))
        if mean_squared_difference(then, current) > KINDS_DRIFT:
            most = labels[int(np.abs(then - current).argmax())]
            return f"kinds of events have other shares: {most} {self.kinds.get(most, 0.0):.1%} → {now.kinds.get(most, 0.0):.1%}"
        for name, known in self.values.items():
            moved = _greatest_distance(known, now.values.get(name, ()))
            if moved > VALUES_DRIFT:
                return f"the values of {name} are others: the distributions are {moved:.2f} apart"
        return None


def _distribution(values: NDArray[np.float64]) -> list[tuple[float, float]]:
    """At most `POINTS` steps of the cumulative distribution."""
    known = np.sort(values[~np.isnan(values)])
    if not len(known):
        return []
    points = np.unique(np.quantile(known, np.linspace(0, 1, POINTS), method="inverted_cdf"))
    shares = np.searchsorted(known, points, side="right") / len(values)
    return [(float(point), round(float(share), 6)) for point, share in zip(points, shares, strict=True)]


def _greatest_distance(then: Sequence[tuple[float, float]], now: Sequence[tuple[float, float]]) -> float:
    """Between two distributions (Kolmogorov and Smirnov), as far as their steps tell.

    >>> _greatest_distance([(1.0, 0.5), (2.0, 1.0)], [(1.0, 0.2), (2.0, 1.0)])
    0.3
    """
    points = sorted({point for point, _ in (*then, *now)})
    return round(max((abs(_share(then, point) - _share(now, point)) for point in points), default=0.0), 6)


def _share(steps: Sequence[tuple[float, float]], point: float) -> float:
    return max((share for value, share in steps if value <= point), default=0.0)
