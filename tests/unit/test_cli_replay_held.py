"""`cep replay` of files in parts: what policies, windows and ranks may tell late waits for the end, and the order is that of all events in memory."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import get_type_hints

import pytest

from app.cli.replay.replay import replay
from app.files.gathering import gather

SMALL = {
    "app.bucket.in_order.SLICE": 1,
    "app.cli.replay.held.WORTH_WRITING": 1,
    "app.files.opened.BLOCK_BYTES": 60,
    "app.cli.inputs.events.gather": functools.partial(gather, held_bytes=0),
}
CHOSEN = """
0 A 1 9
0 A 4 9
1 A 1 1
2 B 1 5
10 A 2 0
11 B 2 1
12 B 2 2
20 C 3 0
30 C 3 0
"""
"""Time, type, key, value. The first A waits for a greater B until its window is over, and so does what began later in its partition."""
QUERIES = {
    "after": 'event: "SEQ(A a, B b)"\nwhere: "[k] AND b.v > a.v"\nwithin: 100 ms\nstrategy: skip-till-next-match\nafter: skip-past-last-event\n',
    "after, of runs": 'event: "SEQ(A a, OR(B b, C c))"\nwhere: "[k] AND b.v > a.v"\nwithin: 100 ms\nstrategy: skip-till-next-match\nafter: skip-past-last-event\n',
    "longest": 'event: "SEQ(A a, B b{1,2})"\nwhere: "[k] AND b.v > a.v"\nwithin: 100 ms\nstrategy: skip-till-next-match\nemit: longest\n',
    "a window of events": 'event: "SEQ(A a, !(C c))"\nwhere: "[k]"\nwindow: {size: 3 events, slide: 3 events, per: partition}\n',
    "within in events": 'event: "SEQ(A a, B b, !(C c))"\nwhere: "[k]"\nwithin: 3 events\n',
    "timeouts of events": 'event: "SEQ(A a, B b, B c)"\nwhere: "[k]"\nwithin: 3 events\non_timeout: emit\n',
}


def written(folder: Path, query: str, *, in_memory: bool) -> list[dict]:
    """What the command writes; with ``--stats`` it holds all events."""
    (folder / "q.yaml").write_text(f"name: q\n{query}", encoding="utf-8")
    rows = [line.split() for line in CHOSEN.split("\n") if line]
    lines = [{"type": kind, "time": int(time), "k": int(k), "v": int(v)} for time, kind, k, v in rows]
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    stats = folder / "stats.json" if in_memory else None
    replay(queries=[folder / "q.yaml"], events=[folder / "events.jsonl"], out=folder / "out.jsonl", stats=stats)
    return [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for target, value in SMALL.items():
        monkeypatch.setattr(target, value)
    return monkeypatch


@pytest.mark.parametrize("name", QUERIES)
def test_matches_that_may_be_told_late_wait_for_the_end(name: str, tmp_path: Path, in_small_parts: pytest.MonkeyPatch) -> None:
    expected = written(tmp_path, QUERIES[name], in_memory=True)
    assert [one["time"] for one in expected] == sorted(one["time"] for one in expected)
    assert len(expected) > 1
    assert written(tmp_path, QUERIES[name], in_memory=False) == expected
    # if they did not, a later one would be written first
    in_small_parts.setattr("app.cli.replay.held.tells_at_once", lambda _: True)
    assert written(tmp_path, QUERIES[name], in_memory=False) != expected


def test_options_that_hold_all_events_in_memory_say_so() -> None:
    hints = get_type_hints(replay, include_extras=True)
    told = {name for name, one in hints.items() if name != "return" and "all events" in one.__metadata__[0].help}
    assert told == {"config", "stats", "repeat", "shedder", "identities"}
