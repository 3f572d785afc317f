"""The kernel that reads JSON lines into columns. Reached only through `app.files.json_lines`.

It knows flat objects of numbers, texts without escapes, booleans and nulls, and where an event stood in Kafka, which is what files of events hold; of anything else it says
so, and the plain way (`app.files.gathering`) has the whole piece. What it accepts it understands exactly as the plain way does.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit, types

from app.events.kernels_interning import NUMBERS, TEXTS, equal_bytes, known_code, new_code, quick_hash
from app.events.kernels_text import BYTES, bits_of_float, load64, trailing_zeros
from app.files.kernel import kernel

MISSING, NULL_CELL, TRUTH, WHOLE, REAL, TEXT_CELL, PLACE_CELL = 0, 1, 2, 3, 4, 5, 6
"""What a cell holds, as its line has it; PLACE_CELL: [topic, partition, offset], as a position may be."""

DONE, NEW_KEY, NO_ROOM, ODD, HARD_FULL = 0, 1, 2, 3, 4
"""Why the kernel stopped: the piece is read; a key has no column yet; a dictionary is full; a line is not for it; many numbers wait."""
AT, ROW, LINE, KEY_START, KEY_END, HARD, HARD_BYTES, POSITION = 0, 1, 2, 3, 4, 5, 6, 7
"""Places in ``state``: next byte, next row, its line, the key without column, numbers that wait for their exact value, and their bytes; the column of positions, or -1."""

Names = namedtuple("Names", ("data", "offsets", "follows"))  # noqa: PYI024
"""The columns' names, one after the other; int64 (columns + 1,): which column stood behind each when last seen (0: at the beginning)."""
Lines = namedtuple("Lines", ("values", "tags", "line", "shape", "place"))  # noqa: PYI024
"""int64 (columns, rows), floats as bits, texts (and topics) as codes; uint8 (columns, rows); int64 (rows,) of each; int64 (rows,) hash of its keys; int64 (2, rows) partition and offset."""
Hard = namedtuple("Hard", ("data", "ends", "column", "row"))  # noqa: PYI024
"""Numbers with more digits than a float64 multiplies exactly: their texts, and whose they are."""

NAMES = types.NamedTuple((types.uint8[::1], NUMBERS, NUMBERS), Names)
LINES = types.NamedTuple((types.int64[:, ::1], types.uint8[:, ::1], NUMBERS, NUMBERS, types.int64[:, ::1]), Lines)
HARD_NUMBERS = types.NamedTuple((types.uint8[::1], NUMBERS, NUMBERS, NUMBERS), Hard)

SPACE, TAB, RETURN, NEWLINE, QUOTE, BACKSLASH, COMMA, COLON = 32, 9, 13, 10, 34, 92, 44, 58
OPEN, CLOSE, LIST_OPEN, LIST_CLOSE, MINUS, PLUS, POINT, ZERO, NINE, LOWER_E, UPPER_E = 123, 125, 91, 93, 45, 43, 46, 48, 57, 101, 69
EXACT = 1 << 53
POWERS = np.array([10.0**k for k in range(23)])
"""All powers of ten that float64 holds exactly: one multiplication or division by them rounds as it should."""
LEAST_WHOLE = 18
"""Digits that surely fit into 64 bit."""
ONES = np.uint64(0x0101010101010101)
HIGHS = np.uint64(0x8080808080808080)
QUOTES = np.uint64(0x2222222222222222)
BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
CONTROLS = np.uint64(0xE0E0E0E0E0E0E0E0)


@njit(inline="always")
def behind_spaces(data, at):  # type: ignore[no-untyped-def]
    """The next byte that is no blank; every piece ends with a newline, which is none here."""
    while data[at] == SPACE or data[at] == TAB or data[at] == RETURN:
        at += 1
    return at


@njit(inline="always")
def zero_bytes(word):  # type: ignore[no-untyped-def]
    """The high bit of every byte that is zero; of bytes above a zero byte perhaps, too."""
    return (word - ONES) & ~word & HIGHS


@njit(inline="always")
def end_of_text(data, at):  # type: ignore[no-untyped-def]
    """The place of the quote that ends a text, or -1: an escape, or a byte that no text may hold."""
    size = len(data)
    while at + 8 <= size:
        word = load64(data, at)
        found = zero_bytes(word ^ QUOTES) | zero_bytes(word ^ BACKSLASHES) | zero_bytes(word & CONTROLS)
        if found:
            at += np.int64(trailing_zeros(found) >> np.uint64(3))
            return at if data[at] == QUOTE else -1
        at += 8
    while at < size and data[at] != QUOTE and data[at] != BACKSLASH and data[at] >= SPACE:
        at += 1
    return at if at < size and data[at] == QUOTE else -1


