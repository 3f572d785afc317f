"""Ours, where partial matches branch: each by the price at which it is only just worth its work.

A bound on the average number of partial matches is a price of each for every event that it is held against. At a price, a partial match should be kept as long as what it brings forth per unit of work is worth that price, where whatever it brings
forth counts with what *that* is still worth at this price: a composite event its weight, a longer partial match what it will bring forth less its work, or nothing if nobody would keep it. So rates are learned from the last stages of the pattern back to the
first, one small forest for each kind of partial match (state and newest event's type), by window left and attributes. A step is seen often where a whole way to a composite event is seen seldom: learning from outcomes, as ICDE'20 does and as this project did before,
needs several times as many events for as good a choice. Rates are learned at some prices; the price at which a partial match's rate falls below it is its utility, so one number serves every bound.

The rule is the best that there is where rates fall with the window's rest, as they do if what comes is independent of what came (`ops.experiments.sharp_laws` works it out there).

**Source:** Whittle: *Restless Bandits* (Journal of Applied Probability 25A, 1988), whose index this is; attributes as classes of partial matches after Zhao, Hung, Weidlich (ICDE 2020). See ops/decisions/0029.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedMatches
from shedding.forest import Forest, Trees
from shedding.identity import shuffled
from shedding.interface import Arrays
from shedding.observations import Succession
from shedding.partial_matches.forest_rows import always, asked, rows_of, types_of
from shedding.partial_matches.kernels_outlook import just_worth

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Fit = Callable[[NDArray[np.float32], Floats], Trees]
"""Learns trees from rows and labels."""

SHARES = (0.5, 0.25, 0.1, 0.05)
"""Of the partial matches without shedding: rates are learned without a price, and at prices that leave about so many."""
MOST = 1_000_000
"""Partial matches, as seen at all looks, that are learned from; of more some are taken, each with all that grew from it."""
LOOPS = 3
"""How often rates are learned where a partial match brings forth others of its own stage (a closure)."""
_TRIED = 12
"""Prices among the lower nine tenths of rates, and as many among the others."""


@dataclass(frozen=True, slots=True, eq=False)
class BranchingOutlook:
    """What is known of partial matches that branch.

    Attributes:
        kinds: int32 (kinds, 2), ascending: states and newest events' types.
        prices: float64 (prices,), ascending, from 0: weight per second.
        trees: of all prices and kinds.
        starts: int32 (prices * kinds + 1,): the trees of kind k at price p are those from ``starts[p * kinds + k]`` on.
        values: attributes that they know.
    """

    kinds: NDArray[np.int32]
    prices: Floats
    trees: Trees
    starts: NDArray[np.int32]
    values: int
    _forest: Forest = field(init=False)

    def __post_init__(self) -> None:
        """Makes the trees ready."""
        object.__setattr__(self, "_forest", Forest.of(self.trees))

    def utilities(self, matches: JudgedMatches) -> Floats:
        """The price at which each is only just worth its work, weight per second, float64 (matches,); 0 of kinds that were never seen."""
        return self._just_worth(rows_of([matches.remaining], matches, self.values), kinds_among(self.kinds, matches))

    def _just_worth(self, rows: NDArray[np.float32], kind: NDArray[np.int32]) -> Floats:
        found = np.empty(len(rows))
        just_worth(rows, kind, self._forest, self.starts, self.prices, found)
        return found

    def arrays(self) -> Arrays:
        """For a file."""
        nodes = {f"branching_{name}": getattr(self.trees, name) for name in Trees.__slots__}
        return {"branching_kinds": self.kinds, "branching_prices": self.prices, "branching_starts": self.starts, **nodes}

    @staticmethod
    def restored(arrays: Arrays, values: int) -> BranchingOutlook:
        """Of a file."""
        trees = Trees(**{name: arrays[f"branching_{name}"] for name in Trees.__slots__})
        return BranchingOutlook(arrays["branching_kinds"], arrays["branching_prices"], trees, arrays["branching_starts"], values)


def kinds_of(matches: JudgedMatches) -> NDArray[np.int32]:
    """int32 (kinds, 2), ascending: states and newest events' types that there are."""
    return np.unique(np.stack([matches.state, types_of(matches)], axis=1).astype(np.int32), axis=0)


