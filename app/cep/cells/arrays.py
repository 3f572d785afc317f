"""What all rooms know of an event's cells: columns that every event has, packed states, candidates of a chunk; and what programs read and write.

An event is a row of int64: floats as their bits, texts as their number, behind the cells words with the states of the cells.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

NEVER = -(2**63)
FOREVER = 2**63 - 1

STATES_PER_WORD = 31
"""Cell states packed into one int64: two bits each, the sign bit stays free."""
ALL_ABSENT = int("10" * STATES_PER_WORD, 2)
"""A word of states that are all ABSENT."""
BECAME_FLOAT = 3
"""State of a cell of an integer column whose value left 64 bit and is a float."""

CELL_TIME, CELL_SOURCE, CELL_OFFSET, CELL_TYPE, FIRST_ATTRIBUTE = 0, 1, 2, 3, 4
"""Columns of the cell table that every event has."""

OUTSIDE = -1
"""Hash of a candidate that lacks an equivalence attribute: it belongs to no partition (and agrees with every value)."""


class Programs(NamedTuple):
    """All programs of a plan.

    Attributes:
        code: int64 (instructions, 4), see `app.cep.predicates.opcodes`.
        constants: int64 (constants, 2): tag and value (floats as their bits, texts as their number).
    """

    code: NDArray[np.int64]
    constants: NDArray[np.int64]


class Texts(NamedTuple):
    """The distinct texts that cells stand for (read side of `app.cep.cells.texts.TextTable`).

    Attributes:
        data: uint8 (bytes,).
        offsets: int64 (entries + 1,) or longer.
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]


class Scratch(NamedTuple):
    """The machine's stack.

    Attributes:
        tags: int64 (depth,).
        values: int64 (depth,); floats as their bits.
    """

    tags: NDArray[np.int64]
    values: NDArray[np.int64]


def machine_scratch(instructions: int) -> Scratch:
    """A stack that no program of so many instructions overflows."""
    tags, values = np.zeros((2, instructions + 2), np.int64)
    return Scratch(tags, values)


class Candidates(NamedTuple):
    """Candidate events of a chunk in processing order.

    Attributes:
        masks: int64 (candidates,), bit i: may be item i.
        hashes: int64 (candidates,), of the partition key, or OUTSIDE.
        cells: int64 (candidates, width).
    """

    masks: Integers
    hashes: Integers
    cells: Integers


def signed(mask: int) -> int:
    """64 bits as the number that an int64 holds."""
    return mask - (1 << 64) if mask >= 1 << 63 else mask


def as_input(values: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """A contiguous, read-only view for a kernel's read-only argument (a copy if it must be).

    A writable array would do, but it does not match the signature exactly, and then a call costs 20 µs more.
    """
    whole = np.ascontiguousarray(values, dtype)
    view = whole.view()
    view.flags.writeable = False
    return view
