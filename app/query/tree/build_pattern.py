"""Parse trees of patterns → syntax tree, with the rules that the grammar alone cannot tell (section 3, "is an error")."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from lark import Token, Tree

from app.query.tree import tree as t
from app.query.tree.build import MAX_COUNT, ExpressionBuilder
from app.query.tree.parse_tree import Branch, branches, span_of, token_of, tree_of, unquote, whole


@dataclass(frozen=True, slots=True)
class PatternBuilder:
    """Builds patterns; conditions inside (UNTIL, WHERE) and all problems go to `expressions`."""

    expressions: ExpressionBuilder

    def pattern(self, branch: Branch) -> t.Pattern:
        """``event:``."""
        return self._node(branches(branch)[0])

    def _node(self, branch: Branch) -> t.Pattern:
        self.expressions.descend(branch)
        builders: dict[str, Callable[[Branch], t.Pattern]] = {
            "sequence": self._sequence,
            "conjunction": self._conjunction,
            "disjunction": self._disjunction,
            "group": self._group,
            "primary": self._primary,
        }
        built = builders[branch.data](branch)
        self.expressions.depth -= 1
        return built

    def _sequence(self, branch: Branch) -> t.Sequence:
        items = tuple(self._negation(b) if b.data == "negation" else self._node(b) for b in branches(branch))
        return t.Sequence(items, span_of(branch))

    def _conjunction(self, branch: Branch) -> t.Conjunction:
        return t.Conjunction(tuple(self._node(b) for b in branches(branch)), span_of(branch))

    def _disjunction(self, branch: Branch) -> t.Disjunction:
        return t.Disjunction(tuple(self._node(b) for b in branches(branch)), span_of(branch))

    def _group(self, branch: Branch) -> t.Pattern:
        inner = self._node(tree_of(branch.children[0]))
        quantifier = branch.children[1]
        return inner if quantifier is None else t.Group(inner, self._quantifier(token_of(quantifier)), span_of(branch))

    def _negation(self, branch: Branch) -> t.Negation:
        inside = branches(branch)[0]
        duration = next((c for c in branch.children if isinstance(c, Token) and c.type == "DURATION"), None)
        # strictly less than 1.5 ms is less than 2 ms: times are whole
        for_ms = None if duration is None else math.ceil(self.expressions.duration(duration))
        if duration is not None and for_ms == 0:
            self.expressions.report("FOR 0 waits for nothing", span_of(duration), "write for instance FOR 10 s, or leave the negation out")
        inner = self._node(inside)
        conjunction = isinstance(inner, t.Conjunction)
        parts: list[t.Primary] = []
        for part in inner.operands if isinstance(inner, t.Conjunction) else (inner,):
            if not isinstance(part, t.Primary):
                self.expressions.report(
                    "only types with a variable, or an AND of them, can be negated",
                    part.span,
                    "write !(B b), !(ANY(B, C) b) or !(AND(B b, C c))",
                )
                continue
            if part.quantifier is not None or part.until is not None:
                self.expressions.report(
                    "a negated item has no quantifier", part.span, "write !(B b): no such B at all; put conditions into where:"
                )
                part = t.Primary(part.types, part.variable, None, None, part.variable_span, part.span)  # noqa: PLW2901
            if part.types.count is not None:
                self.expressions.report("ANY(n; ..) cannot be negated", part.types.span, "write !(ANY(B, C) x) or !(AND(B b, C c))")
            parts.append(part)
        span_for = span_of(duration) if duration is not None else t.NOWHERE
        return t.Negation(tuple(parts), conjunction, for_ms, span_for, span_of(branch))

    def _primary(self, branch: Branch) -> t.Primary:
        types = tree_of(branch.children[0])
        named = next((b for b in branches(branch) if b.data == "variable"), None)
        until = next((b for b in branches(branch) if b.data == "until"), None)
        variable, brackets = (token_of(named.children[0]), named.children[1]) if named is not None else (None, None)
        first, second = branch.children[1], None
        if named is not None:
            second = next((c for c in branch.children[branch.children.index(named) :] if isinstance(c, Token)), None)
        if first is not None and second is not None:
            self.expressions.report(
                "a quantifier stands after the type or after the variable, not both", span_of(second), "write A a+ or A+ a[]"
            )
        token = first if first is not None else second
        quantifier = self._quantifier(token_of(token)) if token is not None else None
        built = self._types(types)
        if brackets is not None and (quantifier is None or not quantifier.closure) and built.count is None:
            self.expressions.report(
                "brackets after a variable mean a closure, but there is none", span_of(brackets), "write A+ a[] or A a+"
            )
        condition = None
        if until is not None:
            condition = self.expressions.condition(branches(until)[0])
            if quantifier is None or not quantifier.closure:
                self.expressions.report("UNTIL belongs to a closure (+ * {..})", span_of(until), "write A a+ UNTIL (a.x > 3)")
        name_span = span_of(variable) if variable is not None else t.NOWHERE
        return t.Primary(built, str(variable) if variable is not None else None, quantifier, condition, name_span, span_of(branch))

    def _types(self, branch: Branch) -> t.Types:
        names = tuple(self._type_name(b) for b in branches(branch) if b.data == "type_name")
        if branch.data == "types":
            return t.Types(names, span=span_of(branch))
        different = len({name.name for name in names})
        if branch.data == "any_types":
            return t.Types(names, any=True, span=span_of(branch))
        count_token = next(c for c in branch.children if isinstance(c, Token) and c.type == "INT")
        path = next((b for b in branches(branch) if b.data == "path"), None)
        count = whole(str(count_token))
        if not 1 <= count <= MAX_COUNT:
            self.expressions.report(f"ANY asks for {count} events", span_of(count_token), f"write a number from 1 to {MAX_COUNT}")
        elif path is None and different < count:
            self.expressions.report(
                f"ANY asks for {count} events of different types, but lists {different}",
                span_of(branch),
                "list more types, or say what must differ: ANY(n; A by attribute)",
            )
        by_span = span_of(path) if path is not None else t.NOWHERE
        return t.Types(names, count, self.expressions.path(path) if path is not None else None, True, by_span, span_of(branch))

    def _type_name(self, branch: Branch) -> t.TypeName:
        token = token_of(branch.children[0])
        name = unquote(token) if token.type == "STRING" else str(token)
        if not name:
            self.expressions.report("an event type has a name", span_of(token))
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
            self.expressions.report("braces without a number", span, "write {2}, {2,4}, {2,} or {,4}")
            return t.Quantifier(1, None, reluctant, False, span)
        lower = whole(low_text) if low_text else 0
        upper = (whole(high_text) if high_text else None) if comma else lower
        if max(lower, upper or 0) > MAX_COUNT:
            self.expressions.report("a number too large for a quantifier", span, f"numbers go up to {MAX_COUNT}")
        elif upper == 0:
            self.expressions.report(
                "a quantifier that allows no event", span, "the upper bound must be at least 1; for absence write !(B b)"
            )
        elif upper is not None and upper < lower:
            self.expressions.report(f"a quantifier from {lower} to {upper} allows nothing", span, f"write {{{upper},{lower}}}")
        return t.Quantifier(lower, upper, reluctant, False, span)

    def opener(self, branch: Branch) -> t.Opener:
        """``open:`` of a window."""
        types, *rest = branch.children
        name = next((part for part in rest if isinstance(part, Token) and part.type == "NAME"), None)
        where = next((part for part in rest if isinstance(part, Tree)), None)
        return t.Opener(
            self._types(tree_of(types)), str(name) if name else None, self.expressions.condition(where) if where else None, span_of(branch)
        )
