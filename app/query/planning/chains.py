"""Which plans of runs are *chains*: item after item, only the last one repeated, and no strategy that leaves a choice.

A partial match of a chain can go on in one way only, so it never splits: an event lengthens it, passes it, or (contiguity) ends it. What
predicates ask of its events are values of single ones, known when they are bound. `app.cep.chains` runs such plans; all others need a tree
of bound events and states of what is left (`app.cep.runs`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from typing import Literal as OneOf

from app.events.types import Kind
from app.query import expressions as e
from app.query.plan import MAX_ITEMS, Absent, Either, Every, Limits, Ordered, Plan, Repeated, ReturnField, Runs, Take
from app.query.text.keys import MATCH_SHEDDERS

MOST_REPETITIONS = 64
"""Counted repetitions take a row of the tables each."""
MOST_TESTS = 31
"""A test may need a register of every partial match; the states of registers are one word."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a chain.

    Attributes:
        number: a Python index into the events bound: 0 is the first one, -1 the last one.
        lowest: it must stand there or behind (counted from behind, an element of the closure), or it is not there.
    """

    number: int
    lowest: int = 0


@dataclass(frozen=True, slots=True)
class Value:
    """An expression over events of a chain: its attributes speak of item k, the k-th of ``events``, without index."""

    expression: Any
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison of two values over one event each, decided when the later one is bound.

    Where an event is the last one (-1) or the one before it (-2), it is asked of every element of the closure, else once.

    Attributes:
        ending: it is asked of the closure's last element, where a match ends.
    """

    operator: str
    left: Value
    right: Value
    ending: bool = False


