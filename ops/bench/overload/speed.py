"""How fast the processor is while a run goes on. A machine that shares its cores with others gives more in one second than in the next; a ratio that keeps a bound follows it."""

from __future__ import annotations

import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Self

import numpy as np
from numpy.typing import NDArray

EVERY_S = 0.1
PIECE = 12_000
"""Turns of a loop, about a millisecond: one part in a hundred of a core."""


class SpeedProbe:
    """A process that does the same piece of work again and again, and notes the processor time that it takes: waiting for a core is no part of it."""

    def __init__(self) -> None:
        self._reader, writer = get_context("spawn").Pipe()
        self._process = get_context("spawn").Process(target=_probe, args=(writer,), daemon=True)
        self.speeds: NDArray[np.float64] = np.zeros((0, 2))
        """float64 (pieces, 2), once it is over: the clock in ms, and turns per ns of processor time."""

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.send(None)
        self.speeds = self._reader.recv()
        self._process.join()


def _probe(told: Connection) -> None:
    noted = []
    while not noted or not told.poll(EVERY_S):
        began, at_ms = time.thread_time_ns(), time.time() * 1000
        _piece()
        noted.append((at_ms, PIECE / (time.thread_time_ns() - began)))
    told.send(np.array(noted))


def _piece() -> int:
    found = 0
    for number in range(PIECE):
        found += number * number % 7
    return found


def deviation(speeds: NDArray[np.float64], begins_ms: NDArray[np.float64]) -> float | None:
    """How much the speed differs from one batch to the next: standard deviation of the batches' means, as a share of their mean.

    Args:
        speeds: as `SpeedProbe.speeds`.
        begins_ms: float64 (batches + 1,), when batches began, in order, and when the last one ended.

    Returns:
        None where fewer than two batches were long enough to be looked at.

    >>> at = np.arange(0.0, 1000.0, 100.0)
    >>> speeds = np.stack([at, np.where(at < 500, 1.0, 3.0)], axis=1)
    >>> deviation(speeds, np.array([0.0, 500.0, 1000.0])), deviation(speeds, np.array([0.0, 500.0]))
    (0.5, None)
    """
    batch = np.searchsorted(begins_ms, speeds[:, 0], side="right") - 1
    inside = (batch >= 0) & (batch < len(begins_ms) - 1)
    sums, pieces = (np.bincount(batch[inside], weights, minlength=len(begins_ms) - 1) for weights in (speeds[inside, 1], None))
    means = sums[pieces > 0] / pieces[pieces > 0]
    return float(means.std() / means.mean()) if len(means) > 1 else None
