"""What an expression is worth, in plain Python: slow and readable, for explaining single matches to people.

Engines run compiled programs (`app.cep.predicates.program`); the rules are those of queries/README.md, *Conditions*, applied per comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from app.cep.predicates.program import like_matches
from app.query import expressions as e
from app.query.plan import ConstantTest

EARTH_RADIUS_M = 6_371_000
MISSING = object()
"""The value of what is not there: unbound, or an attribute that the type lacks."""

Lookup = Callable[[Any], Any]
"""From an attribute or aggregate to its value, None for null, or MISSING."""


def references(expression: Any) -> list[Any]:
    """The attributes and aggregates that an expression speaks of."""
    return [node for node in e.walk(expression) if isinstance(node, e.AttributeOf | e.Aggregate)]


def holds(condition: Any, lookup: Lookup, *, missing: bool = True) -> bool:
    """The truth of a condition. ``missing``: what a comparison with something that is not there is (UNTIL: false)."""
    match condition:
        case e.Not(operand):
            return not holds(operand, lookup, missing=missing)
        case e.And(operands):
            return all(holds(operand, lookup, missing=missing) for operand in operands)
        case e.Or(operands):
            return any(holds(operand, lookup, missing=missing) for operand in operands)
    if any(lookup(reference) is MISSING for reference in references(condition)):
        return missing
    match condition:
        case e.Comparison(operator, left, right):
            return compared(operator, [value(left, lookup), value(right, lookup)])
        case e.In(operand, values, negated):
            return compared("not in" if negated else "in", [value(operand, lookup), *(one.value for one in values)])
        case e.Between(operand, low, high, negated):
            between = "not between" if negated else "between"
            return compared(between, [value(operand, lookup), value(low, lookup), value(high, lookup)])
        case e.IsNull(operand, negated):
            return (value(operand, lookup) is None) != negated
        case e.Like(operand, pattern, negated):
            return compared("not like" if negated else "like", [value(operand, lookup), pattern])
    raise TypeError(condition)


def test_holds(test: ConstantTest, found: Any) -> bool:
    """Whether a value passes a test against constants."""
    if found is MISSING:
        return True
    if test.operator in ("is null", "is not null"):
        return (found is None) == (test.operator == "is null")
    return compared(test.operator, [found, *test.values])


def compared(operator: str, operands: list[Any]) -> bool:
    """A comparison of values; null and NaN make it false, also a negated one."""
    first, *others = operands
    if any(one is None or (isinstance(one, float) and math.isnan(one)) for one in operands):
        return False
    if operator.startswith("not "):
        return not compared(operator.removeprefix("not "), operands)
    if operator == "in":
        return first in others
    if operator == "between":
        return bool(others[0] <= first <= others[1])
    if operator == "like":
        return like_matches(others[0], first)
    return bool(_COMPARE[operator](first, others[0]))


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def value(expression: Any, lookup: Lookup) -> Any:
    """The value of an expression; None where a part of it is null or missing."""
    match expression:
        case e.Literal(_, constant):
            return constant
        case e.Arithmetic(_, operator, left, right):
            return _arithmetic(operator, value(left, lookup), value(right, lookup))
        case e.Negative(_, operand):
            inner = value(operand, lookup)
            return None if inner is None else _in_64_bit(-inner)
        case e.Call(_, function, arguments):
            values = [value(argument, lookup) for argument in arguments]
            return None if any(one is None for one in values) else _in_64_bit(_FUNCTIONS[function](*values))
    found = lookup(expression)
    return None if found is MISSING else found


def aggregate(asked: e.Aggregate, cells: list[Any]) -> Any:
    """An aggregate over the cells of a closure's elements: of none it is missing, of nulls null; ``count`` counts events."""
    if asked.function == "count":
        return len(cells)
    if all(cell is MISSING for cell in cells):
        return MISSING
    if asked.function in ("first", "last"):
        return cells[0 if asked.function == "first" else -1]
    values = [cell for cell in cells if cell is not MISSING and cell is not None]
    if not values:
        return None
    if asked.function == "avg":
        return sum(values) / len(values)
    return _in_64_bit(sum(values)) if asked.function == "sum" else _extreme(min if asked.function == "min" else max, values)


def _extreme(choose: Callable[[Any], Any], numbers: Sequence[Any]) -> Any:
    """The least or greatest number; NaN if one of them is."""
    return math.nan if any(isinstance(one, float) and math.isnan(one) for one in numbers) else choose(numbers)


def _arithmetic(operator: str, left: Any, right: Any) -> Any:
    if left is None or right is None or (operator in "/%" and right == 0):
        return None
    if operator == "/":
        return float(left) / float(right)
    if operator == "%":
        return _remainder(left, right)
    return _in_64_bit(left + right if operator == "+" else left - right if operator == "-" else left * right)


def _remainder(left: Any, right: Any) -> Any:
    """With the sign of the dividend."""
    if isinstance(left, int) and isinstance(right, int):
        size = abs(left) % abs(right)
        return -size if left < 0 else size
    return math.nan if math.isinf(left) else math.fmod(left, right)


def _in_64_bit(result: Any) -> Any:
    """Integers never wrap: what does not fit becomes a float."""
    fits = not isinstance(result, int) or -(2**63) <= result < 2**63
    return result if fits else float(result)


def _half_away(number: float) -> float:
    if isinstance(number, int) or not math.isfinite(number):
        return number
    floor = math.floor(abs(number))
    return math.copysign(floor + (abs(number) - floor >= 0.5), number)


def _haversine(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    phi1, phi2 = math.radians(lat1), math.radians(lat2)
    h = math.sin((phi2 - phi1) / 2) ** 2 + math.cos(phi1) * math.cos(phi2) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
    return 2 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(h)))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "min": lambda *numbers: _extreme(min, numbers),
    "max": lambda *numbers: _extreme(max, numbers),
    "round": _half_away,
    "floor": lambda number: math.floor(number) if math.isfinite(number) else number,
    "ceil": lambda number: math.ceil(number) if math.isfinite(number) else number,
    "length": len,
    "lower": str.lower,
    "upper": str.upper,
    "distance": lambda x1, y1, x2, y2: math.hypot(x1 - x2, y1 - y2),
    "haversine": _haversine,
}
