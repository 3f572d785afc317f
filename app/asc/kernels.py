"""Compiled loops of selection: the evaluation of all constructs for a block of events, regions of dictionary entries, dispatch to queries.

Columns and tables of all attributes reach the evaluation as one array of addresses, one row per construct (`COLUMN` and the fields after it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.extending import intrinsic

_CODES = types.Array(types.int32, 1, "C", readonly=True)
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_INTEGER_TABLE = types.Array(types.int64, 2, "C", readonly=True)
_FLOAT_TABLE = types.Array(types.float64, 2, "C", readonly=True)
_WORD_TABLE = types.Array(types.uint64, 2, "C", readonly=True)
_WORD_ROW = types.Array(types.uint64, 1, "C", readonly=True)
_ROWS_OUT = types.int64[::1]
_WORDS_OUT = types.uint64[:, ::1]

FORM, COLUMN, STATE, LOOKUP, POINTS, SIZE, LOWEST, NOT_A_NUMBER, TABLE, ARROWS, ARROW_COUNT = range(11)
"""Fields of a construct: form of its column; addresses of values, states (or 0), lookup table, constants; how many constants (or entries of
the lookup); lowest constant; the row for NaN (null and absent follow); addresses of bitmaps and of micro-arrows (or 0); how many of these."""
FIELDS = 11
DIRECT, INTEGERS, FLOATS, CODES = range(4)
"""Forms: integers by a table of all values; integers and floats by search in a cell; codes by a table of all entries."""
CHUNK = 4
"""Words that are evaluated together, in registers."""
MANTISSA_BITS = 52
EXPONENT_OF_ONE = 1023
NO_ARROW = -1


def _loader(result: Any) -> Callable[..., Any]:
    """Reads entry ``index`` of the array at ``address``."""

    @intrinsic
    def load(typing_context, address, index):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], context.get_value_type(result).as_pointer())
            return builder.load(builder.gep(pointer, [arguments[1]]))

        return result(types.int64, types.int64), generate

    return load


_int64_at, _float64_at, _int32_at = _loader(types.int64), _loader(types.float64), _loader(types.int32)
_uint8_at, _word_at = _loader(types.uint8), _loader(types.uint64)


@intrinsic
def _bits_of(typing_context, number):
    """The 64 bits of a float as an integer."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@intrinsic
