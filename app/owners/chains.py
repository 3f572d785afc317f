"""Shedders that remember what was kept, as buckets see them: their memories, and how much they are to drop in a batch."""

from __future__ import annotations

from functools import lru_cache

from app.bucket.thinning import NO_THRESHOLDS, Arrays, Thresholds
from app.control.messages.directives import Directive
from app.features.shape import shape_of, without_chains
from app.owners.deployment import load_deployment
from app.query.plan import Plan
from shedding.chain_memory import ChainMemory
from shedding.interface import Ranking
from shedding.registry import METHODS


def chains_of(plan: Plan, arrays: Arrays | None = None) -> ChainMemory | None:
    """A fresh memory of the query's shedder, or the one that had these arrays; None where it remembers nothing.

    Raises:
        ValueError: the query is none for such a shedder.
    """
    if not METHODS[plan.shedding.shedder].remembers:
        return None
    if (why := without_chains(plan)) is not None or (shape := shape_of(plan)) is None:
        raise ValueError(f"{plan.name}: {why}")
    return ChainMemory(shape) if arrays is None else ChainMemory.restored(shape, dict(arrays))


def thresholds_of(checkpoint: str, directive: Directive) -> Thresholds:
    """By query (index in the catalog of the directive's deployment), how much must go in its batch."""
    ratios = {name: own.drop_ratio for name, own in directive.shedding.items() if own.place == "bucket" and own.drop_ratio > 0}
    if not ratios:
        return NO_THRESHOLDS
    plans = load_deployment(checkpoint, directive.deployment).catalog.plans
    return {
        number: _threshold(checkpoint, directive.deployment, number, ratios[plan.name])
        for number, plan in enumerate(plans)
        if plan.name in ratios and plan.draining is None
    }


@lru_cache(maxsize=4096)
def _threshold(checkpoint: str, deployment: str, query: int, ratio: float) -> float:
    model = load_deployment(checkpoint, deployment).learned(query)
    gate = model.gate(model.manifest.ratio_for(ratio))
    assert isinstance(gate, Ranking), "who remembers ranks events"  # noqa: S101
    return gate.threshold
