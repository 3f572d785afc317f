"""Sequences against the definitions: what an event evaluates, which order is found, and that nothing of it changes a result."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from app.asc.adaptive import Adaptive, AdaptiveRules, Seen
from app.asc.constructs import Constructs
from app.asc.evaluate import evaluate_regions
from app.asc.monitor import Sample, conditional_selectivity, dropping_ratio, find_arrows, macro_sequence, next_construct
from app.asc.selection import Selection
from app.asc.sequence import Sequence
from tests.naive import constructs as naive
from tests.property.test_asc_selection import any_sequence, catalogs, events_of, to_batch

FEW = settings(max_examples=max(20, settings.default.max_examples // 4), phases=(Phase.explicit, Phase.generate))


def items_of(words: np.ndarray) -> set[int]:
    return {bit for bit in range(64 * len(words)) if int(words[bit // 64]) >> bit % 64 & 1}


def plainly(constructs: Constructs) -> tuple[list, set[int]]:
    """The constructs as sets."""
    everyone = items_of(constructs.items)
    return [
        ([items_of(row) & everyone for row in table], items_of(usage))
        for table, usage in zip(constructs.tables, constructs.usages, strict=True)
    ], everyone


@st.composite
def samples(draw) -> Sample:
    """Tables and regions from nowhere: not every one belongs to a predicate."""
    count, items, events = draw(st.integers(1, 5)), draw(st.sampled_from([1, 3, 70])), draw(st.integers(1, 8))
    words = -(-items // 64)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    everyone = np.zeros(words, dtype=np.uint64)
    for bit in range(items):
        everyone[bit // 64] |= np.uint64(1 << bit % 64)
    usages, tables = np.zeros((count, words), dtype=np.uint64), []
    share, used = draw(st.sampled_from([0.1, 0.5, 0.9])), draw(st.sampled_from([0.2, 0.4, 0.7]))
    for number in range(count):
        table = np.full((draw(st.integers(1, 4)), words), ~np.uint64(0))
        for bit in np.flatnonzero(random.random(items) < used).tolist():
            mask = np.uint64(1 << bit % 64)
            usages[number, bit // 64] |= mask
            table[random.random(len(table)) < share, bit // 64] &= ~mask
        tables.append(table)
    regions = np.array([random.integers(0, len(table), events) for table in tables], dtype=np.int32)
    return Sample(Constructs(tuple(f"a{k}" for k in range(count)), tuple(tables), usages, everyone), regions)


@FEW
@given(samples(), st.data())
def test_an_event_evaluates_the_constructs_on_its_way_and_no_others(sample: Sample, data: st.DataObject) -> None:
    constructs, everyone = plainly(sample.constructs)
    order = data.draw(st.permutations(range(len(constructs))))
    arrows = {
        number: np.array(data.draw(st.lists(st.integers(-1, len(constructs) - 1), min_size=1, max_size=4)), dtype=np.int32)
        for number in data.draw(st.lists(st.sampled_from(order), unique=True))
    }
    sequence = Sequence(tuple(order), arrows)
    found = evaluate_regions(sample.constructs, sample.regions, sequence)
    ways = [naive.walk(regions, constructs, everyone, order, sequence.arrow) for regions in sample.regions.T.tolist()]
    assert found.counts.tolist() == [len(way) for way, _ in ways]
    assert found.evaluated == sum(len(way) for way, _ in ways)
    assert found.rows.tolist() == [row for row, (_, left) in enumerate(ways) if left]
    assert [items_of(bitmap) for bitmap in found.bitmaps] == [left for _, left in ways if left]
    assert Sequence.from_plain(sequence.to_plain()) == sequence


@FEW
@given(samples())
def test_selectivities_ratios_and_the_order_are_those_of_the_definitions(sample: Sample) -> None:
    constructs, everyone = plainly(sample.constructs)
    regions = sample.regions.T.tolist()
    order = naive.macro_sequence(regions, constructs, everyone)
    assert list(macro_sequence(sample)) == order
    for length in range(len(order)):
        prefix = tuple(order[:length])
        assert next_construct(sample, prefix) == order[length]
        assert dropping_ratio(sample, prefix) == pytest.approx(float(naive.dropping_ratio(regions, constructs, everyone, prefix)))
        for number in order[length:]:
            found = conditional_selectivity(sample, prefix, number)
            assert Fraction(found).limit_denominator(10**6) == naive.conditional_selectivity(regions, constructs, everyone, prefix, number)


@FEW
@given(samples())
def test_micro_arrows_lead_to_candidates_and_change_no_result(sample: Sample) -> None:
    order = macro_sequence(sample)
    arrows = find_arrows(sample, order)
    for number, own in arrows.items():
        for region, target in enumerate(own.tolist()):
            assert target < 0 or sample.constructs.candidates(number)[region, target]
    macro = evaluate_regions(sample.constructs, sample.regions, Sequence.fixed(order))
    hybrid = evaluate_regions(sample.constructs, sample.regions, Sequence(order, arrows))
    assert hybrid.rows.tolist() == macro.rows.tolist()
    assert hybrid.bitmaps.tolist() == macro.bitmaps.tolist()


@FEW
@given(catalogs(), st.lists(events_of, min_size=1, max_size=4), st.sampled_from(["macro", "hybrid"]), st.data())
def test_rearrangements_change_no_result_and_a_repeated_batch_takes_the_same_way(catalog, batches, mode, data) -> None:
    selection = Selection(catalog, "s")
    start = any_sequence(data, selection)
    adaptive = Adaptive(selection.constructs, AdaptiveRules(mode, period=5, threshold=0, sample=4), start)
    for events in batches:
        batch = to_batch(events)
        usual, found = selection.select(batch), selection.select(batch, adaptive.sequence)
        assert found.bitmap.tolist() == usual.bitmap.tolist()
        again = Selection(catalog, "s").select(batch, Sequence.from_plain(adaptive.sequence.to_plain()))
        assert (again.evaluated, again.followed, again.bitmap.tolist()) == (found.evaluated, found.followed, found.bitmap.tolist())
        regions = selection.regions(batch, np.arange(len(batch))) if adaptive.sample_wanted else None
        adaptive.observe(Seen(len(batch), len(batch) - len(found.relevant)), regions)
