"""States of the chains evaluator, put together and taken apart; see `app.cep.snapshot.regroup`. Its partial matches all belong to a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.cep.candidates.layout import text_cells, text_constants
from app.cep.cells.arrays import ALL_ABSENT, Integers
from app.cep.cells.texts import renumber_cells
from app.cep.chains import arrays as at
from app.cep.chains.layout import STATE_FORMAT, ChainLayout, layout_of
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.regroup import (
    Arrays,
    Owner,
    Union,
    events_in,
    followed,
    is_of,
    moved,
    numbered,
    opened,
    packed,
    partitions_in,
    renumbered,
)
from app.errors import SnapshotError
from app.query.plan import Plan
from app.query.planning.chains import chain_of

FIRST_KEY = 1
"""Where the key begins in a slot."""


def merged(plan: Plan, states: Sequence[Buffer]) -> Buffer:
    """One state of the partitions of all.

    Raises:
        SnapshotError: one of them is no state of the plan.
    """
    union, layout = _laid_out(plan, states)
    sources = [
        _Source(state.arrays, *(np.ones(len(state.arrays[name]), np.bool_) for name in ("cells", "nodes", "slots")))
        for state in union.states
    ]
    return packed(STATE_FORMAT, plan, union, _gathered(layout, sources))


def parted(plan: Plan, state: Buffer, owner: Owner, parts: int) -> list[Buffer]:
    """The state's partitions, by the part that each goes to.

    Raises:
        SnapshotError: it is no state of the plan.
    """
    union, layout = _laid_out(plan, [state])
    arrays = union.states[0].arrays
    dictionary = union.known.texts.dictionary()
    rows = owner(events_in(arrays["cells"], layout.taking, dictionary))
    slots = owner(partitions_in(arrays["slots"], layout.taking, FIRST_KEY, dictionary))
    found: list[Buffer] = []
    for part in range(parts):
        kept = is_of(rows, part)
        kept[at.NO_ROW] = True
        source = _Source(arrays, kept, kept[arrays["nodes"][:, at.ROW]], is_of(slots, part))
        found.append(packed(STATE_FORMAT, plan, union, _gathered(layout, [source])))
    return found


def _laid_out(plan: Plan, states: Sequence[Buffer]) -> tuple[Union, ChainLayout]:
    union, chain = opened(STATE_FORMAT, plan, states, text_constants(plan)), chain_of(plan)
    if chain is None:
        raise SnapshotError("the plan is no chain")
    layout = layout_of(plan, chain, union.known.kinds, union.known.texts)
    renumbered(union, layout.taking, FIRST_KEY)
    columns = text_cells(layout.taking)
    registers = [at.REGISTERS + k for k, cell in enumerate(layout.registers) if cell in columns]
    for state in union.states:
        state.arrays["runs"] = state.arrays["runs"].copy()
        renumber_cells(state.arrays["runs"], registers, state.arrays["text_numbers"])
    return union, layout


@dataclass(frozen=True, slots=True)
class _Source:
    """What is to be moved: rows (the row without cells always is), nodes and slots of a state."""

    arrays: Arrays
    rows: NDArray[np.bool_]
    nodes: NDArray[np.bool_]
    slots: NDArray[np.bool_]


def _gathered(layout: ChainLayout, sources: Sequence[_Source]) -> Arrays:
    nobody = np.zeros((1, layout.taking.width), np.int64)
    nobody[:, layout.taking.states_at :] = ALL_ABSENT
    tables: dict[str, list[Integers]] = {"cells": [nobody], "nodes": [], "runs": [], "slots": []}
    state = np.zeros(at.STATE_SIZE, np.int64)
    for source in sources:
        _take(layout, source, tables)
        state[at.STREAM_RANK] = max(state[at.STREAM_RANK], source.arrays["state"][at.STREAM_RANK])
    arrays = {name: np.concatenate(parts) for name, parts in tables.items()}
    state[at.ROWS], state[at.NODES], state[at.RUNS] = (len(arrays[name]) for name in ("cells", "nodes", "runs"))
    state[at.FREE] = -1
    return {**arrays, "state": state}


def _take(layout: ChainLayout, source: _Source, tables: dict[str, list[Integers]]) -> None:
    """Appends a source's rows to the tables."""
    arrays, before = source.arrays, {name: sum(map(len, parts)) for name, parts in tables.items()}
    rows, nodes = source.rows.copy(), source.nodes
    rows[at.NO_ROW] = False
    row_numbers = np.where(rows, numbered(rows) + before["cells"], at.NO_ROW)
    node_numbers = np.where(nodes, numbered(nodes) + before["nodes"], -1)
    heads = [layout.base + column for column in ((at.HEAD, at.HELD) if layout.ordered else (at.HEAD,))]
    slots = arrays["slots"][source.slots].copy()
    live = followed(slots[:, heads].reshape(-1), arrays["runs"][:, at.NEXT_RUN])
    run_numbers = np.where(live, numbered(live) + before["runs"], -1)
    slots[:, heads] = moved(run_numbers, slots[:, heads])
    moved_nodes, runs = arrays["nodes"][nodes].copy(), arrays["runs"][live].copy()
    moved_nodes[:, at.PARENT] = moved(node_numbers, moved_nodes[:, at.PARENT])
    moved_nodes[:, at.ROW] = row_numbers[moved_nodes[:, at.ROW]]
    runs[:, at.NEXT_RUN] = moved(run_numbers, runs[:, at.NEXT_RUN])
    runs[:, at.NEWEST_NODE] = moved(node_numbers, runs[:, at.NEWEST_NODE])
    policy = int(layout.tables.shape[at.POLICY])
    if policy >= 0:
        best = runs[:, policy + at.BEST_LENGTH] > 0
        runs[best, policy + at.BEST_NODE] = moved(node_numbers, runs[best, policy + at.BEST_NODE])
    for name, own in (("cells", arrays["cells"][rows]), ("nodes", moved_nodes), ("runs", runs), ("slots", slots)):
        tables[name].append(own)
