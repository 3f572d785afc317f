"""A query's pattern as one chain: which item needs which other one, and what ends it."""

from __future__ import annotations

from app.query.plan import QUERY_STREAM, Absent, Either, Ordered, Pattern, Plan, Take
from shedding.kernels_worth import MOST_ITEMS
from shedding.observations import Shape


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
