"""What may be dropped, as arrays: one record per level. Shedders read these arrays and never write them; what a shedder does not need may be empty.

Axis names: ``events``; ``pairs`` of an event and one of its windows; ``matches`` (partial ones); ``tuples``; ``attributes``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def _int64() -> NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


def _uint64() -> NDArray[np.uint64]:
    return np.empty(0, dtype=np.uint64)


def _int32() -> NDArray[np.int32]:
    return np.empty(0, dtype=np.int32)


def _float64() -> NDArray[np.float64]:
    return np.empty(0, dtype=np.float64)


def _values() -> NDArray[np.float64]:
    return np.empty((0, 0), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Predecessors:
    """The last events of the input stream before a batch, shed or not, oldest first: all that panes need to know of the past.

    Attributes:
        type: int32 (events,), event type numbers.
        time: int64 (events,), ms.
        identity, items, key: uint64 (events,), as in `JudgedEvents`; empty where no model of the stream asks for them.
        values: float64 (attributes, events), likewise.
    """

    type: NDArray[np.int32] = field(default_factory=_int32)
    time: NDArray[np.int64] = field(default_factory=_int64)
    identity: NDArray[np.uint64] = field(default_factory=_uint64)
    items: NDArray[np.uint64] = field(default_factory=_uint64)
    key: NDArray[np.uint64] = field(default_factory=_uint64)
    values: NDArray[np.float64] = field(default_factory=_values)

    def __len__(self) -> int:
        return len(self.type)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedEvents:
    """Events of the input stream, in its order.

    Attributes:
        identity: uint64 (events,), see `shedding.identity`: equal for the same event in every batch, run and replay.
        time: int64 (events,), ms, not falling.
        type: int32 (events,), event type numbers from 0, stable over the life of a model; -1 for types that no query names.
        values: float64 (attributes, events), NaN where an event lacks the attribute.
        before: the events before the first of these; see `shedding.panes.carried`.
        items: uint64 (events,), bit i: passes the type test and local predicates of item i of the query. Empty: not known.
        key: uint64 (events,), hash of the partition; 0: the event belongs to all of them. Empty: there is one partition.
        period_ms: for how long what is decided about a partition holds; 0: for ever.
        staying: items, as bits, of which the operator gets every event, whatever is decided about it. Only who goes by what was kept has to know.
    """

    identity: NDArray[np.uint64]
    time: NDArray[np.int64] = field(default_factory=_int64)
    type: NDArray[np.int32] = field(default_factory=_int32)
    values: NDArray[np.float64] = field(default_factory=_values)
    before: Predecessors = field(default_factory=Predecessors)
    items: NDArray[np.uint64] = field(default_factory=_uint64)
    key: NDArray[np.uint64] = field(default_factory=_uint64)
    period_ms: int = 0
    staying: int = 0

    def __len__(self) -> int:
        return len(self.identity)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedInWindows:
    """Pairs of an event and a window that it lies in: dropping a pair hides the event from that window only.

    Attributes:
        events: the events.
        event: int64 (pairs,), index into ``events``.
        window: int64 (pairs,), number of the window.
        position: int32 (pairs,), how many events of the window came before this one.
        size: float64 (pairs,), events in the window when it closes, as known or predicted.
    """

    events: JudgedEvents
    event: NDArray[np.int64]
    window: NDArray[np.int64]
    position: NDArray[np.int32]
    size: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.event)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedMatches:
    """Partial matches.

    Attributes:
        identity: uint64 (matches,), equal for the same partial match in every run and replay.
        query: int32 (matches,), number of the query.
        state: int32 (matches,), state of the query's automaton from 0; it is complete in the last one.
        remaining: float64 (matches,), events that its window will still see, as known or predicted.
        remaining_ms: float64 (matches,), time until its window ends.
        last_type: int32 (matches,), type of its last event.
        values: float64 (attributes, matches), whatever may tell how it goes on: attributes of its events, sums; NaN where there is none. Only `stateful` reads them.
    """

    identity: NDArray[np.uint64]
    query: NDArray[np.int32] = field(default_factory=_int32)
    state: NDArray[np.int32] = field(default_factory=_int32)
    remaining: NDArray[np.float64] = field(default_factory=_float64)
    remaining_ms: NDArray[np.float64] = field(default_factory=_float64)
    last_type: NDArray[np.int32] = field(default_factory=_int32)
    values: NDArray[np.float64] = field(default_factory=_values)

    def __len__(self) -> int:
        return len(self.identity)

    def only(self, which: Mask | slice) -> JudgedMatches:
        """Some of them, in their order; what is not told stays so."""
        columns = {name: getattr(self, name) for name in JudgedMatches.__slots__}
        return JudgedMatches(**{name: one[..., which] if one.shape[-1] == len(self) else one for name, one in columns.items()})


@dataclass(frozen=True, slots=True, eq=False)
class JudgedInMatches:
    """Pairs of an event and a partial match that it is held against: dropping a pair hides the event from that partial match only.

    Attributes:
        identity: uint64 (pairs,), a hash of both, equal for the same pair in every run and replay.
        query: int32 (pairs,), number of the query.
        type: int32 (pairs,), type of the event.
        state: int32 (pairs,), state of the partial match, from 0.
        position: float64 (pairs,), share of the window that lies before the event, 0 to 1, as known or predicted.
    """

    identity: NDArray[np.uint64]
    query: NDArray[np.int32] = field(default_factory=_int32)
    type: NDArray[np.int32] = field(default_factory=_int32)
    state: NDArray[np.int32] = field(default_factory=_int32)
    position: NDArray[np.float64] = field(default_factory=_float64)

    def __len__(self) -> int:
        return len(self.identity)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedTuples:
    """Tuples in memory, by key and then by time.

    Attributes:
        identity: uint64 (tuples,), equal for the same tuple in every run and replay.
        run: int64 (tuples,), number of the exact coalesced tuple that it belongs to; numbers of other keys differ.
        start: int64 (tuples,), ms, first moment of validity.
        end: int64 (tuples,), ms, first moment after it.
        run_length: int64 (tuples,), ms, length of the exact coalesced tuple, as far as seen.
    """

    identity: NDArray[np.uint64]
    run: NDArray[np.int64] = field(default_factory=_int64)
    start: NDArray[np.int64] = field(default_factory=_int64)
    end: NDArray[np.int64] = field(default_factory=_int64)
    run_length: NDArray[np.int64] = field(default_factory=_int64)

    def __len__(self) -> int:
        return len(self.identity)
