"""The runs of a partition meet an event: each goes on along every way that it can, and passes the event where its strategies allow it."""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="assignment"
# ruff: noqa: PLR1714  numba compiles no tuples of constants
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import NEWEST, OUTSIDE
from app.cep.cells.kernels_memory import load, store
from app.cep.cells.kernels_types import CANDIDATES, INTEGERS
from app.cep.kernel import kernel
from app.cep.partitions.kernels_slots import find_slot
from app.cep.predicates.kernels_machine import cell_state
from app.cep.predicates.opcodes import CELL_OFFSET, CELL_SOURCE, CELL_TIME
from app.cep.runs.arrays import (
    ACCEPTS,
    ALLOWED,
    ANY,
    ASK_UNTIL,
    ASKED_MASK,
    ASKS,
    ASKS_END,
    BESIDE,
    BESIDE_ALL,
    BESIDE_END,
    BESIDE_ITEMS,
    C_LOWER,
    C_NEGATION,
    C_OLDER,
    C_UPPER,
    CLOSED,
    CONTIGUOUS,
    COUNT_WINDOW,
    CROSS_NEGATION,
    CROSS_NOW,
    CROSSED,
    CROSSES,
    CROSSES_END,
    CROSSINGS,
    DIFFERENT,
    DONE,
    EDGE_ITEM,
    EDGES,
    EDGES_END,
    ELEMENT,
    END_OF_TIME,
    ENDING,
    ENDING_END,
    ENDS,
    ENDS_END,
    ENTERED,
    ENTERS,
    EVENT_WINDOW,
    EXPANDED,
    EXPIRED,
    F_NODE,
    F_TIME,
    F_WINDOW,
    FINAL,
    FIRST_P_RANK,
    FIRST_ROW,
    FIRST_TIME,
    FIXED_AT,
    FIXED_BINDING,
    FIXED_NUMBER,
    FLAGS,
    FOLLOWED,
    FRAME,
    GAP,
    HASH,
    ITEM,
    ITEM_BINDING,
    ITEM_DIFFERENT,
    ITEM_LABEL,
    ITEM_LIST,
    ITEM_WILD,
    LAST_TIME,
    LEFT,
    LIMIT_MATCHES,
    LIMIT_RUNS,
    LIMITED_MATCHES,
    LIMITED_RUNS,
    LISTS,
    MATCHED,
    MATCHES,
    N_PRANK,
    N_ROW,
    N_SRANK,
    NEEDED,
    NEEDS_STATES,
    NEGATED,
    NEGATED_MASK,
    NEXT,
    NEXT_RUN,
    NO_WINDOW,
    NODE_WIDTH,
    NODES,
    NODES_FULL,
    O_END,
    O_RANK,
    O_ROW,
    O_TIME,
    OCCUPIED,
    OLDER,
    OPEN,
    OPENED_COUNT,
    OPENED_TIME,
    OPENER,
    P_RANK,
    PARENT,
    PARTITION,
    PARTITION_WINDOW,
    POSITIVE_MASK,
    PREVIOUS,
    RANKS,
    REGISTERS,
    ROW,
    ROWS,
    S_COUNT,
    S_HEAD,
    S_LISTS,
    S_PRANK,
    S_RANK,
    S_TIME,
    SLOTS_FULL,
    START_STATE,
    STATE,
    STATES_AT,
    STATES_MISSING,
    STOPPED,
    STOPPED_END,
    STREAM_RANK,
    STRICT,
    T_ASKS,
    T_BESIDE,
    T_BOUND,
    T_CELLS,
    T_CROSSED,
    T_CROSSES,
    T_EDGES,
    T_EXPIRED,
    T_FIXED,
    T_FOUND,
    T_ITEMS,
    T_KEYS,
    T_NEGATED,
    T_NEGATIONS,
    T_NODES,
    T_SHAPE,
    T_SLOTS,
    T_STATE,
    T_STATES,
    T_STOPPED,
    T_UNTILS,
    T_WAITING,
    T_WAYS,
    T_WINDOWS,
    TARGET,
    TESTS,
    TESTS_END,
    TIME_WINDOW,
    TIMEOUTS,
    UNKNOWN_END,
    UNTIL_ASKED,
    UNTIL_ITEM,
    UNTIL_PREDICATE,
    W_END,
    W_LEAST,
    W_NODE,
    W_RANK,
    W_STATE,
    W_WINDOW,
    WAITS,
    WILD_HEADS,
    WINDOW_BASE,
    WINDOW_FIRST_OPEN,
    WINDOW_HIGH,
    WINDOW_KIND,
    WINDOW_LOW,
    WINDOW_SIZE,
    WINDOW_SLIDE,
    WINDOWS,
    WITHIN,
    WITHIN_EVENTS,
    WITHOUT,
)
from app.cep.runs.kernels_plain import ASK, FAILS, plain_tests
from app.cep.runs.kernels_tests import (
    BEFORE_TIME,
    KNOWN,
    LAST_RANK,
    already_prevented,
    anywhere,
    crossings_prevent,
    end_of_for,
    end_scope,
    fill_registers,
    place_references,
    prevented,
    program_holds,
    tests_hold,
)
from app.cep.runs.kernels_world import WORLD, line, table

