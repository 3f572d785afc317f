"""The reference itself, held against cases worked out by hand from the language page and the SASE paper."""

from __future__ import annotations

import math

import pytest

from tests.naive.arrival import arrive, arrive_trusted, on_time
from tests.naive.evaluation import holds, value
from tests.naive.language import (
    And,
    Arith,
    Attr,
    Between,
    Call,
    Compare,
    Const,
    Equivalence,
    Event,
    In,
    IsNull,
    Item,
    Like,
    Minus,
    Not,
    Or,
    Query,
    yaml_text,
)
from tests.naive.matching import candidate_items, matches, return_fields


def stream(*rows: str) -> list[Event]:
    """Events from ``time Type attr=value ..``; ``null`` is null, numbers are numbers; the offset is the line."""
    events = []
    for offset, row in enumerate(rows):
        time, type_name, *pairs = row.split()
        attributes = {}
        for pair in pairs:
            name, content = pair.split("=")
            attributes[name] = None if content == "null" else int(content) if content.lstrip("-").isdigit() else content
        events.append({"type": type_name, "time": int(time), "source": 0, "offset": offset, "attributes": attributes})
    return events


def found(query: Query, events: list[Event]) -> list[list[int]]:
    """The lines that each match binds."""
    return sorted([offset for _, _, offset in match.identity] for match in matches(query, events))


def seq(*items: str, **settings: object) -> Query:
    """``seq("A a", "!B b", "C|D c")``."""
    made = []
    for content in items:
        types, _, var = content.removeprefix("!").partition(" ")
        made.append(Item(tuple(types.split("|")), var or None, content.startswith("!")))
    return Query(tuple(made), **settings)  # type: ignore[arg-type]


def eq(left: Attr, right: Attr) -> Compare:
    return Compare("=", left, right)


def test_shoplifting_of_the_paper_in_both_notations() -> None:
    events = stream("0 Shelf id=1", "1 Shelf id=2", "2 Counter id=1", "3 Exit id=1", "4 Exit id=2")
    short = seq("Shelf x", "!Counter y", "Exit z", equivalence=(Equivalence("id"),), within=10)
    spelt_out = seq(
        "Shelf x", "!Counter y", "Exit z", within=10,
        where=(eq(Attr("x", "id"), Attr("y", "id")), eq(Attr("x", "id"), Attr("z", "id"))),
    )  # fmt: skip
    assert found(short, events) == found(spelt_out, events) == [[1, 4]]


def test_every_combination_is_a_match_under_skip_till_any() -> None:
    assert found(seq("A a", "B b"), stream("0 A", "1 A", "2 B", "3 B")) == [[0, 2], [0, 3], [1, 2], [1, 3]]


def test_equal_times_form_a_sequence_in_order_of_arrival_only() -> None:
    assert found(seq("A a", "B b"), stream("5 A", "5 B", "5 A")) == [[0, 1]]


def test_one_event_binds_one_item_only() -> None:
    assert found(seq("A a", "A b"), stream("0 A", "1 A")) == [[0, 1]]


def test_within_is_strictly_less() -> None:
    events = stream("0 A", "9 B", "10 B")
    assert found(seq("A a", "B b", within=10), events) == [[0, 1]]


def test_any_of_several_types() -> None:
    assert found(seq("A a", "B|C x"), stream("0 A", "1 B", "2 C", "3 D")) == [[0, 1], [0, 2]]


def test_negated_event_strictly_between_its_neighbours_cancels() -> None:
    assert found(seq("A a", "!B b", "C c"), stream("0 B", "1 A", "2 C", "3 B")) == [[1, 2]]
    assert found(seq("A a", "!B b", "C c"), stream("1 A", "1 B", "1 C")) == []
    assert found(seq("A a", "!B b", "C c"), stream("1 A", "1 C", "1 B")) == [[0, 1]]


def test_negated_event_needs_the_predicates_that_mention_it_as_one() -> None:
    events = stream("0 A v=1", "1 B v=1 w=5", "2 C v=1")
    both = And((eq(Attr("b", "v"), Attr("a", "v")), Compare(">", Attr("b", "w"), Const(7, "integer"))))
    assert found(seq("A a", "!B b", "C c", where=(both,)), events) == [[0, 2]]
    assert found(seq("A a", "!B b", "C c", where=(both.operands[0],)), events) == []
    mixed = And((eq(Attr("b", "v"), Attr("a", "v")), Compare(">", Attr("a", "v"), Const(7, "integer"))))
    assert found(seq("A a", "!B b", "C c", where=(mixed,)), events) == [[0, 2]], "a part about a belongs to the negation"


def test_predicate_about_an_event_that_never_comes_asks_nothing() -> None:
    never = Compare("=", Attr("b", "v"), Const(1, "integer"))
    assert found(seq("A a", "!B b", "C c", where=(never,)), stream("0 A", "1 C")) == [[0, 1]]


