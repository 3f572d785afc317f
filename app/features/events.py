"""Events as shedders see them: a number for what kind of event it is, and the values that a query looks at.

The papers' *event type* is what a pattern tells apart: "a quote of company i". In queries that is the type, or the type and the constants that string
attributes are compared with (``q.symbol = 'AAPL'``); here it is the combination of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from app.asc.selection import Selection
from app.bucket.kernels import EVERYWHERE
from app.bucket.route import partition_keys
from app.events.batch import Column, EventBatch
from app.events.types import Kind
from app.query.expressions import AttributeOf, Expression, walk
from app.query.plan import Catalog, Item, Plan
from shedding.candidates import JudgedEvents, Predecessors
from shedding.events.universe import period_for
from shedding.identity import identities

MOST_KINDS = 1 << 14
"""Combinations that are told apart; attributes beyond do not take part."""
_CHOICES = ("=", "in")
_NUMERIC = (Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN, Kind.DURATION)


def partitions_of(plan: Plan, batch: EventBatch, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """uint64 (rows,): hashes of the query's partitions; 0 of events that belong to all of them."""
    keys = partition_keys(batch, rows, Catalog.of((plan,)).groups[0])
    return np.where(keys.reach == EVERYWHERE, np.uint64(0), keys.hashes)


def candidate_items(plan: Plan, batch: EventBatch) -> NDArray[np.uint64]:
    """uint64 (events,), bit i: what selection lets through as item i of the query."""
    rows, own = Selection(Catalog.of((plan,)), None).select(batch).of_query(0)
    items = np.zeros(len(batch), np.uint64)
    items[rows] = own
    return items


def protected_events(plan: Plan, batch: EventBatch) -> NDArray[np.bool_]:
    """Bool (events,): events that must not be dropped, because a negation asks for them and the query allows no false positives."""
    return candidate_items(plan, batch) & np.uint64(plan.staying) != 0 if plan.staying else np.zeros(len(batch), np.bool_)


def decision_period(plan: Plan) -> int:
    """For how long what is decided about a partition of the query holds, ms; 0, for ever, where its windows are not in time."""
    window = plan.within if plan.runs is None or plan.runs.window is None else plan.runs.window
    return period_for(window.size) if window is not None and window.unit == "ms" else 0


@dataclass(frozen=True, slots=True)
class Features:
    """How the events of one query are described.

    Attributes:
        types: event types that the query names, sorted.
        choices: by string attribute, the constants that it is compared with, sorted.
        numbers: by (type, choice, ...) in mixed radix, the number of the kind of event; -1 where no item takes such an event.
        attributes: numeric attributes that the query looks at, sorted.
        labels: by number, what people call the kind of event.
        plan: the query's.
    """

    types: tuple[str, ...]
    choices: tuple[tuple[str, tuple[str, ...]], ...]
    numbers: tuple[int, ...]
    attributes: tuple[str, ...]
    labels: tuple[str, ...]
    plan: Plan

    @staticmethod
    def of(plan: Plan) -> Features:
        """Those of a query."""
        types = tuple(sorted({name for item in plan.items for name in item.types}))
        choices = _choices(plan, len(types) + 1)
        shape = (len(types) + 1, *(len(values) + 1 for _, values in choices))
        taken = np.zeros(shape, dtype=np.bool_)
        for item in plan.items:
            taken[np.ix_(*_taken_by(item, types, choices))] = True
        numbers = np.full(taken.size, -1, dtype=np.int64)
        numbers[taken.ravel()] = np.arange(np.count_nonzero(taken))
        labels = tuple(_label(place, types, choices) for place in np.argwhere(taken).tolist())
        return Features(types, choices, tuple(numbers.tolist()), _numeric(plan), labels, plan)

    def judged(self, batch: EventBatch, before: Predecessors | None = None) -> JudgedEvents:
        """The events of a batch.

        Args:
            batch: in the order of the stream.
            before: the events before them, for panes.
        """
        return self.described(batch, candidate_items(self.plan, batch), before)

    def described(self, batch: EventBatch, items: NDArray[np.uint64], before: Predecessors | None = None) -> JudgedEvents:
        """The same, where it is known which items of the query each event can be: uint64 (events,)."""
        key = partitions_of(self.plan, batch, np.arange(len(batch)))
        earlier, period = Predecessors() if before is None else before, decision_period(self.plan)
        identity = identities(batch.source, batch.offset)
        return JudgedEvents(identity, batch.time, self.kinds(batch), self.values(batch), earlier, items, key, period, self.plan.staying)

    def values(self, batch: EventBatch) -> NDArray[np.float64]:
        """float64 (attributes, events): numbers; NaN where an event has none."""
        values = np.empty((len(self.attributes), len(batch)), dtype=np.float64)
        for row, name in enumerate(self.attributes):
            values[row] = _numbers(batch.columns.get(name), len(batch))
        return values

    def kinds(self, batch: EventBatch) -> NDArray[np.int32]:
        """int32 (events,): the number of what kind of event each is; -1: of no interest."""
        place = _entries(batch.type, self.types, len(batch))
        for name, values in self.choices:
            place = place * (len(values) + 1) + _entries(batch.columns.get(name), values, len(batch))
        return np.array(self.numbers, dtype=np.int32)[place]

    def repetition(self, plan: Plan) -> NDArray[np.float64]:
        """float64 (kinds,): how often the query's positive items name each kind of event, times its weight (BL's ``fp``)."""
        shape = (len(self.types) + 1, *(len(values) + 1 for _, values in self.choices))
        counts = np.zeros(shape, dtype=np.float64)
        for item in plan.positive:
            counts[np.ix_(*_taken_by(item, self.types, self.choices))] += plan.weight
        numbers = np.array(self.numbers)
        return counts.ravel()[numbers >= 0]