_NEVER = np.int64(-(2**63))
_FOREVER = np.int64(2**63 - 1)


@kernel(types.void(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def bind(world, parent, item, row, stream_rank, partition_rank, window_low, window_high):
    """Writes the node at the top: ``row`` bound to ``item`` after ``parent`` (-1: the first). It counts once the top is moved on."""
    shape = line(world, T_SHAPE)
    items = table(world, T_ITEMS)
    fixed = table(world, T_FIXED)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    state = line(world, T_STATE)
    node = state[NODES]
    frame, registers, width = shape[FRAME], shape[REGISTERS], shape[NODE_WIDTH]
    binding = items[item, ITEM_BINDING]
    time = cells[row, CELL_TIME]
    if parent >= 0:
        for k in range(FIRST_TIME, registers):
            store(nodes, node, k, load(nodes, parent, k))
        nodes[node, FLAGS] = 0
    else:
        for k in range(frame, registers):
            nodes[node, k] = -1
        nodes[node, FIRST_TIME], nodes[node, FIRST_ROW], nodes[node, FIRST_P_RANK] = time, row, partition_rank
        nodes[node, FLAGS], nodes[node, HASH], nodes[node, CROSSED], nodes[node, CLOSED] = 0, 1, -1, 0
        nodes[node, WINDOW_LOW], nodes[node, WINDOW_HIGH] = window_low, window_high
    nodes[node, NEXT_RUN], nodes[node, FOLLOWED], nodes[node, ENTERED] = -1, _FOREVER, 0
    nodes[node, PARENT], nodes[node, ROW], nodes[node, ITEM] = parent, row, item
    nodes[node, S_RANK], nodes[node, P_RANK] = stream_rank, partition_rank
    previous = nodes[node, frame + binding]
    nodes[node, PREVIOUS] = previous
    nodes[node, ELEMENT] = nodes[previous, ELEMENT] + 1 if previous >= 0 else 1
    nodes[node, frame + binding] = node
    for k in range(len(fixed)):
        if fixed[k, FIXED_BINDING] == binding and fixed[k, FIXED_NUMBER] == nodes[node, ELEMENT]:
            nodes[node, fixed[k, FIXED_AT]] = node
    h = types.uint64(nodes[node, HASH])
    h = (h ^ types.uint64(items[item, ITEM_LABEL] + 1)) * types.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> types.uint64(29)) ^ types.uint64(cells[row, CELL_SOURCE] + 1)) * types.uint64(0xD6E8FEB86659FD93)
    h = (h ^ (h >> types.uint64(32)) ^ types.uint64(cells[row, CELL_OFFSET] + 1)) * types.uint64(0x9E3779B97F4A7C15)
    nodes[node, HASH] = np.int64(h ^ (h >> types.uint64(29)))
    if registers < width:
        fill_registers(world, node, binding)


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64), counted=False)
def differs(world, node, item, count, row):
    """Whether an event differs from the ``count`` elements bound last, in the cell that the block asks (a null one differs from nothing)."""
    shape = line(world, T_SHAPE)
    items = table(world, T_ITEMS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    states_at = shape[STATES_AT]
    cell = items[item, ITEM_DIFFERENT]
    element = nodes[node, shape[FRAME] + items[item, ITEM_BINDING]]
    own = cell_state(cells, row, cell, states_at)
    for _ in range(count):
        other = nodes[element, ROW]
        state = cell_state(cells, other, cell, states_at)
        if own != 2 and state != 2 and (own == 1 or state == 1 or cells[row, cell] == cells[other, cell]):
            return False
        element = nodes[element, PREVIOUS]
    return True


@kernel(types.int64(WORLD, types.int64, types.int64))
def bound_before(world, node, cross):
    """The last node before a negation: events of other operands of an AND around it do not count."""
    crosses = table(world, T_CROSSES)
    beside = table(world, T_BESIDE)
    nodes = table(world, T_NODES)
    first, stop = crosses[cross, BESIDE], crosses[cross, BESIDE_END]
    if first == stop:
        return node
    over = np.zeros(stop - first, np.bool_)
    while node >= 0:
        skip = False
        for k in range(first, stop):
            skip |= not over[k - first] and (beside[k, BESIDE_ITEMS] >> nodes[node, ITEM]) & 1 != 0
        if not skip:
            return node
        for k in range(first, stop):
            over[k - first] |= (nodes[node, ENTERED] >> beside[k, BESIDE_ALL]) & 1 != 0
        node = nodes[node, PARENT]
    return node


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64))
def cross(world, slot, edge, parent, node):
    """Negations that end with the event of a new node: decided now where they can be (False: prevented), else noted."""
    edges = table(world, T_EDGES)
    crosses = table(world, T_CROSSES)
    nodes = table(world, T_NODES)
    crossed = table(world, T_CROSSED)
    state = line(world, T_STATE)
    for k in range(edges[edge, CROSSES], edges[edge, CROSSES_END]):
        lower = bound_before(world, parent, k)
        upper = nodes[node, ROW]
        negation = crosses[k, CROSS_NEGATION]
        if lower >= 0 and crosses[k, CROSS_NOW]:
            if prevented(world, slot, negation, node, lower, upper, anywhere(), 0):
                return False
            continue
        top = state[CROSSINGS]
        crossed[top, C_OLDER] = nodes[node, CROSSED]
        crossed[top, C_NEGATION], crossed[top, C_LOWER], crossed[top, C_UPPER] = negation, lower, upper
        nodes[node, CROSSED] = top
        state[CROSSINGS] = top + 1
    return True


