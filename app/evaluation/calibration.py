"""What the application must know of the stream that a model learned from, and no longer sees: measured in training, kept in the manifest.

Models of whole events speak of shares of that stream, the application of shares of what selection lets through. Models of partial matches speak of events that a window will still see, the
application knows the time that is left.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from app.bucket.recording import rows_between
from app.evaluation.partial_matches import MatchOperator
from app.evaluation.shares import measured_shares
from app.events.batch import EventBatch
from app.features.batches import keeping
from app.features.events import Features, candidate_items, protected_events
from app.query.plan import Plan
from shedding.interface import Model
from shedding.registry import METHODS

LATE = 0.2
"""The end of the recording, on which gSPICE measures its thresholds as well: utilities of events that were not learned from."""
ENOUGH = 300
"""Candidates: steps of a third of a percent."""
_MOST = 200_000
"""Events; a forest takes half a microsecond for each, at every step."""


def calibrated(model: Model[Any], plan: Plan, batch: EventBatch, share: float = LATE) -> Model[Any]:
    """The model with `Manifest.candidates` or `Manifest.window_events` measured.

    Args:
        model: a dataclass, as all of them are.
        plan: the query.
        batch: in total order.
        share: of the batch, its end, that is measured on, more where that holds few candidates; all of it where the model has not learned from it.
    """
    known: Any = model
    level = METHODS[model.manifest.method].level
    if level == "partial matches":
        timed: Model[Any] = replace(known, manifest=replace(model.manifest, window_events=MatchOperator(plan, batch).window_events()))
        return timed
    if level == "events per partial match":
        return model  # speaks of what it is asked about
    count = min(_MOST, max(1, int(len(batch) * share)), len(batch))
    while True:  # candidates may come in bursts, the last of which is long over
        late = rows_between(batch, len(batch) - count, len(batch))
        candidate = candidate_items(plan, late) != 0
        if int(candidate.sum()) >= ENOUGH or count == len(batch):
            break
        count = min(len(batch), 2 * count)
    if not candidate.any():
        return model
    stays = protected_events(plan, late)
    try:
        kept = keeping(plan, Features.of(plan).judged(late), level)
    except ValueError:
        return model  # windows in events: not for the application
    ratios, shares = measured_shares(lambda ratio: 1.0 - float((kept(model.gate(ratio)) | stays)[candidate].mean()))
    found = replace(model.manifest, candidates=tuple(np.round(shares, 6).tolist()), ratios=tuple(np.round(ratios, 6).tolist()))
    measured: Model[Any] = replace(known, manifest=found)
    return measured
