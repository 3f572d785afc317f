"""The worked example of the paper (its figures are lost; constants as in the project's specification): four queries, four attributes, seven tuples.

Bitmaps are written as in the paper, the first query leftmost.
"""

from __future__ import annotations

import numpy as np
import pytest

from app.asc.evaluate import evaluate_regions
from app.asc.monitor import (
    Sample,
    Walk,
    conditional_selectivity,
    dropping_ratio,
    find_arrows,
    macro_sequence,
    micro_arrows,
    next_construct,
)
from app.asc.selection import Selection
from app.asc.sequence import Sequence
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.plan import Catalog, ConstantTest, Item, Plan

PREDICATES = [
    [("A1", "<", 30), ("A3", "<=", 40)],
    [("A2", "<=", 20), ("A4", "<", 30)],
    [("A1", "<=", 70), ("A3", ">", 60)],
    [("A2", ">", 50), ("A4", ">=", 80)],
]
TUPLES = {
    1: (50, 30, 20, 10),
    2: (80, 60, 20, 90),
    3: (50, 40, 20, 50),
    4: (80, 30, 50, 90),
    5: (80, 60, 50, 10),
    6: (80, 60, 50, 50),
    7: (80, 20, 50, 10),
}
A1, A2, A3, A4 = range(4)
QRB_CAB = {
    A1: "1111/0111 0111/0111 0111/0111 0111/0111 0101/0101",
    A2: "1110/1011 1110/1011 1010/1010 1010/1010 1011/1011",
    A3: "1101/1101 1101/1101 0101/0101 0101/0101 0111/1101",
    A4: "1110/1110 1010/1010 1010/1010 1011/1110 1011/1110",
}


def plan(number: int) -> Plan:
    tests = tuple(ConstantTest(name, Kind.INTEGER, operator, (value,)) for name, operator, value in PREDICATES[number])
    return Plan(f"q{number + 1}", 1, "", (), 1.0, ("s",), (Item(0, None, (), tests=tests),), (), (), None, (), ())


SELECTION = Selection(Catalog.of(tuple(plan(number) for number in range(4))), "s")
CONSTRUCTS = SELECTION.constructs
BITS = [SELECTION.bit(query, 0) for query in range(4)]


def events(*numbers: int) -> EventBatch:
    rows = np.array([TUPLES[number] for number in numbers])
    columns = {f"A{k + 1}": Column(Kind.INTEGER, np.ascontiguousarray(rows[:, k])) for k in range(4)}
    places = np.arange(len(rows))
    return EventBatch(
        places, places * 0, places, Column(Kind.STRING, np.zeros(len(rows), dtype=np.int32), None, Dictionary.of([b"T"])), columns
    )


def sample(*numbers: int) -> Sample:
    return Sample(CONSTRUCTS, SELECTION.regions(events(*numbers), np.arange(len(numbers))))


