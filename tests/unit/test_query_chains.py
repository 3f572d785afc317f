"""Which plans are chains, whose partial matches never split, and what keeps others from being one; states of the two engines."""

from __future__ import annotations

import numpy as np
import pytest

from app.bucket.engines import new_engine, restore_engine
from app.cep.chains.engine import ChainsEngine
from app.cep.engine import Watermarks
from app.cep.runs.engine import RunsEngine
from app.events.batch import Column, events_of_types
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Plan
from app.query.planning.chains import chain_of, obstacles

OWN = (Attribute("k", Kind.INTEGER), Attribute("v", Kind.INTEGER), Attribute("s", Kind.STRING))
STREAM = StreamSchema("s", tuple(EventType(name, OWN) for name in "ABC"))
NEXT = "strategy: skip-till-next-match\n"


def plan_of(event: str, where: str = "[k]", more: str = NEXT, span: str = "within: 10 s") -> Plan:
    text = f'name: q\nfrom: s\nevent: "{event}"\nwhere: "{where}"\n{span}\n{more}'
    compiled = compile_texts([("q.yaml", text)], {"s": STREAM})
    assert not compiled.errors, [finding.render() for finding in compiled.errors]
    return compiled.catalog.plans[0]


@pytest.mark.parametrize(
    "plan",
    [
        plan_of("SEQ(A a, B b, C c)", "[k] AND c.v > a.v AND lower(a.s) = b.s"),
        plan_of("SEQ(A a, B b+)", "[k] AND b[i].v > b[i-1].v AND b[i-1].v < a.v + 1 AND b[first].v != a.v"),
        plan_of("SEQ(A a, B b{2,4})", "[k]", NEXT + "return: {first: 'b[3].v', steps: count(b), all: b.v, gain: 'b[last].v - a.v'}\n"),
        plan_of("SEQ(A a, B b+)", "[k] AND b[last].v > a.v", NEXT + "after: skip-past-last-event\nemit: longest\n"),
        plan_of("SEQ(A a, B b+)", "[k]", NEXT + "return: {most: max(b.v), mean: avg(b.v), all: sum(b.v), first: first(b.s)}\n"),
        plan_of("A+", "[k]", "strategy: partition-contiguity\n"),
        plan_of("SEQ(A a, B b+)", "[k]", "strategy: {default: strict-contiguity, 'b[]': skip-till-next-match, a: skip-till-any-match}\n"),
        plan_of("SEQ(A a, B b+)", "[k]", NEXT + "limits: {matches_per_event: 3}\n"),
        plan_of("SEQ(A a, !(B n), !(C m), A b+)", "[k] AND n.v > a.v AND b[i].v > a.v", NEXT + "max_gap: 2 s\non_timeout: emit\n"),
        plan_of("SEQ(A a, B b+)", "[k]", NEXT + "max_gap: 2 s\nafter: skip-past-last-event\n"),
        plan_of("SEQ(A a, B b+)", "[k]", NEXT, "window: {size: 5 s, slide: 2 s}"),
        plan_of("SEQ(A a, B b+)", "[k]", "strategy: strict-contiguity\n", "window: {size: 5 events}"),
        plan_of("SEQ(A a, B b+)", "[k]", NEXT + "on_timeout: emit\n", "within: 5 events"),
        plan_of("SEQ(!(B n), A a, C c+)", "[k] AND n.v > 3", NEXT + "after: skip-to-next\n"),
        plan_of("SEQ(A a, C c, !(B n), !(B m))", "[k] AND n.v > a.v"),
        plan_of("SEQ(A a, C c, !(B n) FOR 3 s)", "[k] AND n.v > a.v"),
        plan_of("SEQ(A a, C c, !(B n))", "[k]", NEXT, "within: 5 events"),
        plan_of(
            "SEQ(A a, ANY(2; B, C) b, A c+)",
            "[k] AND b.v > a.v AND c[i].v > b[2].v",
            NEXT + "return: {all: b.v, sum: sum(b.v), last: 'b[last].v'}\n",
        ),
        plan_of("SEQ(A a, ANY(2; B, C by v) b, A c)"),
        plan_of(
            "SEQ(C c, A a{2,}, B b)",
            "[k] AND a[i].v > a[i-1].v AND b.v < a[last].v AND b.v > c.v AND a[first].v = b.v",
            NEXT + "after: skip-past-last-event\nreturn: {all: a.v, top: 'max(a.v)', last: 'a[last].v', end: b.v}\n",
        ),
        plan_of("SEQ(A a+, B b)", more="strategy: partition-contiguity\nlimits: {matches_per_event: 3}\n"),
        plan_of("SEQ(A a{2}, B b)", "[k] AND a[i].v > a[i-1].v AND b.v > a[last].v", NEXT + "after: skip-to-last b\n"),
    ],
)
def test_items_one_after_the_other_are_a_chain(plan: Plan) -> None:
    assert obstacles(plan) == []
    assert chain_of(plan) is not None
    assert isinstance(new_engine(plan), ChainsEngine)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (plan_of("SEQ(A a, B b+)", more=""), ["skip-till-any-match"]),
        (plan_of("SEQ(A a, B b+)", more="strategy: {default: skip-till-next-match, 'b[]': skip-till-any-match}\n"), ["skip-till-any-match"]),
        (plan_of("SEQ(A a, B b+)", span="within: 5 events", more=NEXT + "limits: {matches_per_event: 3}\n"), ["within in events beside limits:"]),
        (plan_of("SEQ(A a, B b, !(C c) FOR 3 s)", span="within: 5 events"), ["FOR beside within in events"]),
        (plan_of("SEQ(A a, B b+, !(C c))"), ["a negation behind a repeated item"]),
        (plan_of("SEQ(A a, B b, !(C c))", more=NEXT + "after: skip-to-next\n"), ["a negation at the end beside on_timeout: emit, after: or emit: longest"]),
        (plan_of("SEQ(A a, B b, !(C c))", span="window: {size: 5 s}"), ["a negation at the start or the end in windows"]),
        (plan_of("SEQ(!(C c), A a, B b)", span="window: {size: 5 s}"), ["a negation at the start or the end in windows"]),
        (plan_of("SEQ(A a, B b, !(C c) FOR 3 s, !(C d))"), ["negations at the end of different lengths"]),
        (plan_of("SEQ(!(C c), A a, B b)", "[k] AND c.v > b.v"), ["a negation at the start that is compared with other items"]),
        (plan_of("SEQ(A a, ANY(2; B, C) b+, A c)"), ["ANY(n; ..) with a quantifier"]),
        (plan_of("SEQ(A a, B b{2}, C c)", "[k] AND b[i].v > a.v AND first(b.v) > 3"), ["an aggregate in where:"]),
        (plan_of("SEQ(A a, B b{65}, C c)"), ["an item counted beyond 64"]),
        (plan_of("SEQ(A a, B b{2}, C c)", more=NEXT + "on_timeout: emit\nreturn: {v: 'b[last].v'}\n"), ["on_timeout: emit beside the last event of a repeated item"]),
        (plan_of("SEQ(A a, B b+)", span="window: {size: 5 events, per: partition}"), ["window: opened by events, or of events of a partition"]),
        (plan_of("SEQ(A a, B b+)", span="window: {size: 5 s}", more=NEXT + "after: skip-to-next\n"), ["window: beside after: or emit: longest"]),
        (plan_of("SEQ(A a, B b+)", span="window: {size: 5 s}", more=NEXT + "on_timeout: emit\n"), ["on_timeout: emit beside window:, after: or emit: longest"]),
        (plan_of("SEQ(A a, B b+)", more=NEXT + "on_timeout: emit\nafter: skip-to-next\n"), ["on_timeout: emit beside window:, after: or emit: longest"]),
        (plan_of("SEQ(A a, B b+)", more="strategy: partition-contiguity\non_timeout: emit\n"), ["on_timeout: emit beside contiguity"]),
        (plan_of("SEQ(A a, B b+)", more=NEXT + "after: skip-to-first a\n"), ["after: skip-to-first of the first item"]),
        (plan_of("SEQ(A a, B b+)", more=NEXT + "emit: longest\nlimits: {matches_per_event: 3}\n"), ["limits: beside after: or emit: longest"]),
        (plan_of("SEQ(A+ a, B b, C c)"), ["a quantifier before the last item that leaves open how often"]),
        (plan_of("SEQ(A a+, ANY(A, B) b)"), ["a quantifier before the last item that leaves open how often, where an event may be both"]),
        (plan_of("SEQ(A a+, B b+)"), ["a quantifier before a last item that is repeated"]),
        (plan_of("SEQ(A a+, ANY(2; B, C) b)"), ["a quantifier before a last item that is repeated"]),
        (plan_of("SEQ(A a+, B b)", more="strategy: {default: skip-till-next-match, b: partition-contiguity}\n"), ["a quantifier before a last item with another strategy"]),
        (plan_of("SEQ(A a+, !(C n), B b)"), ["a negation behind a quantifier that leaves open how often"]),
        (plan_of("SEQ(A a+, B b, !(C n))"), ["a negation behind a quantifier that leaves open how often"]),
        (plan_of("SEQ(A a+, B b)", more=NEXT + "on_timeout: emit\n"), ["on_timeout: emit beside a quantifier before the last item"]),
        (plan_of("SEQ(A a+, B b)", more=NEXT + "after: skip-to-last b\n"), ["after: an item of a pattern with a quantifier before the last item"]),
        (plan_of("SEQ(A a+, B b)", "[k] AND a[i].v > b.v"), ["a predicate that compares every element of a closure with the item behind it"]),
        (plan_of("SEQ(A a+, B b)", "[k] AND a[2].v > b.v"), ["a predicate that reads a closure's elements between the first one and the last one"]),
        (plan_of("SEQ(C c, A a+, B b)", "[k] AND a[last].v > c.v"), ["a predicate that waits for a closure's last event, with an item behind it"]),
        (plan_of("SEQ(A a+, B b)", more=NEXT + "return: {v: 'a[2].v'}\n"), ["a return field that reads a closure's elements by number, with an item behind it"]),
        (plan_of("SEQ(A a, B* b)"), ["a last item that may be left out, or is counted beyond 64"]),
        (plan_of("SEQ(A a, B b{65,})"), ["a last item that may be left out, or is counted beyond 64"]),
        (plan_of("SEQ(!(AND(B b, B d)), A a, C c)"), ["a negation of several items"]),
        (plan_of("SEQ(A a, !(B b), C c)", "[k] AND b.v > c.v"), ["a negation that reads an event behind it"]),
        (plan_of("SEQ(A a, !(B b), C c+)", "[k] AND b.v > last(c.v)"), ["a negation that reads an event behind it"]),
        (plan_of("SEQ(A a, !(B b), C c)", more="strategy: {default: skip-till-next-match, b: partition-contiguity}\n"), ["a negation with a contiguous strategy"]),
        (plan_of("SEQ(A a, !(B b), C c)", more=NEXT + "limits: {matches_per_event: 3}\n"), ["limits: beside a negation"]),
        (plan_of("AND(A a, B b)"), ["AND"]),
        (plan_of("SEQ(A a, B b+ UNTIL (b.v > 3))"), ["UNTIL"]),
        (plan_of("SEQ(A a, B b+)", "[k] AND sum(b[..i].v) > a.v"), ["an aggregate in where:"]),
        (plan_of("SEQ(A a, B b+)", "[k] AND b[last-1].v > a.v"), ["a predicate that waits for the closure's last event and reads others by their distance"]),
        (plan_of("SEQ(A a, B b+)", "[k] AND b[i].v > b[i-2].v"), ["a predicate that reads a closure's elements between the first one and x[i-1]"]),
        (plan_of("SEQ(A a, B b)", "[k] AND (a.v > b.v OR a.v = 0)"), ["a predicate that is no comparison of two events"]),
        (plan_of("SEQ(A a, B b, C c)", "[k] AND a.v + b.v > c.v"), ["a comparison with several events on one side"]),
        (plan_of("SEQ(A a, B b+)", more=NEXT + "return: {most: max(b.v) - a.v}\n"), ["an aggregate in return:"]),
    ],
)  # fmt: skip
def test_what_keeps_a_plan_from_being_a_chain_is_told(plan: Plan, words: list[str]) -> None:
    assert obstacles(plan) == words
    assert chain_of(plan) is None
    assert isinstance(new_engine(plan), RunsEngine)


def test_a_state_that_the_runs_evaluator_left_goes_on_in_it() -> None:
    plan = plan_of("SEQ(A a, B b+)")
    batch = events_of_types(["A", "B"], [0, 1], {"k": Column(Kind.INTEGER, np.array([1, 1])), "v": Column(Kind.INTEGER, np.array([1, 2]))})
    items = np.array([1, 2], np.uint64)
    for kind in (RunsEngine, ChainsEngine):
        engine = kind(plan)
        engine.feed(batch, items, Watermarks(1))
        restored = restore_engine(plan, engine.snapshot())
        assert type(restored) is kind
        later = events_of_types(["B"], [2], {"k": Column(Kind.INTEGER, np.array([1])), "v": Column(Kind.INTEGER, np.array([3]))})
        matches, _ = restored.feed(later, np.array([2], np.uint64), Watermarks(2))
        assert matches.constituents([]).rows.size == 3
