"""Kernels of what `cep replay` writes: the order of matches, and lines put together from pieces of text. Reached only through `app.cli.replay.lines`."""

from __future__ import annotations

from collections import namedtuple

from numba import njit, types

from app.cli.replay.kernel import kernel

COLUMN = types.Array(types.int64, 1, "C", readonly=True)
BYTES = types.Array(types.uint8, 1, "C", readonly=True)

Keys = namedtuple("Keys", ("match_time", "starts", "time", "source", "place", "query", "window", "item"))  # noqa: PYI024
"""int64: of matches ``match_time``, ``query`` (its rank) and ``window``; of the events of match k, at ``starts[k] : starts[k + 1]``, the others."""
KEYS = types.NamedUniTuple(types.int64[::1], 8, Keys)

Template = namedtuple("Template", ("text", "parts", "items", "between", "end"))  # noqa: PYI024
"""Constant text of a query's lines; int64 (cells + 1, 2) what stands before every cell, and behind the last one; int64 (items, 2) what stands
before the position of an event; int64 (2,) what stands between two events, and int64 (2,) what ends a line."""
SPAN = types.int64[:, ::1]
TEMPLATE = types.NamedTuple((types.uint8[::1], SPAN, SPAN, types.int64[::1], types.int64[::1]), Template)

Cells = namedtuple("Cells", ("text", "starts", "ends", "bound", "item", "position_starts", "position_ends"))  # noqa: PYI024
"""Text of all cells; int64 (cells, matches) where each begins and ends; of the events of match k, at ``bound[k] : bound[k + 1]``, item and position."""
CELLS = types.NamedTuple(
    (types.uint8[::1], SPAN, SPAN, types.int64[::1], types.int64[::1], types.int64[::1], types.int64[::1]),
    Cells,
)

RUN = 16
"""Matches that are sorted by moving them one by one; longer runs are merged."""


@kernel(types.boolean(KEYS, types.int64, types.int64))
def comes_before(keys, left, right):  # type: ignore[no-untyped-def]
    """Whether one match is written before another one: by match time, events in total order, query, window, items."""
    if keys.match_time[left] != keys.match_time[right]:
        return keys.match_time[left] < keys.match_time[right]
    a = keys.starts[left]
    b = keys.starts[right]
    left_count = keys.starts[left + 1] - a
    right_count = keys.starts[right + 1] - b
    for k in range(min(left_count, right_count)):
        if keys.time[a + k] != keys.time[b + k]:
            return keys.time[a + k] < keys.time[b + k]
        if keys.source[a + k] != keys.source[b + k]:
            return keys.source[a + k] < keys.source[b + k]
        if keys.place[a + k] != keys.place[b + k]:
            return keys.place[a + k] < keys.place[b + k]
    if left_count != right_count:
        return left_count < right_count
    if keys.query[left] != keys.query[right]:
        return keys.query[left] < keys.query[right]
    if keys.window[left] != keys.window[right]:
        return keys.window[left] < keys.window[right]
    for k in range(left_count):
        if keys.item[a + k] != keys.item[b + k]:
            return keys.item[a + k] < keys.item[b + k]
    return False


@kernel(types.void(KEYS, types.int64[::1], types.int64[::1]))
def sort_matches(keys, order, spare):  # type: ignore[no-untyped-def]
    """Sorts matches, those that are equal as they were; quick where they are almost in order, as engines find them.

    Args:
        keys: of the matches.
        order: int64 (matches,), in-out: their numbers.
        spare: int64 (matches,), to work in.
    """
    size = len(order)
    for start in range(0, size, RUN):
        for k in range(start + 1, min(start + RUN, size)):
            match = order[k]
            j = k
            while j > start and comes_before(keys, match, order[j - 1]):
                order[j] = order[j - 1]
                j -= 1
            order[j] = match
    width = RUN
    while width < size:
        for start in range(0, size - width, 2 * width):
            middle = start + width
            stop = min(middle + width, size)
            if not comes_before(keys, order[middle], order[middle - 1]):
                continue
            spare[start:middle] = order[start:middle]
            left, right, to = start, middle, start
            while left < middle and right < stop:
                if comes_before(keys, order[right], spare[left]):
                    order[to] = order[right]
                    right += 1
                else:
                    order[to] = spare[left]
                    left += 1
                to += 1
            while left < middle:
                order[to] = spare[left]
                left += 1
                to += 1
        width *= 2