def _trailing_zeros(typing_context, word):
    """The machine's instruction for the number of the lowest set bit; numba has no name for it."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.int64(types.uint64), generate


@njit(inline="always")
def _cell(value, scales, number, cells):
    """The cell of a number between the constants: equal widths near the lowest one, then so many per doubling of the distance to it."""
    distance = (value - scales[number, 0]) * scales[number, 1] + 1.0
    if not distance > 1.0:  # also NaN
        return 0
    bits = types.int64(scales[number, 2])
    return min(cells - 1, (_bits_of(distance) >> (MANTISSA_BITS - bits)) - (EXPONENT_OF_ONE << bits))


@njit(inline="always")
def _region(constructs, scales, number, row):
    """The region of an event's value, which is a row of the construct's bitmaps."""
    state = constructs[number, STATE]
    if state != 0:
        cell_state = types.int64(_uint8_at(state, row))
        if cell_state != 0:
            return constructs[number, NOT_A_NUMBER] + cell_state
    form, column, lookup = constructs[number, FORM], constructs[number, COLUMN], constructs[number, LOOKUP]
    if form == CODES:
        return types.int64(_int32_at(lookup, types.int64(_int32_at(column, row))))
    if form == DIRECT:
        integer = _int64_at(column, row)
        place = constructs[number, SIZE] - 1
        if integer < constructs[number, LOWEST]:
            place = 0
        elif integer <= constructs[number, LOWEST] + (place - 2):  # the highest constant; never beyond 64 bit
            place = integer - constructs[number, LOWEST] + 1
        return types.int64(_int32_at(lookup, place))
    points, size = constructs[number, POINTS], constructs[number, SIZE]
    if form == INTEGERS:
        integer = _int64_at(column, row)
        cell = _cell(types.float64(integer), scales, number, types.int64(scales[number, 3]))
        low, high = types.int64(_int32_at(lookup, cell)), types.int64(_int32_at(lookup, cell + 1))
        while low < high:
            middle = (low + high) >> 1
            if _int64_at(points, middle) < integer:
                low = middle + 1
            else:
                high = middle
        return 2 * low + types.int64(low < size and _int64_at(points, low) == integer)
    value = _float64_at(column, row)
    if value != value:  # noqa: PLR0124  (NaN)
        return constructs[number, NOT_A_NUMBER]
    cell = _cell(value, scales, number, types.int64(scales[number, 3]))
    low, high = types.int64(_int32_at(lookup, cell)), types.int64(_int32_at(lookup, cell + 1))
    while low < high:
        middle = (low + high) >> 1
        if _float64_at(points, middle) < value:
            low = middle + 1
        else:
            high = middle
    return 2 * low + types.int64(low < size and _float64_at(points, low) == value)


@njit([types.void(_INTEGER_TABLE, _FLOAT_TABLE, types.int64, _INTEGERS, types.int32[::1])], cache=True, nogil=True, _nrt=False)
def find_regions(constructs, scales, number, rows, regions):
    """The regions of one construct that the given rows of the batch are in."""
    for i in range(rows.shape[0]):
        regions[i] = _region(constructs, scales, number, rows[i])


@njit(
    [
        types.int64(
            _INTEGER_TABLE, _FLOAT_TABLE, _CODES, _WORD_TABLE, types.int64, types.int64, types.int64[:, ::1], _ROWS_OUT, _WORDS_OUT, types.int32[::1],
            types.int64[::1],
        )
    ],
    cache=True,
    nogil=True,
    _nrt=False,
)  # fmt: skip
def evaluate(constructs, scales, order, usage, start, stop, path, rows, bitmaps, counts, figures):
    """Evaluates events ``start..stop``: writes rows with a result bitmap that is not empty, and these bitmaps; returns how many.

    An event has one path through the constructs: a micro-arrow of the region just visited where there is one to a construct not yet visited,
    else the first construct of ``order`` not yet visited. It is found as far as it is needed. The bitmap is taken `CHUNK` words at a time; a
    chunk leaves the path as soon as it is empty, so the longest way that a chunk goes is the way of the event.
    A construct that no item left in the chunk uses is not asked: the AND would change nothing.

    Args:
        constructs: one row of fields per construct.
        scales: float64 (constructs, 4): lowest constant, scale, bits per doubling, cells, for forms with a search.
        start: first row.
        stop: the row after the last one.
        order: macro-sequence; constructs that are not in it are never visited.
        usage: (constructs + 1, chunked words): items that use a construct; last row: all items, where evaluation begins.
        path: int64 (3, constructs), scratch: construct and address of the bitmap (0: not found yet) per step, then row + 1 of the last visit per
            construct (those not in ``order``: greater than all rows).
        rows: out.
        bitmaps: out, (rows, words).
        counts: out, evaluated constructs per event of the batch; or empty.
        figures: in-out, added to: evaluated constructs, micro-arrows followed.
    """
    steps, words, attributes = order.shape[0], bitmaps.shape[1], usage.shape[0] - 1
    row_bytes = usage.shape[1] * 8
    count = 0
    for row in range(start, stop):
        known, ahead, evaluated, last, alive = 0, 0, 0, -1, types.uint64(0)
        for first in range(0, words, CHUNK):
            a, b, c, d = usage[attributes, first], usage[attributes, first + 1], usage[attributes, first + 2], usage[attributes, first + 3]
            step = 0
            while step < steps and (a | b | c | d) != 0:
                if step == known:  # the path goes on from here
                    chosen = types.int64(NO_ARROW)
                    if last >= 0:
                        target = types.int64(_int32_at(constructs[path[0, step - 1], ARROWS], last))
                        if target >= 0 and path[2, target] <= row:
                            chosen = target
                            figures[1] += 1
                    if chosen < 0:
                        while path[2, order[ahead]] == row + 1:
                            ahead += 1
                        chosen = types.int64(order[ahead])
                    path[0, step], path[1, step], path[2, chosen] = chosen, 0, row + 1
                    known, last = step + 1, -1
                number = path[0, step]
                used = (
                    (a & usage[number, first])
                    | (b & usage[number, first + 1])
                    | (c & usage[number, first + 2])
                    | (d & usage[number, first + 3])
                )
                if path[1, step] == 0 and (used != 0 or constructs[number, ARROWS] != 0):
                    region = _region(constructs, scales, number, row)
                    path[1, step] = constructs[number, TABLE] + region * row_bytes
                    evaluated += 1
                    if region < constructs[number, ARROW_COUNT] and step + 1 == known:
                        last = region
                if used != 0:
                    bitmap = path[1, step]
                    a &= _word_at(bitmap, first)
                    b &= _word_at(bitmap, first + 1)
                    c &= _word_at(bitmap, first + 2)
                    d &= _word_at(bitmap, first + 3)
                step += 1
            alive |= a | b | c | d
            bitmaps[count, first] = a
            if first + 1 < words:
                bitmaps[count, first + 1] = b
            if first + 2 < words:
                bitmaps[count, first + 2] = c
            if first + 3 < words:
                bitmaps[count, first + 3] = d
        rows[count] = row
        count += alive != 0
        figures[0] += evaluated
        if counts.shape[0] > 0:
            counts[row] = evaluated
    return count


@njit(cache=True, nogil=True, inline="always")
def _order(data, start, stop, other, other_start, other_stop):
    """Negative, zero or positive: the first byte string is less than, equal to, or greater than the second."""
    common = min(stop - start, other_stop - other_start)
    for k in range(common):
        difference = types.int64(data[start + k]) - types.int64(other[other_start + k])
        if difference != 0:
            return difference
    return (stop - start) - (other_stop - other_start)


@njit([types.void(_BYTES, _INTEGERS, _BYTES, _INTEGERS, types.int32[::1])], cache=True, nogil=True)
def entry_regions(data, offsets, constant_data, constant_offsets, regions):
    """The region of every dictionary entry among sorted byte strings, in byte order (for UTF-8 that is code point order)."""
    constants = constant_offsets.shape[0] - 1
    for entry in range(regions.shape[0]):
        low, high, exact = 0, constants, 0
        while low < high:
            middle = (low + high) >> 1
            order = _order(data, offsets[entry], offsets[entry + 1], constant_data, constant_offsets[middle], constant_offsets[middle + 1])
            if order > 0:
                low = middle + 1
            else:
                high = middle
                exact = order == 0
        regions[entry] = 2 * low + exact


@njit([types.void(_WORD_TABLE, _CODES, _WORD_ROW, types.int64[::1])], cache=True, nogil=True)
def count_candidates(bitmaps, query_of_bit, mask_of_bit, counts):
    """Adds to ``counts`` (places of queries) how many events are a candidate of at least one item of each."""
    for i in range(bitmaps.shape[0]):
        for k in range(bitmaps.shape[1]):
            word = bitmaps[i, k]
            while word != 0:
                bit = 64 * k + _trailing_zeros(word)
                counts[query_of_bit[bit]] += 1
                word &= ~mask_of_bit[bit]


@njit(
    [types.void(_INTEGERS, _WORD_TABLE, _CODES, _WORD_ROW, _WORD_ROW, types.int64[::1], types.int64[::1], types.uint64[::1])],
    cache=True,
    nogil=True,
)
def dispatch_candidates(relevant, bitmaps, query_of_bit, mask_of_bit, shift_of_bit, next_place, rows, items):
    """Counting sort of (event, candidate items) by query; work is one step per query and event that belong together."""
    for i in range(bitmaps.shape[0]):
        for k in range(bitmaps.shape[1]):
            word = bitmaps[i, k]
            while word != 0:
                bit = 64 * k + _trailing_zeros(word)
                place = next_place[query_of_bit[bit]]
                rows[place] = relevant[i]
                items[place] = (word & mask_of_bit[bit]) >> shift_of_bit[bit]
                next_place[query_of_bit[bit]] = place + 1
                word &= ~mask_of_bit[bit]


@njit([types.void(_WORD_TABLE, _WORD_ROW, _WORD_ROW, _CODES, _WORDS_OUT)], cache=True, nogil=True)
def repack(bitmaps, mask_of_bit, shift_of_bit, target_bit, packed):
    """ORs bitmaps of one layout into those of another (zeroed); ``target_bit`` is where the query that owns a bit begins there."""
    for i in range(bitmaps.shape[0]):
        for k in range(bitmaps.shape[1]):
            word = bitmaps[i, k]
            while word != 0:
                bit = 64 * k + _trailing_zeros(word)
                target = target_bit[bit]
                items = (word & mask_of_bit[bit]) >> shift_of_bit[bit]
                packed[i, target >> 6] |= items << types.uint64(target & 63)
                word &= ~mask_of_bit[bit]
