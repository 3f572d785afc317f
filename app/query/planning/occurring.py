"""Types that never occur in a file with inferred types: nobody is asked what a query says of them, and their kinds are guesses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.events.types import Kind
from app.query import expressions as e
from app.query.plan import ConstantTest
from app.query.resolved import resolved as r
from app.query.resolved.vocabulary import BUILT_IN, Vocabulary

FALSE = e.Comparison("=", e.Literal(Kind.INTEGER, 0), e.Literal(Kind.INTEGER, 1))
"""The condition that never holds, in a form that every engine can run."""


def occurs(types: Iterable[str], vocabulary: Vocabulary) -> bool:
    """Whether events of one of the types can come."""
    found = (vocabulary.event_type(name) for name in types)
    return any(known is not None and known.occurs for known in found)


def unknown(node: e.Expression, query: r.Resolved | r.ResolvedTemporal) -> bool:
    """Whether a node is an attribute that no event which is asked for it has.

    Of a binding whose types never occur that is every attribute: another type may have one of that name, of quite another kind.
    """
    if not isinstance(node, e.AttributeOf | e.Aggregate) or node.attribute is None or node.attribute in BUILT_IN:
        return False
    if not query.vocabulary.kinds(node.attribute):
        return True
    return isinstance(query, r.Resolved) and not occurs(query.bindings[node.item].types, query.vocabulary)


def stopping(until: Any, query: r.Resolved) -> Any:
    """The condition of an UNTIL: a comparison with what no event has is false."""
    if isinstance(until, e.COMPARISONS):
        return FALSE if any(unknown(node, query) for node in e.walk(until)) else until
    return e.rebuilt(until, lambda inner: stopping(inner, query))


def fixed_values(query: r.Resolved) -> list[ConstantTest]:
    """``[attr = 'v']`` as tests. None where no type has the attribute: no positive type occurs then, and the value's kind is a guess."""
    types = [query.vocabulary.event_type(name) for binding in query.bindings for name in binding.types]
    return [
        ConstantTest(one.attribute, one.kind, "=", (one.value.value,))
        for one in query.equivalence
        if one.value is not None and any(known is not None and known.attribute(one.attribute) for known in types)
    ]
