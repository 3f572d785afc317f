"""A whole recording matched while a model sheds at a fixed drop ratio: what `cep replay --shedder` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.bucket.matching import Found
from app.evaluation.operator import Operator
from app.evaluation.pairs import PairOperator
from app.evaluation.partial_matches import MatchOperator
from app.evaluation.windows import EventWindows, WindowedOperator
from app.events.batch import EventBatch
from app.features.events import Features, protected_events
from app.features.positions import shed_window, windowed
from app.query.plan import Plan
from shedding.interface import Model
from shedding.partial_matches.hspice import HspiceModel
from shedding.registry import METHODS

LOOK_EVENTS = 100
"""Partial matches are looked at, and shed, so often."""


def match_shedding(plan: Plan, batch: EventBatch, model: Model[Any], drop_ratio: float) -> list[Found]:
    """The composite events that are left.

    Args:
        plan: of a pattern query; for models that drop partial matches one for the runs evaluator.
        batch: in total order.
        model: of the query.
        drop_ratio: share of the events, of the pairs of event and window, of those of event and partial match, or, at every look, of the live partial matches.

    Raises:
        ValueError: the query has none of what the model drops.
    """
    level = METHODS[model.manifest.method].level
    return _WAYS[level](plan, batch, model, drop_ratio) if level in _WAYS else _refuse(plan, model)


def _refuse(plan: Plan, model: Model[Any]) -> list[Found]:
    raise ValueError(f'"{model.manifest.method}" sheds {METHODS[model.manifest.method].level}; query {plan.name} has none')


def _events(plan: Plan, batch: EventBatch, model: Model[Any], drop_ratio: float) -> list[Found]:
    kept = model.gate(drop_ratio).keep(Features.of(plan).judged(batch)) | protected_events(plan, batch)
    return list(Operator(plan, batch).found(kept))


def _pairs(plan: Plan, batch: EventBatch, model: Model[Any], drop_ratio: float) -> list[Found]:
    windows = EventWindows.of(shed_window(plan), batch)
    kept = model.gate(drop_ratio).keep(windows.judged(Features.of(plan).judged(batch)))
    kept |= protected_events(plan, batch)[windows.event]
    if not windowed(plan):
        return list(Operator(plan, batch).found(kept))
    return WindowedOperator(plan, batch, windows).found(kept)


def _matches(plan: Plan, batch: EventBatch, model: Model[Any], drop_ratio: float) -> list[Found]:
    return MatchOperator(plan, batch).shed(model, drop_ratio, LOOK_EVENTS)


def _hidden(plan: Plan, batch: EventBatch, model: Model[Any], drop_ratio: float) -> list[Found]:
    assert isinstance(model, HspiceModel)  # noqa: S101 - who else knows pairs
    return PairOperator(plan, batch).shed(model, drop_ratio)


_WAYS: dict[str, Callable[[Plan, EventBatch, Model[Any], float], list[Found]]] = {
    "events": _events,
    "events per window": _pairs,
    "events per partial match": _hidden,
    "partial matches": _matches,
}
