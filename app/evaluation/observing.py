"""What became of events without shedding, as shedders want to learn it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.evaluation.features import Features
from app.evaluation.operator import Operator
from app.evaluation.windows import EventWindows, OpenedOperator, WindowedOperator, shed_window, windowed
from app.events.batch import EventBatch
from app.query.plan import Absent, Either, Ordered, Pattern, Plan, Take
from app.query.planning.abandoned import abandoned_plans
from shedding.events.prefix import MOST_ITEMS
from shedding.observations import EventObservations, Shape, WindowObservations


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
    """Every pair of an event and a window (`app.evaluation.windows.shed_window`), and the composite events that the event contributed to there.

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


def shape_of(plan: Plan) -> Shape | None:
    """The plan's pattern where it is one sequence, perhaps with negations, closures and an OR at its end, and has a window.

    Windows in events are known where the query has one partition: only then they count the stream's events.
    """
    window = (plan.runs.window if plan.runs is not None else None) or plan.within
    if window is None or (window.unit == "events" and plan.equivalence) or len(plan.items) > MOST_ITEMS:
        return None
    needs = [-1] * len(plan.items)
    if _ordered(plan.pattern, -1, needs) is None:
        return None
    return Shape(tuple(needs), sum(1 << item.index for item in plan.items if item.negated), window.size, window.unit == "events")


_SEVERAL = -2
"""Behind an OR: an event may follow any of its branches."""


def _ordered(pattern: Pattern, last: int, needs: list[int]) -> int | None:
    """Notes which item comes before each; returns the last that must have been bound, or None where that is no one item."""
    match pattern:
        case Ordered(parts):
            behind: int | None = last
            for part in parts:
                behind = None if behind is None else _ordered(part, behind, needs)
            return behind
        case Either(parts) if last != _SEVERAL:
            return None if any(_ordered(part, last, needs) is None for part in parts) else _SEVERAL
        case Absent(items) if last != _SEVERAL:
            for item in items:
                needs[item] = last
            return last
        case Take(item, low) if last != _SEVERAL:
            needs[item] = last
            return item if low > 0 else last
    return None
