"""The search for an evaluation sequence on sampled events: which construct next, and where a region should go instead.

Everything is a pure function of a sample (the region of every attribute of some events) and the constructs' bitmaps.

**Source:** Lee and Lee, JIIS 39(2) 2012, sections 4.2 and 4.3, definitions 2 to 4, equations 1 to 3. The paper takes new events for every step of
the search; here that is the caller's choice (`next_construct`), and `macro_sequence` takes one sample for all steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.asc.constructs import Constructs
from app.asc.sequence import NO_ARROW, Sequence


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Sampled events.

    Attributes:
        constructs: of the stream.
        regions: int32 (constructs, events), rows of `Constructs.tables`.
    """

    constructs: Constructs
    regions: NDArray[np.int32]

    def bitmaps(self, number: int) -> NDArray[np.uint64]:
        """uint64 (events, words): the bitmap of every event's region."""
        return self.constructs.tables[number][self.regions[number]]

    def results(self, prefix: tuple[int, ...]) -> NDArray[np.uint64]:
        """uint64 (events, words): global result bitmaps after these constructs."""
        found = np.tile(self.constructs.items, (self.regions.shape[1], 1))
        for number in prefix:
            found &= self.bitmaps(number)
        return found


def conditional_selectivity(sample: Sample, prefix: tuple[int, ...], appended: int) -> float:
    """The share of evaluations that pass, over all events and the items that ``prefix`` does not decide: s(prefix → appended | prefix).

    0 where ``prefix`` covers all items.
    """
    open_items = sample.constructs.items & ~sample.constructs.covered(prefix)
    evaluations = _ones(open_items) * sample.regions.shape[1]
    passed = _ones(sample.results((*prefix, appended)) & open_items)
    return passed / evaluations if evaluations else 0.0


def dropping_ratio(sample: Sample, sequence: tuple[int, ...]) -> float:
    """The share of events that no item wants after these constructs: d(sequence)."""
    events = sample.regions.shape[1]
    return float(np.count_nonzero(~sample.results(sequence).any(axis=1))) / events if events else 0.0


def next_construct(sample: Sample, prefix: tuple[int, ...], alone: Mapping[int, float] | None = None) -> int:
    """The construct that a macro-sequence goes on with.

    Until the items are covered the one of least conditional selectivity, then the one of greatest dropping ratio, among equals the one that
    is most selective alone; the least number where that is equal too.

    Args:
        sample: events of one period.
        prefix: the sequence so far, not complete.
        alone: selectivity of every construct for itself, as it was found in the first period; None to take it from the sample.
    """
    rest = [number for number in range(len(sample.constructs)) if number not in prefix]
    if not sample.constructs.covers(prefix):
        return min(rest, key=lambda number: (conditional_selectivity(sample, prefix, number), number))
    single = alone or {number: conditional_selectivity(sample, (), number) for number in rest}
    return min(rest, key=lambda number: (-dropping_ratio(sample, (*prefix, number)), single[number], number))


def macro_sequence(sample: Sample) -> tuple[int, ...]:
    """A complete macro-sequence, all steps on the same sample."""
    found: tuple[int, ...] = ()
    alone = {number: conditional_selectivity(sample, (), number) for number in range(len(sample.constructs))}
    results, covered = sample.results(()), np.zeros_like(sample.constructs.items)
    while len(found) < len(sample.constructs):
        chosen = _best_after(sample, results, covered, found, alone)
        found, covered = (*found, chosen), covered | sample.constructs.usages[chosen]
        results = results & sample.bitmaps(chosen)
    return found


def _best_after(
    sample: Sample, results: NDArray[np.uint64], covered: NDArray[np.uint64], prefix: tuple[int, ...], alone: Mapping[int, float]
) -> int:
    """`next_construct` from the global result bitmaps so far: a step costs one construct per candidate instead of the whole prefix."""
    rest = [number for number in range(len(sample.constructs)) if number not in prefix]
    if not sample.constructs.covers(prefix):
        open_items = sample.constructs.items & ~covered
        passed = {number: _ones(results & sample.bitmaps(number) & open_items) for number in rest}
        return min(rest, key=lambda number: (passed[number], number))
    alive = {number: int(np.count_nonzero((results & sample.bitmaps(number)).any(axis=1))) for number in rest}
    return min(rest, key=lambda number: (alive[number], alone[number], number))


