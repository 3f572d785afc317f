"""Shedders of partial matches in an owner: made from the directive, so that a batch that is fed again ends the same ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.engines import QueryEngine
from app.bucket.matching import NO_ENDINGS, Ended, Ending
from app.cep.door import (
    LiveRuns,
    RunsEngine,
    count_live,
    end_runs,
    hide,
    hide_nothing,
    live_runs,
    new_runs,
    pairs_by,
    pairs_met,
    tells_partial_matches,
)
from app.cep.engine import LOOKS, Looking, Watermarks
from app.control.law.levels import hides_events
from app.control.messages.directives import Directive
from app.events.batch import EventBatch
from app.features.events import partitions_of
from app.features.partial_matches import BINS, Describing, known_matches, progress_of_items
from app.owners.deployment import load_deployment
from app.owners.least_progress import LeastProgress
from app.query.plan import Plan, Within
from shedding.candidates import JudgedMatches, Mask
from shedding.identity import identities
from shedding.interface import Gate, Model
from shedding.partial_matches.hspice import HspiceModel
from shedding.registry import METHODS, unlearned


@dataclass(frozen=True, slots=True, eq=False)
class MatchShedder:
    """Who decides about a query's partial matches.

    Attributes:
        plan: the query's, for the runs evaluator.
        model: of its shedder; of one that knows nothing of partial matches, what goes by their progress.
        progress: int32 (items,), see `app.features.partial_matches.progress_of_items`.
        describing: tells the model what partial matches have bound; None where it does not ask.
    """

    plan: Plan
    model: Model[Any] | LeastProgress
    progress: NDArray[np.int32]
    describing: Describing | None = None

    def hiding(self, ratio: float, seed: int) -> Ending:
        """Hides events from so many of the partial matches that they meet in the batch."""
        assert isinstance(self.model, HspiceModel)  # noqa: S101 - who else knows pairs
        shares = self.model.gate(ratio).hidden(0, pairs_by(self.plan, BINS))

        def feed(engine: QueryEngine, batch: EventBatch, items: NDArray[np.uint64], watermarks: Watermarks, _: int) -> Ended:
            assert tells_partial_matches(engine), "shedders of partial matches have plans for the runs evaluator"  # noqa: S101
            hide(engine, shares, seed)
            matches, tally = engine.feed(batch, items, watermarks)
            met, hidden = (int(one.sum()) for one in pairs_met(engine))
            hide_nothing(engine)
            return (met, hidden), matches, tally

        return feed

    def ending(self, share: float, ratio: float = 0.0) -> Ending:
        """Ends partial matches of an engine before it is fed, and while it is.

        New ones are looked at once each, all of them, so that as many are left as should be and the whole state is hardly ever looked at; a batch of much time (after an outage) makes more of them than there were before.

        Args:
            share: of those that are there before, that must not be there when the batch begins.
            ratio: of those that were made since the last look.
        """
        new = self.model.gate(ratio)

        def feed(engine: QueryEngine, batch: EventBatch, items: NDArray[np.uint64], watermarks: Watermarks, now_ms: int) -> Ended:
            assert tells_partial_matches(engine), "shedders of partial matches have plans for the runs evaluator"  # noqa: S101
            counts = np.zeros(2, np.int64)

            def look(then_ms: int) -> None:
                counts[:] += self._end(engine, new_runs(engine), new, then_ms)

            there, looking = count_live(engine), None
            if ratio:
                look(now_ms)
                looking = None if self.plan.within is None else self._looking(self.plan.within, batch, look)
            if (more := _more(share, there, count_live(engine))) > 0:
                counts[:] += self._end(engine, live_runs(engine), self.model.gate(more), now_ms)
            matches, tally = engine.feed(batch, items, watermarks, looking)
            return (int(counts[0]), int(counts[1])), matches, tally

        return feed

    def _looking(self, within: Within, batch: EventBatch, look: Callable[[int], None]) -> Looking:
        """`LOOKS` times while a window passes; of windows in events each partition counts its own, and those of all are fed together."""
        if within.unit == "ms":
            return Looking(within.size / LOOKS, look)
        apart = 1 if self.plan.ranks == "stream" else len(np.unique(partitions_of(self.plan, batch, np.arange(len(batch)))))
        return Looking(within.size / LOOKS * max(1, apart), look, in_events=True)

    @property
    def _window_ms(self) -> int:
        within = self.plan.within
        return within.size if within is not None and within.unit == "ms" else 0

    def _end(self, engine: RunsEngine, live: LiveRuns, gate: Gate[JudgedMatches], now_ms: int) -> tuple[int, int]:
        """How many there are, and how many of them were ended."""
        if not len(live):
            return 0, 0
        window_ms = self._window_ms
        events_per_ms = (self.model.manifest.window_events or window_ms) / window_ms if window_ms else 1.0
        judged = known_matches(live, self.progress, events_per_ms, now_ms)
        judged = replace(judged, identity=_identities(judged.identity, live))
        if self.describing is not None:
            judged = self.describing.described(judged, engine, live)
        return len(live), end_runs(engine, live, together(gate.keep(judged), judged.identity))


def _more(share: float, there: int, left: int) -> float:
    """Which share of those that are left must go, so that this share of those that were there is gone.

    >>> _more(0.5, 100, 100), _more(0.5, 100, 80), _more(0.5, 100, 40), _more(1.0, 100, 0)
    (0.5, 0.375, 0.0, 0.0)
    """
    return max(0.0, 1 - (1 - share) * there / left) if left else 0.0


def _identities(first: NDArray[np.uint64], live: LiveRuns) -> NDArray[np.uint64]:
    """uint64 (runs,): hashes of first and newest event and of the place of the newest; where partial matches branch, many have the first in common."""
    newest = identities(live.newest[:, 0].copy(), live.newest[:, 1].copy())
    return identities(identities(first.view(np.int64), newest.view(np.int64)).view(np.int64), live.item)


def together(kept: Mask, identity: NDArray[np.uint64]) -> Mask:
    """Keeps those of equal identity (same first and newest event, same place) if one of them stays.

    An engine lists its partial matches in an order that a restart changes, so what cannot be told apart must not be decided by it.

    >>> together(np.array([True, False, False]), np.array([7, 7, 8], np.uint64)).tolist()
    [True, True, False]
    """
    _, number = np.unique(identity, return_inverse=True)
    return np.bincount(number, weights=kept)[number] > 0


def ended_for_memory(directive: Directive, query: str) -> bool:
    """Whether the query's state was too large, and not its latency bound the reason to end partial matches."""
    return directive.state_shares.get(query, 0.0) > directive.latency_share(query)


