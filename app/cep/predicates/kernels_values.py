"""Values with tags: how they compare, what arithmetic and functions make of them; where they are null, absent, or leave 64 bit."""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR1714  numba compiles no tuples of constants; NaN is what differs from itself
from __future__ import annotations

import math

import numpy as np
from numba import njit, types

from app.cep.cells.arrays import STATES_PER_WORD, Texts
from app.cep.cells.kernels_types import PROGRAMS, SCRATCH, TABLE, TEXTS
from app.cep.kernel import kernel
from app.cep.predicates.opcodes import (
    ABSENT,
    EARTH_RADIUS_M,
    FLOAT,
    INTEGER,
    MAX_INTEGER,
    MIN_INTEGER,
    NULL,
    OP_ABS,
    OP_ADD,
    OP_CEIL,
    OP_DISTANCE,
    OP_DIVIDE,
    OP_FLOOR,
    OP_HAVERSINE,
    OP_MAX,
    OP_MIN,
    OP_MULTIPLY,
    OP_NEGATIVE,
    OP_REMAINDER,
    OP_ROUND,
    OP_SUBTRACT,
)

SURELY_WHOLE, SURELY_BEYOND = 9.2e18, 9.3e18
"""Of a product as a float: below it is one of 64 bit, above it is none."""


@kernel(types.int64(types.int64, types.float64))
def compare_mixed(integer, number):
    """-1, 0, 1 as an integer is less than, equal to, greater than a float (not NaN): exactly, not after conversion."""
    if number >= 9223372036854775808.0:
        return -1
    if number < -9223372036854775808.0:
        return 1
    whole = np.int64(number)
    if integer != whole:
        return -1 if integer < whole else 1
    rest = number - np.float64(whole)
    if rest == 0.0:
        return 0
    return -1 if rest > 0.0 else 1


@kernel(types.int64(TEXTS, types.int64, types.int64))
def compare_texts(texts, left, right):
    """-1, 0, 1 by bytes, which for UTF-8 is the order of code points."""
    if left == right:
        return 0
    i, i_end = texts.offsets[left], texts.offsets[left + 1]
    j, j_end = texts.offsets[right], texts.offsets[right + 1]
    while i < i_end and j < j_end:
        if texts.data[i] != texts.data[j]:
            return -1 if texts.data[i] < texts.data[j] else 1
        i += 1
        j += 1
    if i < i_end:
        return 1
    return -1 if j < j_end else 0


@kernel(types.int64(SCRATCH, types.int64, types.int64, TEXTS, types.int64))
def compare_values(scratch, i, j, texts, textual):
    """-1, 0, 1 for the present values at two places of the stack; 2 if one of them is NaN."""
    floats = scratch.values.view(np.float64)
    if textual:
        return compare_texts(texts, scratch.values[i], scratch.values[j])
    if scratch.tags[i] == INTEGER:
        if scratch.tags[j] == INTEGER:
            a, b = scratch.values[i], scratch.values[j]
            return (a > b) - (a < b)
        if math.isnan(floats[j]):
            return 2
        return compare_mixed(scratch.values[i], floats[j])
    if math.isnan(floats[i]):
        return 2
    if scratch.tags[j] == INTEGER:
        return -compare_mixed(scratch.values[j], floats[i])
    if math.isnan(floats[j]):
        return 2
    return (floats[i] > floats[j]) - (floats[i] < floats[j])


@kernel(types.boolean(types.int64, types.int64))
def order_holds(operator, order):
    """Whether ``left operator right`` holds when `compare_values` said ``order``; operators are = != < <= > >= as 0..5."""
    if order == 2:
        return False
    if operator == 0:
        return order == 0
    if operator == 1:
        return order != 0
    if operator == 2:
        return order < 0
    if operator == 3:
        return order <= 0
    if operator == 4:
        return order > 0
    return order >= 0


@kernel(types.int64(types.int64, types.int64))
def worse(left, right):
    """The tag of an operation over two operands, as far as missing values go: absent before null before present (INTEGER)."""
    if left == ABSENT or right == ABSENT:
        return ABSENT
    if left == NULL or right == NULL:
        return NULL
    return INTEGER


