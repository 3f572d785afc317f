"""Ours: pSPICE's chain, mended by what attributes say; where partial matches branch, the price at which each is just worth its work.

pSPICE knows a partial match by its state and the rest of its window, and multiplies single steps to a probability. Here it is also asked what became of partial matches that were seen at some moment, compared with what the chain expected of them: two small forests
of regression trees learn how many more (or fewer) composite events came, and how much more work there was, by all that is known of a partial match: query, state, rest of the window, newest event's type, attributes of its events. A leaf counts as if it had also seen `prior` cases that went
as the chain says, so where attributes decide (``b.x > a.x``: a large ``a.x`` hardly completes) the choice is by attributes, and where they say nothing, or little was seen, it is pSPICE's.

Where partial matches branch, a chain does not describe them: steps are learned instead (`shedding.partial_matches.branching`).

**Source:** after Zhao, Hung, Weidlich (ICDE 2020), who class partial matches by attributes, and pSPICE, whose ratio it keeps; see ops/decisions/0023 and 0029.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedMatches, Mask
from shedding.forest import Forest, Trees, compiled
from shedding.interface import Arrays, Json, Level, Manifest, Training
from shedding.observations import MatchObservations
from shedding.partial_matches.branching import BranchingOutlook, learned
from shedding.partial_matches.forest_rows import always, rows_of, told_values, types_of
from shedding.partial_matches.kernels_outlook import mend
from shedding.partial_matches.markov import prospects
from shedding.partial_matches.pspice import Pspice, PspiceModel, UtilityTable
from shedding.partial_matches.selection import all_but_share, price_at, prices_that_leave

_MOST_ROWS = 200_000
"""Outcomes that are learned from; more are left out by chance."""


_AS_EXPECTED = always(1.0)
"""Of whom nothing was seen."""
_LEAST_COST = 0.01
"""Of the work that the chain expects: what divides at least."""


@dataclass(frozen=True, slots=True, eq=False)
class ChainOutlook:
    """What is expected of a partial match.

    Attributes:
        chain: pSPICE's utilities.
        gain: trees for composite events, as a multiple of what the chain expects.
        cost: trees for the work, likewise.
        values: attributes that they know.
    """

    chain: UtilityTable
    gain: Trees
    cost: Trees
    values: int
    _gains: Forest = field(init=False)
    _costs: Forest = field(init=False)

    def __post_init__(self) -> None:
        """Makes the trees ready."""
        object.__setattr__(self, "_gains", Forest.of(self.gain))
        object.__setattr__(self, "_costs", Forest.of(self.cost))

    def rows(self, matches: JudgedMatches) -> NDArray[np.float32]:
        """float32 (matches, features), what trees ask for."""
        return rows_of((matches.query, matches.state, matches.remaining, types_of(matches)), matches, self.values)

    def utilities(self, matches: JudgedMatches) -> NDArray[np.float64]:
        """Utilities of pSPICE times gain over cost, float64 (matches,)."""
        found, values = self.chain.look_up(matches), told_values(matches, self.values)
        known = (matches.query, matches.state, matches.remaining, types_of(matches))
        mend(*known, values, self._gains, self._costs, _LEAST_COST, found)
        return found

    def arrays(self) -> Arrays:
        """For a file."""
        trees = {"gain": self.gain, "cost": self.cost}
        nodes = {f"{label}_{name}": getattr(one, name) for label, one in trees.items() for name in Trees.__slots__}
        return {"chain": self.chain.utility, "bin_size": self.chain.bin_size, **nodes}


@dataclass(frozen=True, slots=True)
class StatefulGate:
    """Drops a share of the partial matches at hand, those that promise least per second."""

    outlook: ChainOutlook | BranchingOutlook
    seed: int
    drop_ratio: float

    def keep(self, candidates: JudgedMatches) -> Mask:
        """Which partial matches stay; how many go is rounded to the nearest whole number."""
        return all_but_share(self.outlook.utilities(candidates), candidates, self.drop_ratio, self.seed)


class Promising(Protocol):
    """Whoever knows what partial matches are worth."""

    def utilities(self, matches: JudgedMatches) -> NDArray[np.float64]:
        """float64 (matches,), weight per second, or what is proportional to it."""
        ...


@dataclass(frozen=True, slots=True)
class PricedGate:
    """Drops every partial match that promises less per second than a price, however many there are."""

    outlook: Promising
    price: float

    def keep(self, candidates: JudgedMatches) -> Mask:
        """Which partial matches stay."""
        return self.outlook.utilities(candidates) >= self.price


@dataclass(frozen=True, slots=True, eq=False)
class StatefulModel:
    """What `Stateful` learned.

    Attributes:
        manifest: where it comes from.
        outlook: what is expected.
        prices: see `prices_that_leave`.
    """

    manifest: Manifest
    outlook: ChainOutlook | BranchingOutlook
    prices: NDArray[np.float64]

    def utilities(self, matches: JudgedMatches) -> NDArray[np.float64]:
        """float64 (matches,): pSPICE's, mended; where partial matches branch the price at which each is only just worth its work, weight per second."""
        return self.outlook.utilities(matches)

    def gate(self, drop_ratio: float) -> StatefulGate:
        """Drops this share of whatever partial matches there are."""
        return StatefulGate(self.outlook, self.manifest.seed, drop_ratio)

    def priced(self, drop_ratio: float) -> PricedGate:
        """For a bound on the average: in the long run, so much less of what there would be without shedding; less where little is promised, more where much is."""
        return PricedGate(self.outlook, price_at(self.prices, drop_ratio))

    def arrays(self) -> Arrays:
        """For a file."""
        return {"prices": self.prices, **self.outlook.arrays()}

    def parameters(self) -> Json:
        """For a file."""
        return {"values": self.outlook.values}