@kernel(types.int64(WORLD, types.int64, types.int64, types.int64), counted=False)
def window_end(world, node, window, waits):
    """When a match's or run's window ends, in ms; UNKNOWN_END where an event that is still to come says so, 2**63 - 1 for never."""
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    kind = shape[WINDOW_KIND]
    end = _FOREVER
    if kind == TIME_WINDOW:
        end = window * shape[WINDOW_SLIDE] + shape[WINDOW_SIZE]
    elif kind == OPENED_TIME:
        end = windows[window - state[WINDOW_BASE], O_TIME] + shape[WINDOW_SIZE]
    elif kind == COUNT_WINDOW or kind == OPENED_COUNT:
        end = windows[window - state[WINDOW_BASE], O_END]
    elif kind == PARTITION_WINDOW or shape[WITHIN_EVENTS] >= 0:
        end = UNKNOWN_END
    elif shape[WITHIN] >= 0:
        end = nodes[node, FIRST_TIME] + shape[WITHIN]
    if not waits and shape[GAP] >= 0:
        gap = cells[nodes[node, ROW], CELL_TIME] + shape[GAP]
        end = gap if end == UNKNOWN_END else min(end, gap)
    return end


@kernel(types.void(WORLD, types.int64, types.int64, types.int64), counted=False)
def emit(world, node, time, window):
    """Writes a match to the output."""
    state = line(world, T_STATE)
    found = table(world, T_FOUND)
    at = state[MATCHES]
    found[at, F_NODE], found[at, F_TIME], found[at, F_WINDOW] = node, time, window
    state[MATCHES] = at + 1


@kernel(types.void(WORLD, types.int64, types.int64, types.int64), counted=False)
def emit_timeout(world, node, time, window):
    """Writes a partial match that timed out."""
    state = line(world, T_STATE)
    expired = table(world, T_EXPIRED)
    at = state[EXPIRED]
    expired[at, F_NODE], expired[at, F_TIME], expired[at, F_WINDOW] = node, time, window
    state[EXPIRED] = at + 1


