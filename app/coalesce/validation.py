"""Invariants of a coalescer's state as code: tests call this after every step; it is slow and obvious."""

from __future__ import annotations

from app.coalesce import arrays as at
from app.coalesce.arrays import Integers, Memory


def validate_memory(memory: Memory, rules: Integers) -> None:
    """Checks counters, chains of tuples, and what keys and runs say of them.

    Raises:
        AssertionError: an invariant does not hold.
    """
    state, gap = memory.state, int(rules[at.GAP])
    _expect(state[at.LIVE_RUNS] == memory.runs[: state[at.RUNS], at.ALIVE].sum(), "runs alive are counted: output has room for them")
    for run in range(int(state[at.RUNS])):
        _expect(memory.blocks[run // at.BLOCK] <= memory.wakes[run], "a block sleeps no longer than its runs")
    chained: list[int] = []
    held: dict[int, int] = {}
    for run in range(int(state[at.RUNS])):
        row = memory.runs[run]
        if not row[at.ALIVE]:
            _expect(row[at.FIRST] < 0, "a dead run has no tuples")
            continue
        own = _chain(memory, run)
        chained += own
        held[int(row[at.KEY])] = held.get(int(row[at.KEY]), 0) + len(own)
        starts, ends = memory.tuples[own, at.START], memory.tuples[own, at.END]
        _expect((starts < ends).all(), "every tuple is valid somewhere")
        _expect(
            (starts[1:] > starts[:-1]).all() and (starts[1:] - ends[:-1] <= gap).all(), "a run's tuples follow each other within the gap"
        )
        _expect(((starts[1:] <= ends[:-1]) == (memory.tuples[own[1:], at.TOUCHES] != 0)).all(), "what touches is marked")
        _expect(not own or row[at.UNTIL] == ends[-1], "a run ends with its newest tuple")
    live = [row for row in range(int(state[at.TUPLES])) if memory.tuples[row, at.RUN] != at.GONE]
    _expect(sorted(chained) == live and len(live) == state[at.LIVE], "every live tuple is in the chain of one run")
    for key in range(int(state[at.KEYS])):
        row = memory.keys[key]
        _expect(row[at.HELD] == held.get(key, 0), "a key knows how many tuples it has")
        _expect(row[at.CURRENT] >= 0 or row[at.CURRENT_TUPLE] < 0, "a current tuple has a run")
        if row[at.CURRENT_TUPLE] >= 0:
            _expect(memory.tuples[row[at.CURRENT_TUPLE], at.START] == row[at.SEEN], "the current tuple of a key is its last one")
    cells = {tuple(row[at.CELLS :].tolist()) for row in memory.keys[: state[at.KEYS]]}
    _expect(len(cells) == state[at.KEYS], "every key stands once")


def _chain(memory: Memory, run: int) -> list[int]:
    own: list[int] = []
    row, before = int(memory.runs[run, at.FIRST]), -1
    while row >= 0:
        _expect(memory.tuples[row, at.RUN] == run and memory.tuples[row, at.BEFORE] == before, "chains go both ways")
        own.append(row)
        row, before = int(memory.tuples[row, at.AFTER]), row
    _expect(memory.runs[run, at.NEWEST] == before, "a chain ends at the newest tuple")
    return own


def _expect(holds: object, what: str) -> None:
    if not holds:
        raise AssertionError(what)
