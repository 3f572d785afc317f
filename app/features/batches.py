"""What the application keeps of events when a model sheds: for the ingress itself, and for whoever judges a model by what it would do.

What a model knows of the stream it learned from one in total order, so that is what it gets, events of no interest included, since panes hold them too. Panes are formed inside a
topic partition and begin anew with every batch: which others came to the same task, and what stood before, depends on executors and restarts, and decisions must not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.events.batch import EventBatch, take
from app.features.events import Features
from app.features.positions import without_counting
from app.query.plan import Plan
from shedding.candidates import JudgedEvents, Mask
from shedding.identity import identities
from shedding.interface import Gate, Level, Model
from shedding.registry import METHODS
from shedding.windows import kept_anywhere


class JudgedBatch:
    """Events that models are asked about; what several of them need is worked out once.

    Args:
        batch: in any order.
    """

    def __init__(self, batch: EventBatch) -> None:
        self._batch = batch

    def kept(self, model: Model[Any], features: Features, of_candidates: float) -> Mask:
        """Bool (events,), in the batch's order.

        Args:
            model: of whole events, or of events in windows; asked at the ratio at which this share of the query's candidates goes.
            features: of the query.
            of_candidates: the share.
        """
        entry = METHODS[model.manifest.method]
        gate = model.gate(model.manifest.ratio_for(of_candidates))
        if entry.remembers:  # in its bucket, in total order
            remembered = np.empty(len(self._batch), dtype=np.bool_)
            remembered[self._order] = gate.keep(features.judged(self._in_order))
            return remembered
        kept = np.empty(len(self._batch), dtype=np.bool_)
        for rows, batch in self._by_partition if entry.panes else [(self._order, self._in_order)]:
            events = JudgedEvents(identities(batch.source, batch.offset), batch.time, features.kinds(batch), features.values(batch))
            kept[rows] = keeping(features.plan, events, entry.level)(gate)
        return kept

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.lexsort((self._batch.offset, self._batch.source, self._batch.time))

    @cached_property
    def _in_order(self) -> EventBatch:
        return take(self._batch, self._order)

    @cached_property
    def _by_partition(self) -> list[tuple[NDArray[np.int64], EventBatch]]:
        """Rows and events of each topic partition, in total order."""
        sources = self._batch.source[self._order]
        grouped = self._order[np.argsort(sources, kind="stable")]
        ends = np.cumsum(np.unique(sources, return_counts=True)[1])[:-1]
        return [(rows, take(self._batch, rows)) for rows in np.split(grouped, ends)]


def keeping(plan: Plan, events: JudgedEvents, level: Level) -> Callable[[Gate[Any]], Mask]:
    """Gate → bool (events,), those that stay where only whole events can go: of pairs of an event and a window those that stay in one of their windows.

    Raises:
        ValueError: see `app.features.positions.without_counting`.
    """
    if level == "events":
        return lambda gate: gate.keep(events)
    pairs = without_counting(plan, events)
    return lambda gate: kept_anywhere(pairs, gate.keep(pairs))
