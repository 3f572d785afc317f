"""The compiled evaluation of all constructs for the events of a batch.

Columns, lookups and bitmaps of all attributes reach it as one array of addresses, one row per construct (`COLUMN` and the fields after it). It goes
block by block, and within a block construct by construct over the events that are still alive: loops without branches to guess, and the block's
bitmaps stay in the cache. Event by event it took two to four times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from app.asc.kernel import kernel

FORM, COLUMN, STATE, LOOKUP, POINTS, SIZE, LOWEST, NOT_A_NUMBER, TABLE, ARROWS, ARROW_COUNT, LOWS, HIGHS = range(13)
"""Fields of a construct: form of its column; addresses of values, states (or 0), lookup table, constants; how many constants (or entries of
the lookup); lowest constant; the row for NaN (null and absent follow); addresses of bitmaps and of micro-arrows; how many of these;
addresses of the least and greatest number that pass, by entry of the lists (or 0)."""
FIELDS = 13
DIRECT, INTEGERS, FLOATS, CODES = range(4)
"""Forms: integers by a table of all values; integers and floats by search in a cell; codes by a table of all entries."""
MANTISSA_BITS = 52
EXPONENT_OF_ONE = 1023
SLOTS, REGIONS, NEXT, AHEAD, SORTED = range(5)
"""Rows of the scratch array: the block's events that are alive, the region that each has just visited; by event its next construct, how far it
is in the macro-sequence; room to sort."""
SCRATCH = 5
LOOK_AGAIN = 16
"""Blocks after which it is tried again whether events can pass a construct over, where less than one in eight could: the look costs as much as the
AND (3,000 items: 400 against 250 ns per event)."""
PASSED_OVER = -1
MANY_WORDS = 8
"""Bitmaps from which on it pays to AND several rows at a time, where no event is done before the last construct."""
SCALES = 5
ROOM = 4096
"""Entries more than the share that is allowed, before lists are given up: a few events with long lists do no harm."""
GIVEN_UP = -1

_INTEGER_ROW = types.Array(types.int64, 1, "C", readonly=True)
_ORDER = types.Array(types.int32, 1, "C", readonly=True)
_INTEGER_TABLE = types.Array(types.int64, 2, "C", readonly=True)
_FLOAT_TABLE = types.Array(types.float64, 2, "C", readonly=True)
_WORD_TABLE = types.Array(types.uint64, 2, "C", readonly=True)
_WORDS = types.uint64[:, ::1]


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


def _rows_and(words: int) -> Callable[..., Any]:
    """ANDs so many words of one row with those of others, all in registers; returns whether a bit is left (as a word that is not zero then).

    Its arguments are addresses: of where they go, of the row, of the addresses of the others; then how many these are, and the bytes before the words.
    """

    @intrinsic
    def rows_and(typing_context, out, row, places, length, offset):
        def generate(context, builder, signature, arguments):
            out, row, places, length, offset = arguments
            word = context.get_value_type(types.int64)
            vector = ir.VectorType(word, words)

            def vector_at(base: Any) -> Any:
                return builder.inttoptr(builder.add(base, offset), vector.as_pointer())

            left = cgutils.alloca_once_value(builder, builder.load(vector_at(row), align=8))
            others = builder.inttoptr(places, word.as_pointer())
            with cgutils.for_range(builder, length) as loop:
                other = builder.load(builder.gep(others, [loop.index]))
                builder.store(builder.and_(builder.load(left), builder.load(vector_at(other), align=8)), left)
            found = builder.load(left)
            builder.store(found, vector_at(out), align=8)
            reduce = cgutils.get_or_insert_function(builder.module, ir.FunctionType(word, [vector]), f"llvm.vector.reduce.or.v{words}i64")
            return builder.call(reduce, [found])

        return types.uint64(types.int64, types.int64, types.int64, types.int64, types.int64), generate

    return rows_and


_WIDE, _HALF = 16, 8
"""Words at a time: two of the widest registers, and one. More did not stay in registers."""
_and_wide, _and_half, _and_word = _rows_and(_WIDE), _rows_and(_HALF), _rows_and(1)


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
    return _int32_at(lookup, min(max(integer, lowest - 1), highest + 1) - (lowest - 1))


@njit(inline="always")
def _float_region(value, cell, lookup, points, size, rounds, special):
    """The region of a float among the constants of its cell."""
    low, high = types.int64(_int32_at(lookup, cell)), types.int64(_int32_at(lookup, cell + 1))
    for _ in range(rounds):
        middle = (low + high) >> 1
        less = (low < high) & (_float64_at(points, middle) < value)
        low, high = middle + 1 if less else low, high if less else middle
    region = 2 * low + types.int64((low < size) & (_float64_at(points, low) == value))
    return region if value == value else special  # noqa: PLR0124  (NaN)


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _find(constructs, scales, number, start, slots, first, stop, regions):
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
        if state != 0 and _uint8_at(state, row) != 0:
            regions[i] = special + types.int64(_uint8_at(state, row))
        elif form == CODES:
            regions[i] = _int32_at(lookup, types.int64(_int32_at(column, row)))
        elif form == DIRECT:
            regions[i] = _direct_region(_int64_at(column, row), lookup, lowest, highest)
        elif form == INTEGERS:
            integer = _int64_at(column, row)
            cell = _cell(types.float64(integer), origin, scale, bits, cells)
            low, high = types.int64(_int32_at(lookup, cell)), types.int64(_int32_at(lookup, cell + 1))
            for _ in range(rounds):
                middle = (low + high) >> 1
                less = (low < high) & (_int64_at(points, middle) < integer)
                low, high = middle + 1 if less else low, high if less else middle
            regions[i] = 2 * low + types.int64((low < size) & (_int64_at(points, low) == integer))
        else:
            value = _float64_at(column, row)
            regions[i] = _float_region(value, _cell(value, origin, scale, bits, cells), lookup, points, size, rounds, special)


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _find_all(constructs, scales, number, start, stop, slots, regions):
    """As `_find` for the first events of a block, none passed over: with nothing else to ask 1,000 queries of `items-float` take 180 instead of 200 ns."""
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
            value = _float64_at(column, start + i)
            regions[i] = _float_region(value, _cell(value, origin, scale, bits, cells), lookup, points, size, rounds, special)
    elif constructs[number, STATE] == 0 and form == DIRECT:
        for i in range(stop):
            regions[i] = _direct_region(_int64_at(column, start + i), lookup, lowest, highest)
    else:
        for i in range(stop):
            slots[i], regions[i] = i, 0
        _find(constructs, scales, number, start, slots, 0, stop, regions)


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _pass_over(usage, number, bitmaps, slots, first, stop, regions):
    """Marks the events none of whose items left uses the construct: the AND would change nothing. Returns how many."""
    passed, words = 0, bitmaps.shape[1]
    if words == 1:
        own = usage[number, 0]
        for i in range(first, stop):
            idle = bitmaps[slots[i], 0] & own == 0
            regions[i] = -types.int32(idle)
            passed += idle
        return passed
    for i in range(first, stop):
        slot, used = slots[i], types.uint64(0)
        for k in range(words):
            used |= bitmaps[slot, k] & usage[number, k]
        regions[i] = -types.int32(used == 0)
        passed += used == 0
    return passed


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _narrow(table, bitmaps, slots, first, stop, regions, target):
    """ANDs the regions' bitmaps onto those of the events; who has something left goes to ``target`` and after; returns where they end."""
    words = bitmaps.shape[1]
    if words == 1:
        for i in range(first, stop):
            slot, region = slots[i], types.int64(regions[i])
            word = bitmaps[slot, 0]
            if region >= 0:
                word &= _word_at(table, region)
                bitmaps[slot, 0] = word
            slots[target], regions[target] = slot, region
            target += word != 0
        return target
    for i in range(first, stop):
        slot, region = slots[i], types.int64(regions[i])
        left = types.uint64(region < 0)
        if region >= 0:
            place = region * words
            for k in range(words):
                word = bitmaps[slot, k] & _word_at(table, place + k)
                bitmaps[slot, k] = word
                left |= word
        slots[target], regions[target] = slot, region
        target += left != 0
    return target


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _begin(table, items, bitmaps, slots, stop, regions):
    """As `_narrow` for the first construct: the bitmaps before it are all items."""
    words, target = bitmaps.shape[1], 0
    for i in range(stop):
        slot, place, left = slots[i], types.int64(regions[i]) * words, types.uint64(0)
        for k in range(words):
            word = items[k] & _word_at(table, place + k)
            bitmaps[slot, k] = word
            left |= word
        slots[target], regions[target] = slot, regions[i]
        target += left != 0
    return target


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _visit(constructs, scales, usage, number, start, scratch, segment, bitmaps, counts, figures):
    """Evaluates one construct for a segment of the living: first, stop, where the survivors go. Returns where they end."""
    slots, regions = scratch[SLOTS], scratch[REGIONS]
    first, stop, target, fresh = segment
    passed = 0
    if fresh or figures[2 + number] > 0:
        for i in range(first, stop):
            regions[i] = 0
        figures[2 + number] -= 1
    else:
        passed = _pass_over(usage, number, bitmaps, slots, first, stop, regions)
        figures[2 + number] = LOOK_AGAIN if passed < (stop - first) >> 3 else 0
    if passed < stop - first:
        _find(constructs, scales, number, start, slots, first, stop, regions)
    figures[0] += stop - first - passed
    if counts.shape[0] > 0:
        for i in range(first, stop):
            counts[start + slots[i]] += regions[i] != PASSED_OVER
    if fresh:
        return _begin(constructs[number, TABLE], usage[usage.shape[0] - 1], bitmaps, slots, stop, regions)
    return _narrow(constructs[number, TABLE], bitmaps, slots, first, stop, regions, target)


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _go_on(constructs, number, order, scratch, first, stop, visited, figures):
    """Where the survivors of a construct go next: along the micro-arrow of their region, else to the first of the order not yet visited."""
    arrows, size = constructs[number, ARROWS], constructs[number, ARROW_COUNT]
    slots, regions, nexts, ahead = scratch[SLOTS], scratch[REGIONS], scratch[NEXT], scratch[AHEAD]
    word, bit = number >> 6, types.uint64(number & 63)
    for i in range(first, stop):
        slot, region = slots[i], types.int64(regions[i])
        visited[slot, word] |= types.uint64(1) << bit
        if 0 <= region < size:
            aim = types.int64(_int32_at(arrows, region))
            if aim >= 0 and (visited[slot, aim >> 6] >> types.uint64(aim & 63)) & types.uint64(1) == 0:
                nexts[slot] = aim
                figures[1] += 1
                continue
        place = ahead[slot]
        while place < order.shape[0] and (visited[slot, order[place] >> 6] >> types.uint64(order[place] & 63)) & types.uint64(1) != 0:
            place += 1
        ahead[slot] = place
        nexts[slot] = order[place] if place < order.shape[0] else 0


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _sort_by_next(scratch, alive, starts):
    """Counting sort of the living by their next construct; ``starts`` (constructs + 1,) become the bounds."""
    slots, nexts, ordered = scratch[SLOTS], scratch[NEXT], scratch[SORTED]
    starts[:] = 0
    for i in range(alive):
        starts[nexts[slots[i]] + 1] += 1
    for k in range(1, starts.shape[0]):
        starts[k] += starts[k - 1]
    for i in range(alive):
        number = nexts[slots[i]]
        ordered[starts[number]] = slots[i]
        starts[number] += 1
    for k in range(starts.shape[0] - 1, 0, -1):
        starts[k] = starts[k - 1]
    starts[0] = 0
    for i in range(alive):
        slots[i] = ordered[i]


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _enter(order, usage, block, size, slots):
    """All events of a block are alive; without a construct to ask they are every item."""
    for i in range(size):
        slots[i] = i
    if order.shape[0] == 0:
        for i in range(size):
            for k in range(block.shape[1]):
                block[i, k] = usage[usage.shape[0] - 1, k]


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _write(start, slots, alive, block, rows, bitmaps, count):
    """Writes out the living of a block behind the ``count`` that are there; returns how many these are now."""
    for i in range(alive):
        rows[count] = start + slots[i]
        for k in range(block.shape[1]):
            bitmaps[count, k] = block[slots[i], k]
        count += 1
    return count


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _all_rows(constructs, order, items, start, own, regions, places, rows, bitmaps, count):
    """ANDs the bitmaps of all regions of every event of a block and writes out what is left; returns how many.

    Word by word through all rows, in registers: five rows at a time over a row in memory took 79 instead of 45 ns (ten constructs, 48 words).
    """
    size, length = 8 * bitmaps.shape[1], types.int64(order.shape[0])
    wide, half = size - size % (8 * _WIDE), size - size % (8 * _HALF)
    for i in range(own):
        for step in range(length):
            places[step] = constructs[order[step], TABLE] + types.int64(regions[step, i]) * size
        out, left = bitmaps.ctypes.data + count * size, types.uint64(0)
        items_at, places_at = items.ctypes.data, places.ctypes.data
        for offset in range(0, wide, 8 * _WIDE):
            left |= _and_wide(out, items_at, places_at, length, offset)
        for offset in range(wide, half, 8 * _HALF):
            left |= _and_half(out, items_at, places_at, length, offset)
        for offset in range(half, size, 8):
            left |= _and_word(out, items_at, places_at, length, offset)
        rows[count] = start + i
        count += left != 0
    return count


