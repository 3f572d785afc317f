"""Drops nothing, whatever is asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shedding.interface import Contributions, JudgedEvents, Mask


@dataclass(frozen=True, slots=True)
class NoShedder:
    """The default: every query sheds nothing until it says otherwise.

    Attributes:
        seed: unused, as nothing is left to chance; every shedder takes one.
    """

    seed: int = 0

    @property
    def trained(self) -> bool:
        """There is nothing to learn."""
        return True

    def mask(self, events: JudgedEvents, drop_ratio: float) -> Mask:
        """Keeps all events."""
        return np.zeros(len(events), dtype=np.bool_)

    def learn(self, events: JudgedEvents, contributions: Contributions) -> NoShedder:
        """Stays as it is."""
        return self