@kernel(types.boolean(BYTES, types.int64, types.int64, types.uint8[::1], types.int64, types.int64))
def same_name(data, start, end, names, first, last):  # type: ignore[no-untyped-def]
    """Whether a key is a name."""
    length = end - start
    if length != last - first:
        return False
    if length >= 8:
        return equal_bytes(data, start, names, first, length)
    for k in range(length):
        if data[start + k] != names[first + k]:
            return False
    return True


@kernel(types.int64(BYTES, types.int64, types.int64, NAMES))
def column_of_key(data, start, end, names):  # type: ignore[no-untyped-def]
    """The column of a key, or -1."""
    for column in range(len(names.offsets) - 1):
        if same_name(data, start, end, names.data, names.offsets[column], names.offsets[column + 1]):
            return column
    return -1


@njit(inline="always")
def is_word(data, at, first, second, third, fourth):  # type: ignore[no-untyped-def]
    """Whether four letters stand somewhere; the piece ends behind a newline, so fewer are never read beyond it."""
    if data[at] != first or at + 4 >= len(data):
        return False
    return data[at + 1] == second and data[at + 2] == third and data[at + 3] == fourth


@kernel(types.int64(BYTES, types.int64, types.int64[:, ::1], types.int64))
def read_place(data, at, place, row):  # type: ignore[no-untyped-def]
    """Partition and offset behind the topic of a position, into ``place``; the byte behind the bracket that ends it, or -1."""
    for k in range(2):
        at = behind_spaces(data, at)
        if data[at] != COMMA:
            return -1
        at = behind_spaces(data, at + 1)
        digits_at, number = at, np.int64(0)
        while data[at] >= ZERO and data[at] <= NINE:
            number = number * 10 + np.int64(data[at] - ZERO)
            at += 1
        if at == digits_at or at - digits_at > LEAST_WHOLE or (at - digits_at > 1 and data[digits_at] == ZERO):
            return -1
        place[k, row] = number
    at = behind_spaces(data, at)
    return at + 1 if data[at] == LIST_CLOSE else -1


