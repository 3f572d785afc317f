"""Parse trees of lark → syntax tree, with the rules that the grammar alone cannot tell (section 3 and 4, "is an error").

Every builder returns a node also where it reports a problem, so that one text can have several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lark import Token, Tree

from app.config.durations import parse_duration
from app.query import tree as t
from app.query.timestamps import parse_timestamp

MAX_COUNT = 2_147_483_647
MAX_DEPTH = 100
"""Deeper nesting is refused: later passes recurse."""

Branch: TypeAlias = Tree


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in an expression's text."""

    message: str
    span: t.Span
    hint: str | None = None


@dataclass(slots=True)
class Builder:
    """Collects the problems of one text while its tree is built."""

    problems: list[Problem] = field(default_factory=list)
    depth: int = 0

    def report(self, message: str, span: t.Span, hint: str | None = None) -> None:
        """One more problem."""
        self.problems.append(Problem(message, span, hint))

    # --- entrances ---------------------------------------------------------------------------------------------------------

    def pattern(self, branch: Branch) -> t.Pattern:
        """``event:``."""
        return self._node(_branches(branch)[0])

    def predicate(self, branch: Branch) -> t.Expression:
        """``where:`` and ``UNTIL ( )``."""
        return self.condition(_branches(branch)[0])

    def value_only(self, branch: Branch) -> t.Expression:
        """A field of ``return:``."""
        return self.value(_branches(branch)[0])

    def opener(self, branch: Branch) -> t.Opener:
        """``open:`` of a window."""
        types, *rest = branch.children
        name = next((part for part in rest if isinstance(part, Token) and part.type == "NAME"), None)
        where = next((part for part in rest if isinstance(part, Tree)), None)
        return t.Opener(self._types(_tree(types)), str(name) if name else None, self.condition(where) if where else None, span_of(branch))

    def interval_length(self, branch: Branch) -> t.IntervalTest:
        """``valid: ">= 3 minutes"``."""
        operator = _operator(_token(branch.children[0]))
        if operator in ("=", "!="):
            self.report(f'the length of an interval is not compared by "{operator}"', span_of(branch.children[0]), "write one of < <= > >=")
            operator = ">="
        return t.IntervalTest(operator, length_ms=parse_duration(str(branch.children[1])), span=span_of(branch))  # type: ignore[arg-type]

    def interval_place(self, branch: Branch) -> t.IntervalTest:
        """``valid: "OVERLAPS ('2026-01-01', '2026-01-02')"``."""
        name = str(branch.children[0]).upper()
        start, end = (self._bound(_token(_tree(bound).children[0])) for bound in branch.children[1:])
        if name not in ("OVERLAPS", "CONTAINS", "DURING"):
            self.report(
                f'"{branch.children[0]}" is no test of an interval', span_of(branch.children[0]), "write OVERLAPS, CONTAINS or DURING"
            )
            name = "OVERLAPS"
        if start >= end:
            self.report("the interval ends before it begins", span_of(branch), "write (from, to) with from < to")
        return t.IntervalTest(name, start_ms=start, end_ms=end, span=span_of(branch))  # type: ignore[arg-type]

    def _bound(self, token: Token) -> int:
        return int(token) if token.type == "INT" else self._timestamp(token)

    # --- patterns ----------------------------------------------------------------------------------------------------------

    def _node(self, branch: Branch) -> t.Pattern:
        self._descend(branch)
        builders: dict[str, Callable[[Branch], t.Pattern]] = {
            "sequence": self._sequence,
            "conjunction": self._conjunction,
            "disjunction": self._disjunction,
            "group": self._group,
            "primary": self._primary,
        }
        built = builders[branch.data](branch)
        self.depth -= 1
        return built

    def _descend(self, branch: Branch) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise RecursionError(span_of(branch))

    def _sequence(self, branch: Branch) -> t.Sequence:
        items = tuple(self._negation(b) if b.data == "negation" else self._node(b) for b in _branches(branch))
        return t.Sequence(items, span_of(branch))

    def _conjunction(self, branch: Branch) -> t.Conjunction:
        return t.Conjunction(tuple(self._node(b) for b in _branches(branch)), span_of(branch))

    def _disjunction(self, branch: Branch) -> t.Disjunction:
        return t.Disjunction(tuple(self._node(b) for b in _branches(branch)), span_of(branch))

    def _group(self, branch: Branch) -> t.Pattern:
        inner = self._node(_tree(branch.children[0]))
        quantifier = branch.children[1]
        return inner if quantifier is None else t.Group(inner, self._quantifier(_token(quantifier)), span_of(branch))

    def _negation(self, branch: Branch) -> t.Negation:
        inside = _branches(branch)[0]
        duration = next((c for c in branch.children if isinstance(c, Token) and c.type == "DURATION"), None)
        for_ms = parse_duration(str(duration)) if duration is not None else None
        inner = self._node(inside)
        conjunction = isinstance(inner, t.Conjunction)
        parts: list[t.Primary] = []
        for part in inner.operands if isinstance(inner, t.Conjunction) else (inner,):
            if not isinstance(part, t.Primary):
                self.report(
                    "only types with a variable, or an AND of them, can be negated",
                    part.span,
                    "write !(B b), !(ANY(B, C) b) or !(AND(B b, C c))",
                )
                continue
            if part.quantifier is not None or part.until is not None:
                self.report("a negated item has no quantifier", part.span, "write !(B b): no such B at all; put conditions into where:")
                part = t.Primary(part.types, part.variable, None, None, part.variable_span, part.span)  # noqa: PLW2901
            if part.types.count is not None:
                self.report("ANY(n; ..) cannot be negated", part.types.span, "write !(ANY(B, C) x) or !(AND(B b, C c))")
            parts.append(part)
        span_for = span_of(duration) if duration is not None else t.NOWHERE
        return t.Negation(tuple(parts), conjunction, for_ms, span_for, span_of(branch))

    def _primary(self, branch: Branch) -> t.Primary:
        types = _tree(branch.children[0])
        named = next((b for b in _branches(branch) if b.data == "variable"), None)
        until = next((b for b in _branches(branch) if b.data == "until"), None)
        variable, brackets = (_token(named.children[0]), named.children[1]) if named is not None else (None, None)
        first, second = branch.children[1], None
        if named is not None:
            second = next((c for c in branch.children[branch.children.index(named) :] if isinstance(c, Token)), None)
        if first is not None and second is not None:
            self.report("a quantifier stands after the type or after the variable, not both", span_of(second), "write A a+ or A+ a[]")
        token = first if first is not None else second
        quantifier = self._quantifier(_token(token)) if token is not None else None
        built = self._types(types)
        if brackets is not None and (quantifier is None or not quantifier.closure) and built.count is None:
            self.report("brackets after a variable mean a closure, but there is none", span_of(brackets), "write A+ a[] or A a+")
        condition = None
        if until is not None:
            condition = self.condition(_branches(until)[0])
            if quantifier is None or not quantifier.closure:
                self.report("UNTIL belongs to a closure (+ * {..})", span_of(until), "write A a+ UNTIL (a.x > 3)")
        name_span = span_of(variable) if variable is not None else t.NOWHERE
        return t.Primary(built, str(variable) if variable is not None else None, quantifier, condition, name_span, span_of(branch))

    def _types(self, branch: Branch) -> t.Types:
        names = tuple(self._type_name(b) for b in _branches(branch) if b.data == "type_name")
        if branch.data == "types":
            return t.Types(names, span=span_of(branch))
        different = len({name.name for name in names})
        if branch.data == "any_types":
            return t.Types(names, any=True, span=span_of(branch))
        count_token = next(c for c in branch.children if isinstance(c, Token) and c.type == "INT")
        path = next((b for b in _branches(branch) if b.data == "path"), None)
        count = int(count_token)
        if not 1 <= count <= MAX_COUNT:
            self.report(f"ANY asks for {count} events", span_of(count_token), f"write a number from 1 to {MAX_COUNT}")
        elif path is None and different < count:
            self.report(
                f"ANY asks for {count} events of different types, but lists {different}",
                span_of(branch),
                "list more types, or say what must differ: ANY(n; A by attribute)",
            )
        by_span = span_of(path) if path is not None else t.NOWHERE
        return t.Types(names, count, _path_text(path) if path is not None else None, True, by_span, span_of(branch))

    def _type_name(self, branch: Branch) -> t.TypeName:
        token = _token(branch.children[0])
        name = unquote(token) if token.type == "STRING" else str(token)
        if not name:
            self.report("an event type has a name", span_of(token))
        return t.TypeName(name, span_of(token))

    def _quantifier(self, token: Token) -> t.Quantifier:
        text = str(token)
        span = span_of(token)
        reluctant = len(text) > 1 and text.endswith("?")
        body = text[:-1] if reluctant else text
        simple = {"+": (1, None), "*": (0, None), "?": (0, 1)}
        if body in simple:
            low, high = simple[body]
            return t.Quantifier(low, high, reluctant, body == "?", span)
        inner = body.strip("{} \t\n")
        low_text, comma, high_text = (part.strip() for part in inner.partition(","))
        if not comma and not low_text:
            self.report("braces without a number", span, "write {2}, {2,4}, {2,} or {,4}")
            return t.Quantifier(1, None, reluctant, False, span)
        lower = int(low_text) if low_text else 0
        upper = (int(high_text) if high_text else None) if comma else lower
        if max(lower, upper or 0) > MAX_COUNT:
            self.report("a number too large for a quantifier", span, f"numbers go up to {MAX_COUNT}")
        elif upper == 0:
            self.report("a quantifier that allows no event", span, "the upper bound must be at least 1; for absence write !(B b)")
        elif upper is not None and upper < lower:
            self.report(f"a quantifier from {lower} to {upper} allows nothing", span, f"write {{{upper},{lower}}}")
        return t.Quantifier(lower, upper, reluctant, False, span)

    # --- expressions -------------------------------------------------------------------------------------------------------

    def condition(self, branch: Branch) -> t.Expression:
        """Something true or false."""
        built = self.expression(branch)
        if isinstance(built, t.Value):
            self.report(
                "a value stands where a condition is needed",
                built.span,
                "compare it, for instance a.price > 10, or a.flag = true",
            )
        return built

    def value(self, branch: Branch) -> t.Expression:
        """A number, a text, a time, and so on."""
        built = self.expression(branch)
        if not isinstance(built, t.Value):
            self.report(
                "a condition stands where a value is needed", built.span, "values are attributes, constants, functions and arithmetic"
            )
        return built

    def expression(self, branch: Branch) -> t.Expression:
        """A value or a condition."""
        self._descend(branch)
        builders: dict[str, Callable[[Branch], t.Expression]] = {
            "or_": lambda b: t.Or(tuple(self.condition(c) for c in _branches(b)), span_of(b)),
            "and_": lambda b: t.And(tuple(self.condition(c) for c in _branches(b)), span_of(b)),
            "not_": lambda b: t.Not(self.condition(_branches(b)[0]), span_of(b)),
            "comparison": self._comparison,
            "in_": self._in,
            "between": self._between,
            "is_null": lambda b: t.IsNull(self.value(_branches(b)[0]), _has(b, "NOT"), span_of(b)),
            "like": lambda b: t.Like(self.value(_branches(b)[0]), unquote(_token(b.children[-1])), _has(b, "NOT"), span_of(b)),
            "sum": self._arithmetic,
            "product": self._arithmetic,
            "negative": lambda b: t.Negative(self.value(_branches(b)[0]), span_of(b)),
            "parentheses": lambda b: self.expression(_branches(b)[0]),
            "literal": lambda b: self._constant(_token(b.children[0]), span_of(b)),
            "reference": self._reference,
            "call": self._call,
            "equivalence": self._equivalence,
        }
        built = builders[branch.data](branch)
        self.depth -= 1
        return built

    def _comparison(self, branch: Branch) -> t.Expression:
        left, operator, right = branch.children
        return t.Comparison(_operator(_token(operator)), self.value(_tree(left)), self.value(_tree(right)), span_of(branch))  # type: ignore[arg-type]

    def _in(self, branch: Branch) -> t.Expression:
        operand, *constants = _branches(branch)
        values = tuple(self._signed(b) for b in constants)
        return t.In(self.value(operand), values, _has(branch, "NOT"), span_of(branch))

    def _between(self, branch: Branch) -> t.Expression:
        operand, low, high = (self.value(b) for b in _branches(branch))
        return t.Between(operand, low, high, _has(branch, "NOT"), span_of(branch))

    def _arithmetic(self, branch: Branch) -> t.Expression:
        left, *rest = branch.children
        built = self.value(_tree(left))
        for operator, right in zip(rest[::2], rest[1::2], strict=True):
            operand = self.value(_tree(right))
            built = t.Arithmetic(str(operator), built, operand, t.Span(built.span.start, operand.span.end))  # type: ignore[arg-type]
        return built

    def _signed(self, branch: Branch) -> t.Constant:
        constant = self._constant(_token(branch.children[1]), span_of(branch))
        if branch.children[0] is None:
            return constant
        if constant.kind not in ("integer", "float", "duration"):
            self.report("only numbers and durations can be negative", span_of(branch))
            return constant
        return t.Constant(constant.kind, -constant.value, constant.span)  # type: ignore[operator]

    def _constant(self, token: Token, span: t.Span) -> t.Constant:
        text = str(token)
        readers: dict[str, Callable[[], t.Constant]] = {
            "INT": lambda: self._integer(text, span),
            "FLOAT": lambda: self._float(text, span),
            "STRING": lambda: t.Constant("string", unquote(token), span),
            "TRUE": lambda: t.Constant("boolean", True, span),
            "FALSE": lambda: t.Constant("boolean", False, span),
            "DURATION": lambda: t.Constant("duration", parse_duration(text), span),
            "TIMESTAMP": lambda: t.Constant("timestamp", self._timestamp(token), span),
        }
        return readers[token.type]()

    def _integer(self, text: str, span: t.Span) -> t.Constant:
        value = int(text) if len(text) < 20 else 1 << 64
        if value >= 1 << 63:
            return self._float(text, span)
        return t.Constant("integer", value, span)

    def _float(self, text: str, span: t.Span) -> t.Constant:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            self.report("a number too large for a float", span, "numbers go up to 1.7e308")
            value = 0.0
        return t.Constant("float", value, span)

    def _timestamp(self, token: Token) -> int:
        text = str(token)
        quoted = text[text.index("'") :]
        try:
            return parse_timestamp(unquote(quoted))
        except ValueError:
            self.report(f"{quoted} is no timestamp", span_of(token), "write TIMESTAMP '2026-01-31T12:00:00Z'; without zone it is UTC")
            return 0

    def _call(self, branch: Branch) -> t.Expression:
        name = _token(branch.children[0])
        arguments = tuple(self.value(b) for b in _branches(branch))
        return t.Call(str(name).lower(), arguments, span_of(name), span_of(branch))

    def _equivalence(self, branch: Branch) -> t.Expression:
        path, operator, constant = branch.children
        value = None
        if operator is not None:
            value = self._signed(_tree(constant))
            if _operator(_token(operator)) != "=":
                self.report(
                    "an equivalence test fixes a value by =",
                    span_of(operator),
                    f"write [{_path_text(_tree(path))} = ...], or compare outside of brackets",
                )
        return t.Equivalence(_path_text(_tree(path)), value, span_of(branch))

    def _reference(self, branch: Branch) -> t.Expression:
        name, *trailers = branch.children
        index: t.ClosureIndex | None = None
        path: list[str] = []
        for position, trailer in enumerate(_tree(x) for x in trailers):
            content = trailer.children[0]
            if trailer.data == "attribute":
                path.append(f".{content}")
            elif isinstance(content, Token):
                if not path and position == 0 and content.type == "INT":
                    index = t.ClosureIndex("number", int(content), span=span_of(trailer))
                else:
                    path.append(f"[{content}]")
            elif path or position > 0:
                self.report(
                    "only the variable itself has such an index",
                    span_of(trailer),
                    "arrays and maps take constants: x.tags[0], x.labels['k']",
                )
            else:
                index = self._index(content, span_of(trailer))
        first_of_path = span_of(trailers[1 if index else 0]).start + 1 if path else 0
        path_span = t.Span(first_of_path, span_of(branch).end) if path else t.NOWHERE
        return t.Reference(str(name), index, "".join(path).removeprefix("."), span_of(name), path_span, span_of(branch))

    def _index(self, branch: Branch, span: t.Span) -> t.ClosureIndex | None:
        upto, name, minus, number = branch.children
        anchor = str(name)
        back = int(_token(number)) if minus is not None else 0
        if upto is not None and anchor == "i":
            return t.ClosureIndex("upto", 0, back, span)
        if upto is None and anchor in ("first", "last", "i") and not (anchor == "first" and back):
            return t.ClosureIndex({"i": "running"}.get(anchor, anchor), 0, back, span)  # type: ignore[arg-type]
        self.report("an index that no closure has", span, "write x[first], x[last], x[last-1], x[1], x[i], x[i-1] or x[..i]")
        return None


