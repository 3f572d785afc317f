"""The cheapest evaluation sequence of sampled events: the search that the application uses.

The paper's search (`app.asc.monitor`) appends one construct at a time by selectivity, and judges a micro-arrow by the next construct alone. Here both are judged by all constructs that are
still to come until an event is dropped. Events that some item wants pass all constructs in every order, so only the others of the sample are looked at.

* **Order.** How many events are alive after a set of constructs does not depend on the order in which these were evaluated, so the cheapest order is the shortest path through the lattice
  of all sets. Where there are too many sets, the construct that decides most pairs of an event and an item comes next (edge-cover greedy).
* **Micro-arrows.** A region's arrow leads where its events have least to evaluate from there on along the order, and is there only if it saves more than chance explains (two standard
  errors): the best of many candidates on some tens of events is mostly luck.

**Source:** Munagala, Srivastava, Widom: *Optimization of continuous queries with shared expensive filters* (PODS 2007), for edge-cover greedy; the rest is this project's
(`ops/decisions/0019-selection-sequences.md`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.asc.monitor import Sample, Walk, macro_sequence
from app.asc.sequence import NO_ARROW

LATTICE_WORDS = 1 << 15
"""Sets of constructs times words of a bitmap: fifteen constructs and 64 items."""
_LATTICE_WORK = 1 << 25
"""The same times events: 0.1 s. More would keep the driver busy for longer than an order is worth; fifteen constructs are judged by 1,024 events."""
LATTICE_EVENTS = 2_048
"""Of a sample, evenly spread, that an order is found from at most: more found none that was cheaper on other events."""
_BLOCK_WORDS = 1 << 19
"""Of bitmaps that are worked on at a time: 4 MiB."""
_BLOCK_CONSTRUCTS = 8
_STEP_WORDS = 1 << 21
"""Constructs squared times words times events that a step of the search for micro-arrows may take: where that is less than the sample has, it looks at fewer events."""
LEAST_EVENTS = 40
"""Of a region, for a micro-arrow: with fewer the standard error is not to be trusted."""
_ERRORS = 2.0
_UNALIKE = 4.0
"""Standard errors by which shares of two samples differ that are not of the same stream: many are compared, one of which differs by two by chance."""
_ROUNDS = 2
"""Arrows change which events come where; the second round sees that."""

Arrows = dict[int, NDArray[np.int32]]


@dataclass(frozen=True, slots=True, eq=False)
class Doomed:
    """The sampled events that no item wants.

    Attributes:
        sample: of these events alone.
        bitmaps: uint64 (constructs, words, events), those of their regions.
    """

    sample: Sample
    bitmaps: NDArray[np.uint64]

    @staticmethod
    def of(sample: Sample) -> Doomed:
        """Those of a sample."""
        count, words = len(sample.constructs), len(sample.constructs.items)
        unwanted = np.flatnonzero(~sample.results(tuple(range(count))).any(axis=1))
        left = Sample(sample.constructs, np.ascontiguousarray(sample.regions[:, unwanted]))
        bitmaps = np.empty((count, words, len(unwanted)), np.uint64)
        for number in range(count):
            bitmaps[number] = left.bitmaps(number).T
        return Doomed(left, bitmaps)

    def cost(self, order: tuple[int, ...]) -> int:
        """Constructs that they evaluate in this order, all events together."""
        left, spent = self.everything(), 0
        for number in order:
            spent += int(np.count_nonzero(left.any(axis=0)))
            left &= self.bitmaps[number]
        return spent

    def everything(self) -> NDArray[np.uint64]:
        """uint64 (words, events): result bitmaps before the first construct."""
        return np.repeat(self.sample.constructs.items[:, None], self.bitmaps.shape[2], axis=1)


def cheapest_sequence(sample: Sample) -> tuple[int, ...]:
    """The order in which the sampled events evaluate the fewest constructs, or nearly so where there are many."""
    sets = len(sample.constructs.items) << len(sample.constructs)
    if sets <= LATTICE_WORDS:
        doomed = Doomed.of(spread(sample, min(LATTICE_EVENTS, _LATTICE_WORK // sets)))
        return _shortest_path(alive_after(doomed), len(sample.constructs))
    doomed = Doomed.of(spread(sample, LATTICE_EVENTS))
    return min((edge_cover_order(doomed), macro_sequence(doomed.sample)), key=doomed.cost)


def alive_after(doomed: Doomed) -> NDArray[np.int64]:
    """int64 (2 ** constructs,): events alive after a set of constructs; bit n of its number says whether construct n is in it."""
    count, words, events = doomed.bitmaps.shape
    lower = min(_BLOCK_CONSTRUCTS, count)
    alive = np.zeros(1 << count, np.int64)
    step, items = max(1, _BLOCK_WORDS // (words << lower)), doomed.sample.constructs.items
    for first in range(0, events, step):
        part = doomed.bitmaps[:, :, first : first + step]
        below, above = _after_sets(part[:lower], items), _after_sets(part[lower:], items)
        for block in range(above.shape[1]):
            own = np.flatnonzero(above[:, block].any(axis=0))
            hit = np.zeros((1 << lower, len(own)), np.bool_)
            for word in range(words):
                hit |= (below[word][:, own] & above[word, block, own]) != 0
            alive[block << lower : (block + 1) << lower] += np.count_nonzero(hit, axis=1)
    return alive


def _after_sets(bitmaps: NDArray[np.uint64], items: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """uint64 (words, 2 ** constructs, events): result bitmaps after each set of these constructs."""
    count, words, events = bitmaps.shape
    found = np.empty((words, 1 << count, events), np.uint64)
    found[:, 0] = items[:, None]
    for number in range(count):
        found[:, 1 << number : 2 << number] = found[:, : 1 << number] & bitmaps[number][:, None]
    return found


def _shortest_path(alive: NDArray[np.int64], count: int) -> tuple[int, ...]:
    """From no construct to all of them: a step costs the events that are alive before it."""
    sets, single = np.arange(1 << count), 1 << np.arange(count)
    sizes = np.bitwise_count(sets)
    cost, last = np.zeros(1 << count, np.int64), np.zeros(1 << count, np.int64)
    for size in range(1, count + 1):
        here = sets[sizes == size]
        before = here[:, None] & ~single
        ways = np.where(before != here[:, None], cost[before] + alive[before], np.iinfo(np.int64).max)
        last[here], cost[here] = ways.argmin(axis=1), ways.min(axis=1)
    order, at = list[int](), len(sets) - 1
    while at:
        order.append(int(last[at]))
        at &= ~(1 << order[-1])
    return tuple(reversed(order))


def edge_cover_order(doomed: Doomed) -> tuple[int, ...]:
    """Next comes the construct that decides most pairs of an event and an item; the least number among equals."""
    rest, order, left = list(range(len(doomed.bitmaps))), list[int](), doomed.everything()
    while rest:
        pairs = [int(np.bitwise_count(left & doomed.bitmaps[number]).sum()) for number in rest]
        order.append(rest.pop(int(np.argmin(pairs))))
        left &= doomed.bitmaps[order[-1]]
    return tuple(order)


def saving_arrows(sample: Sample, order: tuple[int, ...], least: int = LEAST_EVENTS) -> Arrows:
    """Micro-arrows that save more along this order than chance explains.

    Args:
        sample: events.
        order: the macro-sequence.
        least: regions with fewer events get no arrow; 2 or more.
    """
    constructs, words, arrows = len(sample.constructs), len(sample.constructs.items), Arrows()
    if constructs < 2:
        return arrows
    doomed = Doomed.of(spread(sample, _STEP_WORDS // (constructs * constructs * words)))
    for _ in range(_ROUNDS):
        arrows = _better_arrows(doomed, order, arrows, least)
    return arrows


def spread(sample: Sample, events: int) -> Sample:
    """No more than so many events, evenly spread."""
    step = -(-sample.regions.shape[1] // max(1, events))
    return sample if step <= 1 else Sample(sample.constructs, np.ascontiguousarray(sample.regions[:, ::step]))


@dataclass(frozen=True, slots=True, eq=False)
class _Savings:
    """What leaving the order saves, by region of a construct and target.

    Attributes:
        events: int64 (regions,), visits.
        total, squares: float64 (regions, constructs), sums over them of constructs saved, and of the squares.
    """

    events: NDArray[np.int64]
    total: NDArray[np.float64]
    squares: NDArray[np.float64]

    @staticmethod
    def none(regions: int, constructs: int) -> _Savings:
        return _Savings(np.zeros(regions, np.int64), np.zeros((regions, constructs)), np.zeros((regions, constructs)))

    def add(self, regions: NDArray[np.int32], saved: NDArray[np.int64]) -> None:
        """Visits; ``saved``: int64 (constructs, visits)."""
        self.events[:] += np.bincount(regions, minlength=len(self.events))
        for target, one in enumerate(saved):
            self.total[:, target] += np.bincount(regions, one, len(self.events))
            self.squares[:, target] += np.bincount(regions, one**2, len(self.events))

    def arrows(self, candidates: NDArray[np.bool_], least: int) -> NDArray[np.int32]:
        """int32 (regions,): the target that surely saves most, or `NO_ARROW`."""
        events = np.maximum(self.events, 2)[:, None]
        mean = self.total / events
        error = np.sqrt(np.maximum(self.squares / events - mean**2, 0) / (events - 1))
        sure = np.where(candidates, mean - _ERRORS * error, -1.0)
        best = sure.argmax(axis=1).astype(np.int32)
        best[(self.events < least) | (sure.max(axis=1) <= 0)] = NO_ARROW
        return best


def _better_arrows(doomed: Doomed, order: tuple[int, ...], arrows: Arrows, least: int) -> Arrows:
    """Arrows by what becomes of events on their ways along the order and the arrows before."""
    sample, constructs = doomed.sample, doomed.sample.constructs
    savings = [_Savings.none(len(table), len(constructs)) for table in constructs.tables]
    walk = Walk.start(sample, order[0])
    while len(walk.events):
        saved = _saved(doomed, walk, order)
        for number in np.unique(walk.last).tolist():
            here = np.flatnonzero(walk.last == number)
            savings[number].add(sample.regions[number, walk.events[here]], saved[:, here])
        walk.visit(sample, walk.targets(sample, order, arrows))
    found = {number: own.arrows(constructs.candidates(number), least) for number, own in enumerate(savings)}
    return {number: own for number, own in found.items() if (own != NO_ARROW).any()}


def _saved(doomed: Doomed, walk: Walk, order: tuple[int, ...]) -> NDArray[np.int64]:
    """int64 (constructs, alive): how many constructs fewer an event evaluates if it goes to this one first, and along the order from there; 0 where it was there already."""
    bitmaps, visited = doomed.bitmaps[:, :, walk.events], walk.visited.T
    left = walk.results.T[None] & bitmaps
    spent = np.ones(visited.shape, np.int64)
    for number in order:
        step = left.any(axis=1) & ~visited[number]
        step[number] = False
        spent += step
        left &= np.where(visited[number], ~np.uint64(0), bitmaps[number])
    usual = spent[walk.macro_targets(order), np.arange(len(walk.events))]
    return np.where(visited, 0, usual - spent)


def alike(one: Sample, other: Sample, order: tuple[int, ...]) -> bool:
    """Whether as many events of both are alive after each part of an order, as far as chance explains (four standard errors, as there are many parts).

    >>> from app.asc.constructs import Constructs
    >>> constructs = Constructs(("a",), (np.array([[0], [1]], np.uint64),), np.array([[1]], np.uint64), np.array([1], np.uint64))
    >>> few, many = (Sample(constructs, (np.arange(300)[None] % 10 < part).astype(np.int32)) for part in (2, 5))
    >>> alike(few, few, (0,)), alike(few, many, (0,))
    (True, False)
    """
    alive = np.array([_alive(sample, order) for sample in (one, other)])
    counts = np.array([sample.regions.shape[1] for sample in (one, other)])
    together = alive.sum(axis=0) / counts.sum()
    gap = np.abs(np.diff(alive / counts[:, None], axis=0)[0])
    return bool((gap <= _UNALIKE * np.sqrt(together * (1 - together) * (1 / counts).sum())).all())


def _alive(sample: Sample, order: tuple[int, ...]) -> list[int]:
    left, found = sample.results(()), list[int]()
    for number in order:
        left = left & sample.bitmaps(number)
        found.append(int(np.count_nonzero(left.any(axis=1))))
    return found
