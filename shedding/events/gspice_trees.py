"""gSPICE with a decision tree or a random forest (gSPICE-T, gSPICE-F): utilities where a table of all keys would be too large."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shedding import kernels_trees
from shedding.candidates import JudgedEvents
from shedding.events.features import Features, attribute_rows, learned_features, stream
from shedding.events.judging import UtilityGate, manifest_of, present, shares_of_types, split, worth
from shedding.forest import LARGEST, Forest, Trees, compiled
from shedding.interface import Arrays, Json, Level, Manifest, Training
from shedding.observations import EventObservations
from shedding.panes import Pane
from shedding.threshold import Ties, UtilityShares, utility_shares

PANE = Pane(events=10)
_MOST_CELLS = 40_000_000
"""Numbers in the table that scikit-learn learns from; with hundreds of types, rows are left out by chance."""


_NOTHING = Trees(np.full(1, -1, np.int32), np.full(1, -1, np.int32), np.zeros(1), np.zeros(1, np.int32))
"""All events are of types that no query names."""


@dataclass(frozen=True, slots=True, eq=False)
class GspiceTreesModel:
    """What `GspiceTrees` learned.

    Attributes:
        manifest: where it comes from.
        pane: what a batch must know of its predecessors.
        types: how many event types have a frequency.
        missing: float64 (attributes,), what stands for an attribute that the event lacks.
        trees: the trees.
        shares: of utilities as they are given at run time, for the threshold.
        ties: see `shedding.threshold`.
        type_shares: float64 (types,), share of each type in training.
    """

    manifest: Manifest
    pane: Pane
    types: int
    missing: NDArray[np.float64]
    trees: Trees
    shares: UtilityShares
    ties: Ties
    type_shares: NDArray[np.float64]
    _forest: Forest = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_forest", Forest.of(self.trees))

    def utilities(self, events: JudgedEvents) -> NDArray[np.float64]:
        """Utility of each event, float64 (events,)."""
        return walk(self._forest, self.pane, self.types, self.missing, events)

    def gate(self, drop_ratio: float) -> UtilityGate:
        """Drops this share of events, those of least utility."""
        return UtilityGate(self, self.shares.cut(drop_ratio, seed=self.manifest.seed, ties=self.ties))

    def arrays(self) -> Arrays:
        """For a file."""
        trees = {name: getattr(self.trees, name) for name in Trees.__slots__}
        shares = {"utility": self.shares.utility, "cumulative": self.shares.cumulative, "type_shares": self.type_shares}
        return {"missing": self.missing, **trees, **shares}

    def parameters(self) -> Json:
        """For a file."""
        return {"pane_events": self.pane.events, "pane_ms": self.pane.time_ms, "types": self.types, "ties": self.ties}


@dataclass(frozen=True, slots=True)
class GspiceTrees:
    """Settings of gSPICE-T and gSPICE-F.

    Attributes:
        name: as queries write it.
        trees: 1 is a decision tree, more are a random forest.
        pane: length of the predecessor pane.
        frequency_bin: so many neighbouring frequencies are one observation.
        value_bins: width of the ranges of each attribute that are one observation.
        depth: of a tree, at most; with ``leaf_events`` it bounds the memory.
        leaf_events: a leaf is learned from at least so many events.
        abandoned_credit: worth of an abandoned partial match beside a composite event of its query.
        holdout: share of the observations, the last ones, on which the thresholds are measured.
        ties: see `shedding.threshold`.

    Source: gSPICE (2023), III-B4. Regression trees, as utilities are numbers; rows weigh as much as they have events; ten trees in a
    forest. Thresholds are measured on the trees' answers, not on what they learned from. Depth and leaves are ours: the paper gives none.
    """

    name: str
    trees: int
    pane: Pane = PANE
    frequency_bin: int = 1
    value_bins: tuple[float, ...] = ()
    depth: int = 16
    leaf_events: float = 10.0
    abandoned_credit: float = 1.0
    holdout: float = 0.2
    ties: Ties = "split"

    @property
    def level(self) -> Level:
        """Events."""
        return "events"

    def train(self, observations: EventObservations | None, training: Training) -> GspiceTreesModel:
        """Learns utilities from the earlier observations, thresholds from the later ones.

        Raises:
            ValueError: there are no observations.
        """
        seen = present(observations)
        earlier, later = split(seen, self.pane, self.holdout)
        features = learned_features(earlier.events, self.pane, self.frequency_bin, self.value_bins, training.seed)
        missing = features.ranges[:, 0] - 1
        missing.flags.writeable = False
        table, labels, weights = _rows(earlier, worth(earlier, self.abandoned_credit), features, missing, training.seed)
        trees = compiled(self._fitted(table, labels, weights, training.seed)) if len(labels) else _NOTHING
        utilities = walk(Forest.of(trees), self.pane, features.types, missing, later.events)
        manifest = manifest_of(seen, training, self.name)
        shares = shares_of_types(seen.events)
        return GspiceTreesModel(manifest, self.pane, features.types, missing, trees, utility_shares(utilities), self.ties, shares)

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> GspiceTreesModel:
        """The model of a file."""
        trees = Trees(**{name: arrays[name] for name in Trees.__slots__})
        pane, shares = Pane(parameters["pane_events"], parameters["pane_ms"]), UtilityShares(arrays["utility"], arrays["cumulative"])
        return GspiceTreesModel(
            manifest, pane, parameters["types"], arrays["missing"], trees, shares, parameters["ties"], arrays["type_shares"]
        )

    def _fitted(self, table: NDArray[np.float32], labels: NDArray[np.float64], weights: NDArray[np.float64], seed: int) -> list[Any]:
        from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415 - a second, which models in use do not need
        from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415

        least = min(0.5, self.leaf_events / float(weights.sum()))
        settings = {"max_depth": self.depth, "min_weight_fraction_leaf": least, "random_state": seed % 2**32}
        if self.trees == 1:
            return [DecisionTreeRegressor(**settings).fit(table, labels, weights)]
        fitted: list[Any] = RandomForestRegressor(self.trees, n_jobs=1, **settings).fit(table, labels, weights).estimators_
        return fitted


def gspice_tree(**settings: Any) -> GspiceTrees:
    """One decision tree."""
    return GspiceTrees("gspice-tree", 1, **settings)


def gspice_forest(**settings: Any) -> GspiceTrees:
    """A random forest of ten trees."""
    return GspiceTrees("gspice-forest", settings.pop("trees", 10), **settings)


def walk(forest: Forest, pane: Pane, types: int, missing: NDArray[np.float64], events: JudgedEvents) -> NDArray[np.float64]:
    """float64 (events,): the trees' mean answer; 0 for types below 0."""
    utilities, row = np.empty(len(events)), np.zeros((1, 1 + types + len(missing)), dtype=np.float32)
    all_types, times, first = stream(events)
    values = attribute_rows(events, len(missing))
    kernels_trees.walk(all_types, times, pane.events, pane.time_ms, first, types, values, missing, forest, row, utilities)
    return utilities


def _rows(
    observations: EventObservations, gains: NDArray[np.float64], features: Features, missing: NDArray[np.float64], seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
    """One row per key: what the first event of the key looked like, mean gain, number of events."""
    events = observations.events
    known = np.flatnonzero(events.type >= 0)
    _, firsts, number = np.unique(features.keys(events)[0, known], return_index=True, return_inverse=True)
    counts = np.bincount(number).astype(np.float64)
    labels = np.bincount(number, gains[known]).astype(np.float64) / counts
    order = np.argsort(firsts)
    most = max(1, _MOST_CELLS // (1 + features.types + len(missing)))
    if len(order) > most:
        order = order[np.sort(np.random.default_rng(seed).choice(len(order), most, replace=False))]
    rows = known[firsts[order]]
    attributes = attribute_rows(events, len(missing))[:, rows].T
    attributes = np.clip(np.where(np.isnan(attributes), missing, attributes), -LARGEST, LARGEST)
    table = np.concatenate([events.type[rows][:, None], features.frequencies(events, rows), attributes], axis=1).astype(np.float32)
    return table, labels[order], counts[order]
