"""From a chain to the tables of the chains kernels: edges, tests, registers, and the events that return fields read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.cep.candidates.layout import Taking, compiler_of, own_conditions, taking_of
from app.cep.cells.arrays import Integers, signed
from app.cep.cells.texts import TextTable
from app.cep.chains import arrays as at
from app.cep.chains.arrays import ChainTables
from app.cep.predicates.opcodes import LEFT_FLOAT, OPERATORS, RIGHT_FLOAT
from app.cep.predicates.program import Cell, Compiler
from app.cep.returns.columns import FieldSource
from app.cep.snapshot.state import ArrayFormat, as_they_are
from app.events.types import Kind
from app.query import expressions as e
from app.query.plan import ExplicitWindow, Plan, Runs
from app.query.planning.chain_values import BEFORE, CLOSING, Event, Field, Test, Value
from app.query.planning.chains import Chain

_WAYS = {"skip-till-next-match": at.NEXT, "strict-contiguity": at.STRICT, "partition-contiguity": at.PARTITION}
STATE_FORMAT = ArrayFormat("chains", {1: as_they_are})
"""What the arrays of the state mean; readers of old formats are added here, and the number goes up."""
ENDLESS = 2**63 - 1
NEWEST = Event(-1)


@dataclass(frozen=True, slots=True)
class ChainLayout:
    """A chain made ready for the kernels.

    Attributes:
        taking: how candidates are taken up and fields are read; places are anchors.
        tables: the plan as integers.
        order: int64 (positions,), items by position; with an item behind the closure that one as well.
        anchors: int64 (anchors, 2), events that fields read; first and last of all, then others.
        optional: whether a match may lack one of them.
        sources: by return field: where it comes from (of lists and aggregates: an element's cell); None: the number of elements.
        registers: cells that registers hold.
        ordered: whether matches are reported in the order of their first events.
    """

    taking: Taking
    tables: ChainTables
    order: Integers
    anchors: Integers
    optional: bool
    sources: tuple[FieldSource | None, ...]
    registers: tuple[int, ...]
    ordered: bool

    @property
    def run_width(self) -> int:
        """Columns of a run."""
        policy = at.POLICY_WIDTH if self.tables.shape[at.POLICY] >= 0 else 0
        origin = at.ORIGIN_WIDTH if self.tables.shape[at.ORIGIN] >= 0 else 0
        return at.REGISTERS + len(self.registers) + policy + (at.EXTRA_WIDTH if self.marked else 0) + origin

    @property
    def marked(self) -> bool:
        """Whether runs and matches have columns for gaps, windows, timeouts and matches that wait."""
        return bool(self.tables.shape[at.EXTRA] >= 0)

    @property
    def plain(self) -> bool:
        """Whether nothing of it asks for more than the window and what events are compared with."""
        shape = self.tables.shape
        return not (self.marked or shape[at.ORIGIN] >= 0 or shape[at.CLOSING] >= 0 or len(self.tables.kills))

    @property
    def found_width(self) -> int:
        """Columns of a match."""
        return 1 + (at.FOUND_END if self.marked else at.FOUND_LENGTH)

    @property
    def node_width(self) -> int:
        """Columns of a node."""
        return 1 + (at.NODE_RANK if self.ordered else at.ROW)

    @property
    def slot_width(self) -> int:
        """Columns of a slot."""
        origin = at.ORIGIN_SLOT_WIDTH if self.tables.shape[at.ORIGIN] >= 0 else 0
        return self.base + int(self.tables.shape[at.ORIGIN_SLOT]) + origin

    @property
    def base(self) -> int:
        """The first column of a slot behind its key."""
        return 1 + len(self.tables.keys)


def layout_of(plan: Plan, chain: Chain, kinds: Mapping[str, Kind], texts: TextTable) -> ChainLayout:
    """Lays a plan that is a chain out for the kinds of columns that batches have shown."""
    runs = plan.runs
    assert runs is not None, "a chain is a plan of runs"  # noqa: S101
    compiler = compiler_of(plan, kinds, texts)
    local = own_conditions(plan, compiler)
    edges = _Edges(plan, runs, chain, compiler)
    anchors = [Event(0), NEWEST]
    sources = tuple(_source(field, chain, compiler, anchors) for field in chain.fields)
    places = np.array([k if k < len(anchors) else -1 for k in range(max(len(anchors), len(plan.items)))], np.int64)
    taking = taking_of(plan, compiler, local, places)
    shape = np.zeros(at.SHAPE_SIZE, np.int64)
    shape[at.WITHIN] = ENDLESS if plan.within is None else plan.within.size
    shape[at.STATES_AT], shape[at.RELEVANT] = taking.states_at, signed((1 << len(plan.items)) - 1)
    shape[at.LIMIT_MATCHES], shape[at.LIMIT_RUNS] = runs.limits.matches_per_event, runs.limits.partial_matches_per_partition
    policy = chain.policy
    shape[at.POLICY] = at.REGISTERS + len(edges.registers) if policy.once else -1
    shape[at.LONGEST], shape[at.ORDERED], shape[at.BORDER_ITSELF] = policy.longest, policy.border is not None, policy.itself
    shape[at.BORDER_EVENT] = -1 if policy.border is None else policy.border.number
    shape[at.GAP] = ENDLESS if runs.max_gap_ms is None else runs.max_gap_ms
    shape[at.TIMEOUTS] = plan.on_timeout == "emit"
    shape[at.WINDOW], shape[at.WINDOW_SIZE], shape[at.WINDOW_SLIDE], shape[at.SPREAD] = _window(runs.window)
    marked = runs.max_gap_ms is not None or runs.window is not None or plan.on_timeout == "emit" or chain.waits
    free = at.REGISTERS + len(edges.registers) + at.POLICY_WIDTH * policy.once
    shape[at.EXTRA] = free if marked else -1
    shape[at.WAITING], shape[at.WAIT_MS] = len(chain.items) * chain.waits, -1 if chain.wait_ms is None else chain.wait_ms
    ranked = plan.within is not None and plan.within.unit == "events"
    shape[at.ORIGIN] = free + at.EXTRA_WIDTH * marked if ranked or chain.starts else -1
    shape[at.ORIGIN_SLOT] = at.SLOT_WIDTH if policy.border is None else at.ORDERED_SLOT_WIDTH
    shape[at.STARTS], shape[at.RANKED] = signed(sum({1 << item for item in chain.starts})), ranked
    if plan.within is not None:
        shape[at.BAR], shape[at.LAST_RANK] = plan.within.size, plan.within.size - 1
    if ranked:
        shape[at.WITHIN] = ENDLESS
    shape[at.CLOSING], shape[at.CLOSING_FROM] = edges.closing, len(chain.items) - 1 + chain.low
    tables = ChainTables(shape, *edges.tables(), taking.keys)
    return ChainLayout(
        taking=taking,
        tables=tables,
        order=np.array([*chain.items, *([chain.closing.item] if chain.closing is not None else [])], np.int64),
        anchors=np.array([[event.number, event.lowest] for event in anchors], np.int64),
        optional=chain.timeouts or any(_may_lack(event, chain) for event in anchors),
        sources=sources,
        registers=tuple(edges.registers.values()),
        ordered=policy.border is not None,
    )


def _window(window: ExplicitWindow | None) -> tuple[int, int, int, int]:
    if window is None or window.slide is None:
        return at.NO_WINDOW, 0, 1, 1
    return (at.TIME_WINDOW if window.unit == "ms" else at.COUNT_WINDOW), window.size, window.slide, window.size // window.slide + 1


def _cell(value: Value, compiler: Compiler) -> Cell:
    """The cell that holds a value over one event."""
    found = compiler.hoisted(value.expression)
    assert isinstance(found, Cell), "what speaks of one event alone is a cell"  # noqa: S101
    return found


def _with_cells(tests: Iterable[Test], compiler: Compiler) -> list[tuple[Test, Cell, Cell]]:
    return [(test, _cell(test.left, compiler), _cell(test.right, compiler)) for test in tests]


def _source(field: Field, chain: Chain, compiler: Compiler, anchors: list[Event]) -> FieldSource | None:
    if field.made != "value":
        of_element = compiler.cell_of(field.value.expression)
        return None if of_element is None else FieldSource(field.name, of_element.kind, 0, of_element.column, 0, 0)
    events = [event if _may_lack(event, chain) else Event(event.number) for event in field.value.events]
    anchors.extend(event for event in dict.fromkeys(events) if event not in anchors)
    places = [anchors.index(event) for event in events]
    cell = compiler.cell_of(field.value.expression)
    if cell is not None:
        return FieldSource(field.name, cell.kind, places[0], cell.column, 0, 0)
    return FieldSource(field.name, field.kind, -1, -1, *compiler.compile(_placed(field.value.expression, places), field.kind))


def _may_lack(event: Event, chain: Chain) -> bool:
    """Whether a match, or a partial one that times out, may lack the event: the closure need not have so many elements."""
    if chain.timeouts:
        return event.number > 0 or event.lowest > 0 or event.number < NEWEST.number
    if event.number < 0:
        return -event.number - (chain.closing is not None) > chain.low
    return event.number >= len(chain.items) - 1 + chain.low


def _placed(expression: Any, places: list[int]) -> Any:
    if isinstance(expression, e.AttributeOf):
        return replace(expression, item=places[expression.item])
    return e.rebuilt(expression, lambda inner: _placed(inner, places))


class _Edges:
    """The events of a chain one by one: how each may come, what is asked when it does, and what is kept of it.

    Attributes:
        registers: (event, cell) → cell, in order; the event is as tests name it.
        closing: the edge of what ends the closure, -1: nothing does.
    """

    def __init__(self, plan: Plan, runs: Runs, chain: Chain, compiler: Compiler) -> None:
        self._plan, self._runs, self._chain = plan, runs, chain
        self._tests = _with_cells(chain.tests, compiler)
        self.registers: dict[tuple[Event, int], int] = {}
        self._kills = [(kill, _with_cells(kill.tests, compiler)) for kill in chain.kills]
        self._rows: dict[str, list[list[int]]] = {"edges": [], "tests": [], "kills": [], "keeps": []}
        for test, *cells in [*self._tests, *(one for _, tests in self._kills for one in tests)]:
            for value, cell in zip((test.left, test.right), cells, strict=True):
                event = value.events[0]
                if event != NEWEST and (_is_running(test) or event.number != max(_numbers(test))):
                    self.registers[event, cell.column] = cell.column
        closings = [] if chain.closing is None else _with_cells(chain.closing.tests, compiler)
        for test, *cells in closings:
            for value, cell in zip((test.left, test.right), cells, strict=True):
                if value.events[0].number != CLOSING:
                    self.registers[value.events[0], cell.column] = cell.column
        for number in range(len(chain.items) + max(chain.low - 1, (chain.high or 1) - 1, 1 if chain.high is None else 0)):
            self._edge(number)
        self.closing = -1
        if chain.closing is not None:
            self._close(chain.closing.item, closings)
        if chain.waits:
            kills = self._kill_rows(len(chain.items))
            tests = len(self._rows["tests"])
            keeps = len(self._rows["keeps"])
            self._rows["edges"].append([at.NOBODY, at.NEXT, tests, tests, keeps, keeps, 0, 0, tests, tests, *kills])

    def _edge(self, number: int) -> None:
        """The ``number``-th event; the last edge stands for all that follow."""
        chain, rows = self._chain, self._rows
        first = len(chain.items) - 1
        item = chain.items[min(number, first)]
        ways = self._runs.ways[self._plan.items[item].bound_to]
        # a run that the event at hand begins does not outlive it unless it takes it
        further = number > first or (number > 0 and chain.items[number - 1] == item)
        way = at.PARTITION if number == 0 else _WAYS[ways.further if further else ways.first]
        bound, keeps = number - first + 1, len(rows["keeps"])
        accepts, final = bound >= chain.low, chain.high is not None and bound >= chain.high
        if chain.closing is not None:
            accepts = final = False
        # what waits for the closure's last event is asked where a match ends; of an event behind which nothing can come, when it is taken
        asked = [test for test in self._tests if final or not test[0].ending]
        at_end = [test for test in self._tests if test[0].ending and accepts and not final]
        ranges = [self._asked(tests, number) for tests in (asked, at_end)]
        for k, (event, cell) in enumerate(self.registers):
            if event.number == number or (event == BEFORE and number >= first):
                rows["keeps"].append([k, cell])
        kills = self._kill_rows(number)
        ends = (int(accepts), int(final and not chain.waits), *ranges[1], *kills)
        rows["edges"].append([item, way, *ranges[0], keeps, len(rows["keeps"]), *ends])

    def _close(self, item: int, tests: list[tuple[Test, Cell, Cell]]) -> None:
        """The event that ends the closure: the last edge; in front of it one that nobody takes, where the closure has as many as it may."""
        rows, way = self._rows, _WAYS[self._runs.ways[self._plan.items[item].bound_to].first]
        first, keeps = len(rows["tests"]), len(rows["keeps"])
        if self._chain.high is not None:
            rows["edges"].append([at.NOBODY, way, first, first, keeps, keeps, 0, 0, first, first, 0, 0])
        rows["tests"] += [self._test(*test, CLOSING) for test in tests]
        stop = len(rows["tests"])
        self.closing = len(rows["edges"])
        rows["edges"].append([item, way, first, stop, keeps, keeps, 1, 1, stop, stop, 0, 0])

    def _kill_rows(self, number: int) -> tuple[int, int]:
        """The range of what kills while the ``number``-th event is awaited."""
        kills = self._rows["kills"]
        start = len(kills)
        kills += [[kill.item, *self._asked(tests, number)] for kill, tests in self._kills if kill.before == number]
        return start, len(kills)

    def _asked(self, tests: list[tuple[Test, Cell, Cell]], number: int) -> tuple[int, int]:
        """The range of those tests that the ``number``-th event decides."""
        rows = self._rows["tests"]
        start = len(rows)
        rows += [self._test(*test, number) for test in tests if self._decides(test[0], number)]
        return start, len(rows)

    def _decides(self, test: Test, number: int) -> bool:
        """Whether the ``number``-th event decides the test."""
        first = len(self._chain.items) - 1
        if not _is_running(test):
            return number == max(_numbers(test))
        return number >= (first + 1 if BEFORE.number in _numbers(test) else first)

    def _test(self, test: Test, left: Cell, right: Cell, number: int) -> list[int]:
        """A row: the candidate stands on the left."""
        operator = test.operator
        if not self._is_candidate(test.left, number):
            test, left, right = replace(test, left=test.right, right=test.left), right, left
            operator = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
        mode = LEFT_FLOAT * (left.kind is Kind.FLOAT) | RIGHT_FLOAT * (right.kind is Kind.FLOAT)
        register, other = -1, right.column
        if not self._is_candidate(test.right, number):
            register = list(self.registers).index((test.right.events[0], right.column))
        return [mode, OPERATORS[operator], left.column, register, other]

    @staticmethod
    def _is_candidate(value: Value, number: int) -> bool:
        return value.events[0].number in (NEWEST.number, number)

    def tables(self) -> tuple[Integers, Integers, Integers, Integers]:
        """Edges, tests, kills and keeps."""
        widths = {"edges": at.EDGE_WIDTH, "tests": at.TEST_WIDTH, "kills": at.KILL_WIDTH, "keeps": 2}
        edges, tests, kills, keeps = (_table(self._rows[name], width) for name, width in widths.items())
        return edges, tests, kills, keeps


def _numbers(test: Test) -> tuple[int, int]:
    return test.left.events[0].number, test.right.events[0].number


def _is_running(test: Test) -> bool:
    """Whether every element of the closure is asked."""
    return min(_numbers(test)) < 0


def _table(rows: Iterable[Iterable[int]], width: int) -> Integers:
    return np.array(list(rows), np.int64).reshape(-1, width)
