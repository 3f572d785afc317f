"""A partial match as a Python object, and what predicates say about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.cep.why_not.plain_events import Seen, shown_value
from app.cep.why_not.plain_values import MISSING, aggregate, holds, references, value
from app.query import expressions as e
from app.query.explain.stages import show


@dataclass(frozen=True, slots=True)
class Step:
    """An event bound to an item. ``entered``: numbers of the ANDs whose first event it is."""

    item: int
    event: Seen
    entered: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Crossed:
    """A negation that a partial match has passed: the step before it (-1: none) and the step behind it."""

    negation: int
    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class Run:
    """A partial match.

    Attributes:
        state: number of its state.
        steps: bound events, in order.
        closed: items whose ways it has passed for good, but for skip-till-any ones.
        crossed: negations, decided or not.
        windows: the explicit windows that it lies in.
    """

    state: int
    steps: tuple[Step, ...] = ()
    closed: frozenset[int] = frozenset()
    crossed: tuple[Crossed, ...] = ()
    windows: tuple[int, int] = (0, 0)

    @property
    def first(self) -> Seen:
        """The first event."""
        return self.steps[0].event

    @property
    def last(self) -> Seen:
        """The last event."""
        return self.steps[-1].event

    def of(self, binding: int, bindings: tuple[int, ...]) -> list[Seen]:
        """The events of a binding, in order."""
        return [step.event for step in self.steps if bindings[step.item] == binding]


class Pending(Exception):  # noqa: N818 - no error: what is asked is not known yet
    """What a predicate reads can still be bound."""


class NoInstance(Exception):  # noqa: N818 - no error: there is no such i
    """An index runs out of its closure."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Looks references up among those that are looked up already."""

    cells: Mapping[int, Any]

    def __call__(self, one: Any) -> Any:
        """The cell of a reference."""
        return self.cells[id(one)]


@dataclass(frozen=True, slots=True)
class View:
    """What a predicate is asked about.

    Attributes:
        bound: by binding, its events.
        opened: bindings that can still bind, as a mask.
        own: a negated event, or one that an UNTIL is asked, and its binding.
    """

    bound: Mapping[int, list[Seen]]
    opened: int = 0
    own: tuple[int, Seen] | None = None

    def failure(self, condition: Any) -> int | Literal["holds", "pending"]:
        """``holds``, ``pending``, or the ``i`` (0 without one) for which the condition is false."""
        asked = references(condition)
        for i in range(1, self._most(asked) + 1) if any(map(self._runs, asked)) else (0,):
            try:
                looked_up = {id(one): self._look_up(one, i) for one in asked}
            except NoInstance:
                continue
            except Pending:
                return "pending"
            if not holds(condition, _Known(looked_up)):
                return i
        return "holds"

    def stops(self, condition: Any, i: int) -> bool:
        """Whether the predicate of an UNTIL holds at the ``i``-th element; what is missing makes comparisons false."""

        def cell(one: Any) -> Any:
            try:
                return self._look_up(one, i)
            except NoInstance:
                return aggregate(one, []) if isinstance(one, e.Aggregate) else MISSING

        return holds(condition, cell, missing=False)

    def values(self, condition: Any, i: int, names: Mapping[int, str]) -> str:
        """The condition with values in place of names, for people."""

        def cell(one: Any) -> Any:
            return self._look_up(one, i)

        if isinstance(condition, e.Comparison):
            sides = [_side(side, cell) for side in (condition.left, condition.right)]
            return f"{sides[0]} {condition.operator} {sides[1]} is false"
        return ", ".join(dict.fromkeys(f"{show(one, names)} is {shown_value(cell(one), one.kind)}" for one in references(condition)))

    def _runs(self, one: Any) -> bool:
        if isinstance(one, e.Aggregate):
            return one.running
        return one.index is not None and one.index.anchor == "running" and not self._is_own(one)

    def _is_own(self, one: Any) -> bool:
        plain = isinstance(one, e.AttributeOf) and (one.index is None or (one.index.anchor, one.index.back) == ("running", 0))
        return plain and self.own is not None and one.item == self.own[0]

    def _most(self, asked: list[Any]) -> int:
        running = [one for one in asked if self._runs(one)]
        backs = [one.back if isinstance(one, e.Aggregate) else one.index.back for one in running]
        return max((len(self.bound.get(one.item, [])) for one in running), default=0) + max(backs, default=0)

    def _look_up(self, one: Any, i: int) -> Any:
        if self._is_own(one) and self.own is not None:
            return self.own[1].cell(one.attribute)
        events, open_ = self.bound.get(one.item, []), self.opened >> one.item & 1
        if isinstance(one, e.Aggregate):
            if one.running:
                if not 1 <= i - one.back <= len(events):
                    raise NoInstance
                events = events[: i - one.back]
            elif open_:
                raise Pending
            return aggregate(one, [event.cell(one.attribute) if one.attribute is not None else None for event in events])
        if one.index is not None and one.index.anchor == "running":
            if not 1 <= i - one.index.back <= len(events):
                raise NoInstance
            return events[i - one.index.back - 1].cell(one.attribute)
        if one.index is not None and one.index.anchor == "last":
            if open_:
                raise Pending
            place = len(events) - one.index.back
        else:
            place = len(events) if one.index is None else 1 if one.index.anchor == "first" else one.index.number
        if 1 <= place <= len(events):
            return events[place - 1].cell(one.attribute)
        if open_:
            raise Pending
        return MISSING


def _side(expression: Any, cell: Any) -> str:
    """The value of one side of a comparison."""
    if any(cell(one) is MISSING for one in references(expression)):
        return "(not there)"
    return shown_value(value(expression, cell), expression.kind)
