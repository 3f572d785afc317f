"""A query that is asked again, over events of the past: for its audit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from app.asc.selected import Bitmaps, Dispatch, SelectedEvents
from app.bucket.engines import QueryEngine, new_engine
from app.bucket.hold import FOREVER
from app.bucket.matching import engine_input
from app.cep.engine import Watermarks
from app.cep.matches import Matches
from app.events.batch import EventBatch
from app.query.plan import Plan, QueryGroup

MOST_EVENTS = 20_000
"""An engine that was asked about more is not kept: its tables stay as large as they were."""
LATEST_MS = 1 << 60
"""Then time begins anew."""
Answer = tuple[Matches, Matches | None]
"""Matches, and timeouts where the plan writes them."""


class Rematch:
    """What a query finds in some events, all time being over. Called, it tells the matches.

    Making an engine takes a millisecond, as long as some ten thousand events. So where the query does not care when events happen, only how far from each other, one engine
    answers question after question: the events of each are moved to a later time, where nothing of those before is left.

    Args:
        query: index in `Catalog.plans`.
        plan: of the query.
        group: of the query.
        dispatch: of the group's bitmaps.
        reach_ms: longest time between two events that have to do with one match, where times may be moved; None: they may not.
    """

    def __init__(self, query: int, plan: Plan, group: QueryGroup, dispatch: Dispatch, *, reach_ms: int | None) -> None:
        self._query, self._plan, self._group, self._dispatch, self._reach_ms = query, plan, group, dispatch, reach_ms
        self._engine: QueryEngine | None = None
        self._now_ms = 0

    def __call__(self, batch: EventBatch, bitmaps: NDArray[np.uint64]) -> Matches:
        """Events in total order, uint64 (events, words) as what they are fed; the matches have the events' own times."""
        return self._asked(batch, bitmaps)[0]

    def timeouts(self, batch: EventBatch, bitmaps: NDArray[np.uint64]) -> Matches:
        """The same of a query that writes timeouts: what of it runs out of time."""
        _, timeouts = self._asked(batch, bitmaps)
        assert timeouts is not None, "the query writes timeouts"  # noqa: S101
        return timeouts

    def _asked(self, batch: EventBatch, bitmaps: NDArray[np.uint64]) -> Answer:
        if self._reach_ms is None:
            return self._fed(new_engine(self._plan), batch, bitmaps, FOREVER)
        if self._engine is None or self._now_ms > LATEST_MS:
            self._engine, self._now_ms = new_engine(self._plan), 0
        engine, self._engine = self._engine, None  # one that fails is not asked again
        shift_ms = self._now_ms - int(batch.time[0])
        moved = replace(batch, time=batch.time + shift_ms)
        over_ms = int(moved.time[-1]) + self._reach_ms + 1
        matches, timeouts = self._fed(engine, moved, bitmaps, over_ms)
        if len(batch) <= MOST_EVENTS:
            self._engine, self._now_ms = engine, over_ms + self._reach_ms + 1
        return _moved(matches, -shift_ms), None if timeouts is None else _moved(timeouts, -shift_ms)

    def _fed(self, engine: QueryEngine, batch: EventBatch, bitmaps: NDArray[np.uint64], over_ms: int) -> Answer:
        selected = SelectedEvents(self._dispatch, Bitmaps(np.arange(len(batch)), bitmaps), len(batch))
        matches, _ = engine.feed(*engine_input(self._plan, self._group, batch, *selected.of_query(self._query)), Watermarks(over_ms))
        return matches, engine.timeouts


def _moved(matches: Matches, by_ms: int) -> Matches:
    return replace(matches, time=matches.time + by_ms)
