"""Universe sampling: partitions are kept whole or not at all, for a while.

A match of n events of one partition needs all of them. Who drops every event with the same chance p leaves (1 - p)**n of the matches; who drops whole partitions leaves 1 - p of them, and as
everything that could forbid a match goes or stays with it, what is left is true. A partition is out for a *period* that is long against the window, so that few matches
reach over its end, and then another one is; the ends of periods are spread over partitions.

Source: the universe sampler of Quickr (Kandula et al., SIGMOD 2016, section 4.1), which samples the key of a join instead of rows, so that joins of samples are samples of joins. Periods are
ours: a query over a stream never ends, and no partition should be blind for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shedding import kernels
from shedding.candidates import JudgedEvents, Mask
from shedding.identity import identities
from shedding.interface import Arrays, Json, Level, Manifest, Training

_RANGE = 1 << 53
WINDOWS = 8
"""In a period, at least; twice as many at most."""


def period_for(window_ms: int) -> int:
    """How long a partition is in or out, ms: a power of two, so that queries whose windows are much alike drop the same events.

    >>> period_for(12_000)
    131072
    """
    return 1 << (WINDOWS * window_ms - 1).bit_length()


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
        chosen = candidates.identity
        if len(candidates.key):
            chosen = identities(candidates.key.view(np.int64), _periods(candidates))
        kept = np.empty(len(candidates), dtype=np.bool_)
        kernels.at_least(chosen, np.uint64(self.seed), np.uint64(round(self.drop_ratio * _RANGE)), kept)
        return kept | (candidates.key == 0) if len(candidates.key) else kept


def _periods(events: JudgedEvents) -> Any:
    """int64 (events,): the number of the period that each lies in."""
    if not events.period_ms:
        return np.zeros(len(events), dtype=np.int64)
    ahead = (events.key % np.uint64(events.period_ms)).astype(np.int64)
    return (events.time + ahead) // events.period_ms


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
