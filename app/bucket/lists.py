"""Matches picked, and lists of return fields (`Lists`) joined and picked, as columns are: no Python object per element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.bucket.chunk import compacted
from app.cep.matches import Constituents, Lists, Matches
from app.events.batch import Column, Dictionary, EventBatch, concatenate, take
from app.events.types import Kind


def joined_lists(parts: Sequence[Lists]) -> Lists:
    """The lists of all parts after each other."""
    if len(parts) == 1:
        return parts[0]
    values = concatenate([_as_batch(part.values) for part in parts]).columns["value"]
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    return Lists(values, starts_of(lengths))


def taken_lists(lists: Lists, rows: NDArray[np.integer]) -> Lists:
    """The lists of the given rows, with the texts that occur in them only."""
    starts, elements = ragged_rows(lists.starts, rows)
    return Lists(compacted(take(_as_batch(lists.values), elements).columns["value"]), starts)


def some_of(matches: Matches, rows: NDArray[np.integer]) -> Matches:
    """Some of the matches, in the order given.

    Args:
        matches: any.
        rows: int64 (matches,), which.
    """
    varying = matches.varying
    if varying is not None:
        starts, places = ragged_rows(varying.starts, rows)
        varying = Constituents(starts, varying.items[places], varying.rows[places])
    return Matches(
        matches.time[rows],
        matches.rows[rows],
        matches.events,
        {name: taken_lists(field, rows) if isinstance(field, Lists) else _picked(field, rows) for name, field in matches.fields.items()},
        {name: _picked(column, rows) for name, column in matches.key.items()},
        varying,
        None if matches.windows is None else matches.windows[rows],
    )


def starts_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where lists of these lengths begin, and where the last one ends.

    >>> starts_of(np.array([2, 0, 1])).tolist()
    [0, 2, 2, 3]
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def ragged_rows(starts: NDArray[np.int64], rows: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the lists of some rows begin when they stand alone, and the places of their elements in the whole.

    >>> [part.tolist() for part in ragged_rows(np.array([0, 2, 2, 5]), np.array([2, 0]))]
    [[0, 3, 5], [2, 3, 4, 0, 1]]
    """
    lengths = starts[1:][rows] - starts[:-1][rows]
    own = starts_of(lengths)
    elements = np.arange(own[-1]) + np.repeat(starts[:-1][rows] - own[:-1], lengths)
    return own, elements


def _picked(column: Column, rows: NDArray[np.integer]) -> Column:
    return Column(column.kind, column.values[rows], None if column.state is None else column.state[rows], column.dictionary)


def _as_batch(values: Column) -> EventBatch:
    zeros = np.zeros(len(values.values), dtype=np.int64)
    nameless = Column(Kind.STRING, zeros.astype(np.int32), None, Dictionary.of([b""]))
    return EventBatch(zeros, zeros, zeros, nameless, {"value": values})
