"""A step of a bucket: what it holds of a query group, what it gives, and which of its events come too late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.bucket.hold import NEVER, Held, KeyOrder
from app.bucket.ingress import BEFORE
from app.bucket.matching import Found, GroupMatching
from app.events.batch import EventBatch, take


@dataclass(frozen=True, slots=True, eq=False)
class BucketOutput:
    """What one step of a bucket gave.

    Attributes:
        found: per query that had work, its matches and tally; in order of groups and queries, queries behind those that they read.
        late: int64 (late, 2), (source, offset) of events that the bucket itself found late, ascending.
        matched: events handed to matching (an event of several groups counts in each).
        held: events that wait for the watermark.
        pending: matches that wait for the end of their window, and events that may yet be part of a timeout that is to be written.
        next_release_ms: least event time at which something held is released (when the watermark is greater); None when nothing is held.
        watermarks: by stream, after the step.
    """

    found: Sequence[Found]
    late: NDArray[np.int64]
    matched: int
    held: int
    pending: int
    next_release_ms: int | None
    watermarks: Mapping[str, int]


@dataclass(slots=True)
class GroupState:
    """What a bucket holds of a query group."""

    matching: GroupMatching
    held: Held
    order: KeyOrder | None
    """Of trusted groups."""
    slack_ms: int
    pending: int = 0
    floor: int = NEVER
    """Of trusted groups: what was earlier than this was late in this step."""
    told: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = field(default_factory=list)
    """Keys and times of events that the bucket did not get; empty between steps."""


def times_before(batch: EventBatch) -> NDArray[np.int64]:
    """Of trusted groups: the greatest time of each event's predecessors that were not sent with it."""
    column = batch.columns.get(BEFORE)
    if column is None:
        return np.full(len(batch), NEVER, dtype=np.int64)
    values = column.values.astype(np.int64)
    return values if column.state is None else np.where(column.state == 0, values, NEVER)


def without(
    batch: EventBatch, bitmaps: NDArray[np.uint64], gone: NDArray[np.bool_], late: list[NDArray[np.int64]]
) -> tuple[EventBatch, NDArray[np.uint64]]:
    """The events that are not late; the others are noted."""
    if not gone.any():
        return batch, bitmaps
    late.append(np.stack([batch.source[gone], batch.offset[gone]], axis=1))
    kept = np.flatnonzero(~gone)
    return take(batch, kept), bitmaps[kept]


def ascending(late: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Int64 (late, 2), (source, offset) of all that was noted, ascending, each once."""
    return np.unique(np.concatenate(late), axis=0) if late else np.zeros((0, 2), dtype=np.int64)
