"""How good a shedded answer is, against the answer without shedding.

**Source:** gSPICE section V: false negatives and false positives in percent of the composite events of the ground truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.evaluation.operator import Outcome


@dataclass(frozen=True, slots=True)
class Quality:
    """Counts of composite events.

    Attributes:
        true: those of the query without shedding.
        found: those with shedding.
        both: those in both.
    """

    true: int
    found: int
    both: int

    @staticmethod
    def of(truth: Outcome, shed: Outcome) -> Quality:
        """Compares two answers by identity."""
        return Quality(len(truth), len(shed), int(np.isin(shed.identity, truth.identity).sum()))

    @property
    def recall(self) -> float:
        """Share of the true composite events that were found; 1 where there are none."""
        return self.both / self.true if self.true else 1.0

    @property
    def precision(self) -> float:
        """Share of the found composite events that are true; 1 where there are none."""
        return self.both / self.found if self.found else 1.0

    @property
    def false_negatives(self) -> float:
        """Lost composite events, as a share of the true ones."""
        return 1.0 - self.recall

    @property
    def harm(self) -> float:
        """Lost and wrong composite events, as a share of the true ones."""
        return self.false_negatives + self.false_positives

    @property
    def false_positives(self) -> float:
        """Composite events that would not exist without shedding, as a share of the true ones; 0 where there are none of either."""
        wrong = self.found - self.both
        return wrong / self.true if self.true else float(wrong > 0)
