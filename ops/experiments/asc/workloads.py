"""Query sets with the characteristics of the paper's table 1.

A query is a conjunction of ranges, one per attribute that it uses, and a range counts as one predicate. Queries belong to groups; a group has a *hot zone*
on every attribute, and with probability gamma a range is centred on its group's zone, otherwise anywhere: gamma changes how far regions differ from each
other (the table's "standard deviation"), but not how selective a range is. Groups may have attributes of their own, as in the paper's example (query usage
bitmaps 1010 and 0101): then regions differ in which attributes can still fail something, which is what candidate-arrow bitmaps are for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.asc.constructs import Constructs
from app.asc.regions import SPECIALS
from app.asc.selection import Selection
from app.events.types import Kind
from app.query.plan import Catalog, ConstantTest, Item, Plan

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Target:
    """A column of table 1.

    Attributes:
        deviation: standard deviation, over the regions of a construct, of the share of ones in their result bitmaps, among the queries that use the
            attribute (the bits of all others are one everywhere); averaged over constructs.
        width: of a range, as a share of the domain; the table does not have it. A fifth, or less where ranges so wide deviate by more.
        own: groups of queries have attributes of their own.
    """

    name: str
    queries: int
    predicates: int
    attributes: int
    deviation: float
    width: float = 0.2
    own: bool = False

    def with_own_attributes(self) -> Target:
        """The same numbers, where groups have attributes of their own."""
        return replace(self, name=f"{self.name}, own attributes", own=True)


Q1 = Target("Q1", 50, 204, 10, 0.08, 0.07)
Q1_WIDE = Target("Q1, wide ranges", 50, 204, 10, 0.15, 0.25)
"""For figure 9: with ranges of 0.07 of the domain D1 and D2 are both dropped almost whole, and equation 5, which looks at the share that is dropped, sees no change."""
Q2 = Target("Q2", 50, 173, 15, 0.2)
Q3 = (
    Target("Q3 (6)", 30, 78, 6, 0.06, 0.02),
    Target("Q3 (7)", 30, 81, 7, 0.06, 0.02),
    Target("Q3 (8)", 35, 98, 8, 0.15),
    Target("Q3 (10)", 40, 138, 10, 0.1, 0.07),
    Target("Q3 (15)", 50, 173, 15, 0.25),
)
Q4 = tuple(Target(f"Q4 ({deviation:g})", 50, 362, 10, deviation) for deviation in (0.08, 0.1, 0.12, 0.14, 0.16))
"""The paper says "varying": from ranges anywhere to ranges that all lie in their zones."""
Q4_WIDE = tuple(Target(f"Q4 wide ({deviation:g})", 50, 362, 10, deviation, 0.4) for deviation in (0.12, 0.15, 0.18, 0.21, 0.24))
GROUPS = 4


@dataclass(frozen=True, slots=True, eq=False)
class QuerySet:
    """Queries as arrays.

    Attributes:
        target: what was asked for.
        used: bool (queries, attributes), whether the query has a range on the attribute.
        low, high: int64 (queries, attributes), the range, both ends included.
        deviation: what was reached.
        groups, gamma: what reaches it.
    """

    target: Target
    used: NDArray[np.bool_]
    low: Integers
    high: Integers
    deviation: float
    groups: int
    gamma: float

    def selection(self) -> Selection:
        """The product's selection of these queries, each a plan of a single item."""
        return selection_of(self.used, self.low, self.high)


def selection_of(used: NDArray[np.bool_], low: Integers, high: Integers) -> Selection:
    """Ranges as the product's plans; construct ``a`` is that of the attribute called `attribute_name`, bit ``q`` is query ``q``."""
    plans = []
    for q in range(len(used)):
        ranges = tuple(
            ConstantTest(attribute_name(int(a)), Kind.INTEGER, "between", (int(low[q, a]), int(high[q, a])))
            for a in np.flatnonzero(used[q])
        )
        plans.append(Plan(f"q{q:03}", 1, "", (), 1.0, ("s",), (Item(0, "v0", (), tests=ranges),), (), (), None, (), ()))
    return Selection(Catalog.of(tuple(plans)), "s")


def attribute_name(number: int) -> str:
    """Names sort as numbers do."""
    return f"a{number:02}"


def deviation_of_ones(constructs: Constructs) -> float:
    """Over regions, of the share of ones among the bits of queries that use the attribute; averaged over constructs. NaN, null and absent are no regions of the paper."""
    found = []
    for table, users in zip(constructs.tables, constructs.usages, strict=True):
        ones = np.bitwise_count(table[:-SPECIALS] & users).sum(axis=1)
        found.append(np.std(ones / np.bitwise_count(users).sum()))
    return float(np.mean(found))


