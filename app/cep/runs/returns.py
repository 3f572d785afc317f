"""Builds the columns of the matches that runs found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from app.cep.cells.arrays import Integers
from app.cep.cells.texts import TextTable
from app.cep.matches import Constituents, Lists, Matches
from app.cep.returns.columns import event_table, typed_column
from app.cep.runs import arrays as at
from app.cep.runs.arrays import NOTHING_HIDDEN, RunHiding, RunMachine, RunTables, world_of
from app.cep.runs.kernels_returns import chain_events, chain_starts, field_values, key_values, list_starts, list_values
from app.cep.runs.layout import RunField, RunLayout
from app.cep.runs.store import RunStore
from app.events.batch import Column


@dataclass(frozen=True, slots=True)
class RunParts:
    """What the steps after matching share."""

    layout: RunLayout
    tables: RunTables
    machine: RunMachine
    texts: TextTable
    store: RunStore
    hiding: RunHiding = NOTHING_HIDDEN

    def world(self) -> Integers:
        """The tables as they stand now."""
        return world_of(self.tables, self.machine, self.store.memory(), self.hiding, self.store.addresses)


def chains(world: Integers, nodes: Integers) -> Constituents:
    """The bound events of matches that end with some nodes, in total order."""
    starts = np.zeros(len(nodes) + 1, np.int64)
    chain_starts(world, nodes, starts)
    items, rows = np.empty(int(starts[-1]), np.int64), np.empty(int(starts[-1]), np.int64)
    chain_events(world, nodes, starts, items, rows)
    return Constituents(starts, items, rows)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """A field or key attribute of matches, of closures element by element; see `app.cep.returns.columns.typed_column`.

    Attributes:
        starts: int64 (matches + 1,), of a list.
    """

    values: Integers
    states: NDArray[np.uint8]
    seen: int
    starts: Integers | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """Matches read off their nodes, which need not stay; rows must, as long as these are not made into `Matches`."""

    time: Integers
    bound: Constituents
    fields: Sequence[Values]
    key: Sequence[Values]
    windows: Integers | None


def read_matches(parts: RunParts, found: Integers) -> Read:
    """Reads matches (or timeouts) off their nodes.

    Args:
        parts: of the engine.
        found: int64 (matches, 3): node, time, window.
    """
    memory, layout, world = parts.store.memory(), parts.layout, parts.world()
    nodes = np.ascontiguousarray(found[:, at.F_NODE])
    key = []
    for _, _, cell in layout.taking.key:
        values, states = np.empty(len(nodes), np.int64), np.zeros(len(nodes), np.uint8)
        key_values(world, nodes, cell, layout.taking.states_at, values, states)
        key.append(Values(values, states, 1))
    kind = parts.tables.shape[at.WINDOW_KIND]
    windows: Integers | None = None
    if kind != at.NO_WINDOW:
        windows = found[:, at.F_WINDOW].copy()
        if kind in (at.OPENED_TIME, at.OPENED_COUNT):
            windows = memory.windows[windows - parts.store.state[at.WINDOW_BASE], at.O_ROW]
    fields = [_field(world, field, nodes) for field in layout.fields]
    return Read(found[:, at.F_TIME].copy(), chains(world, nodes), fields, key, windows)


def _field(world: Integers, field: RunField, nodes: Integers) -> Values:
    if field.predicate >= 0:
        values, states = np.empty(len(nodes), np.int64), np.empty(len(nodes), np.uint8)
        return Values(values, states, field_values(world, field.predicate, nodes, values, states))
    starts = np.zeros(len(nodes) + 1, np.int64)
    if field.binding < 0:
        return Values(np.zeros(0, np.int64), np.zeros(0, np.uint8), 1, starts)
    list_starts(world, field.binding, nodes, starts)
    values, states = np.empty(int(starts[-1]), np.int64), np.empty(int(starts[-1]), np.uint8)
    return Values(values, states, list_values(world, field.binding, field.cell, nodes, starts, values, states), starts)


def matches_of(parts: RunParts, read: Sequence[Read]) -> Matches:
    """What was read in one feed, one after the other, as columns."""
    one = read[0] if len(read) == 1 else _together(read)
    layout, texts = parts.layout, parts.texts
    cells = parts.store.cells[: parts.store.state[at.ROWS]] if len(one.time) else parts.store.cells[:0].copy()
    fields: dict[str, Column | Lists] = {}
    for field, own in zip(layout.fields, one.fields, strict=True):
        column = typed_column(field.kind, texts, own.values, own.states, own.seen)
        fields[field.name] = column if own.starts is None else Lists(column, own.starts)
    names = [(name, kind) for name, kind, _ in layout.taking.key]
    key = {name: typed_column(kind, texts, own.values, own.states, own.seen) for (name, kind), own in zip(names, one.key, strict=True)}
    return Matches(one.time, np.zeros((len(one.time), 0), np.int64), event_table(cells, texts), fields, key, one.bound, one.windows)


def _together(read: Sequence[Read]) -> Read:
    fields = [_joined(own) for own in zip(*(one.fields for one in read), strict=True)]
    key = [_joined(own) for own in zip(*(one.key for one in read), strict=True)]
    items, rows = (np.concatenate([getattr(one.bound, name) for one in read]) for name in ("items", "rows"))
    bound = Constituents(_starts([one.bound.starts for one in read]), items, rows)
    windows = [one.windows for one in read if one.windows is not None]
    return Read(np.concatenate([one.time for one in read]), bound, fields, key, np.concatenate(windows) if windows else None)


def _joined(parts: Sequence[Values]) -> Values:
    starts = [part.starts for part in parts if part.starts is not None]
    values, states = np.concatenate([part.values for part in parts]), np.concatenate([part.states for part in parts])
    return Values(values, states, reduce(or_, (part.seen for part in parts)), _starts(starts) if starts else None)


def _starts(parts: Sequence[Integers]) -> Integers:
    """Where lists begin when the lists of all parts stand one after the other."""
    ends = np.cumsum([part[-1] for part in parts])
    return np.concatenate([parts[0], *(part[1:] + end for part, end in zip(parts[1:], ends, strict=False))])
