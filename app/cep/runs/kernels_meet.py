"""A run meets an event: it takes it, passes it, or ends."""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="assignment"

from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.kernels_memory import load
from app.cep.kernel import kernel
from app.cep.runs.arrays import (
    ACCEPTS,
    ANY,
    ASK_UNTIL,
    ASKS,
    ASKS_END,
    CLOSED,
    CONTIGUOUS,
    DIFFERENT,
    EDGE_ITEM,
    EDGES,
    EDGES_END,
    ELEMENT,
    ENTERED,
    ENTERS,
    EVENT_WINDOW,
    EXPANDED,
    FINAL,
    FRAME,
    ITEM_BINDING,
    LEFT,
    LIMIT_RUNS,
    LIMITED_RUNS,
    NEEDS_STATES,
    NEXT,
    NEXT_RUN,
    NODES,
    OPEN,
    P_RANK,
    PARTITION,
    S_COUNT,
    S_HEAD,
    S_RANK,
    STATE,
    STOPPED,
    STRICT,
    T_ASKS,
    T_BOUND,
    T_EDGES,
    T_ITEMS,
    T_KEYS,
    T_NODES,
    T_SHAPE,
    T_SLOTS,
    T_STATE,
    T_STATES,
    T_UNTILS,
    T_WAYS,
    TARGET,
    TESTS,
    TESTS_END,
    TIMEOUTS,
    UNTIL_ASKED,
    UNTIL_ITEM,
    UNTIL_PREDICATE,
    WINDOW_LOW,
    WITHOUT,
)
from app.cep.runs.kernels_bind import bind, cross, differs
from app.cep.runs.kernels_emit import accept
from app.cep.runs.kernels_plain import ASK, FAILS, plain_tests
from app.cep.runs.kernels_predicates import program_holds, tests_hold
from app.cep.runs.kernels_references import KNOWN, place_references
from app.cep.runs.kernels_world import WORLD, line, table


