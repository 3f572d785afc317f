"""States of the runs evaluator, put together and taken apart; see `app.cep.snapshot.regroup`.

Only what is partitioned moves: a query that counts all events of its streams (contiguity in the stream, windows in events or opened by them) is in
one bucket. So ranks in the stream are nothing but an order among the events of one engine, and are given anew: those of the rows in total order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.cep.cells.arrays import ALL_ABSENT, Integers
from app.cep.cells.texts import TextTable
from app.cep.runs import arrays as at
from app.cep.runs.automaton.grammar import grammar_of
from app.cep.runs.automaton.terms_text import terms_from_bytes, terms_to_bytes
from app.cep.runs.layout import STATE_FORMAT, RunLayout, layout_of, pinned_texts
from app.cep.runs.policies import partition_of
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.regroup import (
    Arrays,
    Opened,
    Owner,
    Union,
    events_in,
    followed,
    in_total_order,
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

FIRST_KEY = 1
"""Where the key begins in a slot."""
_UNDECIDED = (1 << 63) - 1
"""W_RANK of a match that waits for a time."""


def merged(plan: Plan, states: Sequence[Buffer]) -> Buffer:
    """One state of the partitions of all.

    Raises:
        SnapshotError: one of them is no state of the plan.
    """
    union, layout = _laid_out(plan, states)
    numbers, rows = in_total_order([state.arrays["cells"][1:] for state in union.states])
    sources = [_Source.whole(state, _behind_nobody(new)) for state, new in zip(union.states, numbers, strict=True)]
    return _gathered(plan, layout, union, sources, rows + 1)


def parted(plan: Plan, state: Buffer, owner: Owner, parts: int) -> list[Buffer]:
    """The state's partitions, by the part that each goes to.

    Raises:
        SnapshotError: it is no state of the plan.
    """
    union, layout = _laid_out(plan, [state])
    arrays = union.states[0].arrays
    dictionary = union.known.texts.dictionary()
    rows = owner(events_in(arrays["cells"][1:], layout.taking, dictionary))
    slots = owner(partitions_in(arrays["slots"], layout.taking, FIRST_KEY, dictionary))
    found: list[Buffer] = []
    for part in range(parts):
        kept = is_of(rows, part)
        source = _Source(union.states[0], _behind_nobody(numbered(kept)), is_of(slots, part))
        found.append(_gathered(plan, layout, union, [source], int(np.count_nonzero(kept)) + 1))
    return found


def _behind_nobody(numbers: Integers) -> Integers:
    """Numbers of rows where row 0 is the one without cells, as it was."""
    return np.concatenate([np.array([at.ABSENT_ROW]), np.where(numbers >= 0, numbers + 1, -1)])


def _laid_out(plan: Plan, states: Sequence[Buffer]) -> tuple[Union, RunLayout]:
    union = opened(STATE_FORMAT, plan, states, pinned_texts(plan))
    layout = layout_of(plan, grammar_of(plan), union.known.kinds, union.known.texts)
    if layout.static["shape"][at.WINDOW_KIND] in at.LISTED_WINDOWS:
        raise SnapshotError("its windows are cut in the whole stream")
    renumbered(union, layout.taking, FIRST_KEY)
    return union, layout


@dataclass(frozen=True, slots=True)
class _Source:
    """What is to be moved of a state.

    Attributes:
        state: the state.
        rows: by row its new number, -1: it is not moved; everything that hangs on a row goes with it.
        slots: bool (slots,), which partitions are.
    """

    state: Opened
    rows: Integers
    slots: NDArray[np.bool_]

    @staticmethod
    def whole(state: Opened, rows: Integers) -> _Source:
        """All of it."""
        return _Source(state, rows, np.ones(len(state.arrays["slots"]), np.bool_))

    @property
    def nodes(self) -> NDArray[np.bool_]:
        """Bool (nodes,), which are moved."""
        return self.rows[self.state.arrays["nodes"][:, at.ROW]] >= 0

    def ranks(self) -> tuple[Integers, Integers]:
        """Old ranks in the stream, ascending, and the new ones, of the events of which both are known."""
        nodes, negated = self.state.arrays["nodes"], self.state.arrays["negated"]
        old = np.concatenate([nodes[:, at.S_RANK], negated[:, at.N_SRANK]])
        new = self.rows[np.concatenate([nodes[:, at.ROW], negated[:, at.N_ROW]])]
        known = new >= 0
        old, first = np.unique(old[known], return_index=True)
        return old, new[known][first]


def _gathered(plan: Plan, layout: RunLayout, union: Union, sources: Sequence[_Source], rows: int) -> Buffer:
    shape = layout.static["shape"]
    cells = np.zeros((rows, layout.taking.width), np.int64)
    cells[at.ABSENT_ROW, layout.taking.states_at :] = ALL_ABSENT
    state = np.zeros(at.WILD_HEADS + max(1, layout.wild_lists), np.int64)
    state[at.WILD_HEADS :] = -1
    state[at.LAST_TIME] = -at.END_OF_TIME
    automata = [terms_from_bytes(source.state.arrays["terms"].tobytes()) for source in sources]
    terms = {term: number for number, term in enumerate(dict.fromkeys(term for own in automata for term in own))}
    tables: dict[str, list[Integers]] = {name: [] for name in ("nodes", "slots", "negated", "crossed", "waiting", "held")}
    borders: dict[str, list[int]] = {}
    outside: list[list[Integers]] = []
    for source, automaton in zip(sources, automata, strict=True):
        kept = source.rows >= 0
        kept[at.ABSENT_ROW] = False
        cells[source.rows[kept]] = source.state.arrays["cells"][kept]
        outside.append(_take(layout, source, np.array([terms[term] for term in automaton], np.int64), tables))
        borders |= _borders(layout, union.known.texts, source)
        state[at.LAST_TIME] = max(state[at.LAST_TIME], source.state.arrays["state"][at.LAST_TIME])
    arrays = {name: np.concatenate(parts) for name, parts in tables.items()}
    for number in range(int(shape[at.WILD_LISTS])):
        arrays["negated"], state[at.WILD_HEADS + number] = _one_list(arrays["negated"], np.concatenate([one[number] for one in outside]))
    for counter, name in ((at.NODES, "nodes"), (at.NEGATED, "negated"), (at.CROSSINGS, "crossed"), (at.WAITS, "waiting")):
        state[counter] = len(arrays[name])
    state[at.ROWS], state[at.STREAM_RANK] = rows, rows + 1  # one further than the next: no event that comes is next to one that is there
    windows = np.zeros((0, 4), np.int64)
    written = {"terms": terms_to_bytes(list(terms)), "borders": json.dumps(borders).encode()}
    texts = {name: np.frombuffer(data, np.uint8) for name, data in written.items()}
    whole: Arrays = {"state": state, "cells": cells, "windows": windows, **arrays, **texts}
    return packed(STATE_FORMAT, plan, union, whole)


def _take(layout: RunLayout, source: _Source, states: Integers, tables: dict[str, list[Integers]]) -> list[Integers]:
    """Appends a source's part to the tables; returns the negated events outside partitions, by list: their places in the table, newest first.

    Args:
        layout: of the plan.
        source: what is moved.
        states: by number of a state of the automaton, its new number.
        tables: in-out.
    """
    arrays, shape = source.state.arrays, layout.static["shape"]
    before = {name: sum(map(len, parts)) for name, parts in tables.items()}
    old_ranks, new_ranks = source.ranks()
    kept = {
        "nodes": source.nodes,
        "negated": source.rows[arrays["negated"][:, at.N_ROW]] >= 0,
        "crossed": source.rows[arrays["crossed"][:, at.C_UPPER]] >= 0,
        "waiting": source.nodes[arrays["waiting"][:, at.W_NODE]],
        "held": source.nodes[arrays["held"][:, at.F_NODE]],
    }
    new = {name: np.where(kept[name], numbered(kept[name]) + before[name], -1) for name in ("nodes", "negated", "crossed")}
    own = {name: arrays[name][which].copy() for name, which in kept.items()}
    nodes = own["nodes"]
    frame = range(int(shape[at.FRAME]), int(shape[at.REGISTERS]))
    for column in (at.NEXT_RUN, at.PARENT, at.PREVIOUS, *frame):
        nodes[:, column] = moved(new["nodes"], nodes[:, column])
    nodes[:, at.CROSSED] = moved(new["crossed"], nodes[:, at.CROSSED])
    for column in (at.ROW, at.FIRST_ROW):
        nodes[:, column] = source.rows[nodes[:, column]]
    nodes[:, at.S_RANK] = nodes[:, at.ROW]
    nodes[:, at.STATE] = np.where(
        nodes[:, at.STATE] >= 0, states[np.maximum(nodes[:, at.STATE], 0)], at.LEFT - states[np.maximum(at.LEFT - nodes[:, at.STATE], 0)]
    )
    own["negated"][:, at.N_ROW] = own["negated"][:, at.N_SRANK] = source.rows[own["negated"][:, at.N_ROW]]
    own["negated"][:, at.OLDER] = moved(new["negated"], own["negated"][:, at.OLDER])
    own["crossed"][:, at.C_OLDER] = moved(new["crossed"], own["crossed"][:, at.C_OLDER])
    own["crossed"][:, at.C_LOWER] = moved(new["nodes"], own["crossed"][:, at.C_LOWER])
    own["crossed"][:, at.C_UPPER] = source.rows[own["crossed"][:, at.C_UPPER]]
    waiting = own["waiting"]
    waiting[:, at.W_NODE] = moved(new["nodes"], waiting[:, at.W_NODE])
    waiting[:, at.W_STATE] = states[waiting[:, at.W_STATE]]
    decided = waiting[:, at.W_RANK] != _UNDECIDED
    waiting[decided, at.W_RANK] = _ranked(waiting[decided, at.W_RANK], old_ranks, new_ranks)
    own["held"][:, at.F_NODE] = moved(new["nodes"], own["held"][:, at.F_NODE])
    slots = arrays["slots"][source.slots].copy()
    base = FIRST_KEY + len(layout.static["keys"])
    slots[:, base + at.S_HEAD] = moved(new["nodes"], slots[:, base + at.S_HEAD])
    lists = slice(base + at.S_LISTS, base + at.S_LISTS + int(shape[at.LISTS]))
    slots[:, lists] = moved(new["negated"], slots[:, lists])
    if shape[at.REACHING]:
        slots[:, lists.stop] = _ranked(slots[:, lists.stop], old_ranks, new_ranks)
    for name, table in {**own, "slots": slots}.items():
        tables[name].append(table)
    heads = arrays["state"][at.WILD_HEADS : at.WILD_HEADS + int(shape[at.WILD_LISTS])]
    return [new["negated"][followed(heads[k : k + 1], arrays["negated"][:, at.OLDER])] for k in range(len(heads))]


def _borders(layout: RunLayout, texts: TextTable, source: _Source) -> dict[str, list[int]]:
    """Up to where matches of a partition were told, of those that are moved with a beginning of a match: only that can lie before a border.

    An engine that gets another one's border with its partition must be the only one that has it: the others would keep it as it was then.
    """
    borders: dict[str, list[int]] = json.loads(source.state.arrays["borders"].tobytes())
    if not borders:
        return {}
    cells = source.state.arrays["cells"]
    first = np.unique(source.state.arrays["nodes"][source.nodes, at.FIRST_ROW])
    partitions = {json.dumps(partition_of(cells[row], layout, texts)) for row in first.tolist()}
    return {key: border for key, border in borders.items() if json.dumps(json.loads(key)[0]) in partitions}


def _ranked(ranks: Integers, old: Integers, new: Integers) -> Integers:
    """New ranks of events that may not be stored: that of the last stored one at or before them."""
    places = np.searchsorted(old, ranks, side="right") - 1
    return np.where(places >= 0, new[np.maximum(places, 0)], 0) if len(old) else np.zeros_like(ranks)


def _one_list(negated: Integers, places: Integers) -> tuple[Integers, int]:
    """Makes one list, newest first, of entries that several states held: of an event that all of them know, one; returns the newest entry."""
    if not len(places):
        return negated, -1
    rows, first = np.unique(negated[places, at.N_ROW], return_index=True)
    chosen = places[first]
    negated[chosen, at.OLDER] = np.concatenate([np.array([-1]), chosen[:-1]])
    assert (np.diff(rows) > 0).all(), "one entry per event"  # noqa: S101
    return negated, int(chosen[-1])
