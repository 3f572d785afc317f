"""Compiled loops over texts: numbering distinct byte strings, marking those in use, and giving them new numbers."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import njit, types

_BYTES = types.uint8[::1]
_BYTES_IN = types.Array(types.uint8, 1, "C", readonly=True)
_INTEGERS = types.int64[::1]
_INTEGERS_IN = types.Array(types.int64, 1, "C", readonly=True)
_TABLE = types.int64[:, ::1]

COUNT, USED_BYTES = 0, 1
"""Places of the counters in ``sizes``."""


@njit([types.int64(a, types.int64, types.int64) for a in (_BYTES, _BYTES_IN)], cache=True, nogil=True)
def hash_bytes(data, start, stop):
    """FNV-1a over eight bytes at a time; only spreads over the table, so it need not be stable between versions."""
    h = types.uint64(14695981039346656037)
    at = start
    while at + 8 <= stop:
        word = types.uint64(0)
        for k in range(8):
            word |= types.uint64(data[at + k]) << types.uint64(8 * k)
        h = (h ^ word) * types.uint64(0x9FB21C651E98DF25)
        h ^= h >> types.uint64(35)
        at += 8
    while at < stop:
        h = (h ^ types.uint64(data[at])) * types.uint64(1099511628211)
        at += 1
    h ^= h >> types.uint64(29)
    return np.int64(h & types.uint64(0x7FFFFFFFFFFFFFFF))


@njit(
    [types.int64(a, types.int64, types.int64, _BYTES, _INTEGERS, _TABLE, _INTEGERS) for a in (_BYTES, _BYTES_IN)],
    cache=True,
    nogil=True,
)
def number_of(source, start, stop, data, offsets, table, sizes):
    """The number of ``source[start:stop]`` among the texts, entered if it is new. The caller has made room.

    ``table`` is int64 (slots, 2): hash and number + 1 (0: free), slots a power of two, at most half full.
    """
    h = hash_bytes(source, start, stop)
    last = table.shape[0] - 1
    slot = h & last
    while table[slot, 1] != 0:
        if table[slot, 0] == h:
            number = table[slot, 1] - 1
            begin = offsets[number]
            if offsets[number + 1] - begin == stop - start:
                same = True
                for k in range(stop - start):
                    if data[begin + k] != source[start + k]:
                        same = False
                        break
                if same:
                    return number
        slot = (slot + 1) & last
    number = sizes[COUNT]
    end = sizes[USED_BYTES]
    for k in range(stop - start):
        data[end + k] = source[start + k]
    sizes[COUNT] = number + 1
    sizes[USED_BYTES] = end + stop - start
    offsets[number + 1] = sizes[USED_BYTES]
    table[slot, 0] = h
    table[slot, 1] = number + 1
    return number


@njit(
    types.void(
        types.Array(types.int32, 1, "C", readonly=True),
        _INTEGERS,
        _INTEGERS,
        _BYTES_IN,
        _INTEGERS_IN,
        _BYTES,
        _INTEGERS,
        _TABLE,
        _INTEGERS,
        _TABLE,
        types.int64,
    ),
    cache=True,
    nogil=True,
)
def number_codes(codes, rows, mapping, entry_data, entry_offsets, data, offsets, table, sizes, cells, column):
    """``cells[k, column]`` = number of the text that ``codes[rows[k]]`` stands for; ``mapping`` remembers entries (-1: not yet seen)."""
    for k in range(len(rows)):
        code = codes[rows[k]]
        if code < 0 or code >= len(mapping):  # undefined where the cell is not present
            cells[k, column] = 0
            continue
        number = mapping[code]
        if number < 0:
            number = number_of(entry_data, entry_offsets[code], entry_offsets[code + 1], data, offsets, table, sizes)
            mapping[code] = number
        cells[k, column] = number


@njit(types.void(_BYTES, _INTEGERS, _TABLE, _INTEGERS), cache=True, nogil=True)
def rebuild_table(data, offsets, table, sizes):
    """Enters all texts into an empty table."""
    last = table.shape[0] - 1
    for number in range(sizes[COUNT]):
        h = hash_bytes(data, offsets[number], offsets[number + 1])
        slot = h & last
        while table[slot, 1] != 0:
            slot = (slot + 1) & last
        table[slot, 0] = h
        table[slot, 1] = number + 1


@njit(types.int64(_INTEGERS, types.int64, _BYTES, _INTEGERS, _BYTES, _INTEGERS), cache=True, nogil=True)
def keep_marked(marks, count, data, offsets, new_data, new_offsets):
    """Copies the marked texts, in order; ``marks`` becomes old number -> new number (-1: gone). Returns how many stay."""
    kept = 0
    end = 0
    for number in range(count):
        if marks[number] == 0:
            marks[number] = -1
            continue
        for at in range(offsets[number], offsets[number + 1]):
            new_data[end] = data[at]
            end += 1
        marks[number] = kept
        kept += 1
        new_offsets[kept] = end
    return kept
