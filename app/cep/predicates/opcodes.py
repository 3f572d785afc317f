"""Numbers that programs and cells share between the compiler of expressions and the machine that runs them."""

from __future__ import annotations

INTEGER, FLOAT, NULL, ABSENT = 0, 1, 2, 3
"""Tags of values on the machine's stack. Booleans, times, durations and texts (by their number) are INTEGER."""

OP_LOAD, OP_CONSTANT = 0, 1
"""Push the cell (item a, column b) as tag c; push constant a."""
OP_ADD, OP_SUBTRACT, OP_MULTIPLY, OP_DIVIDE, OP_REMAINDER = 2, 3, 4, 5, 6
OP_NEGATIVE, OP_ABS, OP_MIN, OP_MAX, OP_ROUND, OP_FLOOR, OP_CEIL, OP_DISTANCE, OP_HAVERSINE = 7, 8, 9, 10, 11, 12, 13, 14, 15
"""Functions of b arguments."""
OP_TO_FLOAT = 16
OP_COMPARE, OP_BETWEEN, OP_IN, OP_IS_NULL = 20, 21, 22, 23
"""Compare by operator a, as texts if b; between, as texts if b, negated if c; in the b constants from a, negated if c; is null, negated if c."""
OP_NOT, OP_AND, OP_OR = 24, 25, 26
"""Of b operands."""

OPERATORS = {"=": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
ARITHMETIC = {"+": OP_ADD, "-": OP_SUBTRACT, "*": OP_MULTIPLY, "/": OP_DIVIDE, "%": OP_REMAINDER}
FUNCTIONS = {
    "abs": OP_ABS,
    "min": OP_MIN,
    "max": OP_MAX,
    "round": OP_ROUND,
    "floor": OP_FLOOR,
    "ceil": OP_CEIL,
    "distance": OP_DISTANCE,
    "haversine": OP_HAVERSINE,
}

MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**63 - 1
EARTH_RADIUS_M = 6_371_000.0

MODE_PROGRAM, MODE_INTEGERS, MODE_FLOATS, MODE_DIFFERENCE = 0, 1, 2, 3
"""How a comparison is evaluated: by the machine; left op right as integers, as floats; left - right op constant as integers. The machine takes over
where a cell is not plainly present."""
OUTCOMES = 0x643152
"""Per operator (= != < <= > >=) four bits: holds for less, equal, greater, not comparable."""
LEFT_FLOAT, RIGHT_FLOAT = 1, 2
"""Bits: which side of a comparison is a float (`app.cep.predicates.kernels_compare.unusual_outcome`)."""
