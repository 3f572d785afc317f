"""Rearrangement of evaluation sequences while events flow: a state machine that is fed with figures and samples, and decides nothing by the clock.

It lives where decisions are made (the driver) and is told what was seen wherever events are evaluated (the tasks). What it decides, the sequence and
how many events to sample, is written into the orders for a batch; so a batch that is done again takes the same way.

**Source:** Lee and Lee, JIIS 39(2) 2012, section 5.2, equation 5. Deviates: the search takes one sample instead of one period per construct
(figures of micro-batches arrive late, and the order is found n - 1 times sooner); it looks for the cheapest sequence (`app.asc.cheapest`), unless the paper's own search is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from app.asc.cheapest import alike
from app.asc.constructs import Constructs
from app.asc.experts import Experts
from app.asc.monitor import Sample, find_arrows, macro_sequence
from app.asc.remembered import Remembered
from app.asc.sequence import Sequence

Mode = Literal["macro", "hybrid", "fixed"]
Search = Literal["cheapest", "paper"]
LEAST_COMPARED = 300
"""Sampled events by which a change is seen before its period is over."""
LEAST_SHARE = 256
"""Of the paper's search: a region needs one in so many sampled events for a micro-arrow. Fewer say little, and directives stay short."""


@dataclass(frozen=True, slots=True)
class AdaptiveRules:
    """How sequences adapt.

    Attributes:
        mode: ``fixed`` keeps the initial order; ``macro`` rearranges it; ``hybrid`` adds micro-arrows.
        period: events after which the dropping ratio is looked at again (lambda), > 0.
        threshold: relative change of the dropping ratio that rearranges (mu), >= 0; 0 rearranges after every period.
        sample: events that a sequence is found from, at least.
        search: ``cheapest`` looks for the sequence of least cost; ``paper`` is the paper's, by selectivity, step by step.
        memory: events of earlier samples that a search for the cheapest looks at as well, while they look like the newest ones.
        long_memory: the same, whatever they look like; see `app.asc.remembered`.
    """

    mode: Mode = "macro"
    period: int = 100_000
    threshold: float = 0.01
    sample: int = 2_000
    search: Search = "cheapest"
    memory: int = 8_000
    long_memory: int = 40_000


@dataclass(frozen=True, slots=True)
class Seen:
    """What evaluation saw: ``events``, and how many of them no item wanted."""

    events: int
    dropped: int


