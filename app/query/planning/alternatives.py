"""Which plans of runs are a few sequences side by side: with its ORs distributed, every alternative of the pattern is a sequence that stacks run.

``SEQ(A a, OR(B b, C c))`` finds what ``SEQ(A a, B b)`` and ``SEQ(A a, C c)`` find. What an alternative does not bind makes comparisons true and return
fields null, as ever (queries/README.md, *Conditions*). `app.cep.alternatives` runs such plans; all others hold every partial match (`app.cep.runs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod
from typing import Any

from app.events.types import Kind
from app.query import expressions as e
from app.query.plan import (
    Absent,
    Either,
    Every,
    Item,
    JoinPredicate,
    Limits,
    Ordered,
    Pattern,
    Plan,
    Repeated,
    ReturnField,
    Runs,
    Take,
    Ways,
)
from app.query.planning.branches import branches_of, precedes
from app.query.planning.obstacle import Obstacle
from app.query.planning.occurring import FALSE
from app.query.planning.planning import columns_of
from app.query.text.keys import MATCH_SHEDDERS

MOST = 8
"""Alternatives: an event is pushed once for each whose item it can be."""
ARRIVED = "\x00arrived"
"""A column that rides along: how many events were fed before. No attribute has such a name."""
_LIMITS = "limits:"
_TRUE, _FALSE = e.Literal(Kind.BOOLEAN, value=True), e.Literal(Kind.BOOLEAN, value=False)


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the sequences.

    Attributes:
        plan: for the stacks evaluator; return fields that it leaves null are not in it.
        items: by item of ``plan``, the item of the whole one.
    """

    plan: Plan
    items: tuple[int, ...]

    @property
    def positive(self) -> tuple[int, ...]:
        """Of the whole plan, the items that a match binds, in order."""
        return tuple(self.items[item.index] for item in self.plan.positive)


def alternatives_of(plan: Plan) -> tuple[Alternative, ...] | None:
    """The sequences that a plan of runs is, in the order of the text; None where it is not."""
    if plan.runs is None or any(_unfit(plan, plan.runs)):
        return None
    try:
        return _alternatives(plan, plan.runs)
    except Obstacle:
        return None


def runs_apart(plan: Plan) -> bool:
    """Whether a plan is run as its alternatives."""
    return plan.apart and alternatives_of(plan) is not None


def obstacles(plan: Plan) -> list[str]:
    """What keeps a plan of runs from being run as its alternatives, in words: keys, and the first thing in its pattern, predicates and return fields."""
    if plan.runs is None:
        return ["no pattern for the runs evaluator"]
    found = list(_unfit(plan, plan.runs))
    if not plan.apart and _LIMITS not in found:
        found.insert(0, f"evaluator: or {_LIMITS}")
    try:
        _alternatives(plan, plan.runs)
    except Obstacle as obstacle:
        found.append(str(obstacle))
    return found


def last_ones_differ(alternatives: Sequence[Alternative]) -> bool:
    """Whether no event can be the last one of two alternatives."""
    return all(_never_both(*(one.plan.positive[-1] for one in pair)) for pair in combinations(alternatives, 2))


def another_may_stand_in(plan: Plan) -> bool:
    """Whether a match can be reported only because that of an earlier branch of an OR, which binds the very same events by other names, is not found.

    Types are asked, item by item of alternatives that are sequences; of other patterns (closures, AND) whether any event can be an item of two branches.
    """
    branches = branches_of(plan.pattern)
    ways = [[item] for item in branches]
    with suppress(Obstacle):
        _check(plan.pattern)
        if _count(plan.pattern) <= MOST:
            ways = [[item for item in sequence if not plan.items[item].negated] for sequence in _sequences(plan.pattern)]
    return any(
        not _differ(plan, first, second)
        and (precedes(branches, first, second) or precedes(branches, second, first))
        and any(plan.items[one].variable != plan.items[other].variable for one, other in zip(first, second, strict=True))
        for first, second in combinations(ways, 2)
    )


