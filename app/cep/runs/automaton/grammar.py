"""From a plan to its grammar: terms, predicates over slots, the automaton. No kernel is needed for it, so `cep explain` starts without numba."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.cep.runs import arrays as at
from app.cep.runs.automaton.automaton import Automaton
from app.cep.runs.automaton.predicates import Rewritten, rewrite, strict
from app.cep.runs.automaton.terms import Built, built
from app.query.plan import Plan, Runs


@dataclass(frozen=True, slots=True)
class Grammar:
    """What of a plan does not depend on kinds of columns: the pattern as terms, predicates over slots, the automaton.

    Attributes:
        pattern: as terms.
        predicates: positive ones, then those of negated items, UNTILs, return fields.
        negated: by negation and part, the range of its rows in the table of tests.
        untils: numbers of predicates, by UNTIL.
        fields: numbers of predicates, by return field (-1: a list).
    """

    pattern: Built
    predicates: tuple[Rewritten, ...]
    negated: tuple[tuple[tuple[int, int], ...], ...]
    untils: tuple[int, ...]
    fields: tuple[int, ...]
    automaton: Automaton
    bindings: tuple[int, ...]


def runs_of(plan: Plan) -> Runs:
    """The pattern of a plan of runs.

    Raises:
        ValueError: the plan has none.
    """
    if plan.runs is None:
        raise ValueError(f"the plan of {plan.name} has no pattern for the runs evaluator")
    return plan.runs


def grammar_of(plan: Plan) -> Grammar:
    """The pattern, its predicates and its automaton."""
    runs = runs_of(plan)
    pattern = built(runs.pattern)
    bindings = tuple(item.bound_to for item in plan.items)
    predicates: list[Rewritten] = []

    def add(condition: Any, own: int = -1, running: int = at.RUNNING) -> int:
        predicates.append(rewrite(condition, own, running=running))
        return len(predicates) - 1

    for join in plan.joins:
        if join.negated_item is None:
            add(join.condition)
    positive = len(predicates)
    negated: list[tuple[tuple[int, int], ...]] = []
    tests: list[list[int]] = []
    over: list[list[Rewritten]] = []
    for negation in pattern.negations:
        start = len(tests)
        parts: list[tuple[int, int]] = []
        for item in negation.items:
            own = [add(join.condition, bindings[item]) for join in plan.joins if join.negated_item == bindings[item]]
            first = len(tests)
            tests.extend([k, at.EVERY if predicates[k].indexed else at.WHOLE, 0, 0] for k in own)
            parts.append((first, len(tests)))
        negated.append(tuple(parts))
        over.append([predicates[test[at.TEST_PREDICATE]] for test in tests[start:]])
    untils = tuple(add(strict(take.until), bindings[take.item], at.MAYBE) for take in pattern.untils)
    fields = tuple(-1 if field.array else add(field.expression) for field in plan.returns)
    automaton = Automaton(pattern, bindings, predicates[:positive], over, tests)
    return Grammar(pattern, tuple(predicates), tuple(negated), untils, fields, automaton, bindings)
