"""What every way of matching looks like from outside: what it is fed, what it tells, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.cep.matches import Matches
from app.cep.snapshot.preamble import Buffer
from app.events.batch import EventBatch


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Optimisations of the SASE paper that experiments switch off, and sizes. The matches are the same whatever is set.

    Attributes:
        partitioned: stacks per value of the equivalence attributes (PAIS); otherwise equivalence is checked in construction
            (for events in total order only: a trusted order is none across keys).
        window_pushdown: events leave the stacks, and construction stops, at the window's edge; otherwise complete matches are checked.
        predicate_pushdown: join predicates are evaluated as soon as their events are bound; otherwise on complete matches.
        chunk: candidates that are taken up at once; 64 k rows of 8 cells stay in the second-level cache.
    """

    partitioned: bool = True
    window_pushdown: bool = True
    predicate_pushdown: bool = True
    chunk: int = 32_768


@dataclass(frozen=True, slots=True)
class Watermarks:
    """How far time has certainly come: every event fed later has at least the watermark of its source.

    Attributes:
        default_ms: of the query; 2**63 - 1 at the end of a file.
        by_source: of single topic partitions (trusted order); the default counts where it is greater.
        end_ms: at the end of all input the time of its last event, whether a query wants it or not.
    """

    default_ms: int
    by_source: Mapping[int, int] = field(default_factory=dict)
    end_ms: int | None = None


FEWEST = 20
"""Candidates between two looks, at least, and one of each partition: a look takes a tenth of a millisecond whatever there is to be found, and 50 ns per partition."""
LOOKS = 16
"""While a window passes, at the partial matches that were made since the last one: what waits to be looked at is at most so much of what there would be. With 8 an event cost 1.4 times as much in batches of 2,500 as in those of 600, since what has piled up is held against it as well; with 16 as much (0048)."""


@dataclass(frozen=True, slots=True)
class Looking:
    """Who looks at an engine's partial matches while it is fed.

    Attributes:
        every: ms of the events' time, about, between two looks; of windows in events, so many that are fed.
        look: called with the time of the event that comes next; may end partial matches.
        in_events: what ``every`` counts.
    """

    every: float
    look: Callable[[int], None]
    in_events: bool = False

    def candidates(self, time: NDArray[np.int64], source: NDArray[np.int64], candidates: int, most: int, partitions: int = 1) -> int:
        """How many candidates come between two looks, where so many are in events of these times and sources (int64); not more than ``most``, but where there are many partitions.

        In a trusted order topic partitions come one after the other, each with all of the time.

        >>> looking = Looking(10, print)
        >>> [looking.candidates(np.array([0, last]), np.zeros(2, np.int64), 1000, 500) for last in (5, 40, 10_000)]
        [500, 250, 20]
        >>> looking.candidates(np.array([0, 20, 0, 20]), np.array([1, 1, 2, 2]), 1000, 500)
        250
        >>> Looking(10, print, in_events=True).candidates(np.zeros(40), np.zeros(40), 800, 500)
        200
        """
        span = len(time) if self.in_events else _time_passed(time, source)
        return most if span <= self.every else max(FEWEST, partitions, min(most, round(candidates * self.every / span)))


def _time_passed(time: NDArray[np.int64], source: NDArray[np.int64]) -> int:
    """Within the stretches of one source each, together, or from the least to the greatest time, where that is more (sources take turns)."""
    if not len(time):
        return 0
    begins = np.flatnonzero(np.append(True, source[1:] != source[:-1]))
    stretches = np.maximum.reduceat(time, begins) - np.minimum.reduceat(time, begins)
    return max(int(stretches.sum()), int(time.max() - time.min()))


@dataclass(frozen=True, slots=True)
class Tally:
    """What a feed did, and what the engine holds after it.

    Attributes:
        events: fed.
        candidates: of them, events that can be an item of the query.
        stored: of them, events that were stored: the rest could not be part of any match.
        pushed: instances pushed onto stacks.
        matches: found.
        timeouts: partial matches whose window ended (only counted where the plan emits them).
        evicted: stored events that died.
        live_events: stored events that are alive.
        pending: matches that wait for the end of their window.
        partitions: slots in use; dead ones go when room is needed.
        texts: distinct texts held.
        limited_matches, limited_runs: matches and partial matches that `Limits` kept from being made.
        shed_tuples: tuples of temporal queries that went because memory is bounded.
        held_matches: partial matches that were there when an event came, on average over the feed; where somebody looked at them meanwhile, else 0.
    """

    events: int
    candidates: int
    stored: int
    pushed: int
    matches: int
    timeouts: int
    evicted: int
    live_events: int
    pending: int
    partitions: int
    texts: int
    limited_matches: int = 0
    limited_runs: int = 0
    shed_tuples: int = 0
    held_matches: int = 0


class Engine(Protocol):
    """The door of every engine: arrays in, arrays out, its state as bytes. Pure: no clock, no files."""

    timeouts: Matches | None
    """Partial matches that timed out in the last feed; None unless the plan emits them."""

    def feed(self, batch: EventBatch, items: NDArray[np.uint64], watermarks: Watermarks) -> tuple[Matches, Tally]:
        """Processes events, and lets time come to the watermarks.

        Args:
            batch: events in processing order: total order, or the order of arrival of a trusted stream; columns that the plan does not name
                are not touched.
            items: uint64 (events,), bit by bit, the items whose type test and tests an event passes.
            watermarks: after the batch; negated ends whose time is reached fire. No event fed later may have a time below the watermark of
                its source.

        Returns:
            The matches found, and what was done.

        Raises:
            ValueError: a column has become one of another kind.
        """

    def places(self) -> NDArray[np.int64]:
        """int64 (stored, 2), source and offset of all events that are stored, perhaps of some that died: matches to come bind none but these and later ones."""

    def snapshot_parts(self) -> Sequence[Buffer]:
        """The whole state, as buffers to be put one after the other before the next feed; the engine goes on unchanged."""

    def snapshot(self) -> bytes:
        """The same, joined."""

    def validate(self) -> None:
        """Invariants of the state.

        Raises:
            AssertionError: one of them does not hold.
        """
