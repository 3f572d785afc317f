"""When partitions are settled that are looked at more often: each sample knows for itself whether anything was lost since its last time."""

from __future__ import annotations

from collections import deque

from app.audit.sample import Sample
from app.bucket.beside import Beside, _Early


class Settled:
    """Instead of `HeavyHitters`: notes whether anybody was to be heavy."""

    def __init__(self, every: int) -> None:
        self.every, self.asked, self.more = every, 0, []

    def choose_heavy(self, until_ms: int, *, more: bool) -> bool:
        self.asked += 1
        if self.asked % self.every:
            return False
        self.more.append(more)
        return True


def test_a_short_window_settles_nothing_for_a_long_one() -> None:
    short, long = Sample(0.01, 100), Sample(0.01, 60_000)
    heavy = {short: Settled(1), long: Settled(4)}
    beside = Beside.__new__(Beside)
    beside._words, beside._heavy = dict.fromkeys(heavy), heavy
    beside._loses = dict.fromkeys(heavy, False)
    beside._early, beside._waiting, beside._held, beside._seen_ms = _Early(), deque(), 0, 0
    for loses in (True, False, False, False, False, False, False, False):
        beside._choose_heavy(loses=loses)
    assert heavy[short].more == [True] + 7 * [False]
    assert heavy[long].more == [True, False], "lost in its first turn, and in its second nothing"
