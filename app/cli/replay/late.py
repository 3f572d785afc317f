"""Which events were late: the first of them with file, line, time, and how far they are behind what came before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.recording import Arrivals
from app.cli.inputs.events import ReplayInput
from app.cli.inputs.moments import moment_text
from app.config.durations import format_duration
from app.errors import Finding, Location, Severity
from app.events.batch import PRESENT, Column
from app.query.plan import Plan

SHOWN = 10
"""Late events that are told of; each is looked for in all events of its streams, 10 ms for ten million."""


@dataclass(frozen=True, slots=True)
class LateEvent:
    """An event that was left out.

    Attributes:
        place: file and line, or number of the record, from 1.
        time_ms: of the event.
        behind_ms: how much greater the greatest time was that had come before it: from its topic partition, or in trusted order with its key.
        allowed_ms: how much may be; None in trusted order, where the queries' windows allow more than the stream does.
        key: the attribute by which the stream is in trusted order, where that decided.
    """

    place: Location
    time_ms: int
    behind_ms: int
    allowed_ms: int | None = None
    key: str | None = None

    def finding(self) -> Finding:
        """As a warning."""
        before = f'an earlier event of the same "{self.key}"' if self.key else "an earlier event"
        allowed = "" if self.allowed_ms is None else f"; the stream allows {format_duration(self.allowed_ms)}"
        message = f"late: {_when(self.time_ms)} is {format_duration(self.behind_ms)} behind {before}{allowed}"
        return Finding(message, self.place, None, Severity.WARNING)

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {"file": self.place.path, "line": self.place.line, "time": self.time_ms, "behind_ms": self.behind_ms}


def late_events(
    late: NDArray[np.int64], source: ReplayInput, plans: Sequence[Plan], location: Callable[[int], Location]
) -> list[LateEvent]:
    """The first late events, in the order of the files.

    Args:
        late: int64 (late, 2), source and offset, see `app.bucket.recording.Recording`.
        source: the events.
        plans: of the queries that were run.
        location: of a line that is counted on from file to file.
    """
    if source.settings is None or not len(late):
        return []
    read = sorted({stream for plan in plans for stream in plan.streams} & source.settings.streams.keys())
    streams = [source.arrivals(name) for name in read]
    lines = np.sort(source.line_finder().lines_of(late[:, 0], late[:, 1]))[:SHOWN]
    found = []
    for line in lines.tolist():
        told = [_behind(stream, row, location(line)) for stream in streams if (row := _row(stream, line)) is not None]
        told = [one for one in told if one.behind_ms > (one.allowed_ms or 0)] or told  # another stream may have taken it
        if told:  # of several the most patient one had the last word
            found.append(min(told, key=lambda one: one.behind_ms - (one.allowed_ms or 0)))
    return found


def late_findings(told: Sequence[LateEvent], count: int) -> Iterable[Finding]:
    """Warnings about late events, and how many more there are.

    Args:
        told: the first of them.
        count: of all.
    """
    yield from (one.finding() for one in told)
    if told and count > len(told):
        yield Finding(f"{count - len(told):,} more late events", None, None, Severity.WARNING)


def _row(stream: Arrivals, line: int) -> int | None:
    row = int(np.searchsorted(stream.line, line))
    return row if row < len(stream.line) and stream.line[row] == line else None


def _behind(stream: Arrivals, row: int, place: Location) -> LateEvent:
    """How late the stream's event of a row is: by its key where the stream is in trusted order and that made it late, else by its topic partition."""
    batch, rules = stream.batch, stream.rules
    time, before = int(batch.time[row]), batch.time[:row]
    key = None if rules.ordered_by is None else batch.columns.get(rules.ordered_by)
    of_key = None if key is None else _greatest(before[_same(key, row)])
    if of_key is not None and of_key > time:
        return LateEvent(place, time, of_key - time, None, rules.ordered_by)
    greatest = _greatest(before[batch.source[:row] == batch.source[row]])
    allowed_ms = rules.allowed_lateness_ms if rules.ordered_by is None else None
    return LateEvent(place, time, 0 if greatest is None else max(0, greatest - time), allowed_ms)


def _greatest(times: NDArray[np.int64]) -> int | None:
    return int(times.max()) if len(times) else None


def _same(column: Column, row: int) -> NDArray[np.bool_]:
    """Which of the rows before one have its value, bool (row,); none where it has none."""
    before = column.values[:row]
    if column.state is not None and column.state[row] != PRESENT:
        return np.zeros(row, dtype=np.bool_)
    if column.dictionary is None:
        same = before == column.values[row]
    else:  # entries may repeat
        wanted = column.dictionary.entry(int(column.values[row]))
        same = np.isin(before, [code for code, entry in enumerate(column.dictionary.entries()) if entry == wanted])
    return same if column.state is None else same & (column.state[:row] == PRESENT)


def _when(time_ms: int) -> str:
    """A time for people; as a number where the calendar ends."""
    try:
        return moment_text(time_ms)
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
