"""Where more would have to be looked through than may be in a step, as many verdicts as there can be are given, and they are right."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from app.audit import verdicts
from app.audit.verdicts import Judge, Verdict
from app.bucket.hold import TimeRules
from app.bucket.recording import match_sorted
from tests.property.test_bucket_audit import case_of, fed, judged, letters, shedding
from tests.property.test_bucket_whole_language import identities

AUDITED = {
    "a negation": "event: SEQ(A a, !(B b), C c)\nwithin: 30 ms\nwhere: '[k]'",
    "the next match": "event: SEQ(A a, B b)\nwithin: 30 ms\nwhere: '[k]'\nstrategy: skip-till-next-match",
    "without partitions": "event: SEQ(A a, B b)\nwithin: 30 ms\nstrategy: skip-till-next-match",
}


EVENTS = 200
ENOUGH = 12
"""Events that are asked about, fewer are no budget to be divided."""


@pytest.fixture
def asked(monkeypatch) -> list[int]:
    """How many events each question was about; nobody searches for what refutes."""
    counts: list[int] = []
    made = Judge.__init__

    def counting(self: Judge, plan: Any, own: Any, reach_ms: Any, keys_of: Any, rematch: Any, *more: Any) -> None:
        def counted(batch: Any, bitmap: Any) -> Any:
            counts.append(len(batch))
            return rematch(batch, bitmap)

        made(self, plan, own, reach_ms, keys_of, counted, *more)

    monkeypatch.setattr(Judge, "__init__", counting)
    monkeypatch.setattr(verdicts, "MOST_SEARCHED", 0)
    return counts


def told(text: str, seed: int) -> tuple[list[tuple[str, Verdict]], set[str]]:
    """What is said of what a query finds in one step, and what is true."""
    chance = random.Random(seed)
    gone = chance.choices([True, False, False], k=EVENTS)
    case = case_of(f"name: q\n{text}\n", letters(chance, EVENTS, 2, 5), [0] * EVENTS, gone)
    assert case is not None
    truth = {key[2] for key in identities(case.catalog, match_sorted(case.catalog, case.batch).found)}
    found = fed(case.catalog, TimeRules(case.plan.streams[0], 1_000_000), [[case.batch]], shedding(case.gone), 1, set())
    return [(name, verdict) for _, name, verdict, _ in judged(case.catalog, found)], truth


@pytest.mark.parametrize("text", AUDITED.values(), ids=AUDITED)
@pytest.mark.parametrize("share", [2, 4])
def test_a_budget_is_spent_on_as_many_matches_as_it_is_enough_for(text: str, share: int, asked, monkeypatch) -> None:
    said: Counter[Verdict] = Counter()
    for seed in range(8):
        whole, _ = told(text, seed)
        if (all_of_them := max(asked, default=0)) < ENOUGH:
            continue
        asked.clear()
        with monkeypatch.context() as patched:
            patched.setattr(verdicts, "MOST_EVENTS", all_of_them // share)
            some, truth = told(text, seed)
        assert max(asked, default=0) <= all_of_them // share
        for (name, verdict), (same, without_limit) in zip(some, whole, strict=True):
            assert name == same
            assert verdict in {without_limit, Verdict.UNVERIFIABLE}
            assert verdict is not Verdict.CONFIRMED or name in truth
            assert verdict is not Verdict.FALSE_POSITIVE or name not in truth
        said.update(verdict for _, verdict in some)
        asked.clear()
    assert said[Verdict.UNVERIFIABLE] > 0, "not all of them"
    assert said[Verdict.CONFIRMED] + said[Verdict.FALSE_POSITIVE] > 0, "some of them"
