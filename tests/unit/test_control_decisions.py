"""Which decisions of the watchdog are told: in virtual time, against the ratios of every batch."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import fastavro
import pytest

from app.control.law.decisions import SETTLED, Decisions, Told, changed
from app.control.law.watched import WatchedQuery
from app.control.messages.decision_reports import DecisionReport
from app.query.plan import Plan, Shedding
from tests.unit.control_plant import STREAM, Plant, a_watchdog, at_capacity

BOUND = 2_000
PLAN = Plan("q", 3, "", (), 1.0, (STREAM,), (), (), (), None, (), (), shedding=Shedding("random", latency_bound_ms=BOUND))
SCHEMA = fastavro.parse_schema(json.loads((Path(__file__).parents[2] / "schemas" / "WatchdogDecision.avsc").read_text()))


class Teller:
    """Asks after every plan, as the control plane does."""

    def __init__(self, watchdog) -> None:
        self.watchdog, self.decisions, self.told = watchdog, Decisions(), []

    def __getattr__(self, name):
        return getattr(self.watchdog, name)

    def plan(self, planned) -> None:
        self.watchdog.plan(planned)
        watchdog = self.watchdog
        self.told += self.decisions.reports(planned.batch, planned.at_ms, watchdog.forecast, watchdog.ratios, {"q": PLAN})


def overloaded(times: float, seconds: float = 60) -> tuple[Teller, Plant]:
    teller = Teller(a_watchdog(WatchedQuery("q", "random", BOUND, streams=(STREAM,))))
    plant = at_capacity(Plant(lambda _: 0.0, {"q": 0.06}), times)
    plant.run(teller, until_ms=1000 * seconds)
    return teller, plant


def test_a_steady_overload_is_told_when_it_begins_and_not_in_every_batch() -> None:
    teller, plant = overloaded(1.6)
    assert len(plant.ratios) > 40
    assert teller.told[0].reason == "SHEDDING_BEGINS"
    assert len(teller.told) <= 6, [one.reason for one in teller.told]
    plant.rate = lambda _: 0.1
    plant.run(teller, batches=30)
    assert teller.told[-1].reason == "SHEDDING_ENDS"
    assert (teller.told[-1].drop_ratio, teller.told[-1].former_drop_ratio > 0) == (0.0, True)


def test_what_is_told_is_what_was_decided() -> None:
    teller, plant = overloaded(1.6)
    teller.decisions = Decisions()  # who has told nothing tells what holds now
    plant.run(teller, batches=1)
    for one in teller.told:
        assert one.drop_ratio == plant.ratios[one.batch].get("q", 0.0)
        assert (one.latency_bound_ms, one.bottleneck, one.shedder, one.version) == (BOUND, "MATCHING", "random", 3)
    last = teller.told[-1]
    assert last.arrivals_per_s == pytest.approx(1000 * plant.rate(plant.now), rel=0.2)
    kept = 1 - plant.asked("q", 30_000).mean()
    assert last.capacity_per_s == pytest.approx(last.arrivals_per_s * kept, rel=0.2), (
        "the law: 1 - capacity / input, and a little for lumps"
    )
    assert last.backlog > 0
    assert last.unshed_latency_ms > last.latency_ms


def test_without_overload_nothing_is_told() -> None:
    assert not overloaded(0.4)[0].told


def test_who_goes_on_from_a_snapshot_tells_nothing_twice() -> None:
    teller, plant = overloaded(1.6)
    kept = Decisions()
    kept.restore(json.loads(json.dumps(teller.decisions.snapshot())))
    same = [{"batch": 99, "now_ms": 1, "forecast": teller.forecast, "ratios": plant.ratios[-1], "plans": {"q": PLAN}}]
    assert kept.reports(**same[0]) == teller.decisions.reports(**same[0]) == ()
    assert Decisions().reports(**same[0])[0].reason == "SHEDDING_BEGINS"


def test_bounds_that_leave_reach_and_a_bottleneck_that_stays_elsewhere_are_told_while_a_query_sheds() -> None:
    told = Told(0.5, in_reach=True, bottleneck="MATCHING")
    assert changed(told, replace(told, in_reach=False)) == "OUT_OF_REACH"
    assert changed(replace(told, in_reach=False), told) == "IN_REACH"
    assert changed(told, replace(told, drop_ratio=0.9, in_reach=False)) == "OUT_OF_REACH", "which matters more than the ratio"
    assert [changed(told, replace(told, elsewhere=times)) for times in (0, 1, SETTLED)] == [None, None, "BOTTLENECK_MOVED"]
    teller, plant = overloaded(1.6)
    forecast, before = replace(teller.forecast, bottleneck="ingress"), len(teller.told)
    for batch in range(2 * SETTLED):
        teller.told += teller.decisions.reports(batch, 0, forecast, plant.ratios[-1], {"q": PLAN})
    assert [(one.batch, one.reason, one.bottleneck) for one in teller.told[before:]] == [(SETTLED - 1, "BOTTLENECK_MOVED", "INGRESS")]


def test_events_that_go_as_well_as_partial_matches_are_told() -> None:
    """The ratio of partial matches hardly changes then: beyond 1 the watchdog's is of events."""
    teller, _ = overloaded(1.6)
    plans = {"q": replace(PLAN, shedding=Shedding("pspice", latency_bound_ms=BOUND, max_drop_ratio=0.99))}
    decisions = Decisions()
    told = [decisions.reports(batch, 0, teller.forecast, {"q": ratio}, plans) for batch, ratio in enumerate((0.95, 1.6, 1.65, 0.97))]
    assert [[(one.reason, one.drop_ratio, one.events_drop_ratio) for one in some] for some in told] == [
        [("SHEDDING_BEGINS", 0.95, 0.0)],
        [("RATIO_CHANGED", 0.99, 0.6)],
        [],
        [("RATIO_CHANGED", 0.97, 0.0)],
    ]


