"""What a predicate says about bound events: the rules of the language page, section 4, for single events and closures alike.

A `View` is what is known of a match: the events of each variable in total order, and which variables can still bind more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.naive.evaluation import COMPARE, FUNCTIONS, arithmetic, in_64_bit, is_nan, like, operands_of
from tests.naive.language import (
    COMPARISONS,
    Aggregate,
    And,
    Arith,
    Attr,
    Call,
    Compare,
    Const,
    Element,
    Event,
    In,
    IsNull,
    Like,
    Minus,
    Not,
    Or,
    references,
)


class Missing:
    """The value of a reference to what is not there: unbound, or an attribute that the type lacks."""


MISSING = Missing()


@dataclass(frozen=True)
class View:
    """Variables and their events; ``open`` ones can bind more; ``closures`` are lists."""

    events: Mapping[str, list[Event]]
    closures: frozenset[str]
    open: frozenset[str] = frozenset()

    def of(self, variable: str) -> list[Event]:
        return self.events.get(variable, [])


def holds_everywhere(predicate: Any, view: View) -> bool:
    """Whether the predicate holds for every ``i`` for which all its references exist, as far as they are known yet."""
    return all(holds(predicate, view, i) for i in instances(predicate, view))


def decided_false(predicate: Any, view: View) -> bool:
    """Whether some instance of the predicate is known and does not hold."""
    return not holds_everywhere(predicate, view)


def all_known(predicate: Any, view: View) -> bool:
    """Whether nothing that the predicate mentions can still be bound."""
    return not any(reference.var in view.open for reference in references(predicate))


def instances(predicate: Any, view: View) -> list[int | None]:
    """The values of ``i`` whose references are all known and exist; ``[None]`` for a known predicate without ``i``."""
    mentioned = list(references(predicate))
    running = [reference for reference in mentioned if index_back(reference, view) is not None]
    if any(not known(reference, view) for reference in mentioned if reference not in running):
        return []
    if not running:
        return [None]
    most = max(len(view.of(reference.var)) for reference in running) + max(index_back(r, view) or 0 for r in running)
    return [i for i in range(1, most + 1) if all(1 <= i - (index_back(r, view) or 0) <= len(view.of(r.var)) for r in running)]


def index_back(reference: Any, view: View) -> int | None:
    """How far behind ``i`` the reference looks; None where it does not speak of ``i``."""
    match reference:
        case Attr(var):
            return 0 if var in view.closures else None
        case Element(_, "i", _, back):
            return back
        case Aggregate(running=True, back=back):
            return back
    return None


def known(reference: Any, view: View) -> bool:
    """Whether what the reference speaks of is bound, or can no longer be."""
    if reference.var not in view.open:
        return True
    match reference:
        case Attr(var):
            return bool(view.of(var))
        case Element(var, "first"):
            return bool(view.of(var))
        case Element(var, int(number)):
            return len(view.of(var)) >= number
    return False


def holds(condition: Any, view: View, i: int | None, *, missing: bool = True) -> bool:
    """The truth for one ``i``. ``missing``: what a comparison with something that is not there is (UNTIL: false)."""
    match condition:
        case Not(operand):
            return not holds(operand, view, i, missing=missing)
        case And(operands):
            return all(holds(operand, view, i, missing=missing) for operand in operands)
        case Or(operands):
            return any(holds(operand, view, i, missing=missing) for operand in operands)
    if not isinstance(condition, COMPARISONS):
        raise TypeError(condition)
    if any(looked_up(reference, view, i) is MISSING for reference in references(condition)):
        return missing
    operands = [value(operand, view, i) for operand in operands_of(condition)]
    if isinstance(condition, IsNull):
        return (operands[0] is None) != condition.negated
    if any(operand is None or is_nan(operand) for operand in operands):
        return False
    match condition:
        case Compare(op):
            return COMPARE[op](*operands)
        case In(_, values, negated):
            return any(operands[0] == constant.value for constant in values) != negated
        case Like(_, pattern, negated):
            return like(operands[0], pattern) != negated
    return (operands[1] <= operands[0] <= operands[2]) != condition.negated


def value(expression: Any, view: View, i: int | None = None) -> Any:
    """The value of an expression, null where a part of it is null or missing; a bare attribute of a closure is a list."""
    match expression:
        case Const():
            return expression.value
        case Arith(op, left, right):
            return arithmetic(op, value(left, view, i), value(right, view, i))
        case Minus(operand):
            inner = value(operand, view, i)
            return None if inner is None else in_64_bit(-inner)
        case Call(function, arguments):
            values = [value(argument, view, i) for argument in arguments]
            return None if any(v is None for v in values) else in_64_bit(FUNCTIONS[function](*values))
        case Attr(var, name) if var in view.closures and i is None:
            return [None if (one := attribute(event, name)) is MISSING else one for event in view.of(var)] or None
    found = looked_up(expression, view, i)
    return None if found is MISSING else found


def looked_up(reference: Any, view: View, i: int | None) -> Any:
    """The attribute or aggregate, or MISSING."""
    events = view.of(reference.var)
    if isinstance(reference, Aggregate):
        return aggregate(reference, events if not reference.running else events[: (i or 0) - reference.back])
    match reference:
        case Attr(var, name):
            place = (i or 0) if var in view.closures else 1
        case Element(_, anchor, name, back):
            last = len(events)
            place = {"first": 1, "last": last - back, "i": (i or 0) - back}.get(anchor, anchor)
        case _:
            raise TypeError(reference)
    return attribute(events[place - 1], name) if 1 <= place <= len(events) else MISSING


def attribute(event: Event, name: str) -> Any:
    if name in ("time", "type"):
        return event[name]
    return event["attributes"].get(name, MISSING)


def aggregate(asked: Aggregate, events: list[Event]) -> Any:
    """``count`` of nothing is 0; everything else of nothing is missing. Elements whose type lacks the attribute count like nulls."""
    if asked.function == "count":
        return len(events)
    cells = [attribute(event, asked.name or "") for event in events]
    if all(cell is MISSING for cell in cells):
        return MISSING
    if asked.function in ("first", "last"):
        return cells[0 if asked.function == "first" else -1]
    values = [cell for cell in cells if cell is not MISSING and cell is not None]
    if not values:
        return None
    if asked.function == "sum":
        return in_64_bit(sum(values))
    if asked.function == "avg":
        return sum(values) / len(values)
    if any(map(is_nan, values)):
        return math.nan
    return min(values) if asked.function == "min" else max(values)
