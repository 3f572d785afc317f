"""Shedders of partial matches in an owner: made from the directive, so that a batch that is fed again ends the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.engines import QueryEngine
from app.bucket.matching import NO_ENDINGS, Ending
from app.cep.door import LiveRuns, end_runs, live_runs, tells_partial_matches
from app.control.directives import Directive
from app.control.levels import sheds_matches
from app.evaluation.known_matches import known_matches, progress_of_items
from app.owners.deployment import load_deployment
from app.owners.least_progress import LeastProgress
from app.query.plan import Plan
from shedding.candidates import Mask
from shedding.identity import identities
from shedding.interface import Model
from shedding.registry import METHODS, unlearned


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Who decides about a query's partial matches.

    Attributes:
        plan: the query's, for the runs evaluator.
        model: of its shedder; of one that knows nothing of partial matches, what goes by their progress.
        progress: int32 (items,), see `app.evaluation.known_matches.progress_of_items`.
    """

    plan: Plan
    model: Model[Any] | LeastProgress
    progress: NDArray[np.int32]

    def ending(self, share: float) -> Ending:
        """Ends this share of an engine's partial matches."""
        gate, plan = self.model.gate(share), self.plan
        window_ms = plan.within.size if plan.within is not None and plan.within.unit == "ms" else 0
        events_per_ms = (self.model.manifest.window_events or window_ms) / window_ms if window_ms else 1.0

        def end(engine: QueryEngine, now_ms: int) -> tuple[int, int]:
            assert tells_partial_matches(engine), "shedders of partial matches have plans for the runs evaluator"  # noqa: S101
            live = live_runs(engine)
            if not len(live):
                return 0, 0
            judged = known_matches(live, self.progress, events_per_ms, now_ms)
            judged = replace(judged, identity=_identities(judged.identity, live))
            return len(live), end_runs(engine, live, together(gate.keep(judged), judged.identity))

        return end


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
    """Whether the query's state was too large, and not its latency bound the reason to end partial matches: the larger share contains the other one."""
    return directive.state_shares.get(query, 0.0) > _latency_share(directive, query)


def _latency_share(directive: Directive, query: str) -> float:
    own = directive.shedding.get(query)
    return own.share if own is not None and own.place == "matching" else 0.0


def endings_of(checkpoint: str, directive: Directive) -> Mapping[int, Ending]:
    """By query (index in the catalog of the directive's deployment), what is to be ended before its batch."""
    asked = {*directive.shedding, *directive.state_shares}
    shares = {query: max(_latency_share(directive, query), directive.state_shares.get(query, 0.0)) for query in asked}
    shares = {query: share for query, share in shares.items() if share > 0}
    if not shares:
        return NO_ENDINGS
    plans = load_deployment(checkpoint, directive.deployment).catalog.plans
    return {
        number: _judge(checkpoint, directive.deployment, number, directive.seed).ending(shares[plan.name])
        for number, plan in enumerate(plans)
        if plan.name in shares and plan.draining is None
    }


@lru_cache(maxsize=256)
def _judge(checkpoint: str, deployment: str, query: int, seed: int) -> Judge:
    known = load_deployment(checkpoint, deployment)
    plan = known.catalog.plans[query]
    shedder = plan.shedding.shedder
    if not sheds_matches(plan):
        return Judge(plan, LeastProgress(seed=seed), progress_of_items(plan))
    return Judge(plan, known.learned(query) if METHODS[shedder].learns else unlearned(shedder, seed), progress_of_items(plan))
