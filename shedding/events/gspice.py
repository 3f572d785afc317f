"""gSPICE with hash tables (gSPICE-H): the utility of an event by its type, its attributes and what stands in its predecessor pane."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shedding import kernels_tables
from shedding.candidates import JudgedEvents
from shedding.events.features import Features, learned_features, restored_features
from shedding.events.judging import UtilityGate, manifest_of, present, shares_of_types, split, worth
from shedding.interface import Arrays, Json, Level, Manifest, Training
from shedding.observations import EventObservations
from shedding.panes import Pane
from shedding.threshold import Ties, UtilityShares, utility_shares

PANE = Pane(events=10)
_WORTHWHILE = 0.01
"""Of the events at run time: when fewer than these find their whole key, the table is a cache miss and megabytes for nothing (500 stock symbols, panes of 50:
1 million keys, none ever seen again)."""
_ARRAYS = ("whole", "coarse", "type_utilities")


@dataclass(frozen=True, slots=True, eq=False)
class UtilityTable:
    """Utilities by key; see `shedding.events.features` for the keys.

    Attributes:
        whole: uint64 (slots, 2), keys of type, attributes and pane, 0 where there is none, and the bits of their utilities as float64; a power of
            two slots, at most half full.
        coarse: uint64 (slots, 2), the same of type and attributes.
        type_utilities: float64 (types,), mean of each type.
        unknown: mean of all events, for types that were not learned.
    """

    whole: NDArray[np.uint64]
    coarse: NDArray[np.uint64]
    type_utilities: NDArray[np.float64]
    unknown: float

    def look_up(self, types: NDArray[np.int32], keys: NDArray[np.uint64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Utilities, and how many came from the whole key, from type and attributes, from the type, from nothing: int64 (4,)."""
        utilities, found = np.empty(len(types)), np.zeros(4, dtype=np.int64)
        whole, coarse = ((table, table.view(np.float64)[:, 1]) for table in (self.whole, self.coarse))
        kernels_tables.look_up(types, keys, *whole, *coarse, self.type_utilities, self.unknown, utilities, found)
        return utilities, found


@dataclass(frozen=True, slots=True, eq=False)
class GspiceModel:
    """What `Gspice` learned.

    Attributes:
        manifest: where it comes from.
        features: keys of events.
        table: utilities by key.
        shares: of utilities as they are given at run time, for the threshold.
        ties: see `shedding.threshold`.
        unseen: share of events at run time whose whole key was not learned; long panes and attributes with many values make it large.
        type_shares: float64 (types,), share of each type in training.
    """

    manifest: Manifest
    features: Features
    table: UtilityTable
    shares: UtilityShares
    ties: Ties
    unseen: float
    type_shares: NDArray[np.float64]

    @property
    def pane(self) -> Pane:
        """What a batch must know of its predecessors; see `shedding.panes.carried`."""
        return self.features.pane

    def utilities(self, events: JudgedEvents) -> NDArray[np.float64]:
        """Utility of each event, float64 (events,)."""
        return self.table.look_up(events.type, self.features.keys(events))[0]

    def gate(self, drop_ratio: float) -> UtilityGate:
        """Drops this share of events, those of least utility."""
        return UtilityGate(self, self.shares.cut(drop_ratio, seed=self.manifest.seed, ties=self.ties))

    def arrays(self) -> Arrays:
        """For a file."""
        table = {name: getattr(self.table, name) for name in _ARRAYS}
        shares = {"utility": self.shares.utility, "cumulative": self.shares.cumulative, "type_shares": self.type_shares}
        return {**self.features.arrays(), **table, **shares}

    def parameters(self) -> Json:
        """For a file."""
        return {**self.features.parameters(), "unknown": self.table.unknown, "ties": self.ties, "unseen": self.unseen}