@kernel(types.void(WORLD, types.int64, types.int64), counted=False)
def accept(world, slot, node):
    """A match may end with this node: emits it, or lets it wait for a negated end."""
    shape = line(world, T_SHAPE)
    states = table(world, T_STATES)
    crosses = table(world, T_CROSSES)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    waiting = table(world, T_WAITING)
    state_table = line(world, T_STATE)
    state = nodes[node, STATE]
    if not tests_hold(world, states[state, ENDING], states[state, ENDING_END], node, 0):
        return
    nodes[node, FLAGS] |= MATCHED
    ends, ends_end = states[state, ENDS], states[state, ENDS_END]
    low, high = (nodes[node, WINDOW_LOW], nodes[node, WINDOW_HIGH]) if shape[WINDOW_KIND] != NO_WINDOW else (0, 0)
    time = cells[nodes[node, ROW], CELL_TIME]
    for window in range(low, high + 1):
        if nodes[node, CROSSED] >= 0 and crossings_prevent(world, slot, node, window):
            continue
        if state_table[ALLOWED] == 0:
            state_table[LIMITED_MATCHES] += 1
            continue
        state_table[ALLOWED] -= 1
        if ends == ends_end:
            emit(world, node, time, window)
            continue
        top = state_table[WAITS]
        end, least = np.int64(-1), np.int64(-1)
        for k in range(ends, ends_end):
            lasting = end_of_for(world, crosses[k, CROSS_NEGATION], node)
            if lasting >= 0:
                least = max(least, lasting)
            else:
                end = window_end(world, node, window, 1)
        if end != UNKNOWN_END:
            end = max(end, least)
        waiting[top, W_NODE], waiting[top, W_END], waiting[top, W_WINDOW], waiting[top, W_LEAST] = node, end, window, least
        waiting[top, W_RANK], waiting[top, W_STATE] = _FOREVER, state
        state_table[WAITS] = top + 1


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64))
def ends_hold(world, slot, node, window, state, decided):
    """Whether no negation at the end prevents a match that waited until its time. ``state``, ``decided``: W_STATE and W_RANK."""
    states = table(world, T_STATES)
    crosses = table(world, T_CROSSES)
    for k in range(states[state, ENDS], states[state, ENDS_END]):
        negation = crosses[k, CROSS_NEGATION]
        scope = end_scope(world, node, window)
        scope[LAST_RANK] = decided
        lasting = end_of_for(world, negation, node)
        if lasting >= 0:
            scope = anywhere()
            scope[BEFORE_TIME] = lasting
        if prevented(world, slot, negation, node, bound_before(world, node, k), _FOREVER, scope, 0):
            return False
    return True


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
    stopped_table = table(world, T_STOPPED)
    untils = table(world, T_UNTILS)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    state = line(world, T_STATE)
    # contiguity ends a run at this event if all its ways are contiguous, whatever an UNTIL says of them
    contiguous = shape[CONTIGUOUS] != 0 and not states[nodes[node, STATE], FINAL] and not has_way(world, node, 0)
    # every stop takes one UNTIL out of the state; the bound is for readers
    for _ in range(len(untils) + 1):
        stopped = False
        own = nodes[node, STATE]
        for ask in range(states[own, ASKS], states[own, ASKS_END]):
            asked = untils[asks[ask, ASK_UNTIL], UNTIL_ASKED]
            if not mask >> asked & 1 or not stops(world, node, ask, row, stream_rank, partition_rank):
                continue
            first, stop = asks[ask, STOPPED], asks[ask, STOPPED_END]
            if first == stop:
                return False
            for k in range(first + 1, stop):
                fork = state[NODES]
                for column in range(shape[NODE_WIDTH]):
                    nodes[fork, column] = nodes[node, column]
                nodes[fork, STATE] = stopped_table[k, 0]
                state[NODES] = fork + 1
                if meet_stopped(world, slot, fork, mask, row, stream_rank, partition_rank) and not contiguous:
                    base = 1 + len(keys)
                    nodes[fork, NEXT_RUN] = slots[slot, base + S_HEAD]
                    slots[slot, base + S_HEAD] = fork
                    slots[slot, base + S_COUNT] += 1
            nodes[node, STATE] = stopped_table[first, 0]
            stopped = True
            break
        if not stopped:
            break
    return meet_stopped(world, slot, node, mask, row, stream_rank, partition_rank) and not contiguous


