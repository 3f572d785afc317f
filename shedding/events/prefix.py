"""Whole chains or nothing: events are kept where what must precede them was kept, and dropped where it was not. A method of this project.

gSPICE and eSPICE judge every event by itself. Where more must go than is useless, they drop an A here and a B there, and each of them ruins a match
that the others were kept for: of matches of n events the share (1 - p)**n is left. Here an event that has nothing to extend in its partition and
window is worth nothing, be it that there never was anything, or that it was dropped. So when an event goes, those that would follow it go for free,
and the price of an event is what it is worth over all that its loss saves: matches are given up whole, and where they begin.

An event that a negation asks for ends what was kept before it. Where it is certain what that is (`shedding.observations.Shape.ending`: all but negated ends and starts, and negations that
are compared with other items), it is over here as well, whether that event is kept or not: what would follow is worth nothing, so nothing false is told, and both go for free. Elsewhere it is
kept as long as there is something that it ends: without it a composite event would be told that is none. So credit for abandoned partial matches, which makes gSPICE keep what is *not* stolen, is not needed.

Of what is left when nine of ten events are gone most are the events of matches, and those that are worth most cost most: to give up the least one first saves next to nothing. What must go beyond that goes by chance, whole partitions where
there are many: as much work as matches (`PrefixModel.gate`).

It looks at what the selection knows of an event anyway (which items it can be), and at its partition. No predicate between events is asked, so what
it takes for useless is useless indeed; what it keeps may still be.

Source: this project, ops/decisions/0020; the idea to judge events together with partial matches is hSPICE's (Slo et al., DEBS 2020).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedEvents, Mask, Predecessors
from shedding.chain_memory import ChainMemory
from shedding.events.features import attribute_rows
from shedding.events.judging import manifest_of, present
from shedding.forest import LARGEST, Forest, Trees, compiled
from shedding.interface import Arrays, Json, Level, Manifest, Training
from shedding.kernels_worth import CLASSES, densities, groups_of, rank_events
from shedding.observations import EventObservations, Shape
from shedding.panes import Pane
from shedding.threshold import UtilityShares, utility_shares

CHANCE_FROM = 0.9
"""Of the events that can be some item: so many go by worth, and all that extend nothing. On the benchmark *engine* the tenth that is left costs two thirds of all."""
_LEAST_USEFUL = 2
"""Class of events that extend something, see `shedding.kernels_prefix.keep_chains`."""
_GRID = 257
"""Thresholds at which the share of dropped events is measured."""
_MANY_PARTITIONS = 100
"""So many partitions fall evenly enough into the parts."""


@dataclass(frozen=True, slots=True, eq=False)
class Worth:
    """What events are worth by themselves: by the items that they can be, their type and their attributes.

    Attributes:
        groups: uint64 (groups,), items and type as one number, ascending.
        order: int32 (groups,), place of the group among all of them by mean worth: the first feature of the tree.
        missing: float64 (attributes,), what stands for an attribute that the event lacks.
        tree: a regression tree over place and attributes.
        forest: the same, ready to be walked.
    """

    groups: NDArray[np.uint64]
    order: NDArray[np.int32]
    missing: NDArray[np.float64]
    tree: Trees
    forest: Forest = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "forest", Forest.of(self.tree))

    def per_saved(self, events: JudgedEvents, saved: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (events,): worth over how many events go with each; ``saved`` as `_saved` has it."""
        found, values = np.empty(len(events)), attribute_rows(events, len(self.missing))
        densities(events.items, events.type, values, *self.known(saved), found)
        return found

    def known(self, saved: NDArray[np.float64]) -> tuple[Any, ...]:
        """As `shedding.kernels_worth` takes it."""
        return self.groups, self.order, self.missing, self.forest, saved


