"""What random cases with few small values cannot see: texts that functions make of constants, partial matches by the hundred thousand, fields that are whole in one piece and not in the next."""

from __future__ import annotations

import time
from itertools import permutations

import numpy as np
import pytest

from app.bucket.engines import new_engine, restore_engine
from app.bucket.recording import match_sorted
from app.cep.cells.texts import FEW, FEW_BYTES, TextTable
from app.cep.engine import Watermarks
from app.cep.matches import Matches
from app.cep.why_not import plain_values
from app.events.batch import NULL, Column, Dictionary, concatenate, events_of_types
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query import expressions as e
from app.query.compile import compile_texts
from app.query.plan import Plan
from tests.naive import language, predicates
from tests.unit.test_query_chains import STREAM

WHERE = "[k] AND lower(a.s) = lower('Zürich')"


def plan_of(event: str, where: str, more: str = "") -> Plan:
    compiled = compile_texts([("q.yaml", f'name: q\nfrom: s\nevent: "{event}"\nwhere: "{where}"\nwithin: 10 h\n{more}')], {"s": STREAM})
    assert not compiled.errors, [finding.render() for finding in compiled.errors]
    return compiled.catalog.plans[0]


def events(types: str, start_ms: int, texts: list[str]):
    count = len(types)
    columns = {
        "k": Column(Kind.INTEGER, np.ones(count, np.int64)),
        "v": Column(Kind.INTEGER, np.arange(count, dtype=np.int64)),
        "s": Column(Kind.STRING, np.arange(count, dtype=np.int64), None, Dictionary.of([text.encode() for text in texts])),
    }
    return events_of_types(list(types), [start_ms + k for k in range(count)], columns)


@pytest.mark.parametrize("evaluator", ["stacks", "runs"])
def test_what_a_function_makes_of_a_constant_is_known_after_a_restart(evaluator: str) -> None:
    """Nobody alive has such a text when the snapshot is made; its number must not become another text's."""
    plan = plan_of("SEQ(A a, B b)", WHERE, f"evaluator: {evaluator}\n")
    engine = new_engine(plan)
    engine.feed(events("AA", 0, ["rome", "oslo"]), np.array([1, 1], np.uint64), Watermarks(1))
    for engine_ in (engine, restore_engine(plan, engine.snapshot())):
        matches, _ = engine_.feed(events("AB", 5, ["ZÜRICH", "x"]), np.array([1, 2], np.uint64), Watermarks(6))
        assert len(matches) == 1


def test_a_closure_that_branches_ends_its_timeouts_without_comparing_all_with_all() -> None:
    """2^16 partial matches in one event took minutes, each compared with each."""
    plan = plan_of("SEQ(A a, B b+)", "[k]", "on_timeout: emit\nstrategy: skip-till-any-match\n")
    engine = new_engine(plan)
    count = 18
    batch = events("A" + "B" * (count - 1), 0, [str(k) for k in range(count)])
    started = time.process_time()
    matches, _ = engine.feed(batch, np.array([1] + [2] * (count - 1), np.uint64), Watermarks(count))
    assert len(matches) > 100_000
    assert time.process_time() - started < 20


@pytest.mark.parametrize("kind", [Kind.DURATION, Kind.TIME, Kind.INTEGER])
def test_milliseconds_that_are_whole_in_one_piece_and_not_in_the_next_are_joined(kind: Kind) -> None:
    whole = events_of_types(["A"], [1], {"x": Column(kind, np.array([3], np.int64))})
    broken = events_of_types(["A"], [2], {"x": Column(Kind.FLOAT, np.array([1.5]))})
    joined = concatenate([whole, broken]).columns["x"]
    assert (joined.kind, joined.values.tolist()) == (Kind.FLOAT, [3.0, 1.5])


def test_texts_that_take_much_room_are_dropped_though_they_are_few() -> None:
    texts = TextTable([b"pinned"])
    size = FEW_BYTES // 16
    for number in range(40):
        texts.number(bytes([number]) * size)
    assert len(texts) < FEW
    assert texts.doubled
    texts.keep(np.array([40], np.int64))
    assert (len(texts), texts.doubled) == (2, False)


@pytest.mark.parametrize("name", ["min", "max"])
def test_texts_have_no_least_and_no_greatest(name: str) -> None:
    """They were compared by when they had come first."""
    text = f"name: q\nfrom: s\nevent: SEQ(A a+, B b)\nwithin: 1 h\nstrategy: skip-till-next-match\nreturn: {{x: {name}(a.s)}}\n"
    (finding,) = compile_texts([("q.yaml", text)], {"s": STREAM}).errors
    assert finding.message == f"{name}() of a text"


@pytest.mark.parametrize(("where", "count"), [("", 1), (" WHERE q.v > 3", 1), (" WHERE q.v > 7", 0), (" WHERE lower(q.s) = 'go'", 1)])
def test_an_event_without_a_key_opens_a_window_as_any_other_if_it_satisfies_what_is_asked(where: str, count: int) -> None:
    """Windows are cut before partitioning."""
    text = f'name: q\nfrom: s\nevent: SEQ(A a, B b)\nwhere: "[k]"\nwindow: {{size: 10 s, open: "C q{where}"}}\n'
    compiled = compile_texts([("q.yaml", text)], {"s": STREAM})
    assert not compiled.errors, [finding.render() for finding in compiled.errors]
    columns = {
        "k": Column(Kind.INTEGER, np.ones(3, np.int64), np.array([NULL, 0, 0], np.uint8)),
        "v": Column(Kind.INTEGER, np.array([5, 0, 0])),
        "s": Column(Kind.STRING, np.array([0, 1, 1]), None, Dictionary.of([b"GO", b"x"])),
    }
    found = match_sorted(compiled.catalog, events_of_types(["C", "A", "B"], [0, 1, 2], columns)).found
    assert sum(len(one.matches) for one in found) == count