@kernel(types.void(WORLD, types.int64, types.int64, types.int64, types.int64), counted=False)
def expire(world, slot, node, upto, rank_end):
    """A run's windows close: all before window ``upto`` (without explicit windows: the run's). It times out in each, unless it has matched.

    ``rank_end``: the time at which ranks closed it, or UNKNOWN_END.
    """
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    if not shape[TIMEOUTS] or nodes[node, FLAGS] & MATCHED:
        return
    states = table(world, T_STATES)
    cells = table(world, T_CELLS)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    if nodes[node, CROSSED] >= 0 and already_prevented(world, slot, node):
        return
    explicit = shape[WINDOW_KIND] != NO_WINDOW
    low = nodes[node, WINDOW_LOW] if explicit else 0
    high = min(nodes[node, WINDOW_HIGH] + 1, upto) if explicit else 1
    # without any way it was no contiguity that ended it, but an UNTIL
    lasting = not shape[CONTIGUOUS] or states[nodes[node, STATE], FINAL] != 0 or has_way(world, node, 1)
    counted = shape[WINDOW_KIND] == COUNT_WINDOW or shape[WINDOW_KIND] == OPENED_COUNT
    followed = nodes[node, FOLLOWED]
    gap_over = shape[GAP] >= 0 and followed >= cells[nodes[node, ROW], CELL_TIME] + shape[GAP]
    for window in range(low, high):
        end = rank_end if rank_end != UNKNOWN_END else window_end(world, node, window, 0)
        # ended by the next event of the stream, if that came before the window closed
        if counted:
            over = gap_over or nodes[node, S_RANK] + 1 >= windows[window - state[WINDOW_BASE], O_RANK] + shape[WINDOW_SIZE]
        else:
            over = rank_end == UNKNOWN_END and followed >= end
        if lasting or followed == _FOREVER or over:
            emit_timeout(world, node, end, window)


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def outlived(world, slot, node, time, partition_rank, first_open):
    """Whether a run's window has closed before an event; windows that have closed are timed out and left behind."""
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    if shape[WINDOW_KIND] != NO_WINDOW and first_open > nodes[node, WINDOW_LOW]:
        expire(world, slot, node, first_open, UNKNOWN_END)
        nodes[node, WINDOW_LOW] = first_open
        if first_open > nodes[node, WINDOW_HIGH]:
            return True
    if shape[WITHIN_EVENTS] >= 0 and partition_rank - nodes[node, FIRST_P_RANK] >= shape[WITHIN_EVENTS]:
        return True
    over = shape[WITHIN] >= 0 and time - nodes[node, FIRST_TIME] >= shape[WITHIN]
    over |= shape[GAP] >= 0 and time - cells[nodes[node, ROW], CELL_TIME] >= shape[GAP]
    if over:
        expire(world, slot, node, _FOREVER, UNKNOWN_END)
    return over


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64), counted=False)
def closed_by_rank(world, slot, node, time, partition_rank):
    """Whether the event just met was the last one of a run's window in events of its partition; it times out then, at the event's time."""
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    if shape[WITHIN_EVENTS] >= 0:
        if partition_rank - nodes[node, FIRST_P_RANK] != shape[WITHIN_EVENTS] - 1:
            return False
        expire(world, slot, node, 0, time)
        return True
    if shape[WINDOW_KIND] != PARTITION_WINDOW:
        return False
    first_open = (partition_rank + 1 - shape[WINDOW_SIZE]) // shape[WINDOW_SLIDE] + 1
    if first_open > nodes[node, WINDOW_LOW]:
        expire(world, slot, node, first_open, time)
        nodes[node, WINDOW_LOW] = first_open
    return nodes[node, WINDOW_LOW] > nodes[node, WINDOW_HIGH]


