"""The cheapest sequence against the definitions: nothing costs less than the order that is found, and an arrow is worth what it is said to be."""

from __future__ import annotations

from itertools import permutations
from statistics import mean, pstdev

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from app.asc import cheapest
from app.asc.adaptive import Adaptive, AdaptiveRules, Seen
from app.asc.cheapest import Doomed, alike, alive_after, cheapest_sequence, edge_cover_order, saving_arrows
from app.asc.constructs import Constructs
from app.asc.evaluate import evaluate_regions
from app.asc.experts import HALF_LIFE, MOST, Experts
from app.asc.monitor import Sample, find_arrows, macro_sequence
from app.asc.sequence import Sequence
from tests.naive import constructs as naive
from tests.property.test_asc_sequences import plainly, samples

FEW = settings(max_examples=max(20, settings.default.max_examples // 4), phases=(Phase.explicit, Phase.generate))


def ways(sample: Sample, order, arrow=lambda construct, region: -1) -> list[list[int]]:
    """The way of every event that no item wants."""
    constructs, everyone = plainly(sample.constructs)
    walks = [naive.walk(regions, constructs, everyone, list(order), arrow) for regions in sample.regions.T.tolist()]
    return [way for way, left in walks if not left]


def cost(sample: Sample, order) -> int:
    return sum(map(len, ways(sample, order)))


@FEW
@given(samples())
def test_no_order_is_cheaper(sample: Sample) -> None:
    doomed, orders = Doomed.of(sample), list(permutations(range(len(sample.constructs))))
    costs = {order: cost(sample, order) for order in orders}
    assert {order: doomed.cost(order) for order in orders} == costs
    assert costs[cheapest_sequence(sample)] == min(costs.values())


@FEW
@given(samples(), st.integers(1, 3))
def test_the_lattice_counts_events_alive_in_blocks_of_any_size(sample: Sample, block: int) -> None:
    constructs, everyone = plainly(sample.constructs)
    regions = [one for one in sample.regions.T.tolist() if not naive.after(one, constructs, everyone, range(len(constructs)))]
    by_hand = [
        sum(bool(naive.after(one, constructs, everyone, [n for n in range(len(constructs)) if members >> n & 1])) for one in regions)
        for members in range(1 << len(constructs))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cheapest, "_BLOCK_CONSTRUCTS", block)
        patch.setattr(cheapest, "_BLOCK_WORDS", 3 << block)
        assert alive_after(Doomed.of(sample)).tolist() == by_hand


@FEW
@given(samples())
def test_edge_cover_decides_most_pairs_next_and_is_taken_where_there_are_too_many_sets(sample: Sample) -> None:
    constructs, everyone = plainly(sample.constructs)
    regions = [one for one in sample.regions.T.tolist() if not naive.after(one, constructs, everyone, range(len(constructs)))]
    order: list[int] = []
    while len(order) < len(constructs):
        rest = [number for number in range(len(constructs)) if number not in order]
        order.append(
            min(rest, key=lambda number: (sum(len(naive.after(one, constructs, everyone, [*order, number])) for one in regions), number))
        )
    assert list(edge_cover_order(Doomed.of(sample))) == order
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cheapest, "LATTICE_WORDS", 0)
        assert cost(sample, cheapest_sequence(sample)) == min(cost(sample, order), cost(sample, macro_sequence(Doomed.of(sample).sample)))


@FEW
@given(samples(), st.integers(2, 3), st.data())
def test_an_arrow_leads_where_least_is_left_to_evaluate_if_that_is_sure(sample: Sample, least: int, data: st.DataObject) -> None:
    constructs, everyone = plainly(sample.constructs)
    order = data.draw(st.permutations(range(len(constructs))))
    doomed = [one for one in sample.regions.T.tolist() if not naive.after(one, constructs, everyone, range(len(constructs)))]
    candidates = [sample.constructs.candidates(number) for number in range(len(constructs))]
    saved: dict[tuple[int, int], list[list[int]]] = {}
    for regions in doomed:
        way, _ = naive.walk(regions, constructs, everyone, order, lambda construct, region: -1)
        for steps in range(1, len(way)):
            visited = way[:steps]
            rest = [number for number in order if number not in visited]
            to_go = {}
            for target in rest:
                ahead = [target, *(number for number in rest if number != target)]
                to_go[target] = next(
                    k for k in range(1, len(ahead) + 1) if not naive.after(regions, constructs, everyone, [*visited, *ahead[:k]])
                )
            row = [to_go[rest[0]] - to_go[number] if number in rest else 0 for number in range(len(constructs))]
            saved.setdefault((visited[-1], regions[visited[-1]]), []).append(row)
    found = cheapest._better_arrows(Doomed.of(sample), tuple(order), {}, least) if len(constructs) > 1 else {}
    for number, table in enumerate(sample.constructs.tables):
        for region in range(len(table)):
            rows = list(zip(*saved.get((number, region), []), strict=True))
            sure = {
                target: mean(own) - 2 * pstdev(own) / (len(own) - 1) ** 0.5
                for target, own in enumerate(rows)
                if len(own) >= least and candidates[number][region, target]
            }
            best = max(sure.values(), default=0)
            arrow = found[number][region] if number in found else -1
            if best <= 1e-9:
                assert arrow == -1
            else:
                assert sure[arrow] == pytest.approx(best)


def zones(events: int, seed: int, drift: float = 0.0) -> Sample:
    """Two groups of items with attributes of their own: where the first attribute says which group can still match, one half of the others is of no use."""
    random = np.random.default_rng(seed)
    tables = [np.array([[0b0011], [0b1100]], np.uint64)]
    usages = [0b1111]
    for own in (0b0011, 0b0011, 0b1100, 0b1100):
        rest = 0b1111 & ~own
        tables.append(np.array([[rest], [rest | own]], np.uint64))
        usages.append(own)
    names = tuple(f"a{k}" for k in range(len(tables)))
    constructs = Constructs(names, tuple(tables), np.array([[one] for one in usages], np.uint64), np.array([0b1111], np.uint64))
    group = (random.random(events) < 0.5).astype(np.int32)
    return Sample(constructs, np.stack([group, *(random.random((4, events)) < 0.4 + drift).astype(np.int32)]))


def spent(sample: Sample, sequence: Sequence) -> int:
    return evaluate_regions(sample.constructs, sample.regions, sequence).evaluated


def test_arrows_save_on_events_that_were_not_looked_at() -> None:
    seen, unseen = zones(600, 1), zones(4000, 2)
    order = (0, 1, 2, 3, 4)
    arrows = saving_arrows(seen, order)
    assert arrows[0].tolist() in ([-1, 3], [-1, 4])  # items of the second group are left: attributes of the first one cannot fail them
    assert spent(unseen, Sequence(order, arrows)) < 0.8 * spent(unseen, Sequence.fixed(order))
    assert saving_arrows(zones(30, 1), order) == {}  # too few to be sure


def test_the_search_is_the_cheapest_one_unless_the_papers_is_asked_for() -> None:
    sample = zones(500, 3)
    order = cheapest_sequence(sample)
    for rules, expected in (
        (AdaptiveRules("macro", sample=500), Sequence.fixed(order)),
        (AdaptiveRules("hybrid", sample=500), Sequence(order, saving_arrows(sample, order))),
        (AdaptiveRules("macro", sample=500, search="paper"), Sequence.fixed(macro_sequence(sample))),
        (
            AdaptiveRules("hybrid", sample=500, search="paper"),
            Sequence(macro_sequence(sample), find_arrows(sample, macro_sequence(sample), 2)),
        ),
    ):
        adaptive = Adaptive(sample.constructs, rules, Sequence.fixed((4, 3, 2, 1, 0)))
        assert adaptive.observe(Seen(500, 0), sample.regions)
        assert adaptive.sequence == expected


@pytest.mark.parametrize(("drift", "kept"), [(0.0, 300), (0.3, 200)])
def test_earlier_samples_are_looked_at_while_the_stream_looks_the_same(drift: float, kept: int) -> None:
    first, then = zones(200, 5), zones(200, 6, drift)
    assert alike(first, then, (0, 1, 2, 3, 4)) == (drift == 0)
    adaptive = Adaptive(first.constructs, AdaptiveRules("hybrid", period=1, threshold=0, sample=200, memory=300), Sequence.fixed(range(5)))
    adaptive.observe(Seen(200, 0), first.regions)
    adaptive.observe(Seen(200, 0))  # a period goes by
    adaptive.observe(Seen(200, 0), then.regions)
    assert adaptive.rearrangements == 2
    short = next(one for one in adaptive._memories if one.forgets == "unlike")
    assert short.regions.shape[1] == kept
    assert short.regions[:, :200].tolist() == then.regions.tolist()


@pytest.mark.parametrize(("gains", "losses", "arrow"), [(13, 5, -1), (15, 4, 1)])
def test_what_chance_explains_is_no_arrow(gains: int, losses: int, arrow: int) -> None:
    """Forty visits, each saves one construct, loses one, or neither: (13 - 5) / 40 is less than two standard errors (0.21), (15 - 4) / 40 is more (0.20)."""
    saved = np.zeros((2, 40), np.int64)
    saved[1, :gains], saved[1, 40 - losses :] = 1, -1
    savings = cheapest._Savings.none(1, 2)
    savings.add(np.zeros(40, np.int32), saved)
    assert savings.arrows(np.ones((1, 2), np.bool_), 40).tolist() == [arrow]
    assert savings.arrows(np.ones((1, 2), np.bool_), 41).tolist() == [-1]
    assert savings.arrows(np.array([[True, False]]), 40).tolist() == [-1]


def test_nothing_is_searched_for_where_enough_was_seen_and_nothing_has_changed() -> None:
    parts = [zones(200, seed) for seed in range(4)] + [zones(200, 9, 0.3)]
    adaptive = Adaptive(
        parts[0].constructs,
        AdaptiveRules("hybrid", period=1, threshold=0, sample=200, memory=400, long_memory=400),
        Sequence.fixed((4, 3, 2, 1, 0)),
    )
    changed = []
    for part in parts:
        changed.append(adaptive.observe(Seen(200, 0), part.regions))
        adaptive.observe(Seen(200, 0))
    assert changed == [True, True, False, False, True]
    forgotten = {one.forgets: one.regions.tolist() for one in adaptive._memories}
    assert forgotten["unlike"] == parts[-1].regions.tolist()
    assert forgotten["old"] == np.concatenate([parts[-1].regions, parts[1].regions], axis=1).tolist()


def halves(events: int, seed: int, other: int) -> Sample:
    """One of the two halves that drops most events, or the other one."""
    random, likely = np.random.default_rng(seed), [0.8, 0.2] if other else [0.2, 0.8]
    sample = zones(events, seed)
    own = [random.random(events) < likely[number % 2] for number in range(4)]
    return Sample(sample.constructs, np.stack([sample.regions[0], *own]).astype(np.int32))


@pytest.mark.parametrize("others", [(0, 1, 0) * 5, (*(0,) * 6, *(1,) * 8)], ids=["bursts by turns", "a change for good"])
def test_the_sequence_is_in_force_that_cost_least_lately(others: tuple[int, ...]) -> None:
    """Of all that were ever found. Costs are counted again by the definition: constructs until no item is left, half of the weight on the newest sample of as many events as make one count half."""
    parts = [halves(HALF_LIFE, seed, other) for seed, other in enumerate(others)]
    rules = AdaptiveRules("macro", period=1, threshold=0, sample=HALF_LIFE, memory=600, long_memory=2400)
    first = Sequence.fixed((4, 3, 2, 1, 0))
    adaptive = Adaptive(parts[0].constructs, rules, first)
    costs: dict[tuple[int, ...], float] = {first.order: 0.0}
    for number, part in enumerate(parts):
        for order, before in costs.items():
            now = spent(part, Sequence.fixed(order)) / HALF_LIFE
            costs[order] = (before + now) / 2 if number else now
        adaptive.observe(Seen(HALF_LIFE, 0), part.regions)
        for memory in adaptive._memories:
            costs.setdefault(memory.sequence.order, spent(part, memory.sequence) / HALF_LIFE)
        assert adaptive.sequence.order == min(costs, key=lambda order: costs[order])
        adaptive.observe(Seen(HALF_LIFE, 0))
    assert len(costs) > 2
    assert adaptive.rearrangements == len(parts)


def test_what_was_right_in_a_burst_is_right_in_the_next_one_before_it_was_searched_for() -> None:
    rules = AdaptiveRules("macro", period=10_000, threshold=0, sample=2_000)
    first, second = halves(2_000, 1, 0), halves(2_000, 2, 1)
    adaptive = Adaptive(first.constructs, rules, Sequence.fixed((4, 3, 2, 1, 0)))
    adaptive.observe(Seen(2_000, 0), first.regions)
    calm = adaptive.sequence
    adaptive.observe(Seen(10_000, 0))
    adaptive.observe(Seen(2_000, 0), second.regions)
    burst, searches = adaptive.sequence, adaptive.rearrangements
    assert calm.order != burst.order
    adaptive.observe(Seen(2_000, 0), halves(600, 3, 0).regions)
    assert adaptive.sequence is calm
    assert adaptive.rearrangements == searches


def test_a_change_within_a_period_is_searched_for_at_once() -> None:
    rules = AdaptiveRules("macro", period=10_000, threshold=0, sample=2_000)
    adaptive = Adaptive(zones(2, 0).constructs, rules, Sequence.fixed((4, 3, 2, 1, 0)))
    adaptive.observe(Seen(2_000, 0), halves(2_000, 1, 0).regions)
    wanted = []
    for seed, other in ((2, 0), (3, 0), (4, 1), (5, 1)):
        adaptive.observe(Seen(2_000, 0), halves(400, seed, other).regions)
        wanted.append(adaptive.sample_wanted)
    assert wanted == [400, 400, 1_600, 1_200], "sampled events of before the change are none of what comes"


def test_who_is_found_now_is_judged_as_if_it_had_always_been_there() -> None:
    parts = [halves(events, seed, seed % 2) for seed, events in enumerate((500, 40, 300))]
    known, found = Sequence.fixed((4, 3, 2, 1, 0)), Sequence.fixed((0, 1, 2, 3, 4))
    late, early = Experts(known), Experts(found)
    for part in parts:
        late.judge(part)
        early.judge(part)
    late.add(found, parts)
    assert late._all[1].cost == early._all[0].cost != late._all[0].cost


@pytest.mark.parametrize("size", [100, 400])
def test_a_change_is_seen_in_small_batches_as_well(size: int) -> None:
    rules = AdaptiveRules("macro", period=100_000, threshold=0, sample=2_000)
    adaptive = Adaptive(zones(2, 0).constructs, rules, Sequence.fixed((4, 3, 2, 1, 0)))
    adaptive.observe(Seen(2_000, 0), halves(2_000, 1, 0).regions)
    for seed in range(800 // size):
        adaptive.observe(Seen(size, 0), halves(size, 10 + seed, 0).regions)
        assert adaptive.sample_wanted < 500, "none yet"
    for seed in range(400 // size):
        adaptive.observe(Seen(size, 0), halves(size, 20 + seed, 1).regions)
    assert 1_200 < adaptive.sample_wanted < 2_000, "a little of what was before may be among it"


def test_who_goes_back_to_macro_keeps_no_micro_arrows() -> None:
    sample = zones(500, 3)
    one = Adaptive(sample.constructs, AdaptiveRules("hybrid", sample=500), Sequence.fixed((4, 3, 2, 1, 0)))
    one.observe(Seen(500, 0), sample.regions)
    assert one.sequence.arrows
    for mode in ("hybrid", "macro"):
        other = Adaptive(sample.constructs, AdaptiveRules(mode, sample=500), Sequence.fixed((4, 3, 2, 1, 0)))  # type: ignore[arg-type]
        other.restore(one.snapshot())
        assert (other.sequence.order, bool(other.sequence.arrows)) == (one.sequence.order, mode == "hybrid")


def test_who_costs_most_is_forgotten() -> None:
    parts = [halves(300, seed, seed % 2) for seed in range(3)]
    orders = list(permutations(range(5)))[: MOST + 1]
    experts = Experts(Sequence.fixed(orders[0]))
    experts.judge(parts[0])
    for order in orders[1:]:
        experts.add(Sequence.fixed(order), [parts[1]])
    costs = {orders[0]: spent(parts[0], Sequence.fixed(orders[0]))} | {
        order: spent(parts[1], Sequence.fixed(order)) for order in orders[1:]
    }
    kept = {one.sequence.order for one in experts._all}
    assert len(kept) == MOST
    assert costs[(set(orders) - kept).pop()] == max(costs.values())
    assert costs[experts.best.order] == min(costs.values())


def test_where_a_search_is_sure_to_come_its_sample_is_spread_over_the_period() -> None:
    whole = zones(1000, 3)
    for search, spread in (("cheapest", [100, 20, 20, 20, 20, 20, 20]), ("paper", [100, 0, 0, 0, 0, 0, 100])):
        rules = AdaptiveRules("macro", period=500, threshold=0, sample=100, search=search)  # type: ignore[arg-type]
        adaptive = Adaptive(whole.constructs, rules, Sequence.fixed((4, 3, 2, 1, 0)))
        asked = []
        for _ in range(7):
            asked.append(adaptive.sample_wanted)
            adaptive.observe(Seen(100, 50), whole.regions[:, : asked[-1]])
        assert asked == spread