@njit(inline="always")
def wrapped_sum(a, b):
    """The sum of two integers as 64 bit have it. Numba promises LLVM that signed integers do not wrap, so whoever looks whether they have must not add them as such."""
    return np.int64(np.uint64(a) + np.uint64(b))


@njit(inline="always")
def wrapped_difference(a, b):
    """The difference; see `wrapped_sum`."""
    return np.int64(np.uint64(a) - np.uint64(b))


@kernel(types.boolean(types.int64, types.int64), counted=False)
def fits_product(a, b):
    """Whether the product of two integers, neither of them 0, is one of 64 bit."""
    most = np.uint64(MAX_INTEGER) if (a < 0) == (b < 0) else np.uint64(1) << np.uint64(63)
    size = np.uint64(a) if a > 0 else np.uint64(0) - np.uint64(a)
    return size <= most // (np.uint64(b) if b > 0 else np.uint64(0) - np.uint64(b))


@kernel(types.void(SCRATCH, types.int64, types.int64), counted=False)
def whole_arithmetic(scratch, i, operator):
    """Product, sum or difference of two integers; outside 64 bit a float.

    What is outside is known beforehand; see `wrapped_sum`.
    """
    tags, values = scratch.tags, scratch.values
    floats = values.view(np.float64)
    a, b = values[i], values[i + 1]
    x, y = np.float64(a), np.float64(b)
    tags[i] = INTEGER
    if operator == OP_MULTIPLY:
        near = abs(x * y)
        if near < SURELY_WHOLE or (near < SURELY_BEYOND and fits_product(a, b)):
            values[i] = a * b
        else:
            tags[i] = FLOAT
            floats[i] = x * y
        return
    adds = operator == OP_ADD
    upwards = (b >= 0) == adds
    if upwards:
        beyond = a > MAX_INTEGER - b if adds else a > MAX_INTEGER + b
    else:
        beyond = a < MIN_INTEGER - b if adds else a < MIN_INTEGER + b
    if not beyond:
        values[i] = a + b if adds else a - b
        return
    tags[i] = FLOAT
    # rounded once from the exact sum, as float(int) of an unbounded integer would be
    total = np.uint64(a) + np.uint64(b) if adds else np.uint64(a) - np.uint64(b)
    if upwards:
        floats[i] = np.float64(total)
    elif total == 0:
        floats[i] = -18446744073709551616.0
    else:
        floats[i] = -np.float64(np.uint64(0) - total)


@kernel(types.void(SCRATCH, types.int64, types.int64))
def arithmetic(scratch, i, operator):
    """``stack[i] = stack[i] operator stack[i + 1]``; an integer result outside 64 bit becomes a float."""
    tags, values = scratch.tags, scratch.values
    floats = values.view(np.float64)
    missing = worse(tags[i], tags[i + 1])
    if missing != INTEGER:
        tags[i] = missing
        return
    integers = tags[i] == INTEGER and tags[i + 1] == INTEGER
    a, b = values[i], values[i + 1]
    x = np.float64(a) if tags[i] == INTEGER else floats[i]
    y = np.float64(b) if tags[i + 1] == INTEGER else floats[i + 1]
    tags[i] = FLOAT
    if operator == OP_DIVIDE:
        if y == 0.0:
            tags[i] = NULL
        else:
            floats[i] = x / y
    elif operator == OP_REMAINDER:
        if y == 0.0:
            tags[i] = NULL
        elif integers:
            tags[i] = INTEGER
            if b == -1:
                values[i] = 0
            else:
                rest = a % b  # numba: the sign of the divisor, as Python
                values[i] = rest - b if rest != 0 and (rest < 0) != (a < 0) else rest
        elif math.isinf(x):
            floats[i] = math.nan
        else:
            floats[i] = np.fmod(x, y)
    elif integers:
        whole_arithmetic(scratch, i, operator)
    elif operator == OP_ADD:
        floats[i] = x + y
    elif operator == OP_SUBTRACT:
        floats[i] = x - y
    else:
        floats[i] = x * y