@dataclass(slots=True, eq=False)
class Walk:
    """Sampled events on their way along a sequence; those that were dropped are gone.

    Attributes:
        events: int64 (alive,), their places in the sample.
        results: uint64 (alive, words), their global result bitmaps (``GRB``).
        visited: bool (alive, constructs), what they evaluated (``GEB``).
        last: int64 (alive,), the construct visited last.
    """

    events: NDArray[np.int64]
    results: NDArray[np.uint64]
    visited: NDArray[np.bool_]
    last: NDArray[np.int64]

    @staticmethod
    def start(sample: Sample, first: int) -> Walk:
        """All events after their first construct."""
        events, constructs = sample.regions.shape[1], len(sample.constructs)
        walk = Walk(np.arange(events), sample.results(()), np.zeros((events, constructs), dtype=np.bool_), np.zeros(events, dtype=np.int64))
        walk.visit(sample, np.full(events, first))
        return walk

    def visit(self, sample: Sample, targets: NDArray[np.int64]) -> None:
        """Every event evaluates its target; who has nothing left is gone."""
        for number in np.unique(targets).tolist():
            own = targets == number
            self.results[own] &= sample.bitmaps(number)[self.events[own]]
        self.visited[np.arange(len(targets)), targets] = True
        self.last = targets
        alive = self.results.any(axis=1) & ~self.visited.all(axis=1)
        self.events, self.results = self.events[alive], self.results[alive]
        self.visited, self.last = self.visited[alive], self.last[alive]

    def macro_targets(self, order: tuple[int, ...]) -> NDArray[np.int64]:
        """int64 (alive,): where macro-arrows lead, the first construct of the order that an event has not visited."""
        places = np.array(order)
        return places[np.argmax(~self.visited[:, places], axis=1)]

    def targets(self, sample: Sample, order: tuple[int, ...], arrows: Mapping[int, NDArray[np.int32]]) -> NDArray[np.int64]:
        """int64 (alive,): where the events go next."""
        found = self.macro_targets(order)
        for number, own in arrows.items():
            here = np.flatnonzero(self.last == number)
            led = own[sample.regions[number, self.events[here]]]
            free = (led != NO_ARROW) & ~self.visited[here, led]
            found[here[free]] = led[free]
        return found


def micro_arrows(sample: Sample, walk: Walk, order: tuple[int, ...], least_visits: int = 1) -> dict[tuple[int, int], int]:
    """The micro-arrows of the regions that events visited last.

    All events of a region count together, whichever way they came. A candidate is measured on the events of the region only: by the share of
    items left that pass, until all visited constructs together cover all items; then by the share of events that it drops. The best one
    becomes the region's arrow unless macro-arrows are better; among equals the one where macro-arrows lead, then the least number.

    Args:
        sample: events of one period.
        walk: where they are.
        order: the macro-sequence.
        least_visits: regions with fewer events get no arrow.

    Returns:
        by construct and region the target, or `NO_ARROW`.
    """
    found: dict[tuple[int, int], int] = {}
    macro = walk.macro_targets(order)
    for number in np.unique(walk.last).tolist():
        candidates = sample.constructs.candidates(number)
        here = np.flatnonzero(walk.last == number)
        regions = sample.regions[number, walk.events[here]]
        for region in np.unique(regions).tolist():
            own = here[regions == region]
            if len(own) >= least_visits:
                found[number, region] = _arrow(sample, walk, own, macro[own], candidates[region])
    return found


def _arrow(sample: Sample, walk: Walk, own: NDArray[np.int64], macro: NDArray[np.int64], candidates: NDArray[np.bool_]) -> int:
    free = np.flatnonzero(candidates & ~walk.visited[own].any(axis=0)).tolist()
    if not free:
        return NO_ARROW
    covering = sample.constructs.covers(tuple(np.flatnonzero(walk.visited[own].all(axis=0)).tolist()))
    results, events = walk.results[own], walk.events[own]

    def left(targets: NDArray[np.int64]) -> int:
        """What the events still have to be asked about after going there: items, or once these are covered, events that live on."""
        after = results.copy()
        for target in np.unique(targets).tolist():
            going = targets == target
            after[going] &= sample.bitmaps(target)[events[going]]
        return int(np.count_nonzero(after.any(axis=1))) if covering else _ones(after)

    usual = int(np.bincount(macro).argmax())
    score, _, best = min((left(np.full(len(own), target)), target != usual, target) for target in free)
    return best if score <= left(macro) else NO_ARROW


def find_arrows(sample: Sample, order: tuple[int, ...], least_visits: int = 1) -> dict[int, NDArray[np.int32]]:
    """The micro-arrows of a hybrid-sequence, all steps on the same sample; a region's first arrow stays."""
    arrows: dict[int, NDArray[np.int32]] = {}
    if len(order) < 2:
        return arrows
    decided: set[tuple[int, int]] = set()
    walk = Walk.start(sample, order[0])
    while len(walk.events):
        for (number, region), target in micro_arrows(sample, walk, order, least_visits).items():
            if (number, region) not in decided:
                decided.add((number, region))
                if number not in arrows:
                    arrows[number] = np.full(len(sample.constructs.tables[number]), NO_ARROW, dtype=np.int32)
                arrows[number][region] = target
        walk.visit(sample, walk.targets(sample, order, arrows))
    return {number: own for number, own in arrows.items() if (own != NO_ARROW).any()}


def hybrid_sequence(sample: Sample, order: tuple[int, ...], least_visits: int = 1) -> Sequence:
    """A macro-sequence with its micro-arrows."""
    return Sequence(order, find_arrows(sample, order, least_visits))


def _ones(bitmaps: NDArray[np.uint64]) -> int:
    return int(np.bitwise_count(bitmaps).sum())
