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
    BLOCK,
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
def _turns(rules, wake, t, moved):
    """The first of ``wake`` and the times behind t at which an interval can begin or cease to lie as `_holds` asks.

    ``moved``: one of its bounds is at the time less this.
    """
    for bound in (rules[LOW], rules[HIGH]):
        for turn in (bound + moved, bound + moved + 1):
            if t < turn < wake:
                wake = turn
    return wake


@inlined
def _wake(rules, memory, run, newest, t):
    """Until when nothing can be told of a run that was looked at in window t, unless a tuple of it comes.

    ``newest``: the last tuple that took part. While the interval is fixed, or only a cut bound moves, and ``valid`` goes on to say the
    same, the run is as it was shown.
    """
    tuples, runs = memory.tuples, memory.runs
    first, until = runs[run, FIRST], runs[run, UNTIL]
    start, size, test, limit = tuples[first, START], rules[RANGE], rules[TEST], rules[LOW]
    if newest != runs[run, NEWEST] and not tuples[runs[run, NEWEST], TOUCHES]:
        return NEVER  # behind a gap it has already gone on
    start_moves, end_moves = start < t - size, until > t
    wake = tuples[first, END] + size if start_moves else start + size + 1
    if end_moves:
        wake = min(wake, until)
    if test == NO_TEST or (start_moves == end_moves and test <= AT_LEAST):
        return wake  # its length stays
    if test <= AT_LEAST:
        turn = until + size - limit if start_moves else start + limit
        for one in (turn, turn + 1):
            if t < one < wake:
                wake = one
        return wake
    if end_moves:
        wake = _turns(rules, wake, t, 0)
    return _turns(rules, wake, t, size) if start_moves else wake


@kernel(INT(COLUMN, MEMORY, OUTPUT, INT, INT))
def _evaluate(rules, memory, output, t, window):
    """One window: all tuples of times up to t (counted: up to the window's last) are in.

    Returns the time before which no other time window will tell anything new, unless a tuple comes.
    """
    tuples, runs, wakes, blocks, state = memory.tuples, memory.runs, memory.wakes, memory.blocks, memory.state
    counted = rules[COUNTED] != 0
    low = NEVER if counted else t - rules[RANGE]
    sleeping = rules[CHANGES] != 0 and not counted
    quiet = DEAD
    state[EVALUATED] += 1
    for block in range((state[RUNS] + BLOCK - 1) // BLOCK):
        if blocks[block] > t:
            quiet = min(quiet, blocks[block])
            continue
        least = DEAD
        for run in range(block * BLOCK, min((block + 1) * BLOCK, state[RUNS])):
            if wakes[run] > t:
                least = min(least, wakes[run])
                continue
            first = runs[run, FIRST]
            while first >= 0 and (tuples[first, PLACE] <= state[RANK] - rules[RANGE] if counted else tuples[first, END] <= low):
                drop_oldest(memory, run)
                first = runs[run, FIRST]
            if first < 0:
                runs[run, SHOWN] = 0
                wakes[run] = runs[run, UNTIL] + rules[GAP] + 1  # until then a tuple can lengthen it
                if wakes[run] <= t:
                    runs[run, ALIVE] = 0
                    wakes[run] = DEAD
                    state[LIVE_RUNS] -= 1
                least = min(least, wakes[run])
                continue
            newest = runs[run, NEWEST]
            beyond = False
            if tuples[newest, START] >= t:  # it takes no part, but tells whether the interval goes on at t
                beyond = tuples[newest, TOUCHES] != 0
                newest = tuples[newest, BEFORE]
                if newest < 0:
                    runs[run, SHOWN] = 0
                    least = NEVER
                    continue
            start, end = max(tuples[first, START], low), min(tuples[newest, END], t)
            holds = _holds(rules, start, end)
            if sleeping:
                wakes[run] = _wake(rules, memory, run, newest, t)
            least = min(least, wakes[run])
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
        blocks[block] = least
        quiet = min(quiet, least)
    return quiet


@inlined
def _no_room(memory, output):
    """One window emits at most every run that has tuples, and in them every tuple, once."""
    state = memory.state
    return state[FOUND] + min(state[LIVE_RUNS], state[LIVE]) > len(output.found) or state[MEMBERS] + state[LIVE] > len(output.members)


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
