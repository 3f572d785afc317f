"""What happens when a window ends: waiting matches are decided, partial matches time out, and the oldest events die."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import njit, types

from app.cep.arrays import (
    BASE,
    CHAIN,
    CHECK_STACK,
    DONE,
    END_BARRIERS,
    END_BARRIERS_END,
    END_CHECKS,
    END_CHECKS_END,
    KEY,
    LOW,
    MACHINE,
    MATCHES,
    MEMORY,
    NEVER,
    OF_ITEM,
    OUTPUT,
    OUTPUT_FULL,
    PENDING_FREE,
    PENDING_LIVE,
    PENDING_TOP,
    PLAN_TABLES,
    POSITIVES,
    ROWS,
    SLOT_STACKS,
    WILD_HEADS,
    WITHIN,
)
from app.cep.kernels_construction import deadline_of, negated_event_exists, window_bound
from app.cep.kernels_machine import INTEGERS
from app.cep.kernels_slots import find_slot, hash_key
from app.cep.opcodes import CELL_SOURCE


@njit(types.boolean(PLAN_TABLES, MEMORY, OUTPUT, types.int64), cache=True, nogil=True)
def await_deadline(plan, memory, output, since):
    """Moves the matches ``since`` .. in the output to the chains of their first events, where they wait for the end of the window."""
    state, pending = memory.state, memory.pending
    count = state[MATCHES] - since
    free = len(pending) - state[PENDING_LIVE]
    if count > free:
        state[MATCHES] = since
        return False
    chain = plan.shape[CHAIN]
    for k in range(since, since + count):
        entry = state[PENDING_FREE]
        if entry >= 0:
            state[PENDING_FREE] = pending[entry, 0]
        else:
            entry = state[PENDING_TOP]
            state[PENDING_TOP] = entry + 1
        first = output.rows[k, 0]
        pending[entry, 0] = memory.links[first, chain]
        memory.links[first, chain] = entry
        for place in range(plan.shape[POSITIVES]):
            pending[entry, 1 + place] = output.rows[k, place] + state[BASE]
    state[PENDING_LIVE] += count
    state[MATCHES] = since
    return True


@njit(types.boolean(PLAN_TABLES, MACHINE, MEMORY, OUTPUT, types.int64), cache=True, nogil=True)
def release(plan, machine, memory, output, first):
    """Decides the matches that wait at ``first``, whose window is over: those without a negated event behind them go to the output.

    False: no room; the rest stays on the chain and the call may be repeated.
    """
    links, state, pending = memory.links, memory.state, memory.pending
    chain = plan.shape[CHAIN]
    base = state[BASE]
    last = plan.shape[POSITIVES] - 1
    deadline = deadline_of(links[first, 0], plan.shape[WITHIN])
    key_hash = hash_key(plan.keys, memory.cells, first)
    slot = find_slot(memory.slots, plan.keys, memory.cells, first, key_hash, state[LOW])
    heads = KEY + len(plan.keys)
    barred = np.int64(-1)
    for k in range(plan.shape[END_BARRIERS], plan.shape[END_BARRIERS_END]):
        stack = plan.barriers[k, 0]
        if stack < plan.shape[SLOT_STACKS]:
            row = memory.slots[slot, heads + stack] if slot >= 0 else np.int64(-1)
        else:
            row = state[WILD_HEADS + stack - plan.shape[SLOT_STACKS]]
        while row > barred and row >= base and links[row - base, 0] >= deadline:
            row = links[row - base, 1 + stack]
        barred = max(barred, row)
    entry = links[first, chain]
    while entry >= 0:
        keep = pending[entry, 1 + last] >= barred
        if keep and plan.shape[END_CHECKS] < plan.shape[END_CHECKS_END]:
            for place in range(last + 1):
                machine.bound[plan.positives[place, OF_ITEM]] = pending[entry, 1 + place] - base
            for check in range(plan.shape[END_CHECKS], plan.shape[END_CHECKS_END]):
                stack = plan.checks[check, CHECK_STACK]
                if stack < plan.shape[SLOT_STACKS]:
                    newest = memory.slots[slot, heads + stack] if slot >= 0 else np.int64(-1)
                else:
                    newest = state[WILD_HEADS + stack - plan.shape[SLOT_STACKS]]
                if negated_event_exists(plan, machine, memory, check, newest, pending[entry, 1 + last], np.int64(NEVER), deadline):
                    keep = False
                    break
        if keep:
            count = state[MATCHES]
            if count >= len(output.time):
                links[first, chain] = entry
                return False
            for place in range(last + 1):
                output.rows[count, place] = pending[entry, 1 + place] - base
            output.time[count] = deadline
            state[MATCHES] = count + 1
        following = pending[entry, 0]
        pending[entry, 0] = state[PENDING_FREE]
        state[PENDING_FREE] = entry
        state[PENDING_LIVE] -= 1
        entry = following
    links[first, chain] = -1
    return True


@njit(types.boolean(PLAN_TABLES, MACHINE, MEMORY, OUTPUT, types.int64), cache=True, nogil=True)
def pass_time(plan, machine, memory, output, time):
    """Moves the oldest live row on, as all events before ``time`` have been processed; waiting matches of dying rows are released."""
    state, links = memory.state, memory.links
    within = plan.shape[WITHIN]
    if within < 0:
        return True
    bound_time = window_bound(time, within)
    chain = plan.shape[CHAIN]
    low, rows, base = state[LOW], state[ROWS], state[BASE]
    while low < rows and links[low - base, 0] <= bound_time:
        if chain >= 0 and links[low - base, chain] >= 0:
            state[LOW] = low
            if not release(plan, machine, memory, output, low - base):
                return False
        low += 1
    state[LOW] = low
    return True


@njit(types.int64(PLAN_TABLES, MACHINE, MEMORY, OUTPUT, INTEGERS, INTEGERS, types.int64, types.int64), cache=True, nogil=True)
def pass_watermarks(plan, machine, memory, output, sources, watermarks, default, horizon):
    """As `pass_time`, where every source has its own watermark (at least ``default``, at most ``horizon`` counts).

    Rows die in order, so one of a slow source holds up the memory of those behind it, but never a release.
    """
    state, links = memory.state, memory.links
    within = plan.shape[WITHIN]
    if within < 0:
        return DONE
    chain = plan.shape[CHAIN]
    rows, base = state[ROWS], state[BASE]
    dying = True
    for row in range(state[LOW], rows):
        at = row - base
        waits = chain >= 0 and links[at, chain] >= 0
        if not dying and not waits:
            continue
        watermark = default
        for k in range(len(sources)):
            if sources[k] == memory.cells[at, CELL_SOURCE]:
                watermark = max(watermark, watermarks[k])
        over = links[at, 0] <= window_bound(min(watermark, horizon), within)
        if over and waits and not release(plan, machine, memory, output, at):
            return OUTPUT_FULL
        dying = dying and over
        if dying:
            state[LOW] = row + 1
        elif state[PENDING_LIVE] == 0:
            break
    return DONE
