"""The tables that the runs kernels share: plan and automaton as integers, and the memory of an engine.

A *run* is a node: one bound event, what came before it (its parent), and the rest of the pattern as a state. Nodes are never changed
into other bindings: a run that takes an event gets a child, so all runs share their beginnings, and a node whose run has ended lives on
as long as others come from it. Rows number stored events in processing order, which inside a partition is the total order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from app.cep.cells.arrays import Programs, Scratch, Texts

Integers = NDArray[np.int64]

# shape[...]: numbers of the plan
WITHIN, WITHIN_EVENTS, GAP, STATES_AT, BINDINGS, FRAME, REGISTERS, NODE_WIDTH = 0, 1, 2, 3, 4, 5, 6, 7
"""-1 where there is none; FRAME, REGISTERS: columns of a node where they begin."""
WINDOW_KIND, WINDOW_SIZE, WINDOW_SLIDE, OPENER = 8, 9, 10, 11
NO_WINDOW, TIME_WINDOW, COUNT_WINDOW, PARTITION_WINDOW, OPENED_TIME, OPENED_COUNT = 0, 1, 2, 3, 4, 5
LISTED_WINDOWS = (COUNT_WINDOW, OPENED_TIME, OPENED_COUNT)
"""Kinds whose windows stand in a table of their own; those of the others are numbers that follow from a time or a rank."""
TIMEOUTS, CONTIGUOUS, START_STATE, LIMIT_MATCHES, LIMIT_RUNS, POSITIVE_MASK, NEGATED_MASK, ASKED_MASK = 12, 13, 14, 15, 16, 17, 18, 19
LISTS, WILD_LISTS, RANKS, REACHING = 20, 21, 22, 23
"""How many lists of negated events a partition has, how many there are outside partitions; RANKS: 0 none, 1 partition, 2 stream; REACHING: whether a
negated start asks by its rank in the partition for an event outside partitions."""
SHAPE_SIZE = 24

# items[item, ...]
ITEM_BINDING, ITEM_LABEL, ITEM_LIST, ITEM_WILD, ITEM_DIFFERENT, ITEM_FLOATS = 0, 1, 2, 3, 4, 5
"""What it binds; number of its variable (0: anonymous) for telling matches apart; its list of negated events, inside and outside partitions;
the cell in which the events of a block differ, and whether it holds floats."""

# ways[binding, ...]: strategy of the way to the first event, to further ones
ANY, NEXT, STRICT, PARTITION = 0, 1, 2, 3

# states[state, ...]
EDGES, EDGES_END, ASKS, ASKS_END, ACCEPTS, ENDING, ENDING_END, ENDS, ENDS_END, OPEN, FINAL, EXPANDED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
"""Its edges, UNTILs; whether a match may end here, then the predicates still to be decided and the negations at the end; bindings that can
still bind (a mask); whether nothing can come any more; whether edges are known yet."""
# edges[edge, ...]
EDGE_ITEM, TARGET, DIFFERENT, TESTS, TESTS_END, CROSSES, CROSSES_END, WITHOUT, ENTERS = 0, 1, 2, 3, 4, 5, 6, 7, 8
# asks[ask, ...]
ASK_UNTIL, STOPPED = 0, 1
"""The UNTIL, and the state in which it leaves a run (-1: none)."""
# tests[k, ...]: predicate, how its i runs, and how far the newest i lies above the element just bound
TEST_PREDICATE, TEST_MODE, TEST_OFFSET, TEST_BINDING = 0, 1, 2, 3
WHOLE, NEWEST, EVERY = 0, 1, 2
# crosses[k, ...]
CROSS_NEGATION, CROSS_NOW, BESIDE, BESIDE_END = 0, 1, 2, 3
# beside[k, ...]: number of an AND, mask of the items of its other operands
BESIDE_ALL, BESIDE_ITEMS = 0, 1

# predicates[predicate, ...]
CODE, CODE_END, REFERENCES, REFERENCES_END, ARGUMENTS, ARGUMENTS_END = 0, 1, 2, 3, 4, 5
COMPARED_AS, COMPARED_BY, LEFT_REFERENCE, LEFT_CELL, RIGHT_REFERENCE, RIGHT_CELL = 6, 7, 8, 9, 10, 11
ONE_CELL = 9
"""Of a predicate that compares two cells: how (a mode of `app.cep.predicates.opcodes`), the operator, the two cells; of a return field that is a cell: ONE_CELL,
and as left one the cell. The machine (MODE_PROGRAM) does the rest, and what is not plainly present."""
# references[k, ...]
SLOT, REF_BINDING, ANCHOR, NUMBER = 0, 1, 2, 3
PLAIN, FIXED, LAST, RUNNING, MAYBE = 0, 1, 2, 3, 4
"""FIXED: NUMBER is a column of the frame; LAST, RUNNING, MAYBE: NUMBER elements back. Without a RUNNING element there is no ``i``; a MAYBE is absent."""
# arguments[k, ...]: aggregates, handed to programs as constants; ARG_RUNNING: RUNNING, MAYBE, or 0 for finished ones
CONSTANT, ARG_BINDING, FUNCTION, ARG_RUNNING, ARG_BACK, REGISTER = 0, 1, 2, 3, 4, 5
COUNT_OF, SUM, MIN, MAX, AVG = 0, 1, 2, 3, 4
# registers[k, ...]: values kept per element of a closure, two columns of its node: tag and value
REG_BINDING, REG_FUNCTION, REG_CELL, REG_AT, REG_FLOAT = 0, 1, 2, 3, 4
PRESENT_COUNT = 5
"""Function of a register: how many values were present (for averages)."""
# fixed[k, ...]: columns of the frame for x[number]
FIXED_BINDING, FIXED_NUMBER, FIXED_AT = 0, 1, 2

# negations[negation, ...]
PARTS, PARTS_END, FOR = 0, 1, 2
# parts[k, ...]: one negated item
PART_ITEM, PART_SLOT, PART_TESTS, PART_TESTS_END, PART_CONTIGUOUS = 0, 1, 2, 3, 4
# untils[until, ...]
UNTIL_ITEM, UNTIL_ASKED, UNTIL_PREDICATE = 0, 1, 2
"""The closure's item, the item whose events are asked, the predicate."""

