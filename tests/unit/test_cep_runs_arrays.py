"""Addresses that are remembered are those that NumPy tells."""

from __future__ import annotations

import copy
import gc
from weakref import ref

import numpy as np

from app.cep.runs.arrays import Addresses


def told(arrays: list[np.ndarray]) -> list[int]:
    return [word for one in arrays for word in (one.ctypes.data, len(one), one.shape[1] if one.ndim == 2 else 1)]


def test_what_is_told_of_arrays_follows_those_that_are_others_than_the_last_time():
    random, addresses = np.random.default_rng(5), Addresses()
    arrays = [np.zeros((4, 2)), np.zeros(7), np.zeros(3, np.uint8)]
    for _ in range(200):
        number = int(random.integers(3))
        arrays[number] = arrays[number][:-1] if len(arrays[number]) > 1 and random.random() < 0.5 else np.zeros(int(random.integers(1, 9)))
        assert addresses.of(arrays).tolist() == told(arrays)
    assert addresses.of(arrays[:2]).tolist() == told(arrays[:2])


def test_what_was_told_stays_as_it_was():
    addresses, first, second = Addresses(), np.zeros(3), np.zeros(5)
    before = addresses.of([first])
    addresses.of([second])
    assert before.tolist() == told([first])


def test_no_array_is_kept_alive_and_an_address_that_is_used_again_is_asked_for():
    addresses, array = Addresses(), np.zeros(3)
    addresses.of([array])
    known = ref(array)
    del array
    gc.collect()
    assert known() is None
    other = np.zeros((3, 2))
    assert addresses.of([other]).tolist() == told([other])


def test_a_copy_does_not_believe_what_its_original_was_told():
    addresses, arrays = Addresses(), [np.zeros(3)]
    addresses.of(arrays)
    copied, copies = copy.deepcopy((addresses, arrays))
    assert copied.of(copies).tolist() == told(copies) != told(arrays)
