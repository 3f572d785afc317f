"""What became of events without shedding, as shedders want to learn it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.evaluation.operator import Operator
from app.evaluation.windows import EventWindows, OpenedOperator, WindowedOperator
from app.events.batch import EventBatch
from app.features.events import Features
from app.features.positions import shed_window, windowed
from app.features.shape import shape_of
from app.query.plan import Plan
from app.query.planning.abandoned import abandoned_plans
from shedding.observations import EventObservations, WindowObservations


def event_observations(plan: Plan, features: Features, batch: EventBatch, *, crediting: bool = True) -> EventObservations:
    """Every event of a recording and the composite events that it contributed to.

    Args:
        plan: the query.
        features: of the query.
        batch: in total order; all its windows count as over.
        crediting: whether events of partial matches that a negation ended get credit as well.
    """
    weight = Operator(plan, batch).run().weights(len(batch), plan.weight)
    abandoned = _abandoned(plan, batch) if crediting else _none()
    return EventObservations(features.judged(batch), weight, abandoned, features.repetition(plan), shape_of(plan))


def window_observations(plan: Plan, features: Features, batch: EventBatch) -> WindowObservations:
    """Every pair of an event and a window (`app.features.positions.shed_window`), and the composite events that the event contributed to there.

    Args:
        plan: the query.
        features: of the query.
        batch: in total order.
    """
    windows = EventWindows.of(shed_window(plan), batch)
    if windowed(plan):
        weight = windows.weights(WindowedOperator(plan, batch, windows).run(), plan.weight)
    else:
        weight = Operator(plan, batch).run().weights(len(batch), plan.weight)
    return WindowObservations(windows.judged(features.judged(batch)), weight, features.repetition(plan))


def opened_observations(plan: Plan, features: Features, batch: EventBatch) -> WindowObservations:
    """The same, where every event that can begin a match opens a window (`app.evaluation.windows.OpenedOperator`)."""
    operator = OpenedOperator(plan, batch)
    weight = operator.windows.weights(operator.run(), plan.weight)
    return WindowObservations(operator.windows.judged(features.judged(batch)), weight, features.repetition(plan))


def _abandoned(plan: Plan, batch: EventBatch) -> NDArray[np.float64]:
    plans = abandoned_plans(plan)
    return np.sum([Operator(one, batch).run().weights(len(batch), plan.weight) for one in plans], axis=0) if plans else _none()


def _none() -> NDArray[np.float64]:
    return np.empty(0, dtype=np.float64)
