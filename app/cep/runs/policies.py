"""Which of the found matches are reported: one per set of bindings, the first branch of an OR, the longest, and those that ``after:`` keeps.

All of this is defined on finished matches (queries/README.md, *After a match*), so it stands behind the kernels. Matches that must wait for
runs that began earlier are held here; plain plans pass through.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.cep.cells.arrays import CELL_OFFSET, CELL_SOURCE, CELL_TIME, Integers
from app.cep.cells.texts import TextTable
from app.cep.policies.after import Rule, kept_by, note_rows, numbered_groups
from app.cep.policies.arrays import ALREADY, BORDER_TIME, BORDER_WIDTH, CHANGED
from app.cep.policies.kernels_beginnings import mark_present
from app.cep.runs import arrays as at
from app.cep.runs.automaton.grammar import Grammar, runs_of
from app.cep.runs.kernels_policies import count_beginnings, list_beginnings, oldest_alive
from app.cep.runs.layout import RunLayout
from app.cep.runs.returns import RunParts, chains
from app.query import plan as p
from app.query.planning.branches import branches_of, precedes

_NOTHING = np.zeros((0, 3), np.int64)
WAITING = 2
"""Of what `oldest_alive` tells of runs and matches with the same first event: a waiting match is among them."""
FEW_BORDERS = 10_000
"""Not worth a look for those that are over."""


class Policies:
    """The policies of one plan, and what they hold back.

    Args:
        plan: of the query.
        grammar: its pattern.
    """

    def __init__(self, plan: p.Plan, grammar: Grammar) -> None:
        runs = runs_of(plan)
        self._runs, self._grammar = runs, grammar
        self._ambiguous = _ambiguous(runs.pattern, plan)
        self._branches = branches_of(runs.pattern)
        self._has_or = any(self._branches.values())
        self._units = tuple(_units(runs.pattern))
        self._holds = runs.longest or runs.after != "no-skip"
        own = [item for item, binding in enumerate(grammar.bindings) if binding == runs.after_binding]
        self._rule = Rule.of(runs.after, own, self._units) if runs.after != "no-skip" else None
        self._held = _NOTHING
        self._borders: dict[str, list[int]] = {}
        self._looked = FEW_BORDERS
        # each first event has one match then, and none of another one decides which
        self._by_first = runs.after == "skip-to-next" and not runs.longest

    @property
    def immediate(self) -> bool:
        """Whether a match is reported as soon as it is found."""
        return not self._holds

    @property
    def waiting(self) -> int:
        """Matches held back."""
        return len(self._held)

    def held_nodes(self) -> Integers:
        """Nodes that must stay."""
        return np.ascontiguousarray(self._held[:, at.F_NODE])

    def held_windows(self) -> Integers:
        """Windows that their matches were found in."""
        return np.ascontiguousarray(self._held[:, at.F_WINDOW])

    def move(self, numbers: Integers) -> None:
        """Nodes have new numbers."""
        if len(self._held):
            self._held[:, at.F_NODE] = numbers[self._held[:, at.F_NODE]]

    def distinct(self, parts: RunParts, found: Integers) -> Integers:
        """One of each set of bindings (and window)."""
        if not self._ambiguous or len(found) < 2:
            return found
        hashes = parts.store.nodes[found[:, at.F_NODE], at.HASH]
        _, first = np.unique(np.stack([hashes, found[:, at.F_WINDOW], found[:, at.F_TIME]], axis=1), axis=0, return_index=True)
        return found[np.sort(first)]

    def report(self, parts: RunParts, found: Integers, *, final: bool) -> Integers:
        """The matches to report now.

        Args:
            parts: of the engine.
            found: int64 (matches, 3), what the kernels found in this feed.
            final: nothing will come any more.
        """
        found = self.distinct(parts, found)
        if self._has_or:
            found = self._first_branches(parts, found)
        if not self._holds:
            return found
        held = np.concatenate([self._held, found]) if len(self._held) else found
        if not len(held):
            return held
        nodes, windows = np.ascontiguousarray(held[:, at.F_NODE]), np.ascontiguousarray(held[:, at.F_WINDOW])
        oldest, same = np.empty(len(held), np.int64), np.empty(len(held), np.int64)
        oldest_alive(parts.world(), nodes, windows, oldest, same)
        ready = same == 0
        if self._by_first:
            ready = same < WAITING  # what a run may yet find ends later; what waits may have ended earlier
        elif self._runs.after != "no-skip":
            ready = oldest > parts.store.nodes[nodes, at.FIRST_ROW]
        if final:
            ready[:] = True
        self._held = held[~ready]
        released = held[ready]
        if self._runs.longest:
            released = self._longest(parts, released)
        return released if self._rule is None else self._after(parts, released, self._rule)

    def _longest(self, parts: RunParts, found: Integers) -> Integers:
        """Without those whose bindings another one has, and later events."""
        nodes, windows = np.ascontiguousarray(found[:, at.F_NODE]), np.ascontiguousarray(found[:, at.F_WINDOW])
        world = parts.world()
        beginnings = np.empty(count_beginnings(world, nodes), np.int64)
        list_beginnings(world, nodes, windows, beginnings)
        own = parts.store.nodes[nodes, at.HASH] ^ (windows * np.int64(0x9E3779B97F4A7C1))
        longer = np.zeros(len(found), np.bool_)
        mark_present(own, beginnings, longer)
        return found[~longer]

    # --- OR -------------------------------------------------------------------------------------------------------------------

    def _first_branches(self, parts: RunParts, found: Integers) -> Integers:
        """Where branches of an OR bind the very same events, and every other item the same too, the first branch in the text is reported."""
        alike: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        chains = list(_chains(parts, found))
        for k, (_, rows) in enumerate(chains):
            alike[*rows, "window", int(found[k, at.F_WINDOW])].append(k)
        kept = np.ones(len(found), bool)
        for group in alike.values():
            for k in group:
                kept[k] = not any(precedes(self._branches, chains[j][0], chains[k][0]) for j in group if j != k)
        return found[kept]

    # --- after: -------------------------------------------------------------------------------------------------------------

    def _after(self, parts: RunParts, found: Integers, rule: Rule) -> Integers:
        """Goes through the matches of every partition and window in order, and drops those that begin at or before the border."""
        if not len(found):
            return found
        bound, cells = chains(parts.world(), np.ascontiguousarray(found[:, at.F_NODE])), parts.store.cells
        first = bound.rows[bound.starts[:-1]]
        windows = parts.tables.shape[at.WINDOW_KIND] != at.NO_WINDOW
        partitions, some = numbered_groups([cells[first, cell] for _, _, cell in parts.layout.taking.key], len(found))
        keys = [json.dumps(partition_of(cells[first[k]], parts.layout, parts.texts)) for k in some.tolist()]
        told_apart = [*([found[:, at.F_WINDOW]] if windows else ()), *([first] if self._by_first else ())]
        groups, some = numbered_groups([*told_apart, partitions], len(found)) if told_apart else (partitions, some)
        own = zip(partitions[some].tolist(), found[some, at.F_WINDOW].tolist(), strict=True)
        of_all = [f"[{keys[partition]}, {window if windows else 'null'}]" for partition, window in own]
        names = of_all
        if self._by_first:
            places = cells[first[some]][:, [CELL_TIME, CELL_SOURCE, CELL_OFFSET]].tolist()
            names = [f"{name[:-1]}, {time}, {source}, {offset}]" for name, (time, source, offset) in zip(of_all, places, strict=True)]
        borders = np.zeros((len(names), BORDER_WIDTH), np.int64)
        for group, name in enumerate(names):
            border = self._borders.get(name, self._borders.get(of_all[group]))  # earlier versions had one of all first events
            if border is not None:
                borders[group, : ALREADY + 1] = (1, *border)
        note_rows(bound, groups, cells, int(parts.store.state[at.ROWS]), borders)
        kept = kept_by(rule, bound, groups, cells, borders)
        for group in np.flatnonzero(borders[:, CHANGED]).tolist():
            self._borders[names[group]] = borders[group, BORDER_TIME : ALREADY + 1].tolist()
        self._forget_borders(parts)
        return found[kept]

    def _forget_borders(self, parts: RunParts) -> None:
        """Borders before every event that is alive have no effect any more."""
        if len(self._borders) < self._looked:
            return
        state = parts.store.state
        first = parts.store.cells[1 : state[at.ROWS], CELL_TIME].min(initial=int(state[at.LAST_TIME]))
        self._borders = {key: border for key, border in self._borders.items() if border[0] >= first}
        self._looked = max(FEW_BORDERS, 2 * len(self._borders))

    def saved(self) -> Mapping[str, NDArray[Any]]:
        """Arrays from which `load` makes the same."""
        return {"held": self._held, "borders": np.frombuffer(json.dumps(self._borders).encode(), np.uint8)}

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Takes over what `saved` gave."""
        self._held = arrays["held"].copy()
        self._borders = json.loads(arrays["borders"].tobytes())