UNBOUND = replace(PLAN, shedding=Shedding("random"))


@pytest.mark.parametrize("plans", [{}, {"q": UNBOUND}], ids=["is gone", "has no bound any more"])
def test_of_a_query_that_is_gone_the_end_is_told_and_then_nothing(plans) -> None:
    teller, plant = overloaded(1.6)
    ratio = plant.ratios[-1]["q"]
    (told,) = teller.decisions.reports(99, 0, teller.forecast, {}, plans, {"q": PLAN})
    assert (told.reason, told.drop_ratio, told.query, told.version) == ("SHEDDING_ENDS", 0.0, "q", 3)
    assert told.former_drop_ratio == pytest.approx(ratio, abs=0.1)
    assert teller.decisions.snapshot() == {}
    assert teller.decisions.reports(100, 0, teller.forecast, {}, plans, plans) == ()


def test_a_bound_that_is_out_of_reach_is_told_though_nothing_is_shed() -> None:
    teller, _ = overloaded(0.4)
    beyond, plans = replace(teller.forecast, beyond=frozenset({"q"})), {"q": PLAN, "other": replace(PLAN, name="other")}
    decisions = Decisions()
    told = [decisions.reports(batch, 0, beyond, {}, plans) for batch in range(3)]
    assert [(one.batch, one.query, one.reason, one.in_reach, one.drop_ratio) for some in told for one in some] == [
        (0, "q", "OUT_OF_REACH", False, 0.0)
    ]
    kept = Decisions()
    kept.restore(json.loads(json.dumps(decisions.snapshot())))
    assert kept.reports(50, 0, beyond, {}, plans) == (), "it was told before the restart"
    back = [kept.reports(51 + batch, 0, teller.forecast, {}, plans) for batch in range(3)]
    assert [(one.batch, one.reason) for some in back for one in some] == [(51, "IN_REACH")]
    assert kept.snapshot() == {}


def test_next_to_the_border_a_bound_does_not_come_and_go_all_the_time() -> None:
    """Batches that take two thirds of what they may whatever is in them, on a machine whose pace moves: by the last decision alone the bound left reach or came back 13 times in these 100 s."""
    teller = Teller(a_watchdog(WatchedQuery("q", "random", BOUND, streams=(STREAM,))))
    plant = Plant(lambda _: 34.0, {"q": 0.03}, fixed_ms=660.0, noise=0.15, seed=2)
    plant.run(teller, until_ms=100_000)
    reach = [one.reason for one in teller.told if one.reason in {"OUT_OF_REACH", "IN_REACH"}]
    assert 0 < len(reach) <= 3
    assert plant.asked("q", 30_000).std() < 0.05, "nor does the ratio"


def test_a_neighbour_whose_bound_is_out_of_reach_says_nothing_of_one_that_is_kept() -> None:
    teller, plant = overloaded(1.6)
    plans = {"q": PLAN, "other": replace(PLAN, name="other")}
    told = Decisions().reports(7, 0, replace(teller.forecast, beyond=frozenset({"other"})), plant.ratios[-1], plans)
    assert [(one.query, one.reason, one.in_reach) for one in told] == [("other", "OUT_OF_REACH", False), ("q", "SHEDDING_BEGINS", True)]


def test_a_decision_is_a_record_of_its_schema_and_survives_the_directive() -> None:
    teller, _ = overloaded(1.6)
    for one in teller.told:
        assert DecisionReport.from_plain(json.loads(json.dumps(one.to_plain()))) == one
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, SCHEMA, one.to_avro())
        stream.seek(0)
        assert fastavro.schemaless_reader(stream, SCHEMA)["time"].timestamp() * 1000 == pytest.approx(one.decided_at_ms)
