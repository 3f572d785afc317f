"""How much of what a query can use is dropped at each drop ratio: a model speaks of shares of its training stream, the application of shares of candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from app.bucket.recording import rows_between
from app.evaluation.features import Features
from app.evaluation.operator import candidate_items
from app.events.batch import EventBatch
from app.query.plan import Plan
from shedding.interface import Model

STEPS = 32
_SHARE = 0.2
"""The end of the recording, on which gSPICE measures its thresholds as well: utilities of events that were not learned from."""
_MOST = 200_000
"""Events; a forest takes half a microsecond for each, at every step."""


def calibrated(model: Model[Any], plan: Plan, batch: EventBatch) -> Model[Any]:
    """The model of whole events, with `Manifest.candidates` measured.

    Args:
        model: learned from ``batch``; a dataclass, as all of them are.
        plan: the query.
        batch: in total order.
    """
    count = min(_MOST, max(1, int(len(batch) * _SHARE)), len(batch))
    late = rows_between(batch, len(batch) - count, len(batch))
    candidate = candidate_items(plan, late) != 0
    if not candidate.any():
        return model
    events = Features.of(plan).judged(late)
    dropped = [1.0 - float(model.gate(float(ratio)).keep(events)[candidate].mean()) for ratio in np.linspace(0, 1, STEPS + 1)]
    shares = tuple(np.round(np.maximum.accumulate(dropped), 6).tolist())
    known: Any = model
    measured: Model[Any] = replace(known, manifest=replace(model.manifest, candidates=shares))
    return measured
