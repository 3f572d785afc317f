"""The product's selection at work on a stream: along a fixed order, or adapting its sequence as the driver does.

Nothing of the scheme is written again here: `Selection` evaluates, `Adaptive` decides, `evaluate_regions` counts as the paper counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.asc.adaptive import Adaptive, AdaptiveRules, Seen
from app.asc.evaluate import evaluate_regions
from app.asc.selection import Selection
from app.asc.sequence import Sequence
from app.control.selection import sampled_rows
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind
from ops.experiments.asc.streams import Tuples
from ops.experiments.asc.workloads import attribute_name

BATCH = 2_000
"""Tuples between two decisions; a search takes one batch as its sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Tuples cut into batches, with all their regions.

    Attributes:
        regions: int32 (constructs, tuples).
    """

    selection: Selection
    batches: tuple[EventBatch, ...]
    regions: NDArray[np.int32]

    @staticmethod
    def of(selection: Selection, tuples: Tuples, size: int = BATCH) -> Stream:
        """Cuts."""
        whole = batch_of(tuples)
        regions = selection.regions(whole, np.arange(len(whole)))
        return Stream(selection, tuple(batch_of(tuples[:, first : first + size]) for first in range(0, tuples.shape[1], size)), regions)

    def words(self) -> NDArray[np.uint64]:
        """Uint64 (tuples, constructs): the result bitmap of each tuple's region, bits of queries only (64 at most)."""
        constructs = self.selection.constructs
        return np.stack([table[own, 0] & constructs.items[0] for table, own in zip(constructs.tables, self.regions, strict=True)], axis=1)


def batch_of(tuples: Tuples) -> EventBatch:
    """Tuples as events of one type."""
    count = tuples.shape[1]
    line, zeros = np.arange(count), np.zeros(count, dtype=np.int64)
    columns = {attribute_name(a): Column(Kind.INTEGER, np.ascontiguousarray(values)) for a, values in enumerate(tuples)}
    return EventBatch(line, zeros, line, Column(Kind.STRING, np.zeros(count, dtype=np.int32), None, Dictionary.of([b"E"])), columns)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What a scheme did to a stream.

    Attributes:
        visited: int32 (batches,), constructs on the tuples' ways: the paper's cost.
        evaluated: int32 (batches,), those that the product evaluated: without constructs that no query left uses.
        tuples: int64 (batches,).
        matched: tuples that some query wants.
        followed: micro-arrows on the ways, as the paper counts.
        rearrangements: searches for a sequence.
        planning: seconds of the processor for samples and searches.
        sequence: the last one.
    """

    visited: NDArray[np.int64]
    evaluated: NDArray[np.int64]
    tuples: NDArray[np.int64]
    matched: int
    followed: int
    rearrangements: int
    planning: float
    sequence: Sequence

    @property
    def cost(self) -> float:
        """Constructs on a tuple's way."""
        return float(self.visited.sum() / self.tuples.sum())

    @property
    def needed(self) -> float:
        """Constructs that the product evaluated per tuple."""
        return float(self.evaluated.sum() / self.tuples.sum())

    @property
    def micro_ratio(self) -> float:
        """Micro-arrows among all arrows that were followed (the paper's xi)."""
        return self.followed / max(1, int(self.visited.sum() - self.tuples.sum()))


def run(stream: Stream, rules: AdaptiveRules, initial: Sequence | None = None) -> Run:
    """Feeds a stream batch by batch; what a batch shows is used from the next one on.

    Args:
        stream: what to evaluate.
        rules: how sequences adapt; mode ``fixed`` keeps the initial one.
        initial: the first sequence; None for the product's.
    """
    selection = stream.selection
    adaptive = Adaptive(selection.constructs, rules, initial or selection.initial)
    visited, evaluated, planning, matched, followed, first = [], [], 0.0, 0, 0, 0
    for batch in stream.batches:
        own = stream.regions[:, first : first + len(batch)]
        first += len(batch)
        by_paper = evaluate_regions(selection.constructs, own, adaptive.sequence)
        selected = selection.select(batch, adaptive.sequence)
        begin = time.process_time()
        rows = sampled_rows(len(batch), adaptive.sample_wanted)
        sampled = selection.regions(batch, rows) if len(rows) else None
        adaptive.observe(Seen(len(batch), len(batch) - len(selected.relevant)), sampled)
        planning += time.process_time() - begin
        visited.append(by_paper.evaluated)
        evaluated.append(selected.evaluated)
        matched += len(selected.relevant)
        followed += by_paper.followed
    tuples = np.array([len(batch) for batch in stream.batches])
    return Run(np.array(visited), np.array(evaluated), tuples, matched, followed, adaptive.rearrangements, planning, adaptive.sequence)


def ns_per_event(selection: Selection, tuples: Tuples, sequence: Sequence) -> float:
    """Time of the processor for one batch along a sequence, the best of three."""
    batch, times = batch_of(tuples), []
    for _ in range(3):
        begin = time.process_time()
        selection.select(batch, sequence)
        times.append(time.process_time() - begin)
    return min(times) / len(batch) * 1e9
