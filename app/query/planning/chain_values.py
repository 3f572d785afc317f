"""What predicates and return fields of a chain read: values of single events, by their place.

Where a closure binds so many events, an element is named by its place like any other event; what speaks of ``i`` in it is asked once per event.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from typing import Literal as OneOf

from app.events.types import Kind
from app.query import expressions as e
from app.query.plan import ReturnField
from app.query.planning.obstacle import Obstacle


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
class Field:
    """A return field.

    Attributes:
        value: over events; of the others an attribute of any element of the closure.
        made: ``value``; or of all elements of a closure: a ``list``, or an aggregate.
        first: place of the closure's first element.
        count: how many there are (of a partial match fewer); None: all from there on.
    """

    name: str
    kind: Kind
    value: Value
    made: OneOf["value", "list", "count", "sum", "avg", "min", "max"] = "value"
    first: int = 0
    count: int | None = None


CLOSING = 1 << 20
"""Number of the event that ends a closure, in tests: how many events are in front of it is not known before."""
BEFORE = Event(-2)


@dataclass(frozen=True, slots=True)
class Spans:
    """Where bindings stand.

    Attributes:
        places: by binding, the place of its first event.
        counts: of those that bind so many events, that number.
        all: places.
        partial: whether partial matches are told, of which they may bind fewer.
    """

    places: dict[int, int]
    counts: dict[int, int]
    all: int
    partial: bool = False


def tests_of(condition: Any, spans: Spans) -> list[Test]:
    """A predicate as tests: what speaks of ``i`` in a closure of so many events, as one per event.

    Raises:
        Obstacle: it is no comparison of two single events.
    """
    nodes = [node for node in e.walk(condition) if isinstance(node, e.AttributeOf) and node.item in spans.counts]
    running = {node.item for node in nodes if node.index is not None and node.index.anchor == "running"}
    others = {node.item for node in e.walk(condition) if isinstance(node, e.AttributeOf) and node.index is not None} - running
    if not running:
        return [_test(_counted(condition, spans, 0), spans)]
    if len(running) > 1 or any(_is_running(node) for node in e.walk(condition) if getattr(node, "item", None) in others):
        raise Obstacle("a predicate that speaks of i in several items")
    (item,) = running
    backs = [node.index.back for node in nodes if node.index is not None and node.index.anchor == "running"]
    rounds = range(1 + max(backs), spans.counts[item] + min(backs) + 1)
    return [_test(_counted(condition, spans, i), spans) for i in rounds]


def closing_test(condition: Any, spans: Spans, closing: int) -> Test:
    """A predicate that speaks of the event that ends a closure, and of one in front of it.

    Raises:
        Obstacle: it asks for what a partial match does not keep until then.
    """
    if any(_is_running(node) for node in e.walk(condition)):
        raise Obstacle("a predicate that compares every element of a closure with the item behind it")
    places = spans.places | {closing: CLOSING}
    known = replace(spans, places=places, all=CLOSING + 1)
    test = _test(_counted(condition, known, 0), known)
    left, right = (replace(side, events=tuple(map(_seen_from_behind, side.events))) for side in (test.left, test.right))
    if any(spans.all <= event.number < CLOSING for event in (*left.events, *right.events)):
        raise Obstacle("a predicate that reads a closure's elements between the first one and the last one")
    return replace(test, left=left, right=right, ending=False)


def _seen_from_behind(event: Event) -> Event:
    """A closure's last element, seen from the event that ends it."""
    return BEFORE if event == Event(-1) else event


def closed_field(field: Field, spans: Spans) -> Field:
    """A return field of a chain whose closure an item ends, made with that at `CLOSING`: the last event is that item's.

    Raises:
        Obstacle: it reads an element of the closure that may be another event.
    """

    def moved(event: Event) -> Event:
        if event.number >= spans.all and event.number != CLOSING:
            raise Obstacle("a return field that reads a closure's elements by number, with an item behind it")
        if event.number == CLOSING:
            return Event(-1)
        return replace(event, number=event.number - 1) if event.number < 0 else event

    return replace(field, value=replace(field.value, events=tuple(map(moved, field.value.events))))


def _is_running(node: Any) -> bool:
    return isinstance(node, e.AttributeOf) and node.index is not None and node.index.anchor == "running"


def _is_last(node: e.AttributeOf) -> bool:
    return node.index is not None and node.index.anchor == "last"


