"""Live partial matches of an engine as shedders see them, as far as the engine alone tells: where they stand, how long they may still live, and what they have bound."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.cep.door import ANY_ITEM, LiveRuns, Question, Questions, RunsEngine, told_of
from app.features.events import Features
from app.features.slack import Comparisons
from app.query.plan import Plan
from shedding.candidates import JudgedMatches
from shedding.identity import identities

BINS = 100
"""Of a window, when pairs of an event and a partial match are counted: models have some of these together."""


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


@dataclass(frozen=True, slots=True)
class Describing:
    """What is told about what the partial matches of a query have bound, to shedders that ask for it: the same in training, in evaluation and in the application.

    Attributes:
        attributes: how many numeric attributes the query looks at.
        comparisons: of the query, between items.
        questions: attributes of the first event, of the newest one, and what the comparisons ask.
        negated: how many negated items the query has.
    """

    attributes: int
    comparisons: Comparisons
    questions: Questions
    negated: int

    @staticmethod
    def of(plan: Plan) -> Describing:
        """That of a query."""
        attributes = Features.of(plan).attributes
        comparisons = Comparisons.of(plan, attributes)
        ends = [Question(end, ANY_ITEM, name) for end in ("first", "last") for name in attributes]
        questions = Questions.of(plan, [*ends, *comparisons.questions])
        return Describing(len(attributes), comparisons, questions, sum(item.negated for item in plan.items))

    def described(
        self, known: JudgedMatches, engine: RunsEngine, live: LiveRuns, since: NDArray[np.float64] | None = None
    ) -> JudgedMatches:
        """With the item of the newest event, attributes of the first and of the newest one, what is known of the query's comparisons (`app.features.slack`), and whether an event came since that a negation asks for.

        Args:
            known: where they stand.
            engine: not fed since ``live`` was taken.
            live: the partial matches.
            since: float64 (negated items, matches), whether such an event came since the newest one; None: nobody knows.
        """
        told, ends = told_of(engine, live, self.questions), 2 * self.attributes
        since = np.full((self.negated, len(live)), np.nan) if since is None else since
        values = np.concatenate([told[:ends], since, self.comparisons.slack(told[ends:])])
        return replace(known, last_type=live.item.astype(np.int32), values=values)
