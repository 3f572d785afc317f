"""Long streams of few keys: matched apart, patterns with ORs find in every feed what runs find, in the same order, while both are restarted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from app.asc.selection import Selection
from app.bucket.engines import new_engine, restore_engine
from app.bucket.recording import rows_between
from app.bucket.values import plain_values
from app.cep.alternatives.engine import AlternativesEngine
from app.cep.cells.arrays import FOREVER
from app.cep.engine import Engine, Watermarks
from app.cep.matches import Matches
from app.cep.runs.engine import RunsEngine
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Catalog, Plan

TYPES = "ABCDE"
OWN = (Attribute("k", Kind.STRING), Attribute("v", Kind.INTEGER), Attribute("s", Kind.STRING), Attribute("w", Kind.FLOAT))
STREAM = StreamSchema("s", tuple(EventType(name, OWN) for name in TYPES))
EVENTS, FEED = 300, 37

SHAPES = [
    ("SEQ(A a, B b, OR(C c, D d))", "[k]"),
    ("SEQ(A a, B b, OR(C c, D d))", "a.v < b.v AND (c.v > a.v OR d.s = a.s)"),
    ("OR(SEQ(A a, B b), SEQ(C c, D d))", "[k]"),
    ("SEQ(OR(A a, B b, C c), OR(D d, E e))", "[k]"),
    ("SEQ(A a, OR(SEQ(B b, C c), D d), E e)", "[k] AND e.w > a.w"),
    ("SEQ(A a, OR(B b, ANY(B, C) c), D d)", "[k] AND c.v > a.v"),
    # one begins with what another has before it
    ("SEQ(OR(B b, SEQ(A a, B c)), D d)", "[k]"),
    ("SEQ(OR(B b, SEQ(A a, B c), SEQ(A x, A y, B z)), C e, D d)", "[k]"),
    ("OR(SEQ(C c, D d), SEQ(B b, C e, D f), SEQ(A a, B g, C h, D i), D j)", "[k]"),
    ("SEQ(A a, !(E n), OR(B b, SEQ(!(E m), C c)), D d)", "[k] AND n.v > a.v AND m.v = c.v"),
    ("SEQ(A a, OR(SEQ(!(E n), B b), C c), D d)", "[k] AND NOT (n.v > a.v)"),
    ("SEQ(!(E n), OR(A a, SEQ(B b, A c)), D d)", "[k] AND n.v > d.v"),
    ("SEQ(ANY(A, B) a, ANY(A, B) b, OR(ANY(A, B) c, SEQ(A d, B e), C f))", "[k] AND b.v >= a.v"),
    ("SEQ(A a, OR(B x, C x), D d)", "[k] AND x.v > a.v AND NOT (x.s = d.s)"),
    ("SEQ(A, OR(B, SEQ(C, B)), A)", "[k]"),
]
FIELDS = "return: {first: a.v, text: d.s, sum: a.v + d.v, least: 'min(a.w, d.w)', how: count(d), when: d.time}\n"


def plan_of(event: str, where: str, more: str = "") -> Plan:
    fields = FIELDS if " a" in event and " d" in event else ""
    text = f'name: q\nfrom: s\nevent: "{event}"\nwhere: "{where}"\nwithin: 25 ms\n{fields}{more}'
    compiled = compile_texts([("q.yaml", text)], {"s": STREAM})
    assert not compiled.errors, [finding.render() for finding in compiled.errors]
    return compiled.catalog.plans[0]


def stream(seed: int, *, trusted: bool = False) -> EventBatch:
    """Ties in time, nulls, and texts that are soon forgotten for ever; trusted: two topic partitions one after the other in every feed."""
    random = np.random.default_rng([seed, 46])
    line = np.arange(EVENTS, dtype=np.int64)
    texts = Dictionary.of([f"text {n}".encode() for n in range(EVENTS)])
    keys = random.integers(0, 3, EVENTS)
    source = keys % 2 if trusted else random.integers(0, 2, EVENTS)
    order = np.lexsort((line, source, line // FEED if trusted else line // 2))
    columns = {
        "k": Column(Kind.STRING, keys.astype(np.int32), (random.random(EVENTS) < 0.03).astype(np.uint8), Dictionary.of([b"x", b"y", b"z"])),
        "v": Column(Kind.INTEGER, random.integers(0, 4, EVENTS), (random.random(EVENTS) < 0.03).astype(np.uint8)),
        "s": Column(Kind.STRING, np.maximum(line - random.integers(0, 40, EVENTS), 0).astype(np.int32), None, texts),
        "w": Column(Kind.FLOAT, random.random(EVENTS)),
    }
    types = Column(Kind.STRING, random.integers(0, 5, EVENTS).astype(np.int32), None, Dictionary.of([name.encode() for name in TYPES]))
    moved = {
        name: Column(one.kind, one.values[order], None if one.state is None else one.state[order], one.dictionary)
        for name, one in columns.items()
    }
    return EventBatch((line // 2)[order], source[order], line[order], types, moved)


def told(plan: Plan, matches: Matches) -> list[object]:
    """Variables, events, time, fields and key of every match, in their order."""
    bound = matches.constituents([])
    variables = [item.variable for item in plan.items]
    types = plain_values(replace(matches.events.type, values=matches.events.type.values[bound.rows]))
    columns = [plain_values(column) for column in (*matches.fields.values(), *matches.key.values()) if isinstance(column, Column)]
    return [
        (
            [variables[item] for item in bound.items[begin:end].tolist()],
            matches.events.offset[bound.rows[begin:end]].tolist(),
            types[begin:end],
            int(matches.time[k]),
            [column[k] for column in columns],
        )
        for k, (begin, end) in enumerate(zip(bound.starts[:-1].tolist(), bound.starts[1:].tolist(), strict=True))
    ]


def fed(engines: Sequence[Engine], plans: Sequence[Plan], batch: EventBatch, watermark: int) -> list[list[object]]:
    items = np.zeros(len(batch), np.uint64)
    rows, masks = Selection(Catalog.of((plans[0],)), None).select(batch).of_query(0)
    items[rows] = masks
    found, orders = [], []
    for engine, plan in zip(engines, plans, strict=True):
        matches, tally = engine.feed(batch, items, Watermarks(watermark))
        engine.validate()
        assert tally.matches == len(matches)
        found.append(told(plan, matches))
        orders.append(matches.total_order().tolist())
    assert orders[0] == orders[1]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "where", "trusted"),
    [
        (*shape, trusted) for shape in SHAPES for trusted in (False, True) if not trusted or "[k]" in shape[1]
    ],  # a trusted order is one of keys
)
def test_alternatives_find_in_every_feed_what_runs_find(event: str, where: str, trusted: bool) -> None:  # noqa: FBT001
    plans = [plan_of(event, where), plan_of(event, where, "evaluator: runs\n")]
    batch, engines, found = stream(1, trusted=trusted), [new_engine(plan) for plan in plans], 0
    assert [type(engine) for engine in engines] == [AlternativesEngine, RunsEngine]
    for number, start in enumerate(range(0, EVENTS, FEED)):
        part = rows_between(batch, start, min(start + FEED, EVENTS))
        watermark = int(batch.time[start + FEED :].min()) if start + FEED < EVENTS else FOREVER
        apart, whole = fed(engines, plans, part, watermark)
        assert apart == whole
        found += len(apart)
        if number % 3 == 1:
            engines = [restore_engine(plan, engine.snapshot()) for plan, engine in zip(plans, engines, strict=True)]
    assert found > 50
