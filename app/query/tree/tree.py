"""The syntax tree: what a query's expressions say, word for word, before any name is known.

Spans count the characters of the text that was parsed; they do not take part in comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf


@dataclass(frozen=True, slots=True)
class Span:
    """Characters ``start:end`` of an expression's text."""

    start: int
    end: int


NOWHERE = Span(0, 0)


# --- patterns (section 3) ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quantifier:
    """``+ * ? {n} {n,m}``: from ``low`` to ``high`` times (None: no end), reluctant or not."""

    low: int
    high: int | None
    reluctant: bool = False
    optional: bool = False
    """Written ``?``; ``{0,1}`` is a closure."""
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def closure(self) -> bool:
        """Whether it makes closure variables: every quantifier but ``?``, which is ``{0,1}`` as written with a question mark."""
        return not self.optional


@dataclass(frozen=True, slots=True)
class TypeName:
    """An event type, as written."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Types:
    """``A``, ``ANY(A, B)``, ``ANY(n; A, B by attr)``."""

    names: tuple[TypeName, ...]
    count: int | None = None
    by: str | None = None
    any: bool = False
    """Whether ANY is written; ``ANY(A)`` means ``A``."""
    by_span: Span = field(default=NOWHERE, compare=False)
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Primary:
    """One place of the pattern: types, perhaps a variable, a quantifier, an UNTIL."""

    types: Types
    variable: str | None = None
    quantifier: Quantifier | None = None
    until: Expression | None = None
    variable_span: Span = field(default=NOWHERE, compare=False)
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """``!(B b)``, ``!(AND(B b, C c))``, at the end perhaps ``FOR 10 s``."""

    parts: tuple[Primary, ...]
    conjunction: bool = False
    for_ms: int | None = None
    for_span: Span = field(default=NOWHERE, compare=False)
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Sequence:
    """``SEQ(...)``."""

    items: tuple[Pattern | Negation, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Conjunction:
    """``AND(...)``."""

    operands: tuple[Pattern, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Disjunction:
    """``OR(...)``."""

    operands: tuple[Pattern, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Group:
    """``( ... )`` with a quantifier; parentheses without one leave no trace."""

    inner: Pattern
    quantifier: Quantifier
    span: Span = field(default=NOWHERE, compare=False)


Pattern = Primary | Sequence | Conjunction | Disjunction | Group


@dataclass(frozen=True, slots=True)
class Opener:
    """``Quote q WHERE q.symbol IN ('IBM')``: the event that opens a window."""

    types: Types
    variable: str | None
    where: Expression | None
    span: Span = field(default=NOWHERE, compare=False)


# --- expressions (section 4) ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. Durations and timestamps are milliseconds; durations with their fraction, where they have one."""

    kind: OneOf["integer", "float", "string", "boolean", "duration", "timestamp"]
    value: bool | int | float | str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ClosureIndex:
    """``[first] [last-1] [2] [i] [i-1] [..i]``."""

    anchor: OneOf["first", "last", "number", "running", "upto"]
    number: int = 0
    back: int = 0
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Reference:
    """``x``, ``x.attr``, ``x[last].tags[0]``; in temporal queries a bare path whose first name is ``variable``."""

    variable: str
    index: ClosureIndex | None = None
    path: str = ""
    """Attribute path as schemas name it: ``a.b``, ``tags[0]``, ``labels['k']``; empty for the variable itself."""
    variable_span: Span = field(default=NOWHERE, compare=False)
    path_span: Span = field(default=NOWHERE, compare=False)
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an aggregate."""

    function: str
    arguments: tuple[Expression, ...]
    name_span: Span = field(default=NOWHERE, compare=False)
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Negative:
    """Unary minus."""

    operand: Expression
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left op right``."""

    operator: OneOf["+", "-", "*", "/", "%"]
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left op right``."""

    operator: OneOf["=", "!=", "<", "<=", ">", ">="]
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class In:
    """``operand [NOT] IN (constants)``."""

    operand: Expression
    values: tuple[Constant, ...]
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Between:
    """``operand [NOT] BETWEEN low AND high``."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    """``operand IS [NOT] NULL``."""

    operand: Expression
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Like:
    """``operand [NOT] LIKE 'pattern'``."""

    operand: Expression
    pattern: str
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Equivalence:
    """``[attr]`` or ``[attr = 'v']``."""

    path: str
    value: Constant | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """Logical negation."""

    operand: Expression
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class And:
    """All hold. An And inside an And was written in parentheses: it is one predicate."""

    operands: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Or:
    """At least one holds."""

    operands: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class IntervalTest:
    """``valid:`` of a temporal query: the interval's length compared, or its place."""

    operator: OneOf["<", "<=", ">", ">=", "OVERLAPS", "CONTAINS", "DURING"]
    length_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


Value = Constant | Reference | Call | Negative | Arithmetic
Condition = Comparison | In | Between | IsNull | Like | Equivalence | Not | And | Or
Expression = Value | Condition


def bare_path(node: Reference) -> str:
    """The attribute that a reference without variable means (temporal queries)."""
    return attribute_of(node.variable if node.index is None else f"{node.variable}[{node.index.number}]", node.path)


def attribute_of(head: str, path: str) -> str:
    """``head.path`` as it is written: no dot before brackets.

    >>> attribute_of("x[last]", "tags[0]"), attribute_of("x", "['k'].y"), attribute_of("x", "")
    ('x[last].tags[0]', "x['k'].y", 'x')
    """
    return head + ("" if not path or path.startswith("[") else ".") + path