@kernel(types.int64(BYTES, NAMES, LINES, HARD_NUMBERS, TEXTS, types.int64[::1]))
def read_lines(data, names, lines, hard, texts, state):  # type: ignore[no-untyped-def]
    """Reads a piece from ``state`` on, until it ends or the kernel cannot go on; a row that was begun is then read again.

    Args:
        data: whole lines; the last one ends with a newline, too.
        names: of the columns, a dictionary of ``texts`` each.
        lines: where rows go.
        hard: where numbers go that Python has to read.
        texts: the dictionaries.
        state: see `AT`.

    Returns:
        DONE, NEW_KEY, NO_ROOM, ODD or HARD_FULL.
    """
    values = lines.values
    tags = lines.tags
    follows = names.follows
    offsets = names.offsets
    size = len(data)
    at = state[AT]
    row = state[ROW]
    line = state[LINE]
    hard_count = state[HARD]
    hard_bytes = state[HARD_BYTES]
    status = DONE
    while at < size:
        # what is kept of a row that has to be read again
        state[AT] = at
        state[ROW] = row
        state[LINE] = line
        state[HARD] = hard_count
        state[HARD_BYTES] = hard_bytes
        at = behind_spaces(data, at)
        if data[at] == NEWLINE:
            at += 1
            line += 1
            continue
        if data[at] != OPEN:
            status = ODD
            break
        at = behind_spaces(data, at + 1)
        before = 0
        shape = np.uint64(1469598103934665603)
        first = True
        if data[at] == CLOSE:
            status = ODD
            break
        while True:
            if not first:
                if data[at] == CLOSE:
                    break
                if data[at] != COMMA:
                    status = ODD
                    break
                at = behind_spaces(data, at + 1)
            first = False
            if data[at] != QUOTE:
                status = ODD
                break
            start = at + 1
            column = follows[before]
            known = column >= 0
            if known:
                length = offsets[column + 1] - offsets[column]
                end = start + length
                known = end < size and data[end] == QUOTE and same_name(data, start, end, names.data, offsets[column], offsets[column + 1])
            if not known:
                end = end_of_text(data, start)
                if end < 0:
                    status = ODD
                    break
                column = column_of_key(data, start, end, names)
                if column < 0:
                    state[KEY_START] = start
                    state[KEY_END] = end
                    status = NEW_KEY
                    break
                follows[before] = column
            if tags[column, row] != MISSING:
                # a key that stands there twice
                status = ODD
                break
            before = column + 1
            shape = (shape ^ np.uint64(before)) * np.uint64(1099511628211)
            at = behind_spaces(data, end + 1)
            if data[at] != COLON:
                status = ODD
                break
            at = behind_spaces(data, at + 1)
            byte = data[at]
            places = byte == LIST_OPEN and column == state[POSITION]
            if places:
                at = behind_spaces(data, at + 1)
                byte = data[at]
                if byte != QUOTE:
                    status = ODD
                    break
            if byte == QUOTE:
                start = at + 1
                end = end_of_text(data, start)
                if end < 0:
                    status = ODD
                    break
                h = quick_hash(data, start, end)
                code = known_code(texts, column, h, data, start, end)
                if code < 0:
                    code = new_code(texts, column, h, data, start, end, False)
                    if code < 0:
                        status = NO_ROOM
                        break
                values[column, row] = code
                tags[column, row] = TEXT_CELL
                at = end + 1
                if places:
                    tags[column, row] = PLACE_CELL
                    shape *= np.uint64(1099511628211)
                    at = read_place(data, at, lines.place, row)
                    if at < 0:
                        status = ODD
                        break
            elif byte == MINUS or (byte >= ZERO and byte <= NINE):
                start = at
                negative = byte == MINUS
                if negative:
                    at += 1
                mantissa = np.int64(0)
                digits_at = at
                while data[at] >= ZERO and data[at] <= NINE:
                    mantissa = mantissa * 10 + np.int64(data[at] - ZERO)
                    at += 1
                digits = at - digits_at
                if digits == 0 or (digits > 1 and data[digits_at] == ZERO):
                    status = ODD
                    break
                exponent = np.int64(0)
                whole = True
                if data[at] == POINT:
                    whole = False
                    at += 1
                    fraction_at = at
                    while data[at] >= ZERO and data[at] <= NINE:
                        mantissa = mantissa * 10 + np.int64(data[at] - ZERO)
                        at += 1
                    exponent = fraction_at - at
                    digits -= exponent
                    if exponent == 0:
                        status = ODD
                        break
                if data[at] == LOWER_E or data[at] == UPPER_E:
                    whole = False
                    at += 1
                    lower = data[at] == MINUS
                    if lower or data[at] == PLUS:
                        at += 1
                    power_at = at
                    power = np.int64(0)
                    while data[at] >= ZERO and data[at] <= NINE:
                        if power < 100000:
                            power = power * 10 + np.int64(data[at] - ZERO)
                        at += 1
                    if at == power_at:
                        status = ODD
                        break
                    exponent += -power if lower else power
                if whole:
                    if digits > LEAST_WHOLE or (negative and mantissa == 0):
                        status = ODD
                        break
                    values[column, row] = -mantissa if negative else mantissa
                    tags[column, row] = WHOLE
                else:
                    tags[column, row] = REAL
                    if digits <= LEAST_WHOLE and mantissa <= EXACT and exponent >= -22 and exponent <= 22:
                        number = np.float64(mantissa)
                        number = number / POWERS[-exponent] if exponent < 0 else number * POWERS[exponent]
                        values[column, row] = bits_of_float(-number if negative else number)
                    else:
                        if hard_count >= len(hard.row) or hard_bytes + at - start > len(hard.data):
                            status = HARD_FULL
                            break
                        for k in range(start, at):
                            hard.data[hard_bytes] = data[k]
                            hard_bytes += 1
                        hard.column[hard_count] = column
                        hard.row[hard_count] = row
                        hard_count += 1
                        hard.ends[hard_count] = hard_bytes
            elif is_word(data, at, 110, 117, 108, 108):  # null
                tags[column, row] = NULL_CELL
                at += 4
            elif is_word(data, at, 116, 114, 117, 101):  # true
                values[column, row] = 1
                tags[column, row] = TRUTH
                at += 4
            elif is_word(data, at, 102, 97, 108, 115) and data[at + 4] == 101:  # false
                values[column, row] = 0
                tags[column, row] = TRUTH
                at += 5
            else:
                status = ODD
                break
            at = behind_spaces(data, at)
        if status != DONE:
            break
        at = behind_spaces(data, at + 1)
        if data[at] != NEWLINE:
            status = ODD
            break
        at += 1
        lines.line[row] = line
        lines.shape[row] = np.int64(shape)
        row += 1
        line += 1
    if status == DONE:
        state[AT] = at
        state[ROW] = row
        state[LINE] = line
        state[HARD] = hard_count
        state[HARD_BYTES] = hard_bytes
    else:
        # the row is read again, or never: nothing of it stays
        for column in range(len(tags)):
            if state[ROW] < tags.shape[1]:
                tags[column, state[ROW]] = MISSING
    return status
