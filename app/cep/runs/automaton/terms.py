"""What is left of a pattern: terms, and their derivatives by one event (the ways that a partial match can go on).

The control state of a run is the rest of its pattern, as a term. ``ways(term)`` says which items the next event can be and what is left
then; ``passed(term)`` says whether nothing need come any more. States are made as they are reached (`app.cep.runs.automaton.automaton`), so
``{1000}`` costs what is used of it, and an AND of groups needs no product worked out beforehand.

The rules are those of queries/README.md; Brzozowski (1964) for the idea of derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.query import plan as p


@dataclass(frozen=True, slots=True)
class One:
    """One event of an item. ``block``: it is the k-th (from 0) of ``of`` pairwise different ones; ``of`` 0: no such block.

    ``until``: number of the UNTIL that ends a block in the middle, or -1.
    """

    item: int
    block: int = 0
    of: int = 0
    until: int = -1


@dataclass(frozen=True, slots=True)
class Not:
    """A negation, by number."""

    number: int


@dataclass(frozen=True, slots=True)
class Never:
    """What can come no more: a stopped closure that lacks events."""


@dataclass(frozen=True, slots=True)
class Series:
    """One after the other; without parts: nothing is left."""

    parts: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class All:
    """All, interleaved. Finished parts keep their place, empty. ``begun``: the parts that have bound an event (a mask)."""

    number: int
    parts: tuple[Term, ...]
    begun: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One of them; nothing is bound yet."""

    parts: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Again:
    """``low`` to ``high`` more rounds. ``group``: rounds of several events, which a run may leave out. ``until``: number of its UNTIL, or -1."""

    part: Term
    low: int
    high: int | None
    group: bool
    until: int = -1


@dataclass(frozen=True, slots=True)
class Split:
    """One of them, of which events may be bound already: what an UNTIL leaves that an optional item before its closure may still forestall.

    They stay one partial match: what one of them must take (skip-till-next-match) none passes.
    """

    parts: tuple[Term, ...]


Term = One | Not | Never | Series | All | Choice | Split | Again
EMPTY = Series(())


@dataclass(frozen=True, slots=True)
class Crossing:
    """A negation that now has its events before and behind.

    ``beside``: (number of an AND, operand) pairs around it: events of the other operands of that round are neither before nor after.
    """

    number: int
    beside: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Way:
    """One way to go on: an event of ``item`` leaves ``rest``.

    Attributes:
        different: so many elements bound last must differ from the event (``ANY(n; ..)``).
        crossed: negations that end with this event.
        enters: numbers of the ANDs whose first event it is.
        without: what is left where the innermost group that the event enters is left out; None where it cannot be.
    """

    item: int
    rest: Term
    different: int = 0
    crossed: tuple[Crossing, ...] = ()
    enters: tuple[int, ...] = ()
    without: Term | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """A pattern as a term.

    Attributes:
        term: the whole pattern.
        negations: by number.
        untils: by number, the items that ask.
        operands: by number of an AND, the items of each operand.
    """

    term: Term
    negations: tuple[p.Absent, ...]
    untils: tuple[p.Take, ...]
    operands: tuple[tuple[frozenset[int], ...], ...]


def built(pattern: p.Pattern) -> Built:
    """The term of a whole pattern."""
    builder = _Builder()
    term = builder.build(pattern)
    return Built(term, tuple(builder.negations), tuple(builder.untils), tuple(builder.operands))


class _Builder:
    def __init__(self) -> None:
        self.negations: list[p.Absent] = []
        self.untils: list[p.Take] = []
        self.operands: list[tuple[frozenset[int], ...]] = []

    def build(self, pattern: p.Pattern) -> Term:
        match pattern:
            case p.Take():
                return self._take(pattern)
            case p.Absent():
                self.negations.append(pattern)
                return Not(len(self.negations) - 1)
            case p.Ordered(parts):
                return series(*(self.build(part) for part in parts))
            case p.Either((part,)) | p.Every((part,)):
                return self.build(part)
            case p.Either(parts):
                return Choice(tuple(self.build(part) for part in parts))
            case p.Repeated(part, low, high):
                inner = self.build(part)
                return again(Again(inner, low, high, _longest(inner) > 1))
            case p.Every(parts):
                number = len(self.operands)
                self.operands.append(())
                terms = tuple(self.build(part) for part in parts)
                self.operands[number] = tuple(frozenset(items_of(term)) for term in terms)
                return All(number, terms)
        raise TypeError(pattern)

    def _take(self, take: p.Take) -> Term:
        until = -1
        if take.until is not None:
            self.untils.append(take)
            until = len(self.untils) - 1
        one: Term = One(take.item, 0, take.different, until)
        if (take.low, take.high) == (1, 1) and until < 0:
            return one
        return again(Again(one, take.low, take.high, take.different > 1, until))


def series(*parts: Term) -> Term:
    """The parts one after the other, without layers and empty parts."""
    flat: list[Term] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Series) else (part,))
    return flat[0] if len(flat) == 1 else Series(tuple(flat))


def again(term: Again) -> Term:
    """The term, or nothing where no round is left."""
    return EMPTY if term.high == 0 else term


def items_of(term: Term) -> Iterator[int]:
    """Items that can still be bound."""
    if isinstance(term, One):
        yield term.item
    elif isinstance(term, Again):
        yield from items_of(term.part)
    elif not isinstance(term, Not | Never):
        for part in term.parts:
            yield from items_of(part)


def _longest(term: Term) -> int:
    """Whether a term binds more than one event: 0, 1, or 2 for more."""
    match term:
        case One(_, _, of, _):
            return min(2, max(1, of))
        case Not() | Never():
            return 0
        case Again(part, _, high):
            return min(2, _longest(part) * (2 if high is None else high))
        case Choice(parts):
            return max(map(_longest, parts))
    return min(2, sum(map(_longest, term.parts)))


