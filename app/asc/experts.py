"""Sequences that were found so far, and which of them is cheapest now: each is judged by every sample, and the newest events count most.

A stream that comes in bursts comes back to what it was. The sequence that was right then is right again at once, where a search would still have to see enough of the burst; and a search whose sample misled it
costs one sample only. So whoever was found stays and is judged on, and the one that costs least lately is in force.

**Source:** Herbster, Warmuth: *Tracking the best expert* (Machine Learning 32, 1998), for the task. The rule is simpler than theirs, since what every expert would have cost is known: the least decayed mean leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.asc.evaluate import evaluate_regions
from app.asc.monitor import Sample
from app.asc.sequence import Sequence

HALF_LIFE = 300
"""Sampled events after which one counts half. On recorded bursts 100 to 600 do as well as each other, on streams that stay as they are less would follow chance."""
MOST = 16
"""Who cost most is forgotten then. Eight find half of what bursts bring (`ops/decisions/0019-selection-sequences.md`), twice as many no more; each costs its evaluation of every sample."""


@dataclass(slots=True)
class _Expert:
    """A sequence, and the constructs per event that it costs lately; None before it was judged."""

    sequence: Sequence
    cost: float | None = None

    def judge(self, sample: Sample) -> None:
        """By some more events."""
        count = sample.regions.shape[1]
        now = evaluate_regions(sample.constructs, sample.regions, self.sequence).evaluated / count
        self.cost = now if self.cost is None else self.cost + (1 - 0.5 ** (count / HALF_LIFE)) * (now - self.cost)


class Experts:
    """All of a stream, of which there is always one."""

    def __init__(self, initial: Sequence) -> None:
        self._all = [_Expert(initial)]

    @property
    def best(self) -> Sequence:
        """The cheapest lately; of equal ones the one that was found first."""
        return min(self._all, key=_cost).sequence

    def judge(self, sample: Sample) -> None:
        """By events that none of them was found from."""
        for one in self._all:
            one.judge(sample)

    def add(self, sequence: Sequence, samples: Iterable[Sample]) -> None:
        """Another one, unless it is known, judged by what the others were judged by last.

        Args:
            sequence: that was found.
            samples: the newest ones, in the order in which they came.
        """
        if any(sequence == one.sequence for one in self._all):
            return
        found = _Expert(sequence)
        for sample in samples:
            found.judge(sample)
        self._all.append(found)
        if len(self._all) > MOST:
            self._all.remove(max(self._all, key=_cost))


def _cost(expert: _Expert) -> float:
    return float("inf") if expert.cost is None else expert.cost
