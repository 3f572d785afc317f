"""Silence: which sources no longer hold the watermark up, and how time goes on when nothing comes at all.

Pure: the clock is passed in. What is decided here goes into the directive, so a repeated batch sees the same silence.

* A source (topic partition) that has delivered nothing for its stream's ``idle_after`` is left out of the stream's watermark.
* When all sources of a stream are silent, the stream's time goes on with the clock, from its greatest event time at the moment it fell silent; also
  while the driver is down, when the time of day tells how long that was.
* When a stream that was silent as a whole speaks again, all its sources count as heard: a producer that begins (or a recording that is sent at full
  speed) reaches the topic partitions one after the other, and the first must not leave the others behind.
* A heartbeat starts a batch when the input is silent and something waits that only time can release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Silence:
    """What a batch's directive says about silence.

    Attributes:
        idle: sources that the watermark leaves out, ascending.
        stream_times: virtual time (ms) of the streams of which all sources are idle.
    """

    idle: tuple[int, ...] = ()
    stream_times: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceOfStream:
    """A topic partition and the stream that it feeds."""

    source: int
    stream: str


class IdleSources:
    """When each source was last heard of.

    Args:
        idle_after: per stream, ms.
        lateness: per stream, ms by which watermarks stay behind; 0 where missing.
    """

    def __init__(self, idle_after: Mapping[str, int], lateness: Mapping[str, int] | None = None) -> None:
        self._idle_after = dict(idle_after)
        self._lateness = dict(lateness or {})
        self._stream: dict[int, str] = {}
        self._heard_ms: dict[int, int] = {}
        self._spoke_ms: dict[str, int] = {}
        self._times: dict[str, int] = {}

    def assign(self, sources: Iterable[SourceOfStream], now_ms: int) -> None:
        """Makes sources known. A new one counts as heard now: it gets its chance to speak before it is left out."""
        for source in sources:
            if source.stream in self._idle_after:
                self._stream[source.source] = source.stream
                self._heard_ms.setdefault(source.source, now_ms)

    def hear(self, sources: Iterable[int], now_ms: int) -> None:
        """These sources deliver events in a batch. If their stream was silent as a whole, its other sources get their chance to speak as well."""
        speaking = {source for source in sources if source in self._stream}
        streams = {self._stream[source] for source in speaking}
        waking = streams.intersection(self._silent_streams({s for s in self._stream if self._is_silent(s, now_ms)}))
        for source, stream in self._stream.items():
            if source in speaking or stream in waking:
                self._heard_ms[source] = max(now_ms, self._heard_ms[source])
        for stream in streams:
            self._spoke_ms[stream] = now_ms
            self._times.pop(stream, None)

    def expect_all(self, now_ms: int) -> None:
        """Every source gets time to speak before it is left out."""
        self._heard_ms = {source: max(now_ms, heard) for source, heard in self._heard_ms.items()}

    def decide(self, greatest_times: Mapping[int, int], now_ms: int) -> Silence:
        """What is silent now.

        Args:
            greatest_times: per source, greatest event time so far, ms.
            now_ms: the clock.
        """
        idle = tuple(sorted(source for source in self._stream if self._is_silent(source, now_ms)))
        times = {stream: self._time_of(stream, greatest_times, now_ms) for stream in self._silent_streams(set(idle))}
        known = {stream: time for stream, time in times.items() if time is not None}
        self._times.update(known)
        return Silence(idle, dict(sorted(known.items())))

    def watermark(self, stream: str, greatest_times: Mapping[int, int], now_ms: int) -> int | None:
        """The stream's watermark if a batch came now; None when a source still speaks or no event was ever seen."""
        silent = {source for source, of in self._stream.items() if of == stream and self._is_silent(source, now_ms)}
        time = self._time_of(stream, greatest_times, now_ms) if stream in self._silent_streams(silent) else None
        return None if time is None else time - self._lateness.get(stream, 0)

    @property
    def streams(self) -> tuple[str, ...]:
        """All streams, sorted."""
        return tuple(sorted(self._idle_after))

    @property
    def sources(self) -> tuple[int, ...]:
        """All known sources, ascending."""
        return tuple(sorted(self._stream))

    def silent_for(self, now_ms: int) -> int:
        """Milliseconds since any source was heard of; 0 when there are no sources."""
        return min((now_ms - heard for heard in self._heard_ms.values()), default=0)

    def snapshot(self, now_ms: int, at_ms: int) -> dict[str, Any]:
        """JSON values.

        Args:
            now_ms: the clock.
            at_ms: the time of day.
        """
        return {
            "at_ms": at_ms,
            "silent_ms": {stream: now_ms - spoke for stream, spoke in sorted(self._spoke_ms.items())},
            "stream": {str(s): n for s, n in sorted(self._stream.items())},
        }

    def restore(self, snapshot: Mapping[str, Any], now_ms: int, at_ms: int) -> None:
        """Goes on after a restart. While the driver was down nobody listened, so every source gets time to speak; if then none does, its stream has been silent all the while.

        Args:
            snapshot: of `snapshot`; of what an older version wrote, nothing says how long streams had been silent.
            now_ms: the clock.
            at_ms: the time of day.
        """
        down_ms = max(0, at_ms - snapshot.get("at_ms", at_ms))
        self._spoke_ms = {
            name: now_ms - silent - down_ms for name, silent in snapshot.get("silent_ms", {}).items() if name in self._idle_after
        }
        for source, stream in snapshot.get("stream", {}).items():
            if stream in self._idle_after:
                self._stream[int(source)] = stream
                self._heard_ms[int(source)] = now_ms

    def _is_silent(self, source: int, now_ms: int) -> bool:
        return now_ms - self._heard_ms[source] >= self._idle_after[self._stream[source]]

    def _silent_streams(self, idle: set[int]) -> list[str]:
        members: dict[str, set[int]] = {}
        for source, stream in self._stream.items():
            members.setdefault(stream, set()).add(source)
        return sorted(stream for stream, sources in members.items() if sources <= idle)

    def _time_of(self, stream: str, greatest_times: Mapping[int, int], now_ms: int) -> int | None:
        sources = [source for source, of in self._stream.items() if of == stream]
        seen = [greatest_times[source] for source in sources if source in greatest_times]
        if not seen:
            return None
        spoke = self._spoke_ms.get(stream, max(self._heard_ms[source] for source in sources))
        # Never back: a clock that was set back must not undo what was decided.
        return max(max(seen) + max(0, now_ms - spoke), self._times.get(stream, max(seen)))


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for time to pass, after the last batch.

    Attributes:
        count: held events, negated ends, open windows.
        release_at_ms: one of them is released when the watermark is greater than this; None when unknown.
    """

    count: int = 0
    release_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Beat:
    """When the last heartbeat was written, and how far apart they must be, ms."""

    last_ms: int
    interval_ms: int


def heartbeat_is_due(idle: IdleSources, waiting: Waiting, greatest_times: Mapping[int, int], beat: Beat, now_ms: int) -> bool:
    """Whether to start a batch although nothing came.

    Not while the input speaks (it starts batches itself), not when nothing waits, not too often; and when it is known what is
    waited for, not before a batch could release it: a negation over 12 hours must not cost a batch per second.
    """
    if waiting.count <= 0 or now_ms - beat.last_ms < beat.interval_ms or idle.silent_for(now_ms) < beat.interval_ms:
        return False
    if waiting.release_at_ms is None:
        return True
    reached = [idle.watermark(stream, greatest_times, now_ms) for stream in idle.streams]
    return any(time is not None and time > waiting.release_at_ms for time in reached)
