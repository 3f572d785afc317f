"""Evaluation sequences of two memories: one that forgets whatever no longer looks like the newest sample, and one that forgets only what is old. The next samples judge between them.

Where a stream really changes, who forgets nothing is late. Where it comes in bursts, every sample looks like a change, and who forgets learns from the last burst alone. Which of the two a stream is cannot be seen in the sample that a
sequence is found from, but in those that come after it: each sequence is judged by events that it was not found from, and the one that cost less lately is in force (prequential evaluation; Dawid, JRSS A 147, 1984).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.asc.cheapest import alike, cheapest_sequence, saving_arrows, spread
from app.asc.constructs import Constructs
from app.asc.evaluate import evaluate_regions
from app.asc.monitor import Sample
from app.asc.sequence import Sequence

NEWEST = 0.2
"""Weight of the newest sample in what a sequence is said to cost."""
COMPARED = 8_192
"""Of the remembered events, evenly spread, that a new sample is held against."""
Forgets = Literal["unlike", "old"]


@dataclass(slots=True)
class Remembered:
    """Sampled events, and the sequence that was found from them.

    Attributes:
        forgets: what goes: all earlier samples, when the newest is unlike them; or only the oldest, when there are more than ``most``.
        most: events that are remembered.
        regions: int32 (constructs, events), the newest first.
        cost: constructs per event on samples that came after the one it was found from; None before there was any.
    """

    forgets: Forgets
    most: int
    regions: NDArray[np.int32]
    sequence: Sequence
    cost: float | None = None

    @staticmethod
    def nothing(forgets: Forgets, most: int, sequence: Sequence) -> Remembered:
        """Before the first sample."""
        return Remembered(forgets, most, np.zeros((len(sequence.order), 0), np.int32), sequence)

    def learn(self, newest: Sample, *, arrows: bool) -> None:
        """Judges the sequence by a sample that is new to it, and looks for another one with what that says.

        It stays the same where there is nothing left to learn: enough was seen, and the sample looks like that.
        """
        known = self.regions.shape[1]
        like = known > 0 and alike(newest, spread(Sample(newest.constructs, self.regions), COMPARED), self.sequence.order)
        if known:
            now = _cost(newest.constructs, newest.regions, self.sequence)
            self.cost = now if self.cost is None else self.cost + NEWEST * (now - self.cost)
        if like and known >= self.most:
            return
        kept = self.regions if like or self.forgets == "old" else newest.regions[:, :0]
        sample = Sample(newest.constructs, np.concatenate([newest.regions, kept], axis=1))
        self.regions = np.ascontiguousarray(sample.regions[:, : self.most])
        order = cheapest_sequence(sample)
        self.sequence = Sequence(order, saving_arrows(sample, order) if arrows else {})


def _cost(constructs: Constructs, regions: NDArray[np.int32], sequence: Sequence) -> float:
    return evaluate_regions(constructs, regions, sequence).evaluated / regions.shape[1]
