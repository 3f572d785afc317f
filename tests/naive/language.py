"""A query as the definitions of the language page speak of it: tiny value objects, and the same as text.

Independent of `app.query` on purpose: what is wrong there must not be wrong here too. Events are plain dicts
``{"type": .., "time": ms, "source": n, "offset": n, "attributes": {name: value}}``; an attribute that the event's schema
does not have is missing from ``attributes``, a null one is ``None``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Const:
    """A constant; ``kind`` is one of boolean, integer, float, string, time, duration (both in ms)."""

    value: Any
    kind: str


@dataclass(frozen=True, slots=True)
class Attr:
    """``var.name``; ``time`` and ``type`` are the built-in ones."""

    var: str
    name: str


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a closure: ``var[anchor].name``, ``anchor`` one of first, last, i (the last two minus ``back``) or its number from 1."""

    var: str
    anchor: str | int
    name: str
    back: int = 0


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``function(var.name)``; ``running``: ``function(var[..i-back].name)``. ``count`` has no name."""

    function: str
    var: str
    name: str | None = None
    running: bool = False
    back: int = 0


@dataclass(frozen=True, slots=True)
class Arith:
    """``left op right`` with one of ``+ - * / %``."""

    op: str
    left: Any
    right: Any


@dataclass(frozen=True, slots=True)
class Minus:
    """Unary minus."""

    operand: Any


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the language page, section 4."""

    function: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """``left op right`` with one of ``= != < <= > >=``."""

    op: str
    left: Any
    right: Any


@dataclass(frozen=True, slots=True)
class In:
    """``operand [NOT] IN (values)``."""

    operand: Any
    values: tuple[Const, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between:
    """``operand [NOT] BETWEEN low AND high``."""

    operand: Any
    low: Any
    high: Any
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """``operand IS [NOT] NULL``."""

    operand: Any
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """``operand [NOT] LIKE 'pattern'``."""

    operand: Any
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """Logical negation."""

    operand: Any


@dataclass(frozen=True, slots=True)
class And:
    """All hold. As an element of `Query.where` it is one predicate: it is written in parentheses."""

    operands: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one holds."""

    operands: tuple[Any, ...]


COMPARISONS = (Compare, In, Between, IsNull, Like)


@dataclass(frozen=True, slots=True)
class Item:
    """An item of the sequence; several types mean ``ANY(A, B)``."""

    types: tuple[str, ...]
    var: str | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Equivalence:
    """``[attribute]`` or ``[attribute = value]``."""

    attribute: str
    value: Const | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A sequence under skip-till-any-match."""

    items: tuple[Item, ...]
    equivalence: tuple[Equivalence, ...] = ()
    where: tuple[Any, ...] = ()
    """The arguments of the outermost ANDs, apart from the equivalence tests."""
    within: int | None = None
    """Milliseconds."""
    returns: tuple[tuple[str, Any], ...] | None = None
    """None: the default return."""
    name: str = "q"
    version: int = 1

    @property
    def positive(self) -> tuple[int, ...]:
        """Indices of the items that a match binds."""
        return tuple(i for i, item in enumerate(self.items) if not item.negated)


def references(expression: Any) -> Iterator[Any]:
    """All ``x.attr``, ``x[..].attr`` and aggregates in an expression."""
    if isinstance(expression, Attr | Element | Aggregate):
        yield expression
    elif isinstance(expression, tuple):
        for element in expression:
            yield from references(element)
    elif hasattr(expression, "__dataclass_fields__"):
        for field in fields(expression):
            yield from references(getattr(expression, field.name))


def mentioned(expression: Any) -> frozenset[str]:
    """The variables that an expression mentions."""
    return frozenset(reference.var for reference in references(expression))


def text(expression: Any) -> str:
    """The expression as a person would write it (with more parentheses than a person would use)."""
    match expression:
        case Const(value, kind):
            return constant_text(value, kind)
        case Attr(var, name):
            return f"{var}.{name}"
        case Element(var, anchor, name, back):
            return f"{var}[{anchor}{minus(back)}].{name}"
        case Aggregate(function, var, name, running, back):
            return f"{function}({var}{f'[..i{minus(back)}]' * running}{f'.{name}' * (name is not None)})"
        case Arith(op, left, right):
            return f"({text(left)} {op} {text(right)})"
        case Minus(operand):
            return f"-({text(operand)})"
        case Call(function, arguments):
            return f"{function}({', '.join(map(text, arguments))})"
        case Compare(op, left, right):
            return f"{text(left)} {op} {text(right)}"
        case In(operand, values, negated):
            return f"{text(operand)} {'NOT ' * negated}IN ({', '.join(map(text, values))})"
        case Between(operand, low, high, negated):
            return f"{text(operand)} {'NOT ' * negated}BETWEEN {text(low)} AND {text(high)}"
        case IsNull(operand, negated):
            return f"{text(operand)} IS {'NOT ' * negated}NULL"
        case Like(operand, pattern, negated):
            return f"{text(operand)} {'NOT ' * negated}LIKE {constant_text(pattern, 'string')}"
        case Not(operand):
            return f"NOT ({text(operand)})"
        case And(operands):
            return "(" + " AND ".join(map(text, operands)) + ")"
        case Or(operands):
            return "(" + " OR ".join(map(text, operands)) + ")"
    raise TypeError(expression)


def minus(back: int) -> str:
    return f"-{back}" * (back > 0)


def constant_text(value: Any, kind: str) -> str:
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "string":
        return "'" + value.replace("'", "''") + "'"
    if kind == "duration":
        return f"{value} ms"
    if kind == "time":
        moment = datetime.fromtimestamp(value / 1000, UTC)
        return f"TIMESTAMP '{moment:%Y-%m-%dT%H:%M:%S}.{value % 1000:03d}Z'"
    return repr(value)


def pattern_text(query: Query) -> str:
    """The text behind ``event:``."""

    def item_text(item: Item) -> str:
        names = [name if name.isidentifier() else constant_text(name, "string") for name in item.types]
        types = names[0] if len(names) == 1 else f"ANY({', '.join(names)})"
        body = f"{types} {item.var}" if item.var else types
        return f"!({body})" if item.negated else body

    return f"SEQ({', '.join(map(item_text, query.items))})"


def where_text(query: Query) -> str:
    """The text behind ``where:``; empty if there is no condition."""
    tests = [f"[{e.attribute}]" if e.value is None else f"[{e.attribute} = {text(e.value)}]" for e in query.equivalence]
    return " AND ".join([*tests, *map(text, query.where)])


def yaml_text(query: Query, stream: str | None = None) -> str:
    """The query file."""

    def quoted(content: str) -> str:
        return '"' + content.replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = [f"name: {query.name}", f"version: {query.version}"]
    if stream:
        lines.append(f"from: {stream}")
    lines.append(f"event: {quoted(pattern_text(query))}")
    if where := where_text(query):
        lines.append(f"where: {quoted(where)}")
    if query.within is not None:
        lines.append(f"within: {query.within} ms")
    if query.returns is not None:
        lines.append("return:")
        lines += [f"  {name}: {quoted(text(expression))}" for name, expression in query.returns]
    return "\n".join(lines) + "\n"
