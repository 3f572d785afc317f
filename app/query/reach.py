"""How far apart in time a query lets things be that have to do with each other; pure."""

from __future__ import annotations

from app.query.plan import Absent, Pattern, Plan, Repeated, Take


def emission_delay_ms(plan: Plan) -> int | None:
    """How long after its time a match of the query may still become known, as time goes in its stream; None: without bound.

    Mostly at once. Policies after a match, and the longest match, wait for partial matches that began earlier.
    """
    runs = plan.runs
    if runs is None or (runs.after == "no-skip" and not runs.longest):
        return 0
    if plan.within is not None:
        return plan.within.size if plan.within.unit == "ms" else None
    window = runs.window
    return window.size if window is not None and window.unit == "ms" else None


def reach_ms(plan: Plan) -> int | None:
    """How long after an event's time a match that binds it may still become known, as time goes in its streams; None: without bound."""
    temporal, window, delay = plan.temporal, None if plan.runs is None else plan.runs.window, emission_delay_ms(plan)
    if temporal is not None:
        bounded = temporal.window.unit == "ms" and temporal.duration_ms is not None
        return temporal.window.range + (temporal.duration_ms or 0) if bounded else None
    size = plan.within or window
    if size is None or size.unit != "ms" or delay is None:
        return None
    return size.size + delay + (0 if plan.runs is None else _longest_for_ms(plan.runs.pattern))


def goes_by_others(plan: Plan) -> bool:
    """Whether events that a match does not bind, before or behind those that it does, can decide about it wherever they lie: by windows, other matches, or negated items."""
    runs = plan.runs
    if runs is None:
        return False
    return runs.window is not None or runs.longest or runs.after != "no-skip" or any(item.negated for item in plan.items)


def _longest_for_ms(pattern: Pattern) -> int:
    """The longest ``FOR`` of a pattern."""
    if isinstance(pattern, Absent):
        return pattern.for_ms or 0
    if isinstance(pattern, Take):
        return 0
    return max(map(_longest_for_ms, (pattern.part,) if isinstance(pattern, Repeated) else pattern.parts))
