"""The compiled evaluation of all constructs for the events of a batch.

Columns, lookups and bitmaps of all attributes reach it as one array of addresses, one row per construct (`app.asc.arrays`). It goes
block by block, and within a block construct by construct over the events that are still alive: loops without branches to guess, and the block's
bitmaps stay in the cache. Event by event it took two to four times as long.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from numba import njit, types

from app.asc.arrays import AHEAD, ARROW_COUNT, ARROWS, LOOK_AGAIN, MANY_WORDS, NEXT, PASSED_OVER, REGIONS, SLOTS, SORTED, TABLE
from app.asc.kernel import kernel
from app.asc.kernels_find import find, find_all
from app.asc.kernels_memory import int32_at, word_at
from app.asc.kernels_rows import all_rows

_ORDER = types.Array(types.int32, 1, "C", readonly=True)
_INTEGER_TABLE = types.Array(types.int64, 2, "C", readonly=True)
_FLOAT_TABLE = types.Array(types.float64, 2, "C", readonly=True)
_WORD_TABLE = types.Array(types.uint64, 2, "C", readonly=True)
_WORDS = types.uint64[:, ::1]


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
                word &= word_at(table, region)
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
                word = bitmaps[slot, k] & word_at(table, place + k)
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
            word = items[k] & word_at(table, place + k)
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
        find(constructs, scales, number, start, slots, first, stop, regions)
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
            aim = types.int64(int32_at(arrows, region))
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
                find_all(constructs, scales, order[step], start, own, slots, every[step])
            figures[0] += own * length
            count = all_rows(constructs, order, usage[usage.shape[0] - 1], start, own, every, places, rows, bitmaps, count)
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
