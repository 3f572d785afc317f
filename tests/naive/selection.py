"""Selection straight from the definitions of `ConstantTest` and `Item`: one event, one item, one test at a time. Slow and obvious."""

from __future__ import annotations

import math
import re
from fractions import Fraction

ABSENT = object()
"""The event's schema does not have the attribute."""


def candidate(event: dict, item, equivalence) -> bool:
    """Whether an event (``{"type": .., attribute: value}``, None for null, `ABSENT` or no key for absent) can be the item."""
    if item.types and event["type"] not in item.types:
        return False
    if any(event.get(attribute, ABSENT) is None for attribute in equivalence):
        return False
    if item.either and not any(all(holds(test, event.get(test.attribute, ABSENT)) for test in one) for one in item.either):
        return False
    return all(holds(test, event.get(test.attribute, ABSENT)) for test in item.tests)


def holds(test, value) -> bool:
    """One constant test on one value."""
    if value is ABSENT:
        return True
    if test.operator == "is null":
        return value is None
    if test.operator == "is not null":
        return value is not None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return False
    if test.operator.endswith("like"):
        expression = "".join(".*" if c == "%" else "." if c == "_" else re.escape(c) for c in test.values[0])
        found = re.fullmatch(expression, value, re.DOTALL) is not None
        return found != test.operator.startswith("not")
    left, constants = exact(value), [exact(constant) for constant in test.values]
    return {
        "=": lambda: left == constants[0],
        "!=": lambda: left != constants[0],
        "<": lambda: left < constants[0],
        "<=": lambda: left <= constants[0],
        ">": lambda: left > constants[0],
        ">=": lambda: left >= constants[0],
        "in": lambda: any(left == constant for constant in constants),
        "not in": lambda: all(left != constant for constant in constants),
        "between": lambda: constants[0] <= left <= constants[1],
        "not between": lambda: not constants[0] <= left <= constants[1],
    }[test.operator]()


def exact(value):
    """Numbers as fractions, so that integers and floats compare exactly; infinities stay; texts as their bytes."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes) or (isinstance(value, float) and math.isinf(value)):
        return value
    return Fraction(value)