def _chains(parts: RunParts, found: Integers) -> Iterator[tuple[list[int], list[int]]]:
    """Items and rows of every match, in total order."""
    bound = chains(parts.world(), np.ascontiguousarray(found[:, at.F_NODE]))
    for begin, end in pairwise(bound.starts.tolist()):
        yield bound.items[begin:end].tolist(), bound.rows[begin:end].tolist()


def partition_of(cells: Integers, layout: RunLayout, texts: TextTable) -> list[Any]:
    """The key of an event's partition, as borders name it."""
    return [texts.text(int(cells[cell])).decode("latin-1") if kind.textual else int(cells[cell]) for _, kind, cell in layout.taking.key]


def _ambiguous(pattern: p.Pattern, plan: p.Plan) -> bool:
    """Whether one set of bindings can be found in several ways."""
    if not isinstance(pattern, p.Ordered | p.Take):
        return True
    takes = pattern.parts if isinstance(pattern, p.Ordered) else (pattern,)
    for take in takes:
        if isinstance(take, p.Absent):
            continue
        if not isinstance(take, p.Take) or take.until is not None or take.different:
            return True
        if plan.items[take.item].variable is None and (take.low, take.high) != (1, 1):
            return True
    return False


def _units(pattern: p.Pattern) -> Iterator[tuple[frozenset[int], bool]]:
    """The items in textual order, groups before their contents: (items, reluctant)."""
    if isinstance(pattern, p.Take):
        yield frozenset({pattern.item}), pattern.reluctant
    elif isinstance(pattern, p.Repeated):
        yield frozenset(item for members, _ in _units(pattern.part) for item in members), pattern.reluctant
        yield from _units(pattern.part)
    elif not isinstance(pattern, p.Absent):
        for part in pattern.parts:
            yield from _units(part)
