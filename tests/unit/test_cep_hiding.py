"""Events that are hidden from single partial matches, against every pair written down by the definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from app.bucket.recording import rows_between
from app.cep.cells.arrays import FOREVER
from app.cep.door import RunsEngine, hide, pairs_by, pairs_met
from app.cep.engine import Watermarks
from app.evaluation.operator import Places
from app.evaluation.pairs import PairOperator
from app.events.batch import Column, EventBatch, events_of_types
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.features.events import candidate_items
from app.features.partial_matches import BINS
from app.query.compile import compile_texts
from app.query.plan import Plan
from shedding.interface import Training
from shedding.registry import method

STREAM = StreamSchema("s", tuple(EventType(name, (Attribute("v", Kind.INTEGER),)) for name in "ABC"))
SEQUENCE = "SEQ(A a, B b, C c)"
IN_TIME, IN_EVENTS = "within: 8 s", "within: 15 events"
TOLD = dict[tuple[int, int, int], int]


def a_plan(more: str = "", event: str = SEQUENCE, within: str = IN_TIME) -> Plan:
    text = f'name: q\nfrom: s\nevent: {event}\nwhere: "a.v <= 6 AND c.v >= b.v"\n{within}\nevaluator: runs\n{more}'
    compiled = compile_texts([("q.yaml", text)], {"s": STREAM})
    assert not compiled.errors, compiled.errors
    return compiled.catalog.plans[0]


def a_stream(seed: int, events: int = 300) -> EventBatch:
    chance = np.random.default_rng(seed)
    types = ["ABC"[k] for k in chance.choice(3, events, p=[0.4, 0.4, 0.2])]
    return events_of_types(
        types, np.cumsum(chance.integers(100, 900, events)).tolist(), {"v": Column(Kind.INTEGER, chance.integers(1, 11, events))}
    )


def places_in(plan: Plan, batch: EventBatch) -> tuple[list[int], int]:
    """Where events are in windows, and how long these are."""
    assert plan.within is not None
    return batch.time.tolist() if plan.within.unit == "ms" else list(range(len(batch))), plan.within.size


def by_definition(
    plan: Plan, batch: EventBatch, hidden: np.ndarray, *, branching: bool
) -> tuple[set[tuple[int, ...]], TOLD, TOLD, list[tuple[int, ...]]]:
    """Matches as rows, pairs that met and that were hidden by (kind, state, part of the window), and the pairs that took: beginnings that grew."""
    masks, values = candidate_items(plan, batch).tolist(), batch.columns["v"].values.tolist()
    place, within = places_in(plan, batch)
    live: list[tuple[int, ...]] = []
    matches: set[tuple[int, ...]] = set()
    met: TOLD = {}
    gone: TOLD = {}
    for row, (mask, now) in enumerate(zip(masks, place, strict=True)):
        if not mask:
            continue
        live = [one for one in live if now - place[one[0]] < within]
        new, old = [], []
        for one in live:
            state = len(one) - 1
            cell = (mask, state, min((now - place[one[0]]) * hidden.shape[2] // within, hidden.shape[2] - 1))
            met[cell] = met.get(cell, 0) + 1
            if hidden[cell]:
                gone[cell] = gone.get(cell, 0) + 1
                old.append(one)
                continue
            takes = bool(mask >> (state + 1) & 1) and (state == 0 or values[row] >= values[one[1]])
            if takes and state == 1:
                matches.add((*one, row))
            elif takes:
                new.append((*one, row))
            if not takes or branching:
                old.append(one)
        live = old + new + ([(row,)] if mask & 1 else [])
    return matches, met, gone, [beginning for one in matches for beginning in (one[:2], one)]


def by_engine(
    plan: Plan, batch: EventBatch, shares: np.ndarray, parts: int = 1, seed: int = 0
) -> tuple[set[tuple[int, ...]], np.ndarray, np.ndarray]:
    """The same from the kernels, in some batches."""
    engine, items, places = RunsEngine(plan), candidate_items(plan, batch), Places(batch)
    hide(engine, shares, seed)
    found: set[tuple[int, ...]] = set()
    cuts = np.linspace(0, len(batch), parts + 1).astype(int).tolist()
    for start, stop in pairwise(cuts):
        last = int(batch.time[stop - 1])
        matches, _ = engine.feed(
            rows_between(batch, start, stop),
            items[start:stop],
            Watermarks(FOREVER, end_ms=last) if stop == len(batch) else Watermarks(last),
        )
        bound = matches.constituents([item.index for item in plan.positive])
        rows = places.rows(matches.events.source[bound.rows], matches.events.offset[bound.rows])
        found |= {tuple(rows[a:b].tolist()) for a, b in pairwise(bound.starts.tolist())}
    return found, *pairs_met(engine)


def as_table(told: TOLD, shape: tuple[int, int, int]) -> np.ndarray:
    table = np.zeros(shape, np.int64)
    for cell, count in told.items():
        table[cell] = count
    return table


@pytest.mark.parametrize("strategy", ["skip-till-any-match", "skip-till-next-match"])
@pytest.mark.parametrize("within", [IN_TIME, IN_EVENTS])
@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_counted_and_hidden_as_defined(strategy: str, within: str, seed: int) -> None:
    plan, batch = a_plan(f"strategy: {strategy}\n", within=within), a_stream(seed)
    shape = pairs_by(plan, 5)
    chance = np.random.default_rng(seed)
    for share in (0.0, 0.3, 1.0):
        hidden = (chance.random(shape) < share).astype(np.float64)
        found, met, gone = by_engine(plan, batch, hidden, parts=1 + seed)
        matches, all_met, all_gone, _ = by_definition(plan, batch, hidden, branching="any" in strategy)
        assert found == matches
        np.testing.assert_array_equal(met, as_table(all_met, shape))
        np.testing.assert_array_equal(gone, as_table(all_gone, shape))
        assert (len(matches) > 20) == (share < 1)


def test_of_some_pairs_just_a_share_is_hidden_whatever_the_batches() -> None:
    plan, batch = a_plan("strategy: skip-till-any-match\n"), a_stream(1, 3_000)
    shares = np.full(pairs_by(plan, 5), 0.25)
    whole = by_engine(plan, batch, shares)
    assert whole[2].sum() / whole[1].sum() == pytest.approx(0.25, abs=0.01)
    for parts in (3, 40):
        again = by_engine(plan, batch, shares, parts)
        assert again[0] == whole[0]
        np.testing.assert_array_equal(again[2], whole[2])
    assert by_engine(plan, batch, shares, seed=1)[0] != whole[0]
    assert whole[0] < by_engine(plan, batch, np.zeros_like(shares))[0]


@pytest.mark.parametrize("within", [IN_TIME, IN_EVENTS])
@pytest.mark.parametrize("strategy", ["skip-till-any-match", "skip-till-next-match"])
def test_what_is_learned_is_use_per_encounter(strategy: str, within: str) -> None:
    plan, batch = a_plan(f"strategy: {strategy}\n", within=within), a_stream(2)
    shape = pairs_by(plan, BINS)
    _, met, _, took = by_definition(plan, batch, np.zeros(shape), branching="any" in strategy)
    seen = PairOperator(plan, batch).observations()
    cells = list(zip(seen.pairs.type.tolist(), seen.pairs.state.tolist(), (seen.pairs.position * BINS).astype(int).tolist(), strict=True))
    assert dict(zip(cells, seen.times.astype(int).tolist(), strict=True)) == met
    masks, used = candidate_items(plan, batch).tolist(), {}
    place, size = places_in(plan, batch)
    for one in set(took):
        cell = (masks[one[-1]], len(one) - 2, min((place[one[-1]] - place[one[0]]) * BINS // size, BINS - 1))
        used[cell] = used.get(cell, 0) + 1
    assert {cell: int(use) for cell, use in zip(cells, seen.use.tolist(), strict=True) if use} == used


def test_what_is_useless_goes_first_and_loses_nothing() -> None:
    plan, learning, judging = a_plan("strategy: skip-till-any-match\n"), a_stream(3, 4_000), a_stream(4, 4_000)
    model = method("hspice").train(PairOperator(plan, learning).observations(), Training())
    shape = pairs_by(plan, BINS)
    whole, there, _ = by_engine(plan, judging, np.zeros(shape))
    lost = []
    for ratio in (0.3, 0.6, 0.9):
        found, met, gone = by_engine(plan, judging, model.gate(ratio).hidden(0, shape))
        left = (met - gone).sum() / there.sum()
        assert 0 < left < 1 - ratio + 0.05, "what is hidden makes no longer partial matches, so fewer pairs come than are hidden"
        lost.append(1 - len(found) / len(whole))
        assert found <= whole
    assert lost[0] < 0.01, "events that can be no next item of the partial match"
    assert lost[2] > lost[0]


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (a_plan(within="window: {size: 8 s, slide: 4 s}"), "with `within`"),
        (a_plan("strategy: partition-contiguity\n"), "which event comes next"),
        (a_plan("strategy: strict-contiguity\n"), "which event comes next"),
    ],
)
def test_where_nothing_can_be_hidden_it_says_why(plan: Plan, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        pairs_by(plan, 5)
