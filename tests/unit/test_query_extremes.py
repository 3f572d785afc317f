"""Queries that go to the ends: times outside of the calendar, numbers of thousands of digits, long chains and sums."""

from __future__ import annotations

import pytest

from app.bucket.composition import Composition
from app.cli.queries.explain import ALL_STAGES
from app.query.compile import Compiled, compile_texts
from app.query.explain.stages import STAGES, explain
from app.query.plan import Within
from app.query.resolved.vocabulary import UNKNOWN
from app.query.tree.parse import parse_condition
from app.query.tree.printer import print_expression

PATTERN = "name: q\nevent: SEQ(A a, B b)\n"


def compiled(more: str) -> Compiled:
    found = compile_texts([("q.yaml", PATTERN + more)], UNKNOWN)
    assert not found.errors, found.errors
    return found.queries[0]


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00"),
        ("0001-01-01T00:00:00.5+00:01", "0001-01-01T00:59:00.500+01:00"),
        ("9999-12-31T23:59:59-05:00", "9999-12-31T23:59:59-05:00"),
        ("9999-12-31T23:59:59+05:00", "9999-12-31T18:59:59Z"),
    ],
)
def test_times_of_other_zones_outside_of_the_calendar_are_printed_as_they_are_read(written: str, printed: str) -> None:
    tree = parse_condition(f"a.time > TIMESTAMP '{written}'").tree
    assert print_expression(tree) == f"a.time > TIMESTAMP '{printed}'"
    assert parse_condition(print_expression(tree)).tree == tree


@pytest.mark.parametrize("form", ["text", "mermaid", "json"])
@pytest.mark.parametrize("stage", STAGES)
def test_times_that_no_calendar_has_can_be_explained(stage: str, form: str) -> None:
    query = compiled("where: a.time > TIMESTAMP '1970-01-01' - 130000 w AND b.time > TIMESTAMP '0001-01-01T00:00:00+14:00'\n")
    text = explain(query, stage, form)
    assert stage == "ast" or "-78624000000000" in text


def test_leading_zeros_change_no_number_however_many_they_are() -> None:
    zeros = "0" * 5_000
    query = compiled(f"version: {zeros}2\nwithin: {zeros}5 events\n")
    assert (query.document.plain("version"), query.document.plain("within")) == (2, Within(5, "events"))


def test_queries_may_read_each_other_in_a_long_chain() -> None:
    text = "---\n".join(f"name: q{k}\nfrom: query:q{k + 1}\nevent: q{k + 1} a\nreturn: {{t: a.time}}\n" for k in range(1_000))
    found = compile_texts([("q.yaml", f"{text}---\nname: q1000\nfrom: s\nevent: A a\nreturn: {{t: a.time}}\n")], UNKNOWN)
    assert not found.errors
    order = Composition(found.catalog, ["s"]).order
    groups = found.catalog.groups
    assert [found.catalog.plans[groups[number].queries[0]].name for number in order] == [f"q{k}" for k in range(1_000, -1, -1)]


def test_of_a_long_circle_of_queries_all_are_named() -> None:
    text = "---\n".join(f"name: q{k}\nfrom: query:q{(k + 1) % 1_200}\nevent: q{(k + 1) % 1_200} a\n" for k in range(1_200))
    (error,) = compile_texts([("q.yaml", text)], UNKNOWN).errors
    assert error.message.startswith("queries read each other in a circle: q0 reads q1 reads q2 reads")


@pytest.mark.parametrize("operator", ["+", "*", "-"])
def test_a_sum_of_many_terms_is_not_nested(operator: str) -> None:
    terms = f" {operator} ".join(f"a.x{k}" for k in range(200))
    query = compiled(f"where: NOT ({terms} > 5) AND (b.x = 1 OR {terms} < 3)\nreturn:\n  total: {terms}\n")
    for stage in ("ast", "plan", "code"):
        for form in ("text", "mermaid", "json"):
            assert explain(query, stage, form, ALL_STAGES)
    (written,) = (query.document.values["return"].value.values(),)
    assert print_expression(next(iter(written)).tree) == terms


@pytest.mark.parametrize(
    "text",
    [
        " + ".join(["a.x"] * 300),
        "abs(" * 60 + " + ".join(["a.x"] * 150) + ")" * 60,
        "abs(" * 101 + "a.x" + ")" * 101,
        "(" * 60 + "a.x" + " + a.x + a.x)" * 60,
    ],
)
def test_what_is_higher_than_later_passes_climb_is_refused(text: str) -> None:
    (problem,) = parse_condition(f"{text} > 5").problems
    assert problem.message == "nested too deeply"


@pytest.mark.parametrize("nested", ["abs({})", "-({})", "(1 + {})", "max(1, 2 * {})"])
def test_what_is_let_through_is_climbed_by_all_later_passes(nested: str) -> None:
    text, inner = "", "a.x"
    while not parse_condition(f"{inner} > 5").problems:
        text, inner = inner, nested.format(inner)
    query = compiled(f"where: {text} > b.x\nreturn:\n  x: {text}\n")
    for stage in ("ast", "plan", "code"):
        assert explain(query, stage, "json", ALL_STAGES)
