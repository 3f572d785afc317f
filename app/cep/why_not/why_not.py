"""How far the partial matches of a stream came, and what ended each: `Diagnosis` played over a whole file, or along events that were expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.cep.runs import arrays as at
from app.cep.runs.automaton.terms import Again, Choice, Never, Not, One, Split, Term
from app.cep.why_not.diagnosis import Diagnosis
from app.cep.why_not.plain_events import Seen
from app.cep.why_not.plain_run import Run
from app.cep.why_not.reasons import Reason
from app.query.explain.explain_runs import name_of

MOST_RUNS = 5_000
"""Partial matches that are followed: skip-till-any-match can make any number of them."""
NEVER = 1 << 30
"""Events that a closure lacks which an UNTIL stopped too early."""
_TELLING = ("predicate", "negation", "different", "strategy", "until", "gap", "window", "test", "key", "type")
"""Causes, the most telling first: what came closest to being taken."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The events that could have been an item by their type and were not taken; the most telling reasons first."""

    item: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Partial:
    """How far one partial match came.

    Attributes:
        bound: (item, event), in order; nothing where not even the first item came.
        lacking: events that it lacks at least.
        missing: the items that its next event can be.
        refused: by item.
        ended: what ended it before the end of the file, or why it is no match though nothing is missing.
    """

    bound: tuple[tuple[str, Seen], ...]
    lacking: int
    missing: tuple[str, ...]
    refused: tuple[Refused, ...]
    ended: Reason | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a stream: matches (before ``after:`` and ``emit: longest`` choose), partial matches from the furthest on."""

    events: int
    matches: int
    partials: tuple[Partial, ...]
    followed_all: bool = True


def why_not(diagnosis: Diagnosis, most: int = 3, advance: Callable[[int], object] = lambda _: None) -> Answer:
    """The partial matches that came furthest, ``most`` of them; ``advance`` is told how many more events have been played."""
    explorer = Explorer(diagnosis, advance)
    for events in diagnosis.stream.by_key.values():
        explorer.play(events)
    found = explorer.leaves()
    chosen = [partial_of(diagnosis, run, explorer.ended.get(_places(run))) for run in found[:most]]
    if not found and not explorer.matches:
        chosen = [partial_of(diagnosis, Run(diagnosis.grammar.automaton.start), None)]
    return Answer(len(diagnosis.stream.events), explorer.matches, tuple(chosen), explorer.followed_all)


class Explorer:
    """All partial matches of all partitions."""

    def __init__(self, diagnosis: Diagnosis, advance: Callable[[int], object] = lambda _: None) -> None:
        self._diagnosis = diagnosis
        self._advance = advance
        self._all: dict[tuple[tuple[int, int], ...], Run] = {}
        self._extended: set[tuple[tuple[int, int], ...]] = set()
        self._matched: set[tuple[tuple[int, int], ...]] = set()
        self.ended: dict[tuple[tuple[int, int], ...], Reason] = {}
        self.followed_all = True

    @property
    def matches(self) -> int:
        """How many sets of bindings are matches."""
        return len(self._matched)

    def matching(self) -> list[Run]:
        """The matches, before ``after:`` and ``emit: longest`` choose."""
        return [self._all[places] for places in self._matched]

    def play(self, events: Sequence[Seen]) -> None:
        """Follows the partial matches of one partition."""
        waiting: list[Run] = []
        for event in events if self.followed_all else ():
            after: dict[Run, None] = {}
            for run in waiting:
                met = self._diagnosis.meet(run, event)
                after.update(dict.fromkeys(met.taken))
                if met.passed is not None:
                    after[met.passed] = None
                    self._all[_places(run)] = met.passed
                elif met.over is not None:
                    self.ended.setdefault(_places(run), met.over)
            after.update(dict.fromkeys(self._diagnosis.begin(event)))
            for run in after:
                if run.last is event:
                    self._note(run)
            waiting = list(after)
            self._advance(1)
            if len(self._all) > MOST_RUNS:
                # what became of these is not known: they are not told
                self._extended.update(map(_places, waiting))
                self.followed_all = False
                return

    def _note(self, run: Run) -> None:
        places = _places(run)
        self._all[places] = run
        self._extended.add(places[:-1])
        if self._diagnosis.accepts(run):
            refusal = self._diagnosis.end_refusal(run)
            if refusal is None:
                self._matched.add(places)
            else:
                self.ended[places] = refusal

    def leaves(self) -> list[Run]:
        """Partial matches that no other one continues and that are no matches, the furthest first."""
        left = [run for places, run in self._all.items() if places not in self._extended and places not in self._matched]
        return sorted(left, key=lambda run: (_lacking(self._diagnosis, run), -len(run.steps), run.first.rank, run.last.rank))


def _places(run: Run) -> tuple[tuple[int, int], ...]:
    return tuple((step.item, step.event.rank) for step in run.steps)


def partial_of(diagnosis: Diagnosis, run: Run, ended: Reason | None) -> Partial:
    """A partial match in the words of its query, with all events that could have continued it by their type."""
    items = diagnosis.plan.items
    last = len(diagnosis.stream.events)
    if ended is not None and ended.cause in ("strategy", "negation") and ended.event is not None:
        last = ended.event.rank + 1
    events = diagnosis.stream.events[run.last.rank + 1 if run.steps else 0 : last]
    refused: dict[str, list[Reason]] = {}
    for edge in _needed(diagnosis, run):
        item = items[edge[at.EDGE_ITEM]]
        own = refused.setdefault(name_of(item), [])
        able = [event for event in events if diagnosis.stream.fits_type(item, event)]
        own += [reason for event in able if (reason := why_refused(diagnosis, run, edge, event)) is not None]
    told = tuple(Refused(item, tuple(sorted(own, key=_telling))) for item, own in refused.items())
    bound = tuple((name_of(items[step.item]), step.event) for step in run.steps)
    return Partial(bound, _lacking(diagnosis, run), tuple(refused), told, ended)


def _needed(diagnosis: Diagnosis, run: Run) -> list[list[int]]:
    """The ways that bring a partial match nearer to its end; all of them where none is needed."""
    edges, states = diagnosis.edges(run), diagnosis.grammar.automaton.states
    needed = [edge for edge in edges if least(states[edge[at.TARGET]].term) < _lacking(diagnosis, run)]
    return needed or edges


def why_refused(diagnosis: Diagnosis, run: Run, edge: list[int], event: Seen) -> Reason | None:
    """Why an event does not continue a partial match on a way; None where it does, or would if the match had not ended."""
    if run.steps and event.key == run.first.key:
        stopper = next((one for one in _between(diagnosis, run, event) if diagnosis.stopped_by(run, one) is not None), None)
        if stopper is not None:
            return Reason("until", f"line {stopper.line} satisfies the UNTIL: the closure takes nothing from there on", event)
    refusal = diagnosis.refusal(run, edge, event)
    if refusal is None:
        refusal = diagnosis.prevented(run, edge, event)
        refusal = None if refusal is None else Reason("negation", refusal.text, event)
    return refusal


def _between(diagnosis: Diagnosis, run: Run, event: Seen) -> Iterator[Seen]:
    """The events of the partition behind a partial match, up to one of them."""
    for one in diagnosis.stream.by_key[run.first.key or ()]:
        if run.last.rank < one.rank <= event.rank:
            yield one


def _telling(reason: Reason) -> tuple[int, int]:
    return _TELLING.index(reason.cause), -1 if reason.event is None else reason.event.rank


def _lacking(diagnosis: Diagnosis, run: Run) -> int:
    return least(diagnosis.grammar.automaton.states[run.state].term)


def least(term: Term) -> int:
    """The fewest events that a term needs."""
    match term:
        case One(_, block, of, _):
            return max(1, of - block)
        case Not():
            return 0
        case Never():
            return NEVER
        case Again(part, low, _):
            return low * least(part) if low else 0
        case Choice(parts) | Split(parts):
            return min(map(least, parts))
    return sum(map(least, term.parts))


def why_not_these(diagnosis: Diagnosis, wanted: Sequence[Seen]) -> Partial | None:
    """How far a match of just these events comes, and what ends it there; None: it is one (before ``after:`` and ``emit: longest``)."""
    first, *others = sorted(wanted, key=lambda event: event.rank)
    runs = diagnosis.begin(first)
    if not runs:
        return _stuck(diagnosis, [Run(diagnosis.grammar.automaton.start)], first, None)
    for event in others:
        over: Reason | None = None
        arrived: list[Run] = []
        for run in runs:
            left, over = _waiting(diagnosis, run, event)
            arrived += [] if left is None else [left]
        if not arrived:
            return partial_of(diagnosis, runs[0], over)
        following = [one for run in arrived for one in diagnosis.meet(run, event).taken]
        if not following:
            return _stuck(diagnosis, arrived, event, None)
        runs = following
    refusals = [diagnosis.end_refusal(run) for run in runs if diagnosis.accepts(run)]
    if not refusals:
        return partial_of(diagnosis, runs[0], None)
    return None if None in refusals else partial_of(diagnosis, runs[0], refusals[0])


def _waiting(diagnosis: Diagnosis, run: Run, event: Seen) -> tuple[Run | None, Reason | None]:
    """A partial match after the events of its partition before an event, none of which it takes; or what ends it."""
    for one in diagnosis.stream.by_key[run.first.key or ()]:
        if not run.last.rank < one.rank < event.rank:
            continue
        met = diagnosis.meet(run, one)
        if met.passed is None:
            return None, met.over
        run = met.passed
    return run, None


def _stuck(diagnosis: Diagnosis, runs: Sequence[Run], event: Seen, ended: Reason | None) -> Partial:
    """A partial match that cannot take the next of the wanted events, for each item that it could be."""
    run = runs[0]
    items = diagnosis.plan.items
    refused = []
    for edge in diagnosis.edges(run):
        reason = why_refused(diagnosis, run, edge, event)
        refused.append(Refused(name_of(items[edge[at.EDGE_ITEM]]), () if reason is None else (reason,)))
    bound = tuple((name_of(items[step.item]), step.event) for step in run.steps)
    return Partial(bound, _lacking(diagnosis, run), tuple(dict.fromkeys(one.item for one in refused)), tuple(refused), ended)
