"""The plans that the SASE paper compares, plainly, as it describes them; each optimisation is a switch.

Wu, Diao, Rizvi (SIGMOD 2006): sections 3.2 (Basic), 4.1 (active instance stacks, *AIS*), 4.2.1 (partitioned stacks, *PAIS*), 4.2.2 (Multi-PAIS, Dynamic
Filtering), 4.3 (windows), 3.2 (negation behind construction) and 5.3 (a plan of joins, as TelegraphCQ has it). Every plan has its best form: no
interpreter, arrays that are as long as the stream instead of objects. They are the paper's algorithms among themselves; the product's engine runs the same
queries beside them and finds the same matches (``tests/unit/test_sase_experiment.py``).

A query is ``SEQ(E0, …, E(L-1)) WITHIN W``. Event i has time i, so a window of W spans ``last - first < W``. A negated item is of the type ``ABSENT`` and stands
between the last two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ops.experiments.sase.kernels import FLAGS, MULTI, NONE, Line, basic_counts, joins_counts, stacks_counts


class Stream(NamedTuple):
    """Events one per ms: types, and the values of their attributes (int64, one each)."""

    types: Line
    first: Line
    second: Line
    simple: Line


@dataclass(frozen=True, slots=True)
class Switches:
    """How a query is evaluated on active instance stacks.

    Attributes:
        partitioned: one set of stacks per value of the first attribute (PAIS); else the first equivalence test, if any, is made on complete sequences.
        equal: whether there is a first equivalence test.
        second: `NONE`, `SELECTED`, `DYNAMIC`, `MULTI` or `MULTI_WHOLE`.
        window_in_scan: events are not added that no instance within the window precedes, and expired instances leave the stacks that are touched.
        window_in_construction: the search goes no further back than the window; complete sequences are tested in any case.
        most: a simple predicate of the first item: its attribute is below this.
        simple_in_scan: that predicate is tested as an event comes, else on complete sequences.
        negation: 0, `BEHIND` or `PUSHED`.
    """

    partitioned: bool = True
    equal: bool = True
    second: int = NONE
    window_in_scan: bool = True
    window_in_construction: bool = True
    most: int = 1 << 40
    simple_in_scan: bool = True
    negation: int = 0


class Counted(NamedTuple):
    """What a run did behind its first window: matches, sequences that were constructed, instances that the search visited, and constructions begun."""

    matches: int
    sequences: int
    visited: int
    begun: int


Plan = Callable[[Stream, int, int, int], Counted]
"""Of a stream, the length of the sequence, the window, and the event from which on is counted."""


def basic(stream: Stream, length: int, window: int, counted_from: int) -> Counted:
    """One runtime stack of active states, searched back over the whole window for every sequence that ends (section 3.2); no predicates."""
    return Counted(*basic_counts(stream.types, length, window, counted_from).tolist())


def stacks(switches: Switches) -> Plan:
    """Active instance stacks."""

    def plan(stream: Stream, length: int, window: int, counted_from: int) -> Counted:
        values = 1 + int(stream.first.max()) if switches.partitioned else 1
        others = 1 + int(stream.second.max()) if switches.second >= MULTI else 1
        flags = np.array([getattr(switches, name) for name in FLAGS], dtype=np.int64)
        return Counted(*stacks_counts(*stream, length, window, counted_from, flags, (values, others)).tolist())

    return plan


def joins(*, second: bool = False, ordered: bool = False) -> Plan:
    """A join of one stream per type on the first attribute, probed by every event; temporal order is tested on what the join gives (section 5.3).

    Args:
        second: a second equivalence test, on every pair as it is joined.
        ordered: temporal order is tested with every pair as well, which TelegraphCQ did not: the best form.
    """

    def plan(stream: Stream, length: int, window: int, counted_from: int) -> Counted:
        return Counted(
            *joins_counts(*stream[:3], length, window, counted_from, int(second), int(ordered), 1 + int(stream.first.max())).tolist()
        )

    return plan
