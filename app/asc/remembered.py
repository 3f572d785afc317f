"""Sampled events of earlier searches in two memories: one that forgets whatever no longer looks like the newest sample, and one that forgets only what is old.

Where a stream really changes, who forgets nothing is late. Where it comes in bursts, every sample looks like a change, and who forgets learns from the last burst alone. Which of the two a stream is cannot be seen in the sample that a
sequence is found from, but in those that come after it: the sequences of both are judged by these (`app.asc.experts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.asc.cheapest import alike, cheapest_sequence, saving_arrows, spread
from app.asc.monitor import Sample
from app.asc.sequence import Sequence

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
    """

    forgets: Forgets
    most: int
    regions: NDArray[np.int32]
    sequence: Sequence

    @staticmethod
    def nothing(forgets: Forgets, most: int, sequence: Sequence) -> Remembered:
        """Before the first sample."""
        return Remembered(forgets, most, np.zeros((len(sequence.order), 0), np.int32), sequence)

    def learn(self, newest: Sample, *, arrows: bool) -> None:
        """Looks for another sequence with what a sample says.

        It stays the same where there is nothing left to learn: enough was seen, and the sample looks like that.
        """
        known = self.regions.shape[1]
        like = known > 0 and alike(newest, spread(Sample(newest.constructs, self.regions), COMPARED), self.sequence.order)
        if like and known >= self.most:
            return
        kept = self.regions if like or self.forgets == "old" else newest.regions[:, :0]
        sample = Sample(newest.constructs, np.concatenate([newest.regions, kept], axis=1))
        self.regions = np.ascontiguousarray(sample.regions[:, : self.most])
        order = cheapest_sequence(sample)
        self.sequence = Sequence(order, saving_arrows(sample, order) if arrows else {})
