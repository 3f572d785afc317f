"""What the decisions of a model cost on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from time import process_time_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shedding.interface import Arrays, Gate, Json, Manifest, Model, Priced


class TimedModel:
    """A model that notes how long its gates' decisions take.

    Attributes:
        spent_ns: processor time in all.
        decided: candidates in all.
    """

    def __init__(self, model: Model[Any]) -> None:
        self._model = model
        self.spent_ns = self.decided = 0

    @property
    def manifest(self) -> Manifest:
        """The model's."""
        return self._model.manifest

    @property
    def decision_ns(self) -> float:
        """Processor time per decision; 0 where nothing was decided."""
        return self.spent_ns / self.decided if self.decided else 0.0

    def arrays(self) -> Arrays:
        """The model's."""
        return self._model.arrays()

    def parameters(self) -> Json:
        """The model's."""
        return self._model.parameters()

    def gate(self, drop_ratio: float) -> TimedGate:
        """The model's gate, timed."""
        return TimedGate(self, self._model.gate(drop_ratio))

    def priced(self, drop_ratio: float) -> TimedGate:
        """The same of a model with prices.

        Raises:
            TypeError: it has none.
        """
        if not isinstance(self._model, Priced):
            raise TypeError("a model without prices")
        return TimedGate(self, self._model.priced(drop_ratio))


@dataclass(frozen=True, slots=True)
class TimedGate:
    """A gate that tells its model what its decisions take."""

    owner: TimedModel
    gate: Gate[Any]

    def keep(self, candidates: Any) -> NDArray[np.bool_]:
        """The gate's answer."""
        started = process_time_ns()
        kept = self.gate.keep(candidates)
        self.owner.spent_ns += process_time_ns() - started
        self.owner.decided += len(candidates)
        return kept