@njit(inline="always")
def copied(source, start, end, target, at):  # type: ignore[no-untyped-def]
    """Copies bytes; returns the place behind them."""
    for k in range(start, end):
        target[at] = source[k]
        at += 1
    return at


@kernel(types.void(TEMPLATE, CELLS, types.int64[::1]))
def measure_lines(template, cells, ends):  # type: ignore[no-untyped-def]
    """Where every line will end.

    Args:
        template: of the query.
        cells: of its matches.
        ends: int64 (matches + 1,), out.
    """
    constant = template.end[1] - template.end[0]
    for part in range(len(template.parts)):
        constant += template.parts[part, 1] - template.parts[part, 0]
    between = template.between[1] - template.between[0]
    at = 0
    ends[0] = 0
    for match in range(len(cells.bound) - 1):
        at += constant
        for cell in range(len(cells.starts)):
            at += cells.ends[cell, match] - cells.starts[cell, match]
        first = cells.bound[match]
        last = cells.bound[match + 1]
        for k in range(first, last):
            item = cells.item[k]
            at += template.items[item, 1] - template.items[item, 0] + cells.position_ends[k] - cells.position_starts[k]
        if last > first:
            at += (last - first - 1) * between
        ends[match + 1] = at


@kernel(types.void(TEMPLATE, CELLS, types.int64[::1], types.uint8[::1]))
def write_lines(template, cells, places, data):  # type: ignore[no-untyped-def]
    """Puts the lines together.

    Args:
        template: of the query.
        cells: of its matches.
        places: int64 (matches,), where each line is to begin.
        data: uint8, out.
    """
    last_part = len(template.parts) - 1
    for match in range(len(cells.bound) - 1):
        at = places[match]
        for cell in range(last_part):
            at = copied(template.text, template.parts[cell, 0], template.parts[cell, 1], data, at)
            at = copied(cells.text, cells.starts[cell, match], cells.ends[cell, match], data, at)
        at = copied(template.text, template.parts[last_part, 0], template.parts[last_part, 1], data, at)
        first = cells.bound[match]
        for k in range(first, cells.bound[match + 1]):
            if k > first:
                at = copied(template.text, template.between[0], template.between[1], data, at)
            item = cells.item[k]
            at = copied(template.text, template.items[item, 0], template.items[item, 1], data, at)
            at = copied(cells.text, cells.position_starts[k], cells.position_ends[k], data, at)
        at = copied(template.text, template.end[0], template.end[1], data, at)


@kernel(types.void(types.uint8[::1], types.int64[::1], types.int64[::1], types.int64[::1], types.uint8[::1], types.int64[::1]))
def join_lists(text, starts, ends, bounds, data, list_ends):  # type: ignore[no-untyped-def]
    """Lists of elements that are texts already: ``[a,b]``, or ``null`` where there are none.

    Args:
        text: of all elements.
        starts: int64 (elements,).
        ends: int64 (elements,).
        bounds: int64 (lists + 1,), the elements of each list.
        data: uint8, out, with room for all.
        list_ends: int64 (lists + 1,), out.
    """
    at = 0
    list_ends[0] = 0
    for k in range(len(bounds) - 1):
        if bounds[k] == bounds[k + 1]:
            data[at], data[at + 1], data[at + 2], data[at + 3] = 110, 117, 108, 108
            at += 4
        else:
            for element in range(bounds[k], bounds[k + 1]):
                data[at] = 91 if element == bounds[k] else 44
                at = copied(text, starts[element], ends[element], data, at + 1)
            data[at] = 93
            at += 1
        list_ends[k + 1] = at
