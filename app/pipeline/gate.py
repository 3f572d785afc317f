"""The gate of the ingress: asks every query's shedder which of its candidates to drop, as the directive says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.asc.selected import SelectedEvents
from app.asc.selection import Selection
from app.bucket.ingress import Gate, Riders
from app.bucket.thinning import RANK
from app.control.messages.directives import Directive, QueryShedding
from app.events.batch import Column, EventBatch, take
from app.events.types import Kind
from app.features.batches import JudgedBatch
from app.features.events import Features, decision_period, partitions_of
from app.query.plan import Catalog, Plan
from shedding.candidates import JudgedEvents, Mask
from shedding.gate import withdraw
from shedding.identity import identities
from shedding.interface import Model, Ranking
from shedding.registry import METHODS, unlearned


@dataclass(frozen=True, slots=True)
class QueryModel:
    """A query's model, and how it sees events."""

    model: Model[Any]
    features: Features


Models = Callable[[int], QueryModel]
"""The model of a query, by its index in `Catalog.plans`."""


def _nobody(query: int) -> QueryModel:
    raise AssertionError(f"query {query} sheds by a model, and there is none")


def shedding_gate(catalog: Catalog, selection: Selection, directive: Directive, learned: Models = _nobody) -> Gate | None:
    """A gate for this batch; None when no query of the stream sheds, so that shedding off costs nothing and changes nothing.

    Args:
        catalog: of the batch.
        selection: of the stream.
        directive: of the batch.
        learned: the models of queries whose shedders go by one.
    """
    active = list(_ordered(catalog, selection, directive, "ingress"))
    if not active:
        return None

    def gate(batch: EventBatch, selected: SelectedEvents) -> SelectedEvents:
        candidates = _Candidates(batch, selected.relevant)
        shed = selected.with_bitmaps(selected.bitmaps.copy())
        for query, own in active:
            learns = METHODS[own.shedder].learns
            kept = candidates.kept_by_model(learned(query), own) if learns else candidates.kept(own, directive.seed, catalog.plans[query])
            withdraw(shed.bitmaps, selected.own_words(query), kept, protected=selection.layout.staying_words(query, catalog.plans[query]))
        return shed.without_empty()

    return gate


def ranking(catalog: Catalog, selection: Selection, directive: Directive, learned: Models = _nobody) -> Riders | None:
    """What events are worth to queries that shed in the bucket, as columns that ride along; None while there is none.

    Args:
        catalog: of the batch.
        selection: of the stream.
        directive: of the batch.
        learned: the models of queries whose shedders go by one.
    """
    active = [(query, own.drop_ratio) for query, own in _ordered(catalog, selection, directive, "bucket")]
    if not active:
        return None

    def riders(batch: EventBatch, selected: SelectedEvents) -> dict[int, dict[str, Column]]:
        found = {}
        for query, ratio in active:
            plan, own = catalog.plans[query], learned(query)
            step = own.model.gate(own.model.manifest.ratio_for(ratio))
            assert isinstance(step, Ranking), "who sheds in the bucket ranks events"  # noqa: S101
            rows, items = selected.of_query(query)
            events = own.features.described(take(batch, rows), items)
            ranks = np.zeros(len(batch))
            ranks[rows] = step.ranks(events)
            found[query] = {f"{RANK}{plan.name}": Column(Kind.FLOAT, ranks)}
        return found

    return riders


def _ordered(catalog: Catalog, selection: Selection, directive: Directive, place: str) -> Iterator[tuple[int, QueryShedding]]:
    """The stream's queries that shed there in this batch; old versions finish what they began whole."""
    for query in selection.layout.queries:
        plan = catalog.plans[query]
        own = directive.shedding.get(plan.name)
        if own is None or plan.draining is not None:
            continue
        own = own.of_events or own  # its shedder may be of partial matches, and these not enough
        if own.drop_ratio > 0 and own.place == place:
            yield query, own


class _Candidates:
    """The events of a batch as shedders see them; masks are of its relevant rows."""

    def __init__(self, batch: EventBatch, relevant: NDArray[np.int64]) -> None:
        self._batch, self._relevant, self._judged = batch, relevant, JudgedBatch(batch)

    def kept(self, orders: QueryShedding, seed: int, plan: Plan) -> Mask:
        """By a shedder that looks at identities alone, or at partitions."""
        rows = self._relevant
        events = JudgedEvents(identities(self._batch.source[rows], self._batch.offset[rows]), self._batch.time[rows])
        if METHODS[orders.shedder].keyed:
            events = replace(events, key=partitions_of(plan, self._batch, rows), period_ms=decision_period(plan))
        return unlearned(orders.shedder, seed).gate(orders.drop_ratio).keep(events)

    def kept_by_model(self, learned: QueryModel, orders: QueryShedding) -> Mask:
        """By a model, which drops the ordered share of the candidates."""
        return self._judged.kept(learned.model, learned.features, orders.drop_ratio)[self._relevant]
