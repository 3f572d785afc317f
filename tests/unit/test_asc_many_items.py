"""Where items fill many words and nearly every event reaches the last construct, the rows of all regions are ANDed at once, sixteen words, eight, and one by one: to the same results."""

from __future__ import annotations

import numpy as np
import pytest

from app.asc.selection import Selection
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.plan import Catalog, ConstantTest, Item, Plan

EVENTS = 6_000


def plan(name: str, tests: tuple[ConstantTest, ...]) -> Plan:
    return Plan(name, 1, "", (), 1.0, ("s",), (Item(0, "a", (), tests=tests),), (), (), None, (), ())


def values_of(kind: Kind, random: np.random.Generator) -> tuple[np.ndarray, Column]:
    """Numbers, and the column that holds them: some floats are no number, some integers of the last third are null (-1 fits no range)."""
    drawn = random.integers(0, 40, EVENTS)
    # whole blocks of events that no item wants, and others that all of them may
    drawn[1_000:1_400] = 99
    if kind is Kind.FLOAT:
        floats = np.where(random.random(EVENTS) < 0.01, np.nan, drawn + random.choice([0.0, 0.5], EVENTS))
        return floats, Column(kind, floats)
    null = (np.arange(EVENTS) > 4_000) & (random.random(EVENTS) < 0.1)
    return np.where(null, -1, drawn), Column(kind, drawn, null.astype(np.uint8))


# in words: a half and single ones; the half only; three wide and one more; a wide, a half and single ones
@pytest.mark.slow
@pytest.mark.parametrize("queries", [700, 512, 3_080, 1_700])
@pytest.mark.parametrize(("kind", "attributes"), [(Kind.INTEGER, 3), (Kind.FLOAT, 5), (Kind.INTEGER, 7), (Kind.FLOAT, 11)])
def test_many_different_items_pass_what_their_ranges_say(kind: Kind, attributes: int, queries: int) -> None:
    random = np.random.default_rng(attributes)
    names = [f"a{k}" for k in range(attributes)]
    drawn = {name: values_of(kind, random) for name in names}
    values, columns = ({name: both[k] for name, both in drawn.items()} for k in (0, 1))
    asked = [random.choice(attributes, 2, replace=False) for _ in range(queries)]
    lows = random.integers(0, 30, (queries, attributes))
    number = float if kind is Kind.FLOAT else int
    plans = tuple(
        plan(f"q{q:04d}", tuple(ConstantTest(names[k], kind, "between", (number(lows[q, k]), number(lows[q, k] + 12))) for k in own))
        for q, own in enumerate(asked)
    )
    lines = np.arange(EVENTS, dtype=np.int64)
    types = Column(Kind.STRING, np.zeros(EVENTS, np.int32), None, Dictionary.of([b"E"]))
    batch = EventBatch(lines, np.zeros(EVENTS, np.int64), lines, types, columns)
    selected = Selection(Catalog.of(plans), "s").select(batch)
    found = 0
    for query, own in enumerate(asked):
        rows, masks = selected.of_query(query)
        fits = np.ones(EVENTS, np.bool_)
        for k in own:
            fits &= (values[names[k]] >= lows[query, k]) & (values[names[k]] <= lows[query, k] + 12)
        assert np.array_equal(rows, np.flatnonzero(fits))
        assert (masks == 1).all()
        found += len(rows)
    assert found > 0