def kinds_among(kinds: NDArray[np.int32], matches: JudgedMatches) -> NDArray[np.int32]:
    """int32 (matches,): place of each one's kind; -1 where there is none."""
    if not len(kinds):
        return np.full(len(matches), -1, np.int32)
    one, wanted = _code(kinds[:, 0], kinds[:, 1]), _code(matches.state, types_of(matches))
    at = np.minimum(np.searchsorted(one, wanted), len(one) - 1)
    return np.where(one[at] == wanted, at, -1).astype(np.int32)


def _code(state: NDArray[np.int32], kind: NDArray[np.int32]) -> Integers:
    return state.astype(np.int64) * (1 << 32) + kind


def learned(sample: JudgedMatches, succession: Succession, fit: Fit) -> BranchingOutlook:
    """Rates without a price, and at prices that leave less and less.

    Args:
        sample: partial matches as they were seen, look by look.
        succession: how they went on.
        fit: learns trees.
    """
    sample, succession = lineages(sample, succession, MOST)
    kinds = kinds_of(sample)
    learning = Learning.of(sample, succession, kinds, fit)
    prices, forests = [0.0], [learning.at(0.0)]
    for share in SHARES:
        price = learning.price_for(share)
        if price > prices[-1]:
            prices.append(price)
            forests.append(learning.at(price))
    trees, starts = _joined([one for forest in forests for one in forest])
    return BranchingOutlook(kinds, np.array(prices), trees, starts, len(sample.values))


def lineages(sample: JudgedMatches, succession: Succession, most: int) -> tuple[JudgedMatches, Succession]:
    """About so many of the sample: by chance some of those that grew from nothing that was seen, with all that grew from them."""
    if len(sample) <= most:
        return sample, succession
    root, owner = np.arange(len(sample)), succession.owner
    for begin, end in pairwise(succession.starts.tolist()):
        root[begin:end] = np.where(owner[begin:end] >= 0, root[owner[begin:end]], root[begin:end])
    kept = shuffled(sample.identity, 0)[root] < np.uint64(most / len(sample) * 2.0**64)
    place = np.cumsum(kept) - 1
    owners = np.where(owner[kept] >= 0, place[owner[kept]], -1)
    starts = np.concatenate([[0], np.cumsum(kept)])[succession.starts]
    return sample.only(kept), Succession(starts, owners, succession.gain[kept], succession.spent_s[kept])


