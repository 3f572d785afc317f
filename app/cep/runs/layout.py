"""From a plan to the tables of the runs kernels: cells, slots, registers, predicates, negations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.cep.candidates.layout import Taking, compiler_of, own_conditions, taking_of, text_constants
from app.cep.cells.arrays import CELL_TYPE, signed
from app.cep.cells.texts import TextTable
from app.cep.predicates import opcodes as stacks
from app.cep.predicates.opcodes import OPERATORS
from app.cep.predicates.program import Cell, Compiler, comparison_mode
from app.cep.runs import arrays as at
from app.cep.runs.automaton.grammar import Grammar, runs_of
from app.cep.runs.automaton.predicates import Argument, Rewritten, function_of
from app.cep.runs.automaton.terms import built
from app.cep.snapshot.state import ArrayFormat, as_they_are
from app.events.types import Kind
from app.query import expressions as e
from app.query.plan import Absent, Plan, Runs
from app.query.planning.starts import negated_starts

WAY_NUMBERS = {
    "skip-till-any-match": at.ANY,
    "skip-till-next-match": at.NEXT,
    "strict-contiguity": at.STRICT,
    "partition-contiguity": at.PARTITION,
}
STATE_FORMAT = ArrayFormat("runs", {1: as_they_are})
"""What the arrays of the state mean; readers of old formats are added here, and the number goes up."""


@dataclass(frozen=True, slots=True)
class RunField:
    """A return field: a program over a match, or all elements of a closure (``cell`` >= 0: of ``binding``)."""

    name: str
    kind: Kind
    predicate: int
    binding: int = -1
    cell: int = -1


@dataclass(frozen=True, slots=True)
class RunLayout:
    """A plan made ready for the kernels.

    Attributes:
        taking: how candidates are taken up.
        static: tables that the automaton does not change.
        fields: return fields.
        slots: rows that a program may read.
        slot_width: columns of the partition table.
    """

    taking: Taking
    static: Mapping[str, Any]
    fields: tuple[RunField, ...]
    slots: int
    node_width: int
    slot_width: int
    wild_lists: int
    opener_bit: int


def pinned_texts(plan: Plan) -> list[bytes]:
    """All text constants of a plan, to be pinned in the engine's texts."""
    return text_constants(plan, [take.until for take in built(runs_of(plan).pattern).untils if take.until is not None])


def layout_of(plan: Plan, grammar: Grammar, kinds: Mapping[str, Kind], texts: TextTable) -> RunLayout:
    """Lays a plan out for the kinds of columns that batches have shown."""
    runs = runs_of(plan)
    compiler = compiler_of(plan, kinds, texts)
    local = own_conditions(plan, compiler)
    tables = _Tables(plan, grammar, compiler)
    opener = -1 if runs.window is None else runs.window.opener
    outside = [i.index for i in plan.items if (i.negated and i.lacks) or i.index == opener]
    slots = 1 + max((len(p.references) for p in grammar.predicates), default=0)
    # derived cells call the event by their predicate's slots
    taking = taking_of(plan, compiler, local, np.full(max(slots, len(plan.items)), -1, np.int64), outside)
    static = tables.arrays(runs, taking)
    shape = static["shape"]
    return RunLayout(
        taking=taking,
        static=static,
        fields=tables.fields(),
        slots=slots,
        node_width=int(shape[at.NODE_WIDTH]),
        slot_width=1 + len(taking.keys) + at.S_LISTS + int(shape[at.LISTS] + shape[at.REACHING] * (1 + shape[at.WILD_LISTS])) + 1,
        wild_lists=int(shape[at.WILD_LISTS]),
        opener_bit=opener,
    )


def _hoisted(expression: Any, compiler: Compiler) -> Any:
    """Values that speak of one event alone become cells; conditions stay, because what is not bound makes them true."""
    if isinstance(expression, Argument | e.Literal):
        return expression
    if isinstance(expression, e.Condition) or _has_argument(expression):
        return e.rebuilt(expression, lambda inner: _hoisted(inner, compiler))
    return compiler.hoisted(expression)


def _has_argument(expression: Any) -> bool:
    return any(isinstance(node, Argument) for node in e.walk(expression))


