"""Live recall and precision over the last minutes."""

import numpy as np
import pytest

from app.audit.sample import GROUPS
from app.control.quality import PERIOD_MS, Quality
from app.control.reports import QueryTally

MINUTE = 60_000


def sample(found, left):
    """Composite events of the control sample, ten per random group, and as many of each as shedding would have left."""
    return np.array([[found] * GROUPS, [left] * GROUPS]).ravel().tolist()


def observed(quality, minute, left, *, shed):
    quality.observe(minute * MINUTE, {"q": QueryTally("q", matches=100)}, {"q": sample(10, left)}, ["q"] if shed else [])


def test_minutes_without_shedding_count_but_are_nothing_to_tell_of_alone():
    quality = Quality()
    observed(quality, 0, 10, shed=False)
    assert quality.estimates("q") == {}
    observed(quality, 1, 4, shed=True)
    known = quality.estimates("q")
    assert known["recall"].value == pytest.approx(0.7), "of all that was found in both minutes"
    assert known["precision"].value == 1.0
    observed(quality, 2 + PERIOD_MS // MINUTE, 10, shed=False)
    assert quality.estimates("q") == {}, "what was shed is too long ago"
