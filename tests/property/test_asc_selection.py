"""Selection against the naive one: random queries, random events with null, absent and NaN, any number of items."""

from __future__ import annotations

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from app.asc.layout import ItemLayout
from app.asc.selected import Bitmaps, Dispatch, SelectedEvents
from app.asc.selection import Selection
from app.asc.sequence import Sequence
from app.events.batch import ABSENT as ABSENT_STATE
from app.events.batch import NULL, Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.plan import Catalog, ConstantTest, Item, Plan
from tests.naive.selection import ABSENT, candidate

TYPES = ["A", "B", "C", "D"]
KINDS = {"n": Kind.INTEGER, "x": Kind.FLOAT, "s": Kind.STRING, "key": Kind.INTEGER}
BIG = [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
integers = st.integers(-4, 4) | st.sampled_from(BIG)
floats = st.sampled_from([-1.5, 0.0, 0.5, 1.0, 2.0, 2.0**53, 2.0**63, -(2.0**63), 1e300, float("inf")])
numbers = integers | floats
texts = st.text("ab%_é", max_size=3)
CONSTANTS = {"n": numbers, "x": numbers, "s": texts, "key": integers}
VALUES = {"n": integers, "x": floats | st.just(float("nan")), "s": texts, "key": integers}


@st.composite
def constant_tests(draw) -> ConstantTest:
    attribute = draw(st.sampled_from(["n", "x", "s"]))
    operators = ["=", "!=", "<", "<=", ">", ">=", "in", "not in", "between", "not between", "is null", "is not null"]
    operator = draw(st.sampled_from(operators + (["like", "not like"] * 2 if attribute == "s" else [])))
    size = {"in": 3, "not in": 3, "between": 2, "not between": 2, "is null": 0, "is not null": 0}.get(operator, 1)
    constants = st.sampled_from(["a%", "ab%", "é%", "ab", "%"]) | texts if "like" in operator else CONSTANTS[attribute]
    values = tuple(draw(st.lists(constants, min_size=size, max_size=size)))
    return ConstantTest(attribute, KINDS[attribute], operator, values)


parts = st.tuples(
    st.lists(st.sampled_from(TYPES), max_size=2, unique=True).map(tuple),
    st.lists(constant_tests(), max_size=2).map(tuple),
    st.lists(st.lists(constant_tests(), min_size=1, max_size=2).map(tuple), max_size=3).map(tuple),
)
"""Of an item: types, tests, alternatives."""


@st.composite
def catalogs(draw) -> Catalog:
    """Queries whose items are all different, or often the same."""
    plans = []
    few = st.sampled_from(draw(st.lists(parts, min_size=1, max_size=4)))
    part = few if draw(st.booleans()) else parts
    for number in range(draw(st.sampled_from([1, 2, 5, 40]))):
        found = draw(st.lists(part, min_size=1, max_size=4))
        items = tuple(Item(i, None, types, tests=tests, either=either) for i, (types, tests, either) in enumerate(found))
        equivalence = draw(st.sampled_from([(), ("key",), ("n",)]))
        plans.append(Plan(f"q{number}", 1, "", (), 1.0, ("s",), items, equivalence, (), None, (), ()))
    return Catalog.of(tuple(plans))


def to_batch(events: list[dict]) -> EventBatch:
    columns = {}
    for name, kind in KINDS.items():
        cells = [event[name] for event in events]
        if events and all(cell is ABSENT for cell in cells):
            continue
        state = np.array([ABSENT_STATE if cell is ABSENT else NULL if cell is None else 0 for cell in cells], dtype=np.uint8)
        plain = [cell if cell is not ABSENT and cell is not None else 0 for cell in cells]
        if kind is Kind.STRING:
            entries = [str(cell).encode() for cell in plain]
            columns[name] = Column(kind, np.arange(len(cells), dtype=np.int32), state, Dictionary.of(entries))
        else:
            dtype = np.float64 if kind is Kind.FLOAT else np.int64
            columns[name] = Column(kind, np.array(plain, dtype=dtype), state if state.any() else None)
    numbers = np.arange(len(events), dtype=np.int64)
    types = Column(Kind.STRING, np.arange(len(events), dtype=np.int32), None, Dictionary.of([e["type"].encode() for e in events]))
    return EventBatch(numbers, numbers * 0, numbers, types, columns)


events_of = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from([*TYPES, "other"])} | {name: VALUES[name] | st.none() | st.just(ABSENT) for name in KINDS}
    ),
    max_size=12,
)


def any_sequence(data: st.DataObject, selection: Selection) -> Sequence:
    """Any order; any arrows from any regions, also to where they make no sense."""
    constructs = selection.constructs
    order = data.draw(st.permutations(range(len(constructs))))
    arrows = {}
    for number in data.draw(st.lists(st.sampled_from(order), unique=True)) if order else []:
        size = data.draw(st.integers(1, len(constructs.tables[number]) + 2))
        targets = data.draw(st.lists(st.integers(-1, len(constructs) - 1), min_size=1, max_size=4))
        arrows[number] = np.resize(np.array(targets, dtype=np.int32), size)
    return Sequence(tuple(order), arrows)


@settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(catalogs(), events_of, st.data())
def test_selection_finds_the_candidates_of_every_query_that_the_definition_finds(
    catalog: Catalog, events: list[dict], data: st.DataObject
) -> None:
    selection = Selection(catalog, "s")
    sequence = any_sequence(data, selection) if data.draw(st.booleans()) else None
    selected = selection.select(to_batch(events), sequence)
    for query, plan in enumerate(catalog.plans):
        expected = {
            row: mask
            for row, event in enumerate(events)
            if (mask := sum(1 << item.index for item in plan.items if candidate(event, item, plan.equivalence)))
        }
        rows, items = selected.of_query(query)
        assert dict(zip(rows.tolist(), items.tolist(), strict=True)) == expected
        for row in range(len(events)):
            bits = sum(
                1 << item.index
                for item in plan.items
                if int(selected.bitmap[row, selection.bit(query, item.index) // 64]) >> selection.bit(query, item.index) % 64 & 1
            )
            assert bits == expected.get(row, 0)
    assert selected.relevant.tolist() == sorted({int(row) for query in range(len(catalog.plans)) for row in selected.of_query(query)[0]})


@settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(catalogs(), events_of)
def test_the_candidates_of_a_group_are_those_of_its_queries(catalog: Catalog, events: list[dict]) -> None:
    selected = Selection(catalog, "s").select(to_batch(events))
    for group in catalog.groups:
        rows, bitmaps = selected.of_group(group.number)
        assert rows.tolist() == sorted({int(row) for query in group.queries for row in selected.of_query(query)[0]})
        members = sum(int(items).bit_count() for query in group.queries for items in selected.of_query(query)[1])
        assert members == sum(int(word).bit_count() for word in bitmaps.reshape(-1))


@settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(catalogs(), events_of)
def test_bitmaps_of_a_group_read_with_its_own_layout_are_those_of_the_stream(catalog: Catalog, events: list[dict]) -> None:
    selected = Selection(catalog, "s").select(to_batch(events))
    for group in catalog.groups:
        rows, bitmaps = selected.of_group(group.number)
        alone = SelectedEvents(Dispatch(ItemLayout.of_group(catalog, group)), Bitmaps(rows, bitmaps), len(events))
        for query in group.queries:
            for one, other in zip(alone.of_query(query), selected.of_query(query), strict=True):
                assert one.tolist() == other.tolist()
