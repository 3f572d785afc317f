"""Kernels of the SASE paper's plans; each counts matches, constructed sequences, visited instances and begun constructions."""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

Line = NDArray[np.int64]
NONE, SELECTED, DYNAMIC, MULTI, MULTI_WHOLE = range(5)
"""How the second equivalence test is evaluated: not at all, on complete sequences, in construction, or by stacks of its own in the scan, of which one instance
in common with those of the first is looked for, or all of them."""
BEHIND, PUSHED = 1, 2
"""Where negation is evaluated: on complete sequences, or as soon as both its neighbours are bound."""
ABSENT = 6
"""The type that a negated item names."""
PIECE = 256
"""Events per piece of the index of negated events (section 3.2, partitioned indexing)."""
LONGEST = 8
"""Items of a sequence."""
FLAGS = ("partitioned", "equal", "second", "window_in_scan", "window_in_construction", "most", "simple_in_scan", "negation")
_PARTITIONED, _EQUAL, _SECOND, _IN_SCAN, _IN_CONSTRUCTION, _MOST, _SIMPLE_IN_SCAN, _NEGATION = range(len(FLAGS))
_MATCHES, _SEQUENCES, _VISITED, _BEGUN = range(4)


@nb.njit(cache=True)
def basic_counts(types: Line, length: int, window: int, counted_from: int) -> Line:
    count = len(types)
    counts = np.zeros(4, dtype=np.int64)
    found = np.zeros((1024, LONGEST), dtype=np.int64)
    active = np.zeros(count, dtype=np.uint8)  # bits: the states of the cell that loop
    forward = np.zeros(count, dtype=np.int8)  # the state that this event moved to, from 1; 0: none
    reached = np.empty((LONGEST, window + 1), dtype=np.int64)  # events of a state in the search, newest first
    follower = np.empty((LONGEST, window + 1), dtype=np.int64)  # where in the state before the search goes on
    filled = np.zeros(LONGEST + 1, dtype=np.int64)
    cursor = np.zeros(LONGEST, dtype=np.int64)
    chosen = np.zeros(LONGEST, dtype=np.int64)
    states = np.uint8(0)
    for i in range(count):
        if i == counted_from:
            counts[:] = 0
        kind = types[i]
        moved = kind < length and (kind == 0 or (states >> np.uint8(kind - 1)) & 1)
        if moved:
            forward[i] = kind + 1
            if kind < length - 1:
                states |= np.uint8(1) << np.uint8(kind)
        active[i] = states
        if not moved or kind != length - 1:
            continue
        counts[_BEGUN] += 1
        # the part of the runtime stack that is reached from here: once over its cells, at most a window back
        filled[:] = 0
        oldest = max(0, i - window + 1)
        for j in range(i - 1, oldest - 1, -1):
            counts[_VISITED] += 1
            if not active[j]:
                break
            s = forward[j] - 1
            if s >= 0 and s < length - 1 and (s == length - 2 or filled[s + 1]):
                reached[s, filled[s]] = j
                filled[s] += 1
        # for each reached event, the newest event of the state before that is older
        for s in range(length - 2, 0, -1):
            first = 0
            for k in range(filled[s]):
                while first < filled[s - 1] and reached[s - 1, first] >= reached[s, k]:
                    first += 1
                follower[s, k] = first
        s = length - 2
        chosen[length - 1] = i
        cursor[s] = 0
        while s < length - 1:
            k = cursor[s]
            if k >= filled[s]:
                s += 1
                continue
            cursor[s] = k + 1
            chosen[s] = reached[s, k]
            if s:
                cursor[s - 1] = follower[s, k]
                s -= 1
                continue
            counts[_SEQUENCES] += 1
            found[counts[_MATCHES] % 1024] = chosen
            counts[_MATCHES] += 1
    return counts


@nb.njit(cache=True)
def _shared(top: int, below: Line, top_2: int, below_2: Line, oldest: int, enough: int) -> int:
    """How many instances two stacks have in common, each from its top down and not older than this; enough of them end the search."""
    one, other, found = top, top_2, 0
    while one >= oldest and other >= oldest and found < enough:
        if one == other:
            found += 1
            one, other = below[one], below_2[other]
        elif one > other:
            one = below[one]
        else:
            other = below_2[other]
    return found