@dataclass(frozen=True, slots=True, eq=False)
class _Draw:
    """All randomness of a query set, so that gamma alone is left to vary.

    Attributes:
        used: bool (queries, attributes).
        anywhere: float64 (queries, attributes), a range's middle, as a share of the domain, if it lies anywhere: the domain's ends, where it is
            cut off, are included, because otherwise all ranges would lie over the middle.
        zoned: the same if it lies in its group's zone.
        lot: float64 (queries, attributes), in the zone if below gamma.
    """

    used: NDArray[np.bool_]
    anywhere: NDArray[np.float64]
    zoned: NDArray[np.float64]
    lot: NDArray[np.float64]


def _draw(random: np.random.Generator, target: Target, groups: int) -> _Draw:
    shape = target.queries, target.attributes
    half = target.width / 2
    used = _usage(random, target, groups)
    centres = random.uniform(half, 1 - half, (GROUPS, target.attributes))
    zoned = centres[np.arange(target.queries) % groups] + random.uniform(-0.02, 0.02, shape)
    return _Draw(used, random.random(shape), np.clip(zoned, half, 1 - half), random.random(shape))


def _usage(random: np.random.Generator, target: Target, groups: int) -> NDArray[np.bool_]:
    """Bool (queries, attributes) with the number of predicates, spread evenly over queries, at random over the attributes of their group; every attribute has one.

    Evenly, because a query of a single range would let a fifth of all tuples through, and the paper's workloads drop most.
    """
    sizes = np.full(target.queries, target.predicates // target.queries)
    sizes[: target.predicates % target.queries] += 1
    while True:
        used = np.zeros((target.queries, target.attributes), dtype=np.bool_)
        for q, size in enumerate(random.permutation(sizes)):
            used[q, random.choice(_attributes(target, q % groups, groups), size, replace=False)] = True
        if used.any(axis=0).all():
            return used


def _attributes(target: Target, group: int, groups: int) -> Integers:
    """Those of a group: all, or its own ones, which are one more than its queries need at most and overlap with those of others where there are not enough."""
    if not target.own:
        return np.arange(target.attributes)
    share = max(-(-target.attributes // groups), min(target.attributes, -(-target.predicates // target.queries) + 1))
    return (np.arange(share) + group * target.attributes // groups) % target.attributes


def query_set(target: Target, seed: int, domains: list[Integers] | None = None) -> QuerySet:
    """The query set of a seed that comes nearest to its target: gamma by bisection, fewer groups only where ``GROUPS`` cannot reach it.

    Args:
        target: what table 1 says.
        seed: draws everything that table 1 does not say; gamma is found with the draws fixed.
        domains: per attribute its values, ascending, of which a range takes a share; None: 0 to 99.
    """
    domains = domains or [np.arange(100)] * target.attributes
    groups = GROUPS
    while True:
        draw = _draw(np.random.default_rng([seed, 1]), target, groups)
        highest = _with_gamma(target, draw, 1.0, domains, groups)
        if highest.deviation >= target.deviation or groups == 1:
            break
        groups -= 1
    best, low, high = highest, 0.0, 1.0
    if highest.deviation <= target.deviation:
        return highest
    for _ in range(12):
        found = _with_gamma(target, draw, (low + high) / 2, domains, groups)
        best = min(best, found, key=lambda one: abs(one.deviation - target.deviation))
        low, high = (low, found.gamma) if found.deviation > target.deviation else (found.gamma, high)
    return best


def _with_gamma(target: Target, draw: _Draw, gamma: float, domains: list[Integers], groups: int) -> QuerySet:
    middles = np.where(draw.lot < gamma, draw.zoned, draw.anywhere)
    size = np.array([len(domain) for domain in domains])
    first = np.floor((middles - target.width / 2) * size + 1e-9).astype(np.int64)
    last = np.maximum(first, np.ceil((middles + target.width / 2) * size - 1e-9).astype(np.int64) - 1)
    low, high = np.empty_like(first), np.empty_like(last)
    for a, domain in enumerate(domains):
        low[:, a] = domain[np.clip(first[:, a], 0, len(domain) - 1)]
        high[:, a] = domain[np.clip(last[:, a], 0, len(domain) - 1)]
    deviation = deviation_of_ones(selection_of(draw.used, low, high).constructs)
    return QuerySet(target, draw.used, low, high, deviation, groups, gamma)