COLUMNS = {
    "items": 6,
    "ways": 2,
    "states": 12,
    "edges": 9,
    "asks": 2,
    "tests": 4,
    "crosses": 4,
    "beside": 2,
    "predicates": 12,
    "references": 4,
    "arguments": 6,
    "registers": 5,
    "fixed": 3,
    "negations": 3,
    "parts": 5,
    "untils": 3,
}

# nodes[node, ...]
NEXT_RUN, STATE, PARENT, ROW, ITEM, ELEMENT, PREVIOUS, FIRST_TIME, FIRST_ROW = 0, 1, 2, 3, 4, 5, 6, 7, 8
S_RANK, P_RANK, FIRST_P_RANK, FLAGS, HASH, WINDOW_LOW, WINDOW_HIGH, CROSSED, ENTERED = 9, 10, 11, 12, 13, 14, 15, 16, 17
FOLLOWED, CLOSED = 18, 19
"""Time of the event that came next in the stream (kept for timeouts under contiguity); items whose ways are closed but for skip-till-any ones."""
NODE_HEAD = 20
LEFT = -10
"""A node that is no run (any more) keeps its state as LEFT - state."""
MATCHED = 1
"""Flag: has been a match."""
ENDED = 2
"""Flag: a shedder has ended it."""
LOOKED = 4
"""Flag: a shedder has looked at it since it was made."""
# looks[..., run]: what shedders ask of a live run: node, item, times of the first and the newest event, events of the partition still to come
LOOK_NODE, LOOK_ITEM, LOOK_BEGUN, LOOK_NEWEST, LOOK_LEFT = 0, 1, 2, 3, 4
LOOKS = 5
# asked[question, ...]: what runs are asked about what they have bound (`app.cep.runs.live.Question`): function, cell, whether all its numbers are floats, whether it is asked of all events
TELL_FUNCTION, TELL_CELL, TELL_FLOAT, TELL_ANY = 0, 1, 2, 3
TELLS = 4
TELLS_FIRST, TELLS_LAST, TELLS_MIN, TELLS_MAX, TELLS_SUM, TELLS_AVERAGE, TELLS_COUNT = 0, 1, 2, 3, 4, 5, 6

