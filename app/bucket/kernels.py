"""Compiled loops of routing, of judging lateness, and of what families are fed."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from app.bucket.kernel import kernel
from app.cep.cells.arrays import FOREVER, NEVER
from app.cep.cells.kernels_memory import trailing_zeros

_CODES = types.Array(types.int32, 1, "C", readonly=True)
_STATE = types.Array(types.uint8, 1, "C", readonly=True)
_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_FLOATS = types.Array(types.float64, 1, "C", readonly=True)
_HASHES = types.Array(types.uint64, 1, "C", readonly=True)
_HASHES_OUT = types.uint64[::1]
_BITMAPS = types.Array(types.uint64, 2, "C", readonly=True)
_TABLE = types.Array(types.int64, 2, "C", readonly=True)
_INTEGERS_OUT = types.int64[::1]
_FLAGS_OUT = types.boolean[::1]

ABSENT_STATE = 2
TWO_TO_63 = 2.0**63
"""Whole floats from there on are no integers of 64 bit; all before are, and must lie where these lie."""
ROUTED, EVERYWHERE, NOWHERE = 0, 1, 2
"""Where an event's key leads: to one bucket; to all (a negated type lacks a key attribute); to none (a key attribute is null)."""


@kernel(types.uint64(types.uint64))
def splitmix64(value):
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(inline="always")
def _lead(state, row, reach, i):
    """Notes where a null or absent cell leads; whether there is a value to hash."""
    if state.shape[0] == 0 or state[row] == 0:
        return True
    if state[row] == ABSENT_STATE:
        reach[i] = max(reach[i], types.uint8(EVERYWHERE))
    else:
        reach[i] = NOWHERE
    return False


@kernel(types.void(_INTEGERS, _STATE, _INTEGERS, _HASHES_OUT, types.uint8[::1]))
def mix_integers(values, state, rows, hashes, reach):
    """Mixes one integer key attribute of the given rows into their hashes."""
    for i in range(rows.shape[0]):
        row = rows[i]
        if _lead(state, row, reach, i):
            hashes[i] = splitmix64(hashes[i] ^ splitmix64(types.uint64(values[row])))


@kernel(types.void(_FLOATS, _STATE, _INTEGERS, _HASHES_OUT, types.uint8[::1]))
def mix_floats(values, state, rows, hashes, reach):
    """As `mix_integers`; a float that is an integer hashes as one, because the two are equal. NaN equals nothing and goes nowhere."""
    for i in range(rows.shape[0]):
        row = rows[i]
        if not _lead(state, row, reach, i):
            continue
        value = values[row]
        if value != value:  # noqa: PLR0124  (NaN)
            reach[i] = NOWHERE
        elif value == np.floor(value) and -TWO_TO_63 <= value < TWO_TO_63:
            hashes[i] = splitmix64(hashes[i] ^ splitmix64(types.uint64(types.int64(value))))
        else:
            hashes[i] = splitmix64(hashes[i] ^ splitmix64(np.float64(value).view(np.uint64)))


@kernel(types.void(_CODES, _HASHES, _STATE, _INTEGERS, _HASHES_OUT, types.uint8[::1]))
def mix_codes(codes, entry_hashes, state, rows, hashes, reach):
    """As `mix_integers` for strings and bytes: the entries' content hashes are gathered by code."""
    for i in range(rows.shape[0]):
        row = rows[i]
        if _lead(state, row, reach, i):
            hashes[i] = splitmix64(hashes[i] ^ entry_hashes[codes[row]])


@kernel(types.void(_INTEGERS, _CODES, types.int64[::1], _INTEGERS, types.int64, _FLAGS_OUT))
def judge(time, place, greatest, floor, lateness, late):
    """Marks late events, one after the other; ``greatest`` (sources,) is advanced event by event.

    Late is what is less than its own source's watermark or than the source's floor (the stream's watermark when it was left out as idle).
    """
    for i in range(time.shape[0]):
        source = place[i]
        if time[i] < greatest[source] - lateness or time[i] < floor[source]:
            late[i] = True
        else:
            late[i] = False
            greatest[source] = max(greatest[source], time[i])


@kernel(types.int64(_HASHES, _INTEGERS, types.int64[::1], _HASHES_OUT, types.int64[::1], types.int64, _FLAGS_OUT))
def judge_keys(keys, time, before, table_keys, table_times, used, late):
    """Marks events that are earlier than their key's predecessor; the open-addressed table (power of two, hash 0 = free) learns.

    ``before``, in-out: the greatest time of predecessors that are not among these events; afterwards of all predecessors. The table must have room: twice as many places as keys in it and in the batch. Returns how many keys it holds afterwards.
    """
    mask = types.uint64(table_keys.shape[0] - 1)
    for i in range(keys.shape[0]):
        key = keys[i] if keys[i] != 0 else types.uint64(1)
        place = types.int64(key & mask)
        while table_keys[place] != 0 and table_keys[place] != key:
            place = types.int64(types.uint64(place + 1) & mask)
        if table_keys[place] == 0:
            table_keys[place] = key
            table_times[place] = before[i]
            used += 1
        before[i] = max(before[i], table_times[place])
        late[i] = time[i] < before[i]
        table_times[place] = max(time[i], before[i])
    return used


