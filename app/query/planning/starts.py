"""Which negations of a pattern may have no event before them."""

from __future__ import annotations

from collections.abc import Iterator

from app.query.plan import Absent, Either, Every, Ordered, Pattern, Repeated, Take


def negated_starts(pattern: Pattern) -> Iterator[int]:
    """The items of negations before which no event need be bound. What other operands of an AND bind does not stand before them."""
    if isinstance(pattern, Absent):
        yield from pattern.items
    elif isinstance(pattern, Repeated):
        yield from negated_starts(pattern.part)
    elif isinstance(pattern, Either | Every):
        for part in pattern.parts:
            yield from negated_starts(part)
    elif isinstance(pattern, Ordered):
        for part in pattern.parts:
            yield from negated_starts(part)
            if not _may_be_empty(part):
                return


def _may_be_empty(pattern: Pattern) -> bool:
    if isinstance(pattern, Take):
        return pattern.low == 0
    if isinstance(pattern, Repeated):
        return pattern.low == 0 or _may_be_empty(pattern.part)
    if isinstance(pattern, Ordered | Every):
        return all(map(_may_be_empty, pattern.parts))
    return not isinstance(pattern, Either) or any(map(_may_be_empty, pattern.parts))