class _Tables:
    """The tables of a plan, but for the automaton's."""

    def __init__(self, plan: Plan, grammar: Grammar, compiler: Compiler) -> None:
        self._plan, self._grammar, self._compiler, self._kinds = plan, grammar, compiler, compiler.kinds
        self._bindings = 1 + max(grammar.bindings, default=0)
        self._frame = at.NODE_HEAD
        self._fixed = self._fixed_columns()
        self._registers_at = self._frame + self._bindings + len(self._fixed)
        self._registers: dict[tuple[int, int, str | None], int] = {}
        self._register_rows: list[list[int]] = []
        self.rows: dict[str, list[list[int]]] = {"predicates": [], "references": [], "arguments": []}
        for predicate in grammar.predicates:
            self._predicate(predicate)

    def _fixed_columns(self) -> dict[tuple[int, int], int]:
        wanted = dict.fromkeys((r.binding, r.number) for p in self._grammar.predicates for r in p.references if r.anchor == at.FIXED)
        return {key: self._frame + self._bindings + k for k, key in enumerate(wanted)}

    def _predicate(self, predicate: Rewritten) -> None:
        references, arguments = self.rows["references"], self.rows["arguments"]
        first, first_argument = len(references), len(arguments)
        for k, reference in enumerate(predicate.references):
            number = self._fixed[reference.binding, reference.number] if reference.anchor == at.FIXED else reference.number
            references.append([k + 1, reference.binding, reference.anchor, number])
        start, stop, places = self._compiled(predicate)
        for number, place in places:
            one = predicate.arguments[number]
            arguments.append([place, one.item, function_of(one), predicate.running if one.running else 0, one.back, self._register(one)])
        ranges = [start, stop, first, len(references), first_argument, len(arguments)]
        self.rows["predicates"].append(ranges + self._compared(first, witnessed=predicate.witnessed))

    def _compiled(self, predicate: Rewritten) -> tuple[int, int, list[tuple[int, int]]]:
        """A program, and (argument, its place among the constants) wherever it reads an aggregate."""
        self._compiler.arguments.clear()
        expression = predicate.expression
        kind = None if isinstance(expression, e.Condition) else expression.kind
        self._prepared, self._made_float = _hoisted(expression, self._compiler), kind is Kind.FLOAT
        start, stop = self._compiler.compile(self._prepared, kind)
        return start, stop, list(self._compiler.arguments)

    def _compared(self, first: int, *, witnessed: bool) -> list[int]:
        """What was just compiled, with references from ``first`` on, if it needs no machine: one cell, or a comparison of two, of bound events."""
        prepared: Any = self._prepared
        if isinstance(prepared, Cell) and prepared.item > 0 and (prepared.kind is Kind.FLOAT or not self._made_float):
            return [at.ONE_CELL, 0, first + prepared.item - 1, prepared.column, 0, 0]
        if isinstance(prepared, e.Comparison) and not witnessed:
            left: Any = prepared.left
            right: Any = prepared.right
            if isinstance(left, Cell) and isinstance(right, Cell) and left.item > 0 and right.item > 0:
                mode = comparison_mode(left, right, prepared.operator)
                return [mode, OPERATORS[prepared.operator], first + left.item - 1, left.column, first + right.item - 1, right.column]
        return [stacks.MODE_PROGRAM, 0, 0, 0, 0, 0]

    def _register(self, one: e.Aggregate) -> int:
        """The first column of the register that an aggregate reads."""
        function = function_of(one)
        if function == at.COUNT_OF:
            return -1
        wanted = [at.SUM, at.PRESENT_COUNT] if function == at.AVG else [function]
        key = (function, one.item, one.attribute)
        if key not in self._registers:
            self._registers[key] = self._registers_at + 2 * len(self._register_rows)
            for own in wanted:
                cell = self._compiler.column_of(one.attribute or "")
                is_float = int(self._kinds.get(one.attribute or "", one.kind) is Kind.FLOAT)
                column = self._registers_at + 2 * len(self._register_rows)
                self._register_rows.append([one.item, own, cell, column, is_float])
        return self._registers[key]

    def fields(self) -> tuple[RunField, ...]:
        found = []
        for field, predicate in zip(self._plan.returns, self._grammar.fields, strict=True):
            if predicate >= 0:
                kind = self._kind(field.expression, field.kind)
                found.append(RunField(field.name, kind, predicate))
                continue
            one = field.expression
            if not isinstance(one, e.AttributeOf):
                found.append(RunField(field.name, field.kind, -1))
                continue
            cell = self._compiler.column_of(one.attribute)
            found.append(RunField(field.name, self._kind(one, field.kind), -1, one.item, cell))
        return tuple(found)

    def _kind(self, expression: e.Expression, kind: Kind) -> Kind:
        return self._kinds.get(expression.attribute, kind) if isinstance(expression, e.AttributeOf) else kind

    def _items(self, kinds: Mapping[str, Kind]) -> tuple[list[list[int]], int, int]:
        labels = {name: k + 1 for k, name in enumerate(dict.fromkeys(i.variable for i in self._plan.items if i.variable is not None))}
        by = {take.item: take.by for take in _takes(runs_of(self._plan).pattern)}
        rows, lists, wild = [], 0, 0
        for item in self._plan.items:
            name = by.get(item.index)
            cell = CELL_TYPE if name is None else self._compiler.column_of(name)
            floats = name is not None and kinds.get(name) is Kind.FLOAT
            row = [item.bound_to, labels.get(item.variable or "", 0), -1, -1, cell, int(floats)]
            if item.negated:
                row[at.ITEM_LIST] = lists
                lists += 1
                if item.lacks:
                    row[at.ITEM_WILD] = wild
                    wild += 1
            rows.append(row)
        return rows, lists, wild

    def _ways(self, runs: Runs) -> list[list[int]]:
        rows = []
        for binding in range(self._bindings):
            ways = runs.ways[binding] if binding < len(runs.ways) else None
            rows.append([WAY_NUMBERS[ways.first] if ways else 0, WAY_NUMBERS[ways.further] if ways else 0])
        return rows

    def _negations(self, runs: Runs) -> tuple[list[list[int]], list[list[int]]]:
        negations: list[list[int]] = []
        parts: list[list[int]] = []
        for negation, ranges in zip(self._grammar.pattern.negations, self._grammar.negated, strict=True):
            first = len(parts)
            for item, (start, stop) in zip(negation.items, ranges, strict=True):
                way = WAY_NUMBERS[runs.ways[self._grammar.bindings[item]].first]
                parts.append([item, 0, start, stop, way if way in (at.STRICT, at.PARTITION) else 0])
            negations.append([first, len(parts), -1 if negation.for_ms is None else negation.for_ms])
        return negations, parts

    def arrays(self, runs: Runs, taking: Taking) -> dict[str, Any]:
        """Everything but the automaton's tables."""
        plan = self._plan
        items, lists, wild = self._items(taking.kinds)
        negations, parts = self._negations(runs)
        untils = [
            [take.item, take.until_item, predicate]
            for take, predicate in zip(self._grammar.pattern.untils, self._grammar.untils, strict=True)
        ]
        shape = np.zeros(at.SHAPE_SIZE, np.int64)
        shape[at.WITHIN] = plan.within.size if plan.within is not None and plan.within.unit == "ms" else -1
        shape[at.WITHIN_EVENTS] = plan.within.size if plan.within is not None and plan.within.unit == "events" else -1
        shape[at.GAP] = -1 if runs.max_gap_ms is None else runs.max_gap_ms
        shape[at.STATES_AT], shape[at.BINDINGS], shape[at.FRAME] = taking.states_at, self._bindings, self._frame
        shape[at.REGISTERS] = self._registers_at
        shape[at.NODE_WIDTH] = self._registers_at + 2 * len(self._register_rows)
        shape[at.WINDOW_KIND], shape[at.WINDOW_SIZE], shape[at.WINDOW_SLIDE], shape[at.OPENER] = _window(runs)
        shape[at.TIMEOUTS] = int(plan.on_timeout == "emit")
        ways = self._ways(runs)
        shape[at.CONTIGUOUS] = int(any(w in (at.STRICT, at.PARTITION) for row in ways for w in row[:2]))
        shape[at.START_STATE] = self._grammar.automaton.start
        shape[at.LIMIT_MATCHES], shape[at.LIMIT_RUNS] = runs.limits.matches_per_event, runs.limits.partial_matches_per_partition
        masks = {True: 0, False: 0}
        asked = 0
        for item in plan.items:
            if item.asked:
                asked |= 1 << item.index
            else:
                masks[item.negated] |= 1 << item.index
        shape[at.POSITIVE_MASK], shape[at.NEGATED_MASK], shape[at.ASKED_MASK] = signed(masks[False]), signed(masks[True]), signed(asked)
        shape[at.LISTS], shape[at.WILD_LISTS] = lists, wild
        counted = shape[at.WITHIN_EVENTS] >= 0
        shape[at.REACHING] = int(counted and any(plan.items[item].lacks for item in negated_starts(runs.pattern)))
        shape[at.RANKS] = {"none": 0, "partition": 1, "stream": 2}[plan.ranks]
        fixed = [[binding, number, column] for (binding, number), column in self._fixed.items()]
        named: dict[str, Iterable[Iterable[int]]] = {
            "items": items,
            "ways": ways,
            "predicates": self.rows["predicates"],
            "references": self.rows["references"],
            "arguments": self.rows["arguments"],
            "registers": self._register_rows,
            "fixed": fixed,
            "negations": negations,
            "parts": parts,
            "untils": untils,
        }
        return {"shape": shape, "keys": taking.keys, **{name: at.table(name, rows) for name, rows in named.items()}}


def _takes(pattern: Any) -> Iterable[Any]:
    if hasattr(pattern, "different"):
        yield pattern
    elif isinstance(pattern, Absent):
        return
    else:
        for part in (pattern.part,) if hasattr(pattern, "part") else pattern.parts:
            yield from _takes(part)


def _window(runs: Runs) -> tuple[int, int, int, int]:
    window = runs.window
    if window is None:
        return at.NO_WINDOW, 0, 1, -1
    if window.slide is None:
        return (at.OPENED_TIME if window.unit == "ms" else at.OPENED_COUNT), window.size, 1, window.opener
    if window.unit == "ms":
        return at.TIME_WINDOW, window.size, window.slide, -1
    return (at.PARTITION_WINDOW if window.per_partition else at.COUNT_WINDOW), window.size, window.slide, -1