@kernel(
    types.UniTuple(types.int64, 2)(
        _BITMAPS,
        _INTEGERS,
        _INTEGERS_OUT,
        _HASHES_OUT,
        _HASHES_OUT,
        _HASHES_OUT,
        types.int64,
        types.int64,
        _INTEGERS_OUT,
        _INTEGERS_OUT,
        _INTEGERS_OUT,
    )
)
def list_pairs(bitmaps, relevant, number_of_bit, mask_of_bit, shift_of_bit, own, most, start, rows, numbers, items):
    """Event, query, items of the query: for each query of ``own`` bits that an event from ``start`` on can be something of.

    ``most``: pairs that one event can make. Returns how many there are, and the event to go on with when ``rows`` is full.
    """
    count = 0
    for i in range(start, bitmaps.shape[0]):
        if count + most > len(rows):
            return count, i
        for k in range(bitmaps.shape[1]):
            word = bitmaps[i, k] & own[k]
            while word != 0:
                bit = 64 * k + trailing_zeros(types.int64(word))
                mask = mask_of_bit[bit]
                rows[count], numbers[count] = relevant[i], number_of_bit[bit]
                items[count] = types.int64((word & mask) >> shift_of_bit[bit])
                count += 1
                word &= ~mask
    return count, bitmaps.shape[0]


@njit(inline="always")
def _later(time, span):
    """``time + span``; the end of all time where there is no span, or it is too far off."""
    return FOREVER if span < 0 or time > FOREVER - span else time + span


@njit(inline="always")
def _earlier(time, span):
    """``time - span``; the beginning of all time where there is no span, or it is too far off."""
    return NEVER if span < 0 or time < NEVER + span else time - span


@kernel(types.UniTuple(types.int64, 2)(
            _CODES, _CODES, _INTEGERS, _CODES, _TABLE, _CODES, _CODES, types.int64, types.int64, types.int64, _INTEGERS_OUT, _INTEGERS_OUT,
            _INTEGERS_OUT, types.int64[:, ::1], types.int64[:, ::1],
        ))  # fmt: skip
def needed_pairs(rows, bits, time, bounds, meaning, wake_bounds, wakes, within, horizon, start, counts, alarms, needs, notes, pairs):
    """Event, query, items of the query: for what of the entries before ``start`` may be part of a match, from the last one backwards.

    That is what something needed may follow within the window: the next item of the pattern, of negated ones the last item; or what comes after.

    Args:
        rows: int32 (entries,), events, ascending.
        bits: int32 (entries,).
        time: int64 (events,).
        bounds: int32 (bits + 1,), where a bit's rows of ``meaning`` begin and end.
        meaning: int64 (.., 4): number of the query, mask of the item, its place in ``needs``, the place of what must follow it.
        wake_bounds: int32 (needs + 1,), where a place's ``wakes`` begin and end.
        wakes: int32, the bits whose items what is at the place must follow.
        within: the window, -1 for none.
        horizon: what is later may be followed by events that are not there yet.
        start: entries before it are left.
        counts: int64 (bits,), in-out, entries by bit.
        alarms: int64 (bits,), in-out, the least of ``needs`` of all that must follow one of a bit's items: most entries need no further look.
        needs: int64, in-out, per query and item the least time of a needed event so far.
        notes: int64 (queries, 2), in-out: the last event that was written, its place in ``pairs``.
        pairs: int64 (3, room), out, filled from its end.

    Returns:
        The new ``start``, 0 when all is done, and where in ``pairs`` they begin.
    """
    first, most, last = pairs.shape[1], notes.shape[0], types.int64(-1)
    now, limit = types.int64(0), types.int64(0)
    for entry in range(start - 1, -1, -1):
        row, bit = types.int64(rows[entry]), types.int64(bits[entry])
        if row != last:
            if first < most:
                return entry + 1, first
            last, now = row, time[row]
            limit = _later(now, within)
        counts[bit] += 1
        if now <= horizon and alarms[bit] >= limit:
            continue
        for k in range(types.int64(bounds[bit]), types.int64(bounds[bit + 1])):
            if now <= horizon and needs[meaning[k, 3]] >= limit:
                continue
            own, number = meaning[k, 2], meaning[k, 0]
            if now < needs[own]:
                needs[own] = now
                for j in range(types.int64(wake_bounds[own]), types.int64(wake_bounds[own + 1])):
                    alarms[wakes[j]] = min(alarms[wakes[j]], now)
            if notes[number, 0] != row:
                first -= 1
                notes[number, 0], notes[number, 1] = row, first
                pairs[0, first], pairs[1, first], pairs[2, first] = row, number, 0
            pairs[2, notes[number, 1]] |= meaning[k, 1]
    return 0, first


@kernel(types.int64(types.int64[:, ::1], _INTEGERS, _TABLE, types.int64, types.int64[:, ::1]))
def reachable_pairs(pairs, time, steps, within, reached):
    """Keeps what something that came before it within the window leads to, and returns how many these are.

    Args:
        pairs: int64 (3, pairs), in-out, in order of events: event, query, items.
        time: int64 (events,).
        steps: int64 (items, 2), columns of ``reached``: what must come before the item, and its own.
        within: the window, -1 for none.
        reached: int64 (queries, columns), in-out, the greatest time of an event of each that was kept.
    """
    count = 0
    for k in range(pairs.shape[1]):
        row, number, left, kept = pairs[0, k], pairs[1, k], pairs[2, k], types.int64(0)
        now = time[row]
        bound = _earlier(now, within)
        while left != 0:
            item = trailing_zeros(left)
            if reached[number, steps[item, 0]] > bound:
                kept |= types.int64(1) << item
            left &= left - 1
        left = kept
        while left != 0:
            own = steps[trailing_zeros(left), 1]
            reached[number, own] = max(reached[number, own], now)
            left &= left - 1
        pairs[0, count], pairs[1, count], pairs[2, count] = row, number, kept
        count += kept != 0
    return count
