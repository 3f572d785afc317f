"""What of a query only the runs evaluator can run, feature by feature: the planner asks whether there is any, people ask which."""

from __future__ import annotations

from collections.abc import Iterator

from app.query import expressions as e
from app.query.resolved import resolved as r
from app.query.resolved.resolve_keys import strategies
from app.query.text import keys as k
from app.query.tree import tree as t

_KEYS = ("window", "max_gap", "limits")


def runs_features(query: r.Resolved) -> Iterator[str]:
    """The features that need the runs evaluator, in words; none for plain sequences under skip-till-any-match."""
    document = query.document
    pattern = query.pattern if isinstance(query.pattern, r.Series) else r.Series((query.pattern,))
    for item in pattern.items:
        yield from _features_of(item, query)
    default, apart = strategies(query)
    if default != k.STRATEGIES[0]:
        yield f"strategy {default}"
    yield from (f"strategy {one.value} of {name}" for name, one in apart.items() if one.value != k.STRATEGIES[0])
    within = document.plain("within")
    if within is not None and within.unit == "events":
        yield "within in events"
    yield from (f"{key}:" for key in _KEYS if key in document.values)
    after = document.plain("after", "no-skip")
    if after != "no-skip":
        yield f"after: {after}"
    if document.plain("emit", "each") == "longest":
        yield "emit: longest"
    shedder = document.record("shedding").get("shedder")
    if shedder is not None and shedder.value in k.MATCH_SHEDDERS:
        yield f"the shedder {shedder.value}, which drops partial matches"
    emits = document.plain("on_timeout", "drop") == "emit"
    if any(_counts(predicate.condition, query, emits=emits) for predicate in query.predicates):
        yield "an aggregate in where:"
    if any(_counts(field.expression, query, emits=emits) for field in query.returns):
        yield "an aggregate in return:"


def _features_of(item: r.Node, query: r.Resolved) -> Iterator[str]:
    match item:
        case r.Leaf():
            yield from _features_of_leaf(item, query)
        case r.Absence(parts, for_ms):
            if len(parts) > 1:
                yield "a negated AND"
            if for_ms is not None:
                yield "a negation with FOR"
        case r.Series(items):
            yield "a SEQ inside the pattern"
            for one in items:
                yield from _features_of(one, query)
        case r.AllOf():
            yield "AND"
        case r.OneOf():
            yield "OR"
        case _:
            yield "a repeated group"


def _features_of_leaf(leaf: r.Leaf, query: r.Resolved) -> Iterator[str]:
    binding = query.bindings[leaf.binding]
    name = binding.variable or "/".join(leaf.types) or "of any type"
    if leaf.count is not None:
        yield f"ANY({leaf.count}; ..) {name}"
    if leaf.quantifier is not None:
        optional = (leaf.quantifier.low, leaf.quantifier.high) == (0, 1)
        yield f"{'optional item' if optional else 'closure'} {name}{quantifier_text(leaf.quantifier)}"
    if leaf.until is not None:
        yield f"UNTIL of {name}"


def quantifier_text(quantifier: t.Quantifier) -> str:
    """As it is written: ``+``, ``*``, ``?``, ``{n,m}``.

    >>> quantifier_text(t.Quantifier(1, None)), quantifier_text(t.Quantifier(2, 5, reluctant=True))
    ('+', '{2,5}?')
    """
    low, high = quantifier.low, quantifier.high
    short = {(0, 1): "?", (0, None): "*", (1, None): "+", (1, 1): "{1}"}.get((low, high))
    text = short or (f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}")
    return text + ("?" if quantifier.reluctant else "")


def _counts(expression: e.Expression, query: r.Resolved, *, emits: bool) -> bool:
    """Whether an aggregate says more than 1: of an item that every match binds once, only partial matches count otherwise."""
    counted = [query.bindings[node.item] for node in e.walk(expression) if isinstance(node, e.Aggregate)]
    return any(emits or binding.closure or binding.optional for binding in counted)
