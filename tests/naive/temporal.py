"""Temporal queries from the definitions of the language page, section 7: slow and obvious, nothing is kept between windows.

At every window everything is computed again from all tuples known by then. Events are those of `tests.naive.language`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.naive.language import Event
from tests.naive.reservoir import NaiveReservoir

FOREVER = math.inf


@dataclass(frozen=True)
class TemporalQuery:
    """A temporal query; times in ms.

    ``where`` as text and as what it means; ``test`` likewise (of the clipped interval). ``duration`` None: until the next tuple.
    """

    select: tuple[str, ...]
    key: tuple[str, ...] = ()
    where: tuple[str, Callable[[Event], bool]] | None = None
    duration: int | None = None
    max_gap: int = 0
    range: int = 10
    slide: int = 5
    counted: bool = False
    test: tuple[str, Callable[[int, int], bool]] | None = None
    everything: bool = False
    """``emit: all``."""
    shedder: str = "none"
    memory: int = 0
    """Tuples that may stay, per key; 0: all."""

    def text(self, stream: str) -> str:
        """As YAML."""
        unit = " events" if self.counted else " ms"
        duration = "until-next" if self.duration is None else f"{self.duration} ms"
        lines = [
            "name: q",
            f"from: {stream}",
            f"select: [{', '.join(self.select)}]",
            *([f"key: [{', '.join(self.key)}]"] if self.key else []),
            *([f'where: "{self.where[0]}"'] if self.where else []),
            f"coalesce: {{max_gap: {self.max_gap} ms, duration: {duration}}}",
            *([f'valid: "{self.test[0]}"'] if self.test else []),
            f"window: {{range: {self.range}{unit}, slide: {self.slide}{unit}}}",
            *(["emit: all"] if self.everything else []),
            *([f"shedding: {{shedder: {self.shedder}, memory: {self.memory} tuples}}"] if self.memory else []),
        ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Valid:
    """A tuple and the time for which it is valid; ``rank`` in the input, from 1."""

    rank: int
    start: int
    end: float
    value: tuple[object, ...]
    event: Event


@dataclass(frozen=True)
class Coalesced:
    """An output: values by attribute (key and select), the interval, and the places of the merged tuples."""

    time: int
    window: int
    fields: tuple[tuple[str, object], ...]
    start: int
    end: int
    truncated_start: bool
    truncated_end: bool
    events: tuple[tuple[int, int], ...]


WEIGHTS = {"cals": (1, 1), "cals-v": (1, 0), "cals-i": (0, 1), "rand": (0, 0)}
"""By shedder what an extraneous tuple and a lost share of an interval cost."""


def coalesced(
    query: TemporalQuery,
    events: list[Event],
    schemas: dict[str, dict[str, str]],
    watermark: int | None = None,
    tie: Callable[[Event], int] = lambda event: 0,
) -> list[Coalesced]:
    """All outputs over events in total order, until the end of the input, and as far as the watermark has passed.

    ``tie``: of two tuples whose loss costs the same, the one of the lesser number goes.
    """
    needed = {*query.select, *query.key} - {"time", "type"}
    tuples = [event for event in events if needed <= set(schemas[event["type"]])]
    found: list[Coalesced] = []
    gone = dropped(query, tuples, tie) if query.memory else {}
    shown: dict[int, tuple[int, int]] = {}
    for t, window, known in windows(query, tuples, events, watermark):
        now: dict[int, tuple[int, int]] = {}
        for run, one in qualifying(query, t, window, known, {rank for rank, by in gone.items() if by <= len(known)}):
            now |= dict.fromkeys((part.rank for part in run), (one.start, one.end))
            before = shown.get(run[0].rank)
            unchanged = (
                before is not None
                and (one.truncated_start or before[0] == one.start)
                and (one.truncated_end or before[1] == one.end)
            )  # fmt: skip
            if query.everything or not unchanged:
                found.append(one)
        shown = now
    return found


def windows(
    query: TemporalQuery, tuples: list[Event], events: list[Event], watermark: int | None
) -> Iterator[tuple[int, int, list[Event]]]:
    """(t, number, the tuples known then), one after the other."""
    if query.counted:
        ends = [n for n in range(1, len(tuples) + 1) if n % query.slide == 0 or n == len(tuples)]
        for n in ends:
            yield tuples[n - 1]["time"], -(-n // query.slide), tuples[:n]
        return
    if not events:
        return
    first, last = events[0]["time"] // query.slide, events[-1]["time"] // query.slide + 1
    if watermark is not None:
        last = max(last, (watermark - 1) // query.slide)
    for number in range(first, last + 1):
        yield number * query.slide, number, [event for event in tuples if event["time"] <= number * query.slide]


def dropped(query: TemporalQuery, tuples: list[Event], tie: Callable[[Event], int]) -> dict[int, int]:
    """Ranks of the tuples that memory has no room for, and the rank of the tuple that came when each went.

    A tuple enters the memory of its key when the next one of its key comes: its interval is known then. What can be in no window any more does
    not count.
    """
    gone: dict[int, int] = {}
    memory: dict[tuple, NaiveReservoir] = {}
    values: list[tuple] = []
    last: dict[tuple, tuple[int, Event]] = {}
    for rank, event in enumerate(tuples, start=1):
        key, now = tuple(comparable(event, name) for name in query.key), event["time"]
        before, last[key] = last.get(key), (rank, event)
        if before is None or before[1]["time"] == now or (query.where is not None and not query.where[1](before[1])):
            continue
        start = before[1]["time"]
        end = now if query.duration is None else start + query.duration
        oldest, ended = (rank - query.range + 1, -math.inf) if query.counted else (-math.inf, now - query.range)
        if before[0] < oldest or end <= ended:
            continue
        value = tuple(comparable(before[1], name) for name in query.select)
        values += [value] if value not in values else []
        reservoir = memory.setdefault(key, NaiveReservoir(*WEIGHTS[query.shedder], query.memory, gap=query.max_gap))
        went = reservoir.come(before[0], oldest, ended, values.index(value), start, end, tie(before[1]))
        if went >= 0:
            gone[went] = rank
    return gone


def qualifying(query: TemporalQuery, t: int, window: int, known: list[Event], gone: set[int]) -> Iterator[tuple[list[Valid], Coalesced]]:
    """The coalesced tuples of one window, each with all its tuples so far: by any of them it is the same one in the next window."""
    low = -math.inf if query.counted else t - query.range
    oldest = len(known) - query.range if query.counted else 0
    for key, value, everything in equal_tuples(query, known):
        equal = [one for one in everything if one.rank not in gone]
        for run in runs(equal, query.max_gap):
            parts = [one for one in run if one.start < t and one.end > low and one.rank > oldest]
            if not parts:
                continue
            start, end = max(min(one.start for one in parts), low), min(max(one.end for one in parts), t)
            if query.test is not None and not query.test[1](start, end):
                continue
            yield (
                run,
                Coalesced(
                    t,
                    window,
                    tuple(zip((*query.key, *query.select), (*key, *value), strict=True)),
                    start,
                    end,
                    any(one.start < start <= one.end for one in equal),
                    any(one.start <= end < one.end for one in equal),
                    tuple((one.event["source"], one.event["offset"]) for one in parts),
                ),
            )


def equal_tuples(query: TemporalQuery, known: list[Event]) -> Iterator[tuple[tuple, tuple, list[Valid]]]:
    """Per key and values the tuples that passed ``where`` and are valid for some time, in total order."""
    by_key: dict[tuple, list[tuple[int, Event]]] = {}
    for rank, event in enumerate(known, start=1):
        by_key.setdefault(tuple(comparable(event, name) for name in query.key), []).append((rank, event))
    for key, own in by_key.items():
        groups: dict[tuple, list[Valid]] = {}
        for place, (rank, event) in enumerate(own):
            following = own[place + 1][1]["time"] if place + 1 < len(own) else FOREVER
            if following == event["time"]:
                continue  # of two tuples of one key and time the later one counts
            if query.where is not None and not query.where[1](event):
                continue
            end = following if query.duration is None else event["time"] + query.duration
            value = tuple(comparable(event, name) for name in query.select)
            groups.setdefault(value, []).append(Valid(rank, event["time"], end, value, event))
        for value, equal in groups.items():
            yield key, value, equal


def runs(equal: list[Valid], max_gap: int) -> Iterator[list[Valid]]:
    """Equal tuples that touch, overlap, or lie at most the gap apart."""
    run: list[Valid] = []
    for one in equal:
        if run and one.start - max(before.end for before in run) > max_gap:
            yield run
            run = []
        run.append(one)
    if run:
        yield run


def comparable(event: Event, name: str) -> object:
    """A value as it is compared: null equals null, NaN equals NaN; true is not 1."""
    value = event[name] if name in ("time", "type") else event["attributes"].get(name)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return ("boolean", value) if isinstance(value, bool) else value
