from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from app.asc import attribute
from app.asc.adaptive import changed
from app.asc.constructs import Constructs
from app.asc.evaluate import evaluate_regions
from app.asc.likes import like_range
from app.asc.monitor import Sample, find_arrows, macro_sequence, next_construct
from app.asc.selection import Selection
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.plan import Catalog, ConstantTest, Item, Plan
from tests.naive.selection import candidate

TEXTS = ["".join(letters) for length in range(4) for letters in product("abc", repeat=length)] + ["aé", "é", "éa", "ê"]


def plan(*tests: ConstantTest, either: tuple[tuple[ConstantTest, ...], ...] = ()) -> Plan:
    return Plan("q", 1, "", (), 1.0, ("s",), (Item(0, None, (), tests=tests, either=either),), (), (), None, (), ())


def batch(column: Column) -> EventBatch:
    places = np.arange(len(column.values))
    types = Column(Kind.STRING, np.zeros(len(places), dtype=np.int32), None, Dictionary.of([b"T"]))
    return EventBatch(places, places * 0, places, types, {"x": column})


def selected(one: Plan, column: Column) -> list[int]:
    return Selection(Catalog.of((one,)), "s").select(batch(column)).relevant.tolist()


@pytest.mark.parametrize("operator", ["like", "not like"])
@pytest.mark.parametrize("pattern", ["a%", "ab%", "ab", "é%", "%", "", "a%c", "_b%", "%b"])
def test_like_is_what_the_definition_says_as_a_range_or_not(operator: str, pattern: str) -> None:
    one = plan(ConstantTest("x", Kind.STRING, operator, (pattern,)))
    texts = Column(Kind.STRING, np.arange(len(TEXTS), dtype=np.int32), None, Dictionary.of([text.encode() for text in TEXTS]))
    assert selected(one, texts) == [k for k, text in enumerate(TEXTS) if candidate({"type": "T", "x": text}, one.items[0], ())]


