"""Where items fill many words and nearly every event reaches the last construct, rows of bitmaps are ANDed five at a time: to the same results."""

from __future__ import annotations

import numpy as np
import pytest

from app.asc.selection import Selection
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.plan import Catalog, ConstantTest, Item, Plan

QUERIES, EVENTS = 700, 6_000


def plan(name: str, tests: tuple[ConstantTest, ...]) -> Plan:
    return Plan(name, 1, "", (), 1.0, ("s",), (Item(0, "a", (), tests=tests),), (), (), None, (), ())


@pytest.mark.parametrize("attributes", [3, 5, 7, 11])
def test_many_different_items_pass_what_their_ranges_say(attributes: int) -> None:
    random = np.random.default_rng(attributes)
    names = [f"a{k}" for k in range(attributes)]
    values = {name: random.integers(0, 40, EVENTS) for name in names}
    # whole blocks of events that no item wants, and others that all of them may
    for name in names:
        values[name][1_000:1_400] = 99
    asked = [random.choice(attributes, 2, replace=False) for _ in range(QUERIES)]
    lows = random.integers(0, 30, (QUERIES, attributes))
    plans = tuple(
        plan(f"q{q:04d}", tuple(ConstantTest(names[k], Kind.INTEGER, "between", (int(lows[q, k]), int(lows[q, k]) + 12)) for k in own))
        for q, own in enumerate(asked)
    )
    lines = np.arange(EVENTS, dtype=np.int64)
    types = Column(Kind.STRING, np.zeros(EVENTS, np.int32), None, Dictionary.of([b"E"]))
    batch = EventBatch(lines, np.zeros(EVENTS, np.int64), lines, types, {name: Column(Kind.INTEGER, own) for name, own in values.items()})
    selected = Selection(Catalog.of(plans), "s").select(batch)
    found = 0
    for number, own in enumerate(asked):
        rows, masks = selected.of_query(number)
        fits = np.ones(EVENTS, np.bool_)
        for k in own:
            fits &= (values[names[k]] >= lows[number, k]) & (values[names[k]] <= lows[number, k] + 12)
        assert rows.tolist() == np.flatnonzero(fits).tolist()
        assert (masks == 1).all()
        found += len(rows)
    assert found > 0
