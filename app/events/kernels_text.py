"""Kernels over byte strings: XXH64, UTF-8 validity. Reached only through `app.events.hashes` and the decoder's kernels."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from app.events.kernel import kernel

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
"""Read-only: Arrow buffers are; a signature without it refuses them."""

P1 = np.uint64(0x9E3779B185EBCA87)
P2 = np.uint64(0xC2B2AE3D27D4EB4F)
P3 = np.uint64(0x165667B19E3779F9)
P4 = np.uint64(0x85EBCA77C2B2AE63)
P5 = np.uint64(0x27D4EB2F165667C5)


@intrinsic
def load64(typingctx, data, position):  # type: ignore[no-untyped-def]
    """Eight bytes at any address as little-endian uint64; the caller has checked the bounds.

    Byte by byte with shifts the decoder was slower by half.
    """

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        word = ir.IntType(64)
        return builder.load(builder.bitcast(address, word.as_pointer()), align=1)

    return types.uint64(data, types.intp), codegen


@intrinsic
def load32(typingctx, data, position):  # type: ignore[no-untyped-def]
    """Four bytes at any address as little-endian uint32; the caller has checked the bounds."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        word = ir.IntType(32)
        return builder.load(builder.bitcast(address, word.as_pointer()), align=1)

    return types.uint32(data, types.intp), codegen


@intrinsic
def trailing_zeros(typingctx, word):  # type: ignore[no-untyped-def]
    """Number of zero bits below the lowest set bit; the word is not 0."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@intrinsic
def float_of_bits(typingctx, bits):  # type: ignore[no-untyped-def]
    """The float64 of 64 bits."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), codegen


@intrinsic
def single_of_bits(typingctx, bits):  # type: ignore[no-untyped-def]
    """The float32 of 32 bits."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), codegen


@intrinsic
def bits_of_float(typingctx, value):  # type: ignore[no-untyped-def]
    """The 64 bits of a float64, as int64."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@njit(inline="always")
def _rotate(value, count):  # type: ignore[no-untyped-def]
    return (value << np.uint64(count)) | (value >> np.uint64(64 - count))


@njit(inline="always")
def _round(lane, word):  # type: ignore[no-untyped-def]
    return _rotate(lane + word * P2, 31) * P1


@kernel(types.uint64(BYTES, types.intp, types.intp))
def xxh64(data, start, end):  # type: ignore[no-untyped-def]
    """XXH64, seed 0, of ``data[start:end]``."""
    at = start
    length = np.uint64(end - start)
    if end - start >= 32:
        a, b, c, d = P1 + P2, P2, np.uint64(0), np.uint64(0) - P1
        while at + 32 <= end:
            a = _round(a, load64(data, at))
            b = _round(b, load64(data, at + 8))
            c = _round(c, load64(data, at + 16))
            d = _round(d, load64(data, at + 24))
            at += 32
        h = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        h = (h ^ _round(np.uint64(0), a)) * P1 + P4
        h = (h ^ _round(np.uint64(0), b)) * P1 + P4
        h = (h ^ _round(np.uint64(0), c)) * P1 + P4
        h = (h ^ _round(np.uint64(0), d)) * P1 + P4
    else:
        h = P5
    h += length
    while at + 8 <= end:
        h = _rotate(h ^ _round(np.uint64(0), load64(data, at)), 27) * P1 + P4
        at += 8
    if at + 4 <= end:
        h = _rotate(h ^ (np.uint64(load32(data, at)) * P1), 23) * P2 + P3
        at += 4
    while at < end:
        h = _rotate(h ^ (np.uint64(data[at]) * P5), 11) * P1
        at += 1
    h = (h ^ (h >> np.uint64(33))) * P2
    h = (h ^ (h >> np.uint64(29))) * P3
    return h ^ (h >> np.uint64(32))


@kernel(types.void(BYTES, types.Array(types.int64, 1, "C", readonly=True), types.uint64[::1]))
def hash_entries(data, offsets, hashes):  # type: ignore[no-untyped-def]
    """XXH64 of every entry."""
    for k in range(len(hashes)):
        hashes[k] = xxh64(data, offsets[k], offsets[k + 1])


@kernel(types.boolean(BYTES, types.intp, types.intp))
def is_utf8(data, start, end):  # type: ignore[no-untyped-def]
    """Whether ``data[start:end]`` is well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF), as Python's strict decoder has it."""
    at = start
    while at < end:
        lead = data[at]
        if lead < 0x80:
            at += 1
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        more = 1 if lead < 0xE0 else (2 if lead < 0xF0 else 3)
        if at + more >= end:
            return False
        low, high = np.uint8(0x80), np.uint8(0xBF)
        if lead == 0xE0:
            low = np.uint8(0xA0)
        elif lead == 0xED:
            high = np.uint8(0x9F)
        elif lead == 0xF0:
            low = np.uint8(0x90)
        elif lead == 0xF4:
            high = np.uint8(0x8F)
        if data[at + 1] < low or data[at + 1] > high:
            return False
        for k in range(2, more + 1):
            if data[at + k] & 0xC0 != 0x80:
                return False
        at += more + 1
    return True