def test_negated_start_looks_back_from_the_last_event() -> None:
    query = seq("!B b", "A a", "Z z", within=10)
    assert found(query, stream("0 B", "5 A", "10 Z")) == [[1, 2]], "time(z) - T < time(b) is strict"
    assert found(query, stream("1 B", "5 A", "10 Z")) == []
    assert found(query, stream("5 A", "5 B", "10 Z")) == [[0, 2]], "b is not before a"
    assert found(query, stream("5 B", "5 A", "10 Z")) == []


def test_negated_end_reaches_to_the_end_of_the_window() -> None:
    query = seq("A a", "Y y", "!B b", within=10)
    assert found(query, stream("0 A", "5 Y", "9 B")) == []
    assert found(query, stream("0 A", "5 Y", "10 B")) == [[0, 1]]
    assert found(query, stream("0 A", "5 B", "5 Y")) == [[0, 2]]
    assert found(query, stream("0 A", "5 Y", "5 B")) == []
    assert [m.time for m in matches(query, stream("3 A", "5 Y"))] == [13]


def test_negation_at_start_middle_and_end_together() -> None:
    query = seq("!N n", "A a", "!N o", "!M m", "B b", "!N p", within=10)
    assert found(query, stream("10 A", "12 B")) == [[0, 1]]
    for spoiler in ("9 N", "11 N", "11 M", "13 N", "19 N"):
        rows = sorted(["10 A", "12 B", spoiler], key=lambda row: int(row.split()[0]))
        assert found(query, stream(*rows)) == [], spoiler
    assert found(query, stream("2 N", "10 A", "12 B", "20 N")) == [[1, 2]]


def test_null_in_the_equivalence_attribute_matches_nothing_and_prevents_nothing() -> None:
    query = seq("A a", "!B b", "C c", equivalence=(Equivalence("k"),))
    assert found(query, stream("0 A k=null", "1 C k=null")) == []
    assert found(query, stream("0 A k=1", "1 B k=null", "2 C k=1")) == [[0, 2]]


def test_negated_type_without_the_equivalence_attribute_agrees_with_every_value() -> None:
    query = seq("A a", "!B b", "C c", equivalence=(Equivalence("k"), Equivalence("l")))
    assert found(query, stream("0 A k=1 l=1", "1 B l=1", "2 C k=1 l=1")) == []
    assert found(query, stream("0 A k=1 l=1", "1 B l=2", "2 C k=1 l=1")) == [[0, 2]]
    assert found(query, stream("0 A k=1 l=1", "1 B l=null", "2 C k=1 l=1")) == [[0, 2]]
    assert found(query, stream("0 A k=1 l=1", "1 B", "2 C k=1 l=1")) == []


def test_fixed_equivalence_value() -> None:
    query = seq("A a", "!B b", "C c", equivalence=(Equivalence("k", Const(2, "integer")),))
    assert found(query, stream("0 A k=1", "1 C k=1", "2 A k=2", "3 B k=1", "4 C k=2")) == [[2, 4]]
    assert found(query, stream("2 A k=2", "3 B", "4 C k=2")) == [], "it has no k, so it agrees"


def test_absent_is_true_null_is_false_and_absent_wins() -> None:
    present, null, absent = ({"time": 0, "type": "A", "attributes": a} for a in ({"v": 1}, {"v": None}, {}))
    same = eq(Attr("a", "v"), Attr("b", "v"))
    assert holds(same, {"a": present, "b": present})
    assert not holds(same, {"a": present, "b": null})
    assert holds(same, {"a": absent, "b": null})
    assert holds(same, {"a": present}), "an unbound reference"
    assert holds(Not(same), {"a": present, "b": null}), "before NOT"
    assert not holds(Not(same), {"a": present, "b": absent})
    unequal = Compare("!=", Attr("a", "v"), Const(5, "integer"))
    assert not holds(unequal, {"a": null})
    assert holds(IsNull(Attr("a", "v")), {"a": null})
    assert not holds(IsNull(Attr("a", "v")), {"a": present})
    assert holds(IsNull(Attr("a", "v"), negated=True), {"a": absent})
    assert not holds(In(Attr("a", "v"), (Const(5, "integer"),), negated=True), {"a": null})
    assert holds(Or((same, unequal)), {"a": null, "b": absent})


def test_arithmetic() -> None:
    def worth(op: str, left: float, right: float) -> object:
        kinds = {int: "integer", float: "float"}
        return value(Arith(op, Const(left, kinds[type(left)]), Const(right, kinds[type(right)])), {})

    assert worth("%", -7, 3) == -1
    assert worth("%", 7, -3) == 1
    assert worth("/", 7, 2) == 3.5
    assert worth("/", 7, 0) is None
    assert worth("%", 7.5, 0) is None
    assert worth("*", 2**62, 4) == 2.0**64
    assert isinstance(worth("+", 2**63 - 1, 1), float)
    assert worth("-", 2**63 - 1, 1) == 2**63 - 2
    assert [value(Call("round", (Const(x, "float"),)), {}) for x in (0.5, 1.5, -0.5, -2.5, 0.49999999999999994)] == [1, 2, -1, -3, 0]
    assert not holds(Compare("=", Const(2**53 + 1, "integer"), Const(float(2**53), "float")), {}), "compared exactly"
    assert not holds(Compare("!=", Const(math.nan, "float"), Const(1, "integer")), {})
    assert not holds(Between(Const(math.nan, "float"), Const(1, "integer"), Const(2, "integer"), negated=True), {})
    assert isinstance(value(Minus(Const(-(2**63), "integer")), {}), float)


