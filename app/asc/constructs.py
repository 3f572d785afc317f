"""All attribute selection constructs of a stream as plain tables: what the search for an evaluation sequence looks at.

**Source:** Lee and Lee, JIIS 39(2) 2012, definition 1 and section 4.1. The bits are items (queries have several); columns of bitmaps
are 64-bit words.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from app.asc.regions import candidate_arrows


@dataclass(frozen=True, slots=True, eq=False)
class Constructs:
    """The constructs of a stream; a construct's number is its place.

    Attributes:
        attributes: their attributes' names.
        tables: per construct uint64 (regions, words), the bitmaps of its regions (``qrb``).
        usages: uint64 (constructs, words), the items that test the attribute (``qub``).
        items: uint64 (words,), all items: the global result bitmap before the first construct.
    """

    attributes: tuple[str, ...]
    tables: tuple[NDArray[np.uint64], ...]
    usages: NDArray[np.uint64]
    items: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.attributes)

    def candidates(self, number: int) -> NDArray[np.bool_]:
        """Bool (regions, constructs): where micro-arrows of a construct's regions may lead (``cab``)."""
        return candidate_arrows(self.tables[number], self.usages, number)

    def covered(self, numbers: tuple[int, ...]) -> NDArray[np.uint64]:
        """uint64 (words,): the items that some of these constructs test."""
        return np.bitwise_or.reduce(self.usages[list(numbers)], axis=0) if numbers else np.zeros_like(self.items)

    def covers(self, numbers: tuple[int, ...]) -> bool:
        """Whether these constructs are a cover set: they test every item that is tested at all."""
        return bool((self.covered(numbers) == self.covered(tuple(range(len(self))))).all())

    def fingerprint(self) -> str:
        """Equal for constructs among which the same numbers mean the same regions."""
        shapes = [(name, table.shape) for name, table in zip(self.attributes, self.tables, strict=True)]
        return sha256(repr(shapes).encode() + self.usages.tobytes()).hexdigest()[:16]
