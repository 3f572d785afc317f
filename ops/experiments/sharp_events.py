"""How much shedders of events must drop so that the partial matches are few enough, and what is left of the composite events then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.bucket.recording import rows_between
from app.evaluation.contest import Contest
from app.evaluation.partial_matches import MatchLoad, MatchOperator
from app.evaluation.quality import Quality
from app.evaluation.windows import EventWindows
from app.events.batch import EventBatch
from app.features.events import protected_events
from app.features.positions import shed_window
from shedding.interface import Gate

TRIED = (0.0, 0.05, 0.15, 0.3, 0.5, 0.7, 0.9, 1.0)
"""Drop ratios at which the work is measured."""
_UNSHED = MatchLoad(1.0, 0.0, 0.0, bound_s=np.inf)
_MOST_TRIED = 2000
"""Events of the learning stream, the last ones, on which it is measured."""


class Gated(Protocol):
    """Whoever drops a share of events."""

    def gate(self, drop_ratio: float) -> Gate[Any]:
        """That share."""
        ...


def at_bounds(
    contest: Contest, model: Gated, bounds: Sequence[float], *, by_window: bool = False
) -> Iterator[tuple[float, Quality, float, float]]:
    """Bound in percent, quality, share of dropped events, and share of the work that is left on the judged stream.

    Args:
        contest: the streams.
        model: that learned from the first of them.
        bounds: in percent.
        by_window: it drops events from windows.
    """
    learned = rows_between(contest.learning, max(0, len(contest.learning) - _MOST_TRIED), len(contest.learning))
    keep = _Keep(contest, by_window=by_window)
    work = np.array([_held(contest, learned, keep(model, learned, ratio))[1] for ratio in TRIED])
    falling = np.minimum.accumulate(work / max(work[0], 1e-9))
    calm = _held(contest, contest.judging, np.ones(len(contest.judging), np.bool_))[1]
    for bound in bounds:
        ratio = float(np.interp(-bound / 100, -falling, TRIED))
        kept = keep(model, contest.judging, ratio)
        outcome, held = _held(contest, contest.judging, kept)
        yield bound, Quality.of(contest.truth, outcome), 1 - float(kept.mean()), held / max(calm, 1e-9)


def _held(contest: Contest, batch: EventBatch, kept: NDArray[np.bool_]) -> tuple[Any, float]:
    """Composite events, and live partial matches on average, when only some events come."""
    course = MatchOperator(contest.plan, batch, kept).run(_UNSHED, None)
    return course.outcome, course.held


class _Keep:
    """What a model lets through."""

    def __init__(self, contest: Contest, *, by_window: bool) -> None:
        self._contest, self._by_window = contest, by_window

    def __call__(self, model: Gated, batch: EventBatch, ratio: float) -> NDArray[np.bool_]:
        if ratio <= 0:
            return np.ones(len(batch), np.bool_)
        plan = self._contest.plan
        events: Any = self._contest.features.judged(batch)
        if self._by_window:
            events = EventWindows.of(shed_window(plan), batch).judged(events)
        return np.asarray(model.gate(ratio).keep(events) | protected_events(plan, batch))