@dataclass(frozen=True, slots=True, eq=False)
class PrefixModel:
    """What `Prefix` learned.

    Attributes:
        manifest: where it comes from.
        shape: of the query's pattern.
        worth: of events.
        shares: of worth per event saved, among all events that can be some item.
        by_partition: whether equal worth is told apart by partitions first.
        dropped: float64 (thresholds,), share of events that are dropped at thresholds 0 to 4, measured.
        no_item: share of events that can be no item.
    """

    manifest: Manifest
    shape: Shape
    worth: Worth
    shares: UtilityShares
    by_partition: bool
    dropped: NDArray[np.float64]
    no_item: float = 0.0

    @property
    def pane(self) -> Pane:
        """What a batch must know of its predecessors: a window."""
        return Pane(events=self.shape.window) if self.shape.by_rank else Pane(time_ms=self.shape.window)

    def gate(self, drop_ratio: float) -> PrefixGate:
        """Drops this share of the events: by worth, and from `CHANCE_FROM` on, if nothing useless is left then, by chance."""
        if drop_ratio <= 0:
            return PrefixGate(self, 0.0)
        if drop_ratio >= 1:
            return PrefixGate(self, float(CLASSES))
        thresholds = np.linspace(0, CLASSES, len(self.dropped))
        by_worth = max(self.no_item + CHANCE_FROM * (1 - self.no_item), float(np.interp(_LEAST_USEFUL, thresholds, self.dropped)))
        threshold = float(np.interp(min(drop_ratio, by_worth), self.dropped, thresholds))
        if drop_ratio <= by_worth:
            return PrefixGate(self, threshold)
        return PrefixGate(self, max(threshold, _LEAST_USEFUL + CLASSES / _GRID), 1 - (1 - drop_ratio) / (1 - by_worth))

    def ranks(self, events: JudgedEvents, thinned: float = 0.0) -> NDArray[np.float64]:
        """Where events lie among all that can be some item, by worth per event saved.

        Args:
            events: whose items are known.
            thinned: share of them that chance takes, whatever they are worth.

        Returns:
            float64 (events,), in [0, 1), ties by lot, which partitions win or lose as a whole where there are many of them; 0 of those that chance takes; `shedding.kernels_worth.STAYS` of those
            that must stay.
        """
        ranks, known, shares = np.empty(len(events)), self.worth.known(_saved(self.shape.needs)), self.shares
        own = (events.identity, events.key, events.items, events.type, attribute_rows(events, len(self.worth.missing)))
        in_force = (self.manifest.seed, self.by_partition, thinned, events.staying)
        rank_events(*own, *known, shares.utility, shares.cumulative, *in_force, ranks)
        return ranks

    def arrays(self) -> Arrays:
        """For a file."""
        tree = {f"tree_{name}": getattr(self.worth.tree, name) for name in Trees.__slots__}
        shares = {name: getattr(self.shares, name) for name in UtilityShares.__slots__}
        worth = {"groups": self.worth.groups, "order": self.worth.order, "missing": self.worth.missing}
        return {**worth, **tree, **shares, "dropped": self.dropped}

    def parameters(self) -> Json:
        """For a file."""
        return {
            "needs": list(self.shape.needs),
            "negated": self.shape.negated,
            "window": self.shape.window,
            "by_rank": self.shape.by_rank,
            "ending": self.shape.ending,
            "by_partition": self.by_partition,
            "no_item": self.no_item,
        }


@dataclass(frozen=True, slots=True, eq=False)
class PrefixGate:
    """A threshold in force, from 0 (keep all) to 4 (keep none), and the share of events that goes by chance."""

    model: PrefixModel
    threshold: float
    thinned: float = 0.0

    def ranks(self, events: JudgedEvents) -> NDArray[np.float64]:
        """float64 (events,), see `PrefixModel.ranks`."""
        return self.model.ranks(events, self.thinned)

    def keep(self, candidates: JudgedEvents) -> Mask:
        """Keeps chains of sufficient worth."""
        if self.threshold <= 0 or not len(candidates):
            return np.ones(len(candidates), dtype=np.bool_)
        return _Chains.of(self, candidates).kept(self.model.shape, self.threshold)


