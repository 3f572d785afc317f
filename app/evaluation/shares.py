"""Whose share a drop ratio is: of all events that a model sees, or of the candidates that selection lets through, as the application speaks of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedEvents, JudgedInWindows
from shedding.interface import Model

STEPS = 32
FINEST, NARROWEST = 0.02, 1e-4
"""Where the share grows faster it is measured at more ratios: many candidates of one utility go at once."""

Asked = Callable[[float], float]
"""The share that must go → the drop ratio that a model is asked for."""


def as_asked(share: float) -> float:
    """The same: everything that a model sees can be dropped, and counts."""
    return share


def of_candidates(model: Model[Any], judged: JudgedEvents | JudgedInWindows, candidates: NDArray[np.int64]) -> Asked:
    """The ratio at which this share of the candidates goes, measured: a model drops what no item takes first, and that costs nothing behind selection.

    Args:
        model: of events, or of events in windows.
        judged: the stream that is shed, or one like it; what becomes of its events is not asked.
        candidates: int64, which of these some item takes.

    >>> class Half:
    ...     def gate(self, ratio):  # drops the useless first half of ten events first
    ...         return type("Gate", (), {"keep": lambda _, events: np.arange(len(events)) >= ratio * len(events)})()
    >>> asked = of_candidates(Half(), JudgedEvents(np.arange(10, dtype=np.uint64)), np.arange(5, 10))
    >>> round(asked(0.4), 2)
    0.7
    """
    if not len(candidates):
        return as_asked

    def dropped(ratio: float) -> float:
        return 1.0 - float(model.gate(ratio).keep(judged)[candidates].mean())

    ratios, shares = measured_shares(dropped)
    return lambda share: float(np.interp(share, shares, ratios))


def measured_shares(dropped: Callable[[float], float]) -> tuple[list[float], list[float]]:
    """Drop ratios from 0 to 1, and which share of the candidates goes at each, never falling: in even steps, and at more ratios where many candidates go at once.

    Args:
        dropped: drop ratio → that share.

    >>> ratios, shares = measured_shares(lambda ratio: max(0.0, ratio - 0.99) * 100)  # 99 of 100 events are of no use
    >>> len(ratios) < 130, round(float(np.interp(0.5, shares, ratios)), 3)
    (True, 0.995)
    """
    known = {float(ratio): dropped(float(ratio)) for ratio in np.linspace(0.0, 1.0, STEPS + 1)}
    waiting = list(pairwise(sorted(known)))
    while waiting:
        low, high = waiting.pop()
        if known[high] - known[low] > FINEST and high - low > NARROWEST:
            middle = (low + high) / 2
            known[middle] = dropped(middle)
            waiting += [(low, middle), (middle, high)]
    ratios = sorted(known)
    return ratios, np.maximum.accumulate([known[ratio] for ratio in ratios]).tolist()
