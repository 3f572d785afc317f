"""The gate of the ingress: asks every query's shedder which of its candidates to drop, as the directive says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.asc.selected import SelectedEvents
from app.asc.selection import Selection
from app.bucket.ingress import Gate
from app.control.directives import Directive, QueryShedding
from app.evaluation.calibration import kept_events
from app.evaluation.features import Features
from app.events.batch import EventBatch, take
from app.query.plan import Catalog
from shedding.candidates import JudgedEvents, Mask
from shedding.gate import withdraw
from shedding.identity import identities
from shedding.interface import Model
from shedding.registry import METHODS, unlearned


@dataclass(frozen=True, slots=True)
class Learned:
    """A query's model, and how it sees events."""

    model: Model[Any]
    features: Features


Models = Callable[[int], Learned]
"""The model of a query, by its index in `Catalog.plans`."""


def _nobody(query: int) -> Learned:
    raise AssertionError(f"query {query} sheds by a model, and there is none")


def shedding_gate(catalog: Catalog, selection: Selection, directive: Directive, learned: Models = _nobody) -> Gate | None:
    """A gate for this batch; None when no query of the stream sheds, so that shedding off costs nothing and changes nothing.

    Args:
        catalog: of the batch.
        selection: of the stream.
        directive: of the batch.
        learned: the models of queries whose shedders go by one.
    """
    current = [query for query in selection.layout.queries if catalog.plans[query].draining is None]
    orders = {query: directive.shedding.get(catalog.plans[query].name) for query in current}  # old versions finish what they began whole
    active = [(query, own) for query, own in orders.items() if own is not None and own.drop_ratio > 0 and own.place == "ingress"]
    if not active:
        return None

    def gate(batch: EventBatch, selected: SelectedEvents) -> SelectedEvents:
        candidates = _Candidates(batch, selected.relevant)
        shed = selected.with_bitmaps(selected.bitmaps.copy())
        for query, own in active:
            kept = candidates.kept_by_model(learned(query), own) if METHODS[own.shedder].learns else candidates.kept(own, directive.seed)
            withdraw(shed.bitmaps, selected.own_words(query), kept, protected=_guarded(catalog, selection, query))
        return shed.without_empty()

    return gate


class _Candidates:
    """The events of a batch as shedders see them; masks are of its relevant rows.

    What a model knows of the stream it learned from one in total order, so that is what it gets, irrelevant events included, since panes hold them too. Panes are formed inside a
    topic partition and begin anew with every batch: which others came to the same task, and what stood before, depends on executors and restarts, and decisions must not.
    """

    def __init__(self, batch: EventBatch, relevant: NDArray[np.int64]) -> None:
        self._batch, self._relevant = batch, relevant

    def kept(self, orders: QueryShedding, seed: int) -> Mask:
        """By a shedder that looks at identities alone."""
        rows = self._relevant
        events = JudgedEvents(identities(self._batch.source[rows], self._batch.offset[rows]), self._batch.time[rows])
        return unlearned(orders.shedder, seed).gate(orders.drop_ratio).keep(events)

    def kept_by_model(self, learned: Learned, orders: QueryShedding) -> Mask:
        """By a model, whose ratio is the one at which the ordered share of candidates goes."""
        features, entry = learned.features, METHODS[orders.shedder]
        gate = learned.model.gate(learned.model.manifest.ratio_for(orders.drop_ratio))
        kept = np.empty(len(self._batch), dtype=np.bool_)
        for rows, batch in self._by_partition if entry.panes else [(self._order, self._in_order)]:
            events = JudgedEvents(identities(batch.source, batch.offset), batch.time, features.kinds(batch), features.values(batch))
            kept[rows] = kept_events(gate, features.plan, events, entry.level)
        return kept[self._relevant]

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


def _guarded(catalog: Catalog, selection: Selection, query: int) -> NDArray[np.uint64] | None:
    """The bits of items whose events must stay: negated ones, when the query allows no false positives."""
    plan = catalog.plans[query]
    if plan.shedding.allow_false_positives:
        return None
    guarded = np.zeros(selection.layout.words, dtype=np.uint64)
    for item in plan.items:
        if item.negated:
            word, bit = divmod(selection.bit(query, item.index), 64)
            guarded[word] |= np.uint64(1 << bit)
    return guarded if guarded.any() else None