@dataclass(frozen=True, slots=True)
class Prefix:
    """Settings.

    Attributes:
        depth: of the tree, at most.
        leaf_events: a leaf is learned from at least so many events.
    """

    depth: int = 8
    leaf_events: int = 50
    name: str = "prefix"
    level: Level = "events"

    def train(self, observations: EventObservations | None, training: Training) -> PrefixModel:
        """Learns what events are worth, and how much each threshold drops.

        Raises:
            ValueError: nothing was observed, or the pattern is no sequence with a window.
        """
        observed = present(observations)
        if observed.shape is None:
            raise ValueError("prefix knows patterns that are one sequence with a window")
        events, shape = observed.events, observed.shape
        worth = self._learned(events, observed.weight, training.seed)
        some = events.items != 0
        density = worth.per_saved(events, _saved(shape.needs))[some]
        shares = utility_shares(density if len(density) else np.zeros(1))
        known = manifest_of(observed, training, self.name)
        model = PrefixModel(known, shape, worth, shares, _many(events.key), np.zeros(2), 1 - float(some.mean()))
        chains = _Chains.of(PrefixGate(model, 0.0), events)
        dropped = [1.0 - float(chains.kept(shape, float(threshold)).mean()) for threshold in np.linspace(0, CLASSES, _GRID)]
        dropped[0], dropped[-1] = 0.0, 1.0
        return replace(model, dropped=np.maximum.accumulate(dropped))

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> PrefixModel:
        """The model that had these."""
        shape = Shape(tuple(parameters["needs"]), *(parameters[name] for name in ("negated", "window", "by_rank", "ending")))
        tree = Trees(**{name: arrays[f"tree_{name}"] for name in Trees.__slots__})
        worth = Worth(arrays["groups"], arrays["order"], arrays["missing"], tree)
        shares = UtilityShares(arrays["utility"], arrays["cumulative"])
        no_item = parameters.get("no_item", 0.0)  # of a model that an earlier version wrote: chance comes later
        return PrefixModel(manifest, shape, worth, shares, parameters["by_partition"], arrays["dropped"], no_item)

    def _learned(self, events: JudgedEvents, worth: NDArray[np.float64], seed: int) -> Worth:
        from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415 - a second, which models in use do not need

        group = np.empty(len(events), np.uint64)
        groups_of(events.items, events.type, group)
        groups, own, counts = np.unique(group, return_inverse=True, return_counts=True)
        order = np.argsort(np.argsort(np.bincount(own, weights=worth) / counts, kind="stable")).astype(np.int32)
        known = np.clip(np.where(np.isnan(events.values), np.inf, events.values), -LARGEST, LARGEST)
        missing = np.where((least := known.min(axis=1, initial=LARGEST)) == LARGEST, 0.0, least) - 1
        values = np.where(np.isnan(events.values), missing[:, None], known)
        table = np.column_stack([order[own], *values]).astype(np.float32)
        fitted = DecisionTreeRegressor(max_depth=self.depth, min_samples_leaf=self.leaf_events, random_state=seed % 2**32)
        return Worth(groups, order, missing, compiled([fitted.fit(table, worth)]))


def _many(key: NDArray[np.uint64]) -> bool:
    return len(np.unique(key)) >= _MANY_PARTITIONS


@lru_cache(maxsize=1024)
def _saved(needs: tuple[int, ...]) -> NDArray[np.float64]:
    """float64 (items + 1,), 1 or more: how many events of a match need not be kept when an event of that item goes: it, and those that would follow it; behind them, the length of a match."""
    depth = [0] * len(needs)
    for item, before in enumerate(needs):
        depth[item] = 0 if before < 0 else depth[before] + 1
    length = max(depth) + 1
    saved = np.array([*(length - one for one in depth), length], dtype=np.float64)
    saved.flags.writeable = False
    return saved


@dataclass(frozen=True, slots=True, eq=False)
class _Chains:
    """Events, and those before them, ready to be decided about at any threshold."""

    items: NDArray[np.uint64]
    key: NDArray[np.uint64]
    place: NDArray[np.int64]
    rank: NDArray[np.float64]
    earlier: int

    @staticmethod
    def of(gate: PrefixGate, events: JudgedEvents) -> _Chains:
        before = events.before if len(events.before.items) == len(events.before) else Predecessors()
        past = JudgedEvents(
            before.identity, before.time, before.type, before.values, items=before.items, key=before.key, staying=events.staying
        )
        items, time = np.concatenate([past.items, events.items]), np.concatenate([past.time, events.time])
        key = np.concatenate([past.key, events.key]) if len(events.key) else np.ones(len(items), np.uint64)
        place = np.arange(len(items), dtype=np.int64) if gate.model.shape.by_rank else time
        return _Chains(items, key, place, np.concatenate([gate.ranks(past), gate.ranks(events)]), len(past))

    def kept(self, shape: Shape, threshold: float) -> Mask:
        """Those before the events are decided again, and not told."""
        return ChainMemory(shape).keep(self.items, self.key, self.place, self.rank, threshold)[self.earlier :]
