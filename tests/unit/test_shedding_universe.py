"""Universe sampling: partitions stay whole or go whole, for a while."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from app.asc.selection import Selection
from app.bucket.recording import match_sorted, rows_between
from app.control.messages.directives import Directive, QueryShedding
from app.evaluation.shedding import match_shedding
from app.events.batch import EventBatch, in_total_order
from app.features.events import Features, decision_period
from app.files.gathering import parse_events
from app.local.generators import generate
from app.local.generators.json_lines import json_lines
from app.pipeline.gate import shedding_gate
from app.query.compile import compile_texts
from app.query.plan import Catalog, Plan
from app.query.resolved.vocabulary import Streams
from shedding.candidates import JudgedEvents
from shedding.events.universe import WINDOWS, period_for
from shedding.registry import unlearned
from tests.naive.composites import composite_events

SHOPLIFTING = """
name: theft
event: SEQ(ShelfReading s, !(CounterReading c), ExitReading e)
where: "[tag_id]"
within: {within}
return: {{tag_id: e.tag_id}}
"""
RISE = """
name: rise
event: SEQ(Quote a, Quote b, Quote c)
where: "[symbol] AND b.price > a.price AND c.price > b.price"
within: 10 s
return: {symbol: a.symbol}
"""


def events(keys: int, each: int, period_ms: int = 0, every_ms: int = 1000) -> JudgedEvents:
    """Of each partition so many events, one after the other in turn."""
    rng = np.random.default_rng(4)
    key = np.tile(rng.integers(1, 1 << 63, keys).astype(np.uint64), each)
    time = np.repeat(np.arange(each, dtype=np.int64) * every_ms, keys)
    return JudgedEvents(np.arange(len(key), dtype=np.uint64), time, key=key, period_ms=period_ms)


def kept(judged: JudgedEvents, ratio: float, seed: int = 3) -> np.ndarray:
    return unlearned("universe", seed).gate(ratio).keep(judged)


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_without_a_period_a_partition_is_in_or_out_for_ever_and_as_many_are_as_was_asked(ratio: float) -> None:
    by_partition = kept(events(4000, 5), ratio).reshape(5, 4000)
    assert (by_partition == by_partition[0]).all()
    assert abs(by_partition[0].mean() - (1 - ratio)) < 4 * 0.5 / 4000**0.5


def test_what_goes_at_a_ratio_goes_at_every_higher_one() -> None:
    judged = events(500, 40, period_ms=8192)
    stays = [kept(judged, ratio) for ratio in (0.2, 0.4, 0.6)]
    assert not (stays[1] & ~stays[0]).any()
    assert not (stays[2] & ~stays[1]).any()


def test_after_a_period_others_are_out_and_not_all_partitions_change_at_once() -> None:
    period = 16_384
    by_partition = kept(events(2000, 60, period_ms=period), 0.5).reshape(60, 2000)
    changes = by_partition[1:] != by_partition[:-1]
    own = changes.sum(axis=0)
    assert own.max() <= 60_000 // period + 1, "nobody changes more than once a period"
    assert (own > 0).mean() > 0.8, "and nobody is out for ever"
    assert changes.mean(axis=1).max() < 3 * changes.mean(), "whenever"
    assert (np.abs(by_partition.mean(axis=1) - 0.5) < 0.06).all(), "as many at every moment"


def test_what_belongs_to_all_partitions_stays() -> None:
    judged = events(50, 4)
    everybody = replace(judged, key=np.zeros(len(judged), np.uint64))
    assert kept(everybody, 0.9).all()


def test_another_seed_chooses_other_partitions_and_without_partitions_single_events_are_chosen() -> None:
    judged = events(2000, 1)
    assert 0.4 < (kept(judged, 0.5, 1) == kept(judged, 0.5, 2)).mean() < 0.6
    alone = replace(judged, key=np.zeros(0, np.uint64))
    assert 0.4 < kept(alone, 0.5).mean() < 0.6


def test_a_period_is_at_least_eight_windows_and_of_windows_that_are_alike_the_same() -> None:
    assert all(WINDOWS * window <= period_for(window) < 2 * WINDOWS * window for window in (1, 1000, 12_000, 86_400_000))
    assert period_for(10_000) == period_for(12_000)
    assert decision_period(planned(RISE, "stocks", 10)[0]) == period_for(10_000)
    assert decision_period(planned(RISE.replace("10 s", "10 events"), "stocks", 10)[0]) == 0


def planned(text: str, kind: str, count: int, rate: float = 50.0) -> tuple[Plan, EventBatch]:
    events = generate(kind, count, seed=5, start_ms=1_780_000_000_000, rate_per_s=rate)
    file = parse_events(b"".join(json_lines(events.batches)))
    compilation = compile_texts([("q.yaml", text)], Streams(everything=file.schema))
    assert not compilation.errors, compilation.errors
    return compilation.catalog.plans[0], in_total_order(file.batch)


def answers(plan: Plan, batch: EventBatch, shedder: str, ratio: float) -> set[str]:
    whole = shedder == "none"
    found = match_sorted(Catalog.of((plan,)), batch).found if whole else match_shedding(plan, batch, unlearned(shedder, 3), ratio)
    return {event.id for one in found for event in composite_events(plan, one.matches, ("t",))}


def test_what_is_left_is_true_and_more_of_it_than_by_chance() -> None:
    plan, batch = planned(SHOPLIFTING.format(within="20 s"), "retail", 20_000)
    whole = answers(plan, batch, "none", 0)
    assert len(whole) > 150
    left, by_chance = answers(plan, batch, "universe", 0.5), answers(plan, batch, "random", 0.5)
    assert len(by_chance - whole) > 30, "chance drops what forbids a match"
    assert not left - whole
    assert len(left & whole) > 1.4 * len(by_chance & whole)


def test_of_three_events_half_stay_and_not_an_eighth() -> None:
    rng = np.random.default_rng(8)
    lines = [
        {"type": "Quote", "time": 20 * k, "symbol": f"S{symbol}", "price": int(price)}
        for k, (symbol, price) in enumerate(rng.integers(0, 300, (12_000, 2)))
    ]
    file = parse_events("\n".join(map(json.dumps, lines)).encode())
    (plan,) = compile_texts([("q.yaml", RISE)], Streams(everything=file.schema)).catalog.plans
    whole = answers(plan, file.batch, "none", 0)
    assert len(whole) > 300
    assert len(answers(plan, file.batch, "random", 0.5)) < 0.2 * len(whole)
    assert 0.4 < len(answers(plan, file.batch, "universe", 0.5)) / len(whole) < 0.6


def test_the_ingress_decides_as_the_laboratory_whatever_the_batch() -> None:
    plan, batch = planned(RISE, "stocks", 4000, rate=20.0)
    catalog = Catalog.of((plan,))
    selection = Selection(catalog, plan.streams[0])
    orders = Directive(0, seed=3, shedding={"rise": QueryShedding(0.4, "universe")})
    gate = shedding_gate(catalog, selection, orders)
    assert gate is not None
    expected = unlearned("universe", 3).gate(0.4).keep(Features.of(plan).judged(batch))
    for size in (len(batch), 700):
        stays: list[int] = []
        for start in range(0, len(batch), size):
            part = rows_between(batch, start, min(start + size, len(batch)))
            relevant = gate(part, selection.select(part)).relevant
            stays += (start + relevant).tolist()
        np.testing.assert_array_equal(np.isin(np.arange(len(batch)), stays), expected)
