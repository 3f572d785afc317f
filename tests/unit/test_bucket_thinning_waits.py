"""What a shedder in the bucket could have dropped of a step: events wait for the watermark, and some arrived before it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import numpy as np

from app.asc.selected import SelectedEvents
from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.bucket.thinning import RANK
from app.control.messages.reports import QueryTally
from app.events.batch import Column, EventBatch
from app.events.types import Kind
from app.owners.chains import chains_of
from app.owners.matching import Work, _shed
from tests.naive.language import Equivalence, Item, Query
from tests.property.event_arrays import event_batch
from tests.property.test_bucket_thinning import LIVELY, catalog_of

STEPS, ASKED, BURST = range(14), range(4, 11), range(8)
ALL = 4.0
"""A threshold that nothing reaches that was ranked."""


@dataclass(frozen=True, slots=True)
class Step:
    """Of the query: what is told, what its engine was fed, and whether it was asked to shed."""

    tally: QueryTally
    fed: int
    asked: bool


def worthless(batch: EventBatch, _: SelectedEvents) -> Mapping[int, Mapping[str, Column]]:
    return {0: {f"{RANK}q": Column(Kind.FLOAT, np.zeros(len(batch)))}}


def told(rules: TimeRules) -> list[Step]:
    """Ten events in ten ms in each step of a burst, and one in each behind it; everything goes that may."""
    catalog = catalog_of(Query((Item(("A",), "a"), Item(("B",), "b")), (Equivalence("k"),), within=9))
    plan, bucket = IngressPlan(catalog, rules, 1), Bucket(catalog, [rules], 0, chains_of=chains_of)
    work = cast("Work", SimpleNamespace(deployment=SimpleNamespace(catalog=catalog)))
    steps, progress = [], Progress({}, frozenset((0,)))
    for step in STEPS:
        asked = step in ASKED
        times = [10 * step + k for k in range(10 if step in BURST else 1)]
        events = [{"type": "AB"[time % 2], "time": time, "source": 0, "attributes": {"k": 1}, "offset": time} for time in times]
        ingested = plan.ingest(event_batch(events, LIVELY), progress, riders=worthless if asked else None)
        progress = Progress(ingested.judgement.greatest_times, frozenset((0,)), closing=step == STEPS[-1])
        output = bucket.advance([packed for _, packed in ingested.packed()], progress, thresholds={0: ALL} if asked else {})
        (lost,) = _shed(output, work)
        tally = QueryTally("q", ingested.candidates[0], lost.shed, let_go=lost.let_go, unasked=lost.unasked)
        steps.append(Step(tally, sum(one.tally.candidates for one in output.found), asked))
    return steps


def test_of_events_that_wait_those_could_be_dropped_that_arrived_while_the_query_was_asked() -> None:
    steps = told(TimeRules("input", 30))
    assert [one.tally.shed for one in steps] == [one.tally.considered if one.asked else 0 for one in steps]
    assert [one.tally.considered for one in steps][:7] == [0, 0, 0, 9, 0, 0, 0], "what is let go arrived before"
    assert max(one.tally.shed / one.tally.candidates for one in steps) == 10, "the burst's, when it has fallen"


def test_what_reaches_the_shedder_is_dropped_or_fed_whenever_it_arrived() -> None:
    steps = told(TimeRules("input", 30))
    assert [one.tally.candidates + one.tally.let_go for one in steps] == [one.tally.shed + one.fed for one in steps]
    assert sum(one.tally.let_go for one in steps) == 0


def test_where_nothing_waits_it_is_what_arrives() -> None:
    for one in told(TimeRules("input", ordered_by="k")):
        assert (one.tally.let_go, one.tally.unasked, one.tally.considered) == (0, 0, one.tally.candidates)
        assert one.tally.shed == (one.tally.candidates if one.asked else 0)
