"""Random choice among partial matches (PM-BL of the pSPICE paper): every partial match has the same chance to go, whenever some must."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shedding import kernels
from shedding.candidates import JudgedMatches, Mask
from shedding.identity import shuffled
from shedding.interface import Arrays, Json, Level, Manifest, Training

_RANGE = 1 << 53


@dataclass(frozen=True, slots=True)
class PmRandomGate:
    """An independent trial for each partial match, by a hash of its identity and of what is left of its window.

    Not of the identity alone: the same partial matches are judged again and again, and those that got through once would get through for ever, so that
    far fewer would be dropped in the long run than asked.
    """

    seed: int
    drop_ratio: float

    def keep(self, candidates: JudgedMatches) -> Mask:
        """Keeps each with probability 1 - ``drop_ratio``."""
        kept, drawn = np.empty(len(candidates), dtype=np.bool_), candidates.identity
        if len(candidates.remaining):
            drawn = shuffled(drawn, 0) ^ candidates.remaining.astype(np.float64).view(np.uint64)
        kernels.at_least(drawn, np.uint64(self.seed), np.uint64(round(self.drop_ratio * _RANGE)), kept)
        return kept


@dataclass(frozen=True, slots=True)
class PmRandomModel:
    """Nothing but the seed."""

    manifest: Manifest

    def gate(self, drop_ratio: float) -> PmRandomGate:
        """Random choice at this ratio."""
        return PmRandomGate(self.manifest.seed, drop_ratio)

    def arrays(self) -> Arrays:
        """None."""
        return {}

    def parameters(self) -> Json:
        """None."""
        return {}


@dataclass(frozen=True, slots=True)
class PmRandom:
    """Needs no training.

    Source: pSPICE (IEEE BigData 2019), IV-A.
    """

    name = "pm-random"
    level: Level = "partial matches"

    def train(self, observations: Any, training: Training) -> PmRandomModel:
        """Learns nothing."""
        return PmRandomModel(training.manifest(self.name))

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> PmRandomModel:
        """A model is its seed."""
        return PmRandomModel(manifest)
