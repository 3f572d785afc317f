"""From a plan to the engine's tables: cells, stacks, bars, checks and predicates, each at the place where it is decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.cep.candidates.layout import Taking, compiler_of, own_conditions, taking_of
from app.cep.cells.arrays import signed
from app.cep.cells.texts import TextTable
from app.cep.engine import EngineOptions
from app.cep.partitions.arrays import KEY
from app.cep.predicates.opcodes import MODE_DIFFERENCE, MODE_PROGRAM, OPERATORS
from app.cep.predicates.program import Cell, Compiler, comparison_mode, unsupported
from app.cep.returns.columns import FieldSource
from app.cep.stacks import arrays as at
from app.cep.stacks.arrays import PlanTables
from app.events.types import Kind
from app.query.expressions import Arithmetic, Comparison, Expression, Literal
from app.query.plan import Item, JoinPredicate, Plan


@dataclass(frozen=True, slots=True)
class Layout:
    """A plan made ready for the kernels.

    Attributes:
        taking: how candidates are taken up, and fields are read.
        tables: the plan as integers.
        fields: where return fields come from.
        link_width, slot_width: columns of these tables.
        wild_stacks: stacks of events outside partitions.
    """

    taking: Taking
    tables: PlanTables
    fields: tuple[FieldSource, ...]
    link_width: int
    slot_width: int
    wild_stacks: int


def refusals(plan: Plan) -> list[str]:
    """What in a plan this engine cannot run, in plain words; empty if it runs it exactly."""
    found = []
    if plan.evaluator != "stacks":
        found.append(f"the engine runs sequences under skip-till-any-match, not plans for the {plan.evaluator} evaluator")
    if plan.within is not None and plan.within.unit != "ms":
        found.append("within counts events; the engine runs it in time only")
    if not plan.positive:
        found.append("the pattern has no positive item")
    if len(plan.items) > at.MAX_PLAN_ITEMS:
        found.append(f"the pattern has more than {at.MAX_PLAN_ITEMS} items")
    if plan.within is None and plan.positive and plan.items:
        if plan.items[0].negated:
            found.append("a negated start needs within")
        if plan.items[-1].negated:
            found.append("a negated end needs within")
    for expression in [j.condition for j in plan.joins] + [c for i in plan.items for c in i.local] + [f.expression for f in plan.returns]:
        found += unsupported(expression)
    if any(field.array for field in plan.returns):
        found.append("array fields need closures, which this engine does not run yet")
    return list(dict.fromkeys(found))


def layout_of(plan: Plan, kinds: Mapping[str, Kind], texts: TextTable, options: EngineOptions) -> Layout:
    """Lays a plan out.

    Args:
        plan: without refusals.
        kinds: kinds of attributes as batches have shown them.
        texts: with the plan's constants pinned.
        options: which optimisations are on.
    """
    compiler = compiler_of(plan, kinds, texts)
    negations = _Negations(plan, options)
    local = own_conditions(plan, compiler)
    predicates = _Predicates(plan, compiler, options)
    checks = negations.checks(predicates)
    fields = tuple(_field(plan, compiler, field.name, field.expression, field.kind) for field in plan.returns)
    places = np.array([row[at.ITEM_PLACE] for row in negations.items], np.int64)
    outside = [item.index for item in plan.items if item.negated and item.lacks]
    taking = taking_of(plan, compiler, local, places, outside, partitioned=options.partitioned)
    shape = np.zeros(at.SHAPE_SIZE, np.int64)
    shape[at.POSITIVES] = len(plan.positive)
    shape[at.SLOT_STACKS], shape[at.STACKS] = negations.slot_stacks, negations.stacks
    shape[at.WITHIN] = -1 if plan.within is None else plan.within.size
    shape[at.STATES_AT] = taking.states_at
    shape[at.OPENING] = signed(sum(1 << k for k, row in enumerate(negations.items) if row[at.ITEM_NEEDS] < 0))
    shape[at.WINDOW_PUSHDOWN] = int(options.window_pushdown)
    shape[at.RESIDUAL] = int(not options.partitioned and bool(plan.equivalence))
    has_end = plan.items[-1].negated
    shape[at.CHAIN] = 1 + negations.stacks if has_end else -1
    expires = plan.on_timeout == "emit" and plan.within is not None and len(plan.positive) > 1
    shape[at.EXPIRY] = 1 + negations.stacks + int(has_end) if expires else -1
    shape[at.START_BARRIERS], shape[at.START_BARRIERS_END] = negations.start_bars
    shape[at.END_BARRIERS], shape[at.END_BARRIERS_END] = negations.end_bars
    shape[at.END_CHECKS], shape[at.END_CHECKS_END] = checks.at_end
    positives = [
        [item.index, negations.stack_of_place[place], *negations.bars[place], *predicates.at_place[place], *checks.at_place[place]]
        for place, item in enumerate(plan.positive)
    ]
    tables = PlanTables(
        shape,
        _table("items", negations.items),
        _table("positives", positives),
        _table("barriers", [[stack] for stack in negations.barriers]),
        _table("checks", checks.rows),
        _table("predicates", predicates.rows),
        taking.keys,
        taking.agreeing,
    )
    return Layout(
        taking=taking,
        tables=tables,
        fields=fields,
        link_width=1 + negations.stacks + int(has_end) + int(expires),
        slot_width=_padded(KEY + len(taking.keys) + negations.slot_stacks),
        wild_stacks=negations.stacks - negations.slot_stacks,
    )


def _table(name: str, rows: Iterable[Iterable[int]]) -> np.ndarray:
    return np.array(list(rows), np.int64).reshape(-1, len(at.COLUMNS[name]))


def _padded(width: int) -> int:
    """A width that keeps a slot inside as few cache lines as it can be: 4 cells, or a multiple of 8."""
    return 4 if width <= 4 else -(-width // 8) * 8


def _field(plan: Plan, compiler: Compiler, name: str, expression: Expression, kind: Kind) -> FieldSource:
    cell = compiler.cell_of(expression)
    if cell is not None:
        place = plan.positive.index(plan.items[cell.item])
        return FieldSource(name, cell.kind, place, cell.column, 0, 0)
    return FieldSource(name, kind, -1, -1, *compiler.compile(expression, kind))


class _Negations:
    """Stacks, and the negations that need no look at single events (bars)."""

    def __init__(self, plan: Plan, options: EngineOptions) -> None:
        self._plan = plan
        self._simple = options.partitioned or not plan.equivalence
        self._keys = len(plan.equivalence)
        last = len(plan.positive) - 1
        self.gap = self._gaps(plan.items)
        """Per item: for a negated one the place of the positive item before it (-1: start)."""
        has_end = plan.items[-1].negated
        self.stack_of_place = [place if place < last or (has_end and place == 0) else -1 for place in range(last + 1)]
        negated = [item for item in plan.items if item.negated]
        first = sum(stack >= 0 for stack in self.stack_of_place)
        self.stack_of_item = {item.index: first + k for k, item in enumerate(negated)}
        self.slot_stacks = first + len(negated)
        outside = [item for item in negated if item.lacks]
        self.wild_of_item = {item.index: self.slot_stacks + k for k, item in enumerate(outside)}
        self.stacks = self.slot_stacks + len(outside)
        self.items = [self._item_row(item) for item in plan.items]
        self.barriers: list[int] = []
        self.bars = [self._bar([i for i in negated if self.gap[i.index] == place and place < last]) for place in range(last + 1)]
        self.start_bars = self._bar([item for item in negated if self.gap[item.index] < 0])
        self.end_bars = self._bar([item for item in negated if self.gap[item.index] == last])

    @staticmethod
    def _gaps(items: tuple[Item, ...]) -> list[int]:
        gaps, place = [], -1
        for item in items:
            place += not item.negated
            gaps.append(place)
        return gaps

    def _item_row(self, item: Item) -> list[int]:
        place = self.gap[item.index]
        last = len(self._plan.positive) - 1
        if not item.negated:
            return [place, self.stack_of_place[place], -1, self.stack_of_place[place - 1] if place > 0 else -1]
        # a negated end matters while some first event is in the window; a negated middle, while the item before it has one
        needs = -1 if place < 0 else (self.stack_of_place[0] if place == last else self.stack_of_place[place])
        return [-1, self.stack_of_item[item.index], self.wild_of_item.get(item.index, -1), needs]

    def _predicates_of(self, item: Item) -> list[JoinPredicate]:
        return [join for join in self._plan.joins if join.negated_item == item.index]

    def sources(self, item: Item) -> list[tuple[int, bool, bool]]:
        """(stack, is a bar, must compare keys) of the one or two stacks that hold an item's events."""
        bare = not self._predicates_of(item)
        found = [(self.stack_of_item[item.index], bare and self._simple, not self._simple)]
        if item.index in self.wild_of_item:
            # with one attribute an event outside the partitions lacks it, and so agrees with every value
            agrees = self._keys == 1
            found.append((self.wild_of_item[item.index], bare and agrees, not agrees))
        return found

    def _bar(self, items: list[Item]) -> tuple[int, int]:
        start = len(self.barriers)
        self.barriers += [stack for item in items for stack, is_bar, _ in self.sources(item) if is_bar]
        return start, len(self.barriers)

    def checks(self, predicates: _Predicates) -> _Checks:
        """The negations that are no bars, with the place of construction at which they are decided."""
        last = len(self._plan.positive) - 1
        by_place: list[list[list[int]]] = [[] for _ in range(last + 1)]
        at_end: list[list[int]] = []
        for item in self._plan.items:
            if not item.negated:
                continue
            tests = predicates.negated[item.index]
            place = self.gap[item.index]
            kind = at.CHECK_START if place < 0 else (at.CHECK_AT_END if place == last else at.CHECK_MIDDLE)
            decided = 0 if kind == at.CHECK_START else min(place, predicates.lowest_place[item.index])
            for stack, is_bar, residual in self.sources(item):
                if not is_bar:
                    highest = max(place + 1, predicates.highest_place[item.index])
                    row = [kind, place, stack, item.index, int(residual), *tests, highest]
                    (at_end if kind == at.CHECK_AT_END else by_place[decided]).append(row)
        return _Checks(by_place, at_end)


