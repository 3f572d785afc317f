"""Compiled loops around the evaluation: regions of dictionary entries, dispatch of set bits to queries."""

from __future__ import annotations

from numba import njit, types
from numba.extending import intrinsic

from app.asc.kernel import kernel

_CODES = types.Array(types.int32, 1, "C", readonly=True)
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_WORD_TABLE = types.Array(types.uint64, 2, "C", readonly=True)
_WORD_ROW = types.Array(types.uint64, 1, "C", readonly=True)
_WORDS_OUT = types.uint64[:, ::1]


@njit(inline="always")
def _order(data, start, stop, other, other_start, other_stop):
    """Negative, zero or positive: the first byte string is less than, equal to, or greater than the second."""
    common = min(stop - start, other_stop - other_start)
    for k in range(common):
        difference = types.int64(data[start + k]) - types.int64(other[other_start + k])
        if difference != 0:
            return difference
    return (stop - start) - (other_stop - other_start)


@kernel(types.void(_BYTES, _INTEGERS, _BYTES, _INTEGERS, types.int32[::1]))
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


@intrinsic
def _trailing_zeros(typing_context, word):
    """The machine's instruction for the number of the lowest set bit; numba has no name for it."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.int64(types.uint64), generate


@kernel(types.void(_WORD_TABLE, _CODES, _WORD_ROW, types.int64[::1]))
def count_candidates(bitmaps, query_of_bit, mask_of_bit, counts):
    """Adds to ``counts`` (places of queries) how many events are a candidate of at least one item of each."""
    for i in range(bitmaps.shape[0]):
        for k in range(bitmaps.shape[1]):
            word = bitmaps[i, k]
            while word != 0:
                bit = 64 * k + _trailing_zeros(word)
                counts[query_of_bit[bit]] += 1
                word &= ~mask_of_bit[bit]


@kernel(types.void(_INTEGERS, _WORD_TABLE, _CODES, _WORD_ROW, _WORD_ROW, types.int64[::1], types.int64[::1], types.uint64[::1]))
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


@kernel(types.void(_WORD_TABLE, _CODES, _CODES, _WORD_ROW, _WORDS_OUT))
def unite(bitmaps, bounds, owner_words, owner_masks, united):
    """Sets, for every set bit, the bits of those that own it in ``united`` (zeroed): words and masks between the bit's bounds."""
    for i in range(bitmaps.shape[0]):
        for k in range(bitmaps.shape[1]):
            word = bitmaps[i, k]
            while word != 0:
                bit = 64 * k + _trailing_zeros(word)
                for j in range(bounds[bit], bounds[bit + 1]):
                    united[i, owner_words[j]] |= owner_masks[j]
                word &= word - types.uint64(1)


@kernel(types.void(_INTEGERS, _CODES, _CODES, _CODES, _WORDS_OUT))
def spread(places, bits, bounds, items, bitmaps):
    """Sets, for every entry (a row of ``bitmaps`` and a bit), the bits of the items that its bit stands for."""
    for entry in range(bits.shape[0]):
        for k in range(bounds[bits[entry]], bounds[bits[entry] + 1]):
            bitmaps[places[entry], items[k] >> 6] |= types.uint64(1) << types.uint64(items[k] & 63)


@kernel(types.void(_WORD_TABLE, _WORD_ROW, _WORD_ROW, _CODES, _WORDS_OUT))
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
