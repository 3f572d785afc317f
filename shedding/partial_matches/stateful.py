"""Ours: partial matches by the recall that they still promise per second of work, learned from what became of others like them.

pSPICE knows a partial match by its state and the rest of its window, and multiplies single steps to a probability. Here outcomes themselves are learned: which of the
partial matches that were seen at some moment became composite events, and how much work they took until they ended. Two small forests of regression trees estimate both
from all that is known of a partial match: query, state, rest of the window, newest event's type, attributes of its events, and what pSPICE's chain says. So where attributes
decide (``b.x > a.x``: a large ``a.x`` hardly completes), the choice is by attributes; where they do not, the chain's answer remains. Where partial matches branch, steps are learned instead of outcomes (`shedding.partial_matches.branching`).

**Source:** after Zhao, Hung, Weidlich (ICDE 2020), who class partial matches by attributes, and pSPICE, whose ratio it keeps; see ops/decisions/0023.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedMatches, Mask
from shedding.events.gspice_trees import Trees, compiled
from shedding.identity import shuffled
from shedding.interface import Arrays, Json, Level, Manifest, Training
from shedding.observations import MatchObservations, Succession
from shedding.partial_matches.branching import BranchingOutlook, learned
from shedding.partial_matches.kernels_forest import mean_of_leaves
from shedding.partial_matches.markov import prospects
from shedding.partial_matches.pspice import Pspice, PspiceModel, UtilityTable
from shedding.partial_matches.selection import all_but_least

_LARGEST = 3e38
"""scikit-learn computes with 32 bits and takes no infinity."""
_ABSENT = -_LARGEST
"""Stands for an attribute that a partial match lacks: trees split it off."""
_MOST_ROWS = 200_000
"""Outcomes that are learned from; more are left out by chance."""
_PRICES = 100


_NOTHING = Trees(np.full(1, -1, np.int32), np.full(1, -1, np.int32), np.zeros(1), np.zeros(1, np.int32))
"""Not learned yet."""


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """What is expected of a partial match.

    Attributes:
        chance: completion probability of pSPICE's chain, as a table.
        gain: trees for the weight of composite events.
        cost_s: trees for seconds of processing.
        values: attributes that they know.
        least_s: the shortest time that divides.
    """

    chance: UtilityTable
    gain: Trees
    cost_s: Trees
    values: int
    least_s: float

    def rows(self, matches: JudgedMatches) -> NDArray[np.float32]:
        """float32 (matches, features), what trees ask for."""
        last_type = matches.last_type if len(matches.last_type) else np.full(len(matches), -1)
        known = (matches.query, matches.state, matches.remaining, self.chance.look_up(matches), last_type)
        attributes = matches.values if len(matches.values) == self.values else np.full((self.values, len(matches)), np.nan)
        table = np.stack([*(np.asarray(one, dtype=np.float64) for one in known), *attributes], axis=1)
        return np.clip(np.where(np.isnan(table), _ABSENT, table), -_LARGEST, _LARGEST).astype(np.float32)

    def utilities(self, matches: JudgedMatches) -> NDArray[np.float64]:
        """Expected weight per second, float64 (matches,)."""
        return self.worth(self.rows(matches))

    def worth(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """The same of `rows`."""
        gain, cost_s = np.empty(len(rows)), np.empty(len(rows))
        for trees, found in ((self.gain, gain), (self.cost_s, cost_s)):
            mean_of_leaves(rows, trees.feature, trees.child, trees.content, trees.roots, found)
        return gain / np.maximum(self.least_s, cost_s)

    def arrays(self) -> Arrays:
        """For a file."""
        trees = {"gain": self.gain, "cost_s": self.cost_s}
        nodes = {f"{label}_{name}": getattr(one, name) for label, one in trees.items() for name in Trees.__slots__}
        return {"chance": self.chance.utility, "bin_size": self.chance.bin_size, **nodes}


@dataclass(frozen=True, slots=True)
class StatefulGate:
    """Drops a share of the partial matches at hand, those that promise least per second."""

    outlook: Outlook | BranchingOutlook
    seed: int
    drop_ratio: float

    def keep(self, candidates: JudgedMatches) -> Mask:
        """Which partial matches stay; how many go is rounded to the nearest whole number."""
        ties = shuffled(candidates.identity, self.seed)
        return all_but_least(self.outlook.utilities(candidates), ties, round(self.drop_ratio * len(candidates)))


@dataclass(frozen=True, slots=True)
class PricedGate:
    """Drops every partial match that promises less per second than a price, however many there are."""

    outlook: Outlook | BranchingOutlook
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
        prices: float64 (`_PRICES` + 1,), ascending: price k leaves about ``1 - k / _PRICES`` of the partial matches that there would be without shedding.
    """

    manifest: Manifest
    outlook: Outlook | BranchingOutlook
    prices: NDArray[np.float64]

    def utilities(self, matches: JudgedMatches) -> NDArray[np.float64]:
        """Weight per second, float64 (matches,): expected, or where partial matches branch the price at which each is only just worth its work."""
        return self.outlook.utilities(matches)

    def gate(self, drop_ratio: float) -> StatefulGate:
        """Drops this share of whatever partial matches there are."""
        return StatefulGate(self.outlook, self.manifest.seed, drop_ratio)

    def priced(self, drop_ratio: float) -> PricedGate:
        """For a bound on the average: in the long run, so much less of what there would be without shedding; less where little is promised, more where much is."""
        return PricedGate(self.outlook, float(np.interp(drop_ratio, np.linspace(0, 1, len(self.prices)), self.prices)))

    def arrays(self) -> Arrays:
        """For a file."""
        return {"prices": self.prices, **self.outlook.arrays()}

    def parameters(self) -> Json:
        """For a file."""
        return {"values": self.outlook.values, "least_s": 0.0 if isinstance(self.outlook, BranchingOutlook) else self.outlook.least_s}


