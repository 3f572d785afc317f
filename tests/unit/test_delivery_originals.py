"""Originals are read as long as records come; who gets no answer is not waited for twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from app.delivery import originals
from app.delivery.originals import OriginalReader


class Record:
    """Of a topic partition with a record at every offset."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def error(self) -> None:
        return None

    def offset(self) -> int:
        return self._offset

    def __getattr__(self, name: str) -> Any:
        told = {"topic": "t", "partition": 0, "timestamp": (1, 5), "key": None, "value": b"v", "headers": None}
        return lambda: told[name]


class Slow:
    """A consumer whose broker is away at first, and then hands out a record in so many seconds."""

    def __init__(self, *_: Any) -> None:
        self.pause_s: float | None = None
        self._left: Iterator[int] = iter(())

    def assign(self, places: list[Any]) -> None:
        self._left = iter(range(places[0].offset, places[0].offset + 1000))

    def unassign(self) -> None:
        pass

    def poll(self, timeout_s: float) -> Record | None:
        time.sleep(timeout_s if self.pause_s is None else self.pause_s)
        return None if self.pause_s is None else Record(next(self._left))


def test_a_sweep_in_which_records_come_goes_on_though_the_broker_was_away_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals, "IMPATIENT_S", 0.5)
    monkeypatch.setattr(originals.KeptClient, "__call__", lambda _: slow)
    slow = Slow()
    reader = OriginalReader({}, timeout_s=1.0)
    assert [one.found for one in reader.read("t", 0, [3])] == [False]
    began_s = time.monotonic()
    assert [one.problem for one in reader.read("t", 0, [4])] == ["no answer in 0.5 s"]
    assert time.monotonic() - began_s < 1.0
    slow.pause_s = 0.03
    assert [one.found for one in reader.read("t", 0, range(10))] == [True] * 10
    assert [one.found for one in reader.read("t", 0, range(200))][-1] is False, "not for ever"
