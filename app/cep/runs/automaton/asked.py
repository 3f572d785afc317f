"""Which UNTILs an event is asked in a state, and what is left of the pattern where it stops their closures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from app.cep.runs.automaton.terms import (
    EMPTY,
    Again,
    All,
    Choice,
    Never,
    One,
    Series,
    Split,
    Term,
    again,
    bound,
    passed,
    placed,
    series,
    skipped,
    split,
    whole,
)


def asked(term: Term) -> Iterator[tuple[int, tuple[Term, ...]]]:
    """The UNTILs that an event is asked now, each with what is left (one of several rests) when it stops the closure."""
    match term:
        case One(_, block, _, until) if until >= 0 and block:
            yield until, (Never(),)
        case Again(_, low, _, _, until) if until >= 0:
            yield until, (EMPTY if low == 0 else Never(),)
        case Again(part, _, _, _, _):
            for until, rests in asked(part):
                following = again(replace(term, low=max(term.low - 1, 0), high=None if term.high is None else term.high - 1))
                left = () if passed(term) is None else (EMPTY,)
                # a round that binds nothing is none: what is optional in it comes, or the group is over
                rounds = [one for rest in rests for one in ([rest] if passed(rest) is None else bound(rest))]
                yield until, tuple(dict.fromkeys((*(series(one, following) for one in rounds), *left)))
        case Choice(parts):
            for k, part in enumerate(parts):
                for until, rests in asked(part):
                    yield until, tuple(Choice(placed(parts, k, rest)) for rest in rests)
        case Split(parts):
            for k, part in enumerate(parts):
                for until, rests in asked(part):
                    yield until, (split((*parts[:k], *rests, *parts[k + 1 :])),)
        case All(_, parts):
            for k, part in enumerate(parts):
                for until, rests in asked(part):
                    yield until, tuple(whole(replace(term, parts=placed(parts, k, rest))) for rest in _one_of(rests))
        case Series(parts):
            yield from _asked_series(parts)


def _one_of(rests: tuple[Term, ...]) -> tuple[Term, ...]:
    """Rests as one, unless they differ in the negations that an end there would ask."""
    return (split(rests),) if len({found for found in map(passed, rests) if found is not None}) < 2 else rests


def _asked_series(parts: tuple[Term, ...]) -> Iterator[tuple[int, tuple[Term, ...]]]:
    for k, part in enumerate(parts):
        for until, rests in asked(part):
            stopped = [series(*skipped(parts[:k]), rest, *parts[k + 1 :]) for rest in rests]
            # an optional item before it may still come: then the closure has not been asked yet
            fresh = [series(*skipped(parts[:j]), one, *parts[j + 1 :]) for j in range(k) for one in bound(parts[j])]
            yield until, tuple(dict.fromkeys((*stopped, *fresh)))
        if passed(part) is None:
            return
