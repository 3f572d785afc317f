"""Shed events that wait for the watermark are among what may wait for the control sample: with more, whole turns are forgotten."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from app.audit.sample import counted
from app.audit.verdicts import control_sample
from app.bucket.bucket import Bucket
from app.bucket.hold import TimeRules
from app.bucket.recording import match_sorted
from app.bucket.route import keys_of_matches
from app.events.batch import take
from tests.property.test_bucket_audit import PREVENTING, case_of, fed, looking, shedding

EVENTS, MOST = 12_000, 80


@pytest.mark.parametrize(("lateness_ms", "least"), [(100, 0.1), (1_000_000, 0.0)], ids=["some wait", "all wait until the end"])
def test_of_a_turn_of_which_shed_events_were_forgotten_nothing_is_told(
    lateness_ms: int, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What prevents matches is what is shed: where it was forgotten and its turn was not, more would seem to be true."""
    told, waiting = Counter[int](), list[int]()

    def noted(turns: NDArray[np.uint64], *rest: Any) -> NDArray[np.float64]:
        told.update(turns.tolist())
        return counted(turns, *rest)

    monkeypatch.setattr("app.bucket.beside.counted", noted)
    monkeypatch.setattr("app.bucket.beside.MOST_WAITING", MOST)
    chance = random.Random(4)
    lines = [{"type": chance.choice("ABC"), "time": at // 2, "k": chance.randrange(8), "v": 0} for at in range(EVENTS)]
    gone = [line["type"] == "B" for line in lines]
    case = case_of(f"name: q\n{PREVENTING['a negation in between']}\n", lines, chance.choices([0, 1], k=EVENTS), gone)
    assert case is not None
    _, look = looking(lambda: 1_000)

    def looked(bucket: Bucket) -> None:
        look(bucket)
        (group,) = bucket._groups.values()
        assert group.beside is not None
        assert not group.beside._waiting, "all that may be fed was"
        waiting.append(len(group.beside._early))

    steps = [[take(case.batch, np.arange(*cut))] for cut in pairwise(range(0, EVENTS + 1, 50))]
    rules, sampled = TimeRules(case.plan.streams[0], lateness_ms), replace(case.catalog, sample=1.0)
    list(fed(sampled, rules, steps, shedding(case.gone), 1, set(), look=looked))
    sample, true = control_sample(case.plan, 1.0), Counter[int]()
    assert sample is not None
    for one in match_sorted(case.catalog, case.batch).found:
        true.update(sample.turns(keys_of_matches(one.matches, case.catalog.groups[0]), one.matches.time).tolist())
    assert max(waiting) <= MOST
    assert not told - true
    assert least <= told.total() / true.total() < 0.5
