"""What an expression is worth, by the rules for null, absent and unbound of the language page, section 4.

``bound`` maps variables to events. The rules are applied to each comparison alone, before NOT, AND and OR.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.naive.language import (
    COMPARISONS,
    And,
    Arith,
    Attr,
    Between,
    Call,
    Compare,
    Const,
    Event,
    In,
    IsNull,
    Like,
    Minus,
    Not,
    Or,
    references,
)

EARTH_RADIUS_M = 6_371_000


def holds(condition: Any, bound: Mapping[str, Event]) -> bool:
    """The truth of a predicate."""
    match condition:
        case Not(operand):
            return not holds(operand, bound)
        case And(operands):
            return all(holds(operand, bound) for operand in operands)
        case Or(operands):
            return any(holds(operand, bound) for operand in operands)
    if not isinstance(condition, COMPARISONS):
        raise TypeError(condition)
    return comparison_holds(condition, bound)


def comparison_holds(comparison: Any, bound: Mapping[str, Event]) -> bool:
    if any(not exists(reference, bound) for reference in references(comparison)):
        return True
    operands = [value(operand, bound) for operand in operands_of(comparison)]
    if isinstance(comparison, IsNull):
        return (operands[0] is None) != comparison.negated
    if any(operand is None or is_nan(operand) for operand in operands):
        return False
    match comparison:
        case Compare(op):
            return COMPARE[op](*operands)
        case In(_, values, negated):
            return any(operands[0] == constant.value for constant in values) != negated
        case Between(negated=negated):
            return (operands[1] <= operands[0] <= operands[2]) != negated
        case Like(_, pattern, negated):
            return like(operands[0], pattern) != negated
    raise TypeError(comparison)


def exists(reference: Attr, bound: Mapping[str, Event]) -> bool:
    """Whether the variable is bound and its event's schema has the attribute."""
    event = bound.get(reference.var)
    return event is not None and (reference.name in ("time", "type") or reference.name in event["attributes"])


def operands_of(comparison: Any) -> list[Any]:
    match comparison:
        case Compare(_, left, right):
            return [left, right]
        case Between(operand, low, high):
            return [operand, low, high]
    return [comparison.operand]


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def value(expression: Any, bound: Mapping[str, Event]) -> Any:
    """The value of an expression; None where a part of it is null, absent or unbound."""
    match expression:
        case Const():
            return expression.value
        case Attr(var, name):
            if not exists(expression, bound):
                return None
            return bound[var][name] if name in ("time", "type") else bound[var]["attributes"][name]
        case Arith(op, left, right):
            return arithmetic(op, value(left, bound), value(right, bound))
        case Minus(operand):
            inner = value(operand, bound)
            return None if inner is None else in_64_bit(-inner)
        case Call(function, arguments):
            values = [value(argument, bound) for argument in arguments]
            return None if any(v is None for v in values) else in_64_bit(FUNCTIONS[function](*values))
    raise TypeError(expression)


def arithmetic(op: str, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if op in "/%" and right == 0:
        return None
    if op == "+":
        return in_64_bit(left + right)
    if op == "-":
        return in_64_bit(left - right)
    if op == "*":
        return in_64_bit(left * right)
    if op == "/":
        return float(left) / float(right)
    return remainder(left, right)


def remainder(left: Any, right: Any) -> Any:
    """With the sign of the dividend."""
    if isinstance(left, int) and isinstance(right, int):
        size = abs(left) % abs(right)
        return -size if left < 0 else size
    if math.isinf(left):
        return math.nan
    return math.fmod(left, right)


def in_64_bit(result: Any) -> Any:
    """Integers never wrap: what does not fit becomes a float."""
    if isinstance(result, int) and not isinstance(result, bool) and not -(2**63) <= result < 2**63:
        return float(result)
    return result


def is_nan(operand: Any) -> bool:
    return isinstance(operand, float) and math.isnan(operand)


def like(content: str, pattern: str) -> bool:
    parts = (".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern)
    return re.fullmatch("".join(parts), content, re.DOTALL) is not None


def half_away(number: float) -> float:
    if isinstance(number, int) or not math.isfinite(number):
        return number
    floor = math.floor(abs(number))
    return math.copysign(floor + (abs(number) - floor >= 0.5), number)


def whole(function: Callable[[float], int]) -> Callable[[float], float]:
    def apply(number: float) -> float:
        if isinstance(number, int):
            return number
        return float(function(number)) if math.isfinite(number) else number

    return apply


def extreme(choose: Callable[[Any], float], numbers: tuple[float, ...]) -> float:
    """The least or greatest number; a float if one of them is, as with arithmetic."""
    if any(map(is_nan, numbers)):
        return math.nan
    return float(choose(numbers)) if any(isinstance(number, float) for number in numbers) else choose(numbers)


def haversine(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    phi1, phi2 = math.radians(lat1), math.radians(lat2)
    h = math.sin((phi2 - phi1) / 2) ** 2 + math.cos(phi1) * math.cos(phi2) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
    return 2 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(h)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "min": lambda *numbers: extreme(min, numbers),
    "max": lambda *numbers: extreme(max, numbers),
    "round": half_away,
    "floor": whole(math.floor),
    "ceil": whole(math.ceil),
    "length": len,
    "lower": str.lower,
    "upper": str.upper,
    "distance": lambda x1, y1, x2, y2: math.hypot(x1 - x2, y1 - y2),
    "haversine": haversine,
}
