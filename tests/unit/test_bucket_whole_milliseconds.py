"""Durations that were divided or multiplied leave the application as whole milliseconds."""

from __future__ import annotations

import numpy as np

from app.bucket.values import plain_values
from app.events.batch import Column
from app.events.types import Kind


def test_fractions_of_milliseconds_are_rounded_half_away_from_zero() -> None:
    values = plain_values(Column(Kind.FLOAT, np.array([1.5, -2.5, 0.4, np.nan, np.inf])), Kind.DURATION)
    assert values == [2, -3, 0, None, None]
    assert all(isinstance(value, int) for value in values[:3])


def test_whole_times_stay_as_they_are() -> None:
    assert plain_values(Column(Kind.TIME, np.array([2**53 + 1, -5])), Kind.TIME) == [2**53 + 1, -5]
