"""Whose share a drop ratio is: of all events that a model sees, or of the candidates that selection lets through, as the application speaks of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedEvents, JudgedInWindows
from shedding.interface import Model

STEPS = 32

Asked = Callable[[float], float]
"""The share that must go → the drop ratio that a model is asked for."""


def as_asked(share: float) -> float:
    """The same: everything that a model sees can be dropped, and counts."""
    return share


def of_candidates(model: Model[Any], judged: JudgedEvents | JudgedInWindows, candidates: NDArray[np.int64]) -> Asked:
    """The ratio at which this share of the candidates goes, measured: a model drops what no item takes first, and that costs nothing behind selection.

    Args:
        model: of events, or of events in windows.
        judged: part of the stream that it learned from, or of one like it.
        candidates: int64, which of these some item takes.
    """
    if not len(candidates):
        return as_asked
    ratios = np.linspace(0.0, 1.0, STEPS + 1)
    dropped = [1.0 - float(model.gate(float(ratio)).keep(judged)[candidates].mean()) for ratio in ratios]
    shares = np.maximum.accumulate(dropped)
    return lambda share: float(np.interp(share, shares, ratios))
