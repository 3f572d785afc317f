"""UNTIL: which events a closure may no longer take (language page, section 3)."""

from __future__ import annotations

from typing import Any

from tests.naive.inputs import Scope
from tests.naive.predicates import View, holds
from tests.naive.shape import Assignment, Block, One, Path, Repeat, items_by_number, order_of, under


def stopped(shape: Any, repeat: Repeat, path: Path, assignment: Assignment, event: int, scope: Scope, closures: frozenset[str]) -> bool:
    """Whether the closure at ``path`` may not take this event, nor a later one.

    Every event of one of its types and of the partition is asked, behind the items before it and up to ``event``; where there are no items
    before, behind the match's first event. It is asked as if it were the next element, beside what was bound before it.
    """
    if repeat.until is None:
        return False
    leaf = repeat.inner
    assert isinstance(leaf, One | Block)
    before = [bound.event for bound in assignment if order_of(bound.path, path) < 0]
    start = max(before) + 1 if before else min([bound.event for bound in assignment] + [event])
    items = items_by_number(shape)
    for candidate in scope.members:
        if not start <= candidate <= event or scope.events[candidate]["type"] not in leaf.item.types:
            continue
        events: dict[str, list[Any]] = {}
        for bound in assignment:
            variable = items[bound.number].var
            if variable is not None and bound.event < candidate:
                events.setdefault(variable, []).append(scope.events[bound.event])
        own = leaf.item.var or "(anonymous)"
        events[own] = [*events.get(own, []), scope.events[candidate]]
        if holds(repeat.until, View(events, closures), len(events[own]), missing=False):
            return True
    return False


def until_holds(shape: Any, repeat: Repeat, path: Path, assignment: Assignment, scope: Scope, closures: frozenset[str]) -> bool:
    """Whether a complete assignment's closure took nothing that it may not."""
    own = under(assignment, path)
    return all(not stopped(shape, repeat, path, assignment, bound.event, scope, closures) for bound in own)