def queries(words: np.ndarray) -> str:
    return "".join(str(int(words[bit // 64]) >> bit % 64 & 1) for bit in BITS)


def region(attribute: int, number: int) -> int:
    """A tuple's region, counted from 1 as in the paper."""
    return int(sample(number).regions[attribute, 0]) + 1


def test_constructs_are_those_of_the_figure() -> None:
    assert CONSTRUCTS.attributes == ("A1", "A2", "A3", "A4")
    assert [queries(usage) for usage in CONSTRUCTS.usages] == ["1010", "0101", "1010", "0101"]
    for number, text in QRB_CAB.items():
        table, candidates = CONSTRUCTS.tables[number], CONSTRUCTS.candidates(number)
        found = [f"{queries(table[r])}/{''.join(str(int(c)) for c in candidates[r])}" for r in range(5)]
        assert " ".join(found) == text


def test_evaluation_in_the_order_of_figure_3() -> None:
    order = Sequence.fixed((A1, A2, A3, A4))
    selected = SELECTION.select(events(1, 2, 3), order)
    assert [queries(bitmap) for bitmap in selected.bitmap] == ["0000", "0001", "0000"]
    found = evaluate_regions(CONSTRUCTS, sample(1, 2, 3).regions, order)
    assert found.counts.tolist() == [3, 4, 3]  # t1 and t3 die at the third construct
    steps = [queries(sample(2).results((A1, A2, A3, A4)[:length])[0]) for length in range(1, 5)]
    assert steps[0] == "0101"
    assert steps[-1] == "0001"


def test_minimal_cover_sets() -> None:
    pairs = [(one, other) for one in range(4) for other in range(one + 1, 4) if CONSTRUCTS.covers((one, other))]
    assert not any(CONSTRUCTS.covers((one,)) for one in range(4))
    assert {(A1, A2), (A3, A4)} <= set(pairs)
    disjoint = [(one, other) for one, other in pairs if not (CONSTRUCTS.usages[one] & CONSTRUCTS.usages[other]).any()]
    assert disjoint == pairs


def test_tuple_dropping_ratio_of_example_4() -> None:
    assert dropping_ratio(sample(1, 2, 3), (A1, A2, A3)) == pytest.approx(2 / 3)


def test_macro_sequence_of_example_5_in_three_periods() -> None:
    first, second, third = sample(1), sample(2), sample(3)
    alone = {number: conditional_selectivity(first, (), number) for number in range(4)}
    assert list(alone.values()) == [3 / 4, 1 / 2, 3 / 4, 3 / 4]
    assert next_construct(first, ()) == A2
    assert [conditional_selectivity(second, (A2,), number) for number in (A1, A3, A4)] == [0, 1 / 2, 1]
    assert next_construct(second, (A2,)) == A1
    assert CONSTRUCTS.covers((A2, A1))
    assert [dropping_ratio(third, (A2, A1, number)) for number in (A3, A4)] == [1, 0]
    assert next_construct(third, (A2, A1), alone) == A3
    assert next_construct(third, (A2, A1, A3), alone) == A4


def test_micro_arrows_of_example_6() -> None:
    order = (A1, A2, A3, A4)
    fourth, fifth = sample(4), sample(5)
    assert (region(A1, 4), region(A1, 5), region(A2, 5), region(A2, 7)) == (5, 5, 5, 2)
    walk = Walk.start(fourth, A1)
    assert queries(walk.results[0]) == "0101"
    passed = [queries((walk.results & fourth.bitmaps(number))[0]).count("1") for number in (A2, A4)]
    assert passed == [0, 1]  # of two items left: selectivities 0 and 1/2 by the definition (the paper prints 1/4)
    assert micro_arrows(fourth, walk, order) == {(A1, 4): A2}
    arrows = {A1: np.array([-1, -1, -1, -1, A2], dtype=np.int32)}
    walk = Walk.start(fifth, A1)
    walk.visit(fifth, walk.targets(fifth, order, arrows))
    assert CONSTRUCTS.covers((A1, A2))
    assert [dropping_ratio(fifth, (A1, A2, number)) for number in (A3, A4)] == [0, 1]
    assert micro_arrows(fifth, walk, order) == {(A2, 4): A4}


HYBRID = Sequence(
    (A1, A2, A3, A4), {number: np.array([-1, -1, -1, -1, target], dtype=np.int32) for number, target in ((A1, A2), (A2, A4), (A4, A3))}
)


def test_evaluation_along_the_hybrid_sequence_of_example_7() -> None:
    found = evaluate_regions(CONSTRUCTS, sample(6).regions, HYBRID)
    assert found.counts.tolist() == [3]  # A1, A2, A4
    assert (found.followed, len(found.rows)) == (2, 0)
    seventh = sample(7)
    walk = Walk.start(seventh, A1)
    walk.visit(seventh, walk.targets(seventh, HYBRID.order, HYBRID.arrows))
    assert walk.last.tolist() == [A2]  # by the arrow of A1.ra[5]
    assert walk.targets(seventh, HYBRID.order, HYBRID.arrows).tolist() == [A3]  # A2.ra[2] has none
    assert evaluate_regions(CONSTRUCTS, seventh.regions, HYBRID).followed == 1


def test_one_sample_for_all_steps_gives_the_same_results() -> None:
    everything = sample(*TUPLES)
    order = macro_sequence(everything)
    assert sorted(order) == [A1, A2, A3, A4]
    assert CONSTRUCTS.covers(order[:2])
    sequence = Sequence(order, find_arrows(everything, order))
    for one in (Sequence.fixed(order), sequence, HYBRID):
        assert SELECTION.select(events(*TUPLES), one).bitmap.tolist() == SELECTION.select(events(*TUPLES)).bitmap.tolist()
        assert Sequence.from_plain(one.to_plain()).to_plain() == one.to_plain()
