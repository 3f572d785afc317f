"""The kernel that decodes Avro records into columns. Reached only through `app.events.decoder` and `app.events.interning`.

One generic interpreter instead of code made per schema: a new schema compiles nothing (numba takes a second for that).
Every read is checked against the record's end; a failed record leaves no trace but its code and, perhaps, unused dictionary entries.
"""

from __future__ import annotations

from collections import namedtuple
from enum import IntEnum

import numpy as np
from numba import njit, types

from app.events.failures import Failure
from app.events.kernel import kernel
from app.events.kernels_interning import LONGS, NO_ROOM, NOT_UTF8, NUMBERS, TEXTS, intern, known_code, new_code, quick_hash
from app.events.kernels_text import BYTES, bits_of_float, float_of_bits, load32, load64, single_of_bits, trailing_zeros


class Op(IntEnum):
    """Operations of the kernel, as `app.events.program` writes them."""

    BOOLEAN = 0
    INT = 1
    LONG = 2
    INTEGER_AS_FLOAT = 3
    SCALED = 4
    FLOAT = 5
    DOUBLE = 6
    TEXT = 7
    FIXED = 8
    ENUM = 9
    UNION = 10
    JUMP = 11
    STATES = 12
    CONSTANT = 13
    SYMBOL = 14
    FAIL = 15
    BLOCK = 16
    NEXT = 17
    DECIMAL = 18


Records = namedtuple("Records", ("data", "starts", "ends", "rows"))  # noqa: PYI024
"""data: bytes; starts, ends: int64 (records,), of each record in the data; rows: int64, the records to decode.

Records of containers stand one behind the other and do not say how long they are: their ``ends`` are the (negative) end of their block, and
each tells the next one of the same block its start."""
Code = namedtuple("Code", ("code", "jumps", "symbol_data", "symbol_offsets", "symbol_codes"))  # noqa: PYI024
"""A `Program`, and int64 (symbols,) codes that its symbols have got so far (-1: none yet)."""
Cells = namedtuple("Cells", ("values", "states", "touched", "failures"))  # noqa: PYI024
"""int64 (columns, records) values, floats as bits, texts as codes; uint8 (columns, records); uint8 (columns,) some state is set; uint8 (records,)."""
RECORDS = types.NamedTuple((BYTES, NUMBERS, NUMBERS, NUMBERS), Records)
CODE = types.NamedTuple((types.int64[:, ::1], NUMBERS, BYTES, NUMBERS, NUMBERS), Code)
CELLS = types.NamedTuple((types.int64[:, ::1], types.uint8[:, ::1], types.uint8[::1], types.uint8[::1]), Cells)
BOOLEAN, INT, LONG, INTEGER_AS_FLOAT, SCALED = (int(op) for op in (Op.BOOLEAN, Op.INT, Op.LONG, Op.INTEGER_AS_FLOAT, Op.SCALED))
FLOAT, DOUBLE, TEXT, FIXED, ENUM, UNION = (int(op) for op in (Op.FLOAT, Op.DOUBLE, Op.TEXT, Op.FIXED, Op.ENUM, Op.UNION))
JUMP, STATES, CONSTANT, SYMBOL, FAIL = (int(op) for op in (Op.JUMP, Op.STATES, Op.CONSTANT, Op.SYMBOL, Op.FAIL))
BLOCK, NEXT, DECIMAL = (int(op) for op in (Op.BLOCK, Op.NEXT, Op.DECIMAL))
TRUNCATED, VARINT_TOO_LONG, BAD_UNION_BRANCH = (int(f) for f in (Failure.TRUNCATED, Failure.VARINT_TOO_LONG, Failure.BAD_UNION_BRANCH))
TRAILING_BYTES, NEGATIVE_LENGTH, INVALID_UTF8 = (int(f) for f in (Failure.TRAILING_BYTES, Failure.NEGATIVE_LENGTH, Failure.INVALID_UTF8))
BAD_BOOLEAN, BAD_ENUM, OUT_OF_RANGE = (int(f) for f in (Failure.BAD_BOOLEAN, Failure.BAD_ENUM, Failure.OUT_OF_RANGE))
SYMBOL_UNREADABLE, GENERAL_PATH = int(Failure.SYMBOL_UNREADABLE), int(Failure.GENERAL_PATH)
NO_MAGIC_BYTE, NO_SCHEMA_ID = int(Failure.NO_MAGIC_BYTE), int(Failure.NO_SCHEMA_ID)
EXACT = 1 << 53
"""Integers up to this are exact as float64, so that one division rounds correctly."""


