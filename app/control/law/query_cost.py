"""What a query costs: its work per event, or per event and partial match, as its owners measured it, and what its candidates are of the stream.

The work is that of the slowest owner, in time of the processor: a batch is over when its last owner is done, and what others do on the machine is no cost of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.control.law.elasticity import Elasticity
from app.control.law.fullness import Fullness
from app.control.law.match_costs import MatchCosts, Sample
from app.control.law.running import NEWEST, followed, remembered, smoothed
from app.control.law.surprises import Surprises

FADING = 0.05
"""How much of what a query's composite events were late is forgotten with a batch in which it has none."""
MOST_OFFSET_MS = 60_000.0
"""Later ones waited for something else."""
FEED_MS = 1.0
"""Of a query's work in a batch, what there is whatever is in the batch: calls and arrays. Taken for work per event, ten events would foretell a burst of them a hundred times too dear."""
NO_EFFECT = 0.1
"""Of what was asked: when less than this is dropped, shedding is in vain (all events are guarded, say)."""
COLD_MS = 1_000.0
"""Of a query's work in a batch of processes that are still cold, what loading and first calls may take. What is beyond that its events cost where they were held against more than was known of: batches of seconds would otherwise follow each other for as long as the warm-up lasts."""
EMPTY = 0.5
"""Of a full state: in one with less, what an event adds is seen; in others as much goes."""
TELLING = 20
"""Events that are kept in a batch: fewer do not say what one adds."""
SLOWEST_TURN = 0.1
"""Of the state at least so much is taken to be replaced in a batch: what live events are said to be may be partial matches."""
FOLLOWED = 1.3
"""So many times what is kept, or less: what the state was made from. Then it has followed, and work says what that share costs."""
LEAST_RETAINED = 0.02
"""Of what there would be without shedding: below, there is nothing left to be measured."""
TURNED = 0.5
"""Of the state replaced in a batch: it is what the batch's ratio made of it."""
FORGIVEN = 0.003
"""Of what is missing: so fast a shedder that dropped less than it was asked to gets another chance while it is not asked; and one whose verdicts cost more than it saved."""
UNJUDGED = 0.5
"""Of an event's work, what verdicts on what it leads to are taken for before there were any, and again some minutes after the last: whom they would make dearer than shedding makes it cheaper is asked only where more than that is to be had."""


@dataclass(frozen=True, slots=True)
class QueryObservation:
    """One query in one batch.

    Attributes:
        candidates: events that it could use, shed ones included.
        shed: of them.
        work_ms: that the slowest owner spent on it, time of the processor.
        matches: partial matches that an event was held against on average, as far as known.
        reference: where partial matches are shed, how many there would be without; else 0.
        asked: the drop ratio under which the batch ran; where events went as well as partial matches, 1 and the share of these.
        latency_ms: of its composite events, broker time of the last constituent to the end of matching, on average; None without any.
        judging_ms: of its work, what there is only because it sheds: verdicts on what it found.
        more_matches: by how many partial matches there were more behind the batch than before it, had none been ended.
        let_go: how many events more reached its shedder than arrived, where it drops behind the wait for the watermark.
        unasked: of those that reached it, the ones that it could not drop: they arrived before it was asked to.
    """

    candidates: int = 0
    shed: int = 0
    work_ms: float = 0.0
    matches: float = 0.0
    reference: int = 0
    asked: float = 0.0
    latency_ms: float | None = None
    judging_ms: float = 0.0
    more_matches: float = 0.0
    let_go: int = 0
    unasked: int = 0


def turned_by(kept: ArrayLike, held: ArrayLike) -> NDArray[np.float64]:
    """Share of a state of so many events, or partial matches, that is replaced by a batch in which so many events are kept; for each of as many.

    >>> turned_by([500, 10_000, 10], 2000).tolist()
    [0.25, 1.0, 0.1]
    """
    return np.minimum(np.maximum(kept / np.maximum(1.0, held), SLOWEST_TURN), 1.0)


