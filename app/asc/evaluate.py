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

from app.asc import arrays as at
from app.asc.attribute import PreparedColumn, address
from app.asc.constructs import Constructs
from app.asc.kernels_evaluate import evaluate, evaluate_hybrid
from app.asc.kernels_lists import list_items
from app.asc.lists import ListOrder
from app.asc.sequence import Sequence
from app.events.pages import PAGES

BLOCK_BYTES, BLOCK_EVENTS = 1 << 17, 2048
"""Bitmaps of a block, and the values of many columns, stay in the second-level cache while all constructs pass over them."""

WORDS_PER_ENTRY = 4
"""What an entry of a list costs in words of a bitmap (10 ns), here and in the dispatch to queries."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """What an evaluation by lists found, and what it cost.

    Attributes:
        rows: int32 (entries,), events, ascending.
        bits: int32 (entries,), a bit that the event's result bitmap would have.
        evaluated: constructs that were evaluated, over all events.
    """

    rows: NDArray[np.int32]
    bits: NDArray[np.int32]
    evaluated: int


def evaluate_columns(
    columns: List[PreparedColumn | None],
    usage: NDArray[np.uint64],
    sequence: Sequence,
    events: int,
    counts: NDArray[np.int32] | None = None,
) -> Evaluation:
    """Evaluates the columns of a batch.

    Args:
        columns: per construct; None for one that can fail no item in this batch.
        usage: uint64 (constructs + 1, words): items by construct that uses them; last row: all items.
        sequence: of these constructs.
        events: of the batch.
        counts: int32 (events,), zeroed, to be filled; None when nobody asks.

    Raises:
        ValueError: the sequence is one of other constructs.
    """
    if not sequence.fits(len(columns)):
        raise ValueError(f"a sequence of {len(sequence.order)} constructs for {len(columns)}")
    constructs, words = usage.shape[0] - 1, usage.shape[1]
    fields, scales = _as_tables(columns)
    size = max(64, min(events, BLOCK_EVENTS, BLOCK_BYTES // (8 * words)))
    visited = np.zeros((size + 1, -(-constructs // 64)), dtype=np.uint64)
    for number, column in enumerate(columns):
        arrows = sequence.arrows.get(number)
        if column is None:
            visited[-1, number // 64] |= np.uint64(1 << number % 64)
        elif arrows is not None and len(arrows):
            fields[number, [at.ARROWS, at.ARROW_COUNT]] = address(arrows), len(arrows)
    order = np.array([number for number in sequence.order if columns[number] is not None], dtype=np.int32)
    hybrid = bool(fields[:, at.ARROW_COUNT].any())
    rows, bitmaps = PAGES.empty(events), PAGES.empty(events, words).view(np.uint64)
    counted, figures = np.zeros(0, dtype=np.int32) if counts is None else counts, np.zeros(2 + constructs, dtype=np.int64)
    whole = max(size, min(events, BLOCK_EVENTS))
    scratch, block = np.empty((at.SCRATCH, whole), dtype=np.int32), np.empty((size, words), dtype=np.uint64)
    every, places = np.empty((len(order), whole), np.int32), np.empty(len(order), np.int64)
    starts = np.empty(constructs + 1, dtype=np.int64)
    asked = (fields, scales, order, usage, events, scratch, block)
    found = (
        evaluate_hybrid(*asked, visited, starts, rows, bitmaps, counted, figures)
        if hybrid and len(order)
        else evaluate(*asked[:-1], every, places, block, rows, bitmaps, counted, figures)
    )
    return Evaluation(rows[:found], bitmaps[:found], int(figures[0]), int(figures[1]), counted)


def _as_tables(columns: List[PreparedColumn | None]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Fields and scales of all constructs, zero for those that can fail no item."""
    fields = np.zeros((len(columns), at.FIELDS), dtype=np.int64)
    scales = np.zeros((len(columns), at.SCALES), dtype=np.float64)
    for number, column in enumerate(columns):
        if column is not None:
            fields[number], scales[number] = column.fields, column.scales
    return fields, scales


def list_columns(columns: List[PreparedColumn | None], usage: NDArray[np.uint64], order: ListOrder, events: int) -> Listing | None:
    """Evaluates the columns of a batch by lists.

    Args:
        columns: see `evaluate_columns`.
        usage: see there.
        order: of those that are not None.
        events: of the batch.

    Returns:
        None where the lists are too long for these events.
    """
    share = order.lists.longest
    fields, scales = _as_tables(columns)
    if order.ranges is not None:
        fields[order.constructs[1], [at.LOWS, at.HIGHS]] = [address(numbers) for numbers in order.ranges]
    rows, bits = np.empty((2, share * events + at.ROOM), dtype=np.int32)
    scratch = np.empty((at.SCRATCH, min(max(events, 1), BLOCK_EVENTS)), dtype=np.int32)
    figures = np.zeros(1, dtype=np.int64)
    asked = (fields, scales, np.array(order.constructs, dtype=np.int32), usage, events, order.lists.bounds, order.lists.bits, scratch)
    found = list_items(*asked, share, rows, bits, figures)
    return None if found == at.GIVEN_UP else Listing(rows[:found], bits[:found], int(figures[0]))


def longest_lists(words: int) -> int:
    """How many items a list may have, on average, for lists to be faster than bitmaps of so many words; 0: never."""
    return words // WORDS_PER_ENTRY


def evaluate_regions(constructs: Constructs, regions: NDArray[np.int32], sequence: Sequence) -> Evaluation:
    """Evaluates events by the regions of their values, to the letter of the paper: every construct on an event's way counts.

    Args:
        constructs: of the stream.
        regions: int32 (constructs, events), rows of `Constructs.tables`.
        sequence: of these constructs.
    """
    columns = []
    for number, table in enumerate(constructs.tables):
        own, itself = np.ascontiguousarray(regions[number]), np.arange(len(table), dtype=np.int32)
        fields = np.zeros(at.FIELDS, dtype=np.int64)
        fields[[at.FORM, at.COLUMN, at.LOOKUP, at.TABLE]] = at.CODES, address(own), address(itself), address(table)
        columns.append(PreparedColumn(fields, np.zeros(at.SCALES), (own, itself, table)))
    every = np.tile(constructs.items, (len(constructs) + 1, 1))
    events = regions.shape[1]
    return evaluate_columns(columns, every, sequence, events, np.zeros(events, dtype=np.int32))
