"""Of streams of trusted order, what is audited where producers break it: a shed event that would have been late for its key prevents nothing, and is missing nowhere."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from app.audit.verdicts import Verdict
from app.bucket.hold import KeyOrder, TimeRules
from app.events.batch import EventBatch, take
from tests.property.test_bucket_audit import PREVENTING, SAMPLED, Case, Place, Whole, case_of, fed, judged, letters, looking, shedding

EVENTS = 80
WITH_KEYS = {name: text for name, text in PREVENTING.items() if "[k]" in text}
AT_ONCE = {name: text for name, text in SAMPLED.items() if "longest" not in text}
"""The longest is told with its key's next event, or at the watermark: where that event was shed, the sample knows it before the bucket has found it."""


def disordered(text: str, chance: random.Random) -> tuple[Case, TimeRules, list[list[EventBatch]], set[Place]]:
    """A query on a stream of which some events come later than those behind them, of their own key or others; its batches, and what is shed of them."""
    lines = letters(chance, EVENTS, 10, 3)
    gone = chance.choices([True, False, False], k=EVENTS)
    case = case_of(f"name: q\n{text}\n", lines, [int(line["k"]) % 2 for line in lines], gone)
    assert case is not None
    arrival = np.array(sorted(range(EVENTS), key=lambda row: row + chance.choice([0, 0, 0, 5])))
    batch = take(case.batch, arrival)
    shed = [place in case.gone for place in zip(batch.source.tolist(), batch.offset.tolist(), strict=True)]
    batch = replace(batch, offset=np.arange(EVENTS))
    cuts = sorted(chance.sample(range(EVENTS + 1), 3))
    steps = [[take(batch, np.arange(*cut))] for cut in pairwise([0, *cuts, EVENTS])]
    return (
        case,
        TimeRules(case.plan.streams[0], 1000, "k"),
        steps,
        set(zip(batch.source[shed].tolist(), batch.offset[shed].tolist(), strict=True)),
    )


@pytest.mark.slow
def test_false_is_what_the_application_would_not_have_found_without_shedding() -> None:
    seen = Counter[Verdict]()
    for seed, text in ((seed, text) for seed in range(20) for text in WITH_KEYS.values()):
        case, rules, steps, gone = disordered(text, random.Random(seed))
        truth = {name for _, name, _, _ in judged(case.catalog, fed(case.catalog, rules, steps, shedding(set()), 1, set()))}
        restarts = {seed % 4}
        for _, name, verdict, _ in judged(case.catalog, fed(case.catalog, rules, steps, shedding(gone), 1 + seed % 2, restarts)):
            assert verdict is Verdict.UNVERIFIABLE or (name in truth) == (verdict is not Verdict.FALSE_POSITIVE)
            seen[verdict] += 1
    assert min(seen[verdict] for verdict in (Verdict.UNTOUCHED, Verdict.CONFIRMED, Verdict.FALSE_POSITIVE)) > 20


@pytest.mark.slow
@pytest.mark.parametrize("text", AT_ONCE.values(), ids=AT_ONCE)
def test_the_control_sample_finds_what_the_application_would_have_found_without_shedding(text: str) -> None:
    lost = kept = 0
    for seed in range(20):
        chance = random.Random(seed)
        case, rules, steps, gone = disordered(text, chance)
        sampled = replace(case.catalog, sample=0.8)
        whole, (counts, look) = Whole.of(case, sampled), looking(lambda chance=chance: 3 * chance.randrange(5))
        true = whole.found(fed(case.catalog, rules, steps, shedding(set()), 1, set()))
        found = whole.found(fed(sampled, rules, steps, shedding(gone), 1 + seed % 2, set(), look=look))
        assert (counts[0].sum(), counts[1].sum()) == (len(true), len(true & found))
        lost, kept = lost + counts[0].sum() - counts[1].sum(), kept + counts[1].sum()
    assert min(lost, kept) > 2


def test_whoever_asks_who_is_behind_its_key_changes_nothing() -> None:
    chance = np.random.default_rng(1)
    keys, times = chance.integers(0, 60, 500).astype(np.uint64) << np.uint64(6), chance.integers(0, 1000, 500)
    order = KeyOrder(keys, times)
    latest = {key: int(times[keys == key].max()) for key in np.unique(keys).tolist()}
    asked, when = chance.integers(0, 90, 500).astype(np.uint64) << np.uint64(6), chance.integers(0, 1000, 500)
    before = order.contents()
    behind = order.behind(asked, when)
    assert behind.tolist() == [time < latest.get(key, 0) for key, time in zip(asked.tolist(), when.tolist(), strict=True)]
    assert all((one == other).all() for one, other in zip(before, order.contents(), strict=True))
