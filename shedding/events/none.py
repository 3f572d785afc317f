"""Drops nothing, whatever is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shedding.candidates import JudgedEvents, Mask
from shedding.interface import Arrays, Json, Level, Manifest, Training


@dataclass(frozen=True, slots=True)
class KeepAll:
    """Gate and model in one: there is nothing to know."""

    manifest: Manifest

    def gate(self, drop_ratio: float) -> KeepAll:
        """The same at every ratio."""
        return self

    def keep(self, candidates: JudgedEvents) -> Mask:
        """All."""
        return np.ones(len(candidates), dtype=np.bool_)

    def arrays(self) -> Arrays:
        """None."""
        return {}

    def parameters(self) -> Json:
        """None."""
        return {}


@dataclass(frozen=True, slots=True)
class NoShedding:
    """The default: every query sheds nothing until it says otherwise."""

    name = "none"
    level: Level = "events"

    def train(self, observations: Any, training: Training) -> KeepAll:
        """Learns nothing."""
        return KeepAll(training.manifest(self.name))

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> KeepAll:
        """A model has no content."""
        return KeepAll(manifest)