def _choices(plan: Plan, combinations: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, set[str]] = {}
    for item in plan.items:
        for test in item.tests:
            if test.operator in _CHOICES and test.kind.textual:
                found.setdefault(test.attribute, set()).update(str(value) for value in test.values)
    kept: list[tuple[str, tuple[str, ...]]] = []
    for name, values in sorted(found.items()):
        if combinations * prod(len(own) + 1 for _, own in kept) * (len(values) + 1) <= MOST_KINDS:
            kept.append((name, tuple(sorted(values))))
    return tuple(kept)


def _taken_by(item: Item, types: tuple[str, ...], choices: Iterable[tuple[str, tuple[str, ...]]]) -> list[list[int]]:
    """Per axis the places that the item takes; the last place of an axis is for everything else."""
    axes = [[types.index(name) for name in item.types] or list(range(len(types) + 1))]
    for name, values in choices:
        own = [test for test in item.tests if test.attribute == name and test.operator in _CHOICES]
        allowed = [set(map(str, test.values)) for test in own]
        axes.append([k for k, value in enumerate(values) if all(value in some for some in allowed)] + ([] if own else [len(values)]))
    return axes


def _label(place: list[int], types: tuple[str, ...], choices: tuple[tuple[str, tuple[str, ...]], ...]) -> str:
    parts = [types[place[0]] if place[0] < len(types) else "any type"]
    parts += [f"{name}={values[k]}" for (name, values), k in zip(choices, place[1:], strict=True) if k < len(values)]
    return " ".join(parts)


def _entries(column: Column | None, values: tuple[str, ...], events: int) -> NDArray[np.int64]:
    """int64 (events,): place of each event's text among the values; the place behind them for all others."""
    other = len(values)
    if column is None or column.dictionary is None:
        return np.full(events, other, dtype=np.int64)
    known: Mapping[bytes, int] = {value.encode(): k for k, value in enumerate(values)}
    of_entry = np.array([known.get(entry, other) for entry in column.dictionary.entries()] or [other], dtype=np.int64)
    found = of_entry[column.values]
    return found if column.state is None else np.where(column.state == 0, found, other)


def _numbers(column: Column | None, events: int) -> NDArray[np.float64]:
    if column is None or column.dictionary is not None:
        return np.full(events, np.nan)
    values = column.values.astype(np.float64)
    return values if column.state is None else np.where(column.state == 0, values, np.nan)


def _numeric(plan: Plan) -> tuple[str, ...]:
    conditions: list[Expression] = [part for item in plan.items for part in item.local] + [join.condition for join in plan.joins]
    read = {part.attribute for one in conditions for part in walk(one) if isinstance(part, AttributeOf) and part.kind in _NUMERIC}
    tested = {test.attribute for item in plan.items for one in (item.tests, *item.either) for test in one if test.kind in _NUMERIC}
    return tuple(sorted((read | tested) - {"time", "type"}))
