"""The comparators and generators of the ASC experiment against their definitions; a verdict can come out either way."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.asc.adaptive import AdaptiveRules
from app.asc.sequence import Sequence
from ops.experiments.asc import __main__ as main
from ops.experiments.asc import streams
from ops.experiments.asc.claims import claims
from ops.experiments.asc.comparators import naive_masks, naive_rows, ticket_routing
from ops.experiments.asc.figures import Figures
from ops.experiments.asc.lattice import Lattice
from ops.experiments.asc.measure import Size
from ops.experiments.asc.schemes import BATCH, Stream, batch_of, run
from ops.experiments.asc.verdicts import Claim, rank_correlation
from ops.experiments.asc.workloads import Q1, Q1_WIDE, Q2, Q3, Q4, Q4_WIDE, QuerySet, Target, query_set


def visited(words: NDArray[np.uint64], order: tuple[int, ...], usage: list[int] | None = None) -> int:
    """The definition: one tuple, one construct after the other, until no query is left; with usage, those that no query left uses are left out."""
    bitmap, steps = 2**64 - 1, 0
    for construct in order:
        if usage and not bitmap & usage[construct]:
            continue
        steps += 1
        bitmap &= int(words[construct])
        if not bitmap:
            return steps
    return steps


@st.composite
def bitmaps(draw: st.DrawFn) -> tuple[NDArray[np.uint64], NDArray[np.int64], list[int]]:
    attributes, tuples = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    rows = st.lists(st.integers(0, 7), min_size=attributes, max_size=attributes)
    words = draw(st.lists(rows, min_size=tuples, max_size=tuples))
    weights = draw(st.lists(st.integers(1, 3), min_size=tuples, max_size=tuples))
    usage = draw(st.lists(st.integers(1, 7), min_size=attributes, max_size=attributes))
    unused = [7 & ~mask for mask in usage]  # a query that does not use the construct passes everywhere
    return np.array(words, dtype=np.uint64) | np.array(unused, dtype=np.uint64), np.array(weights, dtype=np.int64), usage


@given(case=bitmaps(), skip=st.booleans())
def test_the_lattice_knows_every_order_that_brute_force_knows(
    *, case: tuple[NDArray[np.uint64], NDArray[np.int64], list[int]], skip: bool
) -> None:
    words, weights, usage = case
    lattice = Lattice.of(words, weights, np.array(usage, dtype=np.uint64) if skip else None)
    by_order = {
        order: sum(weight * visited(row, order, usage if skip else None) for row, weight in zip(words, weights, strict=True))
        / weights.sum()
        for order in permutations(range(words.shape[1]))
    }
    assert all(lattice.cost(order) == pytest.approx(cost) for order, cost in by_order.items())
    assert lattice.cost(lattice.best()) == pytest.approx(min(by_order.values()))
    assert lattice.cost(lattice.worst()) == pytest.approx(max(by_order.values()))
    assert lattice.mean() == pytest.approx(np.mean(list(by_order.values())))


def test_the_lattice_counts_blocks_of_sets_as_well() -> None:
    words = np.random.default_rng(3).integers(0, 16, (40, 11), dtype=np.uint64)  # more attributes than a block has
    lattice = Lattice.of(words)
    for members in (0, 1, 0b100_0000_0001, 0b111_1111_1111, 0b10_1010_1000):
        chosen = words[:, [a for a in range(11) if members >> a & 1]]
        alive = np.bitwise_and.reduce(chosen, axis=1) != 0 if members else np.ones(40, dtype=bool)
        assert lattice.steps[0, members] == alive.sum()


def test_for_a_single_query_a_ticket_is_a_dropped_tuple() -> None:
    words = np.random.default_rng(5).integers(0, 8, (2000, 6), dtype=np.uint64)
    visits, tickets = ticket_routing(words, seed=1, window=0)
    dropped = np.bitwise_and.reduce(words, axis=1) == 0
    assert tickets.sum() == 6 + dropped.sum()  # one of its own per module
    assert (visits[~dropped] == 6).all()
    fewest = [min(visited(row, order) for order in permutations(range(6), 6)) for row in words[:40]]
    assert (visits[:40] >= fewest).all() and (visits <= 6).all()
    again, _ = ticket_routing(words, seed=1, window=0)
    assert (again == visits).all()


@pytest.mark.parametrize("window", [0, 1000])
def test_lotteries_find_the_module_that_drops(window: int) -> None:
    words = np.full((4000, 8), 1, dtype=np.uint64)
    words[:, 5] = 0  # drops everything; the others drop nothing
    visits, tickets = ticket_routing(words, seed=2, window=window)
    assert tickets.tolist()[:5] + tickets.tolist()[6:] == [1] * 7
    assert tickets[5] == (4001 if window == 0 else pytest.approx(1000, rel=0.05))  # fading: a thousand tuples' worth
    assert visits[:50].mean() > 1.1 > visits[-1000:].mean()


def test_with_several_queries_modules_earn_by_queries_that_they_fail() -> None:
    words = np.full((3000, 4), 0b1111, dtype=np.uint64)
    words[:, 1] = 0b0001  # fails three of four queries, and never drops a tuple alone
    words[:, 2] = 0b1110  # fails the last one
    visits, tickets = ticket_routing(words, seed=3)
    assert tickets[1] > 2 * tickets[2] > 50 * tickets[0]
    single, own = ticket_routing(words, seed=3, window=0)
    assert own[1] < 2 * own[2]  # who comes last gets it
    assert visits[-1000:].mean() < 2.1 < single[:100].mean()


def test_tickets_fade_when_the_stream_changes() -> None:
    words = np.full((6000, 6), 0b111, dtype=np.uint64)
    words[:3000, 4] = words[3000:, 1] = 0
    fading, lasting = (ticket_routing(words, seed=2, window=window)[0] for window in (300, 0))
    assert fading[-500:].mean() < 1.1 < lasting[3000:3500].mean()
    assert fading[3000:].mean() < lasting[3000:].mean()


EVERY = [Q1, Q1_WIDE, Q2, *Q3, *Q4, *Q4_WIDE]


@pytest.mark.slow
@pytest.mark.parametrize("target", [*EVERY, *(one.with_own_attributes() for one in (Q1, *Q3))], ids=lambda target: target.name)
def test_query_sets_have_the_numbers_of_table_1(target: Target) -> None:
    found = query_set(target, seed=4)
    assert found.used.shape == (target.queries, target.attributes)
    assert found.used.sum() == target.predicates
    assert found.used.any(axis=0).all() and found.used.any(axis=1).all()
    assert found.deviation == pytest.approx(deviation_by_definition(found))
    assert found.deviation == pytest.approx(target.deviation, abs=0.005)  # every column can be had


def test_groups_have_attributes_of_their_own() -> None:
    target = replace(Q1.with_own_attributes(), predicates=100)  # two per query: three of ten attributes are a group's own
    found = query_set(target, seed=4)
    by_group = [set(np.flatnonzero(found.used[group :: found.groups].any(axis=0)).tolist()) for group in range(found.groups)]
    assert found.groups == 4
    assert by_group == [{0, 1, 2}, {2, 3, 4}, {5, 6, 7}, {7, 8, 9}]
    assert query_set(replace(target, own=False), seed=4).used[0::4].any(axis=0).sum() > 3


def deviation_by_definition(queries: QuerySet) -> float:
    """Cuts 0 to 99 at the constants and asks every query for one value of every region (halves lie between integers)."""
    deviations = []
    for a in range(queries.used.shape[1]):
        users = np.flatnonzero(queries.used[:, a])
        points = np.unique(np.concatenate([queries.low[users, a], queries.high[users, a]]))
        inside = np.sort(np.concatenate([[-1.0], points, points[:-1] + 0.5, [1000.0]]))
        passes = np.array([(queries.low[users, a] <= v) & (v <= queries.high[users, a]) for v in inside])
        deviations.append(passes.mean(axis=1).std())
    return float(np.mean(deviations))


def test_naive_evaluations_agree_with_each_other_and_with_the_product() -> None:
    queries, tuples = query_set(Q3[1], seed=6), streams.normal(6, 7, 500)
    masks = naive_masks(queries, tuples)
    tested, satisfied = naive_rows(queries, tuples)
    assert (masks.sum(axis=0) == satisfied).all() and satisfied.any()
    assert 30 * 500 < tested < 78 * 500
    by_range = [
        all(queries.low[q, a] <= tuples[a, t] <= queries.high[q, a] for a in range(7) if queries.used[q, a])
        for q in range(30)
        for t in range(500)
    ]
    assert masks.ravel().tolist() == by_range
    selected = queries.selection().select(batch_of(tuples))
    assert selected.relevant.tolist() == np.flatnonzero(masks.any(axis=0)).tolist()
    assert (np.bitwise_count(selected.bitmaps).sum(axis=1) == satisfied[satisfied > 0]).all()


@pytest.mark.parametrize("order", ["best", "worst"])
def test_the_product_costs_in_a_fixed_order_what_the_lattice_says(order: str) -> None:
    queries, tuples = query_set(Q1, seed=3), streams.normal(3, 10, 5000)
    stream = Stream.of(queries.selection(), tuples)
    needed = Lattice.of(stream.words(), usage=stream.selection.constructs.usages[:, 0])
    visited = Lattice.of(stream.words())
    for lattice in (visited, needed):
        sequence = lattice.best() if order == "best" else lattice.worst()
        fixed = run(stream, AdaptiveRules("fixed"), Sequence.fixed(sequence))
        assert fixed.cost == pytest.approx(visited.cost(sequence))
        assert fixed.needed == pytest.approx(needed.cost(sequence))
        assert fixed.rearrangements == fixed.followed == 0
    assert visited.cost(visited.best()) < visited.mean() < visited.cost(visited.worst())


def test_schemes_rearrange_when_the_stream_changes() -> None:
    queries = query_set(Q1_WIDE, seed=3)
    tuples = np.concatenate([make(3, 10, 12_000) for make in (streams.uniform, streams.normal)], axis=1)
    stream, found = Stream.of(queries.selection(), tuples), {}
    for threshold in (0.0, 0.02, 10.0):
        found[threshold] = run(stream, AdaptiveRules("hybrid", 4000, threshold, BATCH, "paper"))
    assert [one.rearrangements for one in found.values()] == [4, 2, 1]
    assert len({one.matched for one in found.values()}) == 1
    assert all(0.2 < one.micro_ratio < 0.9 and one.planning > 0 for one in found.values())
    changing, staying = (run(stream, AdaptiveRules("hybrid", 4000, threshold, BATCH)) for threshold in (0.02, 10.0))
    assert changing.cost < staying.cost < found[10.0].cost


def test_streams_are_what_they_are_called() -> None:
    flat, hilly, wandering = (make(7, 6, 20_000) for make in (streams.uniform, streams.normal, streams.drifting))
    for tuples in (flat, hilly, wandering):
        assert tuples.shape == (6, 20_000) and tuples.min() >= 0 and tuples.max() <= 99
    assert all(abs(np.bincount(values, minlength=100) - 200).max() < 80 for values in flat)
    assert all(values.std() < 23 for values in hilly)
    first, last = wandering[:, :2000].mean(axis=1), wandering[:, -2000:].mean(axis=1)
    assert abs(first - last).max() > 15 > abs(hilly[:, :2000].mean(axis=1) - hilly[:, -2000:].mean(axis=1)).max()
    assert (streams.uniform(7, 6, 100) == streams.uniform(7, 6, 100)).all() and (streams.uniform(8, 6, 100) != flat[:, :100]).any()


@pytest.mark.skipif(not streams.RECORDINGS.exists(), reason="recordings are not part of the project")
def test_the_recording_is_read_whole() -> None:
    assert streams.kdd().shape == (streams.KDD_ATTRIBUTES, streams.KDD_ROWS)


def claim(values: tuple[float, ...], limit: float = 0.0, loose: float = 0.0) -> str:
    return Claim(6, "smaller", "D1", "difference", values, limit, loose).verdict()


def test_a_claim_holds_almost_holds_or_fails() -> None:
    assert claim((-0.3, -0.2, -0.25, -0.3)) == "reproduced"
    assert claim((-0.3, 0.2, -0.25, 0.1)) == "not reproduced"  # only on average
    assert claim((-0.3, -0.9, -0.8, -0.4), limit=-0.6) == "shape reproduced"  # falls, but not by so much
    assert claim((0.01, 0.02, 0.03, 0.02)) == "not reproduced"
    assert claim((0.01, 0.02, 0.03, 0.02), limit=0.05) == "reproduced"
    assert claim((0.08, 0.09, 0.08, 0.09), limit=0.05, loose=0.15) == "shape reproduced"
    assert claim((0.18, 0.19, 0.18, 0.19), limit=0.05, loose=0.15) == "not reproduced"
    assert claim((0.0, 0.0, 0.0)) == "not reproduced"  # nothing changed
    assert claim((-0.3, -0.3)) == "not reproduced"  # too few


def test_rank_correlation_shares_ranks_of_equal_values() -> None:
    assert rank_correlation((1, 2, 3), (10, 20, 90)) == pytest.approx(1)
    assert rank_correlation((1, 2, 3), (3, 2, 1)) == pytest.approx(-1)
    assert rank_correlation((1, 2, 3), (5, 5, 5)) == 0
    assert rank_correlation((1, 2, 3, 4), (1, 1, 2, 2)) == pytest.approx(0.8944, abs=1e-4)


@pytest.mark.parametrize("below", [".", "unseen", "unseen-kdd99"])
def test_committed_verdicts_are_what_the_code_decides_from_the_committed_figures(below: str) -> None:
    folder = Path(streams.__file__).parent / "results" / below
    committed = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    judged = claims(Figures.read(folder / "figures.json"))
    written = {(one["says"], one["on"]): one["verdict"] for one in committed["claims"]}
    assert written == {(claim.says, claim.on): claim.verdict() for claim in judged}
    assert committed["seeds"] >= 10 and all(len(claim.values) == committed["seeds"] for claim in judged)
    rows = (folder / "verdicts.md").read_text(encoding="utf-8").splitlines()
    for one in judged:
        assert any(row.startswith(f"| {one.figure} | {one.says} | {one.on} |") and row.endswith(f"| **{one.verdict()}** |") for row in rows)


@pytest.mark.slow
def test_a_small_run_writes_plots_figures_and_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "QUICK", Size(24_000, 4_000, 10_000))
    monkeypatch.setattr("sys.argv", ["asc", str(tmp_path), "--quick", "--seeds", "1", "--only", "9"])
    main.main()
    figures = Figures.read(tmp_path / "figures.json")
    assert figures.workloads(9) == ["Q1, Hybrid", "Q1, Macro"]
    always, never = (figures.of(9, "Q1, Macro", scheme, "rearrangements")[0] for scheme in ("mu = 0", "mu = 0.1"))
    assert always > never >= 1
    assert (tmp_path / "adaptation.png").stat().st_size > 1000 and (tmp_path / "adaptation.svg").stat().st_size > 1000
    assert "smaller mu: more rearrangements" in (tmp_path / "verdicts.md").read_text(encoding="utf-8")


def test_the_readme_names_the_experiment() -> None:
    assert "ops.experiments.asc" in (Path(streams.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
