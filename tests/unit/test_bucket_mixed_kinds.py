"""An attribute that is an integer in one stream and a float in another: a float to the query, whichever stream's events come first."""

from __future__ import annotations

import numpy as np
import pytest

from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.compile import compile_texts
from app.query.plan import Catalog
from tests.property.event_arrays import stream_schema

RIGHT = 1 << 20
RULES = [TimeRules("left", 0, topics=frozenset({0})), TimeRules("right", 0, topics=frozenset({1}))]
SCHEMAS = {
    "left": stream_schema({"A": {"k": "integer", "amount": "integer"}}, "left"),
    "right": stream_schema({"B": {"k": "integer", "amount": "float"}}, "right"),
}
QUERY = (
    'name: q\nfrom: [left, right]\nevent: {event}\nwhere: "[k] AND {condition}"\n{more}within: 1 m\nreturn: {{x: a.amount, y: b.amount}}\n'
)


def compiled(event: str, condition: str = "b.amount > a.amount", more: str = "") -> Catalog:
    found = compile_texts([("q.yaml", QUERY.format(event=event, condition=condition, more=more))], SCHEMAS)
    assert not found.errors, found.errors
    return found.catalog


def event(kind: str, time: int, amount: float, source: int, offset: int) -> EventBatch:
    numbers = Column(Kind.FLOAT, np.array([amount])) if kind == "B" else Column(Kind.INTEGER, np.array([int(amount)]))
    types = Column(Kind.STRING, np.zeros(1, np.int32), None, Dictionary.of([kind.encode()]))
    columns = {"k": Column(Kind.INTEGER, np.array([1])), "amount": numbers}
    return EventBatch(np.array([time]), np.array([source]), np.array([offset]), types, columns)


@pytest.mark.parametrize(
    ("pattern", "more"),
    [
        ("SEQ(A a, B b)", ""),
        ("SEQ(A a, B b)", "strategy: skip-till-next-match\n"),
        ("SEQ(A a, B b)", "evaluator: runs\n"),
        ("SEQ(A a, A c+, B b)", "strategy: skip-till-next-match\n"),
    ],
)
def test_events_of_the_stream_of_integers_may_come_alone_at_first(pattern: str, more: str) -> None:
    catalog = compiled(pattern, more=more)
    assert catalog.plans[0].floats == ("amount",)
    ways = {rules.stream: IngressPlan(catalog, rules, 1) for rules in RULES}
    bucket, greatest, found = Bucket(catalog, RULES, 0), {0: 0, RIGHT: 0}, []
    stream = [event("A", 1_000, 2, 0, 0), event("A", 2_000, 2, 0, 1), event("B", 3_000, 2.5, RIGHT, 0), event("B", 4_000, 1.5, RIGHT, 1)]
    for number, batch in enumerate(stream):
        progress = Progress(dict(greatest), frozenset(greatest))
        ingested = ways["left" if batch.source[0] == 0 else "right"].ingest(batch, progress)
        greatest |= {0: 1_000 * (number + 2), RIGHT: 1_000 * (number + 2)}  # what came is let out at once
        output = bucket.advance(ingested.chunks, Progress(dict(greatest), frozenset(greatest)))
        found += [len(one.matches) for one in output.found]
        bucket = Bucket.restore(catalog, RULES, 0, bucket.snapshot())
    output = bucket.advance([], Progress({0: 100_000, RIGHT: 100_000}, frozenset(greatest)))
    assert sum(found) + sum(len(one.matches) for one in output.found) > 0


def test_where_all_streams_agree_a_plan_says_nothing_and_its_state_stays_what_it_was() -> None:
    same = {"left": SCHEMAS["left"], "right": stream_schema({"B": {"k": "integer", "amount": "integer"}}, "right")}
    text = QUERY.format(event="SEQ(A a, B b)", condition="b.amount > a.amount", more="")
    (plan,) = compile_texts([("q.yaml", text)], same).catalog.plans
    assert plan.floats == ()
    (mixed,) = compiled("SEQ(A a, B b)").plans
    assert mixed.fingerprint != plan.fingerprint


def test_a_key_that_becomes_a_float_begins_with_another_state() -> None:
    plans = []
    for kind in ("integer", "float"):
        schema = {"left": stream_schema({"A": {"k": kind}}, "left")}
        plans.append(
            compile_texts(
                [("q.yaml", 'name: q\nfrom: left\nevent: SEQ(A a, A b)\nwhere: "[k]"\nwithin: 1 m\nreturn: {n: a.time}\n')], schema
            ).catalog.plans[0]
        )
    assert [plan.floats for plan in plans] == [(), ("k",)]
    assert plans[0].fingerprint != plans[1].fingerprint


@pytest.mark.parametrize("key", [7, 2**53 - 1, 2**53 + 1, -(2**53) - 1, 9_210_000_000_000_000_000, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("buckets", [1, 2, 3, 5, 8])
def test_a_key_of_integers_in_one_stream_and_floats_in_the_other_meets_in_one_bucket(key: int, buckets: int) -> None:
    """Engines take the integer for a float: what is equal to them must not be apart because of how many buckets there are."""
    right = stream_schema({"B": {"k": "float", "amount": "float"}}, "right")
    text = QUERY.format(event="SEQ(A a, B b)", condition="b.amount > a.amount", more="")
    catalog = compile_texts([("q.yaml", text)], {"left": SCHEMAS["left"], "right": right}).catalog
    assert catalog.groups[0].floats == ("k",)
    first, second = event("A", 1_000, 1, 0, 0), event("B", 2_000, 2, RIGHT, 0)
    first.columns["k"], second.columns["k"] = Column(Kind.INTEGER, np.array([key])), Column(Kind.FLOAT, np.array([float(key)]))
    chunks = [
        IngressPlan(catalog, rules, buckets).ingest(batch, Progress()).chunks for rules, batch in zip(RULES, (first, second), strict=True)
    ]
    everything = Progress(sources=frozenset({0, RIGHT}), closing=True)
    outputs = [Bucket(catalog, RULES, number).advance([one[number] for one in chunks], everything) for number in range(buckets)]
    assert sum(len(one.matches) for output in outputs for one in output.found) == 1
