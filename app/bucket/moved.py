"""Bits of held events, moved to where another catalog's layout has them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from app.asc.layout import ItemLayout

Bits = tuple[int, int, int]
"""Word, shift and number of a query's items in a result bitmap."""


def places_of(layout: ItemLayout) -> dict[tuple[str, str], Bits]:
    """By name and fingerprint where the items of a query are."""
    return dict(zip(layout.names, zip(layout.word, layout.shift, layout.items, strict=True), strict=True))


def moved_bits(bitmaps: NDArray[np.uint64], moves: Iterable[tuple[Bits, Bits]], words: int) -> NDArray[np.uint64]:
    """Bitmaps with the items of some queries where they now belong, and no others.

    Neighbours mostly move together, so that of 1,000 queries there are some dozen moves.

    Args:
        bitmaps: uint64 (events, words of before).
        moves: where the items of a query were, and where they are.
        words: of the new bitmaps.

    >>> moved_bits(np.array([[0b0111]], np.uint64), [((0, 1, 2), (1, 4, 2))], 2).tolist()
    [[0, 48]]
    """
    together: dict[Bits, int] = {}
    for (word, shift, items), (new_word, new_shift, _) in moves:
        way = (word, new_word, new_shift - shift)
        together[way] = together.get(way, 0) | ((1 << items) - 1) << shift
    moved = np.zeros((len(bitmaps), words), np.uint64)
    for (word, new_word, by), mask in together.items():
        bits = bitmaps[:, word] & np.uint64(mask)
        moved[:, new_word] |= bits << np.uint64(by) if by >= 0 else bits >> np.uint64(-by)
    return moved
