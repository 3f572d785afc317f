"""Composite events while they are found: those of times that are complete can be written, the others are held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from app.bucket.lists import some_of
from app.bucket.matching import Found
from app.events.batch import take
from app.query.plan import Plan

WORTH_WRITING = 1 << 15
"""Matches that wait for each other, so that a thousand queries with a few each are not written one by one."""
NO_ROWS = np.zeros(0, np.int64)


def tells_at_once(plan: Plan) -> bool:
    """Whether what a query finds is never of a time that was complete before.

    Policies and windows may choose among matches later. What waits for the last of so many events of a partition has, where these never come, the
    time of the last one that did.
    """
    runs = plan.runs
    if plan.temporal is not None or (runs is not None and (runs.window is not None or runs.after != "no-skip" or runs.longest)):
        return False
    counted = plan.within is not None and plan.within.unit == "events"
    return not counted or (plan.on_timeout == "drop" and not any(item.negated for item in plan.items))


class HeldMatches:
    """What was found and is not written yet.

    Args:
        plans: of the queries.
    """

    def __init__(self, plans: Sequence[Plan]) -> None:
        self._ordered = all(tells_at_once(plan) for plan in plans)
        self._held: list[Found] = []

    def add(self, found: Iterable[Found]) -> None:
        """Takes what one step found, without the events that the step was fed: nobody asks for them any more, and few matches would hold all of a file in memory."""
        self._held += [replace(one, fed=take(one.fed, NO_ROWS)) for one in found]

    def complete(self, until_ms: int) -> list[Found]:
        """Gives out what is of earlier times; nothing while that is too little to be worth it, or where later steps may find something in between."""
        if not self._ordered or sum(_size(one) for one in self._held) < WORTH_WRITING:
            return []
        parts = [(_split(one, until_ms)) for one in self._held]
        self._held = [late for _, late in parts if _size(late)]
        return [early for early, _ in parts if _size(early)]

    def rest(self) -> list[Found]:
        """Gives out everything."""
        rest, self._held = self._held, []
        return rest


def _size(found: Found) -> int:
    return len(found.matches) + (0 if found.timeouts is None else len(found.timeouts))


def _split(found: Found, until_ms: int) -> tuple[Found, Found]:
    """What is of times before, and the rest."""
    tables = [found.matches, *([] if found.timeouts is None else [found.timeouts])]
    if all(bool((table.time < until_ms).all()) for table in tables):
        return found, replace(found, matches=some_of(found.matches, np.zeros(0, np.int64)), timeouts=None)
    early, late = ([some_of(table, np.flatnonzero((table.time < until_ms) == side)) for table in tables] for side in (True, False))
    return tuple(replace(found, matches=part[0], timeouts=part[1] if len(part) > 1 else None) for part in (early, late))  # type: ignore[return-value]
