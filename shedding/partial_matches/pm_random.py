"""Random choice among partial matches (PM-BL of the pSPICE paper): every partial match has the same chance to go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shedding.events.random import RandomModel
from shedding.interface import Arrays, Json, Level, Manifest, Training


@dataclass(frozen=True, slots=True)
class PmRandom:
    """Needs no training. The gate is that of random event shedding: an independent trial for each, by a hash of its identity.

    Source: pSPICE (IEEE BigData 2019), IV-A; specification 2.6.
    """

    name = "pm-random"
    level: Level = "partial matches"

    def train(self, observations: Any, training: Training) -> RandomModel:
        """Learns nothing."""
        return RandomModel(training.manifest(self.name))

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> RandomModel:
        """A model is its seed."""
        return RandomModel(manifest)