@dataclass(frozen=True, slots=True)
class Kill:
    """A negated event that may not come while the ``before``-th event is awaited: nothing comes of a partial match that meets one.

    Attributes:
        item: index into `Plan.items`.
        before: a place; its tests speak of the negated event as of the one there.
        tests: what it must pass.
    """

    item: int
    before: int
    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A return field.

    Attributes:
        value: over events; of the others an attribute of any element of the closure.
        made: ``value``; or of all elements of the closure: a ``list``, or an aggregate.
    """

    name: str
    kind: Kind
    value: Value
    made: OneOf["value", "list", "count", "sum", "avg", "min", "max"] = "value"


@dataclass(frozen=True, slots=True)
class Policy:
    """What of ``after:`` and ``emit:`` a chain has to know. The matches of one partial match are beginnings of each other.

    Attributes:
        once: one of them is reported at most: what begins no later than a reported one ends is skipped, and so are its own longer matches.
        longest: the longest of them is.
        border: the event of a reported match up to which no further match may begin; None: all may.
        itself: whether at that event none may, either.
    """

    once: bool = False
    longest: bool = False
    border: Event | None = None
    itself: bool = True


@dataclass(frozen=True, slots=True)
class Chain:
    """What the pattern of such a plan is.

    Attributes:
        items: indices into `Plan.items`, in order.
        low, high: how often the last one is bound (high None: without end).
        tests: predicates between events.
        fields: of `Plan.returns`.
        policy: which matches of a partial match are reported.
        kills: negations between its items, and behind the last one.
        timeouts: whether partial matches that run out of window are told.
        starts: indices into `Plan.items` of those that no event may be shortly before a match: in the time, or of the events, of ``within``.
        waits: whether it waits behind its last event until nothing can prevent it any more.
        wait_ms: how long; None: until its window is over.
    """

    items: tuple[int, ...]
    low: int
    high: int | None
    tests: tuple[Test, ...]
    fields: tuple[Field, ...]
    policy: Policy
    kills: tuple[Kill, ...] = ()
    timeouts: bool = False
    starts: tuple[int, ...] = ()
    waits: bool = False
    wait_ms: int | None = None


class _Obstacle(Exception):  # noqa: N818 - an answer, caught here
    """What keeps a plan from being a chain."""


def chain_of(plan: Plan) -> Chain | None:
    """The chain that a plan of runs is, or None."""
    if plan.runs is None or any(_unfit(plan, plan.runs)):
        return None
    try:
        return _chain(plan, plan.runs)
    except _Obstacle:
        return None


def obstacles(plan: Plan) -> list[str]:
    """What keeps a plan of runs from being a chain, in words: keys, and the first thing in its pattern, predicates and return fields."""
    if plan.runs is None:
        return ["no pattern for the runs evaluator"]
    found = list(_unfit(plan, plan.runs))
    try:
        _chain(plan, plan.runs)
    except _Obstacle as one:
        found.append(str(one))
    return found


def _chain(plan: Plan, runs: Runs) -> Chain:
    takes, absent = _takes(runs)
    last = takes[-1]
    items = tuple(take.item for take in takes)
    bindings = [plan.items[item].bound_to for item in items]
    ways = [runs.ways[binding].first for binding in bindings[1:]]
    if (last.low, last.high) != (1, 1):
        ways.append(runs.ways[bindings[-1]].further)
    if "skip-till-any-match" in ways:
        raise _Obstacle("skip-till-any-match")
    places = {binding: place for place, binding in enumerate(bindings)}
    timeouts = plan.on_timeout == "emit"
    if timeouts and set(ways) - {"skip-till-next-match"}:
        raise _Obstacle("on_timeout: emit beside contiguity")
    if absent and runs.limits != Limits():
        raise _Obstacle("limits: beside a negation")
    starts = tuple(_start(plan, runs, one.items[0]) for one, before in absent if not before)
    ends = [one for one, before in absent if before == len(takes)]
    if ends:
        _check_ends(plan, runs, last, ends)
    kills = tuple(_kill(plan, runs, places, one.items[0], before) for one, before in absent if before)
    tests = tuple(_test(join.condition, places) for join in plan.joins if join.negated_item is None)
    fields = tuple(_field(field, places) for field in plan.returns)
    closure = (last.low, last.high) != (1, 1)
    policy = _policy(runs, places, closure=closure)
    return Chain(items, last.low, last.high, tests, fields, policy, kills, timeouts, starts, bool(ends), ends[0].for_ms if ends else None)


def _start(plan: Plan, runs: Runs, item: int) -> int:
    """A negation in front of all items, if its newest event alone decides."""
    own = plan.items[item]
    if own.lacks:
        raise _Obstacle("a negation of events without the key")
    if any(join.negated_item == own.bound_to for join in plan.joins):
        raise _Obstacle("a negation at the start that is compared with other items")
    if runs.window is not None:
        raise _Obstacle("a negation at the start or the end in windows")
    return item


def _check_ends(plan: Plan, runs: Runs, last: Take, ends: list[Absent]) -> None:
    """Whether a partial match can wait in its place for what may not come behind it: it must be the only match that it is."""
    if (last.low, last.high) != (1, 1):
        raise _Obstacle("a negation behind a repeated item")
    if runs.window is not None:
        raise _Obstacle("a negation at the start or the end in windows")
    if plan.within is not None and plan.within.unit == "events":
        raise _Obstacle("a negation at the end beside within in events")
    if plan.on_timeout == "emit" or runs.after != "no-skip" or runs.longest:
        raise _Obstacle("a negation at the end beside on_timeout: emit, after: or emit: longest")
    if len({one.for_ms for one in ends}) > 1:
        raise _Obstacle("negations at the end of different lengths")
    if len(plan.items) >= MAX_ITEMS:
        raise _Obstacle("a negation at the end of that many items")


def _kill(plan: Plan, runs: Runs, places: dict[int, int], item: int, before: int) -> Kill:
    """A negation in front of the ``before``-th item, if the partial match knows at once what it needs to decide it."""
    own = plan.items[item]
    if own.lacks:
        raise _Obstacle("a negation of events without the key")
    if runs.ways[own.bound_to].first in ("strict-contiguity", "partition-contiguity"):
        raise _Obstacle("a negation with a contiguous strategy")
    known = {binding: place for binding, place in places.items() if place < before} | {own.bound_to: before}
    conditions = [join.condition for join in plan.joins if join.negated_item == own.bound_to]
    if any(item not in known for condition in conditions for item in e.mentioned_items(condition)):
        raise _Obstacle("a negation that reads an event behind it")
    return Kill(item, before, tuple(_test(condition, known) for condition in conditions))


def _policy(runs: Runs, places: dict[int, int], *, closure: bool) -> Policy:
    """The policy; where one match of a partial match may leave room for another one the chain does not know it."""
    if runs.after in ("no-skip", "skip-to-next"):
        return Policy(runs.longest or runs.after == "skip-to-next", runs.longest)
    if runs.after == "skip-past-last-event":
        return Policy(once=True, longest=runs.longest, border=Event(-1))
    place = places[runs.after_binding]
    if place == 0:
        raise _Obstacle(f"after: {runs.after} of the first item")
    last = runs.after == "skip-to-last" and closure and place == len(places) - 1
    return Policy(once=True, longest=runs.longest, border=Event(-1 if last else place), itself=False)


def _unfit(plan: Plan, runs: Runs) -> Iterator[str]:
    if plan.within is not None and plan.within.unit == "events" and (plan.on_timeout == "emit" or runs.limits != Limits()):
        yield "within in events beside on_timeout: emit or limits:"
    plain = runs.after == "no-skip" and not runs.longest
    if runs.window is not None and (runs.window.slide is None or runs.window.per_partition):
        yield "window: opened by events, or of events of a partition"
    if runs.window is not None and not plain:
        yield "window: beside after: or emit: longest"
    if runs.limits != Limits() and not plain:
        yield "limits: beside after: or emit: longest"
    if len(plan.joins) > MOST_TESTS:
        yield f"more than {MOST_TESTS} predicates"
    if plan.on_timeout == "emit" and not (plain and runs.window is None):
        yield "on_timeout: emit beside window:, after: or emit: longest"
    if plan.shedding.shedder in MATCH_SHEDDERS:
        yield f"the shedder {plan.shedding.shedder}"
    if plan.shedding.state_bytes is not None:
        yield "limits: state_bytes"


def _takes(runs: Runs) -> tuple[tuple[Take, ...], list[tuple[Absent, int]]]:
    """The items in order, and the negations with the number of items in front."""
    parts = runs.pattern.parts if isinstance(runs.pattern, Ordered) else (runs.pattern,)
    names = {
        Absent: "a negation of several items",
        Either: "OR",
        Every: "AND",
        Repeated: "a repeated group",
        Ordered: "a SEQ inside the pattern",
    }
    takes: list[Take] = []
    absent: list[tuple[Absent, int]] = []
    for part in parts:
        if isinstance(part, Absent) and len(part.items) == 1:
            absent.append((part, len(takes)))
            continue
        if not isinstance(part, Take):
            raise _Obstacle(names[type(part)])
        if part.until is not None or part.different:
            raise _Obstacle("UNTIL" if part.until is not None else "ANY(n; ..)")
        takes.append(part)
    if not takes or any((take.low, take.high) != (1, 1) for take in takes[:-1]):
        raise _Obstacle("a quantifier before the last item")
    last = takes[-1]
    if last.low < 1 or last.high == 0 or max(last.low, last.high or 0) > MOST_REPETITIONS:
        raise _Obstacle(f"a last item that may be left out, or is counted beyond {MOST_REPETITIONS}")
    return tuple(takes), absent


def _test(condition: Any, places: dict[int, int]) -> Test:
    if not isinstance(condition, e.Comparison) or isinstance(condition.left, e.Condition) or isinstance(condition.right, e.Condition):
        raise _Obstacle("a predicate that is no comparison of two events")
    sides = (_as_elements(condition.left, ("last",)), _as_elements(condition.right, ("last",)))
    if condition.operator not in ("=", "!=") and any(side.kind.textual for side in sides):
        raise _Obstacle("texts compared by their order")
    read = [node.index for side in sides for node in _attributes(side, "where") if node.index is not None]
    backs = [index.back for index in read if index.anchor == "running"]
    ending = any(index.anchor == "last" for index in read)
    if ending and (backs or any(index.anchor == "last" and index.back for index in read)):
        raise _Obstacle("a predicate that waits for the closure's last event and reads others by their distance")
    left, right = (_value(side, places, min(backs, default=0), "where") for side in sides)
    if len(left.events) != 1 or len(right.events) != 1:
        raise _Obstacle("a comparison with several events on one side")
    last = len(places) - 1
    if any(not -2 <= event.number <= last for event in (*left.events, *right.events)):
        raise _Obstacle("a predicate that reads a closure's elements between the first one and x[i-1]")
    return Test(condition.operator, left, right, ending)


def _field(field: ReturnField, places: dict[int, int]) -> Field:
    one: Any = _as_elements(field.expression, ("first", "last"))
    if not field.array and not isinstance(one, e.Aggregate):
        return Field(field.name, field.kind, _value(one, places, 0, "return"))
    if not isinstance(one, e.AttributeOf | e.Aggregate) or places[one.item] != len(places) - 1:
        raise _Obstacle("a list of something else than an attribute of the last item")
    if isinstance(one, e.Aggregate) and one.attribute is None:
        return Field(field.name, field.kind, Value(e.Literal(one.kind, None), ()), "count")
    if isinstance(one, e.Aggregate) and one.kind.textual:
        raise _Obstacle("an aggregate of texts in return:")
    made: Any = one.function if isinstance(one, e.Aggregate) else "list"
    return Field(field.name, field.kind, Value(e.AttributeOf(one.kind, 0, one.attribute or ""), (Event(-1),)), made)


def _as_elements(expression: Any, functions: tuple[str, ...]) -> Any:
    """``first(x.attr)``, ``last(x.attr)`` as ``x[first].attr``, ``x[last].attr``."""
    if isinstance(expression, e.Aggregate) and expression.function in functions and not expression.running:
        index = e.Index("first" if expression.function == "first" else "last")
        return e.AttributeOf(expression.kind, expression.item, expression.attribute or "", index)
    return e.rebuilt(expression, lambda inner: _as_elements(inner, functions))


def _attributes(expression: Any, key: str) -> list[e.AttributeOf]:
    nodes = list(e.walk(expression))
    if any(isinstance(node, e.Aggregate) for node in nodes):
        raise _Obstacle(f"an aggregate in {key}:")
    return [node for node in nodes if isinstance(node, e.AttributeOf)]


def _value(expression: Any, places: dict[int, int], newest: int, key: str) -> Value:
    """An expression as one over events of the chain; ``newest``: how far back of ``i`` the last event is."""
    read = list(dict.fromkeys((node.item, node.index) for node in _attributes(expression, key)))
    events = tuple(_event(places[item], index, newest, key) for item, index in read)
    return Value(_numbered(expression, {one: number for number, one in enumerate(read)}), events)


def _event(place: int, index: e.Index | None, newest: int, key: str) -> Event:
    if index is None or index.anchor == "first":
        return Event(place)
    if index.anchor == "number":
        return Event(place + index.number - 1)
    if index.anchor == "last":
        return Event(-1 - index.back, place if key == "return" else 0)
    return Event(newest - index.back - 1)


def _numbered(expression: Any, numbers: dict[tuple[int, e.Index | None], int]) -> Any:
    if isinstance(expression, e.AttributeOf):
        return replace(expression, item=numbers[expression.item, expression.index], index=None)
    return e.rebuilt(expression, lambda inner: _numbered(inner, numbers))
