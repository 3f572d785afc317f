"""The gate of the ingress: asks every query's shedder which of its candidates to drop, as the directive says."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.asc.selection import SelectedEvents, Selection
from app.bucket.ingress import Gate
from app.control.directives import Directive
from app.events.batch import EventBatch
from app.query.plan import Catalog
from shedding.candidates import JudgedEvents
from shedding.gate import withdraw
from shedding.identity import identities
from shedding.registry import unlearned

RANDOM = "random"


def shedding_gate(catalog: Catalog, selection: Selection, directive: Directive) -> Gate | None:
    """A gate for this batch; None when no query of the stream sheds, so that shedding off costs nothing and changes nothing."""
    layout = selection.layout
    shedding = [
        (query, directive.shedding[catalog.plans[query].name])
        for query in layout.queries
        if catalog.plans[query].name in directive.shedding
    ]
    active = [(query, orders) for query, orders in shedding if orders.drop_ratio > 0 and orders.place == "ingress"]
    if not active:
        return None

    def gate(batch: EventBatch, selected: SelectedEvents) -> SelectedEvents:
        rows = selected.relevant
        events = JudgedEvents(identities(batch.source[rows], batch.offset[rows]), batch.time[rows])
        shed = selected.with_bitmaps(selected.bitmaps.copy())
        for query, orders in active:
            kept = unlearned(orders.shedder, directive.seed).gate(orders.drop_ratio).keep(events)
            withdraw(shed.bitmaps, selected.own_words(query), kept, protected=_guarded(catalog, selection, query))
        return shed.without_empty()

    return gate


def dropped_before_decoding(
    catalog: Catalog, selection: Selection, directive: Directive, source: NDArray[np.int64], offset: NDArray[np.int64]
) -> NDArray[np.bool_] | None:
    """Records that every query of the stream drops whatever is in them: no need to decode these.

    `random` compares one number per event with each query's ratio, so the smallest ratio is what all agree on. Only when all queries of the
    stream shed so, and none of them must keep events of negated items, or counts events that it has shed.

    Returns:
        bool (records,), or None when nothing may be dropped unseen.
    """
    orders = [directive.shedding.get(catalog.plans[query].name) for query in selection.layout.queries]
    unseen = [one for one in orders if one is not None and one.shedder == RANDOM and one.place == "ingress" and one.drop_ratio > 0]
    guarded = any(_guarded(catalog, selection, query) is not None for query in selection.layout.queries)
    counting = any(catalog.groups[number].ranks != "none" for number in selection.layout.groups)
    if not orders or guarded or counting or len(unseen) < len(orders):
        return None
    ratio = min(one.drop_ratio for one in unseen)
    return ~unlearned(RANDOM, directive.seed).gate(ratio).keep(JudgedEvents(identities(source, offset)))


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
