"""What the watchdog knows of the run: rates, the last batch, the ratios that hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import log
from typing import Any

JUMP = 1.25
"""A rate that is so many times the known one, or less than the known one by that, is another one: waiting for the average to follow would cost the bound."""
MOST_MISSED = 0.5
"""As a logarithm: what takes much longer than foreseen stood still, and says nothing about other batches beyond that."""
CLEARLY_BEYOND = 0.2
"""An overload is clear where unshed batches would be too long by so much. With all of the room below that, loads that are just none lose 9 to 15 % of their events where batches scatter by 0.15, and 1 to 5 % with less of it."""
MOST_LATE_MS = 2000.0
"""The driver is held up no longer than that: behind a longer pause the source was silent."""
NEWEST = 0.3
"""Weight of the newest batch in running averages."""
SELDOM, FADING = 0.03, 0.003
"""The same of what differs much from batch to batch, and of what is to be remembered for some minutes."""
OUT, BACK = 3, 30
"""Decisions in a row after which a bound is out of reach: the first batch of a process takes seconds. And is back in it: next to the border the pace of the machine, a median of 15 batches, says otherwise some dozen times a minute, and a bound is kept again when two such medians have nothing in common."""


@dataclass(slots=True)
class Running:
    """Averages and the last batch; everything here goes through `Watchdog.snapshot`.

    Attributes:
        ratios: of the batch that was planned last.
        steady: the same without what only that batch needed: the next ratios follow these.
        aimed: the same before they were put in steps.
        strain: what was foreseen at the steady ratios, as a multiple of what a batch may take, on average.
        late_ms: by how much later the batch before was begun than its records were chosen: these are in the next one.
        beyond: queries whose bounds cannot be kept, by the last decision.
        out_of_reach: the same as far as it has held; for people.
        otherwise: by query, decisions in a row that said otherwise than that.
        margins: by bound (ms, as text), what of it is kept free; see `app.control.law.lateness`.
        planned: the batch that was planned last.
        expected_ms: what that one was to take; 0 where nothing is known.
        expected_before_ms: what the one before it was: its report may come when the next one is planned already.
        missed: by how much batches take longer or shorter than they were to, as a logarithm, on average.
        overload: by bound (ms, as text), how clear one there is; see `learn_overload`.
        settled: decisions in a row at which what holds was about right; see `app.control.law.settling`.
    """

    rates: dict[str, float] = field(default_factory=dict)
    offset_ms: float = 0.0
    remaining: float = 0.0
    last_batch: int = -1
    last_planned_ms: int = 0
    last_duration_ms: float = 0.0
    last_arrived: dict[str, int] = field(default_factory=dict)
    begun_at_ms: int = 0
    lag_ms: float = 0.0
    behind: list[str] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)
    steady: dict[str, float] = field(default_factory=dict)
    aimed: dict[str, float] = field(default_factory=dict)
    strain: float = 1.0
    late_ms: float = 0.0
    beyond: list[str] = field(default_factory=list)
    margins: dict[str, float] = field(default_factory=dict)
    planned: int = -1
    expected_ms: float = 0.0
    expected_before_ms: float = 0.0
    missed: float = 0.0
    overload: dict[str, float] = field(default_factory=dict)
    settled: int = 0
    out_of_reach: list[str] = field(default_factory=list)
    otherwise: dict[str, int] = field(default_factory=dict)

    @property
    def in_reach(self) -> bool:
        """Whether all bounds can be kept."""
        return not self.beyond

    def learn_rate(self, stream: str, newest: float) -> None:
        """Takes a stream's rate into account, records per ms."""
        known = self.rates.get(stream)
        jumps = known is None or newest > JUMP * known or newest < known / JUMP
        self.rates[stream] = newest if jumps or known is None else smoothed(known, newest)

    def learn_missed(self, batch: int, duration_ms: float) -> None:
        """Compares a batch with what it was to take, if that is known."""
        expected_ms = {self.planned: self.expected_ms, self.planned - 1: self.expected_before_ms}.get(batch, 0.0)
        if min(duration_ms, expected_ms) > 0:
            self.missed = smoothed(self.missed, min(MOST_MISSED, abs(log(duration_ms / expected_ms))), SELDOM)

    def learn_reach(self, beyond: Collection[str]) -> None:
        """Takes into account whose bounds a decision cannot keep; what is told of it changes when it has held for `OUT` or `BACK` decisions."""
        self.beyond = sorted(beyond)
        otherwise = {query: self.otherwise.get(query, 0) + 1 for query in sorted({*self.out_of_reach} ^ {*beyond})}
        changed = {query for query, times in otherwise.items() if times >= (BACK if query in self.out_of_reach else OUT)}
        self.out_of_reach = sorted({*self.out_of_reach} ^ changed)
        self.otherwise = {query: times for query, times in otherwise.items() if query not in changed}

    def plan(self, batch: int, at_ms: int) -> None:
        """A batch begins; what it is to take is not known yet."""
        follows = batch == self.planned + 1
        self.expected_before_ms = self.expected_ms if follows else 0.0
        self.begun_at_ms, self.planned, self.expected_ms = at_ms, batch, 0.0

    def learn_overload(self, bound_ms: int, beyond: float) -> float:
        """How clear an overload is, from 0 to 1: near to none no room is left for batches that take longer, since loads that nobody need shed for would lose by it.

        It rises at once and falls slowly: how long batches that shed nothing would be is known best when an overload begins. Later it is a guess, by what events cost of which the dearest are shed.

        Args:
            bound_ms: that is to be kept.
            beyond: by what share batches that shed nothing would be too long for it.
        """
        newest = min(1.0, max(0.0, beyond / CLEARLY_BEYOND))
        known = self.overload.get(str(bound_ms), newest)
        clear = smoothed(known, newest, NEWEST if newest > known else FADING)
        self.overload[str(bound_ms)] = clear
        return clear

    def learn_arrivals(self, arrived: Mapping[str, int], consumed: Mapping[str, int], period_ms: float) -> None:
        """Takes all streams into account, one that is silent now as well.

        Args:
            arrived: records since the beginning, of streams of which that is known.
            consumed: records of the batch.
            period_ms: since the batch before was planned.
        """
        for stream in sorted({*self.rates, *consumed, *arrived}):
            if stream not in arrived:
                self.learn_rate(stream, consumed.get(stream, 0) / period_ms)
            elif stream in self.last_arrived:
                self.learn_rate(stream, max(0, arrived[stream] - self.last_arrived[stream]) / period_ms)

    def learn_planned(self, planned: Mapping[str, float], since_ms: float) -> None:
        """A rise of the rate shows in what is planned, a batch before it shows in what Spark tells.

        Between choosing a batch's records and beginning it the driver may be held up (a garbage collection): then what came meanwhile is in the next batch, which begins the sooner, and is no rise.
        """
        for stream, count in planned.items():
            newest = count / (since_ms + self.late_ms)
            if newest > JUMP * self.rates.get(stream, 0.0):
                self.rates[stream] = newest
        rate = sum(self.rates.values())
        self.late_ms = min(MOST_LATE_MS, max(0.0, since_ms - sum(planned.values()) / rate)) if rate > 0 else 0.0


def remembered(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """What a snapshot says of it, but for what only another version knew: an earlier one, or a later one where somebody goes back."""
    return kind(**{name: value for name, value in values.items() if name in kind.__slots__})


def smoothed(average: float, newest: float, weight: float = NEWEST) -> float:
    """The average with a new value in it, which counts by its weight."""
    return (1 - weight) * average + weight * newest


def followed(average: float | None, newest: float) -> float:
    """The same, where there may be no average yet."""
    return newest if average is None else smoothed(average, newest)
