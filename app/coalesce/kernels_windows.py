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
    CUT_END,
    CUT_START,
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
    OPEN,
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
    UNTIL,
)
from app.coalesce.kernel import inlined, kernel
from app.coalesce.kernels_tuples import arrive, drop_oldest


@kernel(types.boolean(COLUMN, INT, INT))
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


@kernel(types.boolean(COLUMN, MEMORY, OUTPUT, INT, INT))
def _evaluate(rules, memory, output, t, window):
    """One window: all tuples of times up to t (counted: up to the window's last) are in.

    Returns whether the next time window will hold the same, both bounds of everything cut, unless a tuple comes.
    """
    tuples, runs, state = memory.tuples, memory.runs, memory.state
    counted = rules[COUNTED] != 0
    low = NEVER if counted else t - rules[RANGE]
    steady = rules[CHANGES] != 0 and rules[TEST] <= AT_LEAST and not counted
    state[EVALUATED] += 1
    for run in range(state[RUNS]):
        if not runs[run, ALIVE]:
            continue
        first = runs[run, FIRST]
        while first >= 0 and (tuples[first, PLACE] <= state[RANK] - rules[RANGE] if counted else tuples[first, END] <= low):
            drop_oldest(memory, run)
            first = runs[run, FIRST]
        if first < 0:
            if runs[run, UNTIL] + rules[GAP] < t:  # no tuple can lengthen it any more
                runs[run, ALIVE] = 0
                state[LIVE_RUNS] -= 1
            continue
        newest = runs[run, NEWEST]
        beyond = False
        if tuples[newest, START] >= t:  # it takes no part, but tells whether the interval goes on at t
            beyond = tuples[newest, TOUCHES] != 0
            newest = tuples[newest, BEFORE]
            if newest < 0:
                steady = False
                continue
        start, end = max(tuples[first, START], low), min(tuples[newest, END], t)
        cut_start = tuples[first, START] < low or tuples[first, TOUCHES] != 0
        cut_end = tuples[newest, END] > t or beyond
        steady = steady and tuples[first, START] < low and tuples[newest, END] == OPEN
        if not _holds(rules, start, end):
            continue
        same = (
            runs[run, SHOWN] == window - 1 and (cut_start or runs[run, SHOWN_START] == start) and (cut_end or runs[run, SHOWN_END] == end)
        )
        runs[run, SHOWN], runs[run, SHOWN_START], runs[run, SHOWN_END] = window, start, end
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
    return steady


@kernel(types.void(MEMORY, INT, INT))
def _shown_until(memory, window, later):
    """What was shown in one window was shown in all up to a later one."""
    for run in range(memory.state[RUNS]):
        if memory.runs[run, SHOWN] == window:
            memory.runs[run, SHOWN] = later


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
        steady = _evaluate(rules, memory, output, t, t // slide)
        state[NEXT] = t + slide
        latest = (until - 1) // slide * slide
        if steady and latest > t:
            _shown_until(memory, t // slide, latest // slide)
            state[NEXT] = latest + slide
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


@kernel(types.UniTuple(INT, 2)(COLUMN, MEMORY, OUTPUT, ARRIVALS, INT))
def take_in(rules, memory, output, arrivals, begin):
    """Takes tuples in from ``begin`` on, and evaluates the windows that end before, between and (counted) behind them.

    The tables have room for them all. Returns DONE, or FULL and the tuple to go on with when there is more room for output.
    """
    state, slide, count = memory.state, rules[SLIDE], len(arrivals.time)
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
            arrive(rules, memory, arrivals, k)
    return DONE, count