def beside_the_pattern(plan: Plan, runs: Runs) -> Iterator[str]:
    """What makes a query of runs more than its pattern of any events that fit, within some time at most; in words."""
    if any(ways != Ways() for ways in runs.ways):
        yield "a strategy other than skip-till-any-match"
    if plan.within is not None and plan.within.unit != "ms":
        yield "within in events"
    if runs.window is not None:
        yield "window:"
    if runs.max_gap_ms is not None:
        yield "max_gap:"
    if runs.after != "no-skip" or runs.longest:
        yield "after: or emit: longest"
    if plan.on_timeout == "emit":
        yield "on_timeout: emit"


def _unfit(plan: Plan, runs: Runs) -> Iterator[str]:
    yield from beside_the_pattern(plan, runs)
    if runs.limits != Limits() or plan.shedding.state_bytes is not None:
        yield _LIMITS
    if plan.shedding.shedder in MATCH_SHEDDERS:
        yield f"the shedder {plan.shedding.shedder}"


# --- the pattern ----------------------------------------------------------------------------------------------------------------


def _alternatives(plan: Plan, runs: Runs) -> tuple[Alternative, ...]:
    _check(runs.pattern)
    if _count(runs.pattern) > MOST:
        raise Obstacle(f"more than {MOST} alternatives")
    sequences = list(_sequences(runs.pattern))
    for sequence in sequences:
        _check_ends(plan, sequence)
    branches = branches_of(runs.pattern)
    positive = [[item for item in sequence if not plan.items[item].negated] for sequence in sequences]
    for first, second in combinations(positive, 2):
        if _differ(plan, first, second):
            continue
        if not precedes(branches, first, second):
            raise Obstacle("alternatives that can bind the very same events, neither of which comes first")
        if all(plan.items[one].variable == plan.items[other].variable for one, other in zip(first, second, strict=True)):
            # they are one set of bindings then, and runs report as which of the items they find it first
            raise Obstacle("alternatives that can bind the very same events to the same variables")
    found = (_alternative(plan, number, sequence) for number, sequence in enumerate(sequences))
    possible = tuple(one for one in found if one is not None)
    if not possible:
        raise Obstacle("predicates that no alternative satisfies")
    return possible


def _check(pattern: Pattern) -> None:
    """Whether it is made of single events, single negations, SEQ and OR."""
    if isinstance(pattern, Take):
        if (pattern.low, pattern.high) != (1, 1) or pattern.different or pattern.until is not None:
            raise Obstacle("a quantifier, or ANY(n; ..)")
    elif isinstance(pattern, Absent):
        if len(pattern.items) > 1 or pattern.for_ms is not None:
            raise Obstacle("a negation of several items, or with FOR")
    elif isinstance(pattern, Every | Repeated):
        raise Obstacle("AND" if isinstance(pattern, Every) else "a repeated group")
    else:
        for part in pattern.parts:
            _check(part)


def _count(pattern: Pattern) -> int:
    """How many sequences it is."""
    counts = [_count(part) for part in pattern.parts] if isinstance(pattern, Ordered | Either) else [1]
    return sum(counts) if isinstance(pattern, Either) else prod(counts)


def _sequences(pattern: Pattern) -> Iterator[list[int]]:
    """The items of the sequences that it is; those of earlier branches come first."""
    if isinstance(pattern, Take):
        yield [pattern.item]
    elif isinstance(pattern, Absent):
        yield [pattern.items[0]]
    elif isinstance(pattern, Either):
        for part in pattern.parts:
            yield from _sequences(part)
    elif isinstance(pattern, Ordered):
        for parts in product(*(list(_sequences(part)) for part in pattern.parts)):
            yield [item for part in parts for item in part]


def _check_ends(plan: Plan, sequence: Sequence[int]) -> None:
    """Whether a match is decided by its last event."""
    if plan.items[sequence[-1]].negated:
        raise Obstacle("a negation at the end")
    if plan.items[sequence[0]].negated and plan.within is None:
        raise Obstacle("a negation at the start without within")


def _never_both(one: Item, other: Item) -> bool:
    return bool(one.types and other.types) and not set(one.types) & set(other.types)


