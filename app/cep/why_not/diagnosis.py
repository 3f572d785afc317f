"""Why a stream does not give a match: the automaton played event by event in plain Python, with a reason for everything that does not happen.

Meaning and decisions are the engine's (`app.cep.runs`: `kernels_meet`, `kernels_predicates`, `kernels_negation`); nothing here is fast. Identities, ``after:`` and ``emit: longest``
choose among finished matches and are not played.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from operator import attrgetter
from typing import Any

from app.cep.runs import arrays as at
from app.cep.runs.automaton.grammar import grammar_of, runs_of
from app.cep.why_not.plain_events import Seen, Stream, shown_value
from app.cep.why_not.plain_run import Crossed, Run, Step, View
from app.cep.why_not.reasons import Met, Reason
from app.config.durations import format_duration
from app.events.types import Kind
from app.query.explain.explain_runs import binding_names, name_of
from app.query.explain.stages import show

ANY, NEXT = "skip-till-any-match", "skip-till-next-match"


class Diagnosis:
    """One plan over the events of one file.

    Args:
        stream: of the events.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream, self.plan = stream, stream.plan
        self.runs = runs_of(self.plan)
        self.grammar = grammar_of(self.plan)
        self.names = binding_names(self.plan)
        self._rows = self.grammar.automaton.rows
        self._positive = [join.condition for join in self.plan.joins if join.negated_item is None]
        self._of_item = {item.index: stream.candidates(item) for item in self.plan.items}
        self._can_be = {item: {event.rank for event in events} for item, events in self._of_item.items()}
        self._by_rank = stream.events

    # --- runs -----------------------------------------------------------------------------------------------------------------

    def begin(self, event: Seen) -> list[Run]:
        """The partial matches that an event starts."""
        start = Run(self.grammar.automaton.start, windows=event.windows)
        return [run for each in self._stopped(start, event) for edge in self.edges(each) for run in self.taking(each, edge, event)]

    def meet(self, run: Run, event: Seen) -> Met:
        """What becomes of a partial match at a later event of its partition."""
        over = self.closed_before(run, event)
        if over is not None:
            return Met((), None, over)
        taken: list[Run] = []
        passed: Run | None = None
        over = None
        for each in self._stopped(run, event):
            able = [edge for edge in self.edges(each) if self.refusal(each, edge, event) is None]
            taken += [one for edge in able for one in self.taking(each, edge, event)]
            left = self._passing(each, event)
            passed = left if left is not None else passed
            if left is None and able:
                over = self._obliged(each, able, event)
            elif left is None and self.edges(each):
                over = self._contiguity(each, event)
            elif left is None and self.edges(run):
                over = Reason("until", f"line {event.line} satisfies the UNTIL: the closure takes nothing from there on", event)
        return Met(tuple(taken), passed, None if passed is not None else over)

    def _obliged(self, run: Run, able: Sequence[list[int]], event: Seen) -> Reason:
        """What ends a partial match at an event that it has to take: the negation that forbids it then, or just this."""
        names = ", ".join(dict.fromkeys(name_of(self.plan.items[edge[at.EDGE_ITEM]]) for edge in able))
        forbidden = next((reason for edge in able if (reason := self.prevented(run, edge, event)) is not None), None)
        if forbidden is not None:
            return Reason("negation", f"line {event.line} is taken as {names}, but {forbidden.text}", event)
        return Reason("strategy", f"{NEXT}: line {event.line} can be {names}, so it is taken and not passed", event)

    def edges(self, run: Run) -> list[list[int]]:
        """The ways on from the state of a partial match."""
        self.grammar.automaton.expand(run.state)
        row = self._rows["states"][run.state]
        return self._rows["edges"][row[at.EDGES] : row[at.EDGES_END]]

    def taking(self, run: Run, edge: list[int], event: Seen) -> list[Run]:
        """The partial match with the event: none where it cannot be taken, or a negation between forbids it."""
        if self.refusal(run, edge, event) is not None or self.prevented(run, edge, event) is not None:
            return []
        return [self._with(run, edge, event)]

    def _with(self, run: Run, edge: list[int], event: Seen) -> Run:
        entered = tuple(k for k in range(edge[at.ENTERS].bit_length()) if edge[at.ENTERS] >> k & 1)
        upper = len(run.steps)
        crossed = [Crossed(n, self._before(run.steps, cross), upper) for n, cross in self._crosses(edge[at.CROSSES], edge[at.CROSSES_END])]
        windows = (max(run.windows[0], event.windows[0]), run.windows[1])
        steps = (*run.steps, Step(edge[at.EDGE_ITEM], event, entered))
        return replace(run, state=edge[at.TARGET], steps=steps, crossed=(*run.crossed, *crossed), windows=windows)

    def _crosses(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """(negation, row of the crossing)."""
        for row in range(start, stop):
            yield self._rows["crosses"][row][at.CROSS_NEGATION], row

    def _before(self, steps: Sequence[Step], cross: int) -> int:
        """The step before a negation: events of other operands of an AND around it do not count."""
        row = self._rows["crosses"][cross]
        beside = self._rows["beside"][row[at.BESIDE] : row[at.BESIDE_END]]
        over: set[int] = set()
        for place in range(len(steps) - 1, -1, -1):
            own = [(number, items) for number, items in beside if number not in over]
            if not any(items >> steps[place].item & 1 for _, items in own):
                return place
            over |= {number for number, _ in beside if number in steps[place].entered}
        return -1

    def strategy(self, run: Run, edge: list[int]) -> str:
        """The strategy of a way."""
        binding = self.grammar.bindings[edge[at.EDGE_ITEM]]
        ways = self.runs.ways[binding]
        return ways.further if run.of(binding, self.grammar.bindings) else ways.first

    # --- why an event is not taken --------------------------------------------------------------------------------------------

    def refusal(self, run: Run, edge: list[int], event: Seen) -> Reason | None:
        """Why a partial match cannot take an event on a way, or None."""
        item = self.plan.items[edge[at.EDGE_ITEM]]
        if event.rank not in self._can_be[item.index]:
            return self._no_candidate(item.index, event)
        if run.steps and event.key != run.first.key:
            keys = ", ".join(sorted(self.plan.equivalence))
            return Reason("key", f"it has another {keys}: {_key_text(event)}, not {_key_text(run.first)}", event)
        if event.windows[0] > event.windows[1]:
            return Reason("window", "no window is open at it", event)
        closed = self.closed_before(run, event) if run.steps else None
        if closed is not None:
            return replace(closed, event=event)
        refused = self._by_strategy(run, edge, event) if run.steps else None
        if refused is not None:
            return refused
        count = edge[at.DIFFERENT]
        if count and not self._differs(run, item.index, count, event):
            by = self._take_of(item.index) or "type"
            return Reason("different", f"its {by} does not differ from those of the events bound to {name_of(item)} before", event)
        return self._by_predicates(self._with(run, edge, event), event)

    def _no_candidate(self, number: int, event: Seen) -> Reason:
        item = self.plan.items[number]
        if not self.stream.fits_type(item, event):
            return Reason("type", f"it is of type {event.type}", event)
        keyless = self.stream.keyless(item, event)
        if keyless is not None:
            return Reason("key", keyless, event)
        return Reason("test", self.stream.fails(item, event) or "it is no candidate", event)

    def closed_before(self, run: Run, event: Seen) -> Reason | None:
        """Whether the window of a partial match has closed before an event."""
        within, gap = self.plan.within, self.runs.max_gap_ms
        if within is not None and within.unit == "ms" and (over := event.time - run.first.time - within.size) >= 0:
            where = f"{format_duration(over)} behind" if over else "exactly at the end of"
            return Reason("window", f"it lies {where} the window of {format_duration(within.size)} from line {run.first.line} on", event)
        if within is not None and within.unit == "events" and event.key_rank - run.first.key_rank >= within.size:
            over = event.key_rank - run.first.key_rank - within.size + 1
            return Reason("window", f"it lies {over} events behind the window of {within.size} events from line {run.first.line} on", event)
        if self.runs.window is not None and event.windows[0] > run.windows[1]:
            return Reason("window", "it lies in none of the windows that hold the events bound before", event)
        if gap is not None and (apart := event.time - run.last.time) >= gap:
            return Reason("gap", f"it comes {format_duration(apart)} after line {run.last.line}: max_gap is {format_duration(gap)}", event)
        return None

    def _by_strategy(self, run: Run, edge: list[int], event: Seen) -> Reason | None:
        strategy = self.strategy(run, edge)
        if strategy == ANY:
            return None
        if edge[at.EDGE_ITEM] in run.closed:
            name = name_of(self.plan.items[edge[at.EDGE_ITEM]])
            return Reason(
                "strategy", f"{strategy}: the match passed an event before that it could have taken, which closed the way to {name}", event
            )
        between = self._between(run, event, strategy)
        if between is None:
            return None
        return Reason("strategy", f"{strategy}: line {between.line} ({between.type}) comes between it and line {run.last.line}", event)

    def _between(self, run: Run, event: Seen, strategy: str) -> Seen | None:
        """The event that stands in the way of a contiguous strategy."""
        if strategy == "strict-contiguity" and event.rank != run.last.rank + 1:
            return self._by_rank[run.last.rank + 1]
        if strategy == "partition-contiguity" and event.key_rank != run.last.key_rank + 1 and run.first.key is not None:
            return self.stream.by_key[run.first.key][run.last.key_rank + 1]
        return None

    def _contiguity(self, run: Run, event: Seen) -> Reason:
        return Reason("strategy", f"contiguity: line {event.line} ({event.type}) came next and could not be taken", event)

    def _differs(self, run: Run, item: int, count: int, event: Seen) -> bool:
        own = run.of(self.grammar.bindings[item], self.grammar.bindings)[-count:]
        by = self._take_of(item)
        for other in own:
            cells = [one.cell(by) if by is not None else one.type for one in (event, other)]
            present = all(by is None or by in ("type", "time") or by in one.attributes for one in (event, other))
            if present and (None in cells or cells[0] == cells[1]):
                return False
        return True

    def _take_of(self, item: int) -> str | None:
        """The attribute by which a block differs."""
        return next((take.by for take in _takes(self.runs.pattern) if take.item == item), None)

    def _by_predicates(self, run: Run, event: Seen) -> Reason | None:
        opened = self._rows["states"][run.state][at.OPEN]
        return next(
            (self._false(condition, run, opened, event) for condition in self._positive if self._fails(condition, run, opened)), None
        )

    def view(self, run: Run, opened: int = 0, own: tuple[int, Seen] | None = None) -> View:
        """What predicates are asked about."""
        bound = {b: run.of(b, self.grammar.bindings) for b in set(self.grammar.bindings)}
        return View(bound, opened, own)

    def _fails(self, condition: Any, run: Run, opened: int) -> bool:
        return isinstance(self.view(run, opened).failure(condition), int)

    def _false(self, condition: Any, run: Run, opened: int, event: Seen | None) -> Reason:
        view = self.view(run, opened)
        i = view.failure(condition)
        where = f", i = {i}" if isinstance(i, int) and i else ""
        values = view.values(condition, i if isinstance(i, int) else 0, self.names)
        return Reason("predicate", f"{show(condition, self.names)} failed ({values}{where})", event)

    # --- passing --------------------------------------------------------------------------------------------------------------

    def _passing(self, run: Run, event: Seen) -> Run | None:
        """The partial match that passes an event, perhaps without groups that the event enters; None where it may not."""
        while True:
            insisting = [edge for edge in self.edges(run) if self.strategy(run, edge) == NEXT and self.refusal(run, edge, event) is None]
            if not insisting:
                return run if self._has_way(run) else None
            left_out = next((edge[at.WITHOUT] for edge in insisting if edge[at.WITHOUT] >= 0), None)
            if left_out is None:
                closed = {edge[at.EDGE_ITEM] for edge in self.edges(run) if self.strategy(run, edge) != ANY}
                passed = replace(run, closed=run.closed | closed)
                return passed if self._has_way(passed) else None
            run = replace(run, state=left_out)

    def _has_way(self, run: Run) -> bool:
        """Whether a way is left that is not contiguous."""
        ways = [(edge[at.EDGE_ITEM], self.strategy(run, edge)) for edge in self.edges(run)]
        return any(way == ANY or (way == NEXT and item not in run.closed) for item, way in ways)

    # --- UNTIL ----------------------------------------------------------------------------------------------------------------

    def _stopped(self, run: Run, event: Seen) -> list[Run]:
        """The partial match after the UNTILs that the event is asked: itself, or what is left of it."""
        self.grammar.automaton.expand(run.state)
        row = self._rows["states"][run.state]
        for until, rest in self._rows["asks"][row[at.ASKS] : row[at.ASKS_END]]:
            if self._stops(run, until, event):
                return [] if rest in (-1, run.state) else self._stopped(replace(run, state=rest), event)
        return [run]

    def _stops(self, run: Run, until: int, event: Seen) -> bool:
        take = self.grammar.pattern.untils[until]
        if take.until is None or event.rank not in self._can_be[take.until_item]:
            return False
        binding = self.grammar.bindings[take.item]
        asked = replace(run, steps=(*run.steps, Step(take.item, event)))
        return self.view(asked, 0, (binding, event)).stops(take.until, len(asked.of(binding, self.grammar.bindings)))

    def stopped_by(self, run: Run, event: Seen) -> Reason | None:
        """Whether an UNTIL that the event satisfies ends a closure of a partial match."""
        if any(one == run for one in self._stopped(run, event)):
            return None
        return Reason("until", "it satisfies the UNTIL, so the closure takes no more", event)

    # --- negations and ends ---------------------------------------------------------------------------------------------------

    def prevented(self, run: Run, edge: list[int], event: Seen) -> Reason | None:
        """A negation that ends with the event and is decided already, and forbids it."""
        taken = self._with(run, edge, event)
        for negation, cross in self._crosses(edge[at.CROSSES], edge[at.CROSSES_END]):
            lower = self._before(run.steps, cross)
            if lower >= 0 and self._rows["crosses"][cross][at.CROSS_NOW]:
                reason = self._preventing(taken, Crossed(negation, lower, len(run.steps)))
                if reason is not None:
                    return reason
        return None

    def accepts(self, run: Run) -> bool:
        """Whether the pattern may end in the state of a partial match."""
        return bool(self._rows["states"][run.state][at.ACCEPTS])

    def end_refusal(self, run: Run) -> Reason | None:
        """Why a partial match whose pattern may end here is no match, or None: it is one."""
        for condition in self._positive:
            if self._fails(condition, run, 0):
                return self._false(condition, run, 0, None)
        row = self._rows["states"][run.state]
        ends = [Crossed(n, self._before(run.steps, cross), -1) for n, cross in self._crosses(row[at.ENDS], row[at.ENDS_END])]
        reasons = [self._in_window(run, [*run.crossed, *ends], window) for window in range(run.windows[0], run.windows[1] + 1)]
        return None if None in reasons else reasons[0] if reasons else None

    def _in_window(self, run: Run, crossed: list[Crossed], window: int) -> Reason | None:
        return next((reason for one in crossed if (reason := self._preventing(run, one, window)) is not None), None)

    def _preventing(self, run: Run, crossed: Crossed, window: int = 0) -> Reason | None:
        """The negated events that forbid a partial match, if there are any (of an AND, different ones for all of its parts)."""
        negation = self.grammar.pattern.negations[crossed.negation]
        found = [[e for e in self._in_scope(run, crossed, item, window) if self._counts(run, item, e)] for item in negation.items]
        if not all(found):
            return None
        few = [own[: len(found)] for own in found]
        chosen = next((pick for pick in _picks(few) if len({event.rank for event in pick}) == len(pick)), None)
        if chosen is None:
            return None
        told = " and ".join(
            f"line {event.line} ({name_of(self.plan.items[item])})" for item, event in zip(negation.items, chosen, strict=True)
        )
        names = ", ".join(name_of(self.plan.items[item]) for item in negation.items)
        return Reason("negation", f"{told} came where !{names} allows none", chosen[0])

    def _counts(self, run: Run, item: int, event: Seen) -> bool:
        """Whether a negated event satisfies all predicates that mention it."""
        binding = self.grammar.bindings[item]
        view = self.view(run, 0, (binding, event))
        return all(view.failure(join.condition) == "holds" for join in self.plan.joins if join.negated_item == binding)

    def _in_scope(self, run: Run, crossed: Crossed, item: int, window: int) -> list[Seen]:
        """Negated events where a negation looks for them."""
        lower = run.steps[crossed.lower].event if crossed.lower >= 0 else None
        upper = run.steps[crossed.upper].event if crossed.upper >= 0 else None
        found = self._of_item[item]
        start = 0 if lower is None else bisect_right(found, lower.rank, key=attrgetter("rank"))
        stop = len(found) if upper is None else bisect_left(found, upper.rank, key=attrgetter("rank"))
        events = [event for event in found[start:stop] if self.stream.agrees(event, run.first)]
        if lower is not None:
            way = self.runs.ways[self.grammar.bindings[item]].first
            if way == "strict-contiguity":
                events = [event for event in events if event.rank == lower.rank + 1]
            elif way == "partition-contiguity":
                events = [event for event in events if event.key_rank == lower.key_rank + 1]
        else:
            events = [event for event in events if self._after_start(run, event, window)]
        if upper is not None:
            return events
        lasting = self.grammar.pattern.negations[crossed.negation].for_ms
        if lasting is not None:
            return [event for event in events if event.time < run.last.time + lasting]
        return [event for event in events if self._before_end(run, event, window)]

    def _after_start(self, run: Run, event: Seen, window: int) -> bool:
        within = self.plan.within
        if within is not None:
            return (
                event.time > run.last.time - within.size
                if within.unit == "ms"
                else self.stream.rank_beside(event, run.last) > run.last.key_rank - within.size
            )
        return event.windows[0] <= window <= event.windows[1]

    def _before_end(self, run: Run, event: Seen, window: int) -> bool:
        within = self.plan.within
        if within is not None:
            return (
                event.time < run.first.time + within.size
                if within.unit == "ms"
                else self.stream.rank_beside(event, run.first) < run.first.key_rank + within.size
            )
        return event.windows[0] <= window <= event.windows[1]


def _picks(found: list[list[Seen]]) -> Iterator[tuple[Seen, ...]]:
    """One event per part."""
    if len(found) == 1:
        yield from ((event,) for event in found[0])
        return
    every = list(dict.fromkeys(event for own in found for event in own))
    yield from (pick for pick in permutations(every, len(found)) if all(event in own for event, own in zip(pick, found, strict=True)))


def _takes(pattern: Any) -> Iterator[Any]:
    if hasattr(pattern, "different"):
        yield pattern
    elif hasattr(pattern, "part"):
        yield from _takes(pattern.part)
    else:
        for part in getattr(pattern, "parts", ()):
            yield from _takes(part)


def _key_text(event: Seen) -> str:
    return ", ".join(shown_value(one, _kind(one)) for one in event.key or ())


def _kind(one: Any) -> Kind:
    return {bool: Kind.BOOLEAN, int: Kind.INTEGER, float: Kind.FLOAT, bytes: Kind.BYTES}.get(type(one), Kind.STRING)
