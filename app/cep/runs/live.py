"""The partial matches of a runs engine as arrays, for shedders that drop partial matches: looked at between two feeds, or ended.

live = live_runs(engine)
end_runs(engine, live, live.time_left_ms(now) > limit)       # bool: True = keep
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from app.cep.candidates.layout import Taking
from app.cep.cells.arrays import CELL_OFFSET, CELL_SOURCE, Integers
from app.cep.runs import arrays as at
from app.cep.runs import kernels_live
from app.cep.runs.engine import RunsEngine
from app.cep.runs.kernels_time import count_runs
from app.cep.runs.returns import chains
from app.events.types import Kind
from app.query.plan import Plan

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


Function = Literal["first", "last", "min", "max", "sum", "avg", "count"]
"""Of the values of several events."""
_FUNCTIONS: tuple[Function, ...] = get_args(Function)
"""In the order of ``TELLS_FIRST`` and what follows (`app.cep.runs.arrays`)."""
ANY_ITEM = -1


@dataclass(frozen=True, slots=True)
class Question:
    """What a partial match may be asked about events that it has bound.

    Attributes:
        function: of their values.
        binding: only those that are bound to it, as expressions call it (`Item.bound_to`); ``ANY_ITEM``: all of them, of which there are ``first`` and ``last`` only.
        attribute: numeric; None for ``count``, which asks for none.
    """

    function: Function
    binding: int
    attribute: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """What the partial matches of a query are asked, prepared once.

    Attributes:
        asked: one after the other.
        starts: int64 (items + 1,), what is asked about the events of item k are ``numbers[starts[k] : starts[k + 1]]``.
        numbers: int64, places in ``asked``.
    """

    asked: tuple[Question, ...]
    starts: Integers
    numbers: Integers

    @staticmethod
    def of(plan: Plan, asked: Sequence[Question]) -> Questions:
        """About the items of a query."""
        about = [[number for number, one in enumerate(asked) if one.binding == item.bound_to] for item in plan.items]
        starts = np.concatenate([[0], np.cumsum([len(own) for own in about])]).astype(np.int64)
        return Questions(tuple(asked), starts, np.array([number for own in about for number in own], np.int64))


def told_of(engine: RunsEngine, live: LiveRuns, questions: Questions) -> NDArray[np.float64]:
    """What partial matches answer, float64 (questions, runs); NaN where nothing is bound that the question is about, an event has no number there, or the engine does not remember it.

    Args:
        engine: not fed since ``live`` was taken.
        live: of the engine.
        questions: about its query.

    Raises:
        ValueError: they are about a query of another number of items.
    """
    if len(questions.starts) != len(engine.plan.items) + 1:
        raise ValueError("questions about another query")
    parts = engine.parts()
    asked, told = _cells(parts.layout.taking, questions), np.empty((len(questions.asked), len(live)))
    kernels_live.tell(parts.world(), live.node, asked, questions.starts, questions.numbers, np.empty(len(asked), np.int64), told)
    return told


@lru_cache(maxsize=256)
def _cells(taking: Taking, questions: Questions) -> Integers:
    """int64 (questions, TELLS): function, cell (-1: not remembered), whether all its numbers are floats, whether all of the events are asked. A layout and questions stay the same from look to look."""
    table = np.empty((len(questions.asked), at.TELLS), np.int64)
    for row, one in zip(table, questions.asked, strict=True):
        cell, kind = taking.attributes.get(one.attribute or "", -1), taking.kinds.get(one.attribute or "")
        row[at.TELL_FUNCTION] = _FUNCTIONS.index(one.function)
        row[at.TELL_CELL] = -1 if kind is None or kind.textual else cell
        row[at.TELL_FLOAT] = kind is Kind.FLOAT
        row[at.TELL_ANY] = one.binding == ANY_ITEM
    return table
