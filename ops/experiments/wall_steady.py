"""Runs on a clock say something while the machine is as fast as when its capacity was measured: so that is measured before and behind every run.

Machines that are shared go at half their speed for minutes, whatever runs on them, and what was to be 200 % is 120 or 300 then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ops.experiments.shedding_figures import Point

STEADY = 0.1
"""So far may the two capacities be apart, as a share of the first."""
TRIES = 4


def steady(capacity: Callable[[], float], run: Callable[[float], Iterable[Point]]) -> list[Point]:
    """The points of a run between two measurements that agree; of several runs where none did, those of the one where they are nearest to each other.

    Args:
        capacity: measures events per second.
        run: at a capacity. What comes of it has no say in which run counts.
    """
    found: list[tuple[float, list[Point]]] = []
    for _ in range(TRIES):
        before = capacity()
        points = list(run(before))
        off = abs(capacity() / before - 1)
        found.append((off, [replace(one, unsteady=100 * off) if one.capacity else one for one in points]))
        if off <= STEADY:
            break
    return min(found, key=lambda one: one[0])[1]
