"""Syntax tree → text, in the one form that the parser reads back to the same tree."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from app.config.durations import format_duration
from app.query.tree import tree as t
from app.query.tree.grammar import RESERVED
from app.query.tree.timestamps import format_timestamp

_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


def print_pattern(node: t.Pattern | t.Negation) -> str:
    """A pattern as text.

    >>> from app.query.tree.parse import parse_pattern
    >>> print_pattern(parse_pattern("seq(A+ a[], ¬(B b) for 90 s)").tree)
    'SEQ(A a+, !(B b) FOR 90 s)'
    """
    return _PATTERNS[type(node)](node)


def _sequence(node: t.Sequence) -> str:
    return f"SEQ({', '.join(print_pattern(item) for item in node.items)})"


def _group(node: t.Group) -> str:
    return f"({print_pattern(node.inner)}){print_quantifier(node.quantifier)}"


def _negation(node: t.Negation) -> str:
    inner = ", ".join(_primary(part) for part in node.parts)
    text = f"!(AND({inner}))" if node.conjunction else f"!({inner})"
    return text if node.for_ms is None else f"{text} FOR {format_duration(node.for_ms)}"


def _primary(node: t.Primary) -> str:
    text = print_types(node.types)
    if node.variable is not None:
        text += f" {node.variable}"
    if node.quantifier is not None:
        text += print_quantifier(node.quantifier)
    return text if node.until is None else f"{text} UNTIL ({print_expression(node.until)})"


_PATTERNS: dict[type, Callable[[Any], str]] = {
    t.Sequence: _sequence,
    t.Conjunction: lambda node: f"AND({', '.join(print_pattern(operand) for operand in node.operands)})",
    t.Disjunction: lambda node: f"OR({', '.join(print_pattern(operand) for operand in node.operands)})",
    t.Group: _group,
    t.Negation: _negation,
    t.Primary: _primary,
}


def print_types(node: t.Types) -> str:
    """``A``, ``ANY(A, B)``, ``ANY(2; A, B BY attr)``."""
    names = ", ".join(print_type(name.name) for name in node.names)
    if not node.any:
        return names
    count = "" if node.count is None else f"{node.count}; "
    by = "" if node.by is None else f" BY {node.by}"
    return f"ANY({count}{names}{by})"


def print_type(name: str) -> str:
    """A type name, quoted where it is no plain one.

    >>> print_type("BRK.B"), print_type("Any"), print_type("A")
    ("'BRK.B'", "'Any'", 'A')
    """
    plain = _PLAIN_NAME.fullmatch(name) is not None and name.upper() not in RESERVED
    return name if plain else quote(name)


def print_quantifier(node: t.Quantifier) -> str:
    """``+``, ``*``, ``?``, ``{2}``, ``{2,}``, ``{0,3}``, with ``?`` when reluctant."""
    if node.optional:
        text = "?"
    elif node.high is None and node.low <= 1:
        text = "*" if node.low == 0 else "+"
    elif node.high == node.low:
        text = f"{{{node.low}}}"
    else:
        text = f"{{{node.low},{'' if node.high is None else node.high}}}"
    return text + ("?" if node.reluctant else "")


def print_opener(node: t.Opener) -> str:
    """``Quote q WHERE …``."""
    variable = "" if node.variable is None else f" {node.variable}"
    return f"{print_types(node.types)}{variable}" + ("" if node.where is None else f" WHERE {print_expression(node.where)}")


def print_interval_test(node: t.IntervalTest) -> str:
    """``>= 3 m``, ``DURING ('…', '…')``."""
    if node.length_ms is not None:
        return f"{node.operator} {format_duration(node.length_ms)}"
    return f"{node.operator} ({_moment(node.start_ms or 0)}, {_moment(node.end_ms or 0)})"


def _moment(milliseconds: int) -> str:
    return quote(format_timestamp(milliseconds)) if milliseconds < 0 else str(milliseconds)


def quote(text: str) -> str:
    """A text in single quotes."""
    return "'" + text.replace("'", "''") + "'"


OR_LEVEL, AND_LEVEL, NOT_LEVEL, COMPARISON_LEVEL, SUM_LEVEL, PRODUCT_LEVEL, UNARY_LEVEL, ATOM_LEVEL = range(8)
_LEVELS: dict[type, int] = {
    t.Or: OR_LEVEL,
    t.And: AND_LEVEL,
    t.Not: NOT_LEVEL,
    t.Comparison: COMPARISON_LEVEL,
    t.In: COMPARISON_LEVEL,
    t.Between: COMPARISON_LEVEL,
    t.IsNull: COMPARISON_LEVEL,
    t.Like: COMPARISON_LEVEL,
    t.Negative: UNARY_LEVEL,
}


def print_expression(node: t.Expression, level: int = OR_LEVEL) -> str:
    """An expression as text; in parentheses where it binds less tightly than ``level``.

    >>> from app.query.tree.parse import parse_condition
    >>> print_expression(parse_condition("(a.x+1)*2 ≥ 3 and (b.y=1 and c.z=2)").tree)
    '(a.x + 1) * 2 >= 3 AND (b.y = 1 AND c.z = 2)'
    """
    own = _LEVELS.get(type(node), ATOM_LEVEL)
    if isinstance(node, t.Arithmetic):
        own = SUM_LEVEL if node.operator in "+-" else PRODUCT_LEVEL
    text = _EXPRESSIONS[type(node)](node)
    return f"({text})" if own < level else text


def _constant(node: t.Constant) -> str:
    value = node.value
    if node.kind == "string":
        return quote(str(value))
    if node.kind == "boolean":
        return "true" if value else "false"
    if node.kind == "duration":
        duration = float(value) if isinstance(value, float) else int(value)
        return f"-{format_duration(-duration)}" if duration < 0 else format_duration(duration)
    if node.kind == "timestamp":
        return f"TIMESTAMP {quote(format_timestamp(int(value)))}"
    return repr(value)


def _reference(node: t.Reference) -> str:
    index = "" if node.index is None else print_index(node.index)
    return t.attribute_of(f"{node.variable}{index}", node.path)


def print_index(node: t.ClosureIndex) -> str:
    """``[first]``, ``[last-1]``, ``[2]``, ``[i-1]``, ``[..i]``."""
    words = {"first": "first", "last": "last", "number": str(node.number), "running": "i", "upto": "..i"}
    return f"[{words[node.anchor]}{f'-{node.back}' if node.back else ''}]"


def _arithmetic(node: t.Arithmetic) -> str:
    own = SUM_LEVEL if node.operator in "+-" else PRODUCT_LEVEL
    return f"{print_expression(node.left, own)} {node.operator} {print_expression(node.right, own + 1)}"


def _in(node: t.In) -> str:
    values = ", ".join(_constant(value) for value in node.values)
    return f"{print_expression(node.operand, SUM_LEVEL)}{_not(node.negated)} IN ({values})"


def _between(node: t.Between) -> str:
    operand, low, high = (print_expression(part, SUM_LEVEL) for part in (node.operand, node.low, node.high))
    return f"{operand}{_not(node.negated)} BETWEEN {low} AND {high}"


def _not(negated: bool) -> str:  # noqa: FBT001
    return " NOT" if negated else ""


def _equivalence(node: t.Equivalence) -> str:
    return f"[{node.path}]" if node.value is None else f"[{node.path} = {_constant(node.value)}]"


_EXPRESSIONS: dict[type, Callable[[Any], str]] = {
    t.Constant: _constant,
    t.Reference: _reference,
    t.Call: lambda node: f"{node.function}({', '.join(print_expression(argument) for argument in node.arguments)})",
    t.Negative: lambda node: f"-{print_expression(node.operand, ATOM_LEVEL)}",
    t.Arithmetic: _arithmetic,
    t.Comparison: lambda node: f"{print_expression(node.left, SUM_LEVEL)} {node.operator} {print_expression(node.right, SUM_LEVEL)}",
    t.In: _in,
    t.Between: _between,
    t.IsNull: lambda node: f"{print_expression(node.operand, SUM_LEVEL)} IS{_not(node.negated)} NULL",
    t.Like: lambda node: f"{print_expression(node.operand, SUM_LEVEL)}{_not(node.negated)} LIKE {quote(node.pattern)}",
    t.Equivalence: _equivalence,
    t.Not: lambda node: f"NOT {print_expression(node.operand, NOT_LEVEL)}",
    t.And: lambda node: " AND ".join(print_expression(operand, NOT_LEVEL) for operand in node.operands),
    t.Or: lambda node: " OR ".join(print_expression(operand, AND_LEVEL) for operand in node.operands),
}
