"""From a plan to the cells of an event: which attributes are read, what is computed once per event, which conditions an event must satisfy by itself.

Every way of matching takes candidates up like this; what it makes of them stands in a layout of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.cep.cells.arrays import CELL_TYPE, FIRST_ATTRIBUTE, STATES_PER_WORD, Integers, Programs, signed
from app.cep.cells.texts import TextTable
from app.cep.predicates.program import Compiler, ProgramCell, TextCell, texts_in
from app.events.types import Kind
from app.query import expressions as e
from app.query.plan import Plan

RANK_BIT = 62
"""In masks: every event of a plan that counts events is taken up."""


@dataclass(frozen=True, slots=True, eq=False)
class Taking:
    """How candidates of a plan are taken up.

    Attributes:
        programs: all programs of the plan.
        attributes: attribute → cell; the order of the equivalence attributes and `Plan.columns`.
        kinds: kinds of attributes as batches have shown them.
        derived: cells that are computed from others.
        width: cells per event, with the words of packed states at the end (from ``states_at``).
        local: (item, start, stop) of programs that a candidate of the item must satisfy.
        key: (attribute, kind, cell) of the equivalence attributes, sorted.
        keys: int64 (keys,), cells by which partitions are made.
        agreeing: int64 (attributes,), cells of all equivalence attributes.
        place_of_item: int64 (items,), column of a match's row in which the event of an item stands, -1: none; for programs.
        all_items: mask of all items.
        outside_mask: items that an event without some equivalence attribute can be.
    """

    programs: Programs
    attributes: Mapping[str, int]
    kinds: Mapping[str, Kind]
    derived: tuple[TextCell | ProgramCell, ...]
    width: int
    states_at: int
    local: tuple[tuple[int, int, int], ...]
    key: tuple[tuple[str, Kind, int], ...]
    keys: Integers
    agreeing: Integers
    place_of_item: Integers
    all_items: int
    outside_mask: int


class Stored(Protocol):
    """A store of events, as far as those who take candidates up and read fields ask it."""

    cells: Integers
    spotted: set[int]
    """Cells that were not present in some event so far; the others need no look at their states."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What taking up and reading fields share: how cells are laid out, the texts, and the store."""

    taking: Taking
    texts: TextTable
    store: Stored


def compiler_of(plan: Plan, kinds: Mapping[str, Kind], texts: TextTable) -> Compiler:
    """A compiler that knows the plan's attributes, the equivalence attributes first.

    Args:
        plan: of a query.
        kinds: kinds of attributes as batches have shown them.
        texts: with the plan's constants pinned.
    """
    names = dict.fromkeys([*sorted(plan.equivalence), *plan.columns])
    return Compiler({name: FIRST_ATTRIBUTE + k for k, name in enumerate(names)}, kinds, texts)


def own_conditions(plan: Plan, compiler: Compiler) -> tuple[tuple[int, int, int], ...]:
    """(item, start, stop) of the programs of conditions on one event alone."""
    return tuple((item.index, *compiler.compile(_of_item(condition, item.index))) for item in plan.items for condition in item.local)


def _of_item(condition: Any, item: int) -> Any:
    if isinstance(condition, e.AttributeOf):
        return replace(condition, item=item, index=None)
    return e.rebuilt(condition, lambda inner: _of_item(inner, item))


def taking_of(
    plan: Plan,
    compiler: Compiler,
    local: tuple[tuple[int, int, int], ...],
    place_of_item: Integers,
    outside: Iterable[int] = (),
    *,
    partitioned: bool = True,
) -> Taking:
    """How candidates are taken up, once everything of the plan is compiled.

    Args:
        plan: of a query.
        compiler: from `compiler_of`; what is compiled with it later has no cells.
        local: from `own_conditions`.
        place_of_item: see `Taking`.
        outside: items that an event without some equivalence attribute can be.
        partitioned: whether partitions are made by the equivalence attributes.
    """
    attributes, kinds, states_at = compiler.attributes, compiler.kinds, compiler.width
    agreeing = np.array([attributes[name] for name in sorted(plan.equivalence)], np.int64)
    return Taking(
        programs=compiler.programs(),
        attributes=attributes,
        kinds=dict(kinds),
        derived=tuple(compiler.derived),
        width=states_at + -(-states_at // STATES_PER_WORD),
        states_at=states_at,
        local=local,
        key=tuple((name, kinds.get(name, Kind.INTEGER), attributes[name]) for name in sorted(plan.equivalence)),
        keys=agreeing if partitioned else np.zeros(0, np.int64),
        agreeing=agreeing,
        place_of_item=place_of_item,
        all_items=signed((1 << len(plan.items)) - 1) | (1 << RANK_BIT if plan.ranks != "none" else 0),
        outside_mask=signed(sum(1 << item for item in outside)),
    )


def text_constants(plan: Plan, others: Iterable[e.Expression] = ()) -> list[bytes]:
    """All text constants of a plan, to be pinned in the engine's texts; ``others``: expressions that stand elsewhere in it."""
    expressions: list[e.Expression] = [join.condition for join in plan.joins]
    expressions += [local for item in plan.items for local in item.local]
    expressions += [field.expression for field in plan.returns]
    return texts_in([*expressions, *others])


def text_cells(taking: Taking) -> list[int]:
    """Cells that hold numbers of texts."""
    cells = [CELL_TYPE, *(cell for name, cell in taking.attributes.items() if name in taking.kinds and taking.kinds[name].textual)]
    cells += [d.column for d in taking.derived if isinstance(d, TextCell) and d.function in ("lower", "upper")]
    return cells


def spotted_cells(cells: Integers, states_at: int) -> set[int]:
    """Cells that are not present in some row."""
    words = np.bitwise_or.reduce(cells[:, states_at:], axis=0, initial=0)
    return {cell for cell in range(states_at) if words[cell // STATES_PER_WORD] >> 2 * (cell % STATES_PER_WORD) & 3}


def counted(items: NDArray[np.uint64], plan: Plan) -> NDArray[np.int64]:
    """Masks of candidate items, of all events where the plan counts them."""
    masks = np.ascontiguousarray(items, np.uint64).view(np.int64)
    return masks if plan.ranks == "none" else masks | np.int64(1 << RANK_BIT)
