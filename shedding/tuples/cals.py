"""Coalescence-aware load shedding (CALS), its two halves, and random choice: which tuples of temporal queries to drop.

Tuples are kept in bounded memory as they arrive (`TupleModel.reservoir`), or a share of what memory holds is dropped at once (`TupleGate`).
Nothing is learned: the score of a tuple depends on what is in memory now.

**Source:** Al-Kateb and Lee, Load shedding in temporal queries over data streams, JCSE 5(4) 2011: CALS (delta+ and rho-), CALS-V (delta+ alone: value
similarity), CALS-I (rho- alone: interval similarity), RAND.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedTuples, Mask
from shedding.identity import shuffled
from shedding.interface import Arrays, Json, Level, Manifest, Training
from shedding.tuples.reservoir import Bounds, Reservoir, Score


@dataclass(frozen=True, slots=True)
class TupleGate:
    """Drops a share of the tuples at hand: the one that costs least, then of the others the one that costs least then, and so on.

    So what is dropped at a ratio is dropped at every higher one.
    """

    score: Score
    seed: int
    drop_ratio: float

    def keep(self, candidates: JudgedTuples) -> Mask:
        """Which tuples stay; how many go is rounded to the nearest whole number."""
        kept = np.ones(len(candidates), dtype=np.bool_)
        count = round(self.drop_ratio * len(candidates))
        if count:
            reservoir = Reservoir.holding(candidates, shuffled(candidates.identity, self.seed), self.score)
            kept[reservoir.drop(count)] = False
        return kept


@dataclass(frozen=True, slots=True)
class TupleModel:
    """A score and a seed."""

    manifest: Manifest
    score: Score

    def gate(self, drop_ratio: float) -> TupleGate:
        """A gate for what memory holds."""
        return TupleGate(self.score, self.manifest.seed, drop_ratio)

    def reservoir(self, bounds: Bounds) -> Reservoir:
        """Empty memory for one key."""
        return Reservoir(self.score, bounds)

    def ties(self, identity: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """What the reservoir must be told of tuples' identities."""
        return shuffled(identity, self.manifest.seed)

    def arrays(self) -> Arrays:
        """None."""
        return {}

    def parameters(self) -> Json:
        """The score's weights."""
        return {"value_weight": self.score.value_weight, "interval_weight": self.score.interval_weight}


@dataclass(frozen=True, slots=True)
class TupleShedding:
    """The algorithm with one of its scores.

    Attributes:
        name: as queries write it.
        score: what a tuple's loss costs.
    """

    name: str
    score: Score
    level: Level = "tuples"

    def train(self, observations: Any, training: Training) -> TupleModel:
        """Learns nothing."""
        return TupleModel(training.manifest(self.name), self.score)

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> TupleModel:
        """The same score."""
        return TupleModel(manifest, Score(**parameters))


CALS = partial(TupleShedding, "cals", Score(1, 1))
CALS_V = partial(TupleShedding, "cals-v", Score(1, 0))
CALS_I = partial(TupleShedding, "cals-i", Score(0, 1))
RAND = partial(TupleShedding, "rand", Score(0, 0))
