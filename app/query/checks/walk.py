"""What a query's expressions are made of, part by part."""

from __future__ import annotations

from collections.abc import Iterator

from app.query.resolved import resolved as r
from app.query.tree import tree as t


def primaries(query: r.Resolved) -> Iterator[t.Primary]:
    """The places of a pattern, negated ones too."""
    event = query.document.expression("event")
    stack = [event.tree] if event is not None else []
    while stack:
        node = stack.pop()
        if isinstance(node, t.Primary):
            yield node
        elif isinstance(node, t.Negation):
            stack.extend(node.parts)
        elif isinstance(node, t.Group):
            stack.append(node.inner)
        else:
            stack.extend(node.items if isinstance(node, t.Sequence) else node.operands)


def parts(node: t.Expression) -> Iterator[t.Expression]:
    """An expression and all in it, from left to right."""
    yield node
    inner: tuple[t.Expression, ...] = ()
    if isinstance(node, t.And | t.Or):
        inner = node.operands
    elif isinstance(node, t.Call):
        inner = node.arguments
    elif isinstance(node, t.Comparison | t.Arithmetic):
        inner = (node.left, node.right)
    elif isinstance(node, t.Between):
        inner = (node.operand, node.low, node.high)
    elif isinstance(node, t.Not | t.Negative | t.In | t.IsNull | t.Like):
        inner = (node.operand,)
    for part in inner:
        yield from parts(part)
