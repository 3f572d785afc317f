"""Kernels that number texts: hashes, dictionaries under construction. Reached only through `app.events.interning`, and by the kernels that decode."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit, types

from app.events.kernel import kernel
from app.events.kernels_text import BYTES, is_utf8, load64

LONGS = types.Array(types.int64, 1, "C", readonly=True)
NUMBERS = types.int64[::1]
"""Inside tuples numba does not turn a writable array into a read-only one, so integers there are writable and bytes read-only."""
Texts = namedtuple("Texts", ("table", "table_start", "mask", "entries", "entry_start", "room", "used", "pool", "pool_used"))  # noqa: PYI024
"""Dictionaries under construction, see `app.events.interning`. table: int64, upper half of the hash and code, or -1: most probes that
miss touch nothing else; entries: int64 (entries, 4) of hash, start in the pool, length, 0: one cache line for all (5 instead of 3.4 M
records/s with 200,000 distinct tags)."""
TEXTS = types.NamedTuple(
    (NUMBERS, NUMBERS, NUMBERS, types.int64[:, ::1], NUMBERS, NUMBERS, NUMBERS, types.uint8[::1], NUMBERS),
    Texts,
)
NO_ROOM, NOT_UTF8 = -1, -2
MIX = np.uint64(0x9E3779B97F4A7C15)


@njit(inline="always")
def mixed(word):  # type: ignore[no-untyped-def]
    """A permutation of the 64-bit words: different short texts never collide fully."""
    word ^= word >> np.uint64(32)
    word *= MIX
    return word ^ (word >> np.uint64(29))


@njit(inline="always")
def quick_hash(data, start, end):  # type: ignore[no-untyped-def]
    """A hash for tables in memory only; for up to 8 bytes equal hash and length mean equal bytes."""
    length = end - start
    if length <= 8:
        word = np.uint64(0)
        if length > 0 and start + 8 <= len(data):
            word = load64(data, start)
            if length < 8:
                word &= (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
        else:
            for k in range(length):
                word |= np.uint64(data[start + k]) << np.uint64(8 * k)
        return mixed(word)
    h = np.uint64(length)
    at = start
    while at + 8 <= end:
        h = mixed(h ^ load64(data, at)) + MIX
        at += 8
    return mixed(h ^ load64(data, end - 8))


@kernel(types.boolean(BYTES, types.intp, types.uint8[::1], types.intp, types.intp))
def equal_bytes(left, left_at, right, right_at, length):  # type: ignore[no-untyped-def]
    """Whether ``length`` bytes are the same; at least 8."""
    k = 0
    while k + 8 <= length:
        if load64(left, left_at + k) != load64(right, right_at + k):
            return False
        k += 8
    return load64(left, left_at + length - 8) == load64(right, right_at + length - 8)


@njit(inline="always")
def known_code(texts, dictionary, h, data, start, end):  # type: ignore[no-untyped-def]
    """The code of ``data[start:end]`` with the given hash in a dictionary, or -1. Inlined: calling it with all those arrays cost 20 ns."""
    length = end - start
    mask = texts.mask[dictionary]
    base = texts.table_start[dictionary]
    first = texts.entry_start[dictionary]
    upper = np.int64(h >> np.uint64(33))
    slot = np.int64(h & np.uint64(mask))
    while True:
        code = texts.table[base + slot]
        if code < 0:
            break
        if code >> 32 == upper:
            code &= 0xFFFFFFFF
            entry = first + code
            if texts.entries[entry, 0] == np.int64(h) and texts.entries[entry, 2] == length:
                if length <= 8 or equal_bytes(data, start, texts.pool, texts.entries[entry, 1], length):
                    break
        slot = (slot + 1) & mask
    return code


@kernel(types.int64(TEXTS, types.int64, types.uint64, BYTES, types.intp, types.intp, types.boolean))
def new_code(texts, dictionary, h, data, start, end, check):  # type: ignore[no-untyped-def]
    """Enters ``data[start:end]``, which the dictionary does not have. NO_ROOM, NOT_UTF8 are negative."""
    if check and not is_utf8(data, start, end):
        return NOT_UTF8
    length = end - start
    code = texts.used[dictionary]
    place = texts.pool_used[0]
    if code >= texts.room[dictionary] or place + length > len(texts.pool):
        return NO_ROOM
    for k in range(length):
        texts.pool[place + k] = data[start + k]
    texts.pool_used[0] = place + length
    texts.used[dictionary] = code + 1
    entry = texts.entry_start[dictionary] + code
    texts.entries[entry, 0] = np.int64(h)
    texts.entries[entry, 1] = place
    texts.entries[entry, 2] = length
    mask = texts.mask[dictionary]
    base = texts.table_start[dictionary]
    slot = np.int64(h & np.uint64(mask))
    while texts.table[base + slot] >= 0:
        slot = (slot + 1) & mask
    texts.table[base + slot] = np.int64(h >> np.uint64(33)) << 32 | code
    return code


@kernel(types.int64(TEXTS, types.int64, BYTES, types.intp, types.intp, types.boolean))
def intern(texts, dictionary, data, start, end, check):  # type: ignore[no-untyped-def]
    """The code of ``data[start:end]`` in a dictionary; a new entry if it has none yet. NO_ROOM, NOT_UTF8 are negative."""
    h = quick_hash(data, start, end)
    code = known_code(texts, dictionary, h, data, start, end)
    return code if code >= 0 else new_code(texts, dictionary, h, data, start, end, check)


@kernel(types.int64(TEXTS, types.int64, BYTES, LONGS, types.int64[::1], types.int64))
def intern_all(texts, dictionary, data, offsets, codes, first):  # type: ignore[no-untyped-def]
    """Codes of texts from the ``first`` on; returns how many are done (fewer than all: no room)."""
    for k in range(first, len(codes)):
        code = intern(texts, dictionary, data, offsets[k], offsets[k + 1], False)
        if code < 0:
            return k
        codes[k] = code
    return len(codes)


@kernel(types.void(NUMBERS, types.int64, types.int64, types.int64[:, ::1], types.int64, types.int64))
def rehash(table, base, mask, entries, first, used):  # type: ignore[no-untyped-def]
    """Enters all entries of a dictionary into its (new, empty) table."""
    for code in range(used):
        h = np.uint64(entries[first + code, 0])
        slot = np.int64(h & np.uint64(mask))
        while table[base + slot] >= 0:
            slot = (slot + 1) & mask
        table[base + slot] = np.int64(h >> np.uint64(33)) << 32 | code


@kernel(types.void(types.uint8[::1], types.int64[:, ::1], types.uint8[::1], NUMBERS))
def gather_entries(pool, entries, data, offsets):  # type: ignore[no-untyped-def]
    """Copies entries that lie scattered in the pool after each other."""
    for k in range(len(entries)):
        to, start = offsets[k], entries[k, 1]
        for j in range(entries[k, 2]):
            data[to + j] = pool[start + j]
