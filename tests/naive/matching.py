"""All matches of a query in a finite stream, by trying every assignment and asking each definition by itself.

The definitions (language page, section 5) are functions ``(query, assignment, events) -> bool`` over complete assignments,
listed in `DEFINITIONS`; a strategy or a closure is one more generator of assignments or one more definition.

An assignment maps the index of every item to the tuple of events it binds: one for a plain positive item, none for a negated one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.naive.evaluation import holds, value
from tests.naive.language import Event, Item, Query, mentioned

Assignment = dict[int, tuple[Event, ...]]
Candidates = Callable[[Query, list[Event]], Iterator[Assignment]]


@dataclass(frozen=True)
class Match:
    """One match: which item bound which event, and when."""

    query: Query
    assignment: Assignment
    time: int

    @property
    def identity(self) -> tuple[tuple[int, int, int], ...]:
        """(item, source, offset) of every event, in total order: the bindings that make two matches one."""
        bound = [(order(event), item) for item, events in self.assignment.items() for event in events]
        return tuple((item, source, offset) for (_, source, offset), item in sorted(bound))


def order(event: Event) -> tuple[int, int, int]:
    """Section 2: by time, then by arrival position."""
    return event["time"], event["source"], event["offset"]


def matches(query: Query, events: list[Event], candidates: Candidates | None = None) -> list[Match]:
    """Every match, sorted by match time, then by its events in total order.

    ``candidates`` may leave out assignments that cannot be matches, where trying all would take too long.
    """
    found = [
        Match(query, assignment, match_time(query, assignment))
        for assignment in (candidates or assignments)(query, sorted(events, key=order))
        if all(definition(query, assignment, events) for definition in DEFINITIONS)
    ]
    return sorted(found, key=lambda match: (match.time, [order(event) for event in bound_events(match.assignment)]))


def assignments(query: Query, events: list[Event]) -> Iterator[Assignment]:
    """Skip-till-any-match: every way to give one event of the right type to each positive item, in total order."""

    def extend(chosen: list[Event], start: int) -> Iterator[list[Event]]:
        if len(chosen) == len(query.positive):
            yield chosen
            return
        item = query.items[query.positive[len(chosen)]]
        for place in range(start, len(events)):
            if events[place]["type"] in item.types:
                yield from extend([*chosen, events[place]], place + 1)

    for chosen in extend([], 0):
        binds = dict(zip(query.positive, chosen, strict=True))
        yield {i: (binds[i],) if i in binds else () for i in range(len(query.items))}


# -- what is said of a complete assignment -----------------------------------------------------------------------------


def equivalence_holds(query: Query, assignment: Assignment, events: list[Event]) -> bool:
    """``[attr]``: equal in all events of the match; null and NaN equal nothing, so such an event is in no partition."""
    for test in query.equivalence:
        values = [event["attributes"][test.attribute] for event in bound_events(assignment)]
        if any(v is None or v != v for v in values) or any(v != values[0] for v in values):  # noqa: PLR0124
            return False
        if test.value is not None and values[0] != test.value.value:
            return False
    return True


def positive_predicates_hold(query: Query, assignment: Assignment, events: list[Event]) -> bool:
    """All predicates that mention no negated variable."""
    bound = variables(query, assignment)
    return all(holds(predicate, bound) for predicate in query.where if not mentioned(predicate) & negated_variables(query))


def lies_within(query: Query, assignment: Assignment, events: list[Event]) -> bool:
    """``time(last) - time(first) < T``."""
    bound = bound_events(assignment)
    return query.within is None or bound[-1]["time"] - bound[0]["time"] < query.within


def negations_hold(query: Query, assignment: Assignment, events: list[Event]) -> bool:
    """No negated item finds an event that prevents the match."""
    return not any(item.negated and prevents(query, index, assignment, event) for index, item in enumerate(query.items) for event in events)


DEFINITIONS: tuple[Callable[[Query, Assignment, list[Event]], bool], ...] = (
    equivalence_holds,
    positive_predicates_hold,
    lies_within,
    negations_hold,
)


# -- negation ----------------------------------------------------------------------------------------------------------


def prevents(query: Query, index: int, assignment: Assignment, event: Event) -> bool:
    """Whether this event is one that the negated item forbids to this assignment."""
    return (
        event["type"] in query.items[index].types
        and in_scope(query, index, assignment, event)
        and agrees(query, assignment, event)
        and negated_predicates_hold(query, query.items[index], assignment, event)
    )


def in_scope(query: Query, index: int, assignment: Assignment, event: Event) -> bool:
    """Whether the event stands where the negated item looks: between its positive neighbours, or inside the window before or after all."""
    before = [e for i in range(index) for e in assignment[i]]
    after = [e for i in range(index + 1, len(query.items)) for e in assignment[i]]
    if before and after:
        return order(before[-1]) < order(event) < order(after[0])
    assert query.within is not None, "a negated start or end needs within"
    if after:
        return after[-1]["time"] - query.within < event["time"] and order(event) < order(after[0])
    return order(before[-1]) < order(event) and event["time"] < before[0]["time"] + query.within


def agrees(query: Query, assignment: Assignment, event: Event) -> bool:
    """A negated event counts if it has the values of the match; an attribute that its type lacks agrees with every value."""
    representative = bound_events(assignment)[0]
    return all(
        test.attribute not in event["attributes"] or event["attributes"][test.attribute] == representative["attributes"][test.attribute]
        for test in query.equivalence
    )


def negated_predicates_hold(query: Query, item: Item, assignment: Assignment, event: Event) -> bool:
    """All predicates that mention this negated variable, with the event bound to it."""
    if item.var is None:
        return True
    bound = variables(query, assignment) | {item.var: event}
    return all(holds(predicate, bound) for predicate in query.where if item.var in mentioned(predicate))


# -- words -------------------------------------------------------------------------------------------------------------


def bound_events(assignment: Assignment) -> list[Event]:
    """All events of the match in total order."""
    return sorted((event for events in assignment.values() for event in events), key=order)


def variables(query: Query, assignment: Assignment) -> dict[str, Event]:
    """Variables and their events."""
    return {item.var: assignment[i][0] for i, item in enumerate(query.items) if item.var and assignment[i]}


def negated_variables(query: Query) -> frozenset[str]:
    return frozenset(item.var for item in query.items if item.negated and item.var)


def ends_negated(query: Query) -> bool:
    """Whether a negation stands behind the last positive item."""
    return query.items[-1].negated


def match_time(query: Query, assignment: Assignment) -> int:
    """The time of the last event; of a negated end, when its window is over."""
    bound = bound_events(assignment)
    if ends_negated(query):
        assert query.within is not None
        return bound[0]["time"] + query.within
    return bound[-1]["time"]


def return_fields(match: Match, schemas: dict[str, dict[str, str]]) -> dict[str, Any]:
    """The fields of the composite event. ``schemas`` maps types to their attributes."""
    bound = variables(match.query, match.assignment)
    if match.query.returns is not None:
        return {name: value(expression, bound) for name, expression in match.query.returns}
    fields: dict[str, Any] = {}
    for item in match.query.items:
        if item.var and not item.negated:
            for attribute in dict.fromkeys(a for type_name in item.types for a in schemas[type_name]):
                fields[f"{item.var}_{attribute}"] = bound[item.var]["attributes"].get(attribute)
    return fields


def candidate_items(query: Query, event: Event) -> frozenset[int]:
    """Which items this event can be, as far as it alone decides: what selection has to find out."""
    found = set()
    for index, item in enumerate(query.items):
        own = [p for p in query.where if item.var and mentioned(p) == {item.var}]
        bound = {item.var: event} if item.var else {}
        if event["type"] in item.types and in_some_partition(query, event) and all(holds(p, bound) for p in own):
            found.add(index)
    return frozenset(found)


def in_some_partition(query: Query, event: Event) -> bool:
    """Null (and NaN) in an equivalence attribute, or another value than the fixed one: in no partition."""
    for test in query.equivalence:
        if test.attribute in event["attributes"]:
            own = event["attributes"][test.attribute]
            if own is None or own != own or (test.value is not None and own != test.value.value):  # noqa: PLR0124
                return False
    return True
