"""Models of events that give utilities, and the gate that they share: below the threshold is dropped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedEvents, Mask, Predecessors
from shedding.interface import Manifest, Training
from shedding.observations import EventObservations
from shedding.panes import Pane, carried
from shedding.threshold import Cut


class Judge(Protocol):
    """A model that gives utilities to events."""

    def utilities(self, events: JudgedEvents) -> NDArray[np.float64]:
        """Utility of each event, float64 (events,)."""
        ...


@dataclass(frozen=True, slots=True)
class UtilityGate:
    """Drops events of less utility than the threshold."""

    judge: Judge
    cut: Cut

    def keep(self, candidates: JudgedEvents) -> Mask:
        """Keeps the events above the threshold, and some at it."""
        return self.cut.keep(self.judge.utilities(candidates), candidates.identity)


def split(observations: EventObservations, pane: Pane, holdout: float) -> tuple[EventObservations, EventObservations]:
    """The earlier part to learn from, and the later to see what utilities come out at run time; twice the same without ``holdout``.

    Args:
        observations: of consecutive events.
        pane: what the later events must know of the earlier ones.
        holdout: share of events in the later part, less than 1.
    """
    border = len(observations.weight) - int(len(observations.weight) * holdout)
    if border == len(observations.weight):
        return observations, observations
    earlier = cut_out(observations, slice(0, border), observations.events.before)
    before = carried(observations.events.before, earlier.events, [pane])
    return earlier, cut_out(observations, slice(border, None), before)


def cut_out(observations: EventObservations, rows: slice, before: Predecessors) -> EventObservations:
    """Consecutive observations out of these."""
    events = observations.events
    part = JudgedEvents(events.identity[rows], events.time[rows], events.type[rows], events.values[:, rows], before)
    return replace(observations, events=part, weight=observations.weight[rows], abandoned=observations.abandoned[rows])


def present(observations: EventObservations | None) -> EventObservations:
    """The observations.

    Raises:
        ValueError: there are none.
    """
    if observations is None or not len(observations.weight):
        raise ValueError("there is nothing to learn from: no events whose windows are over")
    return observations


def worth(observations: EventObservations, abandoned_credit: float) -> NDArray[np.float64]:
    """What each event was worth, float64 (events,): composite events, and abandoned partial matches with this credit."""
    if not len(observations.abandoned):
        return observations.weight
    both: NDArray[np.float64] = observations.weight + abandoned_credit * observations.abandoned
    return both


def manifest_of(observations: EventObservations, training: Training, method: str) -> Manifest:
    """The manifest of a model learned from these."""
    times = observations.events.time
    return training.manifest(method, len(observations.weight), *((int(times[0]), int(times[-1])) if len(times) else (0, 0)))


def shares_of_types(events: JudgedEvents) -> NDArray[np.float64]:
    """Share of each event type, float64 (types,); unknown types count nowhere."""
    counts = np.bincount(events.type[events.type >= 0]).astype(np.float64)
    shares: NDArray[np.float64] = counts / max(1.0, counts.sum())
    return shares