class Adaptive:
    """The evaluation sequence of one stream.

    Attributes:
        sequence: the current one.
        rearrangements: how often another one was searched for.
    """

    def __init__(self, constructs: Constructs, rules: AdaptiveRules, initial: Sequence) -> None:
        self._constructs = constructs
        self._rules = rules
        self.sequence = initial
        self.rearrangements = 0
        self._searching = self._can_adapt
        self._sampled: list[NDArray[np.int32]] = []
        self._memories = (Remembered.nothing("old", rules.long_memory, initial), Remembered.nothing("unlike", rules.memory, initial))
        self._experts = Experts(initial)
        self._first_ratio: float | None = None
        self._events = 0
        self._newest = 0
        self._dropped = 0

    @property
    def sample_wanted(self) -> int:
        """How many more events of the next batch are to be sampled: all that the search waits for, or, where one is sure to come, so many that they are spread over the period before it; 0 otherwise."""
        if not self._searching and not self._gathers:
            return 0
        due = 1.0 if self._searching else min(1.0, (self._events + self._newest) / self._rules.period)
        return max(0, ceil(self._rules.sample * due) - sum(part.shape[1] for part in self._sampled))

    def observe(self, seen: Seen, regions: NDArray[np.int32] | None = None) -> bool:
        """Takes in what was seen along the current sequence.

        Args:
            seen: events of one or more batches.
            regions: int32 (constructs, events), of sampled events among them.

        Returns:
            Whether there is another sequence now.
        """
        if not self._can_adapt:
            return False
        before = self.sequence
        if regions is not None and regions.shape[1] and (self._searching or self._gathers):
            self._take_in(self._fitting(regions))
        self._newest = seen.events
        if not self._searching:
            self._note(seen)
        if self._searching and self._sampled and not self.sample_wanted:
            self._rearrange()
        return self.sequence is not before

    def snapshot(self) -> dict[str, Any]:
        """Values for JSON. A search that goes on begins anew after `restore`: neither samples are kept nor what other sequences cost, nor micro-arrows by who wants none any more."""
        return {
            "constructs": self._constructs.fingerprint(),
            "sequence": self.sequence.to_plain(),
            "rearrangements": self.rearrangements,
            "searching": self._searching,
            "first_ratio": self._first_ratio,
            "events": self._events,
            "dropped": self._dropped,
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Goes on from a snapshot; one of other constructs is left aside."""
        if plain.get("constructs") != self._constructs.fingerprint() or not self._can_adapt:
            return
        kept = Sequence.from_plain(plain["sequence"])
        self.sequence = kept if self._rules.mode == "hybrid" else Sequence.fixed(kept.order)
        self._experts = Experts(self.sequence)
        self.rearrangements = plain["rearrangements"]
        self._searching, self._first_ratio = plain["searching"], plain["first_ratio"]
        self._events, self._dropped = plain["events"], plain["dropped"]

    @property
    def _can_adapt(self) -> bool:
        return self._rules.mode != "fixed" and len(self._constructs) > 1

    def _fitting(self, regions: NDArray[np.int32]) -> NDArray[np.int32]:
        """Numbers of regions that exist: columns of a form that schemas did not promise have others."""
        last = np.array([len(table) - 1 for table in self._constructs.tables], dtype=np.int32)
        return np.clip(regions, 0, last[:, None])

    @property
    def _gathers(self) -> bool:
        """Whether the next search is sure to come: what comes in bursts is known better from events of all of the period than from as many in a row. The paper's search takes them in a row."""
        return self._rules.threshold == 0 and self._rules.search == "cheapest"

    def _take_in(self, regions: NDArray[np.int32]) -> None:
        """Sampled events. Who waits for the next search does not wait where the newest are unlike those that were sampled before: these are of another time."""
        self._sampled.append(regions)
        if self._rules.search == "cheapest":
            self._experts.judge(Sample(self._constructs, regions))
            self.sequence = self._experts.best
            if not self._searching and (newest := self._parts_since_a_change()):
                self._searching, self._sampled = True, self._sampled[-newest:]

    def _parts_since_a_change(self) -> int:
        """How many of the sampled parts, the newest ones that are enough to compare, are unlike those before them; 0 where they are alike."""
        sizes = np.cumsum([part.shape[1] for part in reversed(self._sampled)])
        newest = int(np.searchsorted(sizes, LEAST_COMPARED)) + 1
        if newest >= len(sizes) or sizes[-1] - sizes[newest - 1] < LEAST_COMPARED:
            return 0
        now, before = (
            Sample(self._constructs, np.concatenate(parts, axis=1)) for parts in (self._sampled[-newest:], self._sampled[:-newest])
        )
        return 0 if alike(now, before, self.sequence.order) else newest

    def _note(self, seen: Seen) -> None:
        """Looks at the dropping ratio after every period (equation 5)."""
        self._events += seen.events
        self._dropped += seen.dropped
        if self._events < self._rules.period:
            return
        ratio = self._dropped / self._events
        self._events = self._dropped = 0
        if self._first_ratio is None:
            self._first_ratio = ratio
            self._searching = self._rules.threshold == 0
        else:
            self._searching = changed(self._first_ratio, ratio) >= self._rules.threshold

    def _rearrange(self) -> None:
        sample = Sample(self._constructs, np.concatenate(self._sampled, axis=1))
        self.sequence = self._by_paper(sample) if self._rules.search == "paper" else self._cheapest(sample)
        self.rearrangements += 1
        self._searching, self._sampled, self._first_ratio, self._events, self._dropped = False, [], None, 0, 0

    def _by_paper(self, sample: Sample) -> Sequence:
        order = macro_sequence(sample)
        least = -(-sample.regions.shape[1] // LEAST_SHARE)
        return Sequence(order, find_arrows(sample, order, least) if self._rules.mode == "hybrid" else {})

    def _cheapest(self, newest: Sample) -> Sequence:
        """The best of all that were found, with what both memories find now."""
        parts = [Sample(self._constructs, part) for part in self._sampled]
        for one in self._memories:
            one.learn(newest, arrows=self._rules.mode == "hybrid")
            self._experts.add(one.sequence, parts)
        return self._experts.best


def changed(first: float, now: float) -> float:
    """The relative change of a dropping ratio (equation 5); from 0, any other ratio is an infinite one.

    >>> changed(0.5, 0.4), changed(0.0, 0.0), changed(0.0, 0.1)
    (0.2, 0.0, inf)
    """
    if first == 0:
        return 0.0 if now == 0 else float("inf")
    return round(abs(now - first) / first, 12)