def _latency_ratio(directive: Directive, query: str) -> float:
    own = directive.shedding.get(query)
    return own.drop_ratio if own is not None and own.place == "matching" else 0.0


def endings_of(checkpoint: str, directive: Directive) -> Mapping[int, Ending]:
    """By query (index in the catalog of the directive's deployment), what is to be ended before its batch and within it."""
    asked = {*directive.shedding, *directive.state_shares}
    shares = {query: directive.share_ended(query) for query in asked}
    ratios = {query: _latency_ratio(directive, query) for query in asked}
    shares = {query: share for query, share in shares.items() if share > 0 or ratios[query] > 0}
    if not shares:
        return NO_ENDINGS
    plans = load_deployment(checkpoint, directive.deployment).catalog.plans
    endings = {}
    for number, plan in enumerate(plans):
        if plan.name in shares and plan.draining is None:
            shedder = _match_shedder(checkpoint, directive.deployment, number, directive.seed)
            hides = hides_events(plan)
            endings[number] = (
                shedder.hiding(ratios[plan.name], directive.seed) if hides else shedder.ending(shares[plan.name], ratios[plan.name])
            )
    return endings


@lru_cache(maxsize=256)
def _match_shedder(checkpoint: str, deployment: str, query: int, seed: int) -> MatchShedder:
    known = load_deployment(checkpoint, deployment)
    plan = known.catalog.plans[query]
    shedder = plan.shedding.shedder
    if not METHODS[shedder].of_matches:
        return MatchShedder(plan, LeastProgress(seed=seed), progress_of_items(plan))
    model = known.learned(query) if METHODS[shedder].learns else unlearned(shedder, seed)
    return MatchShedder(plan, model, progress_of_items(plan), Describing.of(plan) if METHODS[shedder].reads else None)
