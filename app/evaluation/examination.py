"""Models for an application: methods that learn from the first part of a query's events are judged on the rest as the application would shed there, at equal work, and the best one learns from all of them. A running one asks it for its newest events, `cep train` for a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.cep.door import way_of
from app.evaluation.shed_query import ShedQuery
from app.evaluation.split import Split, judged_by
from app.events.batch import EventBatch
from app.features.events import Features, candidate_items
from app.features.runnable import not_run
from app.query.plan import Plan
from app.query.text.keys import AUTO, EVENT_SHEDDERS, WINDOW_SHEDDERS
from shedding.drift import by_chance, total_variation
from shedding.interface import Model
from shedding.registry import METHODS, unlearned

FEWEST = 30
"""Composite events; with fewer the difference between two models is chance."""
BY_PARTIAL_MATCHES = ("pspice", "stateful")
"""Shedders of partial matches that compete under `AUTO`. hSPICE counts its work in another way."""
BETTER, BETTER_BY = 0.01, 0.05
"""A model takes another one's place when it does so much less harm: in composite events as a share of the true ones, and as a share of the other one's harm; the larger counts."""
KINDS_DRIFT = 0.05
"""Share of the candidates that are of another kind than before (total variation). The mean squared difference that pSPICE asks of its transition matrices falls with the number of kinds: of 64 of them half may change places with the other half unseen."""
VALUES_DRIFT = 0.1
"""Greatest distance of two cumulative distributions of an attribute's values: utilities follow from values."""
MUCH_MORE = 3.5
"""Times what is expected by chance of that share: beyond lies less than one of a hundred (of two kinds, the fewest that there are)."""
DISTANCE_BY_CHANCE = 1.63
"""Times the root of 1/n + 1/m: so far are two samples of one distribution from each other in one of a hundred cases (Kolmogorov and Smirnov)."""
WORSE = 0.1
"""So much more harm than when it was learned, as a share of the true composite events, says that a model no longer fits, whatever the candidates look like: what becomes of them may have changed."""
SURELY = 3.0
"""And so many standard deviations of two shares of so many composite events."""
NEWEST = 20_000
"""So many of the newest events are asked whether a model still fits."""
PARTS, MOST_PARTS = 5, 10
"""Of what is learned from, one behind the other, about as long as `NEWEST`: what differs between most neighbours always moves."""
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
        chance = _by_chance(self.harm, self.true, now.harm, now.true)
        lost = now.harm * self.random > self.harm * now.random + WORSE * now.random * self.random
        return lost and now.harm - self.harm > max(WORSE, chance)


class TooFewError(ValueError):
    """The events hold too few composite events of the query to learn anything from them."""


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """A model, and how it did.

    Attributes:
        harm: lost and wrong composite events as a share of the true ones, mean of `RATES`; of a model of what was not judged by.
        random: the same of shedding at random.
        in_use: the same of the model in use; None without one.
        true: composite events that were judged by.
        beside: what ``in_use`` is compared with: ``harm``, and for the share of what is judged by that the one in use has learned from, the harm of ``model``, which has learned from all of it.
    """

    model: Model[Any]
    harm: float
    random: float
    in_use: float | None
    true: int
    beside: float

    @property
    def shedder(self) -> str:
        """Name of the method."""
        return self.model.manifest.method

    @property
    def worth_taking(self) -> bool:
        """Whether it is better than chance, and clearly better than what is in use.

        >>> [Lesson(None, 0.2, 0.5, used, 100, 0.2).worth_taking for used in (None, 0.205, 0.3)]
        [True, False, True]
        """
        return self.harm < self.random and (self.in_use is None or _clearly_less(self.beside, self.in_use))

    @property
    def as_good(self) -> bool:
        """Whether it is better than chance, and not surely worse than what is in use: enough where what comes is no longer what that was learned from.

        >>> [Lesson(None, 0.2, 0.5, used, 1000, 0.2).as_good for used in (None, 0.2, 0.17, 0.12)]
        [True, True, True, False]
        """
        worse = 0.0 if self.in_use is None else self.beside - self.in_use
        return self.harm < self.random and worse <= max(BETTER, _by_chance(self.beside, self.true, self.in_use or 0.0, self.true))

    @property
    def better_by_chance(self) -> bool:
        """Whether shedding at random does clearly less harm than what is in use.

        >>> [Lesson(None, 0.6, 0.5, used, 100, 0.6).better_by_chance for used in (None, 0.505, 0.9)]
        [False, False, True]
        """
        return self.in_use is not None and _clearly_less(self.random, self.in_use)


