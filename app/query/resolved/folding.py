"""Arithmetic on constants, done once, by the rules that the engine follows for every event; and counts that are constants."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from app.events.types import Kind
from app.query import expressions as e


def fold(expression: e.Expression) -> e.Expression:
    """Arithmetic on constants, done once; left alone where the result is null, infinite or no number."""
    if isinstance(expression, e.Negative) and isinstance(expression.operand, e.Literal):
        value = expression.operand.value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _number(expression.kind, -value)
    if isinstance(expression, e.Arithmetic) and isinstance(expression.left, e.Literal) and isinstance(expression.right, e.Literal):
        left, right = expression.left.value, expression.right.value
        if isinstance(left, int | float) and isinstance(right, int | float) and not (expression.operator in "/%" and right == 0):
            value = _OPERATIONS[expression.operator](left, right)
            return _number(expression.kind, value) if math.isfinite(value) else expression
    return expression


def counted(expression: Any) -> Any:
    """The expression with 1 in place of the counts: of items that bind one event each, there is nothing else to aggregate."""
    if isinstance(expression, e.Aggregate):
        return e.Literal(Kind.INTEGER, 1)
    return fold(e.rebuilt(expression, counted)) if isinstance(expression, e.Arithmetic | e.Negative) else e.rebuilt(expression, counted)


def _remainder(left: float, right: float) -> float:
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "%": _remainder,
}


def _number(kind: Kind, value: float) -> e.Literal:
    if kind is Kind.INTEGER and not -(1 << 63) <= value < 1 << 63:
        return e.Literal(Kind.FLOAT, float(value))
    if kind in (Kind.TIME, Kind.DURATION) and value == int(value):
        return e.Literal(kind, int(value))
    return e.Literal(kind, value)
