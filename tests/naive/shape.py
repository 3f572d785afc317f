"""The pattern without layers that mean nothing, and where in it the events of a match stand.

Every place has a *path* from the root: steps ``("seq", item)``, ``("and", operand)``, ``("or", branch)``, ``("round", number)`` of a
quantifier, ``("slot", number)`` inside ANY(n; ..). Two places are ordered where their paths part at a "seq" or a "round" (language page:
"before and after are meant along all enclosing SEQs and rounds of closures; the parts of an AND are neither").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.naive import patterns as p

Path = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class One:
    """One event. ``number`` counts items in textual order."""

    item: p.Item
    number: int


@dataclass(frozen=True)
class Block:
    """``item.count`` events, pairwise different."""

    item: p.Item
    number: int


@dataclass(frozen=True)
class Repeat:
    """``inner`` so many times. ``group``: of more than one event, so it forks and is compared as an item of its own."""

    inner: Any
    quantifier: p.Quantifier
    group: bool
    until: Any = None


@dataclass(frozen=True)
class Bound:
    """One event of a match: where in the pattern, for which item, and the event's place in the input."""

    path: Path
    number: int
    event: int


Assignment = tuple[Bound, ...]
"""In the order of the events."""


def shape_of(pattern: Any) -> Any:
    """The shape of a pattern: `One`, `Block`, `Repeat`, and Seq, All, OneOf and Absence of `tests.naive.patterns`."""
    numbers = iter(range(1000))

    def shape(node: Any) -> Any:
        match node:
            case p.Item():
                plain = replace(node, quantifier=None, until=None)
                inner = Block(plain, next(numbers)) if node.count is not None else One(plain, next(numbers))
                if node.quantifier is None:
                    return inner
                return Repeat(inner, node.quantifier, group=node.count is not None, until=node.until)
            case p.Group(inner, quantifier):
                single = shape(inner)
                return Repeat(single, quantifier, group=most_events(single) > 1)
            case p.Seq(items):
                flat: list[Any] = []
                for made in map(shape, items):
                    flat.extend(made.items if isinstance(made, p.Seq) else (made,))
                return p.Seq(tuple(flat))
            case p.All(operands) | p.OneOf(operands):
                made = tuple(map(shape, operands))
                return made[0] if len(made) == 1 else type(node)(made)
            case p.Absence():
                return node
        raise TypeError(node)

    return shape(pattern)


def most_events(node: Any) -> float:
    """How many events a node can bind."""
    match node:
        case One():
            return 1
        case Block(item):
            return item.count or 1
        case p.Absence():
            return 0
        case Repeat(inner, quantifier):
            inside = most_events(inner)
            return inside * (float("inf") if quantifier.high is None else quantifier.high) if inside else 0
        case p.OneOf(operands):
            return max(map(most_events, operands))
    return sum(map(most_events, node.items if isinstance(node, p.Seq) else node.operands))


def can_be_empty(node: Any) -> bool:
    """Whether a match may bind no event here."""
    match node:
        case One() | Block():
            return False
        case p.Absence():
            return True
        case Repeat(inner, quantifier):
            return quantifier.low == 0 or can_be_empty(inner)
        case p.OneOf(operands):
            return any(map(can_be_empty, operands))
    return all(map(can_be_empty, node.items if isinstance(node, p.Seq) else node.operands))


def least(node: Repeat) -> int:
    """How many rounds must bind something."""
    return 0 if can_be_empty(node.inner) else node.quantifier.low


def order_of(path: Path, other: Path) -> int:
    """-1: the first place is before the other, 1: behind, 0: neither."""
    for (kind, index), (_, other_index) in zip(path, other, strict=False):
        if index != other_index:
            return (-1 if index < other_index else 1) if kind in ("seq", "round") else 0
    return 0


def under(assignment: Assignment, path: Path) -> Assignment:
    """What is bound below a place."""
    return tuple(bound for bound in assignment if bound.path[: len(path)] == path)


def nodes(node: Any) -> Iterator[Any]:
    """All nodes, in textual order, a group before its contents."""
    yield node
    inner = (node.inner,) if isinstance(node, Repeat) else p.children(node)
    for child in inner:
        yield from nodes(child)


def places(node: Any, assignment: Assignment, path: Path = ()) -> Iterator[tuple[Any, Path]]:
    """All nodes with their paths; of branches, groups and parts of an AND that bound nothing, none of their contents; each round apart."""
    yield node, path
    match node:
        case Repeat(inner):
            rounds = {bound.path[len(path)] for bound in under(assignment, path)}
            for step in sorted(rounds):
                yield from places(inner, assignment, (*path, step))
        case p.Seq(items):
            for index, item in enumerate(items):
                place = (*path, ("seq", index))
                if isinstance(item, p.Absence) or under(assignment, place):
                    yield from places(item, assignment, place)
        case p.All(operands) | p.OneOf(operands):
            for index, operand in enumerate(operands):
                place = (*path, ("and" if isinstance(node, p.All) else "or", index))
                if under(assignment, place):
                    yield from places(operand, assignment, place)


def items_by_number(node: Any) -> dict[int, p.Item]:
    """The items of a shape."""
    return {leaf.number: leaf.item for leaf in nodes(node) if isinstance(leaf, One | Block)}