def _by_chance(harm: float, true: int, other: float, of: int) -> float:
    """So far apart are shares of so many composite events by chance, hardly ever more."""
    mean = (harm + other) / 2
    return SURELY * sqrt(max(0.0, mean * (1 - mean)) * (1 / true + 1 / of))


def _clearly_less(harm: float, than: float) -> bool:
    return harm < than - max(BETTER, BETTER_BY * than)


def chosen(harms: Mapping[str, float]) -> str:
    """Whoever does least harm; of those that decide about events in windows or partial matches only who does clearly less than all that decide about events: decisions are no part of the work that is equal.

    Args:
        harms: by method, at least one.

    >>> chosen({"gspice": 0.35, "prefix": 0.34, "espice": 0.33}), chosen({"gspice": 0.35, "espice": 0.3})
    ('prefix', 'espice')
    """
    best = min(harms, key=lambda name: harms[name])
    plain = min((name for name in harms if METHODS[name].level == "events"), key=lambda name: harms[name], default=best)
    return best if _clearly_less(harms[best], harms[plain]) else plain


class Examination:
    """A query and its newest events: who learns from the first part is judged on the rest. Where that holds too few composite events to judge by, everybody learns three times, from two thirds, and is judged on the third that is left.

    Args:
        query: with the events, unshed, in total order.
        seed: of all chance.
    """

    def __init__(self, query: ShedQuery, seed: int = 0) -> None:
        self.query, self._seed = query, seed
        self._splits = judged_by(len(query.batch), lambda start, stop: Split(query, start, stop, seed), lambda split: split.true)

    @property
    def true(self) -> int:
        """Composite events that are judged by."""
        return sum(split.true for split in self._splits)

    @cached_property
    def random(self) -> float:
        """See `Lesson.random`."""
        return self.harm(unlearned("random", self._seed))

    def lesson(self, in_use: Model[Any] | None) -> Lesson:
        """The best model of the query's shedder, or with `AUTO` of all that the application can change to.

        Args:
            in_use: judged beside it.

        Raises:
            TooFewError: see there.
            ValueError: nothing can be learned, or the shedder does not fit the query.
        """
        if self.true < FEWEST:
            raise TooFewError(
                f"the newest {len(self.query.batch):,} events hold {self.true} of its composite events; {FEWEST} are the least"
            )
        judged = dict(self._judged())
        best = chosen(judged)
        model, harm = self.trained(best), judged[best]
        if in_use is None:
            return Lesson(model, harm, self.random, None, self.true, harm)
        seen = self._mean(lambda split: split.seen_by(in_use))
        beside = harm if not seen else seen * self.harm(model) + (1 - seen) * harm
        return Lesson(model, harm, self.random, self.harm(in_use), self.true, beside)

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
        """A model learned from everything, the newest events among it: what was judged is its method, by a model of a part.

        Raises:
            ValueError: nothing can be learned, or the shedder does not fit the query.
        """
        return self._splits[0].with_all().trained(shedder)

    def harm(self, model: Model[Any]) -> float:
        """See `Lesson.harm`; of a model that comes from elsewhere."""
        return self._mean(lambda split: split.harm(model))

    def harm_of(self, shedder: str) -> float:
        """The same of a method, which learns from what is not judged by.

        Raises:
            ValueError: as `trained`.
        """
        return self._mean(lambda split: split.harm(split.trained(shedder)))

    def _mean(self, harm: Callable[[Split], float]) -> float:
        """Of all splits together, as a share of all true composite events."""
        return sum(split.true * harm(split) for split in self._splits) / max(1, self.true)

    def _judged(self) -> Iterator[tuple[str, float]]:
        asked = self.query.plan.shedding.shedder
        plan = self.query.plan
        return self.harms(tuple(one for one in competitors(plan) if not_run(plan, one) is None) if asked == AUTO else (asked,))

    def harms(self, names: Sequence[str]) -> Iterator[tuple[str, float]]:
        """Of each of these methods that learns anything here, see `harm_of`.

        Raises:
            ValueError: none of them does.
        """
        refused: ValueError | None = None
        learned = 0
        for name in names:
            try:
                harm = self.harm_of(name)
            except ValueError as error:
                refused = error  # it does not fit the query; of several another one may
                continue
            learned += 1
            yield name, harm
        if not learned:
            raise refused or ValueError("no shedder learns anything here")


def competitors(plan: Plan) -> tuple[str, ...]:
    """Who competes under `AUTO`, the cheaper to decide first: shedders of whole events, which any engine of a query can have, and shedders of partial matches where the query's engine tells what they are anyway. So changing them costs no state."""
    names = (*EVENT_SHEDDERS, *WINDOW_SHEDDERS, *(BY_PARTIAL_MATCHES if way_of(plan) == "runs" else ()))
    return tuple(name for name in names if METHODS[name].learns)


