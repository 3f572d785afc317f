"""The partial matches of a runs engine as arrays, for shedders that drop partial matches: looked at between two feeds, or ended.

live = live_runs(engine)
end_runs(engine, live, live.time_left_ms(now) > limit)       # bool: True = keep
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.cep.cells.arrays import BECAME_FLOAT, CELL_OFFSET, CELL_SOURCE, STATES_PER_WORD, Integers
from app.cep.runs import arrays as at
from app.cep.runs import kernels_live
from app.cep.runs.engine import RunsEngine
from app.cep.runs.kernels_time import count_runs
from app.cep.runs.returns import chains
from app.events.batch import PRESENT
from app.events.types import Kind

_ENDLESS = np.int64(2**62)


@dataclass(frozen=True, slots=True, eq=False)
class LiveRuns:
    """Live partial matches, one row each. They are what was asked of the engine, in one pass, and do not change with it.

    Attributes:
        node: int64, number in the engine; only good until the next feed.
        item: int64, index in `Plan.items` of the newest event's place: the state, for shedders. In a sequence it says how far the partial match came.
        begun_ms: int64, time of the first event.
        newest_ms: int64, time of the newest event.
        first: int64 (runs, 2), source and offset of the first event.
        newest: int64 (runs, 2), source and offset of the newest event.
        events_left: int64, events of its partition that may still come in its window (``within N events``); 2**62 without.
        window_ms: length of the window, ms; None without one.
        fresh: whether they are all that were not looked at before (`new_runs`).
    """

    node: Integers
    item: Integers
    begun_ms: Integers
    newest_ms: Integers
    first: Integers
    newest: Integers
    events_left: Integers
    window_ms: int | None
    fresh: bool

    def __len__(self) -> int:
        return len(self.node)

    def time_left_ms(self, now_ms: int) -> Integers:
        """int64 (runs,): how long each may still live, ms; 2**62 without a window in time."""
        if self.window_ms is None:
            return np.full(len(self), _ENDLESS)
        return np.maximum(0, self.begun_ms + self.window_ms - now_ms)


def live_runs(engine: RunsEngine) -> LiveRuns:
    """All live partial matches of an engine, without matches that wait for a negated end."""
    return _listed(engine, fresh=False)


def new_runs(engine: RunsEngine) -> LiveRuns:
    """Those of them that were made since this was asked last: the engine notes in them that they have been looked at, and what it remembers goes through snapshots."""
    return _listed(engine, fresh=True)


def _listed(engine: RunsEngine, *, fresh: bool) -> LiveRuns:
    parts = engine.parts()
    world, within = parts.world(), engine.plan.within
    count = int(count_runs(world))
    looks, places = np.empty((at.LOOKS, count), np.int64), np.empty((count, 4), np.int64)
    listed = int(kernels_live.list_runs(world, looks, places, fresh))
    looks, places = looks[:, :listed], places[:listed]
    return LiveRuns(
        looks[at.LOOK_NODE],
        looks[at.LOOK_ITEM],
        looks[at.LOOK_BEGUN],
        looks[at.LOOK_NEWEST],
        places[:, :2],
        places[:, 2:],
        looks[at.LOOK_LEFT],
        within.size if within is not None and within.unit == "ms" else None,
        fresh,
    )


def count_live(engine: RunsEngine) -> int:
    """How many partial matches are alive, without a look at each."""
    return int(count_runs(engine.parts().world()))


def end_runs(engine: RunsEngine, live: LiveRuns, kept: NDArray[np.bool_]) -> int:
    """Ends partial matches: they complete nothing any more, and no timeout tells of them.

    Args:
        engine: not fed since ``live`` was taken.
        live: of the engine.
        kept: bool (runs,), True = lives on.

    Returns:
        How many were ended.
    """
    parts = engine.parts()
    return int(kernels_live.end_runs(parts.world(), live.node[~kept], live.fresh))


@dataclass(frozen=True, slots=True, eq=False)
class BoundEvents:
    """What partial matches have bound, in total order.

    Attributes:
        starts: int64 (runs + 1,), the events of run k stand at ``starts[k] : starts[k + 1]``.
        items: int64 (bound,), index in `Plan.items`.
        rows: int64 (bound,), numbers of the events in the engine; equal for one event in many partial matches.
        places: int64 (bound, 2), source and offset.
    """

    starts: Integers
    items: Integers
    rows: Integers
    places: Integers


def bound_events(engine: RunsEngine, live: LiveRuns) -> BoundEvents:
    """The events of live partial matches; the engine was not fed since ``live`` was taken."""
    parts = engine.parts()
    bound = chains(parts.world(), live.node)
    return BoundEvents(bound.starts, bound.items, bound.rows, parts.store.cells[bound.rows][:, [CELL_SOURCE, CELL_OFFSET]])


def numbers_of(engine: RunsEngine, rows: Integers, attributes: Sequence[str]) -> NDArray[np.float64]:
    """Numeric attributes of events that an engine remembers, float64 (attributes, rows); NaN where an event has no number, or the engine does not remember it.

    Args:
        engine: not fed since the rows were told.
        rows: int64 (rows,), of `bound_events`.
        attributes: names.
    """
    parts = engine.parts()
    taking, cells = parts.layout.taking, parts.store.cells[rows]
    found = np.full((len(attributes), len(rows)), np.nan)
    for number, name in enumerate(attributes):
        cell, kind = taking.attributes.get(name), taking.kinds.get(name)
        if cell is None or kind is None or kind.textual:
            continue
        states = cells[:, taking.states_at + cell // STATES_PER_WORD] >> 2 * (cell % STATES_PER_WORD) & 3
        values = np.ascontiguousarray(cells[:, cell])
        real = (kind is Kind.FLOAT) | (states == BECAME_FLOAT)
        known = (states == PRESENT) | (states == BECAME_FLOAT)
        found[number] = np.where(known, np.where(real, values.view(np.float64), values), np.nan)
    return found
