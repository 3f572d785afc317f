"""Parse trees of expressions → syntax tree, with the rules that the grammar alone cannot tell (section 4, "is an error").

Every builder returns a node also where it reports a problem, so that one text can have several.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from lark import Token

from app.config.durations import parse_milliseconds
from app.query.tree import tree as t
from app.query.tree.parse_tree import (
    Branch,
    Problem,
    branches,
    has_terminal,
    operator_text,
    span_of,
    token_of,
    tree_of,
    unquote,
    whole,
)
from app.query.tree.timestamps import LAST_MS, parse_timestamp

MAX_DEPTH = 100
"""Deeper nesting is refused: later passes recurse."""
MAX_HEIGHT = 210
"""Of the tree, in which a sum has a level per term though none is nested: JSON has two for a function, orjson writes 254, and for each Python makes up to four of its thousand calls."""
MAX_DURATION_MS = 1 << 53
"""285,000 years; longer ones overflow when they are added to a time."""

MAX_COUNT = 2_147_483_647
"""The largest number in a quantifier, and in an index."""


@dataclass(slots=True)
class ExpressionBuilder:
    """Collects the problems of one text while its tree is built."""

    problems: list[Problem] = field(default_factory=list)
    depth: int = 0
    terms: int = 0
    """How many terms of sums and products stand behind the one at hand: the tree is higher by so many than the text is nested."""

    def report(self, message: str, span: t.Span, hint: str | None = None) -> None:
        """One more problem."""
        self.problems.append(Problem(message, span, hint))

    def descend(self, branch: Branch) -> None:
        """One level deeper; whoever calls it goes up again by ``depth -= 1``.

        Raises:
            RecursionError: too deep.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH or 2 * self.depth + self.terms > MAX_HEIGHT:
            raise RecursionError(span_of(branch))

    def duration(self, token: Token) -> int | float:
        """Milliseconds of a duration."""
        value = parse_milliseconds(str(token))
        if value >= MAX_DURATION_MS:
            self.report("a duration longer than time is counted", span_of(token), "leave the condition out")
            return 1
        return value

    def predicate(self, branch: Branch) -> t.Expression:
        """``where:`` and ``UNTIL ( )``."""
        return self.condition(branches(branch)[0])

    def value_only(self, branch: Branch) -> t.Expression:
        """A field of ``return:``."""
        return self.value(branches(branch)[0])

    def interval_length(self, branch: Branch) -> t.IntervalTest:
        """``valid: ">= 3 minutes"``."""
        operator = operator_text(token_of(branch.children[0]))
        if operator in ("=", "!="):
            self.report(f'the length of an interval is not compared by "{operator}"', span_of(branch.children[0]), "write one of < <= > >=")
            operator = ">="
        length = self.duration(token_of(branch.children[1]))
        # intervals last whole milliseconds: of >= 0.5 ms the next one says the same, of > 0.5 ms the one before
        whole_ms = math.ceil(length) if operator in ("<", ">=") else math.floor(length)
        return t.IntervalTest(operator, length_ms=whole_ms, span=span_of(branch))  # type: ignore[arg-type]

    def interval_place(self, branch: Branch) -> t.IntervalTest:
        """``valid: "OVERLAPS ('2026-01-01', '2026-01-02')"``."""
        name = str(branch.children[0]).upper()
        start, end = (self._bound(token_of(tree_of(bound).children[0])) for bound in branch.children[1:])
        if name not in ("OVERLAPS", "CONTAINS", "DURING"):
            self.report(
                f'"{branch.children[0]}" is no test of an interval', span_of(branch.children[0]), "write OVERLAPS, CONTAINS or DURING"
            )
            name = "OVERLAPS"
        if start >= end:
            self.report("the interval ends before it begins", span_of(branch), "write (from, to) with from < to")
        return t.IntervalTest(name, start_ms=start, end_ms=end, span=span_of(branch))  # type: ignore[arg-type]

    def _bound(self, token: Token) -> int:
        if token.type != "INT":
            return self._timestamp(token)
        found = whole(str(token))
        if found > LAST_MS:
            self.report("this is later than the year 9999", span_of(token), "write milliseconds since 1970, or a time as '2026-01-01'")
            return LAST_MS
        return found

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
        self.descend(branch)
        builders: dict[str, Callable[[Branch], t.Expression]] = {
            "or_": lambda b: t.Or(tuple(self.condition(c) for c in branches(b)), span_of(b)),
            "and_": lambda b: t.And(tuple(self.condition(c) for c in branches(b)), span_of(b)),
            "not_": lambda b: t.Not(self.condition(branches(b)[0]), span_of(b)),
            "comparison": self._comparison,
            "in_": self._in,
            "between": self._between,
            "is_null": lambda b: t.IsNull(self.value(branches(b)[0]), has_terminal(b, "NOT"), span_of(b)),
            "like": lambda b: t.Like(self.value(branches(b)[0]), unquote(token_of(b.children[-1])), has_terminal(b, "NOT"), span_of(b)),
            "sum": self._arithmetic,
            "product": self._arithmetic,
            "negative": lambda b: t.Negative(self.value(branches(b)[0]), span_of(b)),
            "parentheses": lambda b: self.expression(branches(b)[0]),
            "literal": lambda b: self._constant(token_of(b.children[0]), span_of(b)),
            "reference": self._reference,
            "call": self._call,
            "equivalence": self._equivalence,
        }
        built = builders[branch.data](branch)
        self.depth -= 1
        return built

    def _comparison(self, branch: Branch) -> t.Expression:
        left, operator, right = branch.children
        return t.Comparison(operator_text(token_of(operator)), self.value(tree_of(left)), self.value(tree_of(right)), span_of(branch))  # type: ignore[arg-type]

    def _in(self, branch: Branch) -> t.Expression:
        operand, *constants = branches(branch)
        values = tuple(self._signed(b) for b in constants)
        return t.In(self.value(operand), values, has_terminal(branch, "NOT"), span_of(branch))

    def _between(self, branch: Branch) -> t.Expression:
        operand, low, high = (self.value(b) for b in branches(branch))
        return t.Between(operand, low, high, has_terminal(branch, "NOT"), span_of(branch))

    def _arithmetic(self, branch: Branch) -> t.Expression:
        """A sum or a product, however many terms it has: one level as it is written, as many as terms in the tree."""
        first, rest = branch, []
        while first.data == branch.data:
            left, operator, right = first.children
            rest.append((str(operator), tree_of(right)))
            first = tree_of(left)
        built = self._term(first, len(rest) - 1)
        for place, (operator, right) in enumerate(reversed(rest)):
            operand = self._term(right, len(rest) - 1 - place)
            built = t.Arithmetic(operator, built, operand, t.Span(built.span.start, operand.span.end))
        return built

    def _term(self, branch: Branch, behind: int) -> t.Expression:
        """A term, ``behind`` which so many others stand: what is made of these is above it in the tree."""
        self.terms += behind
        built = self.value(branch)
        self.terms -= behind
        return built

    def _signed(self, branch: Branch) -> t.Constant:
        constant = self._constant(token_of(branch.children[1]), span_of(branch))
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
            "DURATION": lambda: t.Constant("duration", self.duration(token), span),
            "TIMESTAMP": lambda: t.Constant("timestamp", self._timestamp(token), span),
        }
        return readers[token.type]()

    def _integer(self, text: str, span: t.Span) -> t.Constant:
        value = whole(text)
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
        name = token_of(branch.children[0])
        arguments = tuple(self.value(b) for b in branches(branch))
        return t.Call(str(name).lower(), arguments, span_of(name), span_of(branch))

    def _equivalence(self, branch: Branch) -> t.Expression:
        written, operator, constant = branch.children
        value, path = None, self.path(tree_of(written))
        if operator is not None:
            value = self._signed(tree_of(constant))
            if operator_text(token_of(operator)) != "=":
                self.report(
                    "an equivalence test fixes a value by =",
                    span_of(operator),
                    f"write [{path} = ...], or compare outside of brackets",
                )
        return t.Equivalence(path, value, span_of(branch))

    def _reference(self, branch: Branch) -> t.Expression:
        name, *trailers = branch.children
        index: t.ClosureIndex | None = None
        path: list[str] = []
        for position, trailer in enumerate(tree_of(x) for x in trailers):
            content = trailer.children[0]
            if trailer.data == "attribute":
                path.append(f".{content}")
            elif isinstance(content, Token):
                if not path and position == 0 and content.type == "INT":
                    index = t.ClosureIndex("number", self._place(content), span=span_of(trailer))
                else:
                    path.append(self._element(content))
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

    def path(self, branch: Branch) -> str:
        """An attribute path as schemas name it."""
        name, *trailers = branch.children
        steps = [(trailer.data, token_of(trailer.children[0])) for trailer in map(tree_of, trailers)]
        return str(name) + "".join(f".{content}" if kind == "attribute" else self._element(content) for kind, content in steps)

    def _element(self, content: Token) -> str:
        if content.type != "INT":
            return f"[{content}]"
        self._place(content)
        return f"[{whole(str(content))}]"

    def _place(self, number: Token) -> int:
        """The number in an index."""
        found = whole(str(number))
        if found > MAX_COUNT:
            self.report("a number too large for an index", span_of(number), f"numbers go up to {MAX_COUNT}")
            return 1
        return found

    def _index(self, branch: Branch, span: t.Span) -> t.ClosureIndex | None:
        upto, name, minus, number = branch.children
        anchor = str(name)
        back = self._place(token_of(number)) if minus is not None else 0
        if upto is not None and anchor == "i":
            return t.ClosureIndex("upto", 0, back, span)
        if upto is None and anchor in ("first", "last", "i") and not (anchor == "first" and back):
            return t.ClosureIndex({"i": "running"}.get(anchor, anchor), 0, back, span)  # type: ignore[arg-type]
        self.report("an index that no closure has", span, "write x[first], x[last], x[last-1], x[1], x[i], x[i-1] or x[..i]")
        return None
