"""Finds the region of every value: a row of the construct's bitmaps."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from numba import njit, types
from numba.extending import intrinsic

from app.asc.arrays import (
    CODES,
    COLUMN,
    DIRECT,
    EXPONENT_OF_ONE,
    FLOATS,
    FORM,
    INTEGERS,
    LOOKUP,
    LOWEST,
    MANTISSA_BITS,
    NOT_A_NUMBER,
    PASSED_OVER,
    POINTS,
    SIZE,
    STATE,
)
from app.asc.kernels_memory import float64_at, int32_at, int64_at, uint8_at


@intrinsic
def _bits_of(typing_context, number):
    """The 64 bits of a float as an integer."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@njit(inline="always")
def _cell(value, lowest, scale, bits, cells):
    """The cell of a number between the constants: equal widths near the lowest one, then so many per doubling of the distance to it."""
    distance = (value - lowest) * scale + 1.0
    if not distance > 1.0:  # also NaN
        return types.int64(0)
    return min(cells - 1, (_bits_of(distance) >> (MANTISSA_BITS - bits)) - (EXPONENT_OF_ONE << bits))


@njit(inline="always")
def _direct_region(integer, lookup, lowest, highest):
    """The region of an integer in a table of all values between the constants, and one beyond either end."""
    return int32_at(lookup, min(max(integer, lowest - 1), highest + 1) - (lowest - 1))


@njit(inline="always")
def _float_region(value, cell, lookup, points, size, rounds, special):
    """The region of a float among the constants of its cell."""
    low, high = types.int64(int32_at(lookup, cell)), types.int64(int32_at(lookup, cell + 1))
    for _ in range(rounds):
        middle = (low + high) >> 1
        less = (low < high) & (float64_at(points, middle) < value)
        low, high = middle + 1 if less else low, high if less else middle
    region = 2 * low + types.int64((low < size) & (float64_at(points, low) == value))
    return region if value == value else special  # noqa: PLR0124  (NaN)


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def find(constructs, scales, number, start, slots, first, stop, regions):
    """Writes the region of every event that is not passed over; which is a row of the construct's bitmaps.

    A search halves as often as the fullest cell needs, without a branch to guess: 10 instead of 24 ns per value. It may read one constant too far.
    """
    form, column, state, lookup = (
        constructs[number, FORM],
        constructs[number, COLUMN],
        constructs[number, STATE],
        constructs[number, LOOKUP],
    )
    points, size, lowest, special = (
        constructs[number, POINTS],
        constructs[number, SIZE],
        constructs[number, LOWEST],
        constructs[number, NOT_A_NUMBER],
    )
    origin, scale, bits, cells = scales[number, 0], scales[number, 1], types.int64(scales[number, 2]), types.int64(scales[number, 3])
    highest, rounds = lowest + (size - 3), types.int64(scales[number, 4])
    for i in range(first, stop):
        if regions[i] == PASSED_OVER:
            continue
        row = start + slots[i]
        if state != 0 and uint8_at(state, row) != 0:
            regions[i] = special + types.int64(uint8_at(state, row))
        elif form == CODES:
            regions[i] = int32_at(lookup, types.int64(int32_at(column, row)))
        elif form == DIRECT:
            regions[i] = _direct_region(int64_at(column, row), lookup, lowest, highest)
        elif form == INTEGERS:
            integer = int64_at(column, row)
            cell = _cell(types.float64(integer), origin, scale, bits, cells)
            low, high = types.int64(int32_at(lookup, cell)), types.int64(int32_at(lookup, cell + 1))
            for _ in range(rounds):
                middle = (low + high) >> 1
                less = (low < high) & (int64_at(points, middle) < integer)
                low, high = middle + 1 if less else low, high if less else middle
            regions[i] = 2 * low + types.int64((low < size) & (int64_at(points, low) == integer))
        else:
            value = float64_at(column, row)
            regions[i] = _float_region(value, _cell(value, origin, scale, bits, cells), lookup, points, size, rounds, special)


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def find_all(constructs, scales, number, start, stop, slots, regions):
    """As `find` for the first events of a block, none passed over: with nothing else to ask 1,000 queries of `items-float` take 180 instead of 200 ns."""
    form, column, lookup, points = (
        constructs[number, FORM],
        constructs[number, COLUMN],
        constructs[number, LOOKUP],
        constructs[number, POINTS],
    )
    size, lowest, special = constructs[number, SIZE], constructs[number, LOWEST], constructs[number, NOT_A_NUMBER]
    origin, scale, bits, cells = scales[number, 0], scales[number, 1], types.int64(scales[number, 2]), types.int64(scales[number, 3])
    highest, rounds = lowest + (size - 3), types.int64(scales[number, 4])
    if constructs[number, STATE] == 0 and form == FLOATS:
        for i in range(stop):
            value = float64_at(column, start + i)
            regions[i] = _float_region(value, _cell(value, origin, scale, bits, cells), lookup, points, size, rounds, special)
    elif constructs[number, STATE] == 0 and form == DIRECT:
        for i in range(stop):
            regions[i] = _direct_region(int64_at(column, start + i), lookup, lowest, highest)
    else:
        for i in range(stop):
            slots[i], regions[i] = i, 0
        find(constructs, scales, number, start, slots, 0, stop, regions)