@kernel(types.void(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def begin(world, slot, start, mask, row, stream_rank, partition_rank, window_high):
    """Starts the runs that an event can begin from a state. A leading closure's UNTIL is asked from the first event on."""
    states = table(world, T_STATES)
    edges = table(world, T_EDGES)
    asks = table(world, T_ASKS)
    stopped = table(world, T_STOPPED)
    untils = table(world, T_UNTILS)
    state = line(world, T_STATE)
    for ask in range(states[start, ASKS], states[start, ASKS_END]):
        asked = untils[asks[ask, ASK_UNTIL], UNTIL_ASKED]
        if mask >> asked & 1 and stops(world, np.int64(-1), ask, row, stream_rank, partition_rank):
            for k in range(asks[ask, STOPPED], asks[ask, STOPPED_END]):
                if stopped[k, 0] != start:
                    begin(world, slot, stopped[k, 0], mask, row, stream_rank, partition_rank, window_high)
            return
    for edge in range(states[start, EDGES], states[start, EDGES_END]):
        item = edges[edge, EDGE_ITEM]
        if not mask >> item & 1:
            continue
        bind(world, -1, item, row, stream_rank, partition_rank, state[EVENT_WINDOW], window_high)
        opened = states[edges[edge, TARGET], OPEN]
        if tests_hold(world, edges[edge, TESTS], edges[edge, TESTS_END], state[NODES], opened):
            take(world, slot, edge, -1)


@kernel(types.void(WORLD, types.int64), counted=False)
def share_matches(world, first):
    """Runs made by one event that bind the same as one that has matched have matched too: they do not time out."""
    nodes = table(world, T_NODES)
    state = line(world, T_STATE)
    for node in range(first, state[NODES]):
        if nodes[node, FLAGS] & MATCHED:
            for other in range(first, state[NODES]):
                if nodes[other, HASH] == nodes[node, HASH]:
                    nodes[other, FLAGS] |= MATCHED


@kernel(types.void(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def meet_all(world, slot, mask, row, time, stream_rank, partition_rank, window_high):
    """All runs of a partition meet an event, then it starts new ones."""
    shape = line(world, T_SHAPE)
    states = table(world, T_STATES)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    state = line(world, T_STATE)
    base = 1 + len(keys)
    node = slots[slot, base + S_HEAD]
    slots[slot, base + S_HEAD] = -1
    first, last = np.int64(-1), np.int64(-1)
    low = state[EVENT_WINDOW]
    by_rank = shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW
    within = shape[WITHIN]
    timed = within >= 0 and shape[GAP] < 0 and shape[WINDOW_KIND] == NO_WINDOW and not by_rank
    before = state[NODES]
    while node >= 0:
        following = nodes[node, NEXT_RUN]
        # the usual run needs neither call: it is in its window, and nothing ends a closure of it
        alive = (timed and time - load(nodes, node, FIRST_TIME) < within) or not outlived(world, slot, node, time, partition_rank, low)
        if alive:
            own = load(nodes, node, STATE)
            if load(states, own, ASKS) == load(states, own, ASKS_END):
                alive = meet_stopped(world, slot, node, mask, row, stream_rank, partition_rank)
            else:
                alive = meet(world, slot, node, mask, row, stream_rank, partition_rank)
            if alive and by_rank:
                alive = not closed_by_rank(world, slot, node, time, partition_rank)
        if alive:
            if last >= 0:
                nodes[last, NEXT_RUN] = node
            else:
                first = node
            last = node
        else:
            slots[slot, base + S_COUNT] -= 1
            nodes[node, STATE] = LEFT - nodes[node, STATE]
        node = following
    start = shape[START_STATE]
    if mask & shape[POSITIVE_MASK] and window_high >= low:
        begin(world, slot, start, mask, row, stream_rank, partition_rank, window_high)
    if shape[TIMEOUTS]:
        share_matches(world, before)
    if by_rank:
        # new runs of a window of one event
        node = slots[slot, base + S_HEAD]
        kept = np.int64(-1)
        while node >= 0:
            following = nodes[node, NEXT_RUN]
            if closed_by_rank(world, slot, node, time, partition_rank):
                slots[slot, base + S_COUNT] -= 1
                nodes[node, STATE] = LEFT - nodes[node, STATE]
                if kept >= 0:
                    nodes[kept, NEXT_RUN] = following
                else:
                    slots[slot, base + S_HEAD] = following
            else:
                kept = node
            node = following
    if last >= 0:
        nodes[last, NEXT_RUN] = slots[slot, base + S_HEAD]
        slots[slot, base + S_HEAD] = first


@kernel(types.void(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def note_negated(world, slot, mask, row, stream_rank, partition_rank):
    """Puts an event on the lists of the negated items that it can be: its partition's, or (slot -1) those outside partitions."""
    shape = line(world, T_SHAPE)
    items = table(world, T_ITEMS)
    keys = line(world, T_KEYS)
    slots = table(world, T_SLOTS)
    negated = table(world, T_NEGATED)
    state = line(world, T_STATE)
    for item in range(len(items)):
        if not (shape[NEGATED_MASK] & mask) >> item & 1:
            continue
        top = state[NEGATED]
        negated[top, N_ROW], negated[top, N_SRANK], negated[top, N_PRANK] = row, stream_rank, partition_rank
        if slot >= 0:
            column = 1 + len(keys) + S_LISTS + items[item, ITEM_LIST]
            negated[top, OLDER] = slots[slot, column]
            slots[slot, column] = top
        else:
            head = WILD_HEADS + items[item, ITEM_WILD]
            negated[top, OLDER] = state[head]
            state[head] = top
        state[NEGATED] = top + 1


@kernel(types.int64(WORLD, types.int64, types.int64, types.int64, types.int64), counted=False)
def open_windows(world, mask, row, time, stream_rank):
    """Windows that an event opens, and the first that is still open at it (into the state); returns the last one that it lies in."""
    shape = line(world, T_SHAPE)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    kind, size, slide = shape[WINDOW_KIND], shape[WINDOW_SIZE], shape[WINDOW_SLIDE]
    state[EVENT_WINDOW] = 0
    if kind == TIME_WINDOW:
        state[EVENT_WINDOW] = (time - size) // slide + 1
        return time // slide
    if kind == COUNT_WINDOW:
        opens = stream_rank % slide == 0
    elif kind == OPENED_TIME or kind == OPENED_COUNT:
        opens = (mask >> shape[OPENER]) & 1 != 0
    else:
        return 0
    if opens:
        at = state[WINDOWS] - state[WINDOW_BASE]
        windows[at, O_ROW], windows[at, O_RANK], windows[at, O_TIME], windows[at, O_END] = row, stream_rank, time, UNKNOWN_END
        state[WINDOWS] += 1
    if kind == OPENED_TIME:
        while state[WINDOW_FIRST_OPEN] < state[WINDOWS] and time - windows[state[WINDOW_FIRST_OPEN] - state[WINDOW_BASE], O_TIME] >= size:
            state[WINDOW_FIRST_OPEN] += 1
    state[EVENT_WINDOW] = state[WINDOW_FIRST_OPEN]
    return state[WINDOWS] - 1


@kernel(types.void(WORLD, types.int64, types.int64), counted=False)
def close_windows(world, time, stream_rank):
    """Count windows whose last event this was get their time."""
    shape = line(world, T_SHAPE)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    if shape[WINDOW_KIND] != COUNT_WINDOW and shape[WINDOW_KIND] != OPENED_COUNT:
        return
    while state[WINDOW_FIRST_OPEN] < state[WINDOWS]:
        at = state[WINDOW_FIRST_OPEN] - state[WINDOW_BASE]
        if stream_rank < windows[at, O_RANK] + shape[WINDOW_SIZE] - 1:
            return
        windows[at, O_END] = time
        state[WINDOW_FIRST_OPEN] += 1


@kernel(types.void(WORLD, types.int64[:, ::1], types.int64, types.int64, types.int64), counted=False)
def end_waiting(world, cells, k, time, partition_rank):
    """Matches that wait for the end of a window in events of this partition, whose last event this is, get their time."""
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    cells_table = table(world, T_CELLS)
    waiting = table(world, T_WAITING)
    state = line(world, T_STATE)
    for w in range(state[WAITS]):
        if waiting[w, W_END] != UNKNOWN_END:
            continue
        node = waiting[w, W_NODE]
        if shape[WITHIN_EVENTS] >= 0:
            last = nodes[node, FIRST_P_RANK] + shape[WITHIN_EVENTS] - 1
        else:
            last = waiting[w, W_WINDOW] * shape[WINDOW_SLIDE] + shape[WINDOW_SIZE] - 1
        same = partition_rank == last
        for j in range(len(keys)):
            same &= cells_table[nodes[node, ROW], keys[j]] == cells[k, keys[j]]
        if same:
            waiting[w, W_END] = max(time, waiting[w, W_LEAST])
            waiting[w, W_RANK] = state[STREAM_RANK] - 1


@kernel(types.int64(INTEGERS, INTEGERS, types.int64), counted=False)
def windows_of_event(shape, state, oldest):
    """In how many windows an event can lie at most; ``oldest``: the first one that counts, of those that events open."""
    if shape[WINDOW_KIND] == OPENED_TIME or shape[WINDOW_KIND] == OPENED_COUNT:
        return state[WINDOWS] - oldest + 1
    if shape[WINDOW_KIND] != NO_WINDOW:
        return shape[WINDOW_SIZE] // shape[WINDOW_SLIDE] + 1
    return 1


@kernel(types.boolean(WORLD, types.int64, types.int64), counted=False)
def has_room(world, slot, fan):
    """Whether the tables have room for whatever the next event of a partition can do; how much it needs stands in the state otherwise."""
    shape = line(world, T_SHAPE)
    negations = table(world, T_NEGATIONS)
    keys = line(world, T_KEYS)
    nodes_table = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    crossed = table(world, T_CROSSED)
    waiting = table(world, T_WAITING)
    state = line(world, T_STATE)
    found = table(world, T_FOUND)
    expired = table(world, T_EXPIRED)
    runs = slots[slot, 1 + len(keys) + S_COUNT] if slot >= 0 else 0
    windows = windows_of_event(shape, state, state[WINDOW_FIRST_OPEN])
    nodes = (runs + 1) * fan + 1
    needed = nodes * windows + runs * windows
    state[NEEDED] = needed
    return (
        state[NODES] + nodes < len(nodes_table)
        and state[CROSSINGS] + nodes * len(negations) < len(crossed)
        and state[WAITS] + nodes * windows < len(waiting)
        and state[MATCHES] + nodes * windows < len(found)
        and state[EXPIRED] + needed < len(expired)
    )


@kernel(types.UniTuple(types.int64, 2)(WORLD, CANDIDATES, types.int64, types.int64, types.int64), counted=False)
def advance(world, candidates, first, stop, fan):
    """Events ``first..stop`` of a chunk in processing order. Returns where it stopped, and why.

    The caller makes sure that rows, negated events and windows have room for the chunk.
    """
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    slots = table(world, T_SLOTS)
    state = line(world, T_STATE)
    base = 1 + len(keys)
    relevant = shape[POSITIVE_MASK] | shape[NEGATED_MASK] | shape[ASKED_MASK]
    for k in range(first, stop):
        mask, time = candidates.masks[k] & relevant, candidates.cells[k, CELL_TIME]
        opener = shape[OPENER] >= 0 and (candidates.masks[k] >> shape[OPENER]) & 1 != 0
        inside = candidates.hashes[k] != OUTSIDE and candidates.masks[k] != 0
        slot = np.int64(-1)
        if inside and (mask or shape[RANKS] == 1 or shape[CONTIGUOUS]):
            slot = find_slot(slots, keys, candidates.cells, k, candidates.hashes[k], -END_OF_TIME)
            if slot < 0 and (mask & (shape[POSITIVE_MASK] | shape[NEGATED_MASK]) or shape[WINDOW_KIND] == PARTITION_WINDOW):
                if 2 * (state[OCCUPIED] + 1) > len(slots):
                    return k, SLOTS_FULL
                slot = -1 - slot
                for j in range(len(keys)):
                    slots[slot, 1 + j] = candidates.cells[k, keys[j]]
                slots[slot, NEWEST] = 0
                slots[slot, base + S_HEAD] = -1
                slots[slot, base + S_COUNT] = slots[slot, base + S_PRANK] = 0
                for j in range(shape[LISTS]):
                    slots[slot, base + S_LISTS + j] = -1
                state[OCCUPIED] += 1
        if not has_room(world, slot, fan):
            return k, NODES_FULL
        if state[NEEDS_STATES]:
            return k, STATES_MISSING
        stream_rank = state[STREAM_RANK]
        state[STREAM_RANK] += 1
        state[LAST_TIME] = max(state[LAST_TIME], time)
        if shape[CONTIGUOUS] and shape[TIMEOUTS]:
            newest = state[NODES] - 1
            while newest >= 0 and nodes[newest, S_RANK] == stream_rank - 1:
                nodes[newest, FOLLOWED] = time
                newest -= 1
        row = state[ROWS]
        if mask or opener:
            for j in range(candidates.cells.shape[1]):
                cells[row, j] = candidates.cells[k, j]
            state[ROWS] += 1
        window_high = open_windows(world, candidates.masks[k], row, time, stream_rank)
        if slot >= 0:
            partition_rank = slots[slot, base + S_PRANK]
            slots[slot, base + S_PRANK] += 1
            slots[slot, base + S_TIME] = time
            if shape[WINDOW_KIND] == PARTITION_WINDOW:
                state[EVENT_WINDOW] = max(0, (partition_rank - shape[WINDOW_SIZE]) // shape[WINDOW_SLIDE] + 1)
                window_high = partition_rank // shape[WINDOW_SLIDE]
            if mask & shape[NEGATED_MASK]:
                note_negated(world, slot, mask, row, stream_rank, partition_rank)
            state[ALLOWED] = shape[LIMIT_MATCHES]
            if slots[slot, base + S_HEAD] >= 0 or mask & shape[POSITIVE_MASK]:
                meet_all(world, slot, mask, row, time, stream_rank, partition_rank, window_high)
            if shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW:
                end_waiting(world, candidates.cells, k, time, partition_rank)
        elif not inside and mask & shape[NEGATED_MASK]:
            note_negated(world, np.int64(-1), mask, row, stream_rank, np.int64(-1))
        close_windows(world, time, stream_rank)
    if state[NEEDS_STATES]:
        return stop, STATES_MISSING
    return stop, DONE
