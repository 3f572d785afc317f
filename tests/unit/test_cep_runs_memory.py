"""Memory of the runs and the chains evaluator follows live windows, not the keys ever seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.cep.chains.engine import ChainsEngine
from app.cep.engine import Watermarks
from app.cep.runs.engine import RunsEngine
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts

STREAM = StreamSchema("s", (EventType("A", (Attribute("k", Kind.INTEGER),)), EventType("B", (Attribute("k", Kind.INTEGER),))))
EVENTS, BATCH = 2_000_000, 100_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine_of", "extra"),
    [(RunsEngine, ""), (RunsEngine, "on_timeout: emit\n"), (RunsEngine, "after: skip-past-last-event\n"), (ChainsEngine, "")],
)
def test_a_million_keys_of_which_few_are_alive_stay_within_bounded_memory(engine_of: Any, extra: str) -> None:
    text = f"name: q\nevent: SEQ(A a, B b)\nwhere: '[k]'\nwithin: 2 s\nstrategy: skip-till-next-match\n{extra}"
    plan = compile_texts([("q.yaml", text)], {"s": STREAM}).catalog.plans[0]
    engine = engine_of(plan)
    found = timeouts = 0
    names = Dictionary.of([b"A", b"B"])
    sizes = []
    for start in range(0, EVENTS, BATCH):
        line = np.arange(start, start + BATCH, dtype=np.int64)
        # key n: an A at time 2n, and a B one second later for every fourth key
        types = (line % 2).astype(np.int32)
        keys = np.where(types == 0, line // 2, np.maximum(line // 2 - 500, 0) * np.where(line % 8 == 1, 1, -1))
        columns = {"k": Column(Kind.INTEGER, keys)}
        batch = EventBatch(line, np.zeros(BATCH, np.int64), line, Column(Kind.STRING, types, None, names), columns)
        matches, tally = engine.feed(batch, np.where(types == 0, 1, 2).astype(np.uint64), Watermarks(start + BATCH))
        found, timeouts = found + len(matches), timeouts + tally.timeouts
        sizes.append(sum(array.nbytes for array in (engine.store if engine_of is ChainsEngine else engine._store).memory()))
    assert found == pytest.approx(EVENTS / 8, rel=0.01)
    assert timeouts == (pytest.approx(EVENTS * 3 / 8, rel=0.02) if "timeout" in extra else 0)
    assert max(sizes[5:]) <= 1.5 * max(sizes[:5]), "a window of 2,000 events, whatever has gone by"
    assert max(sizes) < 60e6


def test_events_that_begin_and_lengthen_nothing_leave_no_row() -> None:
    """Where no partial match begins no table but that of rows fills up."""
    stream = StreamSchema("s", tuple(EventType(name, (Attribute("k", Kind.INTEGER),)) for name in "ABC"))
    text = "name: q\nevent: SEQ(A a, B b, C c)\nwhere: '[k]'\nwithin: 1 s\nevaluator: runs\n"
    engine, stored, names = RunsEngine(compile_texts([("q.yaml", text)], {"s": stream}).catalog.plans[0]), [], Dictionary.of([b"B"])
    for start in range(0, 400_000, 20_000):
        line = np.arange(start, start + 20_000, dtype=np.int64)
        types, none = Column(Kind.STRING, np.zeros(len(line), np.int32), None, names), np.zeros(len(line), np.int64)
        batch = EventBatch(line, none, line, types, {"k": Column(Kind.INTEGER, line)})
        _, tally = engine.feed(batch, np.full(len(line), 2, np.uint64), Watermarks(int(line[-1])))
        stored.append(tally.stored)
    assert max(stored) < 100_000, "of 400,000 events"