@nb.njit(cache=True)
def _forbidden(first: Line, low: int, high: int, value: int, any_value: int, places: Line, pieces: Line, filled: int) -> bool:
    """Whether an event of the negated type, of this value, lies between; pieces of the index say where to begin."""
    k = pieces[low // PIECE]
    while k < filled and places[k] < high:
        if places[k] > low and (any_value or first[places[k]] == value):
            return True
        k += 1
    return False


@nb.njit(cache=True)
def stacks_counts(
    types: Line,
    first: Line,
    second: Line,
    simple: Line,
    length: int,
    window: int,
    counted_from: int,
    flags: Line,
    values: tuple[int, int],
) -> Line:
    partitioned, equal, how, in_scan = flags[_PARTITIONED] == 1, flags[_EQUAL] == 1, flags[_SECOND], flags[_IN_SCAN] == 1
    in_construction, most, early, negation = flags[_IN_CONSTRUCTION] == 1, flags[_MOST], flags[_SIMPLE_IN_SCAN] == 1, flags[_NEGATION]
    count = len(types)
    counts = np.zeros(4, dtype=np.int64)
    found = np.zeros((1024, LONGEST), dtype=np.int64)
    top = np.full((length, values[0]), -1, dtype=np.int64)  # newest instance; an instance is the place of its event
    bottom = np.zeros((length, values[0]), dtype=np.int64)  # instances before it have left
    below = np.empty(count, dtype=np.int64)
    before = np.empty(count, dtype=np.int64)  # the newest instance of the state before: RIP
    top_2 = np.full((length, values[1]), -1, dtype=np.int64)
    below_2 = np.empty(count if how >= MULTI else 1, dtype=np.int64)
    places = np.empty(count if negation else 1, dtype=np.int64)
    pieces = np.zeros(count // PIECE + 2, dtype=np.int64)
    negated = 0
    cursor = np.zeros(LONGEST, dtype=np.int64)
    chosen = np.zeros(LONGEST, dtype=np.int64)
    for i in range(count):
        if i == counted_from:
            counts[:] = 0
        if i % PIECE == 0:
            pieces[i // PIECE] = negated
        kind = types[i]
        if negation and kind == ABSENT:
            places[negated] = i
            negated += 1
        if kind >= length or (kind == 0 and early and simple[i] >= most):
            continue
        value = first[i] if partitioned else 0
        oldest = i - window + 1
        if kind:
            last = top[kind - 1, value]
            if last < (oldest if in_scan else 0):
                continue
            if in_scan:
                bottom[kind - 1, value] = max(0, oldest)
            if how >= MULTI:
                least = max(0, oldest) if in_scan else 0
                if not _shared(last, below, top_2[kind - 1, second[i]], below_2, least, 1 if how == MULTI else count):
                    continue
            before[i] = last
        if kind < length - 1:
            below[i] = top[kind, value]
            top[kind, value] = i
            if how >= MULTI:
                below_2[i] = top_2[kind, second[i]]
                top_2[kind, second[i]] = i
            continue
        counts[_BEGUN] += 1
        chosen[length - 1] = i
        s = length - 2
        cursor[s] = before[i]
        while s < length - 1:
            j = cursor[s]
            if j < bottom[s, value] or (in_construction and j < oldest):
                s += 1
                continue
            cursor[s] = below[j]
            counts[_VISITED] += 1
            if how == DYNAMIC and second[j] != second[i]:
                continue
            if (
                negation == PUSHED
                and s == length - 2
                and _forbidden(first, j, i, first[i], int(not (partitioned or equal)), places, pieces, negated)
            ):
                continue
            chosen[s] = j
            if s:
                cursor[s - 1] = before[j]
                s -= 1
                continue
            counts[_SEQUENCES] += 1
            good = j >= oldest and simple[j] < most
            if good and equal and not partitioned:
                for one in range(length - 1):
                    good &= first[chosen[one]] == first[i]
            if good and how in (SELECTED, MULTI, MULTI_WHOLE):
                for one in range(length - 1):
                    good &= second[chosen[one]] == second[i]
            if good and negation == BEHIND:
                good = not _forbidden(first, chosen[length - 2], i, first[i], int(not (partitioned or equal)), places, pieces, negated)
            if good:
                found[counts[_MATCHES] % 1024] = chosen
                counts[_MATCHES] += 1
    return counts


@nb.njit(cache=True)
def joins_counts(
    types: Line, first: Line, second: Line, length: int, window: int, counted_from: int, both: int, ordered: int, values: int
) -> Line:
    count = len(types)
    counts = np.zeros(4, dtype=np.int64)
    found = np.zeros((1024, LONGEST), dtype=np.int64)
    top = np.full((length, values), -1, dtype=np.int64)
    below = np.empty(count, dtype=np.int64)
    cursor = np.zeros(LONGEST, dtype=np.int64)
    chosen = np.zeros(LONGEST, dtype=np.int64)
    order = np.zeros(LONGEST, dtype=np.int64)  # the streams that are joined, one after the other
    for i in range(count):
        if i == counted_from:
            counts[:] = 0
        kind = types[i]
        if kind >= length:
            continue
        value = first[i]
        below[i] = top[kind, value]
        top[kind, value] = i
        oldest = max(0, i - window + 1)
        chosen[kind] = i
        # the streams next to the event's first: order in time is refused as early as can be
        steps = 0
        for s in range(kind + 1, length):
            order[steps] = s
            steps += 1
        for s in range(kind - 1, -1, -1):
            order[steps] = s
            steps += 1
        counts[_BEGUN] += 1
        step = 0
        cursor[0] = top[order[0], value]
        while step >= 0:
            j = cursor[step]
            if j < oldest:
                step -= 1
                continue
            s = order[step]
            cursor[step] = below[j]
            counts[_VISITED] += 1
            if both and second[j] != second[i]:
                continue
            if ordered and ((s > kind and j < chosen[s - 1]) or (s < kind and j > chosen[s + 1])):
                continue
            chosen[s] = j
            if step < length - 2:
                step += 1
                cursor[step] = top[order[step], value]
                continue
            counts[_SEQUENCES] += 1
            good = True
            for one in range(length - 1):
                good &= chosen[one] < chosen[one + 1]
            if good:
                found[counts[_MATCHES] % 1024] = chosen
                counts[_MATCHES] += 1
    return counts
