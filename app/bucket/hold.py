"""Time in streams: watermarks, lateness, and holding events back until nothing earlier can come (queries/README.md, *Time and order*)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.bucket import kernels
from app.bucket.chunk import compacted_batch
from app.events.batch import PARTITION_BITS, EventBatch, concatenate, empty_batch, first_of_each, take

NEVER = -(1 << 62)
"""A watermark before all times. Far enough from the end of 64 bit that taking a lateness or a window away cannot wrap."""
FOREVER = (1 << 63) - 1
"""The watermark at the end of all input: everything is released."""


@dataclass(frozen=True, slots=True)
class TimeRules:
    """How time passes in one stream.

    Attributes:
        allowed_lateness_ms: how far a source's watermark stays behind its greatest time.
        ordered_by: attribute by which producers write in time order into one topic partition.
        topics: numbers of the stream's topics (`app.events.topics`).
    """

    stream: str
    allowed_lateness_ms: int = 0
    ordered_by: str | None = None
    topics: frozenset[int] = frozenset((0,))

    def owns(self, source: int) -> bool:
        """Whether the source is one of the stream's topic partitions."""
        return source >> PARTITION_BITS in self.topics


@dataclass(frozen=True, slots=True)
class Progress:
    """What was decided about time before a micro-batch, once for all tasks (or, in `replay`, what is known before a slice of the file).

    Attributes:
        greatest_times: by source the greatest event time before this batch, ms.
        sources: all topic partitions that are read, also those without an event yet; only these and the ones above hold the watermark up.
        idle: sources that the watermark leaves out.
        stream_times: streams that are silent as a whole: the time (ms) to which the clock has carried them, as if such an event had been seen.
        closing: no more input will come: watermarks go to infinity.
        reached: streams that had come further before this batch than follows from the rest (sources that were idle speak again): the time, ms, without the allowed lateness.
    """

    greatest_times: Mapping[int, int] = field(default_factory=dict)
    sources: frozenset[int] = frozenset()
    idle: frozenset[int] = frozenset()
    stream_times: Mapping[str, int] = field(default_factory=dict)
    closing: bool = False
    reached: Mapping[str, int] = field(default_factory=dict)


def stream_watermark(rules: TimeRules, greatest_times: Mapping[int, int], progress: Progress) -> int:
    """A stream's watermark: the least of its sources', idle ones left out.

    >>> rules = TimeRules("s", allowed_lateness_ms=10)
    >>> stream_watermark(rules, {0: 100, 1: 50}, Progress()), stream_watermark(rules, {0: 100, 1: 50}, Progress(idle=frozenset((1,))))
    (40, 90)
    """
    if progress.closing:
        return FOREVER
    known = {source for source in (*greatest_times, *progress.sources) if rules.owns(source)}
    live = [greatest_times.get(source, NEVER) for source in known - progress.idle]
    if live:
        reached = min(live)
    else:  # all are silent: the clock's time if there is one, else as far as anyone came
        reached = max([NEVER, *(greatest_times.get(source, NEVER) for source in known)])
        reached = max(reached, progress.stream_times.get(rules.stream, NEVER))
    return NEVER if reached <= NEVER else reached - rules.allowed_lateness_ms


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """What judging a batch found.

    Attributes:
        late: bool (events,).
        greatest_times: by source the greatest time after the batch; only sources that have had an event.
        sources: that these events are of.
    """

    late: NDArray[np.bool_]
    greatest_times: Mapping[int, int]
    sources: frozenset[int] = frozenset()


def judge_lateness(batch: EventBatch, rules: TimeRules, progress: Progress) -> Judgement:
    """Judges the events of one task, in the order given (that of the offsets within a source), one after the other.

    An event is late when its time is less than its own source's watermark at that moment; after a source was left out as idle, also when
    it is less than the stream's watermark before this batch, also when the source speaks again.
    """
    own = {source: time for source, time in progress.greatest_times.items() if rules.owns(source)}
    floor = stream_watermark(rules, own, Progress(own, progress.sources, progress.idle, progress.stream_times))
    if rules.stream in progress.reached:
        floor = max(floor, progress.reached[rules.stream] - rules.allowed_lateness_ms)
    numbers, place = _places(batch.source)
    greatest = np.array([own.get(source, NEVER) for source in numbers.tolist()], dtype=np.int64)
    late = np.empty(len(batch), dtype=np.bool_)
    kernels.judge(batch.time, place, greatest, np.full(len(numbers), floor, dtype=np.int64), rules.allowed_lateness_ms, late)
    seen = {source: time for source, time in zip(numbers.tolist(), greatest.tolist(), strict=True) if time > NEVER}
    return Judgement(late, own | seen, frozenset(numbers.tolist()))


