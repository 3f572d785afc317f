"""Pieces of files → events in total order, part by part: memory follows the disorder of the files, not their length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from app.bucket.chunk import compacted_batch
from app.bucket.recording import SLICE, rows_between
from app.events.batch import EventBatch, concatenate, in_total_order
from app.events.spool import Span

WORTH = 2
"""Pieces that overlap are merged once so many parts of one of what waits can go: merging them whenever a few events can would copy most again and again."""


def parts_in_order(spans: Sequence[Span], piece: Callable[[int], EventBatch]) -> Iterator[EventBatch]:
    """All events of some pieces in total order, some `SLICE` at a time.

    Args:
        spans: the times of every piece.
        piece: the events of a piece; asked once for each.
    """
    order = sorted(range(len(spans)), key=lambda number: spans[number].first_ms)
    following = [spans[number].first_ms for number in order[1:]]
    waiting: list[EventBatch] = []
    for place, number in enumerate(order):
        waiting.append(in_total_order(piece(number)))
        if place == len(following):
            yield from even_slices(_merged(waiting))
            return
        going = sum(int(np.searchsorted(batch.time, following[place])) for batch in waiting)
        if going * WORTH >= sum(len(batch) for batch in waiting):
            merged = _merged(waiting)
            stop = int(np.searchsorted(merged.time, following[place]))
            yield from even_slices(rows_between(merged, 0, stop))
            rest = rows_between(merged, stop, len(merged))
            waiting = [compacted_batch(rest)] if len(rest) else []


def _merged(batches: Sequence[EventBatch]) -> EventBatch:
    return batches[0] if len(batches) == 1 else in_total_order(concatenate(batches))


def even_slices(batch: EventBatch) -> Iterator[EventBatch]:
    """Views of about `SLICE` events, none much smaller than the others."""
    count = max(1, round(len(batch) / SLICE))
    bounds = np.linspace(0, len(batch), count + 1).astype(np.int64).tolist()
    return (rows_between(batch, start, stop) for start, stop in pairwise(bounds) if stop > start)
