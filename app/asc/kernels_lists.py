"""The compiled evaluation by lists: for queries of which an event can be a few items only."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from numba import njit, types

from app.asc.arrays import COLUMN, FLOATS, FORM, GIVEN_UP, HIGHS, LOWS, NOT_A_NUMBER, REGIONS, ROOM, SLOTS, STATE, TABLE
from app.asc.kernel import kernel
from app.asc.kernels_find import find
from app.asc.kernels_memory import float64_at, int64_at, uint8_at, word_at

_ORDER = types.Array(types.int32, 1, "C", readonly=True)
_INTEGER_TABLE = types.Array(types.int64, 2, "C", readonly=True)
_FLOAT_TABLE = types.Array(types.float64, 2, "C", readonly=True)
_WORD_TABLE = types.Array(types.uint64, 2, "C", readonly=True)


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
            holds = (word_at(table, types.int64(regions[place]) * words + (bit >> 6)) >> types.uint64(bit & 63)) & types.uint64(1)
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
            value = float64_at(column, row)
            if value != value:  # noqa: PLR0124  (NaN)
                region = special
        else:
            integer = int64_at(column, row)
        if state != 0 and uint8_at(state, row) != 0:
            region = special + types.int64(uint8_at(state, row))
        for k in range(begin, end):
            bit = types.int64(bits[k])
            if region >= 0:
                holds = (word_at(table, region * words + (bit >> 6)) >> types.uint64(bit & 63)) & types.uint64(1) != 0
            elif floats:
                holds = (value >= float64_at(lows, k)) & (value <= float64_at(highs, k))
            else:
                holds = (integer >= int64_at(lows, k)) & (integer <= int64_at(highs, k))
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
        find(constructs, scales, lead, start, slots, 0, own, regions)
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
            find(constructs, scales, number, start, slots, 0, asked, regions)
            figures[0] += asked
            count = _keep(usage, constructs[number, TABLE], number, rows, found, first, count, regions)
    return count
