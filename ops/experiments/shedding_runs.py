"""Contests turned into points: the same query and stream for every shedder, with random dropping below and an oracle above."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from time import process_time_ns
from typing import Any

import numpy as np

from app.bucket.recording import rows_between
from app.cep.runs.hiding import MOST_ITEMS
from app.evaluation.contest import Contest, Standing, Terms
from app.events.batch import EventBatch, take
from app.features.events import candidate_items
from app.query.plan import Plan
from ops.experiments.shedding_default import Auto
from ops.experiments.shedding_figures import Point, known
from shedding.candidates import JudgedEvents
from shedding.events.judging import UtilityGate
from shedding.interface import Level, Manifest, Method
from shedding.registry import method
from shedding.threshold import utility_shares

RATES = (1.2, 1.4, 1.6, 1.8, 2.0)

Shedders = Mapping[str, Method[Any] | Auto | None]
"""By the name of the line; None is the oracle."""


def shedders(*names: str) -> dict[str, Method[Any] | Auto | None]:
    """Methods with the paper's settings, and the oracle."""
    return {name: None if name == "oracle" else method(name) for name in names}


@dataclass(frozen=True, slots=True, eq=False)
class Oracle:
    """Knows what every event of the judged stream contributes to without shedding: a reference that no method can have."""

    known: np.ndarray
    worth: np.ndarray
    manifest: Manifest
    name: str = "oracle"
    level: Level = "events"

    @staticmethod
    def of(contest: Contest) -> Oracle:
        """The one of a contest's judged stream."""
        identity = contest.features.judged(contest.judging).identity
        worth = np.zeros(len(identity))
        worth[contest.rows] = contest.truth.weights(len(contest.rows), 1.0)
        order = np.argsort(identity)
        return Oracle(identity[order], worth[order], Manifest("oracle"))

    def utilities(self, events: JudgedEvents) -> np.ndarray:
        """Composite events that each event is part of."""
        return self.worth[np.searchsorted(self.known, events.identity)]

    def gate(self, drop_ratio: float) -> UtilityGate:
        """Drops the events of least worth."""
        return UtilityGate(self, utility_shares(self.worth).cut(drop_ratio))


def divided(batch: EventBatch, share: float) -> tuple[EventBatch, EventBatch]:
    """The earlier part to learn from, the later one to be judged by."""
    border = int(len(batch) * share)
    return rows_between(batch, 0, border), rows_between(batch, border, len(batch))


def point_of(standing: Standing, figure: str, curve: str, x: float, seed: int) -> Point:
    """A standing as a point, in percent and ms."""
    latency = standing.latency_s * 1000
    quality = standing.quality
    return Point(
        figure,
        curve,
        x,
        seed,
        100 * quality.false_negatives,
        100 * quality.false_positives,
        quality.true,
        100 * standing.dropped,
        float(latency.max(initial=0)),
        float(np.median(latency[len(latency) // 2 :])),
        standing.decision_ns,
        float(np.percentile(latency, 99)) if len(latency) else 0.0,
        100 * standing.late_share,
    )


def judged(contest: Contest, figure: str, taking_part: Shedders, rates: Sequence[float], x: float | None = None) -> Iterator[Point]:
    """Every shedder at every rate; ``x`` where it is not the rate in percent that is varied. Leaves out what an earlier run found (`known`), and who hides events where patterns have too many items for it."""
    for curve, shedder in taking_part.items():
        if (
            not (shedder is None or isinstance(shedder, Auto))
            and shedder.level == "events per partial match"
            and len(contest.plan.items) > MOST_ITEMS
        ):
            continue
        missing = [rate for rate in rates if not known(figure, curve, round(100 * rate) if x is None else x, contest.terms.seed)]
        if not missing:
            continue
        if shedder is None:
            oracle: Any = Oracle.of(contest)
            own, model = oracle, oracle
        else:
            own = shedder.chosen(contest) if isinstance(shedder, Auto) else shedder
            model = contest.train(own)
        for standing in contest.standings(own, model, missing):
            yield point_of(standing, figure, curve, round(100 * standing.rate) if x is None else x, contest.terms.seed)


def candidates(plan: Plan, batch: EventBatch) -> EventBatch:
    """The events that some item of the query takes by itself: what selection lets through."""
    rows = np.flatnonzero(candidate_items(plan, batch))
    part = take(batch, rows)
    return EventBatch(part.time, part.source, np.arange(len(rows), dtype=np.int64), part.type, part.columns)


def under(contest: Contest, terms: Terms) -> Contest:
    """The same contest under other terms; what it has learned and found stays."""
    other = copy(contest)
    other.terms = terms
    return other


def charged(contest: Contest, terms: Terms) -> Terms:
    """These terms, where decisions cost what they cost beside the operator's work, both measured on this machine."""
    began = process_time_ns()
    found = Contest(contest.plan, contest.learning, contest.judging, terms).truth
    event_ns = (process_time_ns() - began) / max(1, len(contest.judging))
    return replace(terms, event_ns=event_ns if len(found) else 0.0)


def contest_of(plan: Plan, batch: EventBatch, share: float, terms: Terms) -> Contest:
    """A contest on one stream."""
    return Contest(plan, *divided(batch, share), terms)
