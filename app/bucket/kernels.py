"""Compiled loops of routing and of judging lateness."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from app.cep.kernels_memory import trailing_zeros

_CODES = types.Array(types.int32, 1, "C", readonly=True)
_STATE = types.Array(types.uint8, 1, "C", readonly=True)
_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_FLOATS = types.Array(types.float64, 1, "C", readonly=True)
_HASHES = types.Array(types.uint64, 1, "C", readonly=True)
_HASHES_OUT = types.uint64[::1]
_BITMAPS = types.Array(types.uint64, 2, "C", readonly=True)
_INTEGERS_OUT = types.int64[::1]
_FLAGS_OUT = types.boolean[::1]

ABSENT_STATE = 2
ROUTED, EVERYWHERE, NOWHERE = 0, 1, 2
"""Where an event's key leads: to one bucket; to all (a negated type lacks a key attribute); to none (a key attribute is null)."""


@njit([types.uint64(types.uint64)], cache=True, nogil=True)
def splitmix64(value):
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(cache=True, nogil=True, inline="always")
def _lead(state, row, reach, i):
    """Notes where a null or absent cell leads; whether there is a value to hash."""
    if state.shape[0] == 0 or state[row] == 0:
        return True
    if state[row] == ABSENT_STATE:
        reach[i] = max(reach[i], types.uint8(EVERYWHERE))
    else:
        reach[i] = NOWHERE
    return False


@njit([types.void(_INTEGERS, _STATE, _INTEGERS, _HASHES_OUT, types.uint8[::1])], cache=True, nogil=True)
def mix_integers(values, state, rows, hashes, reach):
    """Mixes one integer key attribute of the given rows into their hashes."""
    for i in range(rows.shape[0]):
        row = rows[i]
        if _lead(state, row, reach, i):
            hashes[i] = splitmix64(hashes[i] ^ splitmix64(types.uint64(values[row])))


@njit([types.void(_FLOATS, _STATE, _INTEGERS, _HASHES_OUT, types.uint8[::1])], cache=True, nogil=True)
def mix_floats(values, state, rows, hashes, reach):
    """As `mix_integers`; a float that is an integer hashes as one, because the two are equal. NaN equals nothing and goes nowhere."""
    for i in range(rows.shape[0]):
        row = rows[i]
        if not _lead(state, row, reach, i):
            continue
        value = values[row]
        if value != value:  # noqa: PLR0124  (NaN)
            reach[i] = NOWHERE
        elif value == np.floor(value) and -9.2e18 < value < 9.2e18:
            hashes[i] = splitmix64(hashes[i] ^ splitmix64(types.uint64(types.int64(value))))
        else:
            hashes[i] = splitmix64(hashes[i] ^ splitmix64(np.float64(value).view(np.uint64)))


@njit([types.void(_CODES, _HASHES, _STATE, _INTEGERS, _HASHES_OUT, types.uint8[::1])], cache=True, nogil=True)
def mix_codes(codes, entry_hashes, state, rows, hashes, reach):
    """As `mix_integers` for strings and bytes: the entries' content hashes are gathered by code."""
    for i in range(rows.shape[0]):
        row = rows[i]
        if _lead(state, row, reach, i):
            hashes[i] = splitmix64(hashes[i] ^ entry_hashes[codes[row]])


@njit([types.void(_INTEGERS, _CODES, types.int64[::1], _INTEGERS, types.int64, _FLAGS_OUT)], cache=True, nogil=True)
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


@njit([types.int64(_HASHES, _INTEGERS, types.int64[::1], _HASHES_OUT, types.int64[::1], types.int64, _FLAGS_OUT)], cache=True, nogil=True)
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


@njit(
    [
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
    ],
    cache=True,
    nogil=True,
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
