"""Text → syntax tree; and what a person should be told where the grammar ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from lark import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from app.query.tree import tree as t
from app.query.tree.build import MAX_DEPTH, ExpressionBuilder
from app.query.tree.build_pattern import PatternBuilder
from app.query.tree.grammar import RESERVED, parser
from app.query.tree.parse_tree import Branch, Problem

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T]):
    """A tree, or None where the text could not be read, and the problems found."""

    tree: T | None
    problems: tuple[Problem, ...] = ()


def parse_pattern(text: str) -> Parsed[t.Pattern]:
    """``event:``.

    >>> parse_pattern("SEQ(A a, B b)").tree.items[1].variable
    'b'
    """
    return _parse(text, "pattern", lambda builder, branch: PatternBuilder(builder).pattern(branch))


def parse_condition(text: str) -> Parsed[t.Expression]:
    """``where:``."""
    return _parse(text, "predicate", ExpressionBuilder.predicate)


def parse_value(text: str) -> Parsed[t.Expression]:
    """A field of ``return:``."""
    return _parse(text, "value", ExpressionBuilder.value_only)


def parse_opener(text: str) -> Parsed[t.Opener]:
    """``open:`` of a window."""
    return _parse(text, "opener", lambda builder, branch: PatternBuilder(builder).opener(branch))


def parse_interval_test(text: str) -> Parsed[t.IntervalTest]:
    """``valid:`` of a temporal query."""
    return _parse(text, "interval", lambda builder, branch: getattr(builder, branch.data)(branch))


def _parse(text: str, start: str, build: Callable[[ExpressionBuilder, Branch], T]) -> Parsed[T]:
    if not text.strip():
        return Parsed(None, (Problem(f"{_THING[start]} is empty", t.Span(0, 1), _EXAMPLE[start]),))
    builder = ExpressionBuilder()
    try:
        branch = parser().parse(text, start=start)
        built = build(builder, branch)
    except UnexpectedInput as error:
        return Parsed(None, (_problem(text, start, error),))
    except RecursionError:
        hint = f"at most {MAX_DEPTH} levels; a sum that is not nested may have 200 terms"
        return Parsed(None, (Problem("nested too deeply", t.Span(0, len(text)), hint),))
    return Parsed(built, tuple(builder.problems))


_THING = {"pattern": "the pattern", "predicate": "the condition", "value": "the expression", "opener": "the opener", "interval": "the test"}
_EXAMPLE = {
    "pattern": "for instance SEQ(A a, !(B b), C c)",
    "predicate": "for instance [tag_id] AND a.price > 10",
    "value": "for instance a.price",
    "opener": "for instance Quote q WHERE q.symbol IN ('IBM', 'MSFT')",
    "interval": "for instance \">= 3 minutes\", or \"OVERLAPS ('2026-01-01', '2026-01-02')\"",
}


def _problem(text: str, start: str, error: UnexpectedInput) -> Problem:
    if isinstance(error, UnexpectedToken):
        expected = frozenset(error.accepts or error.expected)
        at_end = error.token.type == "$END"
        begin = len(text.rstrip()) - 1 if at_end else error.token.start_pos or 0
        end = begin + 1 if at_end else error.token.end_pos or begin + 1
    else:
        expected = frozenset(getattr(error, "allowed", None) or ())
        begin, at_end = (error.pos_in_stream or 0), False
        end = begin + 1
    wanted = _expectation(expected)
    found = text[begin:end]
    hint = _hint(text, t.Span(begin, end), start, at_end=at_end)
    if at_end:
        return Problem(f"the text ends where {wanted} is expected", t.Span(begin, end), hint, unfinished=True)
    if isinstance(error, UnexpectedCharacters) and found == "'":
        hint = "close it with '; a quote inside is written ''"
        return Problem("a quoted text that does not end", t.Span(begin, len(text.rstrip())), hint, unfinished=True)
    return Problem(f'unexpected "{found}"; expected {wanted}', t.Span(begin, end), hint)


_GROUPS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"LPAR", "NOT", "NAME", "STRING", "INT", "LSQB"}), "a condition"),
    (frozenset({"LPAR", "NAME", "STRING", "INT"}), "a value"),
    (frozenset({"SEQ", "AND", "OR", "ANY", "NAME", "STRING", "BANG"}), "an item such as A a or !(B b)"),
    (frozenset({"SEQ", "AND", "OR", "ANY", "NAME", "STRING"}), "an event type, SEQ, AND, OR or ANY"),
    (frozenset({"ANY", "NAME", "STRING"}), "an event type"),
    (frozenset({"OPERATOR", "IN", "BETWEEN", "LIKE", "IS"}), "a comparison"),
    (frozenset({"PLUS", "MINUS", "STAR", "SLASH"}), "arithmetic"),
    (frozenset({"INT", "STRING", "FLOAT"}), "a constant"),
)
_WORDS = {
    "NAME": "a name", "STRING": "a quoted text", "INT": "a number", "FLOAT": "a number", "DURATION": "a duration such as 5 s",
    "TIMESTAMP": "a timestamp", "LPAR": '"("', "RPAR": '")"', "LSQB": '"["', "RSQB": '"]"', "COMMA": '","', "SEMICOLON": '";"', "DOT": '"."',
    "QUANTIFIER": "a quantifier (+ * ? {n,m})", "BANG": '"!"', "OPERATOR": "a comparison", "BRACKETS": "[]", "UPTO": '".."', "$END": "the end",
    "PLUS": '"+"', "MINUS": '"-"', "STAR": '"*"', "SLASH": '"/"', "PERCENT": '"%"',
}  # fmt: skip
_SWALLOWED = {
    "a condition": {"LPAR", "NOT", "NAME", "STRING", "INT", "LSQB", "FLOAT", "DURATION", "TIMESTAMP", "TRUE", "FALSE", "MINUS"},
    "a value": {"LPAR", "NAME", "STRING", "INT", "FLOAT", "DURATION", "TIMESTAMP", "TRUE", "FALSE", "MINUS", "LSQB"},
    "an item such as A a or !(B b)": {"SEQ", "AND", "OR", "ANY", "NAME", "STRING", "BANG", "NOT", "LPAR"},
    "an event type, SEQ, AND, OR or ANY": {"SEQ", "AND", "OR", "ANY", "NAME", "STRING", "LPAR"},
    "an event type": {"ANY", "NAME", "STRING"},
    "a comparison": {"OPERATOR", "IN", "BETWEEN", "LIKE", "IS", "NOT"},
    "arithmetic": {"PLUS", "MINUS", "STAR", "SLASH", "PERCENT"},
    "a constant": {"INT", "STRING", "FLOAT", "DURATION", "TIMESTAMP", "TRUE", "FALSE", "MINUS"},
}


def _expectation(terminals: frozenset[str]) -> str:
    rest = set(terminals)
    words: list[str] = []
    for group, word in _GROUPS:
        if group <= rest:
            words.append(word)
            rest -= _SWALLOWED[word]
    words += sorted({_WORDS.get(terminal, terminal) for terminal in rest})
    if not words:
        return "something else"
    *firsts, last = list(dict.fromkeys(words))
    return f"{', '.join(firsts)} or {last}" if firsts else last


@dataclass(frozen=True, slots=True)
class _Mistake:
    """Where a text went wrong: what stands before, from there on, and the token itself."""

    before: str
    after: str
    found: str
    in_pattern: bool


def _expressions(test: Callable[[_Mistake], object]) -> Callable[[_Mistake], object]:
    return lambda m: not m.in_pattern and test(m)


def _patterns(test: Callable[[_Mistake], object]) -> Callable[[_Mistake], object]:
    return lambda m: m.in_pattern and test(m)


_HINTS: tuple[tuple[Callable[[_Mistake], object], str], ...] = (
    (lambda m: m.after.startswith("=") and m.before.endswith("="), "equality is written with one ="),
    (lambda m: m.after.startswith(">") and m.before.endswith("<"), "inequality is written !="),
    (lambda m: m.after.startswith("&"), "write AND"),
    (lambda m: m.after.startswith("|"), "write OR"),
    (lambda m: m.found.startswith(('"', "“", "”", "‘", "’", "`")), "texts are quoted with ' (single quotes)"),
    (lambda m: re.search(r"(?i)\bUNTIL$", m.before), "the condition stands in parentheses: UNTIL (a.x > 3)"),
    (lambda m: re.search(r"\[\s*\.\.\s*i$", m.before), "elements up to the one at hand are x[..i], without it x[..i-1]"),
    (lambda m: m.found == "+" and re.search(r"\[\s*i$", m.before), "there is no [i+1]; compare x[i] with x[i-1]"),
    (lambda m: re.search(r"\[[\s-]*$", m.before) and m.found == "-", "elements are counted from the end by x[last], x[last-1]"),
    (_patterns(lambda m: m.after.startswith(("->", "→"))), "events after each other are written SEQ(A a, B b)"),
    (
        _patterns(lambda m: re.match(r"[+*?{]", m.after) and re.search(r"(!|¬|\bNOT)\s*\([^()]*\)$", m.before, re.IGNORECASE)),
        "a negation has no quantifier: no such event at all is !(B b)",
    ),
    (
        _patterns(lambda m: re.search(r"\)\s*([+*?]|\{[\d,]*\})\??$", m.before) and m.found.upper() == "UNTIL"),
        "UNTIL belongs to one item: A a+ UNTIL (a.x > 3)",
    ),
    (_patterns(lambda m: re.search(r"(?i)\bFOR$", m.before)), "write a duration: !(B b) FOR 10 s"),
    (_patterns(lambda m: m.found.upper() == "FOR"), "FOR stands behind a negation: !(B b) FOR 10 s"),
    (_patterns(lambda m: re.search(r"(?i)\bANY\s*\(\s*\d+$", m.before)), "the number is set off by a semicolon: ANY(2; A, B)"),
    (_patterns(lambda m: re.search(r"(?i)\bBY$", m.before)), "write the attribute that differs: ANY(2; A BY attribute)"),
    (_patterns(lambda m: m.found == ")" and m.before.endswith(",")), "leave the last comma out"),
    (_patterns(lambda m: m.found[:1].isdigit()), "names begin with a letter or _"),
    (_patterns(lambda m: m.found == "{"), "a number of times is written {2}, {2,4}, {2,} or {,4}"),
    (
        _patterns(lambda m: re.match(r"[+*?]", m.after) and m.before.endswith(")")),
        "put the quantified part into parentheses: (SEQ(A a, B b))+",
    ),
    (
        _patterns(lambda m: m.found in ("!", "¬") or m.found.upper() == "NOT"),
        "a negation stands only as an item of a SEQ: SEQ(A a, !(B b))",
    ),
    (
        _patterns(lambda m: m.found == "," and not re.search(r"(?i)(seq|and|or|any|not|!|¬)\s*\(", m.before)),
        "events after each other are written SEQ(A a, B b)",
    ),
    (_patterns(lambda m: m.found == ";"), "ANY(n; A, B) takes a number first"),
    (_patterns(lambda m: m.found in (".", "-")), "quote type names that are no plain names: 'BRK.B' b"),
    (_patterns(lambda m: m.found.upper() == "AND"), "AND stands before its operands: AND(A a, B b)"),
    (_patterns(lambda m: m.found.upper() == "OR"), "OR stands before its operands: OR(A a, B b)"),
    (_patterns(lambda m: m.found.upper() == "BY"), "BY stands inside of ANY(n; A, B BY attribute)"),
    (_patterns(lambda m: m.found.upper() == "WHERE"), "conditions stand under where:"),
    (_expressions(lambda m: m.after.startswith("!")), "write NOT"),
    (_expressions(lambda m: m.found in ("=", "<", ">", "<=", ">=", "!=")), "comparisons cannot be chained; write a.x < b.x AND b.x < c.x"),
    (_expressions(lambda m: re.search(r"(?i)\bIN\s*\($", m.before)), "IN takes constants: x.a IN (1, 2)"),
    (_expressions(lambda m: re.search(r"(?i)\bIN$", m.before)), "IN takes constants in parentheses: x.a IN (1, 2)"),
    (_expressions(lambda m: re.search(r"(?i)\bBETWEEN\s+\S+$", m.before)), "BETWEEN takes two bounds: x.a BETWEEN 1 AND 5"),
    (_expressions(lambda m: re.search(r"(?i)\bLIKE$", m.before)), "LIKE takes a constant pattern: x.a LIKE 'ab%'"),
    (_expressions(lambda m: m.found == "," and re.search(r"\[[\w.]+$", m.before)), "several attributes are written [a] AND [b]"),
    (_expressions(lambda m: m.found.upper() == "NULL"), "null is asked for by IS NULL or IS NOT NULL"),
    (_expressions(lambda m: re.match(r"\.\d", m.after)), "numbers begin with a digit: 0.5"),
    (
        _expressions(lambda m: re.search(r"\d$", m.before) and re.match(r"[^\W\d]+$", m.found)),
        "units of durations are ms, s, m, h, d, w and their words",
    ),
)


def _hint(text: str, span: t.Span, start: str, *, at_end: bool) -> str:
    found = text[span.start : span.end]
    in_until = start == "pattern" and _inside_until(text[: span.start])
    in_pattern = start == "pattern" and not in_until
    if start == "interval":
        return "it is the length alone that is compared: >= 3 minutes; or OVERLAPS, CONTAINS or DURING with (from, to)"
    if not at_end:
        mistake = _Mistake(text[: span.start].rstrip(), text[span.start :], found, in_pattern)
        for matches, hint in _HINTS:
            if matches(mistake):
                return hint
    if (at_end or (in_until and found == ",")) and text.count("(") > text.count(")"):
        return 'a ")" is missing'
    if found == ")" and text.count(")") > text.count("("):
        return 'there is one ")" too many'
    if not at_end and found.upper() in RESERVED:
        return f'"{found}" is a reserved word; choose another name' + (f", or quote it as a type: '{found}'" if in_pattern else "")
    return "for instance UNTIL (a.price > 10)" if in_until else _EXAMPLE[start]


def _inside_until(before: str) -> bool:
    """Whether what follows stands between the parentheses of an UNTIL, where a pattern holds an expression."""
    around: list[bool] = []
    for part in re.finditer(r"'(?:[^']|'')*'|(\bUNTIL\s*)?\(|\)", before, re.IGNORECASE):
        if part[0].endswith("("):
            around.append(part[1] is not None or around[-1:] == [True])
        elif part[0] == ")" and around:
            around.pop()
    return around[-1:] == [True]
