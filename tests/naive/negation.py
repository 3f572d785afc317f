"""What must not happen: every negation of a complete assignment, asked by itself (language page, section 5)."""

from __future__ import annotations

from dataclasses import dataclass

from tests.naive.inputs import Scope
from tests.naive.language import mentioned
from tests.naive.patterns import Absence, Item, WholeQuery, absences_of
from tests.naive.predicates import View, all_known, holds_everywhere
from tests.naive.shape import Assignment, Path, items_by_number, order_of, places

CONTIGUOUS = ("strict-contiguity", "partition-contiguity")


@dataclass(frozen=True)
class Asked:
    """A negation of a match: the last positive event before it and the first behind it, None where there is none."""

    absence: Absence
    before: int | None
    behind: int | None


def asked(shape: object, assignment: Assignment) -> list[Asked]:
    """The negations that are asked: not those of branches, groups and parts of an AND that bound nothing."""
    return [asked_at(node, path, assignment) for node, path in places(shape, assignment) if isinstance(node, Absence)]


def asked_at(absence: Absence, path: Path, assignment: Assignment) -> Asked:
    before = [bound.event for bound in assignment if order_of(bound.path, path) < 0]
    behind = [bound.event for bound in assignment if order_of(bound.path, path) > 0]
    return Asked(absence, max(before, default=None), min(behind, default=None))


def violated(query: WholeQuery, one: Asked, assignment: Assignment, scope: Scope, view: View) -> bool:
    """Whether different events are all that the negation forbids."""
    found = [[e for e in scope.stream if forbids(query, part, one, e, assignment, scope, view)] for part in one.absence.parts]

    def different(parts: list[list[int]], used: frozenset[int]) -> bool:
        return not parts or any(different(parts[1:], used | {e}) for e in parts[0] if e not in used)

    return different(found, frozenset())


def forbids(query: WholeQuery, part: Item, one: Asked, event: int, assignment: Assignment, scope: Scope, view: View) -> bool:
    return (
        scope.events[event]["type"] in part.types
        and (one.before is None or one.before < event)
        and (one.behind is None or event < one.behind)
        and (one.before is not None or reaches_start(query, event, assignment, scope))
        and (one.behind is not None or reaches_end(query, one, event, assignment, scope))
        and adjacent(query, part, one, event, scope)
        and scope.agrees(event)
        and counts(query, part, event, scope, view)
    )


def reaches_start(query: WholeQuery, event: int, assignment: Assignment, scope: Scope) -> bool:
    """A negated start: as far back as the window reaches from the last event, or to the explicit window's start."""
    last = assignment[-1].event
    if query.within is None:
        return True
    if query.within.unit == "events":
        return scope.rank(last) - scope.rank(event) < query.within.size
    return scope.events[last]["time"] - query.within.size < scope.events[event]["time"]


def reaches_end(query: WholeQuery, one: Asked, event: int, assignment: Assignment, scope: Scope) -> bool:
    """A negated end: until the window is over, or so long after the last event of the match."""
    time = scope.events[event]["time"]
    if one.absence.for_ms is not None:
        return time < scope.events[assignment[-1].event]["time"] + one.absence.for_ms
    if query.within is None:
        return True
    if query.within.unit == "events":
        return scope.rank(event) - scope.rank(assignment[0].event) < query.within.size
    return time < scope.events[assignment[0].event]["time"] + query.within.size


def adjacent(query: WholeQuery, part: Item, one: Asked, event: int, scope: Scope) -> bool:
    """With a contiguous way of its own, only the very next event after the positive one before counts."""
    way = query.ways.get(part.var or "")
    if way not in CONTIGUOUS or one.before is None:
        return True
    others = scope.stream if way == "strict-contiguity" else scope.members
    return event == min((e for e in others if e > one.before), default=None)


def counts(query: WholeQuery, part: Item, event: int, scope: Scope, view: View) -> bool:
    """Whether all predicates that mention the negated variable hold of the event."""
    if part.var is None:
        return True
    own = View({**view.events, part.var: [scope.events[event]]}, view.closures, view.open)
    return all(holds_everywhere(p, own) and all_known(p, own) for p in query.where if part.var in mentioned(p))


def negated_variables(query: WholeQuery) -> frozenset[str]:
    return frozenset(part.var for absence in absences_of(query.pattern) for part in absence.parts if part.var)


def positive_predicates(query: WholeQuery) -> list[object]:
    """The predicates that mention no negated variable."""
    return [p for p in query.where if not mentioned(p) & negated_variables(query)]


def match_time(query: WholeQuery, shape: object, assignment: Assignment, scope: Scope) -> int:
    """The time of the last event; of a negated end, when it is decided (of several, the latest)."""
    last = scope.events[assignment[-1].event]["time"]
    ends = [one.absence.for_ms for one in asked(shape, assignment) if one.behind is None]
    times = [closing_time(query, assignment[0].event, scope) if for_ms is None else last + for_ms for for_ms in ends]
    return max([last, *times])


def closing_time(query: WholeQuery, first: int, scope: Scope) -> int:
    """When the window of a match that begins with this event is over."""
    if scope.end is not None:
        return scope.end
    assert query.within is not None
    if query.within.unit == "ms":
        return scope.events[first]["time"] + query.within.size
    counted = [e for e in scope.members if e >= first][: query.within.size]
    return scope.events[counted[-1]]["time"]


def view_of(
    query: WholeQuery, shape: object, assignment: Assignment, scope: Scope, closures: frozenset[str], open_: frozenset[str] = frozenset()
) -> View:
    """The variables of an assignment."""
    items = items_by_number(shape)
    events: dict[str, list[dict[str, object]]] = {}
    for bound in assignment:
        variable = items[bound.number].var
        if variable is not None:
            events.setdefault(variable, []).append(scope.events[bound.event])
    return View(events, closures, open_)