@dataclass(frozen=True, slots=True)
class Stateful:
    """Settings.

    Attributes:
        trees: of each forest.
        depth: of a tree, at most.
        leaf: a leaf is learned from at least so many partial matches.
        prior: a leaf counts so many more that went as the chain says: composite events of those expected, and partial matches.
        bins: of the chain's table, see `shedding.partial_matches.pspice`.
        branching_depth: where partial matches branch, of a tree.
        branching_leaf: likewise; steps are many and alike.
        samples: likewise, so many of what was seen does each tree learn from.
    """

    trees: int = 10
    depth: int = 5
    leaf: int = 100
    prior: float = 100.0
    bins: int = 256
    branching_depth: int = 12
    branching_leaf: int = 300
    samples: int = 40_000

    name = "stateful"
    level: Level = "partial matches"

    def train(self, observations: MatchObservations | None, training: Training) -> StatefulModel:
        """Learns the chain from steps, and forests from what became of partial matches, or from how they went on.

        Raises:
            ValueError: no steps or no outcomes were observed.
        """
        if observations is None or not len(observations.sample):
            raise ValueError("no outcomes of partial matches to learn from")
        sample, succession = observations.sample, observations.succession
        manifest = training.manifest(self.name, len(observations.query) + len(sample))
        if succession is not None:
            branching = learned(sample, succession, partial(self._steps, seed=training.seed))
            return StatefulModel(manifest, branching, prices_that_leave(branching.utilities(sample), succession))
        chain = Pspice(bins=self.bins).train(observations, training)
        outlook = ChainOutlook(chain.table, _AS_EXPECTED, _AS_EXPECTED, len(sample.values))
        outlook = self._mended(outlook, chain, observations, training.seed)
        return StatefulModel(manifest, outlook, prices_that_leave(outlook.utilities(sample), None))

    def _mended(self, outlook: ChainOutlook, chain: PspiceModel, observations: MatchObservations, seed: int) -> ChainOutlook:
        """With forests for what came of partial matches beyond what the chain expected; each partial match counts once, however often it was looked at."""
        sample = observations.sample
        completion, seconds = (table.look_up(sample) for table in _expectations(chain, self.bins))
        weight = observations.weight[sample.query] * completion
        known = np.flatnonzero((weight > 0) & (seconds > 0))
        if len(known) > _MOST_ROWS:
            known = np.sort(np.random.default_rng(seed).choice(known, _MOST_ROWS, replace=False))
        _, number, looks = np.unique(sample.identity[known], return_inverse=True, return_counts=True)
        if len(looks) < 2 * self.leaf:
            return outlook
        rows, once = outlook.rows(sample)[known], 1 / looks[number]
        prior = self.prior / float(np.average(completion[known], weights=once))
        gain = self._forest(rows, observations.gain[known], weight[known], once, prior, seed)
        cost = self._forest(rows, observations.cost_s[known], seconds[known], once, self.prior, seed)
        return replace(outlook, gain=gain, cost=cost)

    def _forest(  # noqa: PLR0917 - a regression's parts
        self,
        rows: NDArray[np.float32],
        came: NDArray[np.float64],
        expected: NDArray[np.float64],
        once: NDArray[np.float64],
        prior: float,
        seed: int,
    ) -> Trees:
        """What came as a multiple of what was expected, 1 on average."""
        if not came.any():
            return _AS_EXPECTED
        from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415 - a second, which models in use do not need

        weights = once * expected / np.average(expected, weights=once)
        multiple = came / expected
        multiple /= np.average(multiple, weights=weights)
        leaf = round(self.leaf * len(rows) / once.sum())  # partial matches are looked at several times
        settings: dict[str, Any] = {"max_depth": self.depth, "min_samples_leaf": leaf, "max_features": 0.7}
        forest = RandomForestRegressor(self.trees, n_jobs=1, random_state=seed % 2**32, **settings)
        return compiled(forest.fit(rows, multiple, sample_weight=weights).estimators_, prior)

    def _steps(self, rows: NDArray[np.float32], labels: NDArray[np.float64], seed: int) -> Trees:
        from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415 - as above

        leaf = min(self.branching_leaf, len(rows))
        settings: dict[str, Any] = {"max_depth": self.branching_depth, "min_samples_leaf": leaf, "max_features": 0.7}
        settings["max_samples"] = min(1.0, self.samples / len(rows))
        return compiled(RandomForestRegressor(self.trees, n_jobs=1, random_state=seed % 2**32, **settings).fit(rows, labels).estimators_)

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> StatefulModel:
        """The model of a file."""
        if "branching_kinds" in arrays:
            return StatefulModel(manifest, BranchingOutlook.restored(arrays, parameters["values"]), arrays["prices"])
        chain = UtilityTable(np.ascontiguousarray(arrays["chain"]), arrays["bin_size"])
        gain, cost = (Trees(**{name: arrays[f"{label}_{name}"] for name in Trees.__slots__}) for label in ("gain", "cost"))
        return StatefulModel(manifest, ChainOutlook(chain, gain, cost, parameters["values"]), arrays["prices"])


def _expectations(model: PspiceModel, bins: int) -> tuple[UtilityTable, UtilityTable]:
    """The chains' completion probabilities, and their seconds of processing, as tables of the same shape."""
    tables = np.zeros((2, *model.table.utility.shape))
    for number, chain in enumerate(model.chains):
        for table, ahead in zip(tables, prospects(chain, bins, int(model.table.bin_size[number])), strict=True):
            table[number, : ahead.shape[1]] = ahead.T
    completion, seconds = (UtilityTable(table, model.table.bin_size) for table in tables)
    return completion, seconds
