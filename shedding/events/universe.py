"""Universe sampling: partitions are kept whole or not at all, for a while.

A match of n events of one partition needs all of them. Who drops every event with the same chance p leaves (1 - p)**n of the matches; who drops whole partitions leaves 1 - p of them, and as
everything that could forbid a match goes or stays with it, what is left is true. Partitions take turns (`shedding.turns`).

Source: the universe sampler of Quickr (Kandula et al., SIGMOD 2016, section 4.1), which samples the key of a join instead of rows, so that joins of samples are samples of joins. Periods are
ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shedding import kernels
from shedding.candidates import JudgedEvents, Mask
from shedding.interface import Arrays, Json, Level, Manifest, Training
from shedding.turns import turns

_RANGE = 1 << 53


@dataclass(frozen=True, slots=True)
class UniverseGate:
    """Drops the partitions whose hash, mixed with period and seed and read as a number in [0, 1), lies below the drop ratio.

    Example:
        >>> events = JudgedEvents(np.arange(6, dtype=np.uint64), np.zeros(6, np.int64), key=np.array([7, 7, 7, 8, 8, 8], np.uint64))
        >>> len(set(UniverseGate(0, 0.5).keep(events)[:3].tolist()))
        1
    """

    seed: int
    drop_ratio: float

    def keep(self, candidates: JudgedEvents) -> Mask:
        """Keeps whole partitions, and what belongs to all of them; single events where none are known."""
        chosen = turns(candidates) if len(candidates.key) else candidates.identity
        kept = np.empty(len(candidates), dtype=np.bool_)
        kernels.at_least(chosen, np.uint64(self.seed), np.uint64(round(self.drop_ratio * _RANGE)), kept)
        return kept | (candidates.key == 0) if len(candidates.key) else kept


@dataclass(frozen=True, slots=True)
class UniverseModel:
    """Nothing but the seed."""

    manifest: Manifest

    def gate(self, drop_ratio: float) -> UniverseGate:
        """Choice of partitions at this ratio."""
        return UniverseGate(self.manifest.seed, drop_ratio)

    def arrays(self) -> Arrays:
        """None."""
        return {}

    def parameters(self) -> Json:
        """None."""
        return {}


@dataclass(frozen=True, slots=True)
class Universe:
    """Needs no training: whoever has a seed has a model."""

    name = "universe"
    level: Level = "events"

    def train(self, observations: Any, training: Training) -> UniverseModel:
        """Learns nothing."""
        return UniverseModel(training.manifest(self.name))

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> UniverseModel:
        """A model is its seed."""
        return UniverseModel(manifest)