def _differ(plan: Plan, first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether two alternatives never bind the very same events: events stand in the same order in both."""
    if len(first) != len(second):
        return True
    return any(_never_both(plan.items[one], plan.items[other]) for one, other in zip(first, second, strict=True))


# --- an alternative's plan ------------------------------------------------------------------------------------------------------


def _alternative(plan: Plan, number: int, sequence: Sequence[int]) -> Alternative | None:
    """A sequence as a plan; None where its predicates cannot hold."""
    wholes = [plan.items[item] for item in sequence]
    own = {item.bound_to: place for place, item in enumerate(wholes)}
    first = next(place for place, item in enumerate(wholes) if not item.negated)
    local = [
        [_of_items(condition, dict.fromkeys(e.mentioned_items(condition), place)) for condition in item.local]
        for place, item in enumerate(wholes)
    ]
    joins: list[JoinPredicate] = []
    for join in plan.joins:
        negated = None if join.negated_item is None else own.get(join.negated_item)
        if join.negated_item is not None and negated is None:
            continue  # it decides about a negation that is not asked
        condition = _asked(join.condition, own)
        if condition == _TRUE:
            continue
        if condition == _FALSE and negated is None:
            return None
        mentioned = {*e.mentioned_items(condition), *([] if negated is None else [negated])}
        if len(mentioned) > 1:
            joins.append(JoinPredicate(condition, tuple(sorted(mentioned)), negated))
        else:
            local[min(mentioned, default=first)].append(FALSE if condition == _FALSE else condition)
    items = tuple(replace(item, index=place, binding=-1, local=tuple(local[place])) for place, item in enumerate(wholes))
    made = replace(plan, items=items, joins=tuple(joins), returns=tuple(_fields(plan, own)), evaluator="stacks", runs=None, apart=False)
    made = replace(made, columns=(*columns_of(made), ARRIVED), fingerprint=f"{plan.fingerprint}.{number}")
    return Alternative(made, tuple(sequence))


def _fields(plan: Plan, own: Mapping[int, int]) -> Iterator[ReturnField]:
    """The return fields that the alternative has a value for: whatever reads what is not bound is null."""
    for field in plan.returns:
        if field.array:
            raise Obstacle("a list in return:")
        if not _lacks(field.expression, own):
            yield replace(field, expression=_of_items(field.expression, own))


def _lacks(expression: e.Expression, own: Mapping[int, int]) -> bool:
    """Whether it reads an event that is not bound."""
    return any(isinstance(node, e.AttributeOf) and node.item not in own for node in e.walk(expression))


def _asked(condition: Any, own: Mapping[int, int]) -> Any:
    """A condition as the alternative asks it: comparisons with what is not bound are true."""
    if isinstance(condition, e.Not):
        inner = _asked(condition.operand, own)
        return {_TRUE: _FALSE, _FALSE: _TRUE}.get(inner, e.Not(inner))
    if isinstance(condition, e.And | e.Or):
        decisive, neutral = (_TRUE, _FALSE) if isinstance(condition, e.Or) else (_FALSE, _TRUE)
        operands = tuple(one for one in (_asked(operand, own) for operand in condition.operands) if one != neutral)
        if decisive in operands or not operands:
            return decisive if operands else neutral
        return operands[0] if len(operands) == 1 else replace(condition, operands=operands)
    return _TRUE if _lacks(condition, own) else _of_items(condition, own)


def _of_items(expression: Any, own: Mapping[int, int]) -> Any:
    """The expression, which reads nothing that is not bound, with the alternative's items in place of bindings."""
    if isinstance(expression, e.AttributeOf):
        if expression.index is not None:
            raise Obstacle("an index")
        return replace(expression, item=own[expression.item])
    if isinstance(expression, e.Aggregate):
        if expression.function != "count":
            raise Obstacle("an aggregate other than count")
        return e.Literal(Kind.INTEGER, int(expression.item in own))
    return e.rebuilt(expression, lambda inner: _of_items(inner, own))