@kernel(types.int64(
            _INTEGER_TABLE, _FLOAT_TABLE, _ORDER, _WORD_TABLE, types.int64, types.int32[:, ::1], types.int32[:, ::1], types.int64[::1], _WORDS,
            types.int64[::1],
            _WORDS, types.int32[::1], types.int64[::1],
        ), counted=False)  # fmt: skip
def evaluate(constructs, scales, order, usage, events, scratch, every, places, block, rows, bitmaps, counts, figures):
    """Evaluates a macro-sequence: writes the events with a result bitmap that is not empty, and these bitmaps; returns how many.

    Args:
        constructs: one row of fields per construct.
        scales: float64 (constructs, `SCALES`): for forms with a search lowest constant, scale, bits per doubling, cells, halvings in a cell.
        order: macro-sequence; constructs that are not in it are never visited.
        usage: (constructs + 1, words): items that use a construct; last row: all items, where evaluation begins.
        events: of the batch.
        scratch: int32 (`SCRATCH`, at least block).
        every: int32 (order, at most as many as ``scratch`` has), scratch: the regions of all constructs.
        places: int64 (order,), scratch.
        block: (block, words), scratch.
        rows: out.
        bitmaps: out, (rows, words).
        counts: out, evaluated constructs per event of the batch, added to; or empty.
        figures: in-out, added to: evaluated constructs, micro-arrows followed; then per construct how long nobody looks who can pass it over.
    """
    count, slots, length, whole, start = 0, scratch[SLOTS], order.shape[0], 0, 0
    many = bitmaps.shape[1] >= MANY_WORDS and length > 0 and counts.shape[0] == 0
    while start < events:
        if whole > 0:
            whole -= 1
            own = min(every.shape[1], events - start)
            for step in range(length):
                _find_all(constructs, scales, order[step], start, own, slots, every[step])
            figures[0] += own * length
            count = _all_rows(constructs, order, usage[usage.shape[0] - 1], start, own, every, places, rows, bitmaps, count)
            start += own
            continue
        own = min(block.shape[0], events - start)
        _enter(order, usage, block, own, slots)
        alive, before = own, figures[0]
        for step in range(length):
            if alive == 0:
                break
            alive = _visit(constructs, scales, usage, order[step], start, scratch, (0, alive, 0, step == 0), block, counts, figures)
        count = _write(start, slots, alive, block, rows, bitmaps, count)
        # where nearly all constructs were asked of nearly all events, so are those of the next blocks
        whole = LOOK_AGAIN if many and 8 * (figures[0] - before) >= 7 * own * length else 0
        start += own
    return count


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _asked(usage, number, start, rows, found, first, count, slots):
    """The events that have an entry which uses the construct go to ``slots``; returns how many."""
    asked, last = 0, -1
    for k in range(first, count):
        bit = types.int64(found[k])
        if (usage[number, bit >> 6] >> types.uint64(bit & 63)) & types.uint64(1) and rows[k] != last:
            last = types.int64(rows[k])
            slots[asked] = last - start
            asked += 1
    return asked


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _keep(usage, table, number, rows, found, first, count, regions):
    """Drops the entries that fail the construct, whose regions stand in the order in which `_asked` listed the events; returns how many are left."""
    words, kept, place, last = usage.shape[1], first, -1, -1
    for k in range(first, count):
        row, bit = types.int64(rows[k]), types.int64(found[k])
        holds = types.uint64(1)
        if (usage[number, bit >> 6] >> types.uint64(bit & 63)) & types.uint64(1):
            place += row != last
            last = row
            holds = (_word_at(table, types.int64(regions[place]) * words + (bit >> 6)) >> types.uint64(bit & 63)) & types.uint64(1)
        rows[kept], found[kept] = row, bit
        kept += types.int64(holds)
    return kept


@njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _list_in_range(constructs, number, words, start, own, regions, bounds, bits, rows, found, count):
    """Writes the entries of a block that a construct of ranges lets through; returns how many there are now.

    Two comparisons per entry, read one after the other, instead of a search for the region and a look at its bitmap: 2 instead of 15 ns.
    """
    column, state, table = constructs[number, COLUMN], constructs[number, STATE], constructs[number, TABLE]
    lows, highs, special = constructs[number, LOWS], constructs[number, HIGHS], constructs[number, NOT_A_NUMBER]
    floats = constructs[number, FORM] == FLOATS
    for i in range(own):
        row, region = start + i, types.int64(-1)
        begin, end = types.int64(bounds[regions[i]]), types.int64(bounds[regions[i] + 1])
        value, integer = types.float64(0.0), types.int64(0)
        if floats:
            value = _float64_at(column, row)
            if value != value:  # noqa: PLR0124  (NaN)
                region = special
        else:
            integer = _int64_at(column, row)
        if state != 0 and _uint8_at(state, row) != 0:
            region = special + types.int64(_uint8_at(state, row))
        for k in range(begin, end):
            bit = types.int64(bits[k])
            if region >= 0:
                holds = (_word_at(table, region * words + (bit >> 6)) >> types.uint64(bit & 63)) & types.uint64(1) != 0
            elif floats:
                holds = (value >= _float64_at(lows, k)) & (value <= _float64_at(highs, k))
            else:
                holds = (integer >= _int64_at(lows, k)) & (integer <= _int64_at(highs, k))
            rows[count], found[count] = row, bit
            count += types.int64(holds)
    return count