# slots[slot, ...]: after the state (in place of NEWEST: 0, or DEAD: without runs and negated events) and the key
USED, DEAD = 0, -5
S_HEAD, S_COUNT, S_PRANK, S_TIME, S_LISTS = 0, 1, 2, 3, 4
"""From shape-dependent places behind the key on: newest run, number of runs, rank of the next event, time of the last event, lists of negated events.
Behind these, with REACHING, the rank in the stream of the partition's last event (-1: none yet), and by list of negated events outside partitions how many
events of the partition came before the newest one that came before that (-1: none did). Last, in memory only: S_SEEN."""
S_SEEN = -1
"""The run on the partition's list up to which shedders have looked at all (-1: at none, as far as known). New runs come behind it."""
# negated[k, ...]: next older of its list, row, ranks
OLDER, N_ROW, N_SRANK, N_PRANK = 0, 1, 2, 3
# crossed[k, ...]: crossings still to be decided: next older, negation, node bound before (-1: none), row bound behind
C_OLDER, C_NEGATION, C_LOWER, C_UPPER = 0, 1, 2, 3
REACHED = -2
"""C_LOWER where no node is bound before, but an event outside partitions came behind ``rank`` events of the partition: REACHED - rank."""
# waiting[k, ...]: matches with a negated end: node, time of the end (UNKNOWN_END: not yet), window, end of a FOR (or -1), the state that
# it ended in (its run may go on without an event), and where ranks in the partition decide, the rank in the stream of the event that did
W_NODE, W_END, W_WINDOW, W_LEAST, W_STATE, W_RANK = 0, 1, 2, 3, 4, 5
# windows[k, ...]: count windows and opened ones, from window WINDOW_BASE on: row of the opener, rank and time of the start, time of the end
O_ROW, O_RANK, O_TIME, O_END = 0, 1, 2, 3
UNKNOWN_END = -(2**63)
NO_FOR = UNKNOWN_END + 1
"""Before every time: the end of a ``FOR`` that is none. Earlier versions wrote -1, which is a time as well."""
END_OF_TIME = 2**62
"""Behind every time: windows can be added to it, or taken from its negative, without leaving 64 bit."""

# state[...]: counters
NODES, ROWS, NEGATED, CROSSINGS, WAITS, WINDOWS, OCCUPIED, STREAM_RANK = 0, 1, 2, 3, 4, 5, 6, 7
WINDOW_BASE, WINDOW_FIRST_OPEN, LAST_TIME, MATCHES, EXPIRED, LIMITED_MATCHES, LIMITED_RUNS, NEEDS_STATES = 8, 9, 10, 11, 12, 13, 14, 15
ALLOWED, EVENT_WINDOW, NEEDED = 16, 17, 18
"""Matches that the event may still make; the first window open at it; how much room the next event needs."""
WILD_HEADS = 19

# found[k, ...]: node, time, window
F_NODE, F_TIME, F_WINDOW = 0, 1, 2

# answers of kernels
DONE, NODES_FULL, OUTPUT_FULL, SLOTS_FULL, STATES_MISSING = 0, 1, 2, 3, 4
ABSENT_ROW = 0
"""Row whose cells are all absent: what unbound references read."""


class RunTables(NamedTuple):
    """A plan and as much of its automaton as is known; columns as named above."""

    shape: Integers
    items: Integers
    ways: Integers
    states: Integers
    edges: Integers
    asks: Integers
    tests: Integers
    crosses: Integers
    beside: Integers
    predicates: Integers
    references: Integers
    arguments: Integers
    registers: Integers
    fixed: Integers
    negations: Integers
    parts: Integers
    untils: Integers
    keys: Integers


class RunMachine(NamedTuple):
    """What an expression needs: programs (whose constants take the aggregates), texts, a stack, rows by slot."""

    programs: Programs
    texts: Texts
    scratch: Scratch
    bound: Integers


class RunMemory(NamedTuple):
    """What an engine remembers; see the columns above. ``found``, ``expired``: the output of a feed."""

    nodes: Integers
    cells: Integers
    slots: Integers
    negated: Integers
    crossed: Integers
    waiting: Integers
    windows: Integers
    state: Integers
    found: Integers
    expired: Integers


