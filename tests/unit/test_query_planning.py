"""Where the planner puts predicates, and what a fingerprint means."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query import expressions as e
from app.query.compile import compile_texts
from app.query.plan import ConstantTest, Plan
from tests.golden.streams import STREAMS

ROOT = Path(__file__).parents[2]


def plan_of(where: str, event: str = "SEQ(RoomClimate a, !(Door n), RoomClimate b)", more: str = "", stream: str = "climate") -> Plan:
    text = f"name: q\nfrom: {stream}\nevent: {event}\nwithin: 1 h\nreturn: {{x: a.time}}\n{more}\n"
    compiled = compile_texts([("q.yaml", text + (f"where: >-\n  {where}\n" if where else ""))], STREAMS)
    assert not compiled.errors, [finding.render() for finding in compiled.errors]
    return compiled.catalog.plans[0]


@pytest.mark.parametrize(
    ("where", "test"),
    [
        ("a.humidity > 3", ConstantTest("humidity", Kind.FLOAT, ">", (3,))),
        ("3 > a.humidity", ConstantTest("humidity", Kind.FLOAT, "<", (3,))),
        ("2 * 3 + 1 <= a.humidity", ConstantTest("humidity", Kind.FLOAT, ">=", (7,))),
        ("a.mote_id IN ('x', 'y')", ConstantTest("mote_id", Kind.STRING, "in", ("x", "y"))),
        ("a.humidity NOT BETWEEN -1 AND 1", ConstantTest("humidity", Kind.FLOAT, "not between", (-1, 1))),
        ("a.comment IS NOT NULL", ConstantTest("comment", Kind.STRING, "is not null", ())),
        ("a.comment NOT LIKE 'x%'", ConstantTest("comment", Kind.STRING, "not like", ("x%",))),
        ("a.measured_at >= '1970-01-01T00:00:01Z'", ConstantTest("measured_at", Kind.TIME, ">=", (1000,))),
        ("a.time < TIMESTAMP '1970-01-02'", ConstantTest("time", Kind.TIME, "<", (86_400_000,))),
        ("a.raw = 'ab'", ConstantTest("raw", Kind.BYTES, "=", (b"ab",))),
        ("a.room.floor = 1 OR a.room.floor IN (2, 1)", ConstantTest("room.floor", Kind.INTEGER, "in", (1, 2))),
        ("NOT (a.room.floor = 1 OR a.room.floor = 2)", ConstantTest("room.floor", Kind.INTEGER, "not in", (1, 2))),
        ("NOT NOT a.room.floor < 1", ConstantTest("room.floor", Kind.INTEGER, "<", (1,))),
        ("NOT (a.comment IS NULL)", ConstantTest("comment", Kind.STRING, "is not null", ())),
    ],
)
def test_one_attribute_against_constants_is_tested_before_the_shuffle(where: str, test: ConstantTest) -> None:
    plan = plan_of(where)
    assert plan.items[0].tests == (test,)
    assert plan.items[0].local == ()
    assert plan.joins == ()


@pytest.mark.parametrize(
    "where",
    [
        "NOT a.comment = 'x'",  # null: the comparison is false, NOT makes it true; != would be false
        "NOT a.humidity > 3",  # NaN likewise
        "a.humidity > a.temperature",
        "a.humidity + 1 > 3",
        "a.humidity > 3 OR a.temperature + 1 > 3",
        "NOT (a.humidity > 3 AND a.temperature > 3)",
        " AND ".join(f"(a.humidity > {k} OR a.temperature > {k})" for k in range(4)),  # the last one would make more than eight
    ],
)
def test_what_is_no_constant_test_exactly_is_left_to_the_engine(where: str) -> None:
    plan = plan_of(where)
    assert plan.items[0].tests == ()
    assert len(plan.items[0].local) == 1


@pytest.mark.parametrize(
    ("where", "either"),
    [
        ("a.humidity > 3 OR a.temperature > 4", ["humidity > 3", "temperature > 4"]),
        ("a.humidity = 1 OR a.humidity > 3", ["humidity = 1", "humidity > 3"]),
        ("a.humidity > 3 AND a.temperature > 4 OR a.comment IS NULL", ["humidity > 3, temperature > 4", "comment is null"]),
        ("NOT (a.room.floor = 1 AND a.room.floor > 0)", ["room.floor != 1", "room.floor <= 0"]),
        (
            "(a.humidity > 3 OR a.temperature > 4) AND (a.comment = 'x' OR a.temperature > 5)",
            [
                "humidity > 3, comment = x",
                "humidity > 3, temperature > 5",
                "temperature > 4, comment = x",
                "temperature > 4, temperature > 5",
            ],
        ),
    ],
)
def test_a_disjunction_of_constant_tests_is_split_into_conjunctions(where: str, either: list[str]) -> None:
    item = plan_of(where).items[0]
    found = [", ".join(" ".join([test.attribute, test.operator, *map(str, test.values)]) for test in one) for one in item.either]
    assert (found, item.local) == (either, ())


def test_not_of_a_comparison_stays_where_a_type_of_the_item_lacks_the_attribute() -> None:
    assert plan_of("NOT a.open = true", event="SEQ(ANY(Door, RoomClimate) a, Door b)").items[0].tests == ()
    assert plan_of("NOT a.open = true", event="SEQ(Door a, Door b)").items[0].tests == (ConstantTest("open", Kind.BOOLEAN, "!=", (True,)),)


def test_a_predicate_in_parentheses_on_one_event_is_taken_apart() -> None:
    plan = plan_of("(a.humidity > 3 AND a.humidity + 1 < 9 AND a.temperature < 5)")
    assert [test.attribute for test in plan.items[0].tests] == ["humidity", "temperature"]
    assert len(plan.items[0].local) == 1


def test_a_predicate_in_parentheses_over_a_negated_and_a_positive_event_stays_whole() -> None:
    plan = plan_of("(a.humidity > 3 AND n.open = true) AND a.temperature > 1")
    assert [test.attribute for test in plan.items[0].tests] == ["temperature"]
    assert plan.items[1].tests == ()
    (join,) = plan.joins
    assert (join.items, join.negated_item) == ((0, 1), 1)
    assert isinstance(join.condition, e.And)


def test_predicates_on_a_negated_event_alone_decide_whether_it_counts() -> None:
    plan = plan_of("n.open = true AND n.mote_id = 'x' AND length(n.mote_id) > 3")
    assert [test.attribute for test in plan.items[1].tests] == ["open", "mote_id"]
    assert len(plan.items[1].local) == 1
    assert plan.joins == ()


def test_joins_name_their_items_and_the_negated_one() -> None:
    plan = plan_of("a.humidity < b.humidity AND n.time - a.time < 5 s")
    assert [(join.items, join.negated_item) for join in plan.joins] == [((0, 2), None), ((0, 1), 1)]


def test_a_fixed_equivalence_value_is_a_test_of_every_item_and_lacking_types_are_noted() -> None:
    plan = plan_of("[temperature = 3] AND [mote_id]")
    assert plan.equivalence == ("temperature", "mote_id")
    assert all(ConstantTest("temperature", Kind.FLOAT, "=", (3,)) in item.tests for item in plan.items)
    assert [item.lacks for item in plan.items] == [(), ("temperature",), ()]


def test_constant_predicates_are_decided_before_any_event() -> None:
    assert plan_of("1 < 2 AND 'a' = 'a' AND 5 m > 4 m").items[0].local == ()
    (never,) = plan_of("1 = 2").items[0].local
    assert never == e.Comparison("=", e.Literal(Kind.INTEGER, 0), e.Literal(Kind.INTEGER, 1))


def test_columns_are_those_that_the_engine_needs() -> None:
    assert plan_of("[mote_id] AND a.humidity > 3 AND a.temperature < b.temperature AND a.time < b.time").columns == (
        "mote_id",
        "temperature",
    )


def test_default_return_has_every_attribute_of_every_named_positive_variable() -> None:
    text = "name: q\nfrom: retail\nevent: SEQ(ShelfReading s, !(CounterReading c), ExitReading, ANY(ExitReading, CounterReading) e)\nwithin: 1 m\n"
    plan = compile_texts([("q.yaml", text)], STREAMS).catalog.plans[0]
    names = [field.name for field in plan.returns]
    assert names == ["s_tag_id", "s_store_id", "s_shelf_id", "e_tag_id", "e_store_id", "e_exit_id", "e_alarm", "e_counter_id"]


def test_fields_of_the_default_return_are_named_by_variable_and_attribute_as_they_are() -> None:
    attributes = tuple(Attribute(name, Kind.INTEGER) for name in ("class_", "class", "price($)", "a.b"))
    text = "name: q\nfrom: s\nevent: A a\nwithin: 1 m\n"
    plan = compile_texts([("q.yaml", text)], {"s": StreamSchema("s", (EventType("A", attributes),))}).catalog.plans[0]
    assert [field.name for field in plan.returns] == ["a_class_", "a_class", "a_price", "a_a_b"]


def test_blanks_before_the_variable_of_after_mean_nothing() -> None:
    plans = [plan_of("[mote_id]", more=f"after: skip-to-first{blanks}b") for blanks in (" ", "   ")]
    assert [(plan.runs.after, plan.runs.after_binding) for plan in plans if plan.runs is not None] == [("skip-to-first", 2)] * 2
    assert plans[0].fingerprint == plans[1].fingerprint


def test_durations_in_expressions_keep_their_fraction() -> None:
    """0.5 ms was rounded to 0, so that the comparison never held."""
    (join,) = plan_of("b.time - a.time < 0.5 ms").joins
    assert join.condition.right == e.Literal(Kind.DURATION, 0.5)  # type: ignore[union-attr]
    (join,) = plan_of("b.time - a.time < 1.001 s").joins
    assert join.condition.right == e.Literal(Kind.DURATION, 1001)  # type: ignore[union-attr]


@pytest.mark.parametrize("where", ["b.time - a.time < 5 s * 1e308", "a.humidity < 1e308 * 10 - 1e308 * 10"])
def test_arithmetic_on_constants_that_leaves_all_numbers_is_left_to_the_engine(where: str) -> None:
    """Five seconds by so many could not be told in whole milliseconds: validation ended in a traceback."""
    plan = plan_of(where)
    conditions = [*plan.items[0].local, *(join.condition for join in plan.joins)]
    assert [isinstance(one.right, e.Arithmetic) for one in conditions] == [True]  # type: ignore[union-attr]
    assert plan.items[0].tests == ()


@pytest.mark.parametrize(
    ("shedding", "shedder"),
    [
        ("", "none"),
        ("shedding: {max_drop_ratio: 0.5}", "none"),
        ("shedding: {latency_bound: 1 s}", "auto"),
        ("shedding: {latency_bound: 1 s, shedder: none}", "none"),
        ("shedding: {latency_bound: 1 s, shedder: bl}", "bl"),
    ],
)
def test_a_bound_without_a_shedder_is_kept_by_the_one_that_loses_least(shedding: str, shedder: str) -> None:
    assert plan_of("[mote_id]", more=shedding).shedding.shedder == shedder


def _fingerprint(more: str = "", where: str = "a.humidity > 3") -> str:
    return plan_of(where, more=more).fingerprint


def test_fingerprint_tells_meanings_apart_and_nothing_else() -> None:
    base = _fingerprint()
    assert base == _fingerprint("title: x\nlabels: {a: b}\nweight: 3\noutput: {topic: t}\nshedding: {shedder: random}\nenabled: true")
    assert base == _fingerprint(where="a.humidity   >  3")
    others = [
        _fingerprint("version: 2"),
        _fingerprint(where="a.humidity > 4"),
        _fingerprint(where="a.humidity >= 3"),
        _fingerprint(where="a.humidity > 3.5"),
    ]
    assert len({base, *others}) == 5


def test_fingerprint_is_the_same_in_every_process() -> None:
    code = (
        "from tests.unit.test_query_planning import plan_of;"
        "print(plan_of('[mote_id] AND a.humidity > 3 AND a.time < b.time', more='labels: {x: y}').fingerprint)"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def inferred(**types: dict[str, Kind]) -> dict[str, StreamSchema]:
    made = tuple(
        EventType(name, tuple(Attribute(a, kind, nullable=True) for a, kind in attributes.items())) for name, attributes in types.items()
    )
    return {"file": StreamSchema("file", made, inferred=True)}


def test_types_that_never_occur_in_a_file_are_no_error_and_neither_are_their_attributes() -> None:
    text = "name: q\nevent: SEQ(A a, !(Ghost g), Spook s)\nwithin: 1 m\nwhere: g.x = 'y' AND a.v > s.w AND NOT s.u = 3 AND s.time > a.time\nreturn: {v: a.v, w: s.w + 1}\n"
    compiled = compile_texts([("q.yaml", text)], inferred(A={"v": Kind.INTEGER}))
    assert not compiled.errors
    plan = compiled.catalog.plans[0]
    assert plan.columns == ("v",)
    assert plan.items[1].tests == ()  # an attribute that the event does not have makes its comparison true
    assert [join.items for join in plan.joins] == [(0, 2)]
    assert len(plan.items[0].local) == 1  # NOT of it is false: there is no match


def test_attributes_that_no_event_of_occurring_types_has_are_an_error() -> None:
    text = "name: q\nevent: ANY(A, Ghost) a\nwhere: a.nope = 3\n"
    (error,) = compile_texts([("q.yaml", text)], inferred(A={"v": Kind.INTEGER})).errors
    assert error.message == 'event type "A" has no attribute "nope"'


def test_numbers_of_different_types_share_a_float_column() -> None:
    text = "name: q\nevent: SEQ(A a, B b)\nwithin: 1 m\nwhere: a.v = 3\n"
    plan = compile_texts([("q.yaml", text)], inferred(A={"v": Kind.INTEGER}, B={"v": Kind.FLOAT})).catalog.plans[0]
    assert plan.items[0].tests == (ConstantTest("v", Kind.FLOAT, "=", (3,)),)
    assert {field.kind for field in plan.returns} == {Kind.FLOAT}
