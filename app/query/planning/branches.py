"""The rule of ORs whose branches bind the very same events: which of two ways to bind them is reported (queries/README.md, *One way or the other*)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from app.query.plan import Absent, Either, Pattern, Repeated, Take

Branches = Mapping[int, Mapping[int, int]]
"""By item that is bound, and by number of an OR around it, the branch that it stands in."""


def branches_of(pattern: Pattern) -> Branches:
    """Those of all items of a pattern, the outermost OR first."""
    return {item: dict(path) for item, path in _branches(pattern, ())}


def precedes(branches: Branches, first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether, of the items by which two matches bind the very same events, the first's are reported: some OR binds the same of the events in both, each in the same branch or an earlier one of the first, and the rest is the same."""
    numbers = {number for item in (*first, *second) for number in branches[item]}
    return any(_precedes_at(number, branches, first, second) for number in numbers)


def _precedes_at(number: int, branches: Branches, first: Sequence[int], second: Sequence[int]) -> bool:
    earlier = False
    for one, other in zip(first, second, strict=True):
        own, theirs = branches[one].get(number), branches[other].get(number)
        if own is None or theirs is None:
            if one != other:
                return False
        elif own > theirs:
            return False
        else:
            earlier |= own < theirs
    return earlier


def _branches(pattern: Pattern, path: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
    """Item → (OR, branch) pairs around it."""
    if isinstance(pattern, Take):
        yield pattern.item, path
    elif isinstance(pattern, Absent):
        return
    elif isinstance(pattern, Repeated):
        yield from _branches(pattern.part, path)
    else:
        for k, part in enumerate(pattern.parts):
            yield from _branches(part, (*path, (id(pattern), k)) if isinstance(pattern, Either) else path)
