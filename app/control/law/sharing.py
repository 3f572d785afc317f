"""Who sheds how much: the batch's time is what the tightest bound in overload allows, and those share in keeping it whose bounds are tight.

**The rule.** Bounds are looked at from the tightest to the loosest. A bound that holds at the ratios so far asks for nothing. For one that does not, queries give in *tiers*: those whose bound is as tight
first, those of the next looser bound only when these have given all they may, and so on; a query without a bound never gives anything. Inside a tier the water level decides (`shedding.overload.water_filled`): of
all ratios that save as much those with the least sum of weight * ratio², where what a query can save is its measured work.

**Hardly in reach.** Where only all that may be shed brings the latency to the plateau, or to what is free of it, it is kept between that and the bound.

**Out of reach.** A bound that cannot be kept even if every tier gives all, whatever waits now, is nobody's reason to shed but of those who have it (or a tighter one): they give until their latency is close to the best that
they can have, so that it does not grow without end; looser ones go on to be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log
from operator import attrgetter
from types import MappingProxyType

from shedding.overload import Share, least_level, water_filled

AS_TIGHT = 1.5
"""Bounds that differ by less than that are equally tight: half a second more is no reason to let another one give everything first."""

EASY = 0.8
"""A goal is easy to reach when the best that there is is so much of what it leaves free: the last tenth of a second costs most of the events."""

FINE = 10
"""Steps of what is kept below which they get smaller, to a tenth of it: 0.02 is nothing of a half, and two fifths of a twentieth."""

WRITTEN = 2
"""Decimals that count in a number of steps: ratios are written with six, and where a hundredth of the events is kept, a step is a thousandth."""

HELPING = 0.95
"""A looser tier that makes a batch shorter by less is not asked: nearer to nothing its help comes and goes with what costs scatter by."""

Ratios = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Goal:
    """A latency bound, and the queries that have it.

    Attributes:
        queries: those that can shed for it.
        plateau_ms: what it asks for.
        free_ms: what of that coming batches may take, two of them together: the rest is room.
        excess: ratios of all queries → by what coming batches would be too long, as a multiple of what they may be: at most 1 is enough.
        admission: the same for the batch that is about to begin, whose records are known.
        steady: the same when nothing waits any more.
        relaxed: the same goal for a bound that can be kept, by the ratios that are the most its queries may have.
        eased: the same goal where that is next to all that there is, by the same ratios: closer to the bound, for much less.
    """

    queries: tuple[str, ...]
    plateau_ms: float
    free_ms: float
    excess: Callable[[Ratios], float]
    admission: Callable[[Ratios], float]
    steady: Callable[[Ratios], float]
    relaxed: Callable[[Ratios], Goal]
    eased: Callable[[Ratios], Goal]


@dataclass(frozen=True, slots=True)
class Shared:
    """What comes of it.

    Attributes:
        ratios: of all queries that have goals.
        beyond: queries whose bounds cannot be kept.
        goals: what was asked for in the end: eased and relaxed ones instead of those that are hardly, or not, in reach.
    """

    ratios: Ratios
    beyond: frozenset[str]
    goals: tuple[Goal, ...]

    @property
    def in_reach(self) -> bool:
        """Whether all bounds can be kept."""
        return not self.beyond


Asked = Callable[[Goal], Callable[[Ratios], float]]
"""What of a goal is looked at: its excess, or its admission."""


def shared_out(
    goals: Sequence[Goal], shares: Mapping[str, Share], asked: Asked = attrgetter("excess"), least: Ratios = MappingProxyType({})
) -> Shared:
    """The drop ratios.

    Args:
        goals: the tightest bound first.
        shares: what each of their queries can give.
        asked: of the goals.
        least: ratios that are decided already, by query: none gets smaller.
    """
    ratios: dict[str, float] = {query: least.get(query, 0.0) for goal in goals for query in goal.queries}
    beyond: set[str] = set()
    in_force = list(goals)
    for place, goal in enumerate(goals):
        if asked(goal)(ratios) <= 1:
            continue
        tiers, most, best = _helping(goal, _tiers(goals, place), ratios, shares)
        if best <= 1:
            in_force[place] = goal if best <= EASY * goal.free_ms / goal.plateau_ms else goal.eased(most)
        else:
            beyond.update(goal.queries)
            tiers = tiers[:1]
            in_force[place] = goal.relaxed({**ratios, **{query: shares[query].most for query in tiers[0]}})
        _raise(ratios, tiers, shares, asked(in_force[place]))
    return Shared(ratios, frozenset(beyond), tuple(in_force))


def _tiers(goals: Sequence[Goal], place: int) -> list[tuple[str, ...]]:
    """Who gives for a goal, one after the other: all whose bounds are as tight or tighter together, then the looser ones."""
    limit = AS_TIGHT * goals[place].plateau_ms
    tight = tuple(query for goal in goals if goal.plateau_ms <= limit for query in goal.queries)
    return [tight, *(goal.queries for goal in goals if goal.plateau_ms > limit)]


def _helping(
    goal: Goal, tiers: Sequence[tuple[str, ...]], ratios: Ratios, shares: Mapping[str, Share]
) -> tuple[list[tuple[str, ...]], Ratios, float]:
    """Those who have the bound or a tighter one, the looser tiers that help when they give all they may, the most that all of these may give, and what that comes to: verdicts on what a query finds while it sheds can cost more than its shedding saves."""
    helping, most = list(tiers[:1]), {**ratios, **{query: shares[query].most for query in tiers[0]}}
    best = goal.steady(most)
    for tier in tiers[1:]:
        more = {**most, **{query: shares[query].most for query in tier}}
        if (better := goal.steady(more)) < HELPING * best:
            helping, most, best = [*helping, tier], more, better
    return helping, most, best


def _raise(
    ratios: dict[str, float], tiers: Sequence[tuple[str, ...]], shares: Mapping[str, Share], excess: Callable[[Ratios], float]
) -> None:
    """Raises ratios, tier by tier, until a goal has no excess. What was raised for another goal is not taken back."""
    for tier in tiers:
        own = [shares[query] for query in tier]

        before = [ratios[query] for query in tier]

        def at(values: Sequence[float], tier: tuple[str, ...] = tier, before: Sequence[float] = before) -> dict[str, float]:
            return dict(zip(tier, map(max, before, values), strict=True))

        level = least_level(own, lambda values, at=at: excess({**ratios, **at(values)}))  # type: ignore[misc]
        ratios.update(at(water_filled(own, level)))
        if excess(ratios) <= 1:
            return


def next_step(ratio: float, step: float) -> float:
    """The ratio, or the next one above it that is a multiple of the smallest step; where fewer than `FINE` steps are kept, one at which a tenth less is kept than at the one before.

    >>> next_step(0.37, 0.02), round(next_step(0.81, 0.02), 6), round(next_step(0.95, 0.02), 6), next_step(1.0, 0.02), next_step(1.37, 0.02)
    (0.38, 0.82, 0.954246, 1.0, 1.38)

    A step that was written with six digits is no step below the next one:

    >>> round(next_step(0.954246, 0.02), 6)
    0.954246
    """
    if ratio > 1:
        return 1 + next_step(ratio - 1, step)
    kept, finest = 1 - ratio, FINE * step
    if kept >= finest:
        return min(1 - finest, ceil(round(ratio / step, WRITTEN)) * step)
    if kept <= 0:
        return 1.0
    return 1 - finest * (1 - 1 / FINE) ** ceil(round(log(kept / finest) / log(1 - 1 / FINE), WRITTEN))
