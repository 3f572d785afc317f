"""Random event shedding: every event has the same chance to go. The lower reference for all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shedding import kernels
from shedding.candidates import JudgedEvents, Mask
from shedding.interface import Arrays, Json, Level, Manifest, Training

_RANGE = 1 << 53


@dataclass(frozen=True, slots=True)
class RandomGate:
    """Drops the events whose identity, mixed with the seed and read as a number in [0, 1), lies below the drop ratio.

    No generator, no state: the same events are dropped in a repeated batch, and by every query of the same seed and ratio, so that events which
    queries share really go.

    Example:
        >>> from shedding.identity import identities
        >>> events = JudgedEvents(identities(np.zeros(10_000, np.int64), np.arange(10_000)))
        >>> bool(abs(RandomGate(0, 0.3).keep(events).mean() - 0.7) < 0.02)
        True
    """

    seed: int
    drop_ratio: float

    def keep(self, candidates: JudgedEvents) -> Mask:
        """Keeps each event with probability 1 - ``drop_ratio``, by its identity."""
        kept = np.empty(len(candidates), dtype=np.bool_)
        kernels.at_least(candidates.identity, np.uint64(self.seed), np.uint64(round(self.drop_ratio * _RANGE)), kept)
        return kept


@dataclass(frozen=True, slots=True)
class RandomModel:
    """Nothing but the seed."""

    manifest: Manifest

    def gate(self, drop_ratio: float) -> RandomGate:
        """Random choice at this ratio."""
        return RandomGate(self.manifest.seed, drop_ratio)

    def arrays(self) -> Arrays:
        """None."""
        return {}

    def parameters(self) -> Json:
        """None."""
        return {}


@dataclass(frozen=True, slots=True)
class RandomShedding:
    """Needs no training: whoever has a seed has a model."""

    name = "random"
    level: Level = "events"

    def train(self, observations: Any, training: Training) -> RandomModel:
        """Learns nothing."""
        return RandomModel(training.manifest(self.name))

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> RandomModel:
        """A model is its seed."""
        return RandomModel(manifest)
