"""Query files → `tests.naive.patterns`. Only the syntax tree is the application's; what it means is not asked there."""

from __future__ import annotations

from typing import Any

import yaml

from app.config.durations import parse_duration
from app.query.tree import tree as t
from app.query.tree.parse import parse_condition, parse_opener, parse_pattern, parse_value
from tests.naive import language as n
from tests.naive import patterns as p

AGGREGATES = ("count", "sum", "avg", "min", "max", "first", "last")


def query_of(content: str) -> p.WholeQuery:
    """The query of a file."""
    given = yaml.safe_load(content)
    where = whole(parse_condition(given["where"])) if "where" in given else None
    parts = where.operands if isinstance(where, t.And) else (where,) * (where is not None)
    strategy = given.get("strategy", "skip-till-any-match")
    ways = dict(strategy) if isinstance(strategy, dict) else {"default": strategy}
    returns = (
        {name: expression_of(whole(parse_value(str(entry)))) for name, entry in given["return"].items()} if "return" in given else None
    )
    return p.WholeQuery(
        pattern=pattern_of(whole(parse_pattern(given["event"]))),
        equivalence=tuple(
            n.Equivalence(part.path, expression_of(part.value) if part.value is not None else None)
            for part in parts
            if isinstance(part, t.Equivalence)
        ),
        where=tuple(expression_of(part) for part in parts if not isinstance(part, t.Equivalence)),
        within=span_of(given["within"]) if "within" in given else None,
        window=window_of(given["window"]) if "window" in given else None,
        max_gap=span_of(given["max_gap"]).size if "max_gap" in given else None,
        strategy=ways.pop("default", "skip-till-any-match"),
        ways=ways,
        after=given.get("after", "no-skip"),
        longest=given.get("emit") == "longest",
        timeouts=given.get("on_timeout") == "emit",
        returns=tuple(returns.items()) if returns is not None else None,
        name=given["name"],
        version=given.get("version", 1),
    )


def whole(parsed: Any) -> Any:
    assert parsed.tree is not None and not parsed.problems, parsed.problems
    return parsed.tree


def span_of(written: str) -> p.Span:
    if written.endswith("events"):
        return p.Span(int(written.split(maxsplit=1)[0]), "events")
    return p.Span(int(parse_duration(written)))


def window_of(given: dict[str, Any]) -> p.Window:
    opener = whole(parse_opener(given["open"])) if "open" in given else None
    return p.Window(
        span_of(given["size"]),
        span_of(given["slide"]) if "slide" in given else None,
        given.get("per") == "partition",
        p.Item(tuple(name.name for name in opener.types.names), opener.variable) if opener else None,
        expression_of(opener.where) if opener and opener.where is not None else None,
    )


def pattern_of(node: Any) -> Any:
    match node:
        case t.Primary():
            return p.Item(
                tuple(dict.fromkeys(name.name for name in node.types.names)),
                node.variable,
                quantifier_of(node.quantifier),
                node.types.count,
                node.types.by,
                expression_of(node.until) if node.until is not None else None,
            )
        case t.Negation():
            return p.Absence(tuple(pattern_of(part) for part in node.parts), node.for_ms)
        case t.Group():
            return p.Group(pattern_of(node.inner), quantifier_of(node.quantifier))
        case t.Sequence():
            return p.Seq(tuple(map(pattern_of, node.items)))
        case t.Conjunction():
            return p.All(tuple(map(pattern_of, node.operands)))
        case t.Disjunction():
            return p.OneOf(tuple(map(pattern_of, node.operands)))
    raise TypeError(node)


def quantifier_of(quantifier: t.Quantifier | None) -> p.Quantifier | None:
    return quantifier and p.Quantifier(quantifier.low, quantifier.high, quantifier.reluctant, quantifier.optional)


def expression_of(node: Any) -> Any:
    of = expression_of
    match node:
        case t.Constant(kind, value):
            return n.Const(value, {"timestamp": "time"}.get(kind, kind))
        case t.Reference():
            return reference_of(node)
        case t.Call(function, (t.Reference() as reference,)) if function in AGGREGATES:
            index = reference.index
            return n.Aggregate(function, reference.variable, reference.path or None, index is not None, index.back if index else 0)
        case t.Call(function, arguments):
            return n.Call(function, tuple(map(of, arguments)))
        case t.Negative(operand):
            return n.Minus(of(operand))
        case t.Arithmetic(operator, left, right):
            return n.Arith(operator, of(left), of(right))
        case t.Comparison(operator, left, right):
            return n.Compare(operator, of(left), of(right))
        case t.In(operand, values, negated):
            return n.In(of(operand), tuple(map(of, values)), negated)
        case t.Between(operand, low, high, negated):
            return n.Between(of(operand), of(low), of(high), negated)
        case t.IsNull(operand, negated):
            return n.IsNull(of(operand), negated)
        case t.Like(operand, pattern, negated):
            return n.Like(of(operand), pattern, negated)
        case t.Not(operand):
            return n.Not(of(operand))
        case t.And(operands):
            return n.And(tuple(map(of, operands)))
        case t.Or(operands):
            return n.Or(tuple(map(of, operands)))
    raise TypeError(node)


def reference_of(node: t.Reference) -> Any:
    index = node.index
    if index is None:
        return n.Attr(node.variable, node.path)
    anchor = {"number": index.number, "running": "i"}.get(index.anchor, index.anchor)
    return n.Element(node.variable, anchor, node.path, index.back)
