"""Kernels of what `cep replay` writes: the order of matches. Reached only through `app.cli.replay.lines`."""

from __future__ import annotations

from collections import namedtuple

from numba import types

from app.cli.replay.kernel import kernel

Keys = namedtuple("Keys", ("match_time", "starts", "time", "source", "place", "query", "window", "item"))  # noqa: PYI024
"""int64: of matches ``match_time``, ``query`` (its rank) and ``window``; of the events of match k, at ``starts[k] : starts[k + 1]``, the others."""
KEYS = types.NamedUniTuple(types.int64[::1], 8, Keys)

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