@kernel(types.int64(
            _INTEGER_TABLE, _FLOAT_TABLE, _ORDER, _WORD_TABLE, types.int64, _ORDER, _ORDER, types.int32[:, ::1], types.int64,
            types.int32[::1], types.int32[::1], types.int64[::1],
        ), counted=False)  # fmt: skip
def list_items(constructs, scales, order, usage, events, bounds, bits, scratch, share, rows, found, figures):
    """Writes an entry, an event and a bit, for every bit that an event passes, in order of events; returns how many, or `GIVEN_UP`.

    For queries of which an event can be a few items only, whose bitmaps would be nearly empty: the region of the leading attribute gives the list of
    all items that it lets through, and the others are asked about those alone.

    Args:
        constructs: see `evaluate`, and so the others.
        scales: see there.
        order: of constructs; the first one leads, and the second one is asked on the way if it has ranges.
        usage: see there.
        events: of the batch.
        bounds: by region of the leading construct where its list begins and ends.
        bits: the lists.
        scratch: see there.
        share: entries per event that are allowed, before the other constructs are asked. There must be room for these, and `ROOM` more.
        rows: out, the events of the entries, ascending.
        found: out, the bits of the entries.
        figures: in-out, evaluated constructs are added to the first.
    """
    slots, regions = scratch[SLOTS], scratch[REGIONS]
    size, count, written, lead = scratch.shape[1], 0, 0, types.int64(order[0])
    for start in range(0, events, size):
        own = min(size, events - start)
        for i in range(own):
            slots[i], regions[i] = i, 0
        _find(constructs, scales, lead, start, slots, 0, own, regions)
        figures[0] += own
        for i in range(own):
            written += types.int64(bounds[regions[i] + 1]) - types.int64(bounds[regions[i]])
        if written > share * (start + own) + ROOM:
            return GIVEN_UP
        first, done = count, 1
        if order.shape[0] > 1 and constructs[order[1], LOWS] != 0:
            count = _list_in_range(constructs, types.int64(order[1]), usage.shape[1], start, own, regions, bounds, bits, rows, found, count)
            figures[0] += own
            done = 2
        else:
            for i in range(own):
                for k in range(types.int64(bounds[regions[i]]), types.int64(bounds[regions[i] + 1])):
                    rows[count], found[count] = start + i, bits[k]
                    count += 1
        for step in range(done, order.shape[0]):
            number = types.int64(order[step])
            asked = _asked(usage, number, start, rows, found, first, count, slots)
            if asked == 0:
                continue
            for i in range(asked):
                regions[i] = 0
            _find(constructs, scales, number, start, slots, 0, asked, regions)
            figures[0] += asked
            count = _keep(usage, constructs[number, TABLE], number, rows, found, first, count, regions)
    return count


