"""The last hour that the console shows."""

from __future__ import annotations

import numpy as np
import pytest

from app.audit.estimates import Estimate
from app.control.messages.decision_reports import DecisionReport, Reason
from app.control.messages.reports import QueryTally
from app.control.shown.history import DECISIONS, LATELY, OF_QUERY, SLOT_MS, SLOTS, History, Noted, Ring, Standing
from app.observe.latency import LATENCY_BOUNDS_MS, interpolated_quantile

T0 = 1_800_000_000_000 // SLOT_MS * SLOT_MS


def noted(at_ms: int, tally: QueryTally | None = None, ratio: float = 0.0, consumed: int = 100) -> Noted:
    tallies = {} if tally is None else {tally.query: tally}
    return Noted(at_ms, 200.0, consumed, 0, 7, tallies, {"q": ratio} if ratio else {})


def standing() -> dict[str, Standing]:
    return {"q": Standing(500.0, 800.0, {"recall": Estimate(0.9, 0.8, 0.95)})}


def latencies(**of: int) -> tuple[int, ...]:
    """Composite events by bucket, ``b3=2``: two in the fourth."""
    return tuple(of.get(f"b{k}", 0) for k in range(len(LATENCY_BOUNDS_MS) + 1))


def test_a_slot_adds_its_batches_up_and_is_shown_when_it_is_over():
    history = History()
    for k in range(5):
        tally = QueryTally("q", candidates=100, shed=20, matches=3, latencies=latencies(b3=3), partial_matches=k)
        history.note(noted(T0 + k * 1000, tally, ratio=0.25), standing)
    assert not np.isfinite(history.query("q", T0 + 4999)["drop_ratio"]).any()
    history.note(noted(T0 + SLOT_MS), standing)
    shown = {name: float(values[-1]) for name, values in history.query("q", T0 + SLOT_MS).items()}
    assert shown["drop_ratio"] == 0.25
    assert shown["dropped"] == pytest.approx(0.2)
    assert shown["composite_events_per_s"] == 3.0
    assert (shown["arrivals_per_s"], shown["capacity_per_s"], shown["partial_matches"]) == (500.0, 800.0, 4.0)
    assert (shown["recall_lower"], shown["recall"], shown["recall_upper"]) == pytest.approx((0.8, 0.9, 0.95))
    assert 150 <= shown["latency_p50_ms"] <= shown["latency_p95_ms"] <= 200
    assert np.isnan(shown["precision"])
    whole = history.all(T0 + SLOT_MS)
    assert (whole["consumed_per_s"][-1], whole["batch_ms"][-1], whole["lag_records"][-1]) == (100.0, 200.0, 7.0)


def test_latencies_may_end_early():
    history = History()
    history.note(noted(T0, QueryTally("q", matches=2, latencies=(0, 2))), standing)
    history.note(noted(T0, QueryTally("q", matches=1, latencies=latencies(b1=1))), standing)
    assert history.latencies("q", T0)[0].tolist() == [0, 3, *[0] * (len(LATENCY_BOUNDS_MS) - 1)]
    history.note(noted(T0 + SLOT_MS, QueryTally("q", matches=1, latencies=(1,))), standing)
    assert history.latencies("q", T0 + SLOT_MS)[0].tolist()[:2] == [1, 3], "slots do not share their counts"


def test_a_batch_longer_than_a_slot_counts_for_the_time_that_it_took():
    history = History()
    for k in range(4):
        history.note(noted(T0 + k * 4 * SLOT_MS, consumed=2000), standing)
    assert history.all(T0 + 12 * SLOT_MS)["consumed_per_s"][-4] == 2000 / (4 * SLOT_MS / 1000)


def test_slots_without_a_batch_are_gaps_and_old_ones_leave():
    history = History()
    history.note(noted(T0), standing)
    history.note(noted(T0 + 3 * SLOT_MS), standing)
    values = history.all(T0 + 3 * SLOT_MS)["consumed_per_s"]
    assert np.isfinite(values).sum() == 1
    assert np.isfinite(values[-3])
    assert not np.isfinite(history.all(T0 + (SLOTS + 1) * SLOT_MS)["consumed_per_s"]).any()


def test_memory_is_constant():
    ring = Ring(OF_QUERY)
    size = ring._values.nbytes
    for slot in range(0, 5 * SLOTS, 3):
        ring.put(slot, {"recall": 0.5})
    assert ring._values.nbytes == size <= 42_000
    shown = ring.read(5 * SLOTS - 1)["recall"]
    assert np.isfinite(shown).sum() == SLOTS // 3


@pytest.mark.parametrize("slots", [[0, 1, 2], [0, 5, 700], [0, 719, 720, 721], [0, 2000, 2001]])
def test_a_ring_says_what_was_put(slots):
    ring = Ring(("x",))
    for slot in slots:
        ring.put(slot, {"x": float(slot + 1)})
    values = ring.read(slots[-1])["x"]
    expected = [slot + 1 if slot in slots else None for slot in range(slots[-1] - SLOTS + 1, slots[-1] + 1)]
    assert [None if np.isnan(value) else value for value in values.tolist()] == expected