def test_only_prefixes_and_whole_texts_are_ranges() -> None:
    assert [like_range(pattern) is not None for pattern in ("ab%", "ab", "%", "a%b", "_a%", "\ufffd%")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("spread", [50, 10**6, 2**62])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_searches_find_every_region_however_constants_lie(spread: int, dtype: type) -> None:
    """Close together, far apart, crowded at the lower end, at the ends of the domain."""
    random = np.random.default_rng(spread % 1000)
    kind = Kind.INTEGER if dtype is np.int64 else Kind.FLOAT
    for crowd in (1.0, 12.0):
        constants = sorted({int(c) for c in (random.random(200) ** crowd * spread - spread / 3)})
        tests = tuple(ConstantTest("x", kind, "!=", (constant if dtype is np.int64 else float(constant),)) for constant in constants[::2])
        around = np.array([c + d for c in constants for d in (-1, 0, 1)] + [-(2**62), 2**62]).astype(dtype)
        values = Column(kind, around)
        gone = {dtype(constant) for constant in constants[::2]}
        assert selected(plan(*tests), values) == [k for k, value in enumerate(around) if dtype(value) not in gone]
        low, high = constants[len(constants) // 5], constants[-len(constants) // 4]
        between = ConstantTest("x", kind, "between", (low, high))
        assert selected(plan(between, *tests), values) == [
            k for k, value in enumerate(around.tolist()) if low <= value <= high and dtype(value) not in gone
        ]


@pytest.mark.parametrize("kind", [Kind.INTEGER, Kind.FLOAT, Kind.STRING])
def test_sampled_regions_are_those_that_events_are_evaluated_by(kind: Kind) -> None:
    random = np.random.default_rng(3)
    numbers, state = random.integers(0, 500, 1000), random.integers(0, 3, 1000).astype(np.uint8)
    constants = [k * 3 if kind is Kind.INTEGER else k * 1.5 if kind is Kind.FLOAT else f"t{k}" for k in range(200)]
    tests = tuple(ConstantTest("x", kind, "!=", (constant,)) for constant in constants)
    either = ((ConstantTest("x", kind, ">", (constants[50],)),), (ConstantTest("x", kind, "is null"),))
    dictionary = Dictionary.of([f"t{k}".encode() for k in range(500)]) if kind is Kind.STRING else None
    values = numbers.astype({Kind.INTEGER: np.int64, Kind.FLOAT: np.float64, Kind.STRING: np.int32}[kind])
    if kind is Kind.FLOAT:
        values[::7] = np.nan
    events = batch(Column(kind, values, state, dictionary))
    selection = Selection(Catalog.of((plan(*tests), replace(plan(either=either), name="r"))), "s")
    by_regions = evaluate_regions(selection.constructs, selection.regions(events, np.arange(1000)), selection.initial)
    found = selection.select(events)
    assert by_regions.rows.tolist() == found.relevant.tolist()
    assert 0 < len(found.relevant) < 1000


def test_alternatives_of_an_item_are_folded_into_its_bit() -> None:
    either = (
        (ConstantTest("x", Kind.INTEGER, "<", (3,)),),
        (ConstantTest("x", Kind.INTEGER, ">", (5,)), ConstantTest("x", Kind.INTEGER, "<", (8,))),
    )
    assert selected(plan(either=either), Column(Kind.INTEGER, np.arange(10))) == [0, 1, 2, 6, 7]


def test_items_that_are_covered_do_not_count_in_the_choice_of_the_next_construct() -> None:
    """The second attribute drops an item that the first has decided; the third is better for the item that is open."""

    def table(*rows: int) -> np.ndarray:
        return np.array([[row] for row in rows], dtype=np.uint64)

    usages = np.array([[0b011], [0b101], [0b100]], dtype=np.uint64)
    tables = (table(0b111, 0b100), table(0b111, 0b010), table(0b111, 0b011))
    constructs = Constructs(("a", "b", "c"), tables, usages, np.array([0b111], dtype=np.uint64))
    # of ten events: a drops items 0 and 1 of eight, b items 0 and 2 of three, c item 2 of four
    regions = np.array([[1] * 8 + [0] * 2, [0] * 7 + [1] * 3, [1] * 4 + [0] * 6], dtype=np.int32)
    sample = Sample(constructs, regions)
    assert macro_sequence(sample)[0] == 0
    assert [next_construct(sample, (0,)), macro_sequence(sample)[1]] == [2, 2]


def test_change_of_the_dropping_ratio() -> None:
    assert changed(0.5, 0.6) == pytest.approx(0.2)
    assert changed(0.0, 0.0) == 0
    assert changed(0.0, 1e-9) > 1e300


def test_nothing_is_found_without_constructs() -> None:
    nothing = Constructs((), (), np.zeros((0, 1), dtype=np.uint64), np.array([1], dtype=np.uint64))
    sample = Sample(nothing, np.zeros((0, 5), dtype=np.int32))
    assert macro_sequence(sample) == ()
    assert find_arrows(sample, ()) == {}
    assert selected(plan(), Column(Kind.INTEGER, np.arange(3))) == [0, 1, 2]


def test_queries_that_have_items_in_common_share_bits_and_get_their_own_candidates() -> None:
    random = np.random.default_rng(5)
    either = ((ConstantTest("x", Kind.INTEGER, "<", (20,)),), (ConstantTest("x", Kind.INTEGER, ">", (80,)),))
    ranges = [(ConstantTest("x", Kind.INTEGER, "between", (10 * k, 10 * k + 15)),) for k in range(5)]
    plans = []
    for number in range(70):
        items = tuple(
            Item(i, None, (), tests=() if part == 5 else ranges[part], either=either if part == 5 else ())
            for i, part in enumerate(random.choice(6, 3, replace=False).tolist())
        )
        plans.append(Plan(f"q{number}", 1, "", (), 1.0, ("s",), items, (), (), None, (), ()))
    catalog = Catalog.of(tuple(plans))
    selection = Selection(catalog, "s")
    assert len(selection.constructs.items) == 1  # seven conjunctions instead of 210 items in four words
    found = selection.select(batch(Column(Kind.INTEGER, np.arange(100))))
    for query, one in enumerate(catalog.plans):
        rows, items = found.of_query(query)
        expected = {
            value: mask
            for value in range(100)
            if (mask := sum(1 << item.index for item in one.items if candidate({"type": "T", "x": value}, item, ())))
        }
        assert dict(zip(rows.tolist(), items.tolist(), strict=True)) == expected


def test_sampled_regions_know_which_texts_fail_a_like_that_is_no_range() -> None:
    texts = Column(Kind.STRING, np.arange(len(TEXTS), dtype=np.int32), None, Dictionary.of([text.encode() for text in TEXTS]))
    selection = Selection(Catalog.of((plan(ConstantTest("x", Kind.STRING, "like", ("%b",))),)), "s")
    by_regions = evaluate_regions(selection.constructs, selection.regions(batch(texts), np.arange(len(TEXTS))), selection.initial)
    assert by_regions.rows.tolist() == selection.select(batch(texts)).relevant.tolist()
    assert by_regions.rows.tolist() == [k for k, text in enumerate(TEXTS) if text.endswith("b")]


def test_combinations_of_failed_likes_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribute, "MOST_COMBINATIONS", 20)
    one = plan(either=tuple((ConstantTest("x", Kind.STRING, "like", (f"%{letter}%",)),) for letter in "abc"))
    more = [replace(plan(ConstantTest("x", Kind.STRING, "like", (f"%{letter}%",))), name=letter) for letter in "abcdefgh"]
    catalog = Catalog.of((one, *more))
    selection = Selection(catalog, "s")
    (texts,) = [found._texts() for found in selection._attributes if found.attribute == "x"]
    random = np.random.default_rng(7)
    most, begin = 0, len(texts._table)
    for _ in range(40):
        words = ["".join(random.choice(list("abcdefghij"), 5)) for _ in range(15)]
        found = selection.select(
            batch(Column(Kind.STRING, np.arange(15, dtype=np.int32), None, Dictionary.of([w.encode() for w in words])))
        )
        for query, own in enumerate(catalog.plans):
            expected = [k for k, word in enumerate(words) if candidate({"type": "T", "x": word}, own.items[0], ())]
            assert found.of_query(query)[0].tolist() == expected
        most = max(most, len(texts._combinations))
        assert len(texts._table) == begin + len(texts._combinations)
    assert 20 < most <= 20 + 15
