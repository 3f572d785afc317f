"""What a query sees: events, explicit windows, partitions (language page, sections 2, 4 and 5).

A `Scope` is one partition of one window (or of the whole input); events are numbered by their place in the total order of the input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.naive.language import Equivalence, Event
from tests.naive.patterns import WholeQuery, Window
from tests.naive.predicates import View, holds

Types = dict[str, set[str]]
"""Event types and their attributes."""


@dataclass(frozen=True)
class Scope:
    """One partition of one window.

    Attributes:
        events: the whole input in total order.
        stream: numbers of the window's events, of all partitions.
        members: numbers of those of this partition.
        key: the partition's value per attribute of an equivalence test.
        window: its number, None without explicit windows.
        end: the window's end in ms.
    """

    events: list[Event]
    stream: list[int]
    members: list[int]
    key: dict[str, Any]
    window: int | None = None
    end: int | None = None

    def rank(self, event: int) -> int:
        """How many events of the partition are before it."""
        return sum(member < event for member in self.members)

    def agrees(self, event: int) -> bool:
        """Whether a negated event has the values of the partition; an attribute that its type lacks agrees with every value."""
        own = self.events[event]["attributes"]
        return all(name not in own or own[name] == known for name, known in self.key.items())


def events_of(lines: list[dict[str, Any]], types: Types) -> list[Event]:
    """Lines as events in total order; an attribute that a line leaves out but its type has is null."""
    events = [
        {
            "type": line["type"],
            "time": line["time"],
            "position": position,
            "attributes": {name: line.get(name) for name in sorted(types[line["type"]] - {"type", "time"})},
        }
        for position, line in enumerate(lines)
    ]
    return sorted(events, key=lambda event: (event["time"], event["position"]))


def types_of(lines: list[dict[str, Any]]) -> Types:
    """Inferred types: an attribute belongs to a type when one event of the type has it."""
    types: Types = {}
    for line in lines:
        types.setdefault(line["type"], set()).update(line.keys() - {"type", "time"})
    return types


def scopes(query: WholeQuery, events: list[Event]) -> Iterator[Scope]:
    """Every window's every partition."""
    everything = list(range(len(events)))
    names = [test.attribute for test in query.equivalence]
    keys = [key_of(query.equivalence, event) for event in events]

    def partitions(stream: list[int]) -> Iterator[tuple[dict[str, Any], list[int]]]:
        for key in dict.fromkeys(keys[number] for number in stream if keys[number] is not None):
            yield dict(zip(names, key, strict=True)), [number for number in stream if keys[number] == key]

    if query.window is not None and query.window.per_partition:
        for key, members in partitions(everything):
            for number, end, stream in windows(query.window, events, members):
                yield Scope(events, stream, stream, key, number, end)
        return
    cut = windows(query.window, events, everything) if query.window is not None else [(None, None, everything)]
    for number, end, stream in cut:
        for key, members in partitions(stream):
            yield Scope(events, stream, members, key, number, end)


def key_of(tests: tuple[Equivalence, ...], event: Event) -> tuple[Any, ...] | None:
    """The event's partition; None where it is in none: it lacks an attribute, one is null, or not the fixed value."""
    values = [event["attributes"].get(test.attribute) for test in tests]
    if any(v is None or (isinstance(v, float) and math.isnan(v)) for v in values):
        return None
    if any(test.value is not None and test.value.value != v for test, v in zip(tests, values, strict=True)):
        return None
    return tuple(values)


def windows(window: Window, events: list[Event], numbers: list[int]) -> Iterator[tuple[int, int, list[int]]]:
    """(number, end in ms, events) of every window that holds an event."""
    size, timed = window.size.size, window.size.unit == "ms"
    slide = window.slide.size if window.slide is not None else size
    times = [events[number]["time"] for number in numbers]
    if window.opener is not None:
        for rank, number in enumerate(numbers):
            if opens(window, events[number]):
                inside = numbers[rank:] if timed else numbers[rank : rank + size]
                inside = [one for one in inside if not timed or events[one]["time"] < times[rank] + size]
                yield events[number]["position"], times[rank] + size if timed else events[inside[-1]]["time"], inside
    elif timed and numbers:
        for k in range((min(times) - size) // slide, max(times) // slide + 1):
            inside = [one for one, time in zip(numbers, times, strict=True) if k * slide <= time < k * slide + size]
            if inside:
                yield k, k * slide + size, inside
    elif not timed:
        for k in range(-(-len(numbers) // slide)):
            inside = numbers[k * slide : k * slide + size]
            yield k, events[inside[-1]]["time"], inside


def opens(window: Window, event: Event) -> bool:
    assert window.opener is not None
    if event["type"] not in window.opener.types:
        return False
    view = View({window.opener.var: [event]} if window.opener.var else {}, frozenset())
    return window.condition is None or holds(window.condition, view, None)
