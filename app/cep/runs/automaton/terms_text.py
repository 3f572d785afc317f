"""States of an automaton as bytes and back: snapshots name what is left of a pattern, not a number of this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from app.cep.runs.automaton.automaton import State
from app.cep.runs.automaton.terms import Again, All, Choice, Never, Not, One, Series, Split, Term


def terms_to_bytes(states: Sequence[State]) -> bytes:
    """The states, in their order."""
    return json.dumps([[_plain(state.term), state.loose] for state in states], separators=(",", ":")).encode()


def terms_from_bytes(data: bytes) -> list[State]:
    """What `terms_to_bytes` wrote."""
    return [State(_term(plain), loose) for plain, loose in json.loads(data)]


def _plain(term: Term) -> list[Any]:
    match term:
        case One(item, block, of, until):
            return ["one", item, block, of, until]
        case Not(number):
            return ["not", number]
        case Never():
            return ["never"]
        case Series(parts):
            return ["series", *map(_plain, parts)]
        case Choice(parts):
            return ["choice", *map(_plain, parts)]
        case Split(parts):
            return ["split", *map(_plain, parts)]
        case All(number, parts, begun):
            return ["all", number, begun, *map(_plain, parts)]
        case Again(part, low, high, group, until):
            return ["again", _plain(part), low, high, group, until]


def _term(plain: list[Any]) -> Term:
    kind, *rest = plain
    if kind == "one":
        return One(*rest)
    if kind == "not":
        return Not(*rest)
    if kind == "never":
        return Never()
    if kind == "again":
        return Again(_term(rest[0]), *rest[1:])
    if kind == "all":
        return All(rest[0], tuple(map(_term, rest[2:])), rest[1])
    parts = tuple(map(_term, rest))
    return Series(parts) if kind == "series" else Choice(parts) if kind == "choice" else Split(parts)
