"""Which patterns with ORs are matched apart, what keeps others from it, and states of the engines that may run them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.bucket.engines import merged_states, new_engine, parted_state, restore_engine, taken_over
from app.bucket.recording import rows_between
from app.cep.alternatives.engine import AlternativesEngine
from app.cep.door import way_of
from app.cep.engine import Engine, Watermarks
from app.cep.runs.engine import RunsEngine
from app.errors import SnapshotError
from app.events.batch import Column, EventBatch, events_of_types
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Plan, Shedding
from app.query.planning.alternatives import MOST, alternatives_of, another_may_stand_in, obstacles

OWN = (Attribute("k", Kind.INTEGER), Attribute("v", Kind.INTEGER))
STREAM = StreamSchema("s", tuple(EventType(name, OWN) for name in "ABCDEFGHIJ"))
LAST = "SEQ(A a, B b, OR(C c, D d))"


def plan_of(event: str = LAST, where: str = "[k]", more: str = "", span: str = "within: 10 s") -> Plan:
    text = f'name: q\nfrom: s\nevent: "{event}"\nwhere: "{where}"\n{span}\n{more}'
    compiled = compile_texts([("q.yaml", text)], {"s": STREAM})
    assert not compiled.errors, [finding.render() for finding in compiled.errors]
    return compiled.catalog.plans[0]


def sequences(plan: Plan) -> list[str]:
    """The items of every alternative, by their variables."""
    alternatives = alternatives_of(plan)
    assert alternatives is not None, obstacles(plan)
    return [" ".join("!" * item.negated + str(item.variable) for item in one.plan.items) for one in alternatives]


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (plan_of(), ["a b c", "a b d"]),
        (plan_of("OR(SEQ(A a, B b), SEQ(C c, D d))"), ["a b", "c d"]),
        (plan_of("SEQ(A a, OR(SEQ(B b, C c), D d), E e)"), ["a b c e", "a d e"]),
        (plan_of("SEQ(OR(A a, B b), OR(C c, OR(D d, E e)))"), ["a c", "a d", "a e", "b c", "b d", "b e"]),
        (plan_of("SEQ(A a, !(F n), OR(B b, SEQ(!(G m), C c)))", "[k] AND n.v > b.v AND m.v > a.v"), ["a !n b", "a !n !m c"]),
        (plan_of("SEQ(!(F n), OR(A a, B b), C c)", "[k] AND n.v > a.v"), ["!n a c", "!n b c"]),
        (plan_of("SEQ(A a, OR(B b, ANY(B, C) c))"), ["a b", "a c"]),
        (plan_of("SEQ(A a, OR(B b, C b))"), ["a b", "a b"]),
        (plan_of("SEQ(A a, OR(B b, C c))", span=""), ["a b", "a c"]),
        (plan_of("SEQ(A a, OR(B b, C c))", more="shedding: {shedder: gspice, latency_bound: 1 s}\n"), ["a b", "a c"]),
        (plan_of("SEQ(A a, OR(B b, C c))", "[k] AND count(c) > 0", "return: {how: count(b), what: b.v + a.v}\n"), ["a b", "a c"]),
        # of a match without d, the comparison is true and NOT of it false
        (plan_of("SEQ(A a, OR(B b, C c))", "[k] AND NOT (c.v > a.v)"), ["a c"]),
        (plan_of("SEQ(A a, OR(SEQ(B b), SEQ(C c, D d)))", more="labels: {a: b}\n"), ["a b", "a c d"]),
    ],
)
def test_alternatives_are_matched_apart(plan: Plan, expected: list[str]) -> None:
    assert way_of(plan) == "alternatives"
    assert obstacles(plan) == []
    assert sequences(plan) == expected
    assert isinstance(new_engine(plan), AlternativesEngine)


ALL_NINE = ", ".join(f"{name} {name.lower()}" for name in "BCDEFGHIJ")


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (plan_of(more="evaluator: runs\n"), "evaluator: or limits:"),
        (plan_of(more="limits: {matches_per_event: 100000}\n"), "evaluator: or limits:"),
        (plan_of(more="limits: {matches_per_event: 5}\n"), "limits:"),
        (plan_of(more="limits: {state_bytes: 50000}\n"), "limits:"),
        (plan_of(more="strategy: skip-till-next-match\n"), "a strategy other than skip-till-any-match"),
        (plan_of(more="strategy: {b: skip-till-next-match}\n"), "a strategy other than skip-till-any-match"),
        (plan_of("SEQ(A a, !(B n), OR(C c, D d))", more="strategy: {n: strict-contiguity}\n"), "a strategy other than skip-till-any-match"),
        (plan_of(span="within: 10 events"), "within in events"),
        (plan_of(span="window: {size: 10 s}"), "window:"),
        (plan_of(more="max_gap: 1 s\n"), "max_gap:"),
        (plan_of(more="after: skip-to-next\n"), "after: or emit: longest"),
        (plan_of(more="emit: longest\n"), "after: or emit: longest"),
        (plan_of(more="on_timeout: emit\n"), "on_timeout: emit"),
        (plan_of(more="shedding: {shedder: pspice, latency_bound: 1 s}\n"), "the shedder pspice"),
        (plan_of(more="shedding: {shedder: hspice, latency_bound: 1 s}\n"), "the shedder hspice"),
        (plan_of("SEQ(A a+, OR(B b, C c))"), "a quantifier, or ANY(n; ..)"),
        (plan_of("SEQ(A a, OR(B b?, C c), D d)"), "a quantifier, or ANY(n; ..)"),
        (plan_of("SEQ(ANY(2; A, B) a, OR(C c, D d))"), "a quantifier, or ANY(n; ..)"),
        (plan_of("SEQ(A a, OR(AND(B b, C c), D d))"), "AND"),
        (plan_of("SEQ(A a, (OR(B b, C c)){2}, D d)"), "a repeated group"),
        (plan_of("SEQ(A a, OR(B b, C c), !(D n))"), "a negation at the end"),
        (plan_of("SEQ(A a, OR(SEQ(B b, !(D n)), C c))"), "a negation at the end"),
        (plan_of("SEQ(A a, !(AND(D n, E m)), OR(B b, C c))"), "a negation of several items, or with FOR"),
        (plan_of(f"SEQ(A a, OR({ALL_NINE}))"), f"more than {MOST} alternatives"),
        (
            plan_of("SEQ(OR(ANY(A, B) a, ANY(A, B) b), OR(C c, C d))"),
            "alternatives that can bind the very same events, neither of which comes first",
        ),
        (plan_of("SEQ(A a, OR(B b, ANY(B, C) b))"), "alternatives that can bind the very same events to the same variables"),
        (plan_of("SEQ(A a, OR(B, ANY(B, C)))"), "alternatives that can bind the very same events to the same variables"),
        (plan_of("SEQ(A a, OR(B b, C c))", "[k] AND NOT (c.v > a.v) AND NOT (b.v > a.v)"), "predicates that no alternative satisfies"),
    ],
)
def test_others_are_run_whole(plan: Plan, why: str) -> None:
    assert way_of(plan) != "alternatives"
    assert obstacles(plan) == [why]


def test_a_plan_says_by_its_fingerprint_what_is_matched_and_not_how() -> None:
    assert plan_of().fingerprint == plan_of(more="evaluator: runs\n").fingerprint


def test_a_plain_sequence_has_nothing_to_be_taken_apart() -> None:
    assert way_of(plan_of("SEQ(A a, B b)")) == "stacks"
    assert obstacles(plan_of("SEQ(A a, B b)")) == ["no pattern for the runs evaluator"]
    with pytest.raises(ValueError, match="no alternatives"):
        AlternativesEngine(plan_of(more="strategy: skip-till-next-match\n"))


# --- states ---------------------------------------------------------------------------------------------------------------------


def events(types: str, first: int = 0) -> EventBatch:
    """One after the other, of two keys in turn by pairs."""
    count = len(types)
    columns = {name: Column(Kind.INTEGER, (np.arange(first, first + count) // 4 * (name == "k")) % 2) for name in ("k", "v")}
    batch = events_of_types(list(types), time=list(range(first, first + count)), columns=columns)
    return replace(batch, offset=batch.offset + first)


def fed(engine: Engine, batch: EventBatch) -> list[list[int]]:
    """Offsets of the events of every match."""
    items = np.array(
        [1 << "ABCD".index(entry) for entry in (batch.type.dictionary.entry(code).decode() for code in batch.type.values)], np.uint64
    )  # type: ignore[union-attr]
    matches, _ = engine.feed(batch, items, Watermarks(int(batch.time[-1])))
    engine.validate()
    bound = matches.constituents([])
    return [bound_rows.tolist() for bound_rows in np.split(matches.events.offset[bound.rows], bound.starts[1:-1])] if len(matches) else []


def test_an_engine_of_alternatives_goes_on_where_the_query_now_says_runs() -> None:
    """Nothing that it holds is lost; a fresh engine does what the query says."""
    engine = new_engine(plan_of())
    assert fed(engine, events("AB")) == []
    asked = plan_of(more="evaluator: runs\n")
    assert isinstance(new_engine(asked), RunsEngine)
    assert taken_over(engine, plan_of(), asked) is engine
    restored = restore_engine(asked, engine.snapshot())
    assert isinstance(restored, AlternativesEngine)
    assert fed(restored, events("CD", 2)) == [[0, 1, 2], [0, 1, 3]]


def test_a_shedder_of_partial_matches_needs_runs_and_they_begin_afresh() -> None:
    before, shedding = plan_of(), plan_of(more="shedding: {shedder: pspice, latency_bound: 1 s}\n")
    assert before.fingerprint == shedding.fingerprint
    engine = new_engine(before)
    fed(engine, events("AB"))
    for taken in (restore_engine(shedding, engine.snapshot()), taken_over(engine, before, shedding)):
        assert isinstance(taken, RunsEngine)
        assert fed(taken, events("CD", 2)) == []


def test_a_shedder_of_events_changes_nothing_of_a_live_engine() -> None:
    before = plan_of()
    engine = new_engine(before)
    assert taken_over(engine, before, replace(before, shedding=Shedding("gspice", 1000))) is engine


def test_states_of_two_engines_are_not_put_together() -> None:
    states = [new_engine(plan).snapshot() for plan in (plan_of(), plan_of(more="evaluator: runs\n"))]
    with pytest.raises(SnapshotError, match="alternatives in some buckets, and of runs in others"):
        merged_states(plan_of(), states)


def test_partitions_move_with_all_their_alternatives() -> None:
    plan = plan_of()
    engine = new_engine(plan)
    assert fed(engine, events("ABABABAB")) == []
    parts = parted_state(plan, engine.snapshot(), lambda batch: batch.columns["k"].values.astype(np.int64), 2)
    later = events("CDCDCDCD", 8)
    of_halves = [rows_between(later, 0, 4), rows_between(later, 4, 8)]
    halves = [restore_engine(plan, data) for data in parts]
    together = restore_engine(plan, merged_states(plan, parts))
    expected = fed(restore_engine(plan, engine.snapshot()), later)
    assert len(expected) == 24
    assert [found for own in of_halves for found in fed(together, own)] == expected
    assert sorted(one for half, own in zip(halves, of_halves, strict=True) for one in fed(half, own)) == sorted(expected)


def test_a_damaged_or_foreign_state_is_refused() -> None:
    plan, data = plan_of(), new_engine(plan_of()).snapshot()
    for wrong in (data[:-8], data[:40], b"nothing"):
        with pytest.raises(SnapshotError):
            restore_engine(plan, wrong)
    other = plan_of(LAST, "[k] AND a.v > 3")
    with pytest.raises(SnapshotError, match="fingerprint"):
        restore_engine(other, data)


def test_what_a_feed_did_is_told_of_all_alternatives_together() -> None:
    engine = new_engine(plan_of())
    items = np.array([1, 2, 4, 8, 0], np.uint64)
    matches, tally = engine.feed(events("ABCDA"), items, Watermarks(4))
    assert len(matches) == tally.matches == 2
    assert (tally.events, tally.candidates, tally.timeouts, tally.pending) == (5, 4, 0, 0)
    # the first two events are on the stacks of both, the last ones of a match are kept for it
    assert (tally.stored, tally.live_events, tally.pushed) == (6, 6, 4)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("SEQ(A a, OR(B b, B c))", True),
        ("OR(SEQ(A a, B b), SEQ(A c, ANY(B, C) d))", True),
        ("SEQ(A a, OR(SEQ(B b, B c), SEQ(C d, B e), SEQ(B f, B g)))", True),
        ("SEQ(A a, OR(B+ b[], SEQ(A c, B d)))", True),
        ("AND(OR(A a, A b), C c)", True),
        ("OR(OR(A a, B b), OR(C c, B d))", True),
        # the same event can be no item of another branch, or not at the same place
        (LAST, False),
        ("OR(SEQ(A a, B b), SEQ(B c, A d))", False),
        ("SEQ(A a, OR(SEQ(B b, C c), B d))", False),
        ("SEQ(A a, OR(B+ b[], SEQ(A c, C d)))", False),
        ("SEQ(A a, OR(SEQ(!(B n), C c), D d), B b)", False),
        # it is the same composite event
        ("SEQ(A a, OR(B b, ANY(B, C) b))", False),
        # no OR
        ("SEQ(A a, A b, A c)", False),
        ("AND(A a, A b)", False),
    ],
)
def test_another_branch_stands_in_only_where_it_can_bind_the_very_same_events(event: str, *, expected: bool) -> None:
    assert another_may_stand_in(plan_of(event, more="evaluator: runs\n")) is expected
