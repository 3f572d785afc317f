"""Partial matches that run out of window (language page, section 5, timeouts)."""

from __future__ import annotations

from tests.naive.assignments import predicates_hold
from tests.naive.negation import CONTIGUOUS, asked, closing_time, view_of, violated
from tests.naive.runs import Player, Run, Way
from tests.naive.shape import Assignment, items_by_number


def timed_out(player: Player, accepting: list[Run], waiting: list[Run]) -> dict[Assignment, int]:
    """What the runs that wait have bound, and when their window closed. Runs that bind the same are the same partial match."""
    query = player.query
    if query.within is None and query.window is None and query.max_gap is None:
        return {}
    found: dict[Assignment, int] = {}
    named = {by_variable(player, run.bound) for run in accepting if has_matched(player, run)}
    for run in waiting:
        own = by_variable(player, run.bound)
        if not (own in named or ended_by_contiguity(player, run) or violates(player, run)):
            found[run.bound] = closes(player, run)
            # equal bindings of two runs time out once
            named.add(own)
    return found


def by_variable(player: Player, assignment: Assignment) -> tuple[tuple[str | None, int], ...]:
    """Which variable bound which event."""
    items = items_by_number(player.shape)
    return tuple(sorted(((items[bound.number].var, bound.event) for bound in assignment), key=lambda one: (one[1], one[0] or "")))


def closes(player: Player, run: Run) -> int:
    """The moment (ms) at which the first of its bounds closes."""
    query, scope = player.query, player.scope
    moments = []
    if (query.within is not None or query.window is not None) and not ended_by_the_input(player, run):
        moments.append(closing_time(query, run.bound[0].event, scope))
    if query.max_gap is not None:
        moments.append(scope.events[run.bound[-1].event]["time"] + query.max_gap)
    return min(moments)


def ended_by_the_input(player: Player, run: Run) -> bool:
    """Whether a gap closes a window that is counted in its partition's events, of which none closed it: the input just ended."""
    query, scope = player.query, player.scope
    if query.max_gap is None:
        return False
    if query.window is not None:
        return query.window.per_partition and len(scope.members) < query.window.size.size
    if query.within is None or query.within.unit != "events":
        return False
    return len([e for e in scope.members if e >= run.bound[0].event]) < query.within.size


def has_matched(player: Player, run: Run) -> bool:
    """A run that can accept and whose predicates hold of what it has bound is no partial match, whatever its negations say."""
    return player.accepts(run) and predicates_hold(player.query, player.shape, run.bound, player.scope)


def ended_by_contiguity(player: Player, run: Run) -> bool:
    """Whether an event came, before its window closed, when all its ways were contiguous. Ways that UNTIL has stopped are none."""
    left = [way for way in player.open_ways(run) if not player.is_stopped(run, way, run.bound[-1].event)]
    for event in player.scope.stream:
        if event <= run.bound[-1].event:
            continue
        if not is_open(player, run, event):
            return False
        before, left = left, [way for way in left if not player.is_stopped(run, way, event)]
        if any(some and all(interrupted(player, run, way, event) for way in some) for some in (before, left)):
            return True
    return False


def interrupted(player: Player, run: Run, way: Way, event: int) -> bool:
    """Whether the way is contiguous and its next event has come."""
    strategy = player.strategy(run, way)
    following = player.next_after(run, strategy) if strategy in CONTIGUOUS else None
    return following is not None and following <= event


def is_open(player: Player, run: Run, event: int) -> bool:
    """Whether the run's window is still open when the event comes."""
    query, scope = player.query, player.scope
    time, first, last = (scope.events[number]["time"] for number in (event, run.bound[0].event, run.bound[-1].event))
    if query.max_gap is not None and time >= last + query.max_gap:
        return False
    if query.within is None:
        return True
    if query.within.unit == "events":
        return scope.rank(event) - scope.rank(run.bound[0].event) < query.within.size
    return bool(time < first + query.within.size)


def violates(player: Player, run: Run) -> bool:
    """Whether its bound events already violate a negation between them."""
    view = view_of(player.query, player.shape, run.bound, player.scope, player.closures, player.open_variables(run))
    between = [one for one in asked(player.shape, run.bound) if one.before is not None and one.behind is not None]
    return any(violated(player.query, one, run.bound, player.scope, view) for one in between)
