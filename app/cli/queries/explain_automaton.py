"""``cep explain --stage automaton``: what is left of the pattern after every event, and what is decided on the way there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from app.cep.runs import arrays as at
from app.cep.runs.automaton.grammar import Grammar, grammar_of
from app.cep.runs.automaton.predicates import Rewritten
from app.cep.runs.automaton.terms import Again, All, Choice, Never, Not, One, Series, Split, Term
from app.errors import CepError
from app.query.compile import Compiled
from app.query.explain.explain_runs import binding_names, name_of, pattern_text
from app.query.explain.stages import STAGES, Stage, show
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


def _plan(query: Compiled) -> Plan:
    if query.plan is None:
        raise CepError(f'query "{query.name}" has errors and so no automaton; cep validate shows them')
    if query.plan.runs is None:
        raise CepError(
            f'query "{query.name}" has no automaton: the {query.plan.evaluator} evaluator runs it\nhint: --stage plan, asc and code show it'
        )
    return query.plan


def _text(query: Compiled) -> str:
    states, more = drawn(_plan(query))
    lines = ["automaton: what is left of the pattern, and what the next event can be"]
    for state in states:
        lines.append(f"  state {state.number}: {state.left}")
        for edge in state.edges or ():
            if edge.stops:
                lines.append(f"      UNTIL of {edge.item} holds -> {edge.target}")
                continue
            lines.append(f"      {edge.item} -> {edge.target}" + (f"   if {' and '.join(edge.decides)}" if edge.decides else ""))
        if state.ends:
            lines.append("      a match can end here" + (f", if {' and '.join(state.deciding)}" if state.deciding else ""))
    if more:
        lines.append(f"  and more: {more} that follow these {len(states)} directly, and what comes behind them")
    return "\n".join(lines) + "\n"


def _mermaid(query: Compiled) -> str:
    states, more = drawn(_plan(query))
    lines = ["stateDiagram-v2", "  direction LR", "  [*] --> s0"]
    lines += [f'  state "{_label(state.left)}" as s{state.number}' for state in states]
    for state in states:
        for edge in state.edges or ():
            label = f"UNTIL of {edge.item}" if edge.stops else " and ".join((edge.item, *edge.decides))
            target = f"s{edge.target}" if edge.target < len(states) else "more"
            lines.append(f"  s{state.number} --> {target}: {_label(label)}")
        if state.ends:
            lines.append(f"  s{state.number} --> [*]" + (f": {_label(' and '.join(state.deciding))}" if state.deciding else ""))
    if more:
        lines.insert(3, f'  state "{more} more" as more')
    return "\n".join(lines) + "\n"


_CODES = str.maketrans({"#": "#35;", ";": "#59;", ":": "#colon;", '"': "#quot;", "<": "#lt;", ">": "#gt;"})


def _label(text: str) -> str:
    """Text that mermaid takes for text: it reads colons, quotes, semicolons and angle brackets otherwise."""
    return text.translate(_CODES)


def _json(query: Compiled) -> str:
    states, more = drawn(_plan(query))
    answer: dict[str, Any] = {
        "query": query.name,
        "states": [
            {
                "state": state.number,
                "left": state.left,
                "ends": state.ends,
                "deciding": list(state.deciding),
                "edges": [{"item": e.item, "to": e.target, "decides": list(e.decides), "until": e.stops} for e in state.edges or ()],
            }
            for state in states
        ],
        "more": more,
    }
    return orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode() + "\n"


AUTOMATON = Stage(_text, _mermaid, _json)


def _whole_text(query: Compiled) -> str:
    text = STAGES["plan"].text(query)
    return text + _text(query) if query.plan is not None and query.plan.runs is not None else text


def _whole_mermaid(query: Compiled) -> str:
    return _mermaid(query) if query.plan is not None and query.plan.runs is not None else STAGES["plan"].mermaid(query)


PLAN = Stage(_whole_text, _whole_mermaid, STAGES["plan"].json)
"""The plan as `cep explain` shows it: with the automaton where there is one."""
