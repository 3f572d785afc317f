"""What a model decides about all candidates of a recording, at any drop ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.evaluation.shares import Asked
from app.evaluation.timing import TimedModel
from app.evaluation.windows import EventWindows


@dataclass(frozen=True, slots=True, eq=False)
class Asking:
    """What a model is asked about, at which of its drop ratios, and which of it arrives at the operator."""

    candidates: Any
    ratio: Asked
    arriving: NDArray[np.int64] | slice


class Decisions:
    """Masks of a model by drop ratio; all candidates are decided about at once."""

    def __init__(self, model: TimedModel, asking: Asking, protected: NDArray[np.bool_]) -> None:
        self._model, self._asking, self._protected = model, asking, protected
        self._masks: dict[float, NDArray[np.bool_]] = {}

    def of(self, ratio: float) -> NDArray[np.bool_]:
        """Bool (candidates that arrive,): what is left at this drop ratio."""
        if ratio not in self._masks:
            kept = self._model.gate(self._asking.ratio(ratio)).keep(self._asking.candidates)
            self._masks[ratio] = kept[self._asking.arriving] | self._protected
        return self._masks[ratio]


class KeptEvents(Decisions):
    """Which events pass."""

    def per_event(self, _events: int) -> float:
        """Decisions for an event."""
        return 1.0

    def __call__(self, ratio: float, start: int, stop: int) -> NDArray[np.float64]:
        """See `app.evaluation.virtual_time.Keep`."""
        return self.of(ratio)[start:stop].astype(np.float64)


class KeptPairs(Decisions):
    """Collects which pairs pass; an event costs the share of its windows that it stays in."""

    def __init__(self, model: TimedModel, windows: EventWindows, asking: Asking, protected: NDArray[np.bool_]) -> None:
        super().__init__(model, asking, protected)
        self._windows = windows
        self.kept = np.ones(len(windows), dtype=np.bool_)

    def per_event(self, events: int) -> float:
        """Decisions for an event, on average."""
        return len(self.kept) / max(1, events)

    def __call__(self, ratio: float, start: int, stop: int) -> NDArray[np.float64]:
        """See `app.evaluation.virtual_time.Keep`."""
        own = self._windows.between(start, stop)
        self.kept[own] = self.of(ratio)[own]
        event = self._windows.event[own] - start
        pairs = np.bincount(event, minlength=stop - start)
        return np.bincount(event, weights=self.kept[own], minlength=stop - start) / np.maximum(pairs, 1)
