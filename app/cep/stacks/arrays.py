"""The tables that the kernels of stacks share: a plan as integers, the memory of an engine, and the output.

Row numbers ("absolute rows") count stored events since the engine began; ``row - state[BASE]`` is the place in the arrays. Row order is
processing order, which inside a partition is the total order. A pointer below the oldest live row is dead: nothing is ever unlinked.

``links[place]`` is ``[time, top of every stack of the event's partition just before this event, (pending chain), (1: its timeouts are to come)]``. That one copy is at once
the predecessor in the own stack, SASE's RIP pointer into the previous item's stack, and the newest event of every negation: all that
sequence construction needs of an event lies in one cache line. An event that is a candidate of several items needs no second record,
and it cannot precede itself.
"""

from __future__ import annotations

from typing import NamedTuple

from app.cep.cells.arrays import Integers, Programs, Scratch, Texts

# shape[...]: numbers of the plan
POSITIVES, SLOT_STACKS, STACKS, WITHIN, STATES_AT, OPENING, WINDOW_PUSHDOWN, RESIDUAL, CHAIN = 0, 1, 2, 3, 4, 5, 6, 7, 8
START_BARRIERS, START_BARRIERS_END, END_BARRIERS, END_BARRIERS_END, END_CHECKS, END_CHECKS_END = 9, 10, 11, 12, 13, 14
EXPIRY = 15
"""CHAIN, EXPIRY: columns of links (-1: none)."""
SHAPE_SIZE = 16

# items[item, ...]
ITEM_PLACE, ITEM_STACK, ITEM_WILD_STACK, ITEM_NEEDS = 0, 1, 2, 3
"""Place among the positive items (-1: negated); its stack (-1: none); its stack for events outside partitions (-1: none);
the stack whose top must be live, or the item is not worth storing (-1: always)."""

# positives[place, ...]
OF_ITEM, STACK, BARRIER, BARRIER_END, TEST, TEST_END, CHECK, CHECK_END = 0, 1, 2, 3, 4, 5, 6, 7
"""Ranges of barriers of the gap before the next positive item, and of predicates and checks that are decided once this place is bound."""

# barriers[k, 0]: a stack whose newest event before an event bars everything older

# checks[k, ...]: negations that must look at each negated event
CHECK_KIND, CHECK_PLACE, CHECK_STACK, CHECK_ITEM, CHECK_RESIDUAL, CHECK_TEST, CHECK_TEST_END, CHECK_HIGHEST = 0, 1, 2, 3, 4, 5, 6, 7
CHECK_MIDDLE, CHECK_START, CHECK_AT_END = 0, 1, 2

# predicates[k, ...]
MODE, CODE, CODE_END, OPERATOR, LEFT_ITEM, LEFT_CELL, RIGHT_ITEM, RIGHT_CELL, CONSTANT, HIGHEST = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
"""MODE: how to evaluate (`app.cep.predicates.opcodes`). HIGHEST: the greatest place of an event that it mentions; so for checks."""

COLUMNS = {
    "items": ("place", "stack", "wild_stack", "needs"),
    "positives": ("item", "stack", "barrier", "barrier_end", "test", "test_end", "check", "check_end"),
    "barriers": ("stack",),
    "checks": ("kind", "place", "stack", "item", "residual", "test", "test_end", "highest"),
    "predicates": ("mode", "code", "code_end", "operator", "left_item", "left_cell", "right_item", "right_cell", "constant", "highest"),
}
"""The columns of a plan's tables by name, for people (explain)."""

# state[...]: counters of an engine
ROWS, BASE, LOW, MATCHES, OCCUPIED, PENDING_TOP, PENDING_FREE, PENDING_LIVE, PUSHED, EXPIRED, WILD_HEADS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
"""Next absolute row; absolute row of place 0; oldest live row; matches in the output; used slots; pending table: next unused place, first of the
free list (-1), number in use; pushes and timeouts in this feed; from WILD_HEADS on, tops of the stacks outside partitions."""

# answers of kernels
DONE, OUTPUT_FULL, SLOTS_FULL, PENDING_FULL = 0, 1, 2, 3

MAX_PLAN_ITEMS = 64
"""An event's candidate items are the bits of one word."""


class PlanTables(NamedTuple):
    """A plan as integers; columns as named above."""

    shape: Integers
    items: Integers
    positives: Integers
    barriers: Integers
    checks: Integers
    predicates: Integers
    keys: Integers
    """Cells of the equivalence attributes by which partitions are made."""
    agreeing: Integers
    """Cells of all equivalence attributes: what residual checks compare."""


class Machine(NamedTuple):
    """Everything an expression needs, and the scratch of sequence construction.

    Attributes:
        bound: int64 (items,), place of the event bound to each item.
        cursor, floor: int64 (positives,), next row to try and lowest row allowed at each place.
        chosen: int64 (positives,), place of the event bound at each place.
    """

    programs: Programs
    texts: Texts
    scratch: Scratch
    bound: Integers
    cursor: Integers
    floor: Integers
    chosen: Integers


class Memory(NamedTuple):
    """What an engine remembers: see the module's text.

    Attributes:
        links: int64 (rows, 1 + stacks [+ 1]).
        cells: int64 (rows, width).
        slots: int64 (slots, 1 + keys + stacks of partitions), slots a power of two.
        pending: int64 (pending, 1 + positives): next of the chain, absolute rows of a match that waits for its deadline.
        state: int64, counters.
    """

    links: Integers
    cells: Integers
    slots: Integers
    pending: Integers
    state: Integers


class Output(NamedTuple):
    """What a feed finds.

    Attributes:
        rows: int64 (matches, positives), places in the arrays.
        time: int64 (matches,).
        expired_rows: int64 (timeouts, positives), of partial matches; -1 where nothing is bound.
        expired_time: int64 (timeouts,).
    """

    rows: Integers
    time: Integers
    expired_rows: Integers
    expired_time: Integers
