"""One seed of every figure: draws queries and tuples, runs all schemes, notes what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.asc.adaptive import LEAST_SHARE, AdaptiveRules, Mode, Search
from app.asc.evaluate import evaluate_regions
from app.asc.monitor import Sample, hybrid_sequence, macro_sequence
from app.asc.sequence import Sequence
from ops.experiments.asc import streams
from ops.experiments.asc.comparators import naive_masks, naive_rows, ticket_routing
from ops.experiments.asc.figures import Figures, Key
from ops.experiments.asc.lattice import Lattice
from ops.experiments.asc.schemes import BATCH, Run, Stream, ns_per_event, run
from ops.experiments.asc.workloads import Q1, Q1_WIDE, Q2, Q3, Q4, Q4_WIDE, QuerySet, Target, query_set

PERIOD, SLOW_PERIOD = 10_000, 80_000
"""Lambda, tuples: the paper's for figures 6 to 8, and for figure 9."""
THRESHOLDS = (0.0, 0.01, 0.03, 0.1)
"""Mu for figure 9; the paper's values are lost with its picture."""
WINDOW = 20_000
"""Tuples per point of a trace."""
UNCLUSTERED = Target("Q1, unclustered", Q1.queries, Q1.predicates, Q1.attributes, 0.0, Q1.width)
"""A workload that speaks against micro-arrows: ranges lie anywhere."""
TIMED, ARROWS_SAMPLE = 50_000, 10_000
"""Tuples of a batch whose evaluation is timed, and of a sample that tells everything; of one for micro-arrows, which need much longer."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything.

    Attributes:
        tuples: of D1 and D2 in figure 6 and of each part in figure 9; the paper's 500,000.
        sweep: of D1 and D2 in figures 7 and 8.
        recorded: rows of KDD99-int at most.
    """

    tuples: int = 500_000
    sweep: int = 250_000
    recorded: int = streams.KDD_ROWS

    def scaled(self, share: float) -> Size:
        """A share of everything, in whole batches.

        >>> Size().scaled(0.4)
        Size(tuples=200000, sweep=100000, recorded=322000)
        """
        return Size(*(int(one * share) // BATCH * BATCH for one in (self.tuples, self.sweep, self.recorded)))


QUICK = Size(60_000, 40_000, 120_000)
Generator = Callable[[int, int, int], streams.Tuples]


@dataclass(frozen=True, slots=True)
class Workload:
    """A query set on a stream."""

    name: str
    target: Target
    tuples: Generator | None
    """None: KDD99-int."""


FIGURE_6 = (
    Workload("Q1 on D1", Q1, streams.uniform),
    Workload("Q1 on D2", Q1, streams.normal),
    Workload("Q2 on KDD99-int", Q2, None),
    Workload("Q1 on D2, drifting", Q1, streams.drifting),
    Workload("Q1 unclustered on D1", UNCLUSTERED, streams.uniform),
    Workload("Q1, own attributes, on D1", Q1.with_own_attributes(), streams.uniform),
    Workload("Q1, own attributes, on D2", Q1.with_own_attributes(), streams.normal),
)
"""The paper's three, and four more: the paper does not say whether its groups of queries have attributes of their own, its example has."""
FIGURE_7 = {"Q3 on D2": Q3, "Q3, own attributes, on D2": tuple(target.with_own_attributes() for target in Q3)}
FIGURE_8 = {"Q4 on D1": Q4, "Q4 of wide ranges on D1": Q4_WIDE}
"""The paper does not say how wide ranges are: a fifth of the domain as in Q1 to Q3, and two fifths."""
RECORDED = ("Q2 on KDD99-int",)
PAPERS: dict[str, tuple[Mode, Search]] = {"Macro": ("macro", "paper"), "Hybrid": ("hybrid", "paper")}
MACRO_KNOWN, ARROWS_KNOWN = "Macro, all known", "SEQ best with micro-arrows"
"""The paper's searches on tuples from all over the stream: the order, and arrows along the best one."""
OURS: dict[str, tuple[Mode, Search]] = {"Macro (ours)": ("macro", "cheapest"), "Hybrid (ours)": ("hybrid", "cheapest")}


def sequences(figures: Figures, seed: int, size: Size, note: Callable[[str], None], column: str = "") -> None:
    """Figure 6, or those of its columns whose names have something in them."""
    for workload in FIGURE_6:
        if column not in workload.name:
            continue
        if workload.tuples is None and not streams.RECORDINGS.exists():
            continue
        note(workload.name)
        queries, tuples = _drawn(workload, seed, size.tuples, size.recorded)
        stream = Stream.of(queries.selection(), tuples)
        lattice, adapted = _costs(figures, Key(6, workload.name, "", ""), stream, seed)
        _own_costs(figures, workload.name, stream)
        timed = {"SEQ best": Sequence.fixed(lattice.best()), "SEQ worst": Sequence.fixed(lattice.worst())}
        for scheme, sequence in {**timed, **{name: one.sequence for name, one in adapted.items()}}.items():
            # the end of the stream, for which the last sequences were found
            figures.add(Key(6, workload.name, scheme, "ns per event"), ns_per_event(stream.selection, tuples[:, -TIMED:], sequence))
        _naive(figures, workload.name, queries, tuples[:, -TIMED:])
        _informed(figures, Key(6, workload.name, "", ""), stream, lattice)
        figures.add(Key(6, workload.name, "queries", "deviation of ones"), queries.deviation)


def _drawn(workload: Workload, seed: int, count: int, recorded: int) -> tuple[QuerySet, streams.Tuples]:
    if workload.tuples is None:
        tuples = streams.kdd()
        return query_set(workload.target, seed, streams.domains_of(tuples)), tuples[:, :recorded]
    return query_set(workload.target, seed), workload.tuples(seed, workload.target.attributes, count)


def _costs(figures: Figures, where: Key, stream: Stream, seed: int) -> tuple[Lattice, dict[str, Run]]:
    """The paper's cost of all schemes, and the product's own."""

    def note(scheme: str, measure: str, value: float) -> None:
        figures.add(Key(where.figure, where.on, scheme, measure, where.x), value)

    words = stream.words()
    lattice = Lattice.of(*_distinct(words, where.on))
    note("SEQ best", "cost", lattice.cost(lattice.best()))
    note("SEQ worst", "cost", lattice.cost(lattice.worst()))
    note("random order", "cost", lattice.mean())
    note("Ticket Routing", "cost", float(ticket_routing(words, seed)[0].mean()))
    note("Ticket Routing, single query", "cost", float(ticket_routing(words, seed, window=0)[0].mean()))
    runs = adapted_runs(stream, PERIOD, 0.0, {**PAPERS, **OURS})
    for scheme, adapted in runs.items():
        note(scheme, "cost", adapted.cost)
        note(scheme, "constructs needed", adapted.needed)
        note(scheme, "micro ratio", adapted.micro_ratio)
        note(scheme, "matched", adapted.matched / words.shape[0])
        note(scheme, "ms per search", adapted.planning / adapted.rearrangements * 1e3)
    return lattice, runs


def _informed(figures: Figures, where: Key, stream: Stream, lattice: Lattice) -> None:
    """Sequences found from all over the stream: what the search is worth when it lacks no knowledge, and micro-arrows when the order is the best."""
    count = stream.regions.shape[1]
    rows = np.random.default_rng(31).permutation(count)
    constructs = stream.selection.constructs
    many, some = (Sample(constructs, np.ascontiguousarray(stream.regions[:, rows[:size]])) for size in (TIMED, ARROWS_SAMPLE))
    figures.add(replace(where, scheme=MACRO_KNOWN, measure="cost"), lattice.cost(macro_sequence(many)))
    best = hybrid_sequence(some, lattice.best(), -(-some.regions.shape[1] // LEAST_SHARE))
    figures.add(replace(where, scheme=ARROWS_KNOWN, measure="cost"), evaluate_regions(constructs, stream.regions, best).evaluated / count)


def _distinct(words: NDArray[np.uint64], on: str) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Tuples and how often each occurs: a recording repeats itself, and 2^15 sets take their time."""
    if on not in RECORDED:
        return words, np.ones(len(words), dtype=np.int64)
    rows = np.ascontiguousarray(words).view(np.dtype((np.void, words.itemsize * words.shape[1]))).ravel()
    distinct, weights = np.unique(rows, return_counts=True)
    return distinct.view(np.uint64).reshape(-1, words.shape[1]), weights


def adapted_runs(stream: Stream, period: int, threshold: float, schemes: Mapping[str, tuple[Mode, Search]]) -> dict[str, Run]:
    """The product, in these modes and with these searches."""
    return {name: run(stream, AdaptiveRules(mode, period, threshold, BATCH, search)) for name, (mode, search) in schemes.items()}


def _own_costs(figures: Figures, on: str, stream: Stream) -> None:
    """Fixed orders by the product's count, which leaves out constructs that no query left uses."""
    lattice = Lattice.of(*_distinct(stream.words(), on), stream.selection.constructs.usages[:, 0])
    best, worst = lattice.cost(lattice.best()), lattice.cost(lattice.worst())
    for scheme, cost in (("SEQ best", best), ("SEQ worst", worst), ("random order", lattice.mean())):
        figures.add(Key(6, on, scheme, "constructs needed"), cost)


def _naive(figures: Figures, on: str, queries: QuerySet, tuples: streams.Tuples) -> None:
    begin = time.process_time()
    tested, _ = naive_rows(queries, tuples)
    between = time.process_time()
    naive_masks(queries, tuples)
    end = time.process_time()
    figures.add(Key(6, on, "naive, row loop", "ranges tested"), tested / tuples.shape[1])
    figures.add(Key(6, on, "naive, row loop", "ns per event"), (between - begin) / tuples.shape[1] * 1e9)
    figures.add(Key(6, on, "naive, numpy", "ns per event"), (end - between) / tuples.shape[1] * 1e9)


def attributes(figures: Figures, seed: int, size: Size, note: Callable[[str], None]) -> None:
    """Figure 7."""
    for on, targets in FIGURE_7.items():
        for target in targets:
            note(target.name)
            queries = query_set(target, seed)
            stream = Stream.of(queries.selection(), streams.normal(seed, target.attributes, size.sweep))
            where = Key(7, on, "", "", target.attributes)
            lattice, _ = _costs(figures, where, stream, seed)
            _informed(figures, where, stream, lattice)
            figures.add(Key(7, on, "queries", "deviation of ones", target.attributes), queries.deviation)


def micro_arrows(figures: Figures, seed: int, size: Size, note: Callable[[str], None]) -> None:
    """Figure 8."""
    tuples = streams.uniform(seed, Q4[0].attributes, size.sweep)
    for on, targets in FIGURE_8.items():
        for target in targets:
            note(target.name)
            queries = query_set(target, seed)
            adapted = adapted_runs(Stream.of(queries.selection(), tuples), PERIOD, 0.0, PAPERS)
            hybrid, macro = adapted["Hybrid"], adapted["Macro"]
            figures.add(Key(8, on, "Macro", "cost", target.deviation), macro.cost)
            figures.add(Key(8, on, "Hybrid", "cost", target.deviation), hybrid.cost)
            figures.add(Key(8, on, "Hybrid", "micro ratio", target.deviation), hybrid.micro_ratio)
            figures.add(Key(8, on, "Hybrid", "relative cost", target.deviation), hybrid.cost / macro.cost)
            figures.add(Key(8, on, "Hybrid", "relative constructs needed", target.deviation), hybrid.needed / macro.needed)
            figures.add(Key(8, on, "queries", "deviation of ones", target.deviation), queries.deviation)


PARTS = 4
"""D1, D2, D1, D2."""


def adaptation(figures: Figures, seed: int, size: Size, note: Callable[[str], None]) -> None:
    """Figure 9."""
    queries = query_set(Q1_WIDE, seed)
    pair = [make(seed, Q1_WIDE.attributes, size.tuples) for make in (streams.uniform, streams.normal)]
    optimum = [lattice.cost(lattice.best()) for lattice in (Lattice.of(Stream.of(queries.selection(), part).words()) for part in pair)]
    stream = Stream.of(queries.selection(), np.concatenate(pair * (PARTS // 2), axis=1))
    period = min(SLOW_PERIOD, size.tuples // 6 // BATCH * BATCH)
    for threshold in THRESHOLDS:
        note(f"mu = {threshold:g}")
        for scheme, adapted in adapted_runs(stream, period, threshold, PAPERS).items():
            _trace(
                figures,
                Key(9, f"Q1, {scheme}", f"mu = {threshold:g}", ""),
                adapted,
                np.repeat(optimum * (PARTS // 2), size.tuples // BATCH),
            )
    for on in figures.workloads(9):
        for place in range(0, stream.regions.shape[1], WINDOW):
            figures.add(Key(9, on, "SEQ best", "trace", place), optimum[place // size.tuples % 2])


def _trace(figures: Figures, where: Key, adapted: Run, optimum: NDArray[np.float64]) -> None:
    """The cost over time, and around the boundaries of parts; ``optimum``: float64 (batches,), the cost of the best order of each part."""

    def note(measure: str, value: float, x: float = 0.0) -> None:
        figures.add(Key(where.figure, where.on, where.scheme, measure, x), value)

    by_batch = adapted.visited / adapted.tuples
    step = WINDOW // BATCH
    for place in range(0, len(by_batch), step):
        note("trace", by_batch[place : place + step].mean(), place * BATCH)
    excess = by_batch / optimum - 1
    part = len(by_batch) // PARTS
    starts = [part * k for k in range(1, PARTS)]
    note("excess before", float(np.mean([excess[start - part // 10 : start].mean() for start in starts])))
    note("excess after", float(np.mean([excess[start : start + part // 10].mean() for start in starts])))
    note("excess", float(excess[part:].mean()))
    note("cost", adapted.cost)
    note("rearrangements", adapted.rearrangements)
    note("planning, ms", adapted.planning * 1e3)


MEASURED = {6: sequences, 7: attributes, 8: micro_arrows, 9: adaptation}
