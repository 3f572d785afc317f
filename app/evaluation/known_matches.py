"""Live partial matches of an engine as shedders see them, as far as the engine alone tells: where they stand, and how long they may still live."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.cep.door import LiveRuns
from app.query.plan import Plan
from shedding.candidates import JudgedMatches
from shedding.identity import identities


def progress_of_items(plan: Plan) -> NDArray[np.int32]:
    """int32 (items,): the state of a partial match whose newest event is this item: its place among the positive ones; -1 for others."""
    progress = np.full(len(plan.items), -1, np.int32)
    progress[[item.index for item in plan.positive]] = np.arange(len(plan.positive))
    return progress


def known_matches(live: LiveRuns, progress: NDArray[np.int32], events_per_ms: float, now_ms: int) -> JudgedMatches:
    """Partial matches by state and rest of the window; what they bound is not told.

    Args:
        live: of an engine.
        progress: of the plan, see `progress_of_items`.
        events_per_ms: of the stream, for windows in time.
        now_ms: time of the event that comes next.
    """
    left_ms = live.time_left_ms(now_ms).astype(np.float64)
    remaining = live.events_left.astype(np.float64) if live.window_ms is None else left_ms * events_per_ms
    first = identities(live.first[:, 0].copy(), live.first[:, 1].copy())
    return JudgedMatches(first, np.zeros(len(live), np.int32), progress[live.item], remaining, left_ms)