@dataclass(frozen=True, slots=True)
class Gspice:
    """Settings of gSPICE-H.

    Attributes:
        pane: length of the predecessor pane; the paper takes 10 events, 50 for stocks, 200 for soccer.
        frequency_bin: so many neighbouring frequencies are one.
        value_bins: width of the ranges of each attribute, 1 where not given.
        abandoned_credit: worth of an abandoned partial match beside a composite event of its query.
        holdout: share of the observations, the last ones, on which the thresholds are measured.
        least: keys that were observed less often count as unseen: one or two events say little. The paper keeps all, 1.
        ties: see `shedding.threshold`.

    Source: gSPICE (2023), III. Where the paper is silent: unseen keys back off from (type, pane, attributes) to (type, attributes) to
    (type); thresholds are measured on held out events, so that the share of dropped events is the one asked for. One table for all types instead of one for each: the type
    is part of the key.
    """

    pane: Pane = PANE
    frequency_bin: int = 1
    value_bins: tuple[float, ...] = ()
    abandoned_credit: float = 1.0
    holdout: float = 0.2
    least: int = 5
    ties: Ties = "split"

    name = "gspice"
    level: Level = "events"

    def train(self, observations: EventObservations | None, training: Training) -> GspiceModel:
        """Learns utilities from the earlier observations, thresholds from the later ones.

        Raises:
            ValueError: there are no observations.
        """
        seen = present(observations)
        earlier, later = split(seen, self.pane, self.holdout)
        features = learned_features(earlier.events, self.pane, self.frequency_bin, self.value_bins, training.seed)
        table = learned_table(earlier.events, worth(earlier, self.abandoned_credit), features, self.least)
        keys = features.keys(later.events)
        utilities, found = table.look_up(later.events.type, keys)
        if found[0] < _WORTHWHILE * found.sum():
            table = replace(table, whole=_entered(keys[0, :0], utilities[:0], 1))
            utilities, found = table.look_up(later.events.type, keys)
        manifest = manifest_of(seen, training, self.name)
        unseen = 1 - int(found[0]) / max(1, int(found.sum()))
        return GspiceModel(manifest, features, table, utility_shares(utilities), self.ties, unseen, shares_of_types(seen.events))

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> GspiceModel:
        """The model of a file."""
        table = UtilityTable(arrays["whole"], arrays["coarse"], arrays["type_utilities"], parameters["unknown"])
        shares = UtilityShares(arrays["utility"], arrays["cumulative"])
        features = restored_features(parameters, arrays)
        return GspiceModel(manifest, features, table, shares, parameters["ties"], parameters["unseen"], arrays["type_shares"])


def learned_table(events: JudgedEvents, gains: NDArray[np.float64], features: Features, least: int = 1) -> UtilityTable:
    """Mean worth of events by key, and of those that agree in type and attributes, and by type.

    Args:
        events: events to learn from.
        gains: float64 (events,), see `shedding.events.judging.worth`.
        features: of these events.
        least: keys with fewer events are left out.

    Example 2 of the paper: the panes of three B hold two A and one B; two of them became part of a composite event.

    >>> types = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int32)
    >>> events = JudgedEvents(np.zeros(8, np.uint64), np.arange(8), types)
    >>> features = learned_features(events, Pane(events=3))
    >>> table = learned_table(events, np.array([0, 0, 0, 1, 0, 0, 1, 0.0]), features)
    >>> table.look_up(types, features.keys(events))[0][[3, 6, 7]].round(4).tolist()
    [0.6667, 0.6667, 0.6667]
    """
    known = events.type >= 0
    keys = features.keys(events)[:, known]
    types, gains = events.type[known], gains[known]
    overall = float(gains.mean()) if len(gains) else 0.0
    counts = np.bincount(types, minlength=features.types)
    sums = np.bincount(types, gains, minlength=features.types)
    by_type = np.where(counts > 0, sums / np.maximum(counts, 1), overall)
    by_type.flags.writeable = False
    return UtilityTable(_entered(keys[0], gains, least), _entered(keys[1], gains, least), by_type, overall)


def _entered(keys: NDArray[np.uint64], gains: NDArray[np.float64], least: int) -> NDArray[np.uint64]:
    """A table of the mean gain of each key."""
    distinct, number = np.unique(keys, return_inverse=True)
    counts = np.bincount(number, minlength=len(distinct))
    often = counts >= least
    means = np.bincount(number, gains, minlength=len(distinct))[often] / counts[often]
    table = np.zeros((max(8, 1 << (2 * len(means)).bit_length()), 2), dtype=np.uint64)
    kernels_tables.fill(distinct[often], means.view(np.uint64), table)
    table.flags.writeable = False
    return table
