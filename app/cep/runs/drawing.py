"""A plan's automaton for people: what is left of the pattern after every event, and what is decided on the way there."""

from __future__ import annotations

from dataclasses import dataclass

from app.cep.runs import arrays as at
from app.cep.runs.automaton.grammar import Grammar, grammar_of
from app.cep.runs.automaton.predicates import Rewritten
from app.cep.runs.automaton.terms import Again, All, Choice, Never, Not, One, Series, Split, Term
from app.query.explain.explain_runs import binding_names, name_of, pattern_text
from app.query.explain.stages import show
from app.query.plan import Plan
from app.query.resolved.features import quantifier_text
from app.query.tree import tree as t

MOST_STATES = 40
"""States that are drawn; patterns with large numbers or ANDs have very many."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A way to go on: an event of ``item`` leads to ``target``. ``decides``: what is decided then; ``stops``: the UNTIL that leads there instead."""

    item: str
    target: int
    decides: tuple[str, ...] = ()
    stops: bool = False


@dataclass(frozen=True, slots=True)
class Drawn:
    """A state. ``left``: of the pattern; ``ends``: whether a match may end here, then what is decided; ``edges`` None: not drawn any more."""

    number: int
    left: str
    ends: bool
    deciding: tuple[str, ...]
    edges: tuple[Edge, ...] | None


def drawn(plan: Plan, most: int = MOST_STATES) -> tuple[list[Drawn], int]:
    """The first states of a plan's automaton, nearest to the start first, and how many more are known to follow."""
    grammar = grammar_of(plan)
    automaton = grammar.automaton
    numbers: dict[int, int] = {}
    waiting = [automaton.start]
    found: list[Drawn] = []
    while waiting:
        own = waiting.pop(0)
        if own in numbers:
            continue
        numbers[own] = len(numbers)
        if len(numbers) > most:
            continue
        automaton.expand(own)
        waiting += [row[at.TARGET] for row in _rows(automaton.rows, own, "edges")]
        waiting += [target for row in _rows(automaton.rows, own, "asks") for target in _stopped(row)]
    shown = list(numbers)[:most]
    texts = _Texts(plan, grammar, shown)
    for own in shown:
        row = automaton.rows["states"][own]
        edges = [
            Edge(name_of(plan.items[edge[at.EDGE_ITEM]]), numbers[edge[at.TARGET]], texts.on_edge(own, edge))
            for edge in _rows(automaton.rows, own, "edges")
        ]
        for ask in _rows(automaton.rows, own, "asks"):
            item = name_of(plan.items[grammar.pattern.untils[ask[at.ASK_UNTIL]].item])
            edges += [Edge(item, numbers[target], stops=True) for target in _stopped(ask)]
        found.append(Drawn(numbers[own], texts.term(automaton.states[own].term), bool(row[at.ACCEPTS]), texts.at_end(row), tuple(edges)))
    return found, max(0, len(numbers) - most)


def _rows(rows: dict[str, list[list[int]]], state: int, name: str) -> list[list[int]]:
    start, stop = (at.EDGES, at.EDGES_END) if name == "edges" else (at.ASKS, at.ASKS_END)
    own = rows["states"][state]
    return rows[name][own[start] : own[stop]]


def _stopped(ask: list[int]) -> list[int]:
    return [ask[at.STOPPED]] if ask[at.STOPPED] >= 0 else []


class _Texts:
    """Terms and tests of one plan in words."""

    def __init__(self, plan: Plan, grammar: Grammar, states: list[int]) -> None:
        self._plan, self._grammar = plan, grammar
        self._bound = _bound_in(grammar, states)
        self._names = binding_names(plan)
        # predicates over positive items come first, in the order of the plan
        self._conditions = [show(join.condition, self._names) for join in plan.joins if join.negated_item is None]

    def term(self, term: Term) -> str:
        """What is left, as a pattern."""
        match term:
            case One(item, block, of, _):
                return name_of(self._plan.items[item]) + (f" ({block + 1}. of {of})" if of else "")
            case Not(number):
                return pattern_text(self._grammar.pattern.negations[number], self._plan)
            case Never():
                return "what can come no more"
            case Again(part, low, high, _, _):
                quantifier = quantifier_text(t.Quantifier(low, high))
                inner = self.term(part)
                return f"{inner if isinstance(part, One) and not part.of else f'({inner})'}{quantifier}"
        parts = [self.term(part) for part in term.parts if part != Series(())]
        if isinstance(term, Series):
            return ", ".join(parts) or "nothing"
        return f"{'AND' if isinstance(term, All) else 'OR' if isinstance(term, Choice | Split) else ''}({', '.join(parts)})"

    def on_edge(self, state: int, edge: list[int]) -> tuple[str, ...]:
        """What an edge decides: predicates that wait for what can only come later are left out."""
        automaton = self._grammar.automaton
        bound = self._bound.get(state, 0) | 1 << self._grammar.bindings[edge[at.EDGE_ITEM]]
        opened = automaton.rows["states"][edge[at.TARGET]][at.OPEN]
        numbers = [row[at.TEST_PREDICATE] for row in automaton.rows["tests"][edge[at.TESTS] : edge[at.TESTS_END]]]
        asked = [k for k in numbers if not _waits(self._grammar.predicates[k], bound, opened)]
        return (*(self._conditions[k] for k in asked), *self._absent(edge[at.CROSSES], edge[at.CROSSES_END], "in between"))

    def at_end(self, state: list[int]) -> tuple[str, ...]:
        """What is decided when a match ends in a state."""
        tests = self._grammar.automaton.rows["tests"][state[at.ENDING] : state[at.ENDING_END]]
        asked = [self._conditions[row[at.TEST_PREDICATE]] for row in tests]
        return (*asked, *self._absent(state[at.ENDS], state[at.ENDS_END], "until the end"))

    def _absent(self, start: int, stop: int, where: str) -> list[str]:
        rows = self._grammar.automaton.rows["crosses"][start:stop]
        negations = [self._grammar.pattern.negations[row[at.CROSS_NEGATION]] for row in rows]
        return [f"no {pattern_text(one, self._plan).removeprefix('!')} {where}" for one in negations]


def _waits(predicate: Rewritten, bound: int, opened: int) -> bool:
    """Whether a predicate reads what can only be bound later, or the end of a closure that can still grow."""
    finished = {one.binding for one in predicate.references if one.anchor == at.LAST}
    finished |= {one.item for one in predicate.arguments if not one.running}
    later = opened & ~bound
    return any(opened >> one & 1 for one in finished) or any(later >> one & 1 for one in predicate.bindings())


def _bound_in(grammar: Grammar, states: list[int]) -> dict[int, int]:
    """Masks of the bindings that may be bound in each state."""
    rows = grammar.automaton.rows
    bound = dict.fromkeys(states, 0)
    changed = True
    while changed:
        changed = False
        for state in states:
            steps = [(edge[at.TARGET], 1 << grammar.bindings[edge[at.EDGE_ITEM]]) for edge in _rows(rows, state, "edges")]
            steps += [(target, 0) for ask in _rows(rows, state, "asks") for target in _stopped(ask)]
            for target, own in steps:
                known = bound.get(target, 0)
                bound[target] = known | bound[state] | own
                changed |= bound[target] != known
    return bound
