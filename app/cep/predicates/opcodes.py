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

STATES_PER_WORD = 31
"""Cell states packed into one int64: two bits each, the sign bit stays free."""
ALL_ABSENT = int("10" * STATES_PER_WORD, 2)
"""A word of states that are all ABSENT."""
BECAME_FLOAT = 3
"""State of a cell of an integer column whose value left 64 bit and is a float."""

CELL_TIME, CELL_SOURCE, CELL_OFFSET, CELL_TYPE, FIRST_ATTRIBUTE = 0, 1, 2, 3, 4
"""Columns of the cell table that every event has."""
