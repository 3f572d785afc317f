"""Resolved expressions: what `where:`, `return:` and tests of items become after names and types are known.

Every node knows its kind. The rules for null, absent and unbound are those of queries/README.md, *Conditions*, and
are applied per *comparison*, before NOT, AND and OR. Nothing here evaluates; `app.cep` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any
from typing import Literal as OneOf

from app.events.types import Kind

Constant = bool | int | float | str | bytes | None


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. TIME and DURATION constants are milliseconds: integers, save durations with a fraction and what arithmetic makes of them."""

    kind: Kind
    value: Constant


@dataclass(frozen=True, slots=True)
class Index:
    """Which element of a closure: ``first``, ``last`` (minus ``back``), ``number`` (counted from 1) or ``running`` (``i`` minus ``back``)."""

    anchor: OneOf["first", "last", "number", "running"]
    number: int = 0
    back: int = 0


@dataclass(frozen=True, slots=True)
class AttributeOf:
    """``x.attr``: an attribute (or the built-in ``time``, ``type``) of the event bound to an item."""

    kind: Kind
    item: int
    """Index into `Plan.items`."""
    attribute: str
    index: Index | None = None
    """Only for closure variables."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``count(x)``, ``sum(x.a)`` … of a finished closure, or of its elements up to ``i - back`` (``running``)."""

    kind: Kind
    function: OneOf["count", "sum", "avg", "min", "max", "first", "last"]
    item: int
    attribute: str | None
    running: bool = False
    back: int = 0


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left op right``; time - time is a duration; ``/`` gives a float; ``%`` has the sign of the dividend."""

    kind: Kind
    operator: OneOf["+", "-", "*", "/", "%"]
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negative:
    """Unary minus."""

    kind: Kind
    operand: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """A function: abs min max round floor ceil length lower upper distance haversine."""

    kind: Kind
    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left op right``."""

    operator: OneOf["=", "!=", "<", "<=", ">", ">="]
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class In:
    """``operand [NOT] IN (constants)``."""

    operand: Expression
    values: tuple[Literal, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between:
    """``operand [NOT] BETWEEN low AND high``, inclusive."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """``operand IS [NOT] NULL``."""

    operand: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """``operand [NOT] LIKE pattern`` with a constant pattern (``%``, ``_``)."""

    operand: Expression
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """Logical negation, of the truth of what is inside."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class And:
    """All hold."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one holds."""

    operands: tuple[Expression, ...]


Value = Literal | AttributeOf | Aggregate | Arithmetic | Negative | Call
Condition = Comparison | In | Between | IsNull | Like | Not | And | Or
Expression = Value | Condition

COMPARISONS = (Comparison, In, Between, IsNull, Like)
"""The node types to which the rules for null, absent and unbound apply."""


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all expressions inside, outermost first."""
    yield expression
    for field in fields(expression):
        inner = getattr(expression, field.name)
        for child in inner if isinstance(inner, tuple) else (inner,):
            if isinstance(child, NODES):
                yield from walk(child)


NODES = (Literal, AttributeOf, Aggregate, Arithmetic, Negative, Call, Comparison, In, Between, IsNull, Like, Not, And, Or)


def mentioned_items(expression: Expression) -> frozenset[int]:
    """Indices of the items that the expression speaks of."""
    return frozenset(node.item for node in walk(expression) if isinstance(node, (AttributeOf, Aggregate)))


def rebuilt(expression: Any, change: Callable[[Any], Any]) -> Any:
    """The expression with everything directly inside changed."""
    changes: dict[str, Any] = {}
    for field in fields(expression):
        inner = getattr(expression, field.name)
        if isinstance(inner, tuple) and any(isinstance(child, NODES) for child in inner):
            changes[field.name] = tuple(change(child) for child in inner)
        elif isinstance(inner, NODES):
            changes[field.name] = change(inner)
    return replace(expression, **changes) if changes else expression