@dataclass(frozen=True, slots=True)
class Profile:
    """What the candidates of a query look like: what shedders of all kinds decide by.

    Attributes:
        kinds: shares of the kinds of events.
        values: by numeric attribute that the query looks at: values, and which share of the candidates has at most each; the last of them is the share that has the attribute.
        candidates: how many there are; 0 where an earlier version has not noted it.
        moving: by attribute, how far parts of what was learned from are from the whole of it, where it always moves (`_moving`): a number that counts up, or a level that wanders, is always another one, which says nothing about a model.
        moving_kinds: the same of the kinds: they follow the time of day, or come in bursts.
    """

    kinds: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    candidates: int = 0
    moving: Mapping[str, float] = field(default_factory=dict)
    moving_kinds: float = 0.0

    @staticmethod
    def of(plan: Plan, batch: EventBatch) -> Profile:
        """Of events in total order; empty without any candidate."""
        features, candidates = Features.of(plan), candidate_items(plan, batch) != 0
        rows = np.flatnonzero(candidates)
        if not len(rows):
            return Profile()
        kinds, numbers = features.kinds(batch)[rows], features.values(batch)[:, rows]
        parts = np.array_split(np.arange(len(rows)), max(PARTS, min(MOST_PARTS, len(batch) // NEWEST)))
        chance = 2 * len(parts) / len(rows)

        def shares(own: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
            return np.bincount(own[own >= 0], minlength=len(features.labels)) / max(1, len(own))

        whole, still = shares(kinds), VALUES_DRIFT / 2 + DISTANCE_BY_CHANCE * sqrt(chance)
        values = dict(zip(features.attributes, map(_distribution, numbers), strict=True))
        moving = {
            name: _moving([_distribution(own[part]) for part in parts], values[name], _greatest_distance, still)
            for name, own in zip(features.attributes, numbers, strict=True)
        }
        moving_kinds = _moving(
            [shares(kinds[part]) for part in parts], whole, total_variation, KINDS_DRIFT / 2 + MUCH_MORE * by_chance(whole, chance)
        )
        known = dict(zip(features.labels, np.round(whole, 6).tolist(), strict=True))
        return Profile(known, values, len(rows), moving, moving_kinds)

    def drift_to(self, now: Profile) -> str | None:
        """Why what was learned from these candidates no longer fits others; None where it does, where there are none, or where chance alone would make them so different.

        >>> few, many = ([Profile({"a": share, "b": 1 - share}, {}, candidates) for share in (0.5, 0.6)] for candidates in (30, 3000))
        >>> few[0].drift_to(few[1]), many[0].drift_to(many[1])
        (None, 'kinds of events have other shares: a 50.0% → 60.0%')
        """
        if not now.kinds:
            return None
        chance = 1 / self.candidates + 1 / now.candidates if self.candidates and now.candidates else 0.0
        labels = sorted({*self.kinds, *now.kinds})
        then, current = (np.array([one.kinds.get(label, 0.0) for label in labels]) for one in (self, now))
        if total_variation(then, current) > KINDS_DRIFT + MUCH_MORE * by_chance(then, chance) + self.moving_kinds:
            most = labels[int(np.abs(then - current).argmax())]
            return f"kinds of events have other shares: {most} {self.kinds.get(most, 0.0):.1%} → {now.kinds.get(most, 0.0):.1%}"
        for name, known in self.values.items():
            moved = _greatest_distance(known, now.values.get(name, ()))
            if moved > VALUES_DRIFT + DISTANCE_BY_CHANCE * sqrt(chance) + self.moving.get(name, 0.0):
                return f"the values of {name} are others: the distributions are {moved:.2f} apart"
        return None


def _moving(parts: Sequence[Any], whole: Any, distance: Callable[[Any, Any], float], still: float) -> float:
    """How far neighbouring parts are from each other (lower median: one step in the middle is no movement); where that is more than ``still``, how far parts are from the whole, if that is more.

    A part is what will be compared with the whole, so what is always on its way is allowed as much. What counts up is never again what it was.

    >>> whole, to_and_fro, step = np.array([0.5, 0.5]), np.array([[1, 0], [0, 1], [1, 0]]), np.array([[1, 0], [1, 0], [0, 1]])
    >>> _moving(to_and_fro, whole, total_variation, 0.1), _moving(step, whole, total_variation, 0.1)
    (1.0, 0.0)
    """
    between = float(np.quantile([distance(*pair) for pair in pairwise(parts)], 0.5, method="lower"))
    return round(between if between <= still else max(between, *(distance(part, whole) for part in parts)), 6)


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
