"""Selection by lists: it finds what selection by bitmaps finds, whichever attribute leads and whatever is asked of the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from app.asc import selection as selecting
from app.asc.arrays import ROOM
from app.asc.evaluate import longest_lists
from app.asc.ranges import ranges_of
from app.asc.regions import BitTest, Form, regions_of
from app.asc.selected import Bitmaps, Entries, SelectedEvents, joined
from app.asc.selection import Selection
from app.asc.sequence import Sequence
from app.events.batch import EventBatch
from app.events.types import Kind
from app.query.plan import Catalog, ConstantTest, Item, Plan
from tests.naive.selection import ABSENT
from tests.property.test_asc_selection import any_sequence, catalogs, events_of, to_batch

FEW = settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))


@contextmanager
def lists_of(length: int) -> Iterator[None]:
    """Lists are taken where they are not longer, however few words bitmaps would have; 0: never."""
    with patch.object(selecting, "longest_lists", lambda _: length):
        yield


def selected(selection: Selection, batch: EventBatch, sequence: Sequence | None, length: int) -> SelectedEvents:
    with lists_of(length):
        return selection.select(batch, sequence)


@FEW
@given(catalogs(), st.lists(events_of, min_size=1, max_size=3), st.data())
def test_lists_find_what_bitmaps_find(catalog: Catalog, batches: list, data: st.DataObject) -> None:
    selection, alone = Selection(catalog, "s"), Selection(catalog, "s")
    sequence = any_sequence(data, selection) if data.draw(st.booleans()) else None
    found = []
    for events in batches:
        batch = to_batch(events)
        listed, bitmaps = selected(selection, batch, sequence, 1 << 12), selected(alone, batch, sequence, 0)
        assert isinstance(bitmaps.answer, Bitmaps)
        assert listed.relevant.tolist() == bitmaps.relevant.tolist()
        assert listed.bitmap.tolist() == bitmaps.bitmap.tolist()
        kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch))), dtype=np.bool_)
        assert listed.only(kept).bitmap.tolist() == bitmaps.only(kept).bitmap.tolist()
        found.append(listed)
    together = joined(found)
    assert together.bitmap.tolist() == [row for one in found for row in one.bitmap.tolist()]


KIND = {"integers": Kind.INTEGER, "floats": Kind.FLOAT}
SMALL = st.integers(-3, 3) | st.sampled_from([-1.5, 0.5, 2.0])


@FEW
@given(st.sampled_from(["integers", "floats"]), st.data())
def test_a_range_holds_the_numbers_that_the_regions_let_through(form: Form, data: st.DataObject) -> None:
    tests = []
    for _ in range(data.draw(st.integers(1, 5))):
        operator = data.draw(st.sampled_from(["=", "<", "<=", ">", ">=", "between", "in", "!=", "not between"]))
        size = {"between": 2, "not between": 2}.get(operator, 1)
        values = tuple(data.draw(st.lists(SMALL, min_size=size, max_size=size)))
        tests.append(BitTest(data.draw(st.sampled_from([0, 1, 2, 70])), ConstantTest("x", KIND[form], operator, values)))
    regions = regions_of(form, tests, 2)
    points = np.asarray(regions.points)
    values = np.array([-9, -4, -3, -2, -1, 0, 1, 2, 3, 4, 9] if form == "integers" else np.arange(-40, 41) / 8, points.dtype)
    below = np.searchsorted(points, values)
    rows = 2 * below + (np.append(points, 0)[below] == values) * (below < len(points))
    bits = np.arange(128)
    passes = (regions.table[rows][:, bits // 64] >> (bits % 64).astype(np.uint64) & np.uint64(1)).astype(bool)
    ranges = ranges_of(regions)
    if ranges is None:
        assert {test.test.operator for test in tests} & {"!=", "not between"}
        return
    least, greatest = ranges
    assert ((values[:, None] >= least) & (values[:, None] <= greatest)).tolist() == passes.tolist()


def test_there_is_no_range_at_the_ends_of_all_numbers() -> None:
    for form, end in (("floats", float("inf")), ("floats", float("-inf")), ("integers", 2**63 - 1), ("integers", -(2**63))):
        assert ranges_of(regions_of(form, [BitTest(0, ConstantTest("x", KIND[form], ">=", (end,)))], 1)) is None


def symbols(count: int) -> tuple[Catalog, list[dict]]:
    """Queries of two symbols and a price, and events with all symbols in turn."""
    plans = []
    for number in range(count):
        tests = [(ConstantTest("s", Kind.STRING, "=", (f"s{(number + k) % count}",)),) for k in range(2)]
        tests[1] += (ConstantTest("x", Kind.FLOAT, ">", (float(number),)),)
        items = tuple(Item(k, None, ("A",), tests=own) for k, own in enumerate(tests))
        plans.append(Plan(f"q{number}", 1, "", (), 1.0, ("s",), items, (), (), None, (), ()))
    row = {"type": "A", "n": None, "key": 1}
    return Catalog.of(tuple(plans)), [row | {"s": f"s{k % count}", "x": float(k % 50)} for k in range(4 * count)]


@pytest.mark.parametrize(("attribute", "kind"), [("x", Kind.FLOAT), ("n", Kind.INTEGER)])
def test_bounds_nan_null_and_absent_count_on_the_way_along_the_lists(attribute: str, kind: Kind) -> None:
    count = 150
    asked = [("=", (3,)), ("<", (3,)), ("<=", (3,)), (">", (3,)), (">=", (3,)), ("between", (2, 4)), ("is null", ()), ("is not null", ())]
    plans = []
    for number in range(count):
        operator, values = asked[number % 6] if kind is Kind.INTEGER else asked[number % len(asked)]
        symbol = ConstantTest("s", Kind.STRING, "=", (f"s{number // 10}",))
        items = (
            Item(0, None, ("A",), tests=(symbol, ConstantTest(attribute, kind, operator, values))),
            Item(1, None, ("A",), tests=(symbol,)),
        )
        plans.append(Plan(f"q{number}", 1, "", (), 1.0, ("s",), items, (), (), None, (), ()))
    row = {"type": "A", "n": 3, "x": 3.0, "key": 1}
    cells = [1, 2, 3, 4, 5, None, ABSENT, *([float("nan"), 2.5] if kind is Kind.FLOAT else [])]
    batch = to_batch([row | {"s": f"s{k}", attribute: cell} for k in range(16) for cell in cells])
    selection = Selection(Catalog.of(tuple(plans)), "s")
    listed = selected(selection, batch, None, 50)
    assert isinstance(listed.answer, Entries)
    assert selection._gathered is not None, "the attribute is asked by ranges"
    assert listed.bitmap.tolist() == selected(Selection(Catalog.of(tuple(plans)), "s"), batch, None, 0).bitmap.tolist()


def test_lists_are_taken_where_events_are_candidates_of_few() -> None:
    catalog, events = symbols(200)
    found = Selection(catalog, "s").select(to_batch(events))
    assert isinstance(found.answer, Entries)
    assert found.bitmap.tolist() == selected(Selection(catalog, "s"), to_batch(events), None, 0).bitmap.tolist()
    few, events = symbols(5)
    assert isinstance(Selection(few, "s").select(to_batch(events)).answer, Bitmaps)


def test_lists_are_given_up_where_the_events_have_the_long_ones() -> None:
    catalog, events = symbols(200)
    crowd = [replaced(plan) for plan in catalog.plans]
    selection = Selection(Catalog.of((*catalog.plans, *crowd)), "s")
    words = selection.layout.words
    many = [event | {"s": "everybody"} for event in events] * (ROOM // (200 - longest_lists(words)) // len(events) + 2)
    assert isinstance(selection.select(to_batch(events)).answer, Entries)
    found = selection.select(to_batch(many))
    assert isinstance(found.answer, Bitmaps)
    assert found.bitmap.tolist() == selected(selection, to_batch(many), None, 0).bitmap.tolist()


def replaced(plan: Plan) -> Plan:
    """A query of one item that the events of everybody can be."""
    bound = ConstantTest("x", Kind.FLOAT, "<", (float(plan.name[1:]),))
    items = (Item(0, None, ("A",), tests=(ConstantTest("s", Kind.STRING, "=", ("everybody",)), bound)),)
    return Plan(f"crowd-{plan.name}", 1, "", (), 1.0, ("s",), items, (), (), None, (), ())
