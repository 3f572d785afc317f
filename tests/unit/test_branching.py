"""Partial matches that branch: what is known of them, what they promise and cost, and a bound on the average."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isnan

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from app.bucket.recording import rows_between
from app.cep.engine import Watermarks
from app.cep.runs.engine import RunsEngine
from app.cep.runs.live import bound_events, live_runs
from app.cep.why_not.plain_values import MISSING, aggregate, value
from app.evaluation.contest import Contest, Terms
from app.evaluation.operator import Operator
from app.evaluation.partial_matches import MatchLoad, MatchOperator
from app.events.batch import EventBatch
from app.features.events import Features
from app.features.partial_matches import Describing, known_matches, progress_of_items
from app.features.shape import shape_of
from app.owners.endings import MatchShedder
from app.query import expressions as e
from ops.experiments.sharp_streams import plan_of, stream_of
from shedding.candidates import JudgedMatches
from shedding.forest import Forest, Trees, compiled
from shedding.interface import Manifest
from shedding.observations import Succession
from shedding.partial_matches.branching import Learning, lineages
from shedding.partial_matches.forest_rows import always, asked, rows_of
from shedding.partial_matches.kernels_outlook import just_worth
from shedding.partial_matches.pspice import UtilityTable
from shedding.partial_matches.stateful import ChainOutlook, StatefulGate
from shedding.registry import method

WINDOW = {"Q1+Q2": 500, "Q3+Q4": 1000, "Q5+Q6": 1000}


def chains_after(operator: MatchOperator, row: int) -> tuple[RunsEngine, list[list[tuple[int, int]]]]:
    """Live partial matches once the rows before this one were fed, as lists of (item, row)."""
    engine = RunsEngine(operator.plan)
    operator.feed(engine, 0, row, ends=False)
    bound = bound_events(engine, live_runs(engine))
    pairs = list(zip(bound.items.tolist(), bound.places[:, 1].tolist(), strict=True))
    return engine, [pairs[start:stop] for start, stop in pairwise(bound.starts.tolist())]


def known(side: object, chain: list[tuple[int, int]], batch: EventBatch) -> float:
    """The sum of the terms of a side that are known, by the plain evaluator of single matches; NaN for none."""
    if isinstance(side, e.Arithmetic) and side.operator == "+":
        parts = [known(side.left, chain, batch), known(side.right, chain, batch)]
        return np.nan if all(map(isnan, parts)) else float(np.nansum(parts))

    def looked_up(asked: object) -> object:
        assert isinstance(asked, e.AttributeOf | e.Aggregate)
        cells = [batch.columns[str(asked.attribute)].values[row].item() for item, row in chain if item == asked.item]
        if not cells:
            return MISSING
        return aggregate(asked, cells) if isinstance(asked, e.Aggregate) else cells[0]

    found = (
        value(side, looked_up)
        if all(looked_up(one) is not MISSING for one in e.walk(side) if isinstance(one, e.AttributeOf | e.Aggregate))
        else None
    )
    return np.nan if found is None else float(found)


@pytest.mark.parametrize("name", ["Q1+Q2", "Q3+Q4"])
def test_slack_is_what_is_known_of_right_minus_left(name: str) -> None:
    batch = stream_of(name, 700, 5)
    operator = MatchOperator(plan_of(name), batch)
    engine, chains = chains_after(operator, 600)
    judged = operator.judged(engine, live_runs(engine), 600)
    comparisons = [join.condition for join in operator.plan.joins if isinstance(join.condition, e.Comparison)]
    slack = judged.values[-len(comparisons) :]
    assert len(chains) > 100
    for comparison, row in zip(comparisons, slack, strict=True):
        for chain, found in zip(chains, row.tolist(), strict=True):
            right, left = known(comparison.right, chain, batch), known(comparison.left, chain, batch)
            expected = np.nan if isnan(right) and isnan(left) else np.nansum([right, -left])
            assert found == pytest.approx(expected, nan_ok=True)
    assert len(set(judged.identity.tolist())) == len(chains)


@pytest.mark.parametrize("name", WINDOW)
def test_an_engine_tells_of_what_was_bound_what_the_recording_says(name: str) -> None:
    batch = stream_of(name, 700, 5)
    operator = MatchOperator(plan_of(name), batch)
    engine, chains = chains_after(operator, 600)
    live = live_runs(engine)
    features = Features.of(operator.plan)
    values = features.values(batch)
    judged = Describing.of(operator.plan).described(known_matches(live, progress_of_items(operator.plan), 1.0, 600), engine, live)
    count = len(features.attributes)
    assert len(chains) > 20
    assert count
    assert judged.values[:count].tolist() == values[:, [chain[0][1] for chain in chains]].tolist()
    assert judged.values[count : 2 * count].tolist() == values[:, [chain[-1][1] for chain in chains]].tolist()
    assert judged.last_type.tolist() == [chain[-1][0] for chain in chains]
    known_since = operator.judged(engine, live, 600)
    negated = sum(item.negated for item in operator.plan.items)
    assert np.isnan(judged.values[2 * count : 2 * count + negated]).all()
    assert np.array_equal(judged.values[2 * count + negated :], known_since.values[2 * count + negated :], equal_nan=True)


@dataclass(frozen=True)
class Greedy:
    """Worth is a sum of all that is told; not a number counts as nothing."""

    manifest: Manifest

    def utilities(self, matches: JudgedMatches) -> NDArray[np.float64]:
        return np.nan_to_num(matches.values).sum(axis=0) + matches.last_type

    def gate(self, drop_ratio: float) -> StatefulGate:
        return StatefulGate(self, 0, drop_ratio)  # type: ignore[arg-type]


def test_the_application_ends_those_that_the_model_says_by_what_they_have_bound() -> None:
    batch, plan = stream_of("Q3+Q4", 800, 9), plan_of("Q3+Q4")
    operator, model, describing = MatchOperator(plan, batch), Greedy(Manifest("greedy")), Describing.of(plan)
    engine, _ = chains_after(operator, 700)
    live = live_runs(engine)
    worth = model.utilities(describing.described(known_matches(live, progress_of_items(plan), 1.0, 700), engine, live))
    at_hand = sorted(zip(worth.tolist(), map(tuple, live.newest.tolist()), live.item.tolist(), strict=True))
    judge = MatchShedder(plan, model, progress_of_items(plan), describing)
    (asked, gone), _, _ = judge.ending(0.6)(engine, rows_between(batch, 700, 700), operator.items[700:700], Watermarks(699), 700)
    left = live_runs(engine)
    assert asked == len(live)
    assert gone == len(live) - len(left)
    assert gone == pytest.approx(0.6 * len(live), rel=0.1), "those that cannot be told apart stay together"
    kept_worth = model.utilities(describing.described(known_matches(left, progress_of_items(plan), 1.0, 700), engine, left))
    threshold = at_hand[round(0.6 * len(live))][0]
    assert np.mean(kept_worth >= threshold) > 0.95


def test_it_is_known_whether_a_negated_event_came_since() -> None:
    batch = stream_of("Q5+Q6", 600, 6)
    operator = MatchOperator(plan_of("Q5+Q6"), batch)
    engine, chains = chains_after(operator, 500)
    came = operator.judged(engine, live_runs(engine), 500).values[2 * operator._describing.attributes]
    types, own = batch.type.values, batch.columns["id"].values
    expected = [any(types[row] == 2 and own[row] == own[chain[-1][1]] for row in range(chain[-1][1] + 1, 500)) for chain in chains]
    assert came.tolist() == expected
    assert 0.1 < np.mean(expected) < 0.9


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_what_is_left_of_a_partial_match_by_playing_it_through(share: float) -> None:
    """`Succession` sums backwards; here each partial match is kept alone, and grows forwards until nothing is left."""
    batch = stream_of("Q3+Q4", 1500, 7)
    operator = MatchOperator(plan_of("Q3+Q4"), batch)
    observed = operator.observations()
    succession = observed.succession
    assert succession is not None
    sample, starts = observed.sample, succession.starts
    kept = np.random.default_rng(1).random(len(sample)) < share
    gain, cost_s = succession.totals(kept)
    complete, rows = operator.beginnings()
    ends = rows[complete.starts[1:] - 1]
    every = 62
    sets = [set(sample.identity[a:b].tolist()) for a, b in pairwise(starts.tolist())]
    allowed = [set(sample.identity[a:b][kept[a:b]].tolist()) for a, b in pairwise(starts.tolist())]
    prefixes = [complete.name[a:b].tolist() for a, b in pairwise(complete.starts.tolist())]
    chosen = np.random.default_rng(2).choice(np.flatnonzero(gain > 0), 10, replace=False)
    for number in chosen.tolist():
        look = int(np.searchsorted(starts, number, side="right")) - 1
        own, found = int(sample.identity[number]), 0
        for names, end in zip(prefixes, ends.tolist(), strict=True):
            if own not in names or end < every * (look + 1) or next((n for n in reversed(names) if n in sets[look]), None) != own:
                continue
            last = next(k for k in range(len(sets) - 1, -1, -1) if every * (k + 1) <= end)
            owners = [next((n for n in reversed(names) if n in sets[k]), None) for k in range(look + 1, last + 1)]
            found += all(owner in allowed[look + 1 + k] for k, owner in enumerate(owners))
        assert gain[number] == found
    assert np.all(cost_s >= succession.spent_s)


def test_what_survives_grew_from_what_survived() -> None:
    """Two looks: 0 and 1, then 2 (which is 0), 3 (grew from 1), 4 (new)."""
    succession = Succession(np.array([0, 2, 5]), np.array([-1, -1, 0, 1, -1]), np.zeros(5), np.ones(5))
    assert succession.survive(np.array([True, False, True, True, True])).tolist() == [True, False, True, False, True]
    assert succession.totals(np.array([True, True, True, False, True]))[1].tolist() == [2, 1, 1, 1, 1]
    assert succession.ended().tolist() == [False, False, False, False, False]


@pytest.mark.parametrize("name", WINDOW)
def test_a_pair_is_both_of_its_queries(name: str) -> None:
    batch = stream_of(name, 2500, 3)
    both = Operator(plan_of(name), batch).run()
    apart = [Operator(plan_of(one), batch).run() for one in name.split("+")]
    assert len(both) == sum(map(len, apart))
    rows = {tuple(one.rows[a:b].tolist()) for one in apart for a, b in pairwise(one.starts.tolist())}
    assert {tuple(both.rows[a:b].tolist()) for a, b in pairwise(both.starts.tolist())} == rows
    assert all(len(one) > 10 for one in apart)


def test_prefix_knows_an_or_at_the_end_of_a_sequence() -> None:
    shape = shape_of(plan_of("Q3+Q4"))
    assert shape is not None
    assert shape.needs == (-1, 0, 1, 2, 3, 4, 5, 3, 7, 8)


def test_a_bound_on_the_average_is_used_up_and_not_exceeded() -> None:
    batch = stream_of("Q5+Q6", 5000, 2)
    terms = Terms(fixed=True, match_share=1.0, average_over=300, priced=True)
    contest = Contest(plan_of("Q5+Q6"), rows_between(batch, 0, 3000), rows_between(batch, 3000, 5000), terms)
    recall = {}
    for name in ("stateful", "pm-random"):
        own = method(name)
        (standing,) = contest.standings(own, contest.train(own), [2.0])
        assert 0.35 < standing.held < 0.53
        assert standing.quality.precision == 1.0
        recall[name] = standing.quality.recall
    assert recall["stateful"] > recall["pm-random"] + 0.2


def test_saved_work_may_be_used_later() -> None:
    load = MatchLoad(1.0, 0.0, 0.0, most=10.0, average_over=100)
    assert [load.allowed(0.0, 50, saved) for saved in (0.0, 1000.0, -2000.0)] == [10, 20, 0]


def test_rates_are_looked_for_where_they_meet_the_price() -> None:
    """By every forest asked, price by price, in plain Python."""
    random = np.random.default_rng(3)
    rows, kinds = random.random((200, 2)).astype(np.float32), random.integers(-1, 2, 200).astype(np.int32)
    prices = np.array([0.0, 1.0, 2.0, 4.0])
    stump = {}
    for place, price in enumerate(prices):
        for kind in (0, 1):  # rates fall with the price
            stump[place, kind] = [(0.5, scale * (5 + kind) / (1 + price), scale / (1 + price)) for scale in (0.5, 1.0)]
    nodes = [one for key in sorted(stump) for one in stump[key]]
    feature = np.array([part for _ in nodes for part in (0, -1, -1)], np.int32)
    child = np.array([part for number in range(len(nodes)) for part in (3 * number + 1, -1, -1)], np.int32)
    content = np.array([part for cut, left, right in nodes for part in (cut, left, right)])
    roots = np.arange(0, 3 * len(nodes), 3, dtype=np.int32)
    starts = np.arange(0, len(nodes) + 1, 2, dtype=np.int32)
    found = np.empty(200)
    forest = Forest.of(Trees(feature, child, content, roots))
    just_worth(rows, kinds, forest, starts, prices, found)

    def rate(place: int, kind: int, row: NDArray[np.float32]) -> float:
        return float(np.mean([left if row[0] <= cut else right for cut, left, right in stump[place, kind]]))

    seen = set()
    for row, kind, worth in zip(rows, kinds.tolist(), found.tolist(), strict=True):
        if kind < 0:
            assert worth == 0
            continue
        over = [place for place in range(4) if rate(place, kind, row) >= prices[place]][-1]
        seen.add(over)
        if over == 3:
            assert worth == rate(3, kind, row)
        else:
            ends = [rate(place, kind, row) - prices[place] for place in (over, over + 1)]
            assert worth == pytest.approx(prices[over] + (prices[over + 1] - prices[over]) * ends[0] / (ends[0] - ends[1]))
    assert len(seen) > 1


def test_walks_of_one_length_end_in_the_leaves_that_trees_lead_to() -> None:
    """Trees as scikit-learn grows them, of many depths, beside a leaf alone; of scikit-learn the answers, too."""
    random = np.random.default_rng(4)
    rows = random.normal(size=(300, 3)).astype(np.float32)
    fitted = [
        DecisionTreeRegressor(max_leaf_nodes=leaves, random_state=leaves).fit(rows, rows[:, 0] ** 2 - rows[:, 1]) for leaves in (2, 9, 40)
    ]
    fitted.append(DecisionTreeRegressor().fit(rows, np.full(300, 5.0)))
    trees = compiled(fitted)
    answers = []
    for row in rows:
        leaves = []
        for root in trees.roots.tolist():
            node = root
            while trees.feature[node] >= 0:
                node = int(trees.child[node]) + bool(row[trees.feature[node]] > trees.content[node])
            leaves.append(trees.content[node])
        answers.append(np.mean(leaves))
    forest = Forest.of(trees)
    assert len(set(forest.depth.tolist())) == 4
    assert asked(forest, rows).tolist() == pytest.approx(answers)
    assert answers == pytest.approx(np.mean([one.predict(rows) for one in fitted], axis=0))
    assert len(set(answers)) > 30
    assert asked(Forest.of(always(3.0)), rows).tolist() == [3.0] * 300


def test_rows_are_what_is_known_and_what_is_told_with_32_bits() -> None:
    known = [np.array([1, 2], np.int32), np.array([np.inf, 2.5])]
    matches = JudgedMatches(np.arange(2, dtype=np.uint64), values=np.array([[np.nan, -np.inf], [0.1, 7.0]]))
    largest = np.float32(3e38)
    rows = rows_of(known, matches, 2)
    assert rows.dtype == np.float32
    assert rows.tolist() == [[1, largest, -largest, np.float32(0.1)], [2, 2.5, -largest, 7]]
    assert rows_of(known, JudgedMatches(matches.identity), 2).tolist() == [[1, largest, -largest, -largest], [2, 2.5, -largest, -largest]]


def test_what_is_learned_at_a_price_is_what_the_definition_says() -> None:
    """Two stages, three looks (and one at which nothing is left), work of 1 per look, rates known exactly: trees that give each row its label back."""
    # look 0: a, b; look 1: a, b, and c, which grew from a; look 2: a, c, and d, which grew from b. c brings a composite event of weight 5 after look 1, b one of 1 after look 0.
    state = np.array([0, 0, 0, 0, 1, 0, 1, 1], np.int32)
    name = np.array([1, 2, 1, 2, 3, 1, 3, 4], np.uint64)
    owner = np.array([-1, -1, 0, 1, 0, 2, 4, 3])
    gain = np.array([0.0, 1, 0, 0, 5, 0, 0, 0])
    succession = Succession(np.array([0, 2, 5, 8, 8]), owner, gain, np.ones(8))
    sample = JudgedMatches(name, np.zeros(8, np.int32), state, np.arange(8.0), np.zeros(8), np.zeros(8, np.int32), np.zeros((0, 8)))

    def by_heart(rows: NDArray[np.float32], labels: NDArray[np.float64]) -> Trees:
        """A chain of stumps: the window's rest is the number of the row."""
        feature, child, content = [], [], []
        for row, label in sorted(zip(rows[:, 0].tolist(), labels.tolist(), strict=True)):
            place = len(feature)
            feature, child, content = [*feature, 0, -1], [*child, place + 1, -1], [*content, row + 0.5, label]
        feature, child, content = [*feature, -1], [*child, -1], [*content, 0.0]
        return Trees(np.array(feature, np.int32), np.array(child, np.int32), np.array(content), np.zeros(1, np.int32))

    learning = Learning.of(sample, succession, np.array([[0, 0], [1, 0]], np.int32), by_heart)
    for price in (0.0, 2.0, 6.0):
        learning.at(price)
        assert learning.rates.tolist() == [max(0.0, 5 - price), 1, 0, 0, 5, 0, 0, 0]


