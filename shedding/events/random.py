"""Random event shedding: every event has the same chance to go. The lower reference for all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shedding import kernels
from shedding.interface import Contributions, JudgedEvents, Mask

_RANGE = 1 << 53


@dataclass(frozen=True, slots=True)
class RandomShedder:
    """Drops the events whose identity, mixed with the seed and read as a number in [0, 1), lies below the drop ratio.

    No generator, no state: the same events are dropped in a repeated batch, and by every query of the same seed and ratio, so that events which
    queries share really go.

    Attributes:
        seed: another one makes other choices; not negative.

    Example:
        >>> from shedding.identity import identities
        >>> events = JudgedEvents(identities(np.zeros(10_000, np.int64), np.arange(10_000)))
        >>> bool(abs(RandomShedder().mask(events, 0.3).mean() - 0.3) < 0.02)
        True
    """

    seed: int = 0

    @property
    def trained(self) -> bool:
        """There is nothing to learn."""
        return True

    def mask(self, events: JudgedEvents, drop_ratio: float) -> Mask:
        """Drops each event with probability ``drop_ratio``, by its identity."""
        dropped = np.empty(len(events), dtype=np.bool_)
        kernels.below(events.identity, np.uint64(self.seed), np.uint64(round(drop_ratio * _RANGE)), dropped)
        return dropped

    def learn(self, events: JudgedEvents, contributions: Contributions) -> RandomShedder:
        """Stays as it is."""
        return self