def test_like_is_case_sensitive_and_total() -> None:
    def like(content: str, pattern: str) -> bool:
        return holds(Like(Const(content, "string"), pattern), {})

    assert like("abc", "a%")
    assert like("a", "a%")
    assert like("abc", "_b_")
    assert not like("Abc", "a%")
    assert not like("ab", "a")
    assert like("a.c\n", "a.c%")


def test_return_fields() -> None:
    events = stream("0 A v=1", "2 B")
    schemas = {"A": {"v": "integer"}, "B": {}, "C": {"w": "integer"}}
    query = seq("A a", "B|C x")
    assert return_fields(matches(query, events)[0], schemas) == {"a_v": 1, "x_w": None}
    query = seq("A a", "B b", returns=(("took", Arith("-", Attr("b", "time"), Attr("a", "time"))), ("u", Attr("a", "v"))))
    assert return_fields(matches(query, events)[0], schemas) == {"took": 2, "u": 1}


def test_candidates() -> None:
    query = seq(
        "A a", "!A n", "B|A b", equivalence=(Equivalence("k"),),
        where=(Compare(">", Attr("a", "v"), Const(3, "integer")), eq(Attr("a", "v"), Attr("b", "v"))),
    )  # fmt: skip
    assert [candidate_items(query, e) for e in stream("0 A k=1 v=4", "0 A k=1 v=3", "0 A k=null v=4", "0 B k=1", "0 C k=1")] == [
        {0, 1, 2}, {1, 2}, set(), {2}, set(),
    ]  # fmt: skip


def arrivals(*rows: tuple[int, int]) -> list[Event]:
    return [{"type": "A", "time": time, "source": source, "offset": n, "attributes": {}} for n, (source, time) in enumerate(rows)]


def test_lateness_is_decided_by_the_own_partition_event_by_event() -> None:
    state = arrive(arrivals((0, 10), (0, 5), (0, 4), (1, 3), (0, 11)), 5, frozenset({0, 1}))
    assert [e["offset"] for e in state.late] == [2], "4 < 10 - 5; 5 is not; partition 1 has its own watermark"
    assert state.watermark == -2
    assert state.fed == []


def test_an_event_is_fed_when_the_watermark_is_greater_than_its_time() -> None:
    state = arrive(arrivals((0, 1), (1, 2), (0, 7), (1, 7)), 5, frozenset({0, 1}))
    assert state.watermark == 2
    assert [e["offset"] for e in state.fed] == [0], "time 2 is not fed at watermark 2"


def test_a_partition_not_yet_seen_holds_everything() -> None:
    assert arrive(arrivals((0, 1), (0, 100)), 0, frozenset({0, 1})).fed == []


def test_total_order_breaks_ties_by_source_then_offset() -> None:
    assert [e["offset"] for e in on_time(arrivals((1, 5), (0, 5), (1, 4), (0, 5)), 10)] == [2, 1, 3, 0]


def test_trusted_order_feeds_at_once_and_calls_late_what_is_earlier_than_its_predecessor() -> None:
    rows = stream("5 A k=1", "3 A k=2", "4 A k=1", "5 A k=1")
    state = arrive_trusted(rows, "k")
    assert [e["offset"] for e in state.fed] == [0, 1, 3]
    assert [e["offset"] for e in state.late] == [2]


def test_yaml_text_reads_like_the_language_page() -> None:
    query = seq("A|BRK.B a", "!C c", "D", equivalence=(Equivalence("k"), Equivalence("s", Const("it's", "string"))), within=5,
                where=(Compare("<", Attr("a", "v"), Minus(Const(1, "integer"))),), returns=(("v", Attr("a", "v")),))  # fmt: skip
    assert yaml_text(query) == (
        "name: q\nversion: 1\nevent: \"SEQ(ANY(A, 'BRK.B') a, !(C c), D)\"\n"
        "where: \"[k] AND [s = 'it''s'] AND a.v < -(1)\"\nwithin: 5 ms\nreturn:\n  v: \"a.v\"\n"
    )


@pytest.mark.parametrize("lag", [0, 1, 5])
def test_without_disorder_nothing_is_late(lag: int) -> None:
    rows = arrivals((0, 1), (0, 1), (0, 2), (0, 9))
    assert on_time(rows, lag) == rows
