"""Windows are evaluated: what left them dies, what qualifies is emitted."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from numba import types

from app.coalesce.arrays import (
    AFTER,
    ALIVE,
    ARRIVALS,
    AT_LEAST,
    AT_MOST,
    BEFORE,
    CHANGES,
    COLUMN,
    CONTAINS,
    COUNTED,
    CROWDED,
    CUT_END,
    CUT_START,
    DEAD,
    DONE,
    END,
    EVALUATED,
    FIRST,
    FOUND,
    FOUND_END,
    FOUND_MEMBERS,
    FOUND_RUN,
    FOUND_START,
    FOUND_TIME,
    FOUND_WINDOW,
    FULL,
    GAP,
    HIGH,
    INT,
    KEYS,
    LAST,
    LIVE,
    LIVE_RUNS,
    LONGER,
    LOW,
    MEMBERS,
    MEMORY,
    NEVER,
    NEWEST,
    NEXT,
    NO_TEST,
    ORDINAL,
    OUTPUT,
    OVERLAPS,
    PLACE,
    RANGE,
    RANK,
    RUNS,
    SHORTER,
    SHOWN,
    SHOWN_END,
    SHOWN_START,
    SLIDE,
    START,
    TEST,
    TOUCHES,
    TUPLES,
    UNTIL,
)
from app.coalesce.kernel import inlined, kernel
from app.coalesce.kernels_tuples import arrive, drop_oldest, drop_tuple


@inlined
def _holds(rules, start, end):
    """``valid:`` of an interval."""
    test, low, high, length = rules[TEST], rules[LOW], rules[HIGH], end - start
    if test == NO_TEST:
        return True
    if test == SHORTER:
        return length < low
    if test == AT_MOST:
        return length <= low
    if test == LONGER:
        return length > low
    if test == AT_LEAST:
        return length >= low
    if test == OVERLAPS:
        return start < high and end > low
    if test == CONTAINS:
        return start <= low and end >= high
    return start >= low and end <= high


@inlined
def _wake(rules, memory, run, newest, t, holds):
    """Until when nothing can be told of a run that was looked at in window t, unless a tuple of it comes.

    ``newest``: the last tuple that took part. While the interval is fixed, or only a cut bound moves, and ``valid`` goes on to say the
    same, the run is as it was shown.
    """
    tuples, runs = memory.tuples, memory.runs
    first, until = runs[run, FIRST], runs[run, UNTIL]
    start, size, test, limit = tuples[first, START], rules[RANGE], rules[TEST], rules[LOW]
    if newest != runs[run, NEWEST] and not tuples[runs[run, NEWEST], TOUCHES]:
        return NEVER  # behind a gap it has already gone on
    if start >= t - size:
        if until <= t:
            return start + size + 1  # fixed, until its start is cut
        if test > AT_LEAST:
            return NEVER
        wake = min(until, start + size + 1)  # its end moves with t
        for turn in (start + limit, start + limit + 1):
            if test != NO_TEST and t < turn < wake:
                wake = turn
        return wake
    leaves = tuples[first, END] + size
    if until > t:
        return min(until, leaves) if test <= AT_LEAST else NEVER  # as long as the window
    if test == NO_TEST or (test in (LONGER, AT_LEAST) and not holds):
        return leaves  # its start moves with t
    return min(leaves, until + size - limit) if test in (LONGER, AT_LEAST) else NEVER


@kernel(INT(COLUMN, MEMORY, OUTPUT, INT, INT))
def _evaluate(rules, memory, output, t, window):
    """One window: all tuples of times up to t (counted: up to the window's last) are in.

    Returns the time before which no other time window will tell anything new, unless a tuple comes.
    """
    tuples, runs, wakes, state = memory.tuples, memory.runs, memory.wakes, memory.state
    counted = rules[COUNTED] != 0
    low = NEVER if counted else t - rules[RANGE]
    sleeping = rules[CHANGES] != 0 and not counted
    quiet = DEAD
    state[EVALUATED] += 1
    for run in range(state[RUNS]):
        if wakes[run] > t:
            quiet = min(quiet, wakes[run])
            continue
        first = runs[run, FIRST]
        while first >= 0 and (tuples[first, PLACE] <= state[RANK] - rules[RANGE] if counted else tuples[first, END] <= low):
            drop_oldest(memory, run)
            first = runs[run, FIRST]
        if first < 0:
            runs[run, SHOWN] = 0
            if runs[run, UNTIL] + rules[GAP] < t:  # no tuple can lengthen it any more
                runs[run, ALIVE] = 0
                wakes[run] = DEAD
                state[LIVE_RUNS] -= 1
            else:
                quiet = NEVER
            continue
        newest = runs[run, NEWEST]
        beyond = False
        if tuples[newest, START] >= t:  # it takes no part, but tells whether the interval goes on at t
            beyond = tuples[newest, TOUCHES] != 0
            newest = tuples[newest, BEFORE]
            if newest < 0:
                runs[run, SHOWN] = 0
                quiet = NEVER
                continue
        start, end = max(tuples[first, START], low), min(tuples[newest, END], t)
        holds = _holds(rules, start, end)
        if sleeping:
            wakes[run] = _wake(rules, memory, run, newest, t, holds)
        quiet = min(quiet, wakes[run])
        if not holds:
            runs[run, SHOWN] = 0
            continue
        cut_start = tuples[first, START] < low or tuples[first, TOUCHES] != 0
        cut_end = tuples[newest, END] > t or beyond
        same = runs[run, SHOWN] and (cut_start or runs[run, SHOWN_START] == start) and (cut_end or runs[run, SHOWN_END] == end)
        runs[run, SHOWN], runs[run, SHOWN_START], runs[run, SHOWN_END] = 1, start, end
        if same and rules[CHANGES]:
            continue
        member = first
        count = state[MEMBERS]
        while True:
            output.members[count] = member
            count += 1
            if member == newest:
                break
            member = tuples[member, AFTER]
        state[MEMBERS] = count
        row = state[FOUND]
        state[FOUND] += 1
        output.found[row, FOUND_TIME], output.found[row, FOUND_WINDOW] = t, window
        output.found[row, FOUND_START], output.found[row, FOUND_END] = start, end
        output.found[row, CUT_START], output.found[row, CUT_END] = cut_start, cut_end
        output.found[row, FOUND_RUN], output.found[row, FOUND_MEMBERS] = run, count
    return quiet


@inlined
def _no_room(memory, output):
    """One window emits at most every run, and in them every tuple, once."""
    state = memory.state
    return state[FOUND] + state[LIVE_RUNS] > len(output.found) or state[MEMBERS] + state[LIVE] > len(output.members)


@kernel(INT(COLUMN, MEMORY, OUTPUT, INT))
def pass_time(rules, memory, output, until):
    """Evaluates the time windows with t before ``until``: all tuples of times up to then are in. DONE, or FULL: go on with more room."""
    state, slide = memory.state, rules[SLIDE]
    while state[LIVE] > 0 and state[NEXT] < until:
        if _no_room(memory, output):
            return FULL
        t = state[NEXT]
        quiet = _evaluate(rules, memory, output, t, t // slide)
        state[NEXT] = max(t + slide, -(-min(quiet, until) // slide) * slide)
    return DONE


@kernel(INT(COLUMN, MEMORY, OUTPUT))
def close_count(rules, memory, output):
    """Evaluates the last count window, if tuples came after the one before it. DONE, or FULL: go on with more room."""
    state = memory.state
    if state[RANK] % rules[SLIDE] == 0 or state[RANK] // rules[SLIDE] < state[ORDINAL]:
        return DONE
    if _no_room(memory, output):
        return FULL
    state[ORDINAL] = state[RANK] // rules[SLIDE] + 1
    _evaluate(rules, memory, output, state[LAST], state[ORDINAL])
    return DONE


@kernel(types.UniTuple(INT, 2)(COLUMN, MEMORY, OUTPUT, ARRIVALS, COLUMN, INT))
def take_in(rules, memory, output, arrivals, drops, begin):
    """Takes tuples in from ``begin`` on, and evaluates the windows that end before, between and (counted) behind them.

    ``drops``: per arrival the rank of the tuple that goes when it has come, or -1; empty: memory is unbounded.
    Returns DONE, or FULL or CROWDED and the tuple to go on with when there is more room.
    """
    state, slide, count = memory.state, rules[SLIDE], len(arrivals.time)
    tuples, runs, keys = len(memory.tuples), len(memory.runs), len(memory.keys)
    for k in range(begin, count + 1):
        if rules[COUNTED]:
            if state[RANK] % slide == 0 and state[RANK] // slide > state[ORDINAL]:
                if _no_room(memory, output):
                    return FULL, k
                state[ORDINAL] = state[RANK] // slide
                _evaluate(rules, memory, output, state[LAST], state[ORDINAL])
        elif k < count and state[LIVE] > 0 and state[NEXT] < arrivals.time[k]:
            if pass_time(rules, memory, output, arrivals.time[k]) == FULL:
                return FULL, k
        if k < count:
            if state[TUPLES] == tuples or state[RUNS] + 1 >= runs or state[KEYS] == keys:
                return CROWDED, k
            arrive(rules, memory, arrivals, k, len(drops) > 0)
            if len(drops) > 0 and drops[k] >= 0:
                drop_tuple(rules, memory, drops[k], arrivals.time[k])
    return DONE, count