def span_of(part: object) -> t.Span:
    """The characters of a token or a branch."""
    if isinstance(part, Token):
        return t.Span(part.start_pos or 0, part.end_pos or 0)
    if isinstance(part, Tree) and not part.meta.empty:
        return t.Span(part.meta.start_pos, part.meta.end_pos)
    return t.NOWHERE


def unquote(token: str) -> str:
    """A quoted text without its quotes.

    >>> unquote("'it''s'")
    "it's"
    """
    return str(token)[1:-1].replace("''", "'")


_OPERATORS = {"≠": "!=", "≤": "<=", "≥": ">="}


def _operator(token: Token) -> str:
    return _OPERATORS.get(str(token), str(token))


def _path_text(branch: Branch) -> str:
    parts = [str(branch.children[0])]
    for trailer in branch.children[1:]:
        inner = _tree(trailer)
        parts.append(f".{inner.children[0]}" if inner.data == "attribute" else f"[{inner.children[0]}]")
    return "".join(parts)


def _branches(branch: Branch) -> Sequence[Branch]:
    return [child for child in branch.children if isinstance(child, Tree)]


def _has(branch: Branch, terminal: str) -> bool:
    return any(isinstance(child, Token) and child.type == terminal for child in branch.children)


def _tree(part: Any) -> Branch:
    assert isinstance(part, Tree)  # noqa: S101 - guaranteed by the grammar
    return part


def _token(part: Any) -> Token:
    assert isinstance(part, Token)  # noqa: S101
    return part