def _counted(expression: Any, spans: Spans, i: int) -> Any:
    """An expression in which the elements of closures of so many events are named by their number."""
    if isinstance(expression, e.Aggregate) and expression.item in spans.counts and expression.function == "last" and not expression.running:
        index = e.Index("number", spans.counts[expression.item])
        return e.AttributeOf(expression.kind, expression.item, expression.attribute or "", index)
    if not isinstance(expression, e.AttributeOf) or expression.item not in spans.counts or expression.index is None:
        return e.rebuilt(expression, lambda inner: _counted(inner, spans, i))
    count, index = spans.counts[expression.item], expression.index
    by_anchor = {"first": 1, "last": count - index.back, "number": index.number, "running": i - index.back}
    number = by_anchor[index.anchor]
    if not 1 <= number <= count:
        raise Obstacle("an element that a closure cannot have")
    return replace(expression, index=e.Index("number", number))


def _test(condition: Any, spans: Spans) -> Test:
    if not isinstance(condition, e.Comparison) or isinstance(condition.left, e.Condition) or isinstance(condition.right, e.Condition):
        raise Obstacle("a predicate that is no comparison of two events")
    sides = (_as_elements(condition.left, ("last",)), _as_elements(condition.right, ("last",)))
    if condition.operator not in ("=", "!=") and any(side.kind.textual for side in sides):
        raise Obstacle("texts compared by their order")
    read = [node.index for side in sides for node in _attributes(side, "where") if node.index is not None]
    backs = [index.back for index in read if index.anchor == "running"]
    ending = any(index.anchor == "last" for index in read)
    if ending and (backs or any(index.anchor == "last" and index.back for index in read)):
        raise Obstacle("a predicate that waits for the closure's last event and reads others by their distance")
    left, right = (_value(side, spans.places, min(backs, default=0), "where") for side in sides)
    if len(left.events) != 1 or len(right.events) != 1:
        raise Obstacle("a comparison with several events on one side")
    last = spans.all - 1
    if any(not -2 <= event.number <= last for event in (*left.events, *right.events)):
        raise Obstacle("a predicate that reads a closure's elements between the first one and x[i-1]")
    return Test(condition.operator, left, right, ending)


def field_of(field: ReturnField, spans: Spans, last: int) -> Field:
    """A return field; ``last``: the binding that is bound so often as comes.

    Raises:
        Obstacle: it reads what a chain does not keep.
    """
    one: Any = _as_elements(field.expression, ("first", "last"))
    last_of = [node for node in e.walk(one) if isinstance(node, e.AttributeOf) and node.item in spans.counts and _is_last(node)]
    if last_of and spans.partial:
        raise Obstacle("on_timeout: emit beside the last event of a repeated item")
    if not field.array and not isinstance(one, e.Aggregate):
        return Field(field.name, field.kind, _value(_counted(one, spans, 0), spans.places, 0, "return"))
    if not isinstance(one, e.AttributeOf | e.Aggregate) or (one.item != last and one.item not in spans.counts):
        raise Obstacle("a list of something else than an attribute of a repeated item")
    span = (spans.places[one.item], spans.counts.get(one.item))
    if isinstance(one, e.Aggregate) and one.attribute is None:
        return Field(field.name, field.kind, Value(e.Literal(one.kind, None), ()), "count", *span)
    made: Any = one.function if isinstance(one, e.Aggregate) else "list"
    return Field(field.name, field.kind, Value(e.AttributeOf(one.kind, 0, one.attribute or ""), (Event(-1),)), made, *span)


def _as_elements(expression: Any, functions: tuple[str, ...]) -> Any:
    """``first(x.attr)``, ``last(x.attr)`` as ``x[first].attr``, ``x[last].attr``."""
    if isinstance(expression, e.Aggregate) and expression.function in functions and not expression.running:
        index = e.Index("first" if expression.function == "first" else "last")
        return e.AttributeOf(expression.kind, expression.item, expression.attribute or "", index)
    return e.rebuilt(expression, lambda inner: _as_elements(inner, functions))


def _attributes(expression: Any, key: str) -> list[e.AttributeOf]:
    nodes = list(e.walk(expression))
    if any(isinstance(node, e.Aggregate) for node in nodes):
        raise Obstacle(f"an aggregate in {key}:")
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