@njit(inline="always")
def read_varint(data, at, end):  # type: ignore[no-untyped-def]
    """A zigzag number: (value, place behind it, failure)."""
    bits = np.uint64(0)
    failure = 0
    stop = np.uint64(0)
    if end - at >= 8:
        word = load64(data, at)
        stop = ~word & np.uint64(0x8080808080808080)
    if stop:
        # up to 8 bytes without a loop (whose end the processor mispredicts): cut behind the last byte, close the gaps of the top bits
        word &= ((stop & (~stop + np.uint64(1))) << np.uint64(1)) - np.uint64(1)
        word = (word & np.uint64(0x007F007F007F007F)) | ((word & np.uint64(0x7F007F007F007F00)) >> np.uint64(1))
        word = (word & np.uint64(0x00003FFF00003FFF)) | ((word & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
        bits = (word & np.uint64(0x000000000FFFFFFF)) | ((word & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
        at += np.int64(trailing_zeros(stop) >> np.uint64(3)) + 1
    else:
        shift = np.uint64(0)
        while True:
            if at >= end:
                failure = TRUNCATED
                break
            byte = data[at]
            at += 1
            if shift == np.uint64(63) and byte > 1:
                failure = VARINT_TOO_LONG
                break
            bits |= np.uint64(byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += np.uint64(7)
    return np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1)), at, failure


@kernel(types.void(BYTES, LONGS, types.int64[::1], types.int64[::1], types.uint8[::1]))
def read_prefixes(data, offsets, starts, ids, failures):  # type: ignore[no-untyped-def]
    """Wire format: magic byte 0 and four bytes of id (big-endian), or magic byte 1 and 16 bytes of GUID (id -1).

    ``starts`` receives where the Avro bytes begin. Records that have failed already are left alone.
    """
    for k in range(len(starts)):
        start, end = offsets[k], offsets[k + 1]
        starts[k] = start
        ids[k] = -1
        if failures[k]:
            continue
        if start >= end or data[start] > 1:
            failures[k] = NO_MAGIC_BYTE
        elif data[start] == 0:
            if end - start < 5:
                failures[k] = NO_SCHEMA_ID
            else:
                ids[k] = (
                    (np.int64(data[start + 1]) << 24)
                    | (np.int64(data[start + 2]) << 16)
                    | (np.int64(data[start + 3]) << 8)
                    | np.int64(data[start + 4])
                )
                starts[k] = start + 5
        elif end - start < 17:
            failures[k] = NO_SCHEMA_ID
        else:
            starts[k] = start + 17


@kernel(types.int64(RECORDS, CODE, CELLS, TEXTS, types.int64))
def decode_records(records, program, cells, texts, first):  # type: ignore[no-untyped-def]
    """Runs the program over ``records.rows[first:]``; returns how many rows are done (fewer than all: the dictionaries need room)."""
    data = records.data
    code = program.code
    jumps = program.jumps
    values = cells.values
    states = cells.states
    size = len(code)
    loops = np.zeros(16, dtype=np.int64)
    for r in range(first, len(records.rows)):
        row = records.rows[r]
        at = records.starts[row]
        end = records.ends[row]
        chained = end < 0
        if chained:
            end = -end
        failure = 0
        depth = 0
        pc = 0
        while pc < size:
            op = code[pc, 0]
            column = code[pc, 1]
            a = code[pc, 2]
            if op == LONG or op == INT:  # noqa: PLR1714
                value, at, failure = read_varint(data, at, end)
                if failure:
                    break
                if op == INT and value != np.int64(np.int32(value)):
                    failure = OUT_OF_RANGE
                    break
                if column >= 0:
                    values[column, row] = value
            elif op == DOUBLE:
                if end - at < 8:
                    failure = TRUNCATED
                    break
                if column >= 0:
                    values[column, row] = np.int64(load64(data, at))
                at += 8
            elif op == TEXT:
                length, at, failure = read_varint(data, at, end)
                if failure:
                    break
                if length < 0:
                    failure = NEGATIVE_LENGTH
                    break
                if length > end - at:
                    failure = TRUNCATED
                    break
                if column >= 0:
                    h = quick_hash(data, at, at + length)
                    entry = known_code(texts, a, h, data, at, at + length)
                    if entry < 0:
                        entry = new_code(texts, a, h, data, at, at + length, code[pc, 3] != 0)
                    if entry == NO_ROOM:
                        return r
                    if entry == NOT_UTF8:
                        failure = INVALID_UTF8
                        break
                    values[column, row] = entry
                at += length
            elif op == SYMBOL:
                entry = program.symbol_codes[a]
                if entry < 0:
                    entry = intern(texts, code[pc, 3], program.symbol_data, program.symbol_offsets[a], program.symbol_offsets[a + 1], False)
                    if entry < 0:
                        return r
                    program.symbol_codes[a] = entry
                values[column, row] = entry
            elif op == UNION:
                branch, at, failure = read_varint(data, at, end)
                if failure:
                    break
                if branch < 0 or branch >= a:
                    failure = BAD_UNION_BRANCH
                    break
                pc = jumps[code[pc, 3] + branch]
                continue
            elif op == JUMP:
                pc = a
                continue
            elif op == STATES:
                for c in range(column, a):
                    states[c, row] = code[pc, 3]
                    cells.touched[c] = 1
            elif op == INTEGER_AS_FLOAT or op == SCALED:  # noqa: PLR1714
                value, at, failure = read_varint(data, at, end)
                if failure:
                    break
                narrow = a if op == INTEGER_AS_FLOAT else code[pc, 4]
                if narrow and value != np.int64(np.int32(value)):
                    failure = OUT_OF_RANGE
                    break
                if column >= 0:
                    if op == SCALED:
                        values[column, row] = value * a // code[pc, 3]
                    else:
                        values[column, row] = bits_of_float(np.float64(value))
            elif op == FLOAT:
                if end - at < 4:
                    failure = TRUNCATED
                    break
                if column >= 0:
                    values[column, row] = bits_of_float(np.float64(single_of_bits(load32(data, at))))
                at += 4
            elif op == BOOLEAN:
                if at >= end:
                    failure = TRUNCATED
                    break
                if data[at] > 1:
                    failure = BAD_BOOLEAN
                    break
                if column >= 0:
                    values[column, row] = data[at]
                at += 1
            elif op == ENUM:
                branch, at, failure = read_varint(data, at, end)
                if failure:
                    break
                if branch < 0 or branch >= a:
                    failure = BAD_ENUM
                    break
                symbol = jumps[code[pc, 3] + branch]
                if symbol < 0:
                    failure = SYMBOL_UNREADABLE
                    break
                if column >= 0:
                    entry = program.symbol_codes[symbol]
                    if entry < 0:
                        entry = intern(
                            texts,
                            code[pc, 4],
                            program.symbol_data,
                            program.symbol_offsets[symbol],
                            program.symbol_offsets[symbol + 1],
                            False,
                        )
                        if entry < 0:
                            return r
                        program.symbol_codes[symbol] = entry
                    values[column, row] = entry
            elif op == CONSTANT:
                values[column, row] = a
            elif op == FIXED:
                length = code[pc, 3]
                if length > end - at:
                    failure = TRUNCATED
                    break
                if column >= 0:
                    entry = intern(texts, a, data, at, at + length, False)
                    if entry < 0:
                        return r
                    values[column, row] = entry
                at += length
            elif op == DECIMAL:
                length = a
                if a < 0:
                    length, at, failure = read_varint(data, at, end)
                    if failure:
                        break
                if length < 0:
                    failure = NEGATIVE_LENGTH
                    break
                if length > end - at:
                    failure = TRUNCATED
                    break
                if length > 8 or length == 0 or code[pc, 4] == 0:
                    failure = GENERAL_PATH
                    break
                value = np.int64(data[at])
                if value > 127:
                    value -= 256
                for k in range(1, length):
                    value = (value << 8) | np.int64(data[at + k])
                if value > EXACT or value < -EXACT:
                    failure = GENERAL_PATH
                    break
                values[column, row] = bits_of_float(np.float64(value) / float_of_bits(np.uint64(code[pc, 3])))
                at += length
            elif op == BLOCK:
                length, at, failure = read_varint(data, at, end)
                if failure:
                    break
                if length == 0:
                    pc = a
                    continue
                if length < 0:
                    length = -length
                    _, at, failure = read_varint(data, at, end)
                    if failure:
                        break
                least = code[pc, 3]
                if length < 0 or (least > 0 and length > (end - at) // least):
                    failure = TRUNCATED
                    break
                if least == 0:
                    # elements without bytes: there is nothing to read, however many there are said to be
                    continue
                loops[depth] = length
                depth += 1
            elif op == NEXT:
                loops[depth - 1] -= 1
                if loops[depth - 1] > 0:
                    pc = a + 1
                else:
                    depth -= 1
                    pc = a
                continue
            else:
                failure = a
                break
            pc += 1
        if failure == 0 and at != end:
            if chained and row + 1 < len(records.starts) and records.ends[row + 1] == records.ends[row]:
                records.starts[row + 1] = at
            else:
                failure = TRAILING_BYTES
        cells.failures[row] = failure
    return len(records.rows)
