"""Skip-till-any-match and the contiguous strategies by their definitions: try every assignment, ask each definition of the complete one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, pairwise
from typing import Any

from tests.naive import patterns as p
from tests.naive.inputs import Scope
from tests.naive.negation import asked, positive_predicates, view_of, violated
from tests.naive.predicates import MISSING, attribute, holds_everywhere
from tests.naive.shape import Assignment, Block, Bound, One, Path, Repeat, least, places
from tests.naive.until import until_holds


def assignments(node: Any, scope: Scope, path: Path = ()) -> Iterator[Assignment]:
    """Every way to give events of the right types to a node, in the order that it asks for; also none, if it can be empty."""
    match node:
        case One(item, number):
            for event in scope.members:
                if scope.events[event]["type"] in item.types:
                    yield (Bound(path, number, event),)
        case Block(item, number):
            able = [event for event in scope.members if scope.events[event]["type"] in item.types]
            for chosen in combinations(able, item.count or 0):
                if all(differ(item, scope, one, other) for one, other in combinations(chosen, 2)):
                    yield tuple(Bound((*path, ("slot", slot)), number, event) for slot, event in enumerate(chosen))
        case p.Absence():
            yield ()
        case p.OneOf(operands):
            for index, operand in enumerate(operands):
                yield from assignments(operand, scope, (*path, ("or", index)))
        case p.Seq(items):
            parts = [list(assignments(item, scope, (*path, ("seq", index)))) for index, item in enumerate(items)]
            yield from joined(parts, follows)
        case p.All(operands):
            parts = [list(assignments(operand, scope, (*path, ("and", index)))) for index, operand in enumerate(operands)]
            yield from joined(parts, disjoint)
        case Repeat(inner, quantifier):
            if least(node) == 0:
                yield ()
            rounds: list[list[Assignment]] = []
            high = quantifier.high or len(scope.members)
            made: Iterable[Assignment] = [()]
            for number in range(min(high, len(scope.members))):
                rounds.append([one for one in assignments(inner, scope, (*path, ("round", number))) if one])
                made = list(joined([list(made), rounds[-1]], follows))
                if number + 1 >= least(node):
                    yield from made


def joined(parts: list[list[Assignment]], fits: Callable[[Assignment, Assignment], bool]) -> Iterator[Assignment]:
    """One of each part, each fitting to those before."""
    if not parts:
        yield ()
        return
    for earlier in joined(parts[:-1], fits):
        for own in parts[-1]:
            if fits(earlier, own):
                yield tuple(sorted((*earlier, *own), key=lambda bound: bound.event))


def follows(earlier: Assignment, own: Assignment) -> bool:
    return not earlier or not own or earlier[-1].event < own[0].event


def disjoint(earlier: Assignment, own: Assignment) -> bool:
    return not {bound.event for bound in earlier} & {bound.event for bound in own}


def differ(item: p.Item, scope: Scope, one: int, other: int) -> bool:
    """In a block: different types; under ``by`` a lacking attribute differs from everything, then null from nothing."""
    if item.by is None:
        return scope.events[one]["type"] != scope.events[other]["type"]
    values = [attribute(scope.events[event], item.by) for event in (one, other)]
    if MISSING in values:
        return True
    return None not in values and values[0] != values[1]


# -- what is said of a complete assignment -----------------------------------------------------------------------------


def predicates_hold(query: p.WholeQuery, shape: Any, assignment: Assignment, scope: Scope) -> bool:
    """All predicates that mention no negated variable."""
    view = view_of(query, shape, assignment, scope, frozenset(p.closures_of(query.pattern)))
    return all(holds_everywhere(predicate, view) for predicate in positive_predicates(query))


def lies_within(query: p.WholeQuery, shape: Any, assignment: Assignment, scope: Scope) -> bool:
    """First and last event lie in the window, neighbours less than ``max_gap`` apart."""
    events = [bound.event for bound in assignment]
    times = [scope.events[event]["time"] for event in events]
    if query.max_gap is not None and any(later - earlier >= query.max_gap for earlier, later in pairwise(times)):
        return False
    if query.within is None:
        return True
    if query.within.unit == "events":
        return scope.rank(events[-1]) - scope.rank(events[0]) < query.within.size
    return times[-1] - times[0] < query.within.size


def untils_hold(query: p.WholeQuery, shape: Any, assignment: Assignment, scope: Scope) -> bool:
    closures = frozenset(p.closures_of(query.pattern))
    return all(
        until_holds(shape, node, path, assignment, scope, closures)
        for node, path in places(shape, assignment)
        if isinstance(node, Repeat) and node.until is not None
    )


def negations_hold(query: p.WholeQuery, shape: Any, assignment: Assignment, scope: Scope) -> bool:
    view = view_of(query, shape, assignment, scope, frozenset(p.closures_of(query.pattern)))
    return not any(violated(query, one, assignment, scope, view) for one in asked(shape, assignment))


def contiguous(query: p.WholeQuery, shape: Any, assignment: Assignment, scope: Scope) -> bool:
    """Under a contiguous strategy of the query: no event of the stream, or of the partition, between those of the match."""
    if query.strategy == "skip-till-any-match":
        return True
    others = scope.stream if query.strategy == "strict-contiguity" else scope.members
    between = [event for event in others if assignment[0].event <= event <= assignment[-1].event]
    return between == [bound.event for bound in assignment]


DEFINITIONS = (contiguous, lies_within, predicates_hold, untils_hold, negations_hold)


def found(query: p.WholeQuery, shape: Any, scope: Scope) -> list[Assignment]:
    """Every assignment that satisfies all definitions. For queries of one strategy that is not skip-till-next-match."""
    assert not declared_by_runs(query)
    return [
        one
        for one in dict.fromkeys(assignments(shape, scope))
        if one and all(definition(query, shape, one, scope) for definition in DEFINITIONS)
    ]


def declared_by_runs(query: p.WholeQuery) -> bool:
    """Whether the page defines the query's matches by runs: skip-till-next-match, or strategies set apart for positive items."""
    positive = {item.var for item in p.items_of(query.pattern)}
    return query.strategy == "skip-till-next-match" or any(name.removesuffix("[]") in positive for name in query.ways)