@dataclass(slots=True)
class QueryCost:
    """What is known of one query; all of it goes through `snapshot`.

    Attributes:
        share: candidates per record of its streams.
        base_ms: work in a batch that has nothing to do with events.
        spent_ms: the rest of it, the newest batches counting most.
        events: that it was spent on. Sums, not a mean of means: a large batch says more about an event than ten small ones.
        offered: the same with those that were shed.
        judging: ms per candidate that verdicts take while it sheds; None before there were any.
        whole: how many events that are kept, and held against a state that was made from all events, they come to.
        elasticity: how its work follows the share that is kept.
        retained: share of its events that its state was made from: what an event costs depends on what it is held against, and that follows the drop ratio a window later.
        full: how many partial matches, or events, a state holds that was made from all events, where an event costs what is known.
        dense: candidates per ms then.
        born: how many an event that is kept adds; see `EMPTY`.
        effect: share of what it was asked to drop that it did drop.
        offset_ms: by how much its composite events are later than the batches explain.
        reference: partial matches without shedding.
        matches: partial matches when that was measured.
        newest_matches: in the batch before.
        by_matches: what its events cost by their number, where they are shed.
        surprises: by how much events cost more or less than was known.
    """

    share: float | None = None
    base_ms: float = 0.0
    spent_ms: float = 0.0
    events: float = 0.0
    offered: float = 0.0
    judging: float | None = None
    whole: float = 0.0
    elasticity: Elasticity = field(default_factory=Elasticity)
    retained: float = 1.0
    full: float = 0.0
    dense: float = 0.0
    born: float = 0.0
    effect: float = 1.0
    offset_ms: float = 0.0
    reference: float = 0.0
    matches: float = 0.0
    newest_matches: float = 0.0
    by_matches: MatchCosts = field(default_factory=MatchCosts)
    surprises: Surprises = field(default_factory=Surprises)

    def learn(
        self,
        seen: QueryObservation,
        consumed: int,
        explained_ms: float | None,
        *,
        warm: bool,
        reads_others: bool = False,
        judged: bool = False,
        period_ms: float = 0.0,
    ) -> None:
        """Takes a batch into account.

        Args:
            seen: of the query.
            consumed: records of its streams.
            explained_ms: how late composite events are on average by what is known of the batch; None where nothing can be said.
            reads_others: whether it reads other queries' composite events alone: what they are counts as the stream.
            warm: whether the processes are; until then only what is cheaper than before is believed, and what is dearer by more than a cold process explains, with a fuller state.
            judged: whether verdicts are given on what it finds while it sheds.
            period_ms: in which its events came; 0 where nobody knows.
        """
        candidates = seen.candidates or (consumed if reads_others and seen.work_ms > 0 else 0)
        if consumed > 0:
            self.share = followed(self.share, candidates / consumed)
        self._learn_work(seen, candidates + seen.let_go - seen.shed, period_ms, warm=warm, judged=judged)
        self.reference = float(seen.reference)
        self._learn_effect(seen)
        if seen.latency_ms is None:
            self.offset_ms *= 1 - FADING
        elif explained_ms is not None:
            self.offset_ms = followed(self.offset_ms, max(0.0, min(seen.latency_ms - explained_ms, MOST_OFFSET_MS)))

    def _learn_work(self, seen: QueryObservation, kept: int, period_ms: float, *, warm: bool, judged: bool) -> None:
        base = min(seen.work_ms, FEED_MS)
        self.base_ms = followed(self.base_ms or None, base)
        if kept <= 0:
            return
        offered = kept if seen.reference else kept + seen.shed
        self._learn_judging(seen, offered, warm=warm, judged=judged)
        curve = self.by_matches.curve() if seen.reference else None
        known_ms = self.whole_ms if curve is None else curve.latency_s(seen.matches)
        passed, turned = kept / offered, float(turned_by(kept, seen.matches))
        spent = max(0.0, seen.work_ms - base - seen.judging_ms)
        self._learn_born(seen, kept)
        met = self._met(seen, passed, turned, warm=warm)
        whole = offered * self.elasticity.left(passed, met)
        each_ms = spent / whole
        # else it is no more than what there is whatever is in a batch: a quiet night of these says nothing of the next burst
        telling = spent > 0 or known_ms * whole > FEED_MS
        keep = None
        if warm and telling:
            keep = 1 - NEWEST * self.surprises.learn(each_ms, known_ms)
            if curve is not None and min(each_ms, known_ms) > 0:
                self.by_matches.move(seen.matches, each_ms, known_ms, self.surprises.signal)
            left = max(LEAST_RETAINED, passed)
            if not seen.reference and max(self.retained, left) <= FOLLOWED * min(self.retained, left):
                self.elasticity.learn(passed, spent / offered)
        elif telling and (self.events == 0 or each_ms < known_ms):
            keep = 0.0
        elif spent - COLD_MS > known_ms * whole and seen.matches > self.full:
            keep, spent = 0.0, spent - COLD_MS
        if keep is not None:
            self._learn_full(keep * self.whole, whole, seen.matches / met, offered / period_ms if period_ms > 0 else self.dense)
            self._add(keep, spent, kept, offered, whole)
        if seen.reference and warm:
            self.by_matches.learn(seen.matches, spent, kept)
            self._learn_reference(seen, self.newest_matches, turned)
        self.matches = seen.matches if known_ms == 0 or not warm else followed(self.matches, seen.matches)
        self.newest_matches = seen.matches

    def _learn_judging(self, seen: QueryObservation, offered: int, *, warm: bool, judged: bool) -> None:
        """Verdicts while it sheds; while it does not they are forgotten."""
        if seen.asked == 0 and self.judging is not None:
            self.judging += FORGIVEN * (UNJUDGED * self.whole_ms * judged - self.judging)
        elif seen.asked > 0 and warm:
            self.judging = followed(self.judging, seen.judging_ms / offered)

    def _learn_born(self, seen: QueryObservation, kept: int) -> None:
        newest = seen.more_matches / kept
        if kept >= TELLING and (newest > self.born or seen.matches < EMPTY * self.full):
            self.born = smoothed(self.born, newest)

    def _met(self, seen: QueryObservation, passed: float, turned: float, *, warm: bool) -> float:
        """What share of all events the state was made from that the batch's events met, as it follows the share that passed; behind an outage less, where windows have passed meanwhile."""
        before = self.retained
        self.retained = max(LEAST_RETAINED, before + turned * (passed - before))
        emptied = not (warm or seen.reference) and self.full > 0
        if not (seen.matches or emptied):
            return 1.0
        met = (before + self.retained) / 2
        if emptied and seen.matches < met * self.full:
            met = max(LEAST_RETAINED, seen.matches / self.full)
            self.retained = min(self.retained, met)
        return met

    def _add(self, keep: float, spent_ms: float, kept: int, offered: int, whole: float) -> None:
        """A batch more, of which as much of the older ones is kept as is said."""
        self.spent_ms, self.events = keep * self.spent_ms + spent_ms, keep * self.events + kept
        self.offered, self.whole = keep * self.offered + offered, keep * self.whole + whole

    def _learn_full(self, known: float, whole: float, full: float, dense: float) -> None:
        """What a full state held, and how dense events were, in the batches that `_add` adds up, with the weights that these have there."""
        if full > 0:
            weight = whole / (known + whole) if self.full else 1.0
            self.full, self.dense = smoothed(self.full, full, weight), smoothed(self.dense, dense, weight)

    def _learn_reference(self, seen: QueryObservation, before: float, turned: float) -> None:
        """What a batch's ratio left of the reference, where the state has followed it: one that fills up again behind shedding has not."""
        if seen.asked == 0 and FOLLOWED * seen.matches < seen.reference:
            return
        if (
            seen.asked <= 1
            and min(seen.matches, before) > 0
            and (turned >= TURNED or max(seen.matches, before) <= FOLLOWED * min(seen.matches, before))
        ):
            self.by_matches.fullness.learn(1 - seen.asked, seen.matches / seen.reference)

    def judging_ms(self, *, judged: bool) -> float:
        """Per candidate, of verdicts while it sheds; see `learn`."""
        return UNJUDGED * self.whole_ms * judged if self.judging is None else self.judging

    @property
    def per_event_ms(self) -> float:
        """Work per event that reaches it."""
        return self.spent_ms / self.events if self.events else 0.0

    @property
    def whole_ms(self) -> float:
        """Work per event if all are kept, and were."""
        return self.spent_ms / self.whole if self.whole else 0.0

    def of_another_shedder(self) -> None:
        """Partial matches are shed from now on instead of events, or the other way round: what was known of the ones says nothing about the others."""
        self.effect, self.reference, self.matches, self.newest_matches = 1.0, 0.0, 0.0, 0.0
        self.by_matches = MatchCosts()

    def _learn_effect(self, seen: QueryObservation) -> None:
        considered = seen.candidates + seen.let_go - seen.unasked
        if seen.asked > 0.05 and considered > 100 and not seen.reference:
            self.effect = followed(self.effect, min(1.0, seen.shed / considered / seen.asked))
        else:
            self.effect += FORGIVEN * (1 - self.effect)

    def work_by_ratio(self, most: float = 1.0) -> Callable[[float], float]:
        """Where partial matches are shed, its work per event by drop ratio, and not beyond ``most``."""
        return self.by_matches.by_ratio(self.reference, self.matches, self.per_event_ms, most)


def restored(values: Mapping[str, Any]) -> QueryCost:
    """Of what an earlier version wrote, what it says; that version took work for that of a join."""
    surprises, matches = (values.get(name, values) for name in ("surprises", "by_matches"))  # earlier versions had all in one
    parts = {
        "elasticity": remembered(Elasticity, values.get("elasticity", {})),
        "surprises": remembered(Surprises, surprises),
        "by_matches": MatchCosts(
            [Sample(*one) if isinstance(one, list) else remembered(Sample, one) for one in matches.get("samples", [])],
            remembered(Fullness, matches.get("fullness", {})),
        ),
    }
    known: QueryCost = remembered(QueryCost, {**values, **parts})
    known.offered = known.offered or known.events
    if known.events and not known.whole:
        kept = known.events / known.offered
        known.whole = known.offered * known.elasticity.left(kept, known.retained)
    return known