class _Checks:
    """Rows of checks, grouped by place; those of negated ends last."""

    def __init__(self, by_place: list[list[list[int]]], at_end: list[list[int]]) -> None:
        self.rows: list[list[int]] = []
        self.at_place = [self._group(rows) for rows in by_place]
        self.at_end = self._group(at_end)

    def _group(self, rows: list[list[int]]) -> tuple[int, int]:
        start = len(self.rows)
        self.rows += rows
        return start, len(self.rows)


class _Predicates:
    """Rows of join predicates: those over positive items grouped by the place that binds their last event, the others by negated item."""

    def __init__(self, plan: Plan, compiler: Compiler, options: EngineOptions) -> None:
        self._compiler = compiler
        self._place = {item.index: place for place, item in enumerate(plan.positive)}
        self.rows: list[list[int]] = []
        by_place: list[list[JoinPredicate]] = [[] for _ in plan.positive]
        for join in plan.joins:
            if join.negated_item is None:
                by_place[self._lowest(join) if options.predicate_pushdown else 0].append(join)
        self.at_place = [self._group(joins) for joins in by_place]
        self.negated: dict[int, tuple[int, int]] = {}
        self.lowest_place: dict[int, int] = {}
        self.highest_place: dict[int, int] = {}
        for item in plan.items:
            if item.negated:
                joins = [join for join in plan.joins if join.negated_item == item.index]
                self.negated[item.index] = self._group(joins)
                lowest = min((self._lowest(join) for join in joins), default=len(plan.positive))
                self.highest_place[item.index] = max((self._highest(join) for join in joins), default=0)
                self.lowest_place[item.index] = lowest if options.predicate_pushdown else 0

    def _lowest(self, join: JoinPredicate) -> int:
        """Construction binds from the last item to the first: a predicate is decided at its lowest place."""
        return min((self._place[item] for item in join.items if item in self._place), default=0)

    def _highest(self, join: JoinPredicate) -> int:
        return max((self._place[item] for item in join.items if item in self._place), default=0)

    def _group(self, joins: list[JoinPredicate]) -> tuple[int, int]:
        start = len(self.rows)
        self.rows += [[*self._row(join.condition), self._highest(join)] for join in joins]
        return start, len(self.rows)

    def _row(self, condition: Expression) -> list[int]:
        prepared = self._compiler.hoisted(condition)
        start, stop = self._compiler.compile(prepared)
        row = [MODE_PROGRAM, start, stop, 0, 0, 0, 0, 0, 0]
        if not isinstance(prepared, Comparison):
            return row
        left: Any = prepared.left
        right: Any = prepared.right
        operator = OPERATORS[prepared.operator]
        if isinstance(left, Cell) and isinstance(right, Cell):
            mode = comparison_mode(left, right, prepared.operator)
            return [mode, start, stop, operator, left.item, left.column, right.item, right.column, 0]
        if isinstance(left, Arithmetic) and left.operator == "-" and isinstance(right, Literal):
            a: Any = left.left
            b: Any = left.right
            limit = right.value if isinstance(right.value, int) and right.kind is not Kind.FLOAT else 2**63
            if abs(limit) < 2**63 and isinstance(a, Cell) and isinstance(b, Cell) and Kind.FLOAT not in (a.kind, b.kind):
                return [MODE_DIFFERENCE, start, stop, operator, a.item, a.column, b.item, b.column, limit]
        return row
