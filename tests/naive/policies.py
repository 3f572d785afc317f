"""Which of the matches of one scope are reported: precedence of branches, one set of bindings, ``emit``, ``after`` (language page, section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.naive import patterns as p
from tests.naive.shape import Assignment, Block, One, Path, Repeat, items_by_number, nodes

Bindings = tuple[tuple[int, str], ...]


def reported(query: p.WholeQuery, shape: Any, matches: list[Assignment]) -> list[Assignment]:
    """The matches that are left, in the order in which ``after`` looks at them."""
    first = [one for one in matches if not any(precedes(shape, other, one) for other in matches)]
    distinct: dict[Bindings, Assignment] = {}
    for one in sorted(first, key=lambda match: rank(shape, match)):
        distinct.setdefault(bindings(shape, one), one)
    kept = list(distinct.values())
    if query.longest:
        kept = [one for one in kept if not any(extends(shape, other, one) for other in kept)]
    return after(query, shape, kept)


def bindings(shape: Any, assignment: Assignment) -> Bindings:
    """Which event is bound to which variable: what makes two assignments one match."""
    items = items_by_number(shape)
    return tuple(sorted((bound.event, items[bound.number].var or "") for bound in assignment))


def precedes(shape: Any, other: Assignment, one: Assignment) -> bool:
    """Whether some OR binds the very same events in both, everything else the same, and no event in a later branch but some in an earlier one."""
    return any(
        inside(other, place).keys() == inside(one, place).keys()
        and outside(other, place) == outside(one, place)
        and inside(other, place) != inside(one, place)
        and all(inside(other, place)[event] <= branch for event, branch in inside(one, place).items())
        for place in ors(shape)
    )


def ors(node: Any, place: Path = ()) -> Iterator[Path]:
    """Where ORs stand, rounds of groups left aside."""
    if isinstance(node, p.OneOf):
        yield place
    if isinstance(node, Repeat):
        yield from ors(node.inner, place)
    for index, child in enumerate(p.children(node)):
        yield from ors(child, (*place, (KINDS[type(node)], index)))


KINDS = {p.Seq: "seq", p.All: "and", p.OneOf: "or"}


def without_rounds(path: Path) -> Path:
    return tuple(step for step in path if step[0] in KINDS.values())


def inside(assignment: Assignment, place: Path) -> dict[int, int]:
    """The events that an OR binds, in all its rounds, each with its branch."""
    own = [(bound.event, without_rounds(bound.path)) for bound in assignment]
    return {event: path[len(place)][1] for event, path in own if path[: len(place)] == place}


def outside(assignment: Assignment, place: Path) -> set[tuple[int, int]]:
    return {(bound.number, bound.event) for bound in assignment if without_rounds(bound.path)[: len(place)] != place}


def extends(shape: Any, other: Assignment, one: Assignment) -> bool:
    """Whether the other consists of the bindings of this one and later events."""
    mine, theirs = set(bindings(shape, one)), set(bindings(shape, other))
    return mine < theirs and all(event > one[-1].event for event, _ in theirs - mine)


def rank(shape: Any, match: Assignment) -> Any:
    """First event, last event, then per item in textual order: more events (fewer where reluctant), then earlier ones; a group before its contents."""
    keys: list[Any] = []
    reluctant: set[int] = set()
    for node in nodes(shape):
        if isinstance(node, Repeat):
            inside = {leaf.number for leaf in nodes(node) if isinstance(leaf, One | Block)}
            if node.group:
                keys.append(item_key(match, inside, reluctant=node.quantifier.reluctant))
            elif node.quantifier.reluctant:
                reluctant |= inside
        elif isinstance(node, One | Block):
            keys.append(item_key(match, {node.number}, reluctant=node.number in reluctant))
    return match[0].event, match[-1].event, keys


def item_key(match: Assignment, numbers: set[int], *, reluctant: bool) -> tuple[int, list[int]]:
    events = [bound.event for bound in match if bound.number in numbers]
    return len(events) if reluctant else -len(events), events


def after(query: p.WholeQuery, shape: Any, ranked: list[Assignment]) -> list[Assignment]:
    """A match whose first event lies at or before the border is dropped; a kept one moves the border."""
    if query.after == "no-skip":
        return ranked
    items = items_by_number(shape)
    border, kept = -1, []
    for match in ranked:
        first = match[0].event
        if first <= border:
            continue
        kept.append(match)
        if query.after == "skip-past-last-event":
            border = match[-1].event
        elif query.after == "skip-to-next":
            border = first
        else:
            where, variable = query.after.split()
            own = [bound.event for bound in match if items[bound.number].var == variable]
            if own:
                target = own[0] if where == "skip-to-first" else own[-1]
                border = target - 1 if target != first else border
    return kept