@kernel(types.void(SCRATCH, types.int64, types.int64, types.int64))
def call(scratch, i, operator, count):
    """``stack[i] = function(stack[i .. i + count])`` for the numeric functions."""
    tags, values = scratch.tags, scratch.values
    floats = values.view(np.float64)
    missing = INTEGER
    for k in range(i, i + count):
        missing = worse(missing, tags[k])
    if missing != INTEGER:
        tags[i] = missing
        return
    if operator == OP_NEGATIVE or operator == OP_ABS:
        if tags[i] == FLOAT:
            floats[i] = -floats[i] if operator == OP_NEGATIVE else abs(floats[i])
        elif values[i] == MIN_INTEGER:
            tags[i] = FLOAT
            floats[i] = 9223372036854775808.0
        elif operator == OP_NEGATIVE or values[i] < 0:
            values[i] = -values[i]
        return
    if operator == OP_MIN or operator == OP_MAX:
        empty = Texts(np.empty(0, np.uint8), values)
        for k in range(i + 1, i + count):
            if tags[i] == FLOAT and math.isnan(floats[i]):
                return
            order = compare_values(scratch, k, i, empty, 0)
            if order == 2 or (order == -1 and operator == OP_MIN) or (order == 1 and operator == OP_MAX):
                tags[i] = tags[k]
                values[i] = values[k]
        return
    if operator == OP_ROUND or operator == OP_FLOOR or operator == OP_CEIL:
        if tags[i] == FLOAT and math.isfinite(floats[i]):
            x = floats[i]
            if operator == OP_FLOOR:
                floats[i] = np.floor(x)
            elif operator == OP_CEIL:
                floats[i] = np.ceil(x)
            else:
                below = np.floor(abs(x))
                floats[i] = math.copysign(below + (1.0 if abs(x) - below >= 0.5 else 0.0), x)
        return
    for k in range(i, i + count):
        if tags[k] == INTEGER:
            floats[k] = np.float64(values[k])
    tags[i] = FLOAT
    if operator == OP_DISTANCE:
        floats[i] = math.hypot(floats[i] - floats[i + 2], floats[i + 1] - floats[i + 3])
    elif operator == OP_HAVERSINE:
        phi1, phi2 = math.radians(floats[i]), math.radians(floats[i + 2])
        half = math.sin(math.radians(floats[i + 3] - floats[i + 1]) / 2)
        h = math.sin((phi2 - phi1) / 2) ** 2 + math.cos(phi1) * math.cos(phi2) * half**2
        floats[i] = 2 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(h)))


@kernel(types.int64(TABLE, types.int64, types.int64, types.int64))
def cell_state(cells, row, column, states_at):
    """PRESENT, NULL, ABSENT, or 3: an integer that became a float. States are packed, two bits each, behind the cells."""
    return (cells[row, states_at + column // STATES_PER_WORD] >> (2 * (column % STATES_PER_WORD))) & 3


@kernel(types.void(SCRATCH, types.int64, TEXTS, types.int64, types.int64))
def between(scratch, i, texts, textual, negated):
    """``stack[i] = stack[i] [not] between stack[i + 1] and stack[i + 2]``."""
    tags = scratch.tags
    missing = worse(worse(tags[i], tags[i + 1]), tags[i + 2])
    truth = missing == ABSENT
    if missing == INTEGER:
        low = compare_values(scratch, i, i + 1, texts, textual)
        high = compare_values(scratch, i, i + 2, texts, textual)
        truth = low != 2 and high != 2 and (low >= 0 and high <= 0) != (negated != 0)
    tags[i] = INTEGER
    scratch.values[i] = truth


@kernel(types.void(SCRATCH, types.int64, PROGRAMS, types.int64, types.int64, types.int64))
def among(scratch, i, programs, first, count, negated):
    """``stack[i] = stack[i] [not] in`` the ``count`` constants from ``first``."""
    tags, values = scratch.tags, scratch.values
    floats = values.view(np.float64)
    truth = tags[i] == ABSENT
    if tags[i] == INTEGER or (tags[i] == FLOAT and not math.isnan(floats[i])):
        empty = Texts(np.empty(0, np.uint8), values)
        for k in range(first, first + count):
            tags[i + 1] = programs.constants[k, 0]
            values[i + 1] = programs.constants[k, 1]
            if tags[i + 1] != NULL and compare_values(scratch, i, i + 1, empty, 0) == 0:
                truth = True
                break
        truth = truth != (negated != 0)
    tags[i] = INTEGER
    values[i] = truth