@dataclass(frozen=True, slots=True)
class Stateful:
    """Settings.

    Attributes:
        trees: of each forest.
        depth: of a tree, at most.
        leaf: a leaf is learned from at least so many outcomes.
        bins: of the chain's table, see `shedding.partial_matches.pspice`.
        samples: where partial matches branch, so many of what was seen does each tree learn from.
    """

    trees: int = 10
    depth: int = 10
    leaf: int = 30
    bins: int = 256
    samples: int = 40_000

    name = "stateful"
    level: Level = "partial matches"

    def train(self, observations: MatchObservations | None, training: Training) -> StatefulModel:
        """Learns the chain from steps and the forests from outcomes.

        Raises:
            ValueError: no steps or no outcomes were observed.
        """
        if observations is None or not len(observations.sample):
            raise ValueError("no outcomes of partial matches to learn from")
        sample, succession, values = observations.sample, observations.succession, len(observations.sample.values)
        manifest = training.manifest(self.name, len(observations.query) + len(sample))
        if succession is not None:
            branching = learned(sample, succession, partial(self._forest, seed=training.seed, samples=self.samples))
            return StatefulModel(manifest, branching, _prices(branching.utilities(sample), succession))
        chance = _completion(Pspice(bins=self.bins).train(observations, training), observations, self.bins)
        least_s = float(observations.cost_s.mean()) * 1e-3 or 1.0
        blank = Outlook(chance, _NOTHING, _NOTHING, values, least_s)
        rows = blank.rows(sample)
        chosen = np.arange(len(rows))
        if len(chosen) > _MOST_ROWS:
            chosen = np.sort(np.random.default_rng(training.seed).choice(chosen, _MOST_ROWS, replace=False))
        gain, cost_s = (self._forest(rows[chosen], one[chosen], training.seed) for one in (observations.gain, observations.cost_s))
        outlook = replace(blank, gain=gain, cost_s=cost_s)
        return StatefulModel(manifest, outlook, _prices(outlook.worth(rows), None))

    def _forest(self, rows: NDArray[np.float32], labels: NDArray[np.float64], seed: int, samples: int = _MOST_ROWS) -> Trees:
        from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415 - a second, which models in use do not need

        settings: dict[str, Any] = {"max_depth": self.depth, "min_samples_leaf": min(self.leaf, len(rows)), "max_features": 0.7}
        settings["max_samples"] = min(1.0, samples / len(rows))
        return compiled(RandomForestRegressor(self.trees, n_jobs=1, random_state=seed % 2**32, **settings).fit(rows, labels).estimators_)

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> StatefulModel:
        """The model of a file."""
        if "branching_kinds" in arrays:
            return StatefulModel(manifest, BranchingOutlook.restored(arrays, parameters["values"]), arrays["prices"])
        chance = UtilityTable(np.ascontiguousarray(arrays["chance"]), arrays["bin_size"])
        gain, cost_s = (Trees(**{name: arrays[f"{label}_{name}"] for name in Trees.__slots__}) for label in ("gain", "cost_s"))
        return StatefulModel(manifest, Outlook(chance, gain, cost_s, parameters["values"], parameters["least_s"]), arrays["prices"])


def _prices(worth: NDArray[np.float64], succession: Succession | None) -> NDArray[np.float64]:
    """float64 (`_PRICES` + 1,), see `StatefulModel`; what would have grown from a dropped partial match is not there either."""
    wanted = np.linspace(0, 1, _PRICES + 1)
    tried = np.quantile(worth, wanted)
    if succession is None:
        return tried
    gone = [1.0 - float(succession.survive(worth >= price).mean()) for price in tried]
    return np.interp(wanted, np.maximum.accumulate([*gone, 1.0]), [*tried, np.inf if not len(tried) else np.nextafter(tried[-1], np.inf)])


def _completion(model: PspiceModel, observations: MatchObservations, bins: int) -> UtilityTable:
    """The chains' completion probabilities, as a table of the same shape."""
    table = np.zeros_like(model.table.utility)
    for number, chain in enumerate(model.chains):
        completion, _ = prospects(chain, bins, int(model.table.bin_size[number]))
        table[number, : completion.shape[1]] = completion.T
    return UtilityTable(table, model.table.bin_size)