@pytest.mark.parametrize(
    ("pair", "count"), [((1.5, 2.5), 1), ((1.5, 1.5), 0), ((0.0, -0.0), 0), ((float("nan"), 2.5), 0), ((-1.5, 1.5), 1)]
)
@pytest.mark.parametrize("strategy", ["skip-till-any-match", "skip-till-next-match"])
def test_floats_of_a_block_differ_as_floats_do_elsewhere(strategy: str, pair: tuple[float, float], count: int) -> None:
    """Two evaluators: one asked the bits."""
    text = f'name: q\nfrom: s\nevent: "ANY(2; A BY x) a"\nwhere: "[k]"\nwithin: 10 s\nstrategy: {strategy}\n'
    schema = StreamSchema("s", (EventType("A", (Attribute("k", Kind.INTEGER), Attribute("x", Kind.FLOAT))),))
    compiled = compile_texts([("q.yaml", text)], {"s": schema})
    assert not compiled.errors, [finding.render() for finding in compiled.errors]
    columns = {"k": Column(Kind.INTEGER, np.ones(2, np.int64)), "x": Column(Kind.FLOAT, np.array(pair))}
    found = match_sorted(compiled.catalog, events_of_types(["A", "A"], [0, 1], columns)).found
    assert sum(len(one.matches) for one in found) == count


def found_among(query: str, schema: StreamSchema, types: str, times: list[int], columns: dict[str, Column]) -> list[Matches]:
    """The matches of a query that reads events of one schema."""
    compiled = compile_texts([("q.yaml", f"name: q\nfrom: s\n{query}\n")], {"s": schema})
    assert not compiled.errors, [finding.render() for finding in compiled.errors]
    found = match_sorted(compiled.catalog, events_of_types(list(types), times, columns)).found
    return [one.matches for one in found if len(one.matches)]


NUMBERS = StreamSchema("s", tuple(EventType(name, (Attribute("x", Kind.FLOAT),)) for name in "AB"))


@pytest.mark.parametrize("values", list(permutations([1.0, float("nan"), 3.0])))
@pytest.mark.parametrize("name", ["min", "max"])
def test_an_extreme_is_nan_where_an_element_is_wherever_it_stands(name: str, values: tuple[float, ...]) -> None:
    """Evaluators of chains and of runs, the explanation for people, the independent engine: as sums and averages."""
    columns = {"x": Column(Kind.FLOAT, np.array([*values, 0.0]))}
    given = "within: 10 s\nstrategy: skip-till-next-match\n"
    told = f"event: 'SEQ(A a{{3}}, B b)'\n{given}return: {{x: {name}(a.x)}}"
    asked = f"event: 'SEQ(A a{{3}}, B b)'\n{given}where: {name}(a.x) OPERATOR 2\nreturn: {{x: {name}(a.x)}}"
    (matches,) = found_among(told, NUMBERS, "AAAB", [0, 1, 2, 3], columns)
    assert np.isnan(matches.fields["x"].values).tolist() == [True]
    for operator in ("<=", ">", "!="):
        assert found_among(asked.replace("OPERATOR", operator), NUMBERS, "AAAB", [0, 1, 2, 3], columns) == []
    assert np.isnan(plain_values.aggregate(e.Aggregate(Kind.FLOAT, name, 0, "x"), list(values)))  # type: ignore[arg-type]
    elements = [{"attributes": {"x": value}} for value in values]
    assert np.isnan(predicates.aggregate(language.Aggregate(name, "a", "x"), elements))  # type: ignore[arg-type]


@pytest.mark.parametrize("evaluator", ["stacks", "runs"])
def test_length_counts_bytes_of_bytes_and_characters_of_texts(evaluator: str) -> None:
    """One text table holds both: \N{LATIN SMALL LETTER E WITH ACUTE} is two bytes."""
    attributes = (Attribute("raw", Kind.BYTES), Attribute("text", Kind.STRING))
    schema = StreamSchema("s", tuple(EventType(name, attributes) for name in "AB"))
    codes, both = np.zeros(2, np.int64), Dictionary.of(["\N{LATIN SMALL LETTER E WITH ACUTE}".encode()])
    columns = {"raw": Column(Kind.BYTES, codes, None, both), "text": Column(Kind.STRING, codes, None, both)}
    query = f"event: SEQ(A a, B b)\nwithin: 1 s\nevaluator: {evaluator}\nwhere: length(a.{{}}) = {{}}\nreturn: {{{{t: length(a.text), r: length(b.raw)}}}}"
    for attribute, length in (("raw", 2), ("text", 1)):
        (matches,) = found_among(query.format(attribute, length), schema, "AB", [0, 1], columns)
        assert [matches.fields[name].values.tolist() for name in "tr"] == [[1], [2]]


@pytest.mark.parametrize("evaluator", ["stacks", "runs"])
@pytest.mark.parametrize(("span", "apart"), [("0.5 ms", [0]), ("1.5 ms", [0, 1]), ("2 ms", [0, 1]), ("5 s * 1e308", [0, 1, 2])])
def test_events_are_held_against_parts_of_a_millisecond(evaluator: str, span: str, apart: list[int]) -> None:
    query = f"event: SEQ(A a, B b)\nwithin: 1 s\nevaluator: {evaluator}\nwhere: b.time - a.time < {span}\nreturn: {{d: b.time - a.time}}"
    found = found_among(query, NUMBERS, "ABBB", [0, 0, 1, 2], {"x": Column(Kind.FLOAT, np.zeros(4))})
    assert [value for matches in found for value in matches.fields["d"].values.tolist()] == apart
