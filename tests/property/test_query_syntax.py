"""Text and syntax tree say the same; places are right in every YAML style; no text whatever raises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import yaml
from hypothesis import given

from app.query.compile import compile_texts
from app.query.text.source import Scalar, read_documents
from app.query.tree import tree as t
from app.query.tree.grammar import RESERVED
from app.query.tree.parse import parse_condition, parse_pattern, parse_value
from app.query.tree.printer import print_expression, print_pattern
from tests.golden.streams import STREAMS

HOUR = 3_600_000
names = st.sampled_from(["a", "b1", "x_y", "über", "first", "i", "Zeit"])
type_names = st.sampled_from(["A", "ShelfReading", "BRK.B", "or", "it's", "two words", "in"])
paths = st.sampled_from(["price", "room.floor", "tags[0]", "labels['it''s']", "a.b[3].c", "time"])
constants = st.one_of(
    st.integers(0, (1 << 63) - 1).map(lambda v: t.Constant("integer", v)),
    st.floats(0, 1e300, allow_nan=False).map(lambda v: t.Constant("float", v)),
    st.text(max_size=5).map(lambda v: t.Constant("string", v)),
    st.booleans().map(lambda v: t.Constant("boolean", v)),
    st.one_of(st.integers(0, 100 * HOUR), st.integers(1, 10**9).map(lambda v: v / 1024)).map(lambda v: t.Constant("duration", v)),
    st.integers(-(10**12), 10**13).map(lambda v: t.Constant("timestamp", v)),
)
negatable = st.one_of(st.integers(1, 99).map(lambda v: t.Constant("integer", -v)), st.floats(0.5, 9).map(lambda v: t.Constant("float", -v)))
indices = st.one_of(
    st.just(t.ClosureIndex("first")),
    st.integers(0, 3).map(lambda back: t.ClosureIndex("last", 0, back)),
    st.integers(0, 9).map(lambda number: t.ClosureIndex("number", number)),
    st.integers(0, 3).map(lambda back: t.ClosureIndex("running", 0, back)),
    st.integers(0, 3).map(lambda back: t.ClosureIndex("upto", 0, back)),
)
references = st.builds(t.Reference, names, st.none() | indices, paths)


def _values(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(t.Arithmetic, st.sampled_from("+-*/%"), inner, inner),
        st.builds(t.Negative, inner),
        st.builds(t.Call, st.sampled_from(["abs", "max", "count", "sum"]), st.lists(inner, max_size=3).map(tuple)),
    )


values = st.recursive(constants | references, _values, max_leaves=6)
comparisons = st.one_of(
    st.builds(t.Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), values, values),
    st.builds(t.In, values, st.lists(constants | negatable, min_size=1, max_size=3).map(tuple), st.booleans()),
    st.builds(t.Between, values, values, values, st.booleans()),
    st.builds(t.IsNull, values, st.booleans()),
    st.builds(t.Like, values, st.text(max_size=4), st.booleans()),
    st.builds(t.Equivalence, paths, st.none() | constants),
)


def _conditions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(t.Not, inner), st.builds(t.And, several), st.builds(t.Or, several))


conditions = st.recursive(comparisons, _conditions, max_leaves=6)
quantifiers = st.one_of(
    st.builds(t.Quantifier, st.just(0), st.just(1), st.booleans(), st.just(True)),
    st.builds(t.Quantifier, st.integers(0, 3), st.none(), st.booleans()),
    st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()).map(lambda q: t.Quantifier(min(q[0], q[1]), q[1], q[2])),
)


@st.composite
def types(draw: st.DrawFn, *, counted: bool = True) -> t.Types:
    listed = tuple(t.TypeName(name) for name in draw(st.lists(type_names, min_size=1, max_size=3, unique=True)))
    form = draw(st.sampled_from(["plain", "any", "count"] if counted else ["plain", "any"]))
    if form == "plain":
        return t.Types(listed[:1])
    if form == "any":
        return t.Types(listed, any=True)
    by = draw(st.none() | paths)
    count = draw(st.integers(1, 5)) if by is not None else len(listed)
    return t.Types(listed, count, by, True)


@st.composite
def primaries(draw: st.DrawFn) -> t.Primary:
    quantifier = draw(st.none() | quantifiers)
    until = draw(st.none() | conditions) if quantifier is not None and quantifier.closure else None
    return t.Primary(draw(types()), draw(st.none() | names), quantifier, until)


plain_primaries = st.builds(t.Primary, types(counted=False), st.none() | names)
negations = st.one_of(
    st.builds(t.Negation, st.tuples(plain_primaries), st.just(False), st.none() | st.integers(1, HOUR)),
    st.builds(t.Negation, st.lists(plain_primaries, min_size=1, max_size=3).map(tuple), st.just(True), st.none() | st.integers(1, HOUR)),
)


def _patterns(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(t.Sequence, st.lists(inner | negations, min_size=1, max_size=4).map(tuple)),
        st.builds(t.Conjunction, several),
        st.builds(t.Disjunction, several),
        st.builds(t.Group, inner, quantifiers),
    )


patterns = st.recursive(primaries(), _patterns, max_leaves=8)


@given(patterns)
def test_a_printed_pattern_is_read_back_to_the_same_tree(pattern: Any) -> None:
    read = parse_pattern(print_pattern(pattern))
    assert read.problems == ()
    assert read.tree == pattern


@given(conditions)
def test_a_printed_condition_is_read_back_to_the_same_tree(condition: Any) -> None:
    read = parse_condition(print_expression(condition))
    assert read.problems == ()
    assert read.tree == condition


@given(values)
def test_a_printed_value_is_read_back_to_the_same_tree(value: Any) -> None:
    read = parse_value(print_expression(value))
    assert read.problems == ()
    assert read.tree == value


@given(conditions, st.sampled_from([str.lower, str.upper]))
def test_keywords_are_read_in_any_case_and_as_signs(condition: Any, case: Any) -> None:
    text = print_expression(condition)
    outside = re.split(r"('(?:[^']|'')*')", text)
    words = re.compile(rf"\b({'|'.join(RESERVED)})\b")
    signs = {"!=": "≠", "<=": "≤", ">=": "≥", "AND": "∧", "OR": "∨"}
    cased = "".join(part if index % 2 else words.sub(lambda found: case(found[0]), part) for index, part in enumerate(outside))
    assert parse_condition(cased).tree == condition
    between = re.search(r"\bBETWEEN\b", text)
    if between is None:
        signed = "".join(
            part if index % 2 else re.sub(r"!=|<=|>=|\bAND\b|\bOR\b", lambda found: signs[found[0]], part)
            for index, part in enumerate(outside)
        )
        assert parse_condition(signed).tree == condition


line_texts = st.text(st.sampled_from("ab'\"\\ .=#:,[]{}!&*?|>-%@é\t1"), min_size=1, max_size=30)
texts = st.lists(line_texts, min_size=1, max_size=3).map("\n".join)


@given(texts, st.sampled_from([None, "'", '"', "|", ">"]), st.sampled_from(["block", "flow"]))
def test_every_character_of_a_scalar_knows_its_place(text: str, style: str | None, form: str) -> None:
    flow = form == "flow"
    content = yaml.dump({"first": 1, "where": text}, default_style=style, allow_unicode=True, width=30, sort_keys=False)
    if flow and style not in ("|", ">"):
        content = yaml.dump([{"where": text}], default_style=style, allow_unicode=True, width=30, default_flow_style=True)
    documents, findings = read_documents("q.yaml", content)
    assert findings == () or "tag" in findings[0].message
    node: Any = documents[0]
    node = node.nodes[0] if flow and style not in ("|", ">") else node
    scalar = next(value for key, value in node.entries if key.text == "where")
    assert isinstance(scalar, Scalar)
    assert scalar.text == text
    assert len(scalar.origin) == len(text) + 1
    assert list(scalar.origin) == sorted(scalar.origin)
    for character, place in zip(text, scalar.origin, strict=False):
        if not character.isspace() and content[place] != "\\":
            assert content[place] == character


pieces = st.sampled_from(
    [
        *"()[]{},.;:!?+*-/%=<>'\"#&|@^~$\\ \n",
        "SEQ(", "AND", "OR", "NOT", "ANY(2; ", "s", "e", "s.tag_id", "e.exit_id", "[tag_id]", "[i-1]", "[..i]", "ShelfReading", "ExitReading e", "'x'",
        "5 s", "5", "1.5e3", "TIMESTAMP '2026-01-01'", "IN (", "BETWEEN", "IS NULL", "LIKE", "UNTIL (", "FOR 5 s", "count(", "sum(s[..i].x)", "≠", "∧",
        "99999999999999999999", "1e999", "{2147483648}", "é",
    ]
)  # fmt: skip
garbage = st.lists(pieces, max_size=12).map("".join) | st.text(max_size=20)


@given(garbage, garbage, garbage)
def test_no_expression_raises(event: str, where: str, field: str) -> None:
    document = yaml.dump(
        {"name": "q", "from": "retail", "event": event, "where": where, "return": {"x": field}, "within": "5 s"}, allow_unicode=True
    )
    compiled = compile_texts([("q.yaml", document)], STREAMS)
    for finding in compiled.findings:
        assert finding.location is not None
        assert finding.render()


FILES = sorted((Path(__file__).parents[1] / "golden").glob("*/*.yaml"))


@given(st.sampled_from(FILES), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), garbage), min_size=1, max_size=3))
def test_no_file_raises(path: Path, edits: list[tuple[float, int, str]]) -> None:
    text = path.read_text(encoding="utf-8")
    for where, removed, inserted in edits:
        at = int(where * len(text))
        text = text[:at] + inserted + text[at + removed :]
    for finding in compile_texts([("q.yaml", text)], STREAMS).findings:
        assert finding.location is not None
        assert finding.render()
