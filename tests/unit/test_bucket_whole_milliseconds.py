"""Durations that were divided or multiplied leave the application as whole milliseconds."""

from __future__ import annotations

import numpy as np

from app.bucket.values import plain_values, rounded
from app.events.batch import Column
from app.events.types import Kind


def test_fractions_of_milliseconds_are_rounded_half_away_from_zero() -> None:
    values = plain_values(Column(Kind.FLOAT, np.array([1.5, -2.5, 0.4, np.nan, np.inf])), Kind.DURATION)
    assert values == [2, -3, 0, None, None]
    assert all(isinstance(value, int) for value in values[:3])


def test_whole_times_stay_as_they_are() -> None:
    assert plain_values(Column(Kind.TIME, np.array([2**53 + 1, -5])), Kind.TIME) == [2**53 + 1, -5]


def test_numbers_that_are_whole_already_stay_up_to_two_to_the_53rd() -> None:
    """A half added to an odd one of them is rounded to the next even one."""
    whole = np.array([2.0**52 + 1, -(2.0**52) - 1, 2.0**53 - 1, 1.5 * 2.0**52 + 1, 0.0])
    assert rounded(whole).tolist() == whole.tolist()
    assert plain_values(Column(Kind.FLOAT, whole), Kind.DURATION) == [int(value) for value in whole]


def test_what_is_less_than_a_half_becomes_zero() -> None:
    less = np.nextafter(0.5, 0)
    assert plain_values(Column(Kind.FLOAT, np.array([less, -less])), Kind.DURATION) == [0, 0]
    assert rounded(np.array([np.inf, -np.inf])).tolist() == [np.inf, -np.inf]
