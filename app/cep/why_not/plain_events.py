"""Events as Python objects, with all that a diagnosis asks of them: partition, ranks, windows, and which items they can be."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.cep.why_not.plain_values import MISSING, holds, test_holds
from app.events.batch import ABSENT, PRESENT, Column, EventBatch
from app.events.types import Kind
from app.query import expressions as e
from app.query.explain.explain_runs import binding_names, opens
from app.query.explain.stages import show, show_either, show_test
from app.query.plan import Item, Plan

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """An event of the file.

    Attributes:
        rank: its place in the total order.
        line: 0-based, as `cep replay` counts positions; of composite events of other queries query/number.
        attributes: null ones are None, absent ones are not there.
        key: its values of the equivalence attributes; None where one is null or not there.
        key_rank: its place among the events with its key.
        windows: the first and the last explicit window that it lies in; (0, 0) where the query has none.
    """

    rank: int
    line: int | str
    time: int
    type: str
    attributes: Mapping[str, Any]
    key: Key | None
    key_rank: int
    windows: tuple[int, int] = (0, 0)

    def cell(self, attribute: str) -> Any:
        """The value of an attribute, None for null, or MISSING."""
        if attribute == "time":
            return self.time
        return self.type if attribute == "type" else self.attributes.get(attribute, MISSING)


@dataclass(frozen=True, slots=True)
class OpenedWindow:
    """An explicit window that an event opened, or a count window: from a rank and time on."""

    rank: int
    time: int


class Stream:
    """All events of a file that a plan reads, in total order.

    Args:
        plan: with `Plan.runs`.
        batch: in total order.
        lines: by row of the batch.
    """

    def __init__(self, plan: Plan, batch: EventBatch, lines: list[int | str]) -> None:
        self.plan = plan
        self.opened: list[OpenedWindow] = []
        cells = {name: _cells(column) for name, column in batch.columns.items()}
        types = _cells(batch.type)
        ranks: dict[Key | None, int] = defaultdict(int)
        self.events: list[Seen] = []
        for row, (time, line) in enumerate(zip(batch.time.tolist(), lines, strict=True)):
            attributes = {name: column[row] for name, column in cells.items() if column[row] is not MISSING}
            values = tuple(attributes.get(name) for name in sorted(plan.equivalence))
            key = None if any(value is None or value != value for value in values) else values  # noqa: PLR0124 - NaN
            event = Seen(row, line, time, types[row], attributes, key, ranks[key])
            self.events.append(self._in_windows(event))
            ranks[key] += 1
        self.by_key: dict[Key, list[Seen]] = defaultdict(list)
        for event in self.events:
            if event.key is not None:
                self.by_key[event.key].append(event)

    def _in_windows(self, event: Seen) -> Seen:
        window = self.plan.runs.window if self.plan.runs is not None else None
        if window is None:
            return event
        if window.slide is None:
            if self.fails(self.plan.items[window.opener], event) is None:
                self.opened.append(OpenedWindow(event.rank, event.time))
            place = event.time if window.unit == "ms" else event.rank
            starts = [one.time if window.unit == "ms" else one.rank for one in self.opened]
            first = next((k for k, start in enumerate(starts) if place - start < window.size), len(starts))
            span = (first, len(starts) - 1)
        else:
            place = event.time if window.unit == "ms" else event.key_rank if window.per_partition else event.rank
            first = (place - window.size) // window.slide + 1
            span = (first if window.unit == "ms" else max(0, first), place // window.slide)
        return Seen(event.rank, event.line, event.time, event.type, event.attributes, event.key, event.key_rank, span)

    def agrees(self, event: Seen, bound: Seen) -> bool:
        """Whether a negated event has the key of a bound one, as far as it has the attributes."""
        if event.key is not None or bound.key is None:
            return event.key == bound.key
        return all(event.attributes.get(name, value) == value for name, value in zip(sorted(self.plan.equivalence), bound.key, strict=True))

    def rank_beside(self, event: Seen, bound: Seen) -> int:
        """How many events of a bound one's partition came before an event."""
        if event.key == bound.key or bound.key is None:
            return event.key_rank
        return bisect_left(self.by_key[bound.key], event.rank, key=lambda one: one.rank)

    def candidates(self, item: Item) -> list[Seen]:
        """The events that can be an item; negated ones also those without the equivalence attributes that their type lacks."""
        return [event for event in self.events if self.fails(item, event) is None and self.keyless(item, event) is None]

    def fits_type(self, item: Item, event: Seen) -> bool:
        """Whether an event has one of the types of an item."""
        return not item.types or event.type in item.types

    def keyless(self, item: Item, event: Seen) -> str | None:
        """Which equivalence attribute keeps an event out of every partition."""
        if event.key is not None:
            return None
        for name in sorted(self.plan.equivalence):
            if name not in event.attributes:
                if item.negated and name in item.lacks:
                    continue
                return f"it has no {name}, so it is in no partition"
            if event.attributes[name] is None:
                return f"its {name} is null, so it is in no partition"
            if event.attributes[name] != event.attributes[name]:
                return f"its {name} is not a number, so it is in no partition"
        return None

    def fails(self, item: Item, event: Seen) -> str | None:
        """Why an event is no candidate of an item by its type and its own attributes, or None."""
        if not self.fits_type(item, event):
            return f"it is of type {event.type}"
        for test in item.tests:
            found = event.cell(test.attribute)
            if not test_holds(test, found):
                return f"{show_test(test)} is false: {test.attribute} is {shown_value(found, test.kind)}"
        if item.either and not any(all(test_holds(test, event.cell(test.attribute)) for test in one) for one in item.either):
            return f"{show_either(item.either)} is false"
        names = defaultdict(lambda: "it") if opens(item) else binding_names(self.plan)
        for condition in item.local:
            if not holds(condition, lambda one: event.cell(one.attribute)):
                return f"{show(condition, names)} is false"
        return None


def shown_value(value: Any, kind: Kind) -> str:
    """A value for people."""
    if value is MISSING:
        return "not there"
    return show(e.Literal(kind, bool(value) if kind is Kind.BOOLEAN and value is not None else value), {})


def _cells(column: Column) -> list[Any]:
    """The cells of a column: values, None, MISSING."""
    values: list[Any] = column.values.tolist()
    if column.dictionary is not None:
        entries: list[Any] = list(column.dictionary.entries())
        if column.kind is not Kind.BYTES:
            entries = [entry.decode() for entry in entries]
        states = [PRESENT] * len(values) if column.state is None else column.state.tolist()
        values = [entries[code] if state == PRESENT else None for code, state in zip(values, states, strict=True)]
    if column.kind is Kind.BOOLEAN:
        values = [bool(value) if value is not None else None for value in values]
    if column.state is None:
        return values
    answers: dict[int, Any] = {ABSENT: MISSING}
    return [value if state == PRESENT else answers.get(state) for value, state in zip(values, column.state.tolist(), strict=True)]