def test_a_clock_that_goes_back_changes_nothing_that_was_written():
    ring = Ring(("x",))
    ring.put(10, {"x": 1.0})
    ring.put(8, {"x": 2.0})
    assert [value for value in ring.read(10)["x"].tolist() if not np.isnan(value)] == [1.0]


def test_a_clock_that_was_put_right_begins_anew_from_then_on():
    """A machine that starts a day ahead would show that day's figures as those of now, for a day."""
    ring, long_ago = Ring(("x",)), 10_000
    ring.put(long_ago - 5, {"x": 1.0})
    ring.put(long_ago + 17_280, {"x": 2.0})
    ring.put(long_ago, {"x": 3.0})
    assert ring.newest(long_ago) == {"x": 3.0}
    assert [value for value in ring.read(long_ago)["x"].tolist() if not np.isnan(value)] == [3.0]
    ring.put(long_ago + 1, {})
    assert ring.newest(long_ago + 1) == {"x": 3.0}


def test_now_is_the_last_minute():
    history = History()
    history.note(noted(T0, QueryTally("q", matches=1, latencies=latencies(b0=1), late=100)), standing)
    for k in range(1, LATELY + 3):
        history.note(noted(T0 + k * SLOT_MS, QueryTally("q", matches=1, latencies=latencies(b5=1), late=1)), standing)
    counts, late = history.latencies("q", T0 + (LATELY + 2) * SLOT_MS)
    assert counts[0] == 0, "more than a minute ago"
    assert (counts[5], late) == (LATELY + 1, LATELY + 1)
    counts, late = history.latencies("q", T0 + 10 * LATELY * SLOT_MS)
    assert (counts.sum(), late) == (0, 0)


def decided(number: int, query: str = "q", reason: Reason = "RATIO_CHANGED") -> DecisionReport:
    figures = {"latency_bound_ms": 100, "latency_ms": 1.0, "unshed_latency_ms": 2.0, "in_reach": True, "bottleneck": "FIXED"}
    ratios = {"shedder": "random", "drop_ratio": 0.5, "former_drop_ratio": 0.0, "arrivals_per_s": 1.0, "capacity_per_s": None, "backlog": 0}
    return DecisionReport(number, query, 1, number, reason, **figures, **ratios)


def test_the_last_decisions_are_remembered_newest_first():
    history = History()
    for number in range(DECISIONS + 5):
        history.decide([decided(number), decided(number, "gone")])
    assert [one.batch for one in history.decisions("q")] == list(range(DECISIONS + 4, 4, -1))
    for k in range(2):
        history.note(noted(T0 + k * SLOT_MS), standing)
    assert history.decisions("gone") == []
    assert len(history.decisions("q")) == DECISIONS


def test_since_when_a_query_sheds_is_told_as_long_as_it_does():
    history = History()
    history.decide([decided(0, reason="SHEDDING_BEGINS"), decided(0, "gone", "SHEDDING_BEGINS")])
    history.decide([decided(1), decided(1, "gone")])
    assert [one.batch for one in history.decisions("q")] == [1, 0]
    history.decide(decided(number) for number in range(2, DECISIONS + 5))
    assert [one.batch for one in history.decisions("q")] == [*range(DECISIONS + 4, 4, -1), 0]
    for k in range(2):
        history.note(noted(T0 + k * SLOT_MS), standing)
    assert history.decisions("gone") == []
    history.decide([decided(DECISIONS + 5, reason="SHEDDING_ENDS")])
    assert [one.batch for one in history.decisions("q")] == list(range(DECISIONS + 5, 5, -1))


def test_queries_that_are_gone_are_forgotten():
    history = History()
    for k in range(3):
        history.note(noted(T0 + k * SLOT_MS, QueryTally("q", matches=1, latencies=latencies(b0=1))), standing)
    history.note(noted(T0 + 3 * SLOT_MS), dict)
    assert not any(np.isfinite(values).any() for values in history.query("q", T0 + 4 * SLOT_MS).values())
    assert history.latencies("q", T0 + 4 * SLOT_MS)[0].sum() == 0


def test_quantiles_are_reckoned_as_prometheus_does():
    counts = np.zeros(len(LATENCY_BOUNDS_MS) + 1, np.int64)
    counts[-1] = 4
    assert interpolated_quantile(counts, 0.5) == LATENCY_BOUNDS_MS[-1]
    counts[:] = 0
    counts[2], counts[3] = 10, 10
    assert interpolated_quantile(counts, 0.25) == 125.0
    assert interpolated_quantile(counts, 0.95) == pytest.approx(195.0)
