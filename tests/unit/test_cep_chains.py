"""Long streams: the engine of chains finds what the runs evaluator finds while partial matches live across feeds, tables move and texts go."""

from __future__ import annotations

import numpy as np
import pytest

from app.asc.selection import Selection
from app.bucket.recording import rows_between
from app.cep.cells.arrays import FOREVER
from app.cep.chains.engine import ChainsEngine
from app.cep.engine import Watermarks
from app.cep.runs.engine import RunsEngine
from app.events.batch import Column, Dictionary, EventBatch, events_of_types
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Catalog, Plan
from app.query.planning.chains import chain_of

OWN = (Attribute("k", Kind.STRING), Attribute("v", Kind.INTEGER), Attribute("s", Kind.STRING))
STREAM = StreamSchema("s", (EventType("A", OWN), EventType("B", OWN)))
EVENTS, KEYS, FEED = 6_000, 12, 250
RISING = "name: q\nfrom: s\nevent: SEQ(ANY(A, B) a, ANY(A, B) b+)\nwhere: '[k] AND b[i].v > b[i-1].v AND b[first].v > a.v'\nwithin: 60 ms\n"
PAIR = "name: q\nfrom: s\nevent: SEQ(A a, B b)\nwhere: '[k] AND b.v > a.v'\nwithin: 200 ms\n"
TEXTS = "name: q\nfrom: s\nevent: SEQ(A a, B b+)\nwhere: 'b[i].s = a.s AND b[i].k = b[i-1].k'\nwithin: 400 ms\n"
NEXT = "strategy: skip-till-next-match\n"


def stream(seed: int) -> EventBatch:
    """Random walks per key; texts that are soon forgotten for ever."""
    random = np.random.default_rng(seed)
    line = np.arange(EVENTS, dtype=np.int64)
    texts = Dictionary.of([f"text {n}".encode() for n in range(EVENTS)])
    columns = {
        "k": Column(Kind.STRING, random.integers(0, KEYS, EVENTS).astype(np.int32), None, Dictionary.of([f"k{n}".encode() for n in range(KEYS)])),
        "v": Column(Kind.INTEGER, random.integers(0, 12, EVENTS)),
        "s": Column(Kind.STRING, np.maximum(line - random.integers(0, 40, EVENTS), 0).astype(np.int32), None, texts),
    }  # fmt: skip
    types = Column(Kind.STRING, random.integers(0, 2, EVENTS).astype(np.int32), None, Dictionary.of([b"A", b"B"]))
    return EventBatch(line, np.zeros(EVENTS, np.int64), line, types, columns)


def found_by(engine: ChainsEngine | RunsEngine, plan: Plan, batch: EventBatch) -> list[list[int]]:
    selection, found = Selection(Catalog.of((plan,)), None), []
    for start in range(0, EVENTS, FEED):
        part = rows_between(batch, start, start + FEED)
        items = np.zeros(FEED, np.uint64)
        rows, masks = selection.select(part).of_query(0)
        items[rows] = masks
        matches, _ = engine.feed(part, items, Watermarks(FOREVER if start + FEED == EVENTS else start + FEED))
        engine.validate()
        bound = matches.constituents([])
        offsets = matches.events.offset[bound.rows].tolist()
        found += [offsets[begin:end] for begin, end in zip(bound.starts[:-1].tolist(), bound.starts[1:].tolist(), strict=True)]
        if start == EVENTS // 2:
            engine = type(engine).restore(plan, engine.snapshot())
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "text",
    [
        RISING + NEXT,
        RISING + "strategy: partition-contiguity\n",
        RISING + NEXT + "emit: longest\n",
        RISING + NEXT + "after: skip-past-last-event\nemit: longest\n",
        PAIR + NEXT + "after: skip-past-last-event\n",
        PAIR + NEXT + "after: skip-to-last b\n",
        TEXTS + NEXT,
    ],
)
def test_chains_and_runs_find_the_same_in_long_streams(text: str, seed: int) -> None:
    plan = compile_texts([("q.yaml", text)], {"s": STREAM}).catalog.plans[0]
    assert chain_of(plan) is not None
    batch = stream(seed)
    chains = found_by(ChainsEngine(plan), plan, batch)
    assert len(chains) > 50
    assert chains == found_by(RunsEngine(plan), plan, batch)


@pytest.mark.parametrize(
    ("text", "values", "pending", "found"),
    [
        (PAIR, [9, 2, 3], [0, 0, 0, 0], [0, 0, 1, 0]),
        (PAIR + "after: skip-to-next\n", [9, 2, 3], [0, 0, 0, 0], [0, 0, 1, 0]),
        (PAIR + "after: skip-past-last-event\n", [9, 2, 3], [0, 0, 1, 0], [0, 0, 0, 1]),
        (PAIR + "emit: longest\n", [9, 2, 3], [0, 0, 0, 0], [0, 0, 1, 0]),
        (PAIR.replace("B b", "B b+").replace("b.v", "b[i].v") + "emit: longest\n", [9, 2, 3], [0, 0, 1, 0], [0, 0, 0, 1]),
    ],
)
def test_a_match_that_only_time_releases_is_told_of(text: str, values: list[int], pending: list[int], found: list[int]) -> None:
    plan = compile_texts([("q.yaml", text.replace("[k] AND ", "") + NEXT)], {"s": STREAM}).catalog.plans[0]
    engine, seen = ChainsEngine(plan), []
    for k, value in enumerate(values):
        name = "A" if k < 2 else "B"
        batch = events_of_types([name], [k], {"v": Column(Kind.INTEGER, np.array([value]))})
        seen.append(engine.feed(batch, np.array([1 if name == "A" else 2], np.uint64), Watermarks(k)))
    seen.append(engine.feed(events_of_types([], []), np.zeros(0, np.uint64), Watermarks(1_000)))
    assert [tally.pending for _, tally in seen] == pending
    assert [len(matches) for matches, _ in seen] == found


@pytest.mark.parametrize(("way", "strategy"), [(ChainsEngine, NEXT), (RunsEngine, NEXT), (RunsEngine, "")])
def test_under_skip_to_next_every_first_event_has_its_match_at_once(way: type[ChainsEngine | RunsEngine], strategy: str) -> None:
    """Also one that begins before a match that was told is told later."""
    text = PAIR.replace("[k] AND ", "") + "after: skip-to-next\n" + strategy
    plan = compile_texts([("q.yaml", text)], {"s": STREAM}).catalog.plans[0]
    engine, seen = way(plan), []
    for k, value in enumerate([9, 2, 3, 10, 11]):
        name = "A" if k < 2 else "B"
        batch = events_of_types([name], [k], {"v": Column(Kind.INTEGER, np.array([value]))})
        matches, tally = engine.feed(batch, np.array([1 if name == "A" else 2], np.uint64), Watermarks(k))
        bound = matches.constituents([])
        seen.append((tally.pending, matches.events.time[bound.rows].tolist()))
        engine = way.restore(plan, engine.snapshot())
    assert seen == [(0, []), (0, []), (0, [1, 2]), (0, [0, 3]), (0, [])]