def test_hidden_partial_matches_count_as_not_held_and_the_bound_is_used_up() -> None:
    batch, own = stream_of("Q1+Q2", 3000, 2), method("hspice")
    terms = Terms(fixed=True, match_share=1.0, average_over=300, match_interval=3)
    contest = Contest(plan_of("Q1+Q2"), rows_between(batch, 0, 1800), rows_between(batch, 1800, 3000), terms)
    model = contest.train(own)
    for rate in (2.0, 5.0):
        (standing,) = contest.standings(own, model, [rate])
        assert standing.held == pytest.approx(1 / rate, abs=0.06)


def test_some_lineages_go_on_as_they_did_among_all() -> None:
    observed = MatchOperator(plan_of("Q3+Q4"), stream_of("Q3+Q4", 1500, 7)).observations()
    sample, whole = observed.sample, observed.succession
    assert whole is not None
    some, own = lineages(sample, whole, len(sample) // 3)
    assert 0.2 * len(sample) < len(some) < 0.5 * len(sample)
    assert own.starts[-1] == len(some)
    assert len(own.starts) == len(whole.starts)
    gain, cost_s = whole.totals(np.ones(len(sample), np.bool_))
    seen: dict[tuple[int, int], int] = {}
    for look, (begin, end) in enumerate(pairwise(whole.starts.tolist())):
        seen |= {(look, name): row for row, name in enumerate(sample.identity[begin:end].tolist(), begin)}
    found_gain, found_cost_s = own.totals(np.ones(len(some), np.bool_))
    for look, (begin, end) in enumerate(pairwise(own.starts.tolist())):
        rows = [seen[look, name] for name in some.identity[begin:end].tolist()]
        assert found_gain[begin:end].tolist() == gain[rows].tolist()
        assert found_cost_s[begin:end].tolist() == pytest.approx(cost_s[rows].tolist())
        assert np.array_equal(some.values[:, begin:end], sample.values[:, rows], equal_nan=True)


def test_what_a_chain_expects_is_mended_by_what_forests_say() -> None:
    """By numpy and scikit-learn: utility times gains over costs, which divide as 0.01 at least."""
    random = np.random.default_rng(8)
    count = 400
    matches = JudgedMatches(
        np.arange(count, dtype=np.uint64),
        query=np.zeros(count, np.int32),
        state=random.integers(0, 3, count).astype(np.int32),
        remaining=random.uniform(0, 40, count),
        last_type=random.integers(0, 4, count).astype(np.int32),
        values=np.where(random.random((2, count)) < 0.2, np.nan, random.normal(size=(2, count))),
    )
    chain = UtilityTable(random.random((1, 3, 9)), np.array([5.0]))
    rows = np.stack([matches.query, matches.state, matches.remaining, matches.last_type, *np.nan_to_num(matches.values, nan=-3e38)], axis=1)
    forests = [
        [
            DecisionTreeRegressor(max_depth=4, random_state=seed).fit(rows, random.random(count) - 0.3 * (seed > 5))
            for seed in range(begin, begin + 3)
        ]
        for begin in (0, 9)
    ]
    gain, cost = (np.mean([tree.predict(rows) for tree in forest], axis=0) for forest in forests)
    assert (cost < 0.01).any()
    outlook = ChainOutlook(chain, compiled(forests[0]), compiled(forests[1]), 2)
    expected = chain.look_up(matches) * gain / np.maximum(0.01, cost)
    assert outlook.utilities(matches) == pytest.approx(expected)
    assert len(set(expected.tolist())) > 300
    untold = JudgedMatches(matches.identity, matches.query, matches.state, matches.remaining)
    absent = np.concatenate([rows[:, :3], np.tile([-1, -3e38, -3e38], (count, 1))], axis=1)
    gain, cost = (np.mean([tree.predict(absent) for tree in forest], axis=0) for forest in forests)
    assert outlook.utilities(untold) == pytest.approx(chain.look_up(untold) * gain / np.maximum(0.01, cost))