class RunHiding(NamedTuple):
    """Which events are hidden from which runs, see `app.cep.runs.hiding`; without rows: none.

    Attributes:
        hidden: int64 (2**items * items, bins), of `ALL_OF_THEM`, how many pairs of an event that can be these items and a run whose newest event is this one; by the part of the window that is over.
        met: int64 (as many, 2 * bins), how many such pairs there were; behind these, how many of them were hidden.
        seed: int64 (1,), of what decides where some of the pairs are.
    """

    hidden: Integers
    met: Integers
    seed: Integers


ALL_OF_THEM = 1 << 53
_NOBODY = np.empty(0, np.int64)
NOTHING_HIDDEN = RunHiding(np.zeros((0, 1), np.int64), np.zeros((0, 2), np.int64), np.zeros(1, np.int64))

# world: the tables by number, see `app.cep.runs.kernels_world`
T_SHAPE, T_ITEMS, T_WAYS, T_STATES, T_EDGES, T_ASKS, T_TESTS, T_CROSSES = 0, 1, 2, 3, 4, 5, 6, 7
T_BESIDE, T_PREDICATES, T_REFERENCES, T_ARGUMENTS, T_REGISTERS, T_FIXED, T_NEGATIONS, T_PARTS = 8, 9, 10, 11, 12, 13, 14, 15
T_UNTILS, T_KEYS, T_CODE, T_CONSTANTS, T_TEXT_DATA, T_TEXT_OFFSETS, T_TAGS, T_VALUES = 16, 17, 18, 19, 20, 21, 22, 23
T_BOUND, T_NODES, T_CELLS, T_SLOTS, T_NEGATED, T_CROSSED, T_WAITING, T_WINDOWS = 24, 25, 26, 27, 28, 29, 30, 31
T_STATE, T_FOUND, T_EXPIRED, T_HIDDEN, T_MET, T_SEED = 32, 33, 34, 35, 36, 37


class Addresses:
    """Where arrays lie and how large they are, for kernels that get all of them as one.

    NumPy takes 3 us to say it of one, and a feed wants it of 38 arrays five times: 0.85 of 5 ms. So only those are asked that are others than the last time; none is kept alive by that, and no copy believes it.
    """

    __slots__ = ("_asked", "_words")

    def __init__(self) -> None:
        self._asked: list[ref[NDArray[Any]]] = []
        self._words = np.empty(0, np.int64)

    def __reduce__(self) -> tuple[type[Addresses], tuple[()]]:
        return Addresses, ()

    def of(self, arrays: Sequence[NDArray[Any]]) -> Integers:
        """int64 (3 * arrays,): address, length and width of each; the caller keeps them alive while kernels read them."""
        if len(self._asked) != len(arrays):
            self._asked, self._words = [ref(_NOBODY)] * len(arrays), np.empty(3 * len(arrays), np.int64)
        for number, array in enumerate(arrays):
            if self._asked[number]() is not array:
                width = array.shape[1] if array.ndim == 2 else 1
                self._words[3 * number : 3 * number + 3] = array.__array_interface__["data"][0], len(array), width
                self._asked[number] = ref(array)
        return self._words.copy()


def world_of(
    tables: RunTables, machine: RunMachine, memory: RunMemory, hiding: RunHiding = NOTHING_HIDDEN, addresses: Addresses | None = None
) -> Integers:
    """Addresses and shapes of all tables; the caller keeps the arrays alive while kernels read it, and may remember ``addresses`` from call to call."""
    programs, texts, scratch = machine.programs, machine.texts, machine.scratch
    arrays: tuple[NDArray[Any], ...] = (
        *tables,
        programs.code,
        programs.constants,
        texts.data,
        texts.offsets,
        scratch.tags,
        scratch.values,
        machine.bound,
        *memory,
        *hiding,
    )
    return (addresses or Addresses()).of(arrays)


def table(name: str, rows: Any) -> Integers:
    """Rows as a table of the width that its columns have."""
    return np.array(list(rows), np.int64).reshape(-1, COLUMNS[name])
