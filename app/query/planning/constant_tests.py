"""Conditions on one event → constant tests where that is exactly the same, also for null, absent and NaN."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from app.events.types import Kind
from app.query import expressions as e
from app.query.plan import ConstantTest
from app.query.resolved.vocabulary import BUILT_IN, Vocabulary

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE = {
    "=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "not in", "not in": "in", "between": "not between",
    "not between": "between", "is null": "is not null", "is not null": "is null", "like": "not like", "not like": "like",
}  # fmt: skip


Alternatives = tuple[tuple[ConstantTest, ...], ...]
"""A disjunction of conjunctions."""
MOST_ALTERNATIVES = 8
"""Conjunctions of one item; each takes a bit of every bitmap."""


def conjuncts(condition: e.Expression) -> tuple[e.Expression, ...]:
    """The arguments of the outermost ANDs."""
    if isinstance(condition, e.And):
        return tuple(inner for operand in condition.operands for inner in conjuncts(operand))
    return (condition,)


def constant_test(condition: e.Expression, types: tuple[str, ...], vocabulary: Vocabulary) -> ConstantTest | None:
    """The condition as a test of one attribute against constants; None where there is no exactly equal one."""
    if isinstance(condition, e.Not):
        inner = constant_test(condition.operand, types, vocabulary)
        return _negated(inner, types, vocabulary) if inner is not None else None
    if isinstance(condition, e.Or):
        return _either(condition, types, vocabulary)
    if isinstance(condition, e.Comparison):
        left, right, operator = condition.left, condition.right, condition.operator
        if isinstance(left, e.Literal):
            return _test(right, _MIRRORED[operator], (left,))
        return _test(left, operator, (right,))
    if isinstance(condition, e.In):
        return _test(condition.operand, "not in" if condition.negated else "in", condition.values)
    if isinstance(condition, e.Between):
        return _test(condition.operand, "not between" if condition.negated else "between", (condition.low, condition.high))
    if isinstance(condition, e.IsNull):
        return _test(condition.operand, "is not null" if condition.negated else "is null", ())
    if isinstance(condition, e.Like):
        return _test(condition.operand, "not like" if condition.negated else "like", (e.Literal(Kind.STRING, condition.pattern),))
    return None


def alternatives(condition: e.Expression, types: tuple[str, ...], vocabulary: Vocabulary, most: int) -> Alternatives | None:
    """The condition as conjunctions of tests of which one must hold; None where there are none exactly equal, or more than ``most``.

    The truth of every comparison is that of its test, so AND and OR may be multiplied out.
    """
    test = constant_test(condition, types, vocabulary)
    if test is not None:
        return ((test,),)
    if isinstance(condition, e.Not) and isinstance(condition.operand, e.And | e.Or):
        turned = e.Or if isinstance(condition.operand, e.And) else e.And
        return alternatives(turned(tuple(map(e.Not, condition.operand.operands))), types, vocabulary, most)
    if not isinstance(condition, e.And | e.Or):
        return None
    parts = [alternatives(operand, types, vocabulary, most) for operand in condition.operands]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    found = tuple(dict.fromkeys(one for part in known for one in part)) if isinstance(condition, e.Or) else multiplied(known, most)
    return found if found and len(found) <= most else None


def multiplied(parts: Iterable[Alternatives], most: int) -> Alternatives:
    """One conjunction per choice of one from each part; empty where they would be more than ``most``."""
    found: Alternatives = ((),)
    for part in parts:
        found = tuple(dict.fromkeys(tuple(dict.fromkeys((*one, *other))) for one in found for other in part))
        if len(found) > most:
            return ()
    return found


def _test(operand: e.Expression, operator: str, values: tuple[e.Expression, ...]) -> ConstantTest | None:
    if not isinstance(operand, e.AttributeOf) or operand.index is not None:
        return None
    constants = []
    for value in values:
        if not isinstance(value, e.Literal) or value.value is None:
            return None
        constants.append(value.value)
    return ConstantTest(operand.attribute, operand.kind, operator, tuple(constants))  # type: ignore[arg-type]


def _negated(test: ConstantTest, types: tuple[str, ...], vocabulary: Vocabulary) -> ConstantTest | None:
    """NOT of a test.

    A null or NaN value and an absent attribute give a comparison and its opposite the *same* truth, so the opposite
    stands for NOT only where none of these can occur.
    """
    always = _always_there(test.attribute, types, vocabulary, nullable=test.operator in ("is null", "is not null"))
    if not always or (test.kind is Kind.FLOAT and not test.operator.startswith("is")):
        return None
    return replace(test, operator=_OPPOSITE[test.operator])  # type: ignore[arg-type]


def _always_there(attribute: str, types: tuple[str, ...], vocabulary: Vocabulary, *, nullable: bool) -> bool:
    if attribute in BUILT_IN:
        return True
    for schema in vocabulary.schemas:
        for name in types:
            event_type = schema.event_type(name)
            if event_type is None:
                continue
            found = event_type.attribute(attribute)
            if found is None or (found.nullable and not nullable):
                return False
    return True


def _either(condition: e.Or, types: tuple[str, ...], vocabulary: Vocabulary) -> ConstantTest | None:
    """``a = 1 OR a = 2`` is ``a IN (1, 2)``: null makes all of them false, absence all true."""
    tests = [constant_test(operand, types, vocabulary) for operand in condition.operands]
    first = tests[0]
    if first is None or any(test is None or test.operator not in ("=", "in") or test.attribute != first.attribute for test in tests):
        return None
    values = dict.fromkeys(value for test in tests if test is not None for value in test.values)
    return replace(first, operator="in", values=tuple(values))


@dataclass(slots=True)
class ItemConditions:
    """The conditions on one item alone, sorted by who evaluates them.

    Attributes:
        tests: selection, all must hold.
        either: selection, one must hold; empty: nothing more is asked.
        local: the engine.
    """

    tests: list[ConstantTest] = field(default_factory=list)
    either: Alternatives = ()
    local: list[e.Expression] = field(default_factory=list)

    def push_down(self, condition: e.Expression, types: tuple[str, ...], vocabulary: Vocabulary) -> None:
        """A condition on one event: as tests as far as they say exactly the same, the rest local."""
        for part in conjuncts(condition):
            split = alternatives(part, types, vocabulary, MOST_ALTERNATIVES)
            if split is not None and len(split) == 1:
                self.tests += split[0]
            elif split is not None and (both := multiplied([self.either or ((),), split], MOST_ALTERNATIVES)):
                self.either = both
            else:
                self.local.append(part)
