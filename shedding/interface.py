"""What every event shedder must be able to do. Axis names: ``events``, ``attributes``, ``words`` (64 items each)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def _no_times() -> NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


def _no_types() -> NDArray[np.int32]:
    return np.empty(0, dtype=np.int32)


def _no_values() -> NDArray[np.float64]:
    return np.empty((0, 0), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedEvents:
    """The events of a batch as shedders see them. Arrays are read, never written; what a shedder does not need may be empty.

    Attributes:
        identity: uint64 (events,), see `shedding.identity`: equal for the same event in every batch, run and replay.
        time: int64 (events,), ms.
        type: int32 (events,), event type numbers, stable over the life of a model.
        values: float64 (attributes, events), NaN where an event lacks the attribute.
    """

    identity: NDArray[np.uint64]
    time: NDArray[np.int64] = field(default_factory=_no_times)
    type: NDArray[np.int32] = field(default_factory=_no_types)
    values: NDArray[np.float64] = field(default_factory=_no_values)

    def __len__(self) -> int:
        return len(self.identity)


@dataclass(frozen=True, slots=True, eq=False)
class Contributions:
    """What became of events: the lesson that shedders with a model learn from.

    Attributes:
        weight: float64 (events,), sum of the weights of the composite events that the event contributed to.
    """

    weight: NDArray[np.float64]


@runtime_checkable
class EventShedder(Protocol):
    """Decides which events of one query to drop.

    A shedder is a value: it pickles, it decides from its arguments and its model alone, and calling it changes nothing.
    Learning gives a new shedder.
    """

    @property
    def trained(self) -> bool:
        """Whether it can decide already; one without a model always can."""
        ...

    def mask(self, events: JudgedEvents, drop_ratio: float) -> Mask:
        """Which events to drop.

        Args:
            events: candidates of the query.
            drop_ratio: share to drop in the long run, 0 to 1. What is dropped at a ratio is dropped at every higher one.

        Returns:
            bool (events,), True = drop.
        """
        ...

    def learn(self, events: JudgedEvents, contributions: Contributions) -> EventShedder:
        """A shedder that knows these events too; itself when it has nothing to learn.

        Args:
            events: events that were not shed and whose windows are over.
            contributions: what became of them.
        """
        ...
