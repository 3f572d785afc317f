"""Runs: the language page's sentences on strategies, played event by event. Slow and plain; all runs are kept.

A run is what it has bound, how far each part of the pattern has come (a *state*), and the ways it may no longer go. A state is nested like the
shape: None (not begun), True (`One` that is done), a count (`Block`), ``(item, state)`` (Seq, OneOf, Repeat: the round), a tuple of states (All).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.naive import patterns as p
from tests.naive.assignments import differ, lies_within
from tests.naive.inputs import Scope
from tests.naive.negation import CONTIGUOUS, positive_predicates, view_of
from tests.naive.predicates import holds_everywhere
from tests.naive.shape import Assignment, Block, Bound, One, Path, Repeat, can_be_empty, least, under
from tests.naive.until import stopped

ANY, NEXT = "skip-till-any-match", "skip-till-next-match"


@dataclass(frozen=True)
class Run:
    """``closed``: ways passed for good; ``left_out``: rounds of groups that the run goes on without, as paths."""

    bound: Assignment = ()
    state: Any = None
    closed: frozenset[Path] = frozenset()
    left_out: frozenset[Path] = frozenset()


@dataclass(frozen=True)
class Way:
    """One place that a run's next event can take, and the state then.

    ``entered``: rounds of groups that would begin here and need not, the outermost first. ``closures``: the closures with UNTIL on the way.
    """

    leaf: One | Block
    path: Path
    state: Any
    entered: tuple[Path, ...] = ()
    closures: tuple[tuple[Repeat, Path], ...] = ()


def ways(node: Any, state: Any, path: Path = ()) -> Iterator[Way]:
    """All ways on from a state, whatever the event."""
    match node:
        case One():
            if state is None:
                yield Way(node, path, True)
        case Block(item):
            taken = state or 0
            if taken < (item.count or 0):
                yield Way(node, (*path, ("slot", taken)), taken + 1)
        case p.Seq(items):
            index, inner = state or (0, None)
            for place in range(index, len(items)):
                own = inner if place == index else None
                if not isinstance(items[place], p.Absence):
                    for way in ways(items[place], own, (*path, ("seq", place))):
                        yield replace(way, state=(place, way.state))
                if not finished(items[place], own):
                    return
        case p.All(operands):
            states = state or (None,) * len(operands)
            for index, operand in enumerate(operands):
                for way in ways(operand, states[index], (*path, ("and", index))):
                    yield replace(way, state=(*states[:index], way.state, *states[index + 1 :]))
        case p.OneOf(operands):
            for index, operand in enumerate(operands):
                if state is None or state[0] == index:
                    for way in ways(operand, state and state[1], (*path, ("or", index))):
                        yield replace(way, state=(index, way.state))
        case Repeat(inner):
            number, own = state or (-1, None)
            if state is not None:
                for way in ways(inner, own, (*path, ("round", number))):
                    yield with_closure(replace(way, state=(number, way.state)), node, path)
            if state is None or (finished(inner, own) and (node.quantifier.high is None or number + 1 < node.quantifier.high)):
                begun = (*path, ("round", number + 1))
                for way in ways(inner, None, begun):
                    entered = (begun, *way.entered) if node.group and number + 1 >= least(node) else way.entered
                    yield with_closure(replace(way, state=(number + 1, way.state), entered=entered), node, path)


def with_closure(way: Way, node: Repeat, path: Path) -> Way:
    return replace(way, closures=(*way.closures, (node, path))) if node.until is not None else way


def finished(node: Any, state: Any) -> bool:
    """Whether the node may stay as it is."""
    if state is None:
        return can_be_empty(node)
    match node:
        case One():
            return True
        case Block(item):
            return bool(state == item.count)
        case p.Seq(items):
            index, inner = state
            return finished(items[index], inner) and all(map(can_be_empty, items[index + 1 :]))
        case p.All(operands):
            return all(finished(operand, own) for operand, own in zip(operands, state, strict=True))
        case p.OneOf(operands):
            return finished(operands[state[0]], state[1])
        case Repeat(inner):
            return finished(inner, state[1]) and state[0] + 1 >= least(node)
    raise TypeError(node)


@dataclass(frozen=True)
class Player:
    """Plays a query over one scope."""

    query: p.WholeQuery
    shape: Any
    scope: Scope

    def runs(self) -> tuple[list[Run], list[Run]]:
        """All runs that can accept, each as it is when it has just taken an event; and all runs that wait at the end."""
        accepting: dict[Run, None] = {}
        waiting: list[Run] = []
        for event in self.scope.members:
            after: dict[Run, None] = {}
            for run in waiting:
                after.update(dict.fromkeys(self.after(run, event)))
            begun = [self.taking(Run(), way, event) for way in self.able(Run(), event)]
            after.update(dict.fromkeys(begun))
            waiting = list(after)
            accepting.update(dict.fromkeys(run for run in waiting if run.bound[-1].event == event and self.accepts(run)))
        return list(accepting), waiting

    def accepts(self, run: Run) -> bool:
        """Whether the pattern may stay as it is."""
        return finished(self.shape, run.state)

    def after(self, run: Run, event: int) -> list[Run]:
        """What becomes of a run at an event of its partition."""
        able = self.able(run, event)
        on = [self.taking(run, way, event) for way in able]
        insisting = [way for way in able if self.strategy(run, way) == NEXT]
        groups = frozenset(way.entered[-1] for way in insisting if way.entered)
        if groups:
            return on + self.after(replace(run, left_out=run.left_out | groups), event)
        if not insisting:
            return [*on, run]
        others = [way.path for way in self.open_ways(run) if self.strategy(run, way) != ANY]
        passed = replace(run, closed=run.closed.union(others))
        left = [way for way in self.open_ways(passed) if not self.is_stopped(passed, way, event)]
        return [*on, passed] if left else on

    def open_ways(self, run: Run) -> list[Way]:
        """The ways that the run has not passed for good."""
        return [way for way in ways(self.shape, run.state) if way.path not in run.closed and not run.left_out.intersection(way.entered)]

    def strategy(self, run: Run, way: Way) -> str:
        """Of the way: to the first event of a variable, or to a further one; at the start it has no effect."""
        if not run.bound:
            return ANY
        variable = way.leaf.item.var
        numbers = {leaf.number for leaf in leaves_of(self.shape) if leaf.item.var == variable is not None} or {way.leaf.number}
        further = any(bound.number in numbers for bound in run.bound)
        return self.query.ways.get(f"{variable}[]" if further else f"{variable}", self.query.strategy)

    def able(self, run: Run, event: int) -> list[Way]:
        """The ways on which the run can take the event."""
        return [way for way in self.open_ways(run) if self.can_take(run, way, event)]

    def can_take(self, run: Run, way: Way, event: int) -> bool:
        strategy = self.strategy(run, way)
        if self.scope.events[event]["type"] not in way.leaf.item.types or (
            strategy in CONTIGUOUS and self.next_after(run, strategy) != event
        ):
            return False
        if isinstance(way.leaf, Block):
            own = under(run.bound, way.path[:-1])
            if not all(differ(way.leaf.item, self.scope, bound.event, event) for bound in own):
                return False
        if self.is_stopped(run, way, event):
            return False
        taken = self.taking(run, way, event)
        if not lies_within(self.query, self.shape, taken.bound, self.scope):
            return False
        view = view_of(self.query, self.shape, taken.bound, self.scope, self.closures, self.open_variables(taken))
        return all(holds_everywhere(predicate, view) for predicate in positive_predicates(self.query))

    def is_stopped(self, run: Run, way: Way, event: int) -> bool:
        """Whether an UNTIL on the way has been satisfied, up to an event."""
        return any(stopped(self.shape, repeat, path, run.bound, event, self.scope, self.closures) for repeat, path in way.closures)

    def taking(self, run: Run, way: Way, event: int) -> Run:
        return replace(run, bound=(*run.bound, Bound(way.path, way.leaf.number, event)), state=way.state)

    def next_after(self, run: Run, strategy: str) -> int | None:
        """The very next event after the last event of the match."""
        others = self.scope.stream if strategy == "strict-contiguity" else self.scope.members
        return min((event for event in others if event > run.bound[-1].event), default=None)

    @property
    def closures(self) -> frozenset[str]:
        return frozenset(p.closures_of(self.query.pattern))

    def open_variables(self, run: Run) -> frozenset[str]:
        """The variables that can still bind something: some way ahead leads to them, now or after others."""
        return frozenset(leaf.item.var for leaf in self.ahead(self.shape, run.state, run, ()) if leaf.item.var)

    def ahead(self, node: Any, state: Any, run: Run, path: Path) -> Iterator[One | Block]:
        """The places below a node that can still take an event."""
        if path in run.closed or path in run.left_out:
            return
        match node:
            case One():
                if state is None:
                    yield node
            case Block(item):
                if (state or 0) < (item.count or 0) and (*path, ("slot", state or 0)) not in run.closed:
                    yield node
            case p.Seq(items):
                index, inner = state or (0, None)
                for place in range(index, len(items)):
                    yield from self.ahead(items[place], inner if place == index else None, run, (*path, ("seq", place)))
            case p.All(operands):
                for index, operand in enumerate(operands):
                    yield from self.ahead(operand, state and state[index], run, (*path, ("and", index)))
            case p.OneOf(operands):
                for index, operand in enumerate(operands):
                    if state is None or state[0] == index:
                        yield from self.ahead(operand, state and state[1], run, (*path, ("or", index)))
            case Repeat(inner, quantifier):
                last = run.bound[-1].event if run.bound else -1
                if node.until is not None and run.bound and stopped(self.shape, node, path, run.bound, last, self.scope, self.closures):
                    return
                number, own = state or (-1, None)
                if state is not None:
                    yield from self.ahead(inner, own, run, (*path, ("round", number)))
                if quantifier.high is None or number + 1 < quantifier.high:
                    yield from self.ahead(inner, None, run, (*path, ("round", number + 1)))


def leaves_of(node: Any) -> Iterator[One | Block]:
    if isinstance(node, One | Block):
        yield node
    for child in (node.inner,) if isinstance(node, Repeat) else p.children(node):
        yield from leaves_of(child)