def _places(source: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The distinct sources, ascending, and for every event the place of its own."""
    if len(source) == 0 or (source[0] == source[-1] and bool((source == source[0]).all())):
        return source[:1], np.zeros(len(source), dtype=np.int32)
    numbers, place = np.unique(source, return_inverse=True)
    return numbers, place.astype(np.int32)


class Held:
    """Events of one query group that wait for the watermark, each with its bitmap.

    Not sorted: what is released is sorted then, which is cheaper than keeping order.
    """

    def __init__(self, words: int, parts: Iterable[tuple[EventBatch, NDArray[np.uint64]]] = ()) -> None:
        self._words = words
        self._parts = list(parts)

    def __len__(self) -> int:
        return sum(len(batch) for batch, _ in self._parts)

    def add(self, batch: EventBatch, bitmaps: NDArray[np.uint64]) -> None:
        """Takes events in."""
        if len(batch):
            self._parts.append((batch, bitmaps))

    def release(self, watermark: int) -> tuple[EventBatch, NDArray[np.uint64]]:
        """Gives out the events whose time is less than the watermark, in total order, each once.

        An event can have come twice: in `replay` a line without a stream belongs to every stream of the group.
        """
        batch, bitmaps = self.everything()
        ready = batch.time < watermark if watermark < FOREVER else np.ones(len(batch), dtype=np.bool_)
        if ready.all():
            self._parts = []
            return _sorted(batch, bitmaps, batch.total_order())
        rows = np.flatnonzero(ready)
        left = np.flatnonzero(~ready)
        self._parts = [(compacted_batch(take(batch, left)), bitmaps[left])] if len(left) else []
        order = rows[np.lexsort((batch.offset[rows], batch.source[rows], batch.time[rows]))]
        return _sorted(batch, bitmaps, order)

    def release_all_in_arrival_order(self) -> tuple[EventBatch, NDArray[np.uint64]]:
        """Gives out everything by (source, offset): for trusted streams."""
        batch, bitmaps = self.everything()
        self._parts = []
        return _sorted(batch, bitmaps, np.lexsort((batch.offset, batch.source)))

    def everything(self) -> tuple[EventBatch, NDArray[np.uint64]]:
        """All events held, unsorted."""
        if not self._parts:
            return empty_batch(), np.zeros((0, self._words), dtype=np.uint64)
        if len(self._parts) == 1:
            return self._parts[0]
        return concatenate([batch for batch, _ in self._parts]), np.concatenate([bitmaps for _, bitmaps in self._parts])

    def least_time(self) -> int | None:
        """The time of the earliest event held."""
        return min((int(batch.time.min()) for batch, _ in self._parts), default=None)


def _sorted(batch: EventBatch, bitmaps: NDArray[np.uint64], order: NDArray[np.intp]) -> tuple[EventBatch, NDArray[np.uint64]]:
    first = first_of_each(batch, order)
    if not first.all():
        order = order[first]
    return take(batch, order), bitmaps[order]


class KeyOrder:
    """The last time of every partition key of a trusted stream, to find events that are earlier than their key's predecessor.

    A key is forgotten once its last time is not after the floor: an event that is earlier than that is below the floor and late anyway
    (`Bucket` sees to that). So when keys are forgotten has no influence on what is late, and memory follows the keys that the time between the
    floor and the newest event has seen.
    """

    def __init__(self, keys: NDArray[np.uint64] | None = None, times: NDArray[np.int64] | None = None) -> None:
        self._keys = np.zeros(64, dtype=np.uint64)
        self._times = np.zeros(64, dtype=np.int64)
        self._used = 0
        if keys is not None and times is not None:
            self.late(keys, times)

    def __len__(self) -> int:
        return self._used

    @property
    def places(self) -> int:
        """Places of the table, 16 bytes each."""
        return len(self._keys)

    def late(
        self, keys: NDArray[np.uint64], times: NDArray[np.int64], before: NDArray[np.int64] | None = None, floor: int = NEVER
    ) -> NDArray[np.bool_]:
        """Judges events one after the other, in arrival order, and learns their times.

        Args:
            keys: uint64 (events,), hashes.
            times: int64 (events,), ms.
            before: int64 (events,), in-out: greatest time of predecessors that are not among these events; afterwards of all predecessors.
            floor: ms; none of these events, nor any later one, has a time that is less.

        Returns:
            bool (events,).
        """
        self._make_room(len(keys), floor)
        late = np.empty(len(keys), dtype=np.bool_)
        known = np.full(len(keys), NEVER, dtype=np.int64) if before is None else before
        self._used = kernels.judge_keys(keys, times, known, self._keys, self._times, self._used, late)
        return late

    def behind(self, keys: NDArray[np.uint64], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which events are earlier than what is known of their keys, bool (events,); arguments as of `late`. Nothing is learned."""
        own, last = np.maximum(keys, np.uint64(1)), np.uint64(len(self._keys) - 1)
        place = own & last
        while (taken := (self._keys[place] != 0) & (self._keys[place] != own)).any():
            place[taken] = (place[taken] + np.uint64(1)) & last
        return (self._keys[place] == own) & (times < self._times[place])

    def contents(self, floor: int = NEVER) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Keys, ascending, and their last times, those that are to be forgotten left out: for snapshots."""
        kept = np.flatnonzero((self._keys != 0) & (self._times > floor))
        order = kept[np.argsort(self._keys[kept])]
        return self._keys[order], self._times[order]

    def _make_room(self, more: int, floor: int) -> None:
        if 2 * (self._used + more) <= len(self._keys):
            return
        keys, times = self.contents(floor)
        size = 1 << int(4 * len(keys) + 2 * more - 1).bit_length()  # twice the room that is needed, or it would be full again at once
        self._keys, self._times, self._used = np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.int64), 0
        self.late(keys, times)


def merged_times(parts: Sequence[Mapping[int, int]]) -> dict[int, int]:
    """By source the greatest of all times."""
    merged: dict[int, int] = {}
    for part in parts:
        for source, time in part.items():
            merged[source] = max(time, merged.get(source, time))
    return merged
