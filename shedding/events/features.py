"""What gSPICE sees of an event: its type, its attributes in ranges, and how often each type stands in its predecessor pane.

All three together are one 64-bit key (Zobrist): a random number per type, per range of each attribute and per frequency of each type, joined by exclusive or.
So a pane that moves by one event changes the key by four operations, however many types there are.

Source: gSPICE (2023), III-A, III-B3. Types that the training stream does not have, and -1, are in no frequency.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shedding import kernels_panes
from shedding.candidates import JudgedEvents
from shedding.identity import identities
from shedding.interface import Arrays, Json
from shedding.panes import Pane

Keys = NDArray[np.uint64]

_MOST_RANGES = 4096
"""Of an attribute; more would be a table of random numbers larger than the processor's caches."""


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Random numbers of a model.

    Attributes:
        pane: length of panes.
        frequency_numbers: uint64 (types, frequencies), the last column for that and every higher frequency.
        type_numbers: uint64 (types,).
        ranges: float64 (attributes, 2), lowest value and ranges per unit.
        offsets: int64 (attributes + 1,), where an attribute's numbers begin.
        value_numbers: uint64 (ranges of all attributes,), each attribute's last one for events without it.
    """

    pane: Pane
    frequency_numbers: NDArray[np.uint64]
    type_numbers: NDArray[np.uint64]
    ranges: NDArray[np.float64]
    offsets: NDArray[np.int64]
    value_numbers: NDArray[np.uint64]

    @property
    def types(self) -> int:
        """How many event types are told apart."""
        return len(self.type_numbers)

    def keys(self, events: JudgedEvents) -> Keys:
        """Keys of events.

        Returns:
            uint64 (2, events): of type, attributes and pane; of type and attributes. 0 for unknown types.
        """
        keys = np.zeros((2, len(events)), dtype=np.uint64)
        types, times, first = stream(events)
        kernels_panes.event_keys(
            types,
            times,
            self.pane.events,
            self.pane.time_ms,
            first,
            np.zeros(self.types, dtype=np.int64),
            self.frequency_numbers,
            self.type_numbers,
            attribute_rows(events, len(self.ranges)),
            self.ranges,
            self.offsets,
            self.value_numbers,
            keys,
        )
        return keys

    def frequencies(self, events: JudgedEvents, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Frequencies in the panes of some events.

        Args:
            events: consecutive events.
            rows: int64 (rows,), rising: which of them.

        Returns:
            float32 (rows, types).
        """
        types, times, first = stream(events)
        found = np.empty((len(rows), self.types), dtype=np.float32)
        counts = np.zeros(self.types, dtype=np.int64)
        kernels_panes.pane_frequencies(types, times, self.pane.events, self.pane.time_ms, rows + first, counts, found)
        return found

    def arrays(self) -> Arrays:
        """For a file."""
        return {name: getattr(self, name) for name in _ARRAYS}

    def parameters(self) -> Json:
        """For a file."""
        return {"pane_events": self.pane.events, "pane_ms": self.pane.time_ms}


_ARRAYS = ("frequency_numbers", "type_numbers", "ranges", "offsets", "value_numbers")


def restored_features(parameters: Json, arrays: Arrays) -> Features:
    """The inverse of `Features.parameters` and `Features.arrays`.

    Raises:
        KeyError, ValueError: they are none.
    """
    return Features(Pane(parameters["pane_events"], parameters["pane_ms"]), **{name: arrays[name] for name in _ARRAYS})


def learned_features(
    events: JudgedEvents, pane: Pane, frequency_bin: int = 1, value_bins: tuple[float, ...] = (), seed: int = 0
) -> Features:
    """Random numbers for all types, frequencies and ranges of these events.

    Args:
        events: training events, at least one.
        pane: length of panes.
        frequency_bin: so many neighbouring frequencies are one.
        value_bins: width of the ranges of each attribute; 1 where not given, wider where an attribute had too many ranges.
        seed: other numbers for another one.
    """
    types = max(int(events.type.max(initial=-1)) + 1, 0)
    most = pane.events or _most_in_pane(events, pane)
    bins = np.arange(most + 1) // frequency_bin
    lows, highs = _bounds(events)
    widths = np.array([*value_bins, *np.ones(len(lows))], dtype=np.float64)[: len(lows)]
    widths = np.maximum(widths, (highs - lows) / (_MOST_RANGES - 1))
    counts = np.floor((highs - lows) / widths).astype(np.int64) + 1
    offsets = np.concatenate([[0], np.cumsum(counts + 1)]).astype(np.int64)
    distinct = int(bins[-1]) + 1
    numbers = identities(np.full(types * (distinct + 1) + int(offsets[-1]), seed), np.arange(types * (distinct + 1) + int(offsets[-1])))
    by_frequency, by_type, by_value = np.split(numbers, [types * distinct, types * (distinct + 1)])
    table = by_frequency.reshape(types, distinct)[:, bins]
    ranges = np.stack([lows, 1 / widths], axis=1)
    return Features(pane, *(_locked(array) for array in (table, by_type, ranges, offsets, by_value)))


def stream(events: JudgedEvents) -> tuple[NDArray[np.int32], NDArray[np.int64], int]:
    """Types and times of the events and of those before them, and how many these are."""
    first = len(events.before)
    if not first:
        return events.type, events.time, 0
    return np.concatenate([events.before.type, events.type]), np.concatenate([events.before.time, events.time]), first


def attribute_rows(events: JudgedEvents, attributes: int) -> NDArray[np.float64]:
    """The attributes that a model knows, float64 (attributes, events).

    Raises:
        ValueError: the events have fewer.
    """
    if events.values.shape[0] < attributes and len(events):
        raise ValueError(f"the model knows {attributes} attributes, the events have {events.values.shape[0]}")
    return events.values if events.values.shape[0] else np.empty((attributes, len(events)))


def _bounds(events: JudgedEvents) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lowest and highest finite value of each attribute, 0 where there is none."""
    finite = np.isfinite(events.values)
    some = finite.any(axis=1)
    lows = np.where(some, np.min(np.where(finite, events.values, np.inf), axis=1, initial=np.inf), 0.0)
    highs = np.where(some, np.max(np.where(finite, events.values, -np.inf), axis=1, initial=-np.inf), 0.0)
    return lows, highs


def _most_in_pane(events: JudgedEvents, pane: Pane) -> int:
    starts = np.searchsorted(events.time, events.time - pane.time_ms)
    ends = np.searchsorted(events.time, events.time)
    return max(1, int((ends - starts).max(initial=0)))


def _locked(array: NDArray[Any]) -> NDArray[Any]:
    locked = np.ascontiguousarray(array)
    locked.flags.writeable = False
    return locked
