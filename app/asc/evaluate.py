"""Evaluation of all constructs along a sequence, for the columns of a batch or for regions that are already known.

**Source:** Lee and Lee, JIIS 39(2) 2012, sections 3.2 (global result bitmap) and 5.1 (global evaluation bitmap, micro-arrows). Deviates: where
a micro-arrow leads to a construct that was evaluated already, the macro-sequence goes on; and, in batches but not in `evaluate_regions`,
a construct that none of the items left uses is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence as List
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.asc import kernels
from app.asc.attribute import PreparedColumn, address
from app.asc.constructs import Constructs
from app.asc.sequence import Sequence

NEVER = np.iinfo(np.int64).max
_ADDRESS, _LAST_VISIT = 1, 2
"""Rows of the path: see `kernels.evaluate`."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What an evaluation found and what it cost.

    Attributes:
        rows: int64 (relevant,), events with a result bitmap that is not empty, ascending.
        bitmaps: uint64 (relevant, words).
        evaluated: constructs that were evaluated, over all events.
        followed: micro-arrows that were followed; the other steps but the first are macro-arrows.
        counts: int32 (events,), evaluated constructs per event; empty when not asked for.
    """

    rows: NDArray[np.int64]
    bitmaps: NDArray[np.uint64]
    evaluated: int
    followed: int
    counts: NDArray[np.int32]


def evaluate_columns(
    columns: List[PreparedColumn | None],
    usage: NDArray[np.uint64],
    sequence: Sequence,
    events: int,
    words: int,
    *,
    counts: NDArray[np.int32] | None = None,
) -> Evaluation:
    """Evaluates the columns of a batch.

    Args:
        columns: per construct; None for one that can fail no item in this batch.
        usage: uint64 (constructs + 1, chunked words): items by construct that uses them; last row: all items.
        sequence: of these constructs.
        events: of the batch.
        words: of the bitmaps to give back.
        counts: int32 (events,), zeroed, to be filled; None when nobody asks.

    Raises:
        ValueError: the sequence is one of other constructs.
    """
    if sorted(sequence.order) != list(range(len(columns))):
        raise ValueError(f"a sequence of {len(sequence.order)} constructs for {len(columns)}")
    fields = np.zeros((len(columns), kernels.FIELDS), dtype=np.int64)
    scales = np.zeros((len(columns), 4), dtype=np.float64)
    path = np.zeros((3, len(columns)), dtype=np.int64)
    for number, column in enumerate(columns):
        if column is None:
            path[_LAST_VISIT, number] = NEVER
        else:
            fields[number], scales[number] = column.fields, column.scales
            arrows = sequence.arrows.get(number)
            if arrows is not None and len(arrows):
                fields[number, [kernels.ARROWS, kernels.ARROW_COUNT]] = address(arrows), len(arrows)
    order = np.array([number for number in sequence.order if columns[number] is not None], dtype=np.int32)
    rows, bitmaps = np.empty(events, dtype=np.int64), np.empty((events, words), dtype=np.uint64)
    counted, figures = np.zeros(0, dtype=np.int32) if counts is None else counts, np.zeros(2, dtype=np.int64)
    found = kernels.evaluate(fields, scales, order, usage, 0, events, path, rows, bitmaps, counted, figures)
    return Evaluation(rows[:found], bitmaps[:found], int(figures[0]), int(figures[1]), counted)


def evaluate_regions(constructs: Constructs, regions: NDArray[np.int32], sequence: Sequence) -> Evaluation:
    """Evaluates events by the regions of their values, to the letter of the paper: every construct on an event's way counts.

    Args:
        constructs: of the stream.
        regions: int32 (constructs, events), rows of `Constructs.tables`.
        sequence: of these constructs.
    """
    columns, words = [], chunked(constructs.items.shape[0])
    every = np.zeros((len(constructs) + 1, words), dtype=np.uint64)
    every[:, : len(constructs.items)] = constructs.items
    for number, table in enumerate(constructs.tables):
        padded = np.zeros((len(table), words), dtype=np.uint64)
        padded[:, : table.shape[1]] = table
        own, itself = np.ascontiguousarray(regions[number]), np.arange(len(table), dtype=np.int32)
        fields = np.zeros(kernels.FIELDS, dtype=np.int64)
        fields[[kernels.FORM, kernels.COLUMN, kernels.LOOKUP, kernels.TABLE]] = (
            kernels.CODES,
            address(own),
            address(itself),
            address(padded),
        )
        columns.append(PreparedColumn(fields, np.zeros(4), (own, itself, padded)))
    events = regions.shape[1]
    return evaluate_columns(columns, every, sequence, events, constructs.items.shape[0], counts=np.zeros(events, dtype=np.int32))


def chunked(words: int) -> int:
    """Words of bitmaps that are evaluated `kernels.CHUNK` at a time.

    >>> chunked(1), chunked(4), chunked(5)
    (4, 4, 8)
    """
    return -(-words // kernels.CHUNK) * kernels.CHUNK
