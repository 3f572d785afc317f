"""What a bench notes of the watchdog's beliefs."""

from __future__ import annotations

import json
from pathlib import Path

from app.config.settings import Watchdog as WatchdogSettings
from app.control.law.query_cost import QueryObservation
from app.control.law.watchdog import Watchdog
from app.control.law.watched import BatchObservation, PlannedBatch, WatchedQuery
from ops.bench.overload.beliefs import noted

WATCHED = (WatchedQuery("q", "random", 1000, streams=("s",)),)


def run(watchdog: Watchdog) -> None:
    for batch in range(3):
        watchdog.plan(PlannedBatch(batch, 1000 * (batch + 1), {"s": 10}))
        seen = {"q": QueryObservation(10, work_ms=5.0)}
        watchdog.observe(BatchObservation(batch, 1000 * (batch + 1), 100, {"s": 10 * batch}, 0, {"s": 10}, 10, 0, 950, seen))


def test_each_batch_is_noted_and_a_watchdog_can_go_on_from_what_it_knew(tmp_path: Path) -> None:
    own = Watchdog.plan
    with noted(tmp_path / "beliefs.jsonl"):
        run(Watchdog(WATCHED, WatchdogSettings(), 1000))
    assert Watchdog.plan is own
    lines = [json.loads(line) for line in (tmp_path / "beliefs.jsonl").read_text().splitlines()]
    assert [(line["batch"], "seen" in line) for line in lines] == [(batch, seen) for batch in range(3) for seen in (False, True)]
    assert lines[1]["seen"]["queries"]["q"]["work_ms"] == 5.0
    again = Watchdog(WATCHED, WatchdogSettings(), 1000)
    again.restore(lines[4]["known"])
    assert again.snapshot()["costs"] == lines[4]["known"]["costs"]


def test_who_asks_for_no_file_notes_nothing() -> None:
    own = Watchdog.plan
    with noted(None):
        assert Watchdog.plan is own
