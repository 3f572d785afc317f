"""Columns of matches take memory that earlier ones have left, and never memory that somebody still reads."""

from __future__ import annotations

import numpy as np

from app.events import pages
from app.events.pages import Pages

LARGE = pages.SMALL


def place(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_what_nobody_holds_is_used_again() -> None:
    own = Pages()
    first = own.empty(2, LARGE)
    was, shape = place(first), first.shape
    del first
    assert shape == (2, LARGE)
    assert own.free >= 2 * LARGE
    assert place(own.empty(LARGE, 2)) == was


def test_a_slice_of_it_keeps_the_block() -> None:
    own = Pages()
    first = own.empty(2, LARGE)
    first[:] = 7
    column = first[1][3:5]
    del first
    assert own.free == 0
    other = own.empty(2, LARGE)
    other[:] = 8
    assert column.tolist() == [7, 7]
    del column
    assert own.free >= 2 * LARGE


def test_another_view_of_its_bytes_keeps_it_too() -> None:
    own = Pages()
    floats = own.empty(LARGE).view(np.float64)
    octets = memoryview(floats)
    del floats
    assert own.free == 0
    octets.release()
    assert own.free >= LARGE


def test_little_is_not_kept() -> None:
    own = Pages()
    del_me = own.empty(LARGE - 1)
    del del_me
    assert own.free == 0


def test_a_block_that_is_far_too_large_is_not_taken() -> None:
    own = Pages()
    large = own.empty(8 * LARGE)
    was = place(large)
    del large
    assert place(own.empty(LARGE)) != was


def test_a_burst_leaves_nothing_behind() -> None:
    own = Pages()
    many = [own.empty(LARGE) for _ in range(3 * pages.MOST_FREE)]
    del many
    assert own.free <= pages.MOST_FREE * 2 * LARGE
    for _ in range(pages.PATIENCE + 1):
        own.empty(1)
    assert own.free == 0
