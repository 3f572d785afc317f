"""Learning from next to nothing, and from values at the end of the world."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shedding.candidates import JudgedEvents
from shedding.identity import identities
from shedding.interface import Training
from shedding.observations import EventObservations, Shape, WindowObservations
from shedding.registry import METHODS, method
from shedding.windows import count_windows

ITEMS = 3


def events_of(types: list[int], values: list[float] | None = None) -> JudgedEvents:
    count = len(types)
    columns = np.empty((0, count)) if values is None else np.array([values])
    items = np.array([1 << kind if 0 <= kind < ITEMS else 0 for kind in types], np.uint64)
    places = identities(np.zeros(count, np.int64), np.arange(count))
    return JudgedEvents(places, np.arange(count), np.array(types, np.int32), columns, items=items)


EXTREMES = {
    "one event": events_of([0], [1.0]),
    "one event of no interest": events_of([-1], [1.0]),
    "no event of interest": events_of([-1] * 5),
    "no attributes": events_of([0, 1, 0]),
    "only missing attributes": events_of([0, 1], [np.nan, np.nan]),
    "infinite attributes": events_of([0, 1, 1], [np.inf, -np.inf, 3.0]),
    "huge attributes": events_of([0, 1, 1], [1e300, -1e300, 3.0]),
    "types that never occur": events_of([7, 7, 7]),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("name", [name for name, entry in METHODS.items() if entry.level in {"events", "events per window"}])
def test_whatever_was_learned_from_gates_decide(name: str, extreme: str) -> None:
    events, others = EXTREMES[extreme], events_of([0, 9, -1, 1], [1.0, np.nan, np.inf, -1e300])
    worth, repetition = np.ones(len(events)), np.ones(3)
    observations: Any = EventObservations(events, worth, repetition=repetition, shape=Shape((-1, 0, 1), 0, 2))
    candidates: list[Any] = [events, others]
    if METHODS[name].level == "events per window":
        candidates = [count_windows(one, 2, 2) for one in candidates]
        observations = WindowObservations(candidates[0], worth, repetition=repetition)
    model = method(name).train(observations, Training())
    for one in candidates:
        assert model.gate(0.0).keep(one).all()
        assert model.gate(0.4).keep(one).shape == (len(one),)
        assert name == "none" or not model.gate(1.0).keep(one).any()
