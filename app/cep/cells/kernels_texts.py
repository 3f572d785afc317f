"""Compiled loops over texts: numbering distinct byte strings, marking those in use, and giving them new numbers."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import njit, types

from app.cep.cells.kernels_memory import load, store
from app.cep.kernel import kernel
from app.events.kernels_text import load64

_BYTES = types.uint8[::1]
_BYTES_IN = types.Array(types.uint8, 1, "C", readonly=True)
_INTEGERS = types.int64[::1]
_INTEGERS_IN = types.Array(types.int64, 1, "C", readonly=True)
_TABLE = types.int64[:, ::1]

COUNT, USED_BYTES = 0, 1
"""Places of the counters in ``sizes``."""


@njit(inline="always")
def hash_bytes(data, start, stop):
    """A hash of eight bytes at a time; only spreads over the table, so it need not be stable between versions."""
    h = types.uint64(stop - start) * types.uint64(0x9E3779B97F4A7C15)
    at = start
    while at + 8 <= stop:
        h = (h ^ load64(data, at)) * types.uint64(0x9FB21C651E98DF25)
        h ^= h >> types.uint64(32)
        at += 8
    if at < stop:
        word = types.uint64(0)
        if stop - start >= 8:
            word = load64(data, stop - 8)
        else:
            for k in range(start, stop):
                word = word << types.uint64(8) | types.uint64(data[k])
        h = (h ^ word) * types.uint64(0x9FB21C651E98DF25)
        h ^= h >> types.uint64(32)
    h *= types.uint64(0xD6E8FEB86659FD93)
    h ^= h >> types.uint64(29)
    return np.int64(h & types.uint64(0x7FFFFFFFFFFFFFFF))


@njit(inline="always")
def same_bytes(data, start, stop, other, begin):
    """Whether ``data[start:stop]`` stands at ``other[begin:]``."""
    size = stop - start
    if size >= 8:
        same = load64(data, stop - 8) == load64(other, begin + size - 8)
        at = 0
        while same and at + 8 < size:
            same = load64(data, start + at) == load64(other, begin + at)
            at += 8
        return same
    same = True
    for k in range(size):
        same = same and data[start + k] == other[begin + k]
    return same


@njit(inline="always")
def number_of_bytes(source, start, stop, data, offsets, table, sizes):
    """The number of ``source[start:stop]`` among the texts, entered if it is new. The caller has made room.

    ``table`` is int64 (slots, 2): hash and number + 1 (0: free), slots a power of two, at most half full.
    """
    h = hash_bytes(source, start, stop)
    last = table.shape[0] - 1
    slot = h & last
    number = np.int64(-1)
    while number < 0 and load(table, slot, 1) != 0:
        if load(table, slot, 0) == h:
            candidate = load(table, slot, 1) - 1
            begin = offsets[candidate]
            if offsets[candidate + 1] - begin == stop - start and same_bytes(source, start, stop, data, begin):
                number = candidate
        slot = (slot + 1) & last
    if number < 0:
        number = sizes[COUNT]
        end = sizes[USED_BYTES]
        for k in range(stop - start):
            data[end + k] = source[start + k]
        sizes[COUNT] = number + 1
        sizes[USED_BYTES] = end + stop - start
        offsets[number + 1] = sizes[USED_BYTES]
        store(table, slot, 0, h)
        store(table, slot, 1, number + 1)
    return number


@kernel(types.int64(_BYTES_IN, types.int64, types.int64, _BYTES, _INTEGERS, _TABLE, _INTEGERS))
def number_of(source, start, stop, data, offsets, table, sizes):
    """As `number_of_bytes`, for one text."""
    return number_of_bytes(source, start, stop, data, offsets, table, sizes)


@kernel(
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
    )
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
            number = number_of_bytes(entry_data, entry_offsets[code], entry_offsets[code + 1], data, offsets, table, sizes)
            mapping[code] = number
        cells[k, column] = number


@kernel(types.void(_BYTES, _INTEGERS, _TABLE, _INTEGERS))
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


@kernel(types.int64(_INTEGERS, types.int64, _BYTES, _INTEGERS, _BYTES, _INTEGERS))
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
