"""gSPICE straight from its definition: dictionaries and lists, one event after the other. Imports nothing of what it checks."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, isnan

Key = tuple[object, ...]


@dataclass(frozen=True)
class Event:
    type: int
    time: int
    values: tuple[float, ...]


def pane(stream: list[Event], at: int, length_events: int, length_ms: int) -> list[Event]:
    """The strict predecessors of an event: the last so many, or those of the last so many milliseconds without its own moment."""
    if length_events:
        return stream[max(0, at - length_events) : at]
    now = stream[at].time
    return [other for other in stream if now - length_ms <= other.time < now]


def frequencies(events: list[Event], types: int) -> tuple[int, ...]:
    """How many events of each type."""
    return tuple(sum(event.type == type_ for event in events) for type_ in range(types))


@dataclass
class Statistics:
    """Sums of weights and counts, by type, pane and attributes; by type and attributes; by type."""

    length_events: int
    length_ms: int
    types: int
    frequency_bin: int
    value_bins: tuple[float, ...]
    lowest: tuple[float, ...]
    highest: tuple[float, ...]

    def keys(self, stream: list[Event], at: int) -> tuple[Key, Key, Key]:
        event = stream[at]
        counts = frequencies(pane(stream, at, self.length_events, self.length_ms), self.types)
        binned = tuple(count // self.frequency_bin for count in counts)
        attributes = tuple(self.attribute_range(number, value) for number, value in enumerate(event.values))
        return (event.type, binned, attributes), (event.type, attributes), (event.type,)

    def attribute_range(self, number: int, value: float) -> int | None:
        """Ranges begin at the lowest value that was learned; what lies outside belongs to the outermost ranges."""
        if isnan(value):
            return None
        inside = min(max(value, self.lowest[number]), self.highest[number])
        return floor((inside - self.lowest[number]) / self.value_bins[number])


def learn(statistics: Statistics, stream: list[Event], first: int, worth: list[float]) -> dict[Key, float]:
    """Mean worth by key, coarse keys too, and under () over all; `first`: events before it are only predecessors."""
    sums: dict[Key, float] = {}
    counts: dict[Key, int] = {}
    for at in range(first, len(stream)):
        if stream[at].type >= 0:
            for key in (*statistics.keys(stream, at), ()):
                sums[key] = sums.get(key, 0.0) + worth[at - first]
                counts[key] = counts.get(key, 0) + 1
    return {key: total / counts[key] for key, total in sums.items()}


def utility(statistics: Statistics, learned: dict[Key, float], stream: list[Event], at: int) -> float:
    """By the whole key, else without the pane, else by the type alone, else the mean of all."""
    if stream[at].type < 0:
        return 0.0
    return next((learned[key] for key in statistics.keys(stream, at) if key in learned), learned.get((), 0.0))