def _joined(forests: Sequence[Trees]) -> tuple[Trees, NDArray[np.int32]]:
    """All trees as one, and where each one's roots begin."""
    nodes = np.cumsum([0, *(len(one.feature) for one in forests)])
    child = [np.where(one.child < 0, -1, one.child + before) for one, before in zip(forests, nodes, strict=False)]
    roots = [one.roots + before for one, before in zip(forests, nodes, strict=False)]
    trees = Trees(
        np.concatenate([one.feature for one in forests]),
        np.concatenate(child).astype(np.int32),
        np.concatenate([one.content for one in forests]),
        np.concatenate(roots).astype(np.int32),
    )
    return trees, np.cumsum([0, *(len(one) for one in roots)]).astype(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class _Descent:
    """Who of the sample is whose.

    Attributes:
        later: int64 (sample,), what each is at the next look; -1: gone.
        parent: int64 (births,), who of one look brought forth whom until the next.
        born: int64 (births,), whom.
        settled: bool (sample,), of whom nothing is left at the end of what was observed.
    """

    later: Integers
    parent: Integers
    born: Integers
    settled: NDArray[np.bool_]

    @staticmethod
    def of(sample: JudgedMatches, succession: Succession) -> _Descent:
        """By identities: what has another one than its owner grew from it."""
        there = np.flatnonzero(succession.owner >= 0)
        owner = succession.owner[there]
        same = sample.identity[there] == sample.identity[owner]
        later = np.full(len(sample), -1, np.int64)
        later[owner[same]] = there[same]
        return _Descent(later, owner[~same], there[~same], succession.ended() & (succession.spent_s > 0))


@dataclass(slots=True, eq=False)
class Learning:
    """Learns rates at a price.

    Attributes:
        rows: float32 (sample, features), what trees ask for.
        kind: int32 (sample,).
        stages: int32 (kinds,), the state of each.
        descent: who is whose.
        succession: what came of each until the next look.
        fit: learns trees.
        rates: float64 (sample,), as learned last.
    """

    rows: NDArray[np.float32]
    kind: NDArray[np.int32]
    stages: NDArray[np.int32]
    descent: _Descent
    succession: Succession
    fit: Fit
    rates: Floats

    @staticmethod
    def of(sample: JudgedMatches, succession: Succession, kinds: NDArray[np.int32], fit: Fit) -> Learning:
        """From what was seen."""
        rows, kind = rows_of([sample.remaining], sample, len(sample.values)), kinds_among(kinds, sample)
        return Learning(rows, kind, kinds[:, 0], _Descent.of(sample, succession), succession, fit, np.zeros(len(rows)))

    def at(self, price: float) -> list[Trees]:
        """By kind, from the last stage back to the first."""
        found: dict[int, Trees] = {}
        self.rates, worth = np.zeros(len(self.rows)), np.zeros(len(self.rows))
        stage_of = self.stages[self.kind]
        looping = np.unique(stage_of[self.descent.born][stage_of[self.descent.born] == stage_of[self.descent.parent]])
        for stage in np.unique(self.stages)[::-1].tolist():
            own = np.flatnonzero(stage_of == stage)
            for _ in range(LOOPS if stage in looping else 1):
                brought = self.succession.gain.copy()
                np.add.at(brought, self.descent.parent, worth[self.descent.born])
                for kind in np.flatnonzero(self.stages == stage).tolist():
                    found[kind] = self._fitted(own[self.kind[own] == kind], brought)
                worth[own] = self._worth(own, price)
        return [found[kind] for kind in range(len(self.stages))]

    def _fitted(self, own: Integers, brought: Floats) -> Trees:
        """Trees of one kind; they are asked about all of it at once."""
        known = own[self.descent.settled[own]]
        rows, labels = self.rows[known], brought[known] / self.succession.spent_s[known]
        trees = self.fit(rows, labels) if len(known) else always(0.0)
        self.rates[own] = asked(Forest.of(trees), self.rows[own])
        return trees

    def _worth(self, own: Integers, price: float) -> Floats:
        """float64 (own,): what partial matches of a stage still bring forth, less their work, as long as that is worth it."""
        rates, spent = self.rates, self.succession.spent_s
        worth = np.zeros(len(self.rows))
        starts = np.searchsorted(own, self.succession.starts)
        for begin, end in zip(starts[-2::-1].tolist(), starts[:0:-1].tolist(), strict=True):
            now = own[begin:end]
            later = self.descent.later[now]
            ahead = np.where(later >= 0, worth[later], 0.0)
            worth[now] = np.where(rates[now] >= price, (rates[now] - price) * spent[now] + ahead, 0.0)
        return worth[own]

    def price_for(self, share: float) -> float:
        """At which about this share of all partial matches is left, by the rates as they are now."""
        some = self.rates[self.rates > 0]
        if not len(some):
            return 0.0
        tried = np.unique(np.quantile(some, np.concatenate([np.linspace(0, 0.9, _TRIED), 1 - np.geomspace(0.1, 0.002, _TRIED)])))
        left = [float(self.succession.survive(self.rates >= price).mean()) for price in tried]
        return float(np.interp(-share, -np.minimum.accumulate(left), tried))
