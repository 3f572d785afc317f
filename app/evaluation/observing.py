"""What became of events without shedding, as shedders want to learn it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.evaluation.features import Features
from app.evaluation.operator import Operator
from app.evaluation.windows import EventWindows, OpenedOperator, WindowedOperator, shed_window, windowed
from app.events.batch import EventBatch
from app.query.plan import QUERY_STREAM, Absent, Either, Ordered, Pattern, Plan, Take
from app.query.planning.abandoned import abandoned_plans
from shedding.kernels_worth import MOST_ITEMS
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
    negated = sum(1 << item.index for item in plan.items if item.negated)
    return Shape(tuple(needs), negated, window.size, window.unit == "events", _ending(plan))


def without_chains(plan: Plan) -> str | None:
    """Why the application cannot ask a shedder of whole chains about the query's events; None where it can."""
    shape = shape_of(plan)
    if shape is None:
        return "it knows patterns that are one sequence with a window"
    if shape.by_rank:
        return "it goes by windows of time, and this query's are in events"
    if any(stream.startswith(QUERY_STREAM) for stream in plan.streams):
        return "nobody says what other queries' composite events are worth"
    return None


def _of_own_type(plan: Plan, item: int) -> bool:
    """Whether no event that can be the item can be another one, by their types."""
    own = set(plan.items[item].types)
    return bool(own) and all(one.index == item or (one.types and own.isdisjoint(one.types)) for one in plan.items)


def _ending(plan: Plan) -> int:
    """Negated items between two single events of which selection and partition alone decide whether they end the match before them, as bits.

    The event behind must be of a type of its own: where the one between is dropped it must go as well, and would be missed as another item.
    None where partial matches that end without a match are told (``on_timeout: emit``), which must be ended by who tells them, and where events are counted, since each that goes counts.
    """
    if not isinstance(plan.pattern, Ordered) or plan.on_timeout == "emit" or plan.ranks != "none":
        return 0
    compared = {join.negated_item for join in plan.joins}
    parts, found = plan.pattern.parts, 0
    for at, part in enumerate(parts):
        if not isinstance(part, Absent) or len(part.items) != 1 or part.for_ms is not None:
            continue
        item = plan.items[part.items[0]]
        before = next((one for one in reversed(parts[:at]) if not isinstance(one, Absent)), None)
        after = next((one for one in parts[at + 1 :] if not isinstance(one, Absent)), None)
        by_itself = not item.local and not item.lacks and item.index not in compared
        anywhere = plan.runs is None or plan.runs.ways[item.bound_to].first.startswith("skip-till")
        follows = isinstance(before, Take) and before.low > 0
        followed = isinstance(after, Take) and (after.low, after.high) == (1, 1) and _of_own_type(plan, after.item)
        if by_itself and anywhere and follows and followed:
            found |= 1 << item.index
    return found


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