@kernel(types.int64(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def can_take(world, node, edge, mask, row, stream_rank, partition_rank):
    """The strategy of the way by which a run can take an event, or -1; the node is bound at the top then."""
    shape = line(world, T_SHAPE)
    items = table(world, T_ITEMS)
    ways = table(world, T_WAYS)
    states = table(world, T_STATES)
    edges = table(world, T_EDGES)
    nodes = table(world, T_NODES)
    state = line(world, T_STATE)
    item = load(edges, edge, EDGE_ITEM)
    if not mask >> item & 1:
        return -1
    binding = load(items, item, ITEM_BINDING)
    strategy = load(ways, binding, np.int64(load(nodes, node, shape[FRAME] + binding) >= 0))
    if strategy != ANY:
        if load(nodes, node, CLOSED) >> item & 1:
            return -1
        if strategy == STRICT and nodes[node, S_RANK] + 1 != stream_rank:
            return -1
        if strategy == PARTITION and nodes[node, P_RANK] + 1 != partition_rank:
            return -1
    if load(edges, edge, DIFFERENT) and not differs(world, node, item, edges[edge, DIFFERENT], row):
        return -1
    answer = plain_tests(world, load(edges, edge, TESTS), load(edges, edge, TESTS_END), node, binding, row)
    if answer == FAILS:
        return -1
    bind(world, node, item, row, stream_rank, partition_rank, 0, 0)
    opened = states[edges[edge, TARGET], OPEN]
    top = state[NODES]
    if answer == ASK and not tests_hold(world, edges[edge, TESTS], edges[edge, TESTS_END], top, opened):
        return -1
    return strategy


@kernel(types.void(WORLD, types.int64, types.int64, types.int64), counted=False)
def take(world, slot, edge, parent):
    """Makes the node at the top a run of its partition: negations, its state, a match if one ends here."""
    shape = line(world, T_SHAPE)
    states = table(world, T_STATES)
    edges = table(world, T_EDGES)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    state = line(world, T_STATE)
    top = state[NODES]
    if not cross(world, slot, edge, parent, top):
        return
    target = edges[edge, TARGET]
    nodes[top, STATE] = target
    nodes[top, ENTERED] = edges[edge, ENTERS]
    nodes[top, WINDOW_LOW] = max(nodes[top, WINDOW_LOW], state[EVENT_WINDOW])
    accepts = states[target, ACCEPTS] != 0
    # what can bind nothing more is no run, unless it has to time out
    final = states[target, FINAL] != 0 and (accepts or not shape[TIMEOUTS])
    base = 1 + len(keys)
    if not final and slots[slot, base + S_COUNT] >= shape[LIMIT_RUNS]:
        state[LIMITED_RUNS] += 1
        final = True
        if not accepts:
            return
    state[NODES] = top + 1
    if accepts:
        accept(world, slot, top)
    if final:
        nodes[top, STATE] = LEFT - target
    else:
        nodes[top, NEXT_RUN] = slots[slot, base + S_HEAD]
        slots[slot, base + S_HEAD] = top
        slots[slot, base + S_COUNT] += 1
        if not states[target, EXPANDED]:
            state[NEEDS_STATES] = 1


@kernel(types.void(WORLD, types.int64), counted=False)
def close_ways(world, node):
    """A run passes an event that it could take: of its ways only the skip-till-any ones stay open, for good."""
    shape = line(world, T_SHAPE)
    items = table(world, T_ITEMS)
    ways = table(world, T_WAYS)
    states = table(world, T_STATES)
    edges = table(world, T_EDGES)
    nodes = table(world, T_NODES)
    state = nodes[node, STATE]
    for edge in range(states[state, EDGES], states[state, EDGES_END]):
        item = edges[edge, EDGE_ITEM]
        binding = items[item, ITEM_BINDING]
        if ways[binding, 1 if nodes[node, shape[FRAME] + binding] >= 0 else 0] != ANY:
            nodes[node, CLOSED] |= np.int64(1) << item


@kernel(types.boolean(WORLD, types.int64, types.int64), counted=False)
def has_way(world, node, partition_too):
    """Whether a run has a way that is not contiguous, nor closed; or one that is contiguous in its partition."""
    shape = line(world, T_SHAPE)
    items = table(world, T_ITEMS)
    ways = table(world, T_WAYS)
    states = table(world, T_STATES)
    edges = table(world, T_EDGES)
    nodes = table(world, T_NODES)
    state = nodes[node, STATE]
    for edge in range(states[state, EDGES], states[state, EDGES_END]):
        item = edges[edge, EDGE_ITEM]
        binding = items[item, ITEM_BINDING]
        strategy = ways[binding, 1 if nodes[node, shape[FRAME] + binding] >= 0 else 0]
        if strategy == ANY or ((strategy == NEXT or (strategy == PARTITION and partition_too)) and not nodes[node, CLOSED] >> item & 1):
            return True
    return False


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def passes(world, node, mask, row, stream_rank, partition_rank):
    """Whether a run that could take an event may also pass it, leaving out groups that the event enters; its state is changed then."""
    states = table(world, T_STATES)
    edges = table(world, T_EDGES)
    nodes = table(world, T_NODES)
    while True:
        left_out = np.int64(-2)
        state = nodes[node, STATE]
        for edge in range(states[state, EDGES], states[state, EDGES_END]):
            if left_out < 0 and can_take(world, node, edge, mask, row, stream_rank, partition_rank) == NEXT:
                left_out = edges[edge, WITHOUT]
        if left_out == -2:
            return True
        if left_out == -1:
            # no group is left that the event enters, but it could be taken
            close_ways(world, node)
            return has_way(world, node, 0)
        nodes[node, STATE] = left_out


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def stops(world, node, ask, row, stream_rank, partition_rank):
    """Whether the event satisfies the predicate of an UNTIL, asked as if it were the closure's next element."""
    bound = line(world, T_BOUND)
    asks = table(world, T_ASKS)
    untils = table(world, T_UNTILS)
    nodes = table(world, T_NODES)
    state = line(world, T_STATE)
    until = asks[ask, ASK_UNTIL]
    bind(world, node, untils[until, UNTIL_ITEM], row, stream_rank, partition_rank, 0, 0)
    top = state[NODES]
    predicate = untils[until, UNTIL_PREDICATE]
    bound[0] = row
    answer = place_references(world, predicate, top, nodes[top, ELEMENT], 0)
    return answer == KNOWN and program_holds(world, predicate)


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def meet_stopped(world, slot, node, mask, row, stream_rank, partition_rank):
    """As `meet`, after the UNTILs."""
    shape = line(world, T_SHAPE)
    states = table(world, T_STATES)
    edges = table(world, T_EDGES)
    nodes = table(world, T_NODES)
    own = nodes[node, STATE]
    bound_to, entered = False, False
    for edge in range(states[own, EDGES], states[own, EDGES_END]):
        strategy = can_take(world, node, edge, mask, row, stream_rank, partition_rank)
        if strategy < 0:
            continue
        bound_to |= strategy == NEXT and edges[edge, WITHOUT] < 0
        entered |= strategy == NEXT and edges[edge, WITHOUT] >= 0
        take(world, slot, edge, node)
    if states[own, FINAL]:
        return shape[TIMEOUTS] != 0
    if entered:
        return passes(world, node, mask, row, stream_rank, partition_rank)
    if bound_to:
        # no group to leave out: the usual case, which need not ask again
        close_ways(world, node)
        return has_way(world, node, 0)
    return not shape[CONTIGUOUS] or has_way(world, node, 0)


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def meet(world, slot, node, mask, row, stream_rank, partition_rank):
    """A run meets an event of its partition; returns whether it goes on as the run it was. Children are linked before it."""
    shape = line(world, T_SHAPE)
    states = table(world, T_STATES)
    asks = table(world, T_ASKS)
    untils = table(world, T_UNTILS)
    nodes = table(world, T_NODES)
    # contiguity ends a run at this event if all its ways are contiguous, whatever an UNTIL says of them
    contiguous = shape[CONTIGUOUS] != 0 and not states[nodes[node, STATE], FINAL] and not has_way(world, node, 0)
    # every stop takes one UNTIL out of the state, or out of one of the rests that it may be; the bound is for readers
    for _ in range(len(asks) + 1):
        stopped = False
        own = nodes[node, STATE]
        for ask in range(states[own, ASKS], states[own, ASKS_END]):
            asked = untils[asks[ask, ASK_UNTIL], UNTIL_ASKED]
            if mask >> asked & 1 and stops(world, node, ask, row, stream_rank, partition_rank):
                if asks[ask, STOPPED] < 0:
                    return False
                nodes[node, STATE] = asks[ask, STOPPED]
                stopped = True
                break
        if not stopped:
            break
    return meet_stopped(world, slot, node, mask, row, stream_rank, partition_rank) and not contiguous