@njit(cache=True, nogil=True, _nrt=False)
def evaluate_hybrid(constructs, scales, order, usage, events, scratch, block, visited, starts, rows, bitmaps, counts, figures):
    """As `evaluate`, with micro-arrows. It has no signature: it is compiled when it is first called, since few need it.

    Args:
        constructs: see `evaluate`, and so the others.
        scales: see there.
        order: at least one construct.
        usage: see there.
        events: see there.
        scratch: see there.
        block: see there.
        visited: (block + 1, words of constructs), scratch; last row: constructs that are not in the order.
        starts: int64 (constructs + 1,), scratch.
        rows: out.
        bitmaps: out.
        counts: out.
        figures: in-out.
    """
    count, slots = 0, scratch[SLOTS]
    for start in range(0, events, block.shape[0]):
        alive = min(block.shape[0], events - start)
        size = alive
        _enter(order, usage, block, size, slots)
        for i in range(size):
            scratch[NEXT, i] = order[0]
            scratch[AHEAD, i] = 0
            for k in range(visited.shape[1]):
                visited[i, k] = visited[visited.shape[0] - 1, k]
        for step in range(order.shape[0]):
            if alive == 0:
                break
            _sort_by_next(scratch, alive, starts)
            kept = 0
            for number in range(constructs.shape[0]):
                if starts[number] < starts[number + 1]:
                    segment = (starts[number], starts[number + 1], kept, step == 0)
                    stop = _visit(constructs, scales, usage, number, start, scratch, segment, block, counts, figures)
                    _go_on(constructs, number, order, scratch, kept, stop, visited, figures)
                    kept = stop
            alive = kept
        for i in range(size):  # back into the order of arrival
            scratch[SORTED, i] = 0
        for i in range(alive):
            scratch[SORTED, slots[i]] = 1
        alive = 0
        for i in range(size):
            slots[alive] = i
            alive += scratch[SORTED, i]
        count = _write(start, slots, alive, block, rows, bitmaps, count)
    return count
