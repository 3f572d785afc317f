"""The automaton of a plan, made as far as runs have come: states, edges, and what is decided where.

A predicate is evaluated by the event after which all that it reads is known (queries/README.md, *Decisions where the language is silent*): edge by edge the automaton lists
the predicates that taking this event may decide, and state by state those that are left when a match ends there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.cep.cells.arrays import signed
from app.cep.runs import arrays as at
from app.cep.runs.automaton.asked import asked
from app.cep.runs.automaton.predicates import Rewritten
from app.cep.runs.automaton.terms import Built, Crossing, Term, Way, items_of, passed, split, ways

MOST_STATES = 1_000_000
"""A state takes about a kilobyte."""


@dataclass(frozen=True, slots=True)
class State:
    """What is left, and bindings that can bind no more although no event has said so yet (a stopped or left out closure)."""

    term: Term
    loose: int = 0


class Automaton:
    """States by number, and their tables.

    Args:
        built: the pattern as a term.
        bindings: by item.
        predicates: those over positive bindings.
        negated: by negation, the bindings that its predicates read (with ``i``: never settled before the end).
        tests: rows that stand before its own in the table of tests (those of negated items).
    """

    def __init__(
        self,
        built: Built,
        bindings: Sequence[int],
        predicates: Sequence[Rewritten],
        negated: Sequence[Sequence[Rewritten]],
        tests: Sequence[Sequence[int]],
    ) -> None:
        self._built, self._bindings, self._predicates, self._negated = built, bindings, predicates, negated
        self.states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._ways: list[list[Way] | None] = []
        self.rows: dict[str, list[list[int]]] = {name: [] for name in ("states", "edges", "asks", "tests", "crosses", "beside")}
        self.rows["tests"].extend(list(row) for row in tests)
        self.start = self.number(State(built.term))
        self.expand(self.start)

    def number(self, state: State) -> int:
        """The number of a state, new or known; what a match needs that ends there is worked out at once."""
        known = self._numbers.get(state)
        if known is not None:
            return known
        number = len(self.states)
        if number == MOST_STATES:
            raise ValueError(f"the pattern needs more than {MOST_STATES} states; make its groups and counts smaller")
        self._numbers[state] = number
        self.states.append(state)
        opened = self._open(state.term)
        ends = passed(state.term)
        final = not any(True for _ in ways(state.term))
        row = [0, 0, 0, 0, int(ends is not None), 0, 0, 0, 0, opened, int(final), 0]
        if ends is not None:
            row[at.ENDING] = len(self.rows["tests"])
            for k, predicate in enumerate(self._predicates):
                if any(self._bit(b) & (opened | state.loose) for b in predicate.settled_late()):
                    self.rows["tests"].append([k, at.EVERY if predicate.indexed else at.WHOLE, 0, 0])
            row[at.ENDING_END] = len(self.rows["tests"])
            row[at.ENDS], row[at.ENDS_END] = self._crossings(ends, opened, now=False)
        self.rows["states"].append(row)
        return number

    def expand(self, number: int) -> None:
        """Works out the edges of a state, and of the states that it may become without taking an event."""
        waiting = [number]
        while waiting:
            waiting += self._expand(waiting.pop())

    def _expand(self, number: int) -> list[int]:
        """The edges of one state; returns the states that it may become without taking an event."""
        row = self.rows["states"][number]
        if row[at.EXPANDED]:
            return []
        row[at.EXPANDED] = 1
        state = self.states[number]
        found = list(dict.fromkeys(ways(state.term)))
        without: list[int] = []
        edges = []
        for way in found:
            left_out = -1
            if way.without is not None:
                left_out = self._silent(state, way.without)
                without.append(left_out)
            edges.append(self._edge(state, way, left_out))
        row[at.EDGES] = len(self.rows["edges"])
        self.rows["edges"].extend(edges)
        row[at.EDGES_END] = len(self.rows["edges"])
        asks = []
        for until, rests in asked(state.term):
            target = self._silent(state, split(rests)) if rests else -1
            without += [target] if rests else []
            asks.append([until, target])
        row[at.ASKS] = len(self.rows["asks"])
        self.rows["asks"].extend(asks)
        row[at.ASKS_END] = len(self.rows["asks"])
        return without

    def expand_missing(self) -> None:
        """Works out the edges of all states that runs may be in."""
        for number in range(len(self.states)):
            self.expand(number)

    def tables(self) -> dict[str, Any]:
        """The tables as arrays."""
        return {name: at.table(name, rows) for name, rows in self.rows.items()}

    def most_edges(self) -> int:
        """Edges of the state that has most."""
        return max((row[at.EDGES_END] - row[at.EDGES] for row in self.rows["states"]), default=1)

    def _silent(self, state: State, term: Term) -> int:
        """The state after a change that no event made: what cannot bind any more counts as decided by the next event."""
        loose = (self._open(state.term) | state.loose) & ~self._open(term)
        return self.number(State(term, loose))

    def _bit(self, binding: int) -> int:
        return 1 << binding

    def _open(self, term: Term) -> int:
        mask = 0
        for item in items_of(term):
            mask |= 1 << self._bindings[item]
        return mask

    def _edge(self, state: State, way: Way, without: int) -> list[int]:
        target = self.number(State(way.rest))
        before, after = self._open(state.term) | state.loose, self._open(way.rest)
        binding = self._bindings[way.item]
        tests = len(self.rows["tests"])
        for k, predicate in enumerate(self._predicates):
            closed = sum(1 << b for b in predicate.bindings() if before & ~after & (1 << b))
            if binding not in predicate.bindings() and not closed:
                continue
            self.rows["tests"].append(self._test(k, predicate, binding, closed))
        tests_end = len(self.rows["tests"])
        crosses, crosses_end = self._crossings(way.crossed, after, now=True)
        enters = sum(1 << number for number in way.enters)
        return [way.item, target, way.different, tests, tests_end, crosses, crosses_end, without, enters]

    @staticmethod
    def _test(number: int, predicate: Rewritten, binding: int, closed: int) -> list[int]:
        if not predicate.indexed:
            return [number, at.WHOLE, 0, 0]
        late = predicate.settled_late()
        backs = predicate.backs(binding)
        if backs and binding not in late and not any(closed >> b & 1 for b in late):
            # only the newest element can make an instance complete
            return [number, at.NEWEST, min(backs), binding]
        return [number, at.EVERY, 0, 0]

    def _crossings(self, crossings: Sequence[Crossing], opened: int, *, now: bool) -> tuple[int, int]:
        start = len(self.rows["crosses"])
        for crossing in crossings:
            beside = len(self.rows["beside"])
            for number, operand in crossing.beside:
                items = frozenset().union(*(own for k, own in enumerate(self._built.operands[number]) if k != operand))
                self.rows["beside"].append([number, signed(sum(1 << item for item in items))])
            predicates = self._negated[crossing.number]
            settled = not any(one.indexed or any(opened >> b & 1 for b in one.bindings()) for one in predicates)
            self.rows["crosses"].append([crossing.number, int(now and settled), beside, len(self.rows["beside"])])
        return start, len(self.rows["crosses"])