def passed(term: Term) -> tuple[Crossing, ...] | None:
    """None where an event is still missing; else the negations that stand in what is left and have nothing behind them.

    Negations of a branch, a group or a part of an AND that bound nothing are not asked.
    """
    match term:
        case One() | Never():
            return None
        case Not(number):
            return (Crossing(number),)
        case Again(part, low, _):
            return () if low == 0 or passed(part) is not None else None
        case Choice(parts):
            return () if any(passed(part) is not None for part in parts) else None
        case Split(parts):
            return next((found for found in map(passed, parts) if found is not None), None)
        case All(number, parts, begun):
            found = [passed(part) for part in parts]
            if any(one is None for one in found):
                return None
            asked_of = [(operand, one or ()) for operand, one in enumerate(found) if begun >> operand & 1]
            return tuple(_beside(crossing, number, operand) for operand, one in asked_of for crossing in one)
    crossings: list[Crossing] = []
    for part in term.parts:
        one = passed(part)
        if one is None:
            return None
        crossings += one
    return tuple(crossings)


def _beside(crossing: Crossing, number: int, operand: int) -> Crossing:
    return replace(crossing, beside=(*crossing.beside, (number, operand)))


def ways(term: Term) -> Iterator[Way]:
    """All ways to go on, in textual order."""
    match term:
        case One(item, block, of, until):
            left = One(item, block + 1, of, until) if block + 1 < of else EMPTY
            yield Way(item, left, block)
        case Again():
            yield from _ways_again(term)
        case Choice(parts):
            for k, part in enumerate(parts):
                for way in ways(part):
                    without = None if way.without is None else Choice((*parts[:k], way.without, *parts[k + 1 :]))
                    yield replace(way, without=without)
        case Split(parts):
            for k, part in enumerate(parts):
                for way in ways(part):
                    yield replace(way, without=None if way.without is None else split(placed(parts, k, way.without)))
        case All():
            yield from _ways_all(term)
        case Series(parts):
            yield from _ways_series(parts)


def _ways_series(parts: tuple[Term, ...]) -> Iterator[Way]:
    crossed: tuple[Crossing, ...] = ()
    for k, part in enumerate(parts):
        behind = parts[k + 1 :]
        for way in ways(part):
            without = None if way.without is None else series(*parts[:k], way.without, *behind)
            yield replace(way, rest=series(way.rest, *behind), crossed=(*crossed, *way.crossed), without=without)
        missing = passed(part)
        if missing is None:
            return
        crossed = (*crossed, *missing)


def _ways_all(term: All) -> Iterator[Way]:
    for operand, part in enumerate(term.parts):
        for way in ways(part):
            rest = whole(replace(term, parts=placed(term.parts, operand, way.rest), begun=term.begun | 1 << operand))
            without = None if way.without is None else whole(replace(term, parts=placed(term.parts, operand, way.without)))
            crossed = tuple(_beside(crossing, term.number, operand) for crossing in way.crossed)
            yield replace(way, rest=rest, crossed=crossed, without=without, enters=way.enters if term.begun else (*way.enters, term.number))


def placed(parts: tuple[Term, ...], place: int, part: Term) -> tuple[Term, ...]:
    """The parts with another one at a place."""
    return (*parts[:place], part, *parts[place + 1 :])


def whole(term: All) -> Term:
    """An AND, or nothing where all of its parts are finished."""
    return EMPTY if all(part == EMPTY for part in term.parts) else term


def _ways_again(term: Again) -> Iterator[Way]:
    following = again(replace(term, low=max(term.low - 1, 0), high=None if term.high is None else term.high - 1))
    may_be_left = term.group and passed(term) is not None
    for way in ways(term.part):
        without: Term | None = None
        if way.without is not None:
            without = _round_without(way.without, following, term)
        elif may_be_left:
            without = EMPTY
        yield replace(way, rest=series(way.rest, following), without=without)


def _round_without(left: Term, following: Term, term: Again) -> Term:
    """A round in which a group is left out. One that is empty then is none: the event that passes it begins no further round either."""
    rounds = [left] if passed(left) is None else bound(left)
    options = tuple(dict.fromkeys(series(one, following) for one in rounds))
    if not options:
        return EMPTY if passed(term) is not None else Never()
    chosen = options[0] if len(options) == 1 else Choice(options)
    return Again(chosen, 0, 1, term.group) if passed(term) is not None else chosen


def split(parts: Sequence[Term]) -> Term:
    """One of several rests of a pattern."""
    flat = dict.fromkeys(one for part in parts for one in (part.parts if isinstance(part, Split) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else Split(tuple(flat))


def skipped(parts: tuple[Term, ...]) -> tuple[Term, ...]:
    """Optional parts that are left out; their neighbouring negations stay."""
    return tuple(part for part in parts if isinstance(part, Not))


def bound(term: Term) -> list[Term]:
    """The term where at least one event must come: the ways to say so."""
    match term:
        case Not() | Never():
            return []
        case One():
            return [term]
        case Again(part, low, high, _, _):
            if passed(part) is None:
                return [replace(term, low=max(1, low))]
            following = again(replace(term, low=max(low - 1, 0), high=None if high is None else high - 1))
            return [series(first, following) for first in bound(part)]
        case Choice(parts) | Split(parts):
            return [one for part in parts for one in bound(part)]
        case All(_, parts):
            return [replace(term, parts=placed(parts, k, one)) for k, part in enumerate(parts) for one in bound(part)]
    found = []
    for k, part in enumerate(term.parts):
        found += [series(*skipped(term.parts[:k]), one, *term.parts[k + 1 :]) for one in bound(part)]
        if passed(part) is None:
            break
    return found
