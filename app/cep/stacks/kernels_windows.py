"""What happens when a window ends: waiting matches are decided, partial matches time out, and the oldest events die."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import njit, types

from app.cep.cells.arrays import CELL_SOURCE, FOREVER, NEVER
from app.cep.cells.kernels_memory import load
from app.cep.cells.kernels_types import INTEGERS, TABLE
from app.cep.kernel import kernel
from app.cep.negation.kernels_parts import agree
from app.cep.partitions.arrays import KEY
from app.cep.partitions.kernels_slots import find_slot, hash_key
from app.cep.stacks.arrays import (
    BARRIER,
    BARRIER_END,
    BASE,
    CHAIN,
    CHECK,
    CHECK_END,
    CHECK_HIGHEST,
    CHECK_KIND,
    CHECK_MIDDLE,
    CHECK_PLACE,
    CHECK_STACK,
    DONE,
    END_BARRIERS,
    END_BARRIERS_END,
    END_CHECKS,
    END_CHECKS_END,
    EXPIRED,
    EXPIRY,
    HIGHEST,
    LOW,
    MATCHES,
    OF_ITEM,
    OUTPUT_FULL,
    PENDING_FREE,
    PENDING_LIVE,
    PENDING_TOP,
    POSITIVES,
    RESIDUAL,
    ROWS,
    SLOT_STACKS,
    STACK,
    STATES_AT,
    TEST,
    TEST_END,
    WILD_HEADS,
    WITHIN,
)
from app.cep.stacks.kernels_negation import negated_event_exists
from app.cep.stacks.kernels_predicates import predicate_holds
from app.cep.stacks.kernels_types import MACHINE, MEMORY, OUTPUT, PLAN_TABLES
from app.cep.windows.kernels_bounds import deadline_of, watermark_of, window_bound


@kernel(types.boolean(PLAN_TABLES, MEMORY, OUTPUT, types.int64), counted=False)
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


@kernel(types.boolean(PLAN_TABLES, MACHINE, MEMORY, OUTPUT, types.int64), counted=False)
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


@kernel(types.boolean(PLAN_TABLES, MACHINE, TABLE, types.int64, types.int64), counted=False)
def decided_holds(plan, machine, cells, place, end):
    """Whether the predicates that are decided at ``place`` hold, of those that mention no event behind ``end``."""
    for which in range(plan.positives[place, TEST], plan.positives[place, TEST_END]):
        if plan.predicates[which, HIGHEST] <= end and not predicate_holds(plan, which, machine, cells):
            return False
    return True


@kernel(types.boolean(PLAN_TABLES, MACHINE, MEMORY, types.int64, types.int64), counted=False)
def between_prevented(plan, machine, memory, place, end):
    """Whether a negated event between bound events already rules a partial match out that ends at ``end``, as decided at ``place``."""
    base = memory.state[BASE]
    for check in range(plan.positives[place, CHECK], plan.positives[place, CHECK_END]):
        if plan.checks[check, CHECK_KIND] == CHECK_MIDDLE and plan.checks[check, CHECK_HIGHEST] <= end:
            left = plan.checks[check, CHECK_PLACE]
            after = machine.bound[plan.positives[left, OF_ITEM]] + base
            right = machine.bound[plan.positives[left + 1, OF_ITEM]]
            newest = memory.links[right, 1 + plan.checks[check, CHECK_STACK]]
            if negated_event_exists(plan, machine, memory, check, newest, after, np.int64(NEVER), FOREVER):
                return True
    return False


@kernel(types.boolean(PLAN_TABLES, MACHINE, MEMORY, OUTPUT, types.int64), counted=False)
def expire(plan, machine, memory, output, first):
    """All partial matches that begin at ``first``, whose window is over: every prefix that is bound and not ruled out, to the timeouts.

    Walks back from every later event of the partition, so it costs what the construction of their matches would cost.
    False: no room, nothing appended.
    """
    links, state, positives = memory.links, memory.state, plan.positives
    base, last = state[BASE], plan.shape[POSITIVES] - 1
    first_row = first + base
    deadline = deadline_of(links[first, 0], plan.shape[WITHIN])
    bound, cursor, floor, chosen = machine.bound, machine.cursor, machine.floor, machine.chosen
    heads = KEY + len(plan.keys)
    slot = find_slot(memory.slots, plan.keys, memory.cells, first, hash_key(plan.keys, memory.cells, first), state[LOW])
    count, room = state[EXPIRED], len(output.expired_time)
    bound[positives[last, OF_ITEM]] = first  # what keys of negated events are compared with
    bound[positives[0, OF_ITEM]] = first
    for end in range(last):
        row = memory.slots[slot, heads + positives[end, STACK]] if slot >= 0 else np.int64(-1)
        if end == 0:
            row = first_row
        while row >= first_row:
            at = row - base
            following = links[at, 1 + positives[end, STACK]]
            place = end
            cursor[end] = row
            floor[end] = row
            if links[at, 0] >= deadline or (
                plan.shape[RESIDUAL] and not agree(plan.agreeing, memory.cells, at, first, plan.shape[STATES_AT])
            ):
                row = following
                continue
            while place <= end:
                candidate = cursor[place]
                if candidate < floor[place] or candidate < first_row:
                    place += 1
                    continue
                here = candidate - base
                cursor[place] = links[here, 1 + positives[place, STACK]]
                if place == 0 and candidate != first_row:
                    continue
                if plan.shape[RESIDUAL] and not agree(plan.agreeing, memory.cells, here, first, plan.shape[STATES_AT]):
                    continue
                bound[positives[place, OF_ITEM]] = here
                chosen[place] = here
                if not decided_holds(plan, machine, memory.cells, place, end) or between_prevented(plan, machine, memory, place, end):
                    continue
                if place > 0:
                    place -= 1
                    cursor[place] = links[here, 1 + positives[place, STACK]]
                    floor[place] = first_row
                    for k in range(positives[place, BARRIER], positives[place, BARRIER_END]):
                        floor[place] = max(floor[place], links[here, 1 + plan.barriers[k, 0]])
                    continue
                if count >= room:
                    return False
                for k in range(last + 1):
                    output.expired_rows[count, k] = chosen[k] if k <= end else -1
                output.expired_time[count] = deadline
                count += 1
            row = following
            if end == 0:
                break
    state[EXPIRED] = count
    return True


@kernel(types.boolean(PLAN_TABLES, MACHINE, MEMORY, OUTPUT, types.int64), counted=False)
def close_window(plan, machine, memory, output, first):
    """Decides all that waits for the end of the window that begins at ``first``. False: no room; the call may be repeated."""
    chain, expiry = plan.shape[CHAIN], plan.shape[EXPIRY]
    if chain >= 0 and memory.links[first, chain] >= 0 and not release(plan, machine, memory, output, first):
        return False
    if expiry >= 0 and memory.links[first, expiry] > 0:
        if not expire(plan, machine, memory, output, first):
            return False
        memory.links[first, expiry] = 0
    return True


@njit(inline="always")
def awaited(links, at, chain, expiry):
    """Whether something waits for the end of the window that begins at ``at``."""
    return (chain >= 0 and load(links, at, chain) >= 0) or (expiry >= 0 and load(links, at, expiry) > 0)


@kernel(types.boolean(PLAN_TABLES, MACHINE, MEMORY, OUTPUT, types.int64), counted=False)
def pass_time(plan, machine, memory, output, time):
    """Moves the oldest live row on, as all events before ``time`` have been processed; waiting matches of dying rows are released."""
    state, links = memory.state, memory.links
    within = plan.shape[WITHIN]
    if within < 0:
        return True
    bound_time = window_bound(time, within)
    chain, expiry = plan.shape[CHAIN], plan.shape[EXPIRY]
    low, rows, base = state[LOW], state[ROWS], state[BASE]
    while low < rows and links[low - base, 0] <= bound_time:
        if awaited(links, low - base, chain, expiry):
            state[LOW] = low
            if not close_window(plan, machine, memory, output, low - base):
                return False
        low += 1
    state[LOW] = low
    return True


@kernel(types.int64(PLAN_TABLES, MACHINE, MEMORY, OUTPUT, INTEGERS, INTEGERS, types.int64, types.int64), counted=False)
def pass_watermarks(plan, machine, memory, output, sources, watermarks, default, horizon):
    """As `pass_time`, where every source has its own watermark (at least ``default``, at most ``horizon`` counts).

    Rows die in order, so one of a slow source holds up the memory of those behind it, but never a release.
    """
    state, links = memory.state, memory.links
    within = plan.shape[WITHIN]
    if within < 0:
        return DONE
    chain, expiry = plan.shape[CHAIN], plan.shape[EXPIRY]
    rows, base = state[ROWS], state[BASE]
    dying = True
    for row in range(state[LOW], rows):
        at = row - base
        waits = awaited(links, at, chain, expiry)
        if not dying and not waits:
            continue
        watermark = default
        if len(sources) > 0:
            watermark = watermark_of(sources, watermarks, default, memory.cells[at, CELL_SOURCE])
        over = links[at, 0] <= window_bound(min(watermark, horizon), within)
        if over and waits and not close_window(plan, machine, memory, output, at):
            return OUTPUT_FULL
        dying = dying and over
        if dying:
            state[LOW] = row + 1
        elif expiry < 0 and state[PENDING_LIVE] == 0:
            break
    return DONE
