"""The control plane through its public face, with a clock that is set by hand."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from structlog.testing import capture_logs

from app.config.settings import Logging, Settings
from app.control.arrivals.accounts import Breach
from app.control.audit_reports import shed_reports
from app.control.messages.directives import Directive, QueryShedding
from app.control.messages.reports import QueryTally, SelectionTally, SourceProgress, StageReport, Trouble
from app.control.messages.shed_reports import ShedReport
from app.control.messages.totals import BatchTotals, total
from app.control.plane import ControlPlane
from app.control.running_catalog import RunningCatalog
from app.control.selection import packed
from app.control.server.http import NotReadyError
from app.control.server.registry_watch import Notice
from app.events.batch import source_number
from app.events.types import Kind
from app.observe.logs import configure_logging
from app.query.plan import Catalog, ConstantTest, Item, Plan, Shedding, Within

T0 = 1_800_000_000_000
PART0, PART1 = (1 << 20), (1 << 20) | 1


def a_plan(name: str = "q", **shedding: Any) -> Plan:
    return Plan(
        name=name,
        version=2,
        title="t",
        labels=(("severity", "high"),),
        weight=1.0,
        streams=("retail",),
        items=(Item(0, "a", ("A",)),),
        equivalence=(),
        joins=(),
        within=Within(1000),
        returns=(),
        columns=(),
        shedding=Shedding(**shedding),
        fingerprint="f" * 16,
    )


class Clock:
    def __init__(self) -> None:
        self.now = T0

    def __call__(self) -> int:
        return self.now


class World:
    def __init__(self, folder: Path, waiting: int = 4) -> None:
        self.clock, self.waiting = Clock(), waiting
        self.settings = Settings.model_validate(
            {
                "streams": {"retail": {"topics": ["readings"], "idle_after": "5 s", "allowed_lateness": "1 s"}},
                "checkpoint": {"path": str(folder)},
                "http": {"host": "127.0.0.1", "port": 0},
                "watchdog": {"warm_up_batches": 0},
            }
        )
        self.plane = self.start()

    def start(self, **shedding: Any) -> ControlPlane:
        self.plane = ControlPlane(self.settings, {"version": "0.1.0", "spark": "4", "git": "g"}, self.clock)
        self.plane.open(RunningCatalog(Catalog.of((a_plan(**shedding),)), "deployment", {"s": 1}))
        return self.plane

    def run(
        self, batch: int, events: int, *more: StageReport, duration_ms: int = 400, arrived: int | None = None, end: int | None = None
    ) -> None:
        """One whole batch: directive, the reports of a task and an owner (and more of them) added up, progress."""
        directive = self.plane.directive(batch)
        shed = int(events * directive.drop_ratio("q"))
        last = self.clock.now - 10
        task = StageReport(
            batch,
            "ingress",
            0,
            sources=(SourceProgress(PART0, events, last, last - 90, last),) if events else (),
            queries=(QueryTally("q", events, shed),),
            counts={"consumed": events, "shed": shed, "matched": events - shed},
            cost_ns={"shed": 5_000_000} if shed else {},
        )
        tally = QueryTally("q", matches=2, latencies=(0, 2), latency_sum_ms=150, cost_ns=5_000 * (events - shed))
        owner = StageReport(batch, "cep", 0, queries=(tally,), waiting=self.waiting)
        self.plane.finish(total(batch, [task, owner, *more]))
        planned = self.clock.now
        self.clock.now += duration_ms
        end = end if end is not None else (batch + 1) * events
        self.plane.on_progress(
            {
                "batchId": batch,
                "runId": "r",
                "timestamp": iso(planned),
                "numInputRows": events,
                "durationMs": {"addBatch": duration_ms - 50, "triggerExecution": duration_ms},
                "sources": [
                    {
                        "startOffset": {"readings": {"0": end - events, "1": 0}, "cep.heartbeat": {"0": 0}},
                        "endOffset": {"readings": {"0": end, "1": 0}, "cep.heartbeat": {"0": 0}},
                        "latestOffset": {"readings": {"0": arrived if arrived is not None else end, "1": 0}, "cep.heartbeat": {"0": 0}},
                    }
                ],
            }
        )


def iso(time_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.plane.close()


def test_directive_carries_catalog_sources_and_greatest_times(world: World) -> None:
    world.plane.assign([("readings", 0), ("readings", 1), ("elsewhere", 0), ("cep.heartbeat", 0)])
    world.run(0, 100)
    directive = world.plane.directive(1)
    assert (directive.deployment, directive.schema_ids) == ("deployment", {"s": 1})
    assert directive.sources == (PART0, PART1)
    assert directive.greatest_times == {PART0: T0 - 10}
    assert directive.idle == ()


def test_a_topic_that_is_no_longer_read_drives_no_clock(world: World) -> None:
    """Its events may have been hours ahead: a stream would go on from there, and its own events were late until they caught up."""
    world.plane.assign([("readings", 0)])
    world.run(0, 100)
    inflow = world.plane._inflow
    gone = source_number(9, 0)
    snapshot = {"stream": {str(PART0): "retail", str(gone): "retail"}}
    inflow._idle.__init__({"retail": 5_000})
    inflow.restore(snapshot, (), {}, now_ms=T0, at_ms=T0)
    assert inflow._idle.sources == (PART0,)


@pytest.mark.parametrize("step_ms", [60_000, -3_600_000])
def test_silence_is_not_measured_by_a_clock_that_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_ms: int) -> None:
    world = World(tmp_path)
    world.plane.close()
    set_by = 0
    monkeypatch.setattr(time, "time_ns", lambda: (T0 + set_by) * 1_000_000)
    elapsed = 0
    monkeypatch.setattr(time, "monotonic_ns", lambda: elapsed * 1_000_000)
    world.plane = ControlPlane(world.settings, {"version": "0.1.0", "spark": "4", "git": "g"})
    world.plane.open(RunningCatalog(Catalog.of((a_plan(),)), "deployment", {"s": 1}))
    world.plane.assign([("readings", 0), ("readings", 1)])
    world.run(0, 100)
    set_by = step_ms
    assert world.plane.directive(1).idle == ()
    world.run(1, 100)
    elapsed = 5_000
    assert world.plane.directive(2).idle == (PART0, PART1), "whatever the clock says"
    world.plane.close()


def test_silent_partition_and_silent_stream_show_in_directives(world: World) -> None:
    world.plane.assign([("readings", 0), ("readings", 1)])
    world.run(0, 100, duration_ms=5_000)
    assert world.plane.directive(1).idle == (PART0, PART1)
    assert world.plane.directive(1).stream_times == {"retail": T0 - 10 + 5_000}


def test_partition_that_delivers_is_heard(world: World) -> None:
    world.plane.assign([("readings", 0), ("readings", 1)])
    world.run(0, 100)
    world.clock.now += 4_000
    world.run(1, 100, duration_ms=2_000)
    assert world.plane.directive(2).idle == (PART1,)


def test_nobody_is_idle_in_the_first_batch_of_a_run_however_long_the_start_took(world: World) -> None:
    world.plane.assign([("readings", 0), ("readings", 1)])
    world.clock.now += 60_000
    assert world.plane.directive(0).idle == ()


def test_partition_whose_records_waited_behind_a_slow_batch_is_not_idle(world: World) -> None:
    world.plane.open(RunningCatalog(Catalog.of((a_plan(),)), "deployment"), lambda batch: [("readings", 1)] if batch == 1 else [])
    world.plane.assign([("readings", 0), ("readings", 1)])
    world.run(0, 100, duration_ms=60_000)
    assert PART1 not in world.plane.directive(1).idle


def test_a_stream_that_wakes_waits_for_all_its_partitions(world: World) -> None:
    """Spark's first batch is empty when the topics are; what is sent long after it reaches the partitions one after the other."""
    speakers = {0: [], 1: [("readings", 0)], 2: [("readings", 1)]}
    world.plane.open(RunningCatalog(Catalog.of((a_plan(),)), "deployment"), speakers.get)
    world.plane.assign([("readings", 0), ("readings", 1)])
    world.run(0, 0)
    world.clock.now += 60_000
    assert world.plane.directive(1).idle == ()


def test_a_stream_that_speaks_again_does_not_fall_behind_where_the_clock_had_carried_it(world: World) -> None:
    world.plane.open(RunningCatalog(Catalog.of((a_plan(),)), "deployment"), {2: [("readings", 0)]}.get)
    world.plane.assign([("readings", 0), ("readings", 1)])
    world.run(0, 100, duration_ms=5_000)
    carried = world.plane.directive(1).stream_times["retail"]
    assert world.plane.directive(1).reached == {}, "the batch knows by itself"
    world.run(1, 0, duration_ms=100)
    directive = world.plane.directive(2)
    assert PART0 not in directive.idle
    assert directive.reached == {"retail": carried}


def test_restarted_driver_gives_the_same_directives_and_goes_on(world: World) -> None:
    world.run(0, 100)
    logged = world.plane.directive(1)
    world.plane.await_directive()
    world.plane.close()
    world.clock.now += 60_000
    world.start()
    assert world.plane.directive(1) == logged
    world.run(1, 100)
    assert world.plane.directive(2).greatest_times[PART0] >= logged.greatest_times[PART0]


def test_overload_raises_the_ratio_and_the_next_directive_reports_it(world: World) -> None:
    world.plane.close()
    world.start(shedder="random", latency_bound_ms=4_000)
    end = 0
    for batch in range(12):
        end += 400_000
        world.run(batch, 400_000, duration_ms=2_500, end=end, arrived=end + 500_000 * (batch + 1))
    last = world.plane.directive(12)
    assert last.drop_ratio("q") > 0
    (report,) = last.shed_reports
    asked = world.plane.directive(11).drop_ratio("q")
    assert (report.query, report.version, report.batch, report.asked_drop_ratio) == ("q", 2, 11, asked)
    assert report.realised_drop_ratio == pytest.approx(asked, abs=1e-5)
    assert report.cost_ms == 5.0
    assert world.plane.metrics.value("cep_events_shed_total", query="q", shedder="random") > 0  # type: ignore[operator]
    told = [decision for batch in range(13) for decision in world.plane.directive(batch).decisions]
    assert (told[0].reason, told[0].query, told[0].drop_ratio > 0) == ("SHEDDING_BEGINS", "q", True)
    assert len(told) < sum(world.plane.directive(batch).drop_ratio("q") > 0 for batch in range(13)), "not once per batch"
    world.plane.await_directive()
    (known,) = world.plane.queries()
    # A killed and restarted driver knows what was decided, and decides on by what was known.
    world.plane.close()
    world.start(shedder="random", latency_bound_ms=4_000)
    assert world.plane.directive(12) == last
    assert world.plane.queries()[0]["precision"] == known["precision"], "and what shedding has cost"
    assert world.plane.metrics.value("cep_shed_precision_estimate_ratio", query="q", bound="upper") == known["precision"][2]
    assert not world.plane.directive(13).decisions, "what was told is not told again"
    assert world.plane.directive(13).drop_ratio("q") == pytest.approx(last.drop_ratio("q"), abs=0.1)


def test_the_first_batch_of_a_burst_is_decided_by_the_records_that_are_planned_for_it(world: World) -> None:
    world.plane.close()
    world.start(shedder="random", latency_bound_ms=2_000)
    planned = {7: 200_000}
    ends = [20_000 * (batch + 1) for batch in range(7)]
    catalog = RunningCatalog(Catalog.of((a_plan(shedder="random", latency_bound_ms=2_000),)), "deployment", {})
    ranges = lambda batch: {("readings", 0): (ends[-1], ends[-1] + planned[batch])} if batch in planned else None  # noqa: E731
    world.plane.open(catalog, ranges=ranges)
    for batch, end in enumerate(ends):
        world.run(batch, 20_000, duration_ms=480, end=end)
        assert world.plane.directive(batch).drop_ratio("q") == 0
    assert world.plane.directive(7).drop_ratio("q") > 0.3
    assert world.plane.metrics.value("cep_predicted_unshed_latency_seconds") is not None


def test_what_a_batch_that_is_left_out_was_to_tell_the_next_one_tells(world: World) -> None:
    world.plane.close()
    world.start(shedder="random", latency_bound_ms=4_000)
    for batch in range(12):
        world.run(batch, 400_000, duration_ms=2_500, end=400_000 * (batch + 1), arrived=500_000 * (batch + 2))
        if world.plane.directive(batch + 1).decisions and world.plane.directive(batch + 1).shed_reports:
            break
    left_out = world.plane.directive(batch + 1)
    assert left_out.shed_reports
    assert left_out.decisions
    world.plane.finish(BatchTotals(batch + 1))  # as `cep checkpoint skip` does
    after = world.plane.directive(batch + 2)
    assert after.shed_reports == left_out.shed_reports
    assert after.decisions[: len(left_out.decisions)] == left_out.decisions


def test_metrics_of_a_batch(world: World) -> None:
    world.run(0, 100, arrived=130)
    value = world.plane.metrics.value
    assert value("cep_events_consumed_total", topic="readings") == 100
    assert value("cep_events_ended_total", outcome="matched") == 100
    assert value("cep_events_unaccounted_total") == 0
    assert value("cep_matches_emitted_total", query="q", severity="high") == 2
    assert value("cep_consumer_lag_records", topic="readings", partition="0") == 30
    assert value("cep_detection_latency_seconds_count", query="q") == 2
    assert value("cep_batch_duration_seconds_count", phase="total") == 1
    assert value("cep_watermark_delay_seconds", query="q") == pytest.approx((400 + 10) / 1000), "without the lateness that is allowed"
    assert value("cep_query_info", query="q", version="2", hash="f" * 12, status="running") == 1


def test_the_watermark_that_is_told_is_the_one_that_buckets_have(world: World) -> None:
    """A topic partition that was idle and speaks again with old events takes nothing back."""
    inflow, times = world.plane._inflow, {PART0: T0, PART1: T0 - 3_600_000}
    inflow._greatest_times = times
    alone = Directive(7, sources=(PART0, PART1), idle=(PART1,))
    assert inflow.watermarks(alone) == {"retail": T0 - 1_000}
    assert inflow.watermarks(replace(alone, idle=(), reached={"retail": T0 - 5})) == {"retail": T0 - 1_005}
    inflow._greatest_times = {PART0: T0}
    assert inflow.watermarks(replace(alone, idle=())) == {}, "a partition that has not spoken yet, and is not idle, is waited for"


def test_selection_is_ordered_by_the_directive_and_counted(world: World) -> None:
    tests = (ConstantTest("x", Kind.INTEGER, "<", (10,)), ConstantTest("y", Kind.INTEGER, "<", (90,)))
    plan = replace(a_plan(), items=(Item(0, "a", (), tests=tests),))
    world.plane.open(RunningCatalog(Catalog.of((plan,)), "deployment", {}))
    orders = world.plane.directive(0).selection["retail"]
    assert (orders.sequence.order, orders.sample) == ((0, 1), 2000)
    sample = packed(np.array([[0] * 1000, [2] * 1000], dtype=np.int32))  # x is always below 10, y never below 90
    tally = SelectionTally("retail", 1000, 900, 1700, (sample,))
    world.run(0, 100, *(StageReport(0, "ingress", part, selection=(tally,)) for part in (1, 2)))
    value = world.plane.metrics.value
    assert value("cep_selection_events_total", stream="retail") == 2000
    assert value("cep_selection_pruned_total", stream="retail") == 1800
    assert value("cep_selection_constructs_total", stream="retail") == 3400
    assert value("cep_selection_rearrangements_total", stream="retail") == 1
    before = world.plane.directive(1)
    assert (before.selection["retail"].sequence.order, before.selection["retail"].sample) == ((1, 0), 0)
    world.plane.await_directive()
    world.plane.close()
    assert world.start().directive(1).selection == before.selection


def test_readiness_needs_spark_a_query_and_a_batch(world: World) -> None:
    world.plane.started.good()
    world.plane.running.good()
    assert not world.plane.health.ask("readyz").good
    world.run(0, 10)
    assert world.plane.health.ask("readyz").good


def test_queries_page(world: World) -> None:
    world.plane.running.good()
    world.run(0, 10)
    (query,) = world.plane.queries()
    assert query["sample"] == "nothing is shed for a latency bound"
    assert {k: query[k] for k in ("query", "version", "status", "matches", "drop_ratio", "cost_ms", "last_batch")} == {
        "query": "q",
        "version": 2,
        "status": "running",
        "matches": 2,
        "drop_ratio": 0.0,
        "cost_ms": 0.05,
        "last_batch": 0,
    }


def test_progress_without_a_batch_is_ignored(world: World) -> None:
    world.plane.on_progress({"batchId": 0, "timestamp": iso(T0), "durationMs": {"latestOffset": 3, "triggerExecution": 3}})
    assert world.plane.metrics.value("cep_batches_total") == 0


def test_without_a_catalog_there_are_no_batches(world: World) -> None:
    world.plane.close()
    world.plane = ControlPlane(world.settings, {}, world.clock)
    with pytest.raises(NotReadyError):
        world.plane.directive(0)
    with pytest.raises(NotReadyError):
        world.plane.finish(total(0, []))
    with pytest.raises(NotReadyError):
        world.plane.begin_run()


def test_every_run_of_the_driver_has_a_greater_number(world: World) -> None:
    assert world.plane.begin_run() == 1
    world.plane.close()
    assert world.start().begin_run() == 2


def test_a_batch_that_is_over_but_was_not_committed_is_decided_and_counted_as_before(world: World) -> None:
    """The driver dies between the totals and Spark's commit: the batch is repeated."""
    directive = world.plane.directive(0)
    done = total(0, [StageReport(0, "ingress", 0, sources=(SourceProgress(PART0, 7, T0),), counts={"consumed": 7, "matched": 7})])
    world.plane.finish(done)
    world.plane.close()
    world.clock.now += 60_000
    world.start()
    assert world.plane.directive(0) == directive
    world.plane.finish(done)
    assert world.plane.directive(1).greatest_times == {PART0: T0}


def test_heartbeat_is_written_when_the_input_is_silent_and_events_wait(world: World) -> None:
    world.plane.running.good()
    world.run(0, 10)
    assert not world.plane._heartbeat_is_due()
    world.clock.now += 1_500
    assert world.plane._heartbeat_is_due()
    assert not world.plane._heartbeat_is_due()


def test_what_waits_for_time_to_pass_is_released_behind_a_restart_though_nothing_comes(world: World) -> None:
    """The shop has closed, the driver is moved to another machine: without a heartbeat no batch would come until the morning."""
    world.run(0, 10)
    world.run(1, 10)
    planned = world.clock.now - 400
    world.plane.close()
    world.clock.now += 3_600_000
    world.start().running.good()
    world.plane.assign([("readings", 0), ("readings", 1)])
    world.clock.now += 1_500
    assert world.plane._heartbeat_is_due(), "nobody says when what waits is due"
    assert "retail" not in world.plane.directive(2).stream_times, "everybody gets time to speak"
    world.run(2, 0)
    world.clock.now += 6_000
    assert world.plane._heartbeat_is_due()
    assert world.plane.directive(3).stream_times["retail"] == planned - 10 + (world.clock.now - planned), "as if nobody had been away"


@pytest.mark.parametrize("lost", ["shed", "ended_matches", "tuples_shed", "limited_runs", ""])
def test_heartbeat_is_written_for_the_report_on_what_was_shed_last_where_nothing_else_waits(tmp_path: Path, lost: str) -> None:
    world = World(tmp_path, waiting=0)
    try:
        world.plane.running.good()
        world.run(0, 10, StageReport(0, "cep", 1, queries=(QueryTally("q", **({lost: 3} if lost else {})),)))
        world.clock.now += 1_500
        assert world.plane._heartbeat_is_due() is bool(lost)
    finally:
        world.plane.close()


def test_breaches_are_counted_by_account(world: World) -> None:
    world.plane.count_breaches([Breach("rows", "1 of 2"), Breach("rows", "2 of 3"), Breach("source", "")])
    counted = {one: world.plane.metrics.value("cep_accounting_breaches_total", account=one) for one in ("rows", "source", "events")}
    assert counted == {"rows": 2, "source": 1, "events": 0}


def test_lost_heartbeats_are_counted_and_logged_once_per_outage(world: World) -> None:
    with capture_logs() as logs:
        for _ in range(3):
            world.plane.beat_failed("TOPIC_AUTHORIZATION_FAILED")
        world.plane.beat_written()
        world.plane.beat_failed("timed out")
    assert [(line["log_level"], line.get("reason")) for line in logs] == [
        ("warning", "TOPIC_AUTHORIZATION_FAILED"),
        ("info", None),
        ("warning", "timed out"),
    ]
    assert world.plane.metrics.value("cep_heartbeat_errors_total") == 4
    assert world.plane.metrics.value("cep_heartbeats_total") == 1


def test_originals_that_could_not_be_read_are_counted_and_logged_once_per_outage(world: World) -> None:
    def refused(batch: int, part: int, count: int) -> StageReport:
        troubles = (Trouble("originals", count, "no answer in 20 s"),) if count else ()
        return StageReport(batch, "cep", part, counts={"matched": -1, "late": 1}, troubles=troubles)

    with capture_logs() as logs:
        world.run(0, 10, refused(0, 1, 2), refused(0, 2, 3))
        world.run(1, 10, refused(1, 1, 1))
        world.run(2, 10)  # nothing was to be read: nobody knows more
        world.run(3, 10, refused(3, 1, 0))
    told = [(line["log_level"], line.get("reason"), line.get("failures")) for line in logs if "originals" in line["event"]]
    assert told == [("warning", "no answer in 20 s", None), ("info", None, 6)]
    assert world.plane.metrics.value("cep_originals_errors_total") == 6


def test_batches_that_are_larger_than_they_should_be_are_told_once(world: World) -> None:
    bound = world.settings.kafka.max_bytes_per_trigger
    with capture_logs() as logs:
        for batch, size in enumerate((bound, 3 * bound, 4 * bound)):
            more = StageReport(batch, "ingress", 1, sources=(SourceProgress(PART1, 1, bytes=size),), counts={"consumed": 1, "dead": 1})
            world.run(batch, 10, more)
    assert [line["batch_id"] for line in logs if "max_bytes_per_trigger" in line["event"]] == [1]
    assert world.plane.metrics.value("cep_bytes_consumed_total", topic="readings") == 8 * bound


def test_the_watchdog_reckons_with_batches_as_large_as_they_get(world: World) -> None:
    world.plane.limit_batches(268)
    world.plane.open(RunningCatalog(Catalog.of((a_plan(),)), "deployment", {}))
    assert world.plane._decider.watchdog._largest_batch == 268


def test_a_committed_batch_waits_for_no_registry(world: World) -> None:
    assert world.plane.registry.rule(Notice(0, 7, "failed", "refused")).then == "again"
    world.clock.now += 5000
    assert world.plane.registry.rule(Notice(0, 7, "failed", "refused")).waited_s == 5
    assert world.plane.metrics.value("cep_schema_registry_waiting_seconds") == 5
    world.run(0, 10)
    assert world.plane.metrics.value("cep_schema_registry_waiting_seconds") == 0


def test_tuples_that_memory_did_not_hold_are_counted_and_reported(world: World) -> None:
    world.run(0, 100, StageReport(0, "cep", 1, queries=(QueryTally("q", tuples_shed=7, tuples_kept=3),)))
    assert world.plane.metrics.value("cep_tuples_shed_total", query="q", shedder="none") == 7
    (report,) = [one for one in world.plane.directive(1).shed_reports if one.level == "TUPLES"]
    assert (report.considered, report.dropped, report.shedder, report.limit) == (10, 7, "none", None)


def test_what_must_go_after_an_overload_because_of_what_went_before_is_reported() -> None:
    totals = total(0, [StageReport(0, "cep", 1, queries=(QueryTally("q", shed=3),))])
    (report,) = shed_reports(Directive(0), totals, {"q": a_plan(shedder="prefix", latency_bound_ms=1000)})
    assert (report.shedder, report.asked_drop_ratio, report.dropped, report.level, report.place) == ("prefix", 0.0, 3, "EVENTS", "bucket")
    assert not shed_reports(Directive(0), totals, {"q": a_plan(shedder="random")}), "who remembers nothing drops nothing then"


def test_events_that_go_because_partial_matches_are_not_enough_have_a_report_of_their_own() -> None:
    totals = total(0, [StageReport(0, "cep", 1, queries=(QueryTally("q", candidates=100, shed=40, judged_matches=50, ended_matches=49),))])
    directive = Directive(0, shedding={"q": QueryShedding(0.99, "pspice", "matching", None, 50, 0.98, 0.4)})
    matches, events = shed_reports(directive, totals, {"q": a_plan(shedder="pspice", latency_bound_ms=1000)})
    assert (matches.level, matches.considered, matches.dropped) == ("PARTIAL_MATCHES", 50, 49)
    assert (events.level, events.shedder, events.asked_drop_ratio, events.considered, events.dropped) == ("EVENTS", "random", 0.4, 100, 40)
    assert (matches.place, events.place) == ("matching", "ingress")


def test_shed_reports_are_read_by_whoever_knows_one_field_less_and_say_nothing_of_it_where_they_are_older() -> None:
    now = json.loads((Path(__file__).parents[2] / "schemas" / "ShedReport.avsc").read_text())
    before = {**now, "fields": [one for one in now["fields"] if one["name"] != "place"]}
    report = ShedReport(1, "q", 2, 3, "prefix", 0.5, 4, 2, place="bucket")

    def read(writer: Any, reader: Any) -> Any:
        written = io.BytesIO()
        fastavro.schemaless_writer(written, writer, report.to_avro())
        written.seek(0)
        return fastavro.schemaless_reader(written, writer, reader)

    assert read(now, now)["place"] == "bucket"
    assert read(before, now)["place"] is None
    assert "place" not in read(now, before)
    assert ShedReport.from_plain(report.to_plain()) == report
    assert "place" not in replace(report, place=None).to_plain(), "directives of before are as they were"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_report_speaks_of_the_query_as_it_was_in_its_batch(world: World, *, restarted: bool) -> None:
    ended = QueryTally("q", partial_matches=9, judged_matches=9, ended_matches=2, evicted_matches=2)
    world.run(0, 100, StageReport(0, "cep", 1, queries=(ended,)))
    before, after = RunningCatalog(Catalog.of((a_plan(),)), "deployment"), RunningCatalog(Catalog.of((a_plan("other"),)), "second")
    if restarted:
        world.plane.close()
        world.plane = ControlPlane(world.settings, {}, world.clock)
        after = replace(after, before=before)
    else:
        world.plane.open(replace(after, deployment="passed over"))
    world.plane.open(after)
    (report,) = world.plane.directive(1).shed_reports
    assert (report.query, report.version, report.shedder) == ("q", 2, "least-progress"), "it is gone since"
    world.run(1, 100)
    assert not world.plane.directive(2).shed_reports


def test_a_limit_that_a_query_reached_is_counted_and_reported(world: World) -> None:
    tally = QueryTally("q", candidates=4, matches=3, partial_matches=9, limited_matches=7, limited_runs=1)
    world.run(0, 100, StageReport(0, "cep", 1, queries=(tally,)))
    assert world.plane.metrics.value("cep_limited_total", query="q", limit="matches_per_event") == 7
    assert world.plane.metrics.value("cep_limited_total", query="q", limit="partial_matches_per_partition") == 1
    reports = {report.limit: report for report in world.plane.directive(1).shed_reports}
    assert (reports["matches_per_event"].considered, reports["matches_per_event"].dropped) == (12, 7), (
        "two matches came from the other bucket"
    )
    assert (reports["partial_matches_per_partition"].considered, reports["partial_matches_per_partition"].dropped) == (10, 1)
    schema = json.loads((Path(__file__).parents[2] / "schemas" / "ShedReport.avsc").read_text())
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), reports["matches_per_event"].to_avro())
    assert Directive.from_json(world.plane.directive(1).to_json()).shed_reports == world.plane.directive(1).shed_reports


def test_planned_topic_partitions_of_which_nothing_came_are_named(world: World) -> None:
    """Of those that are read as streams: heartbeats are no events, and what is no longer read may be in a repeated batch."""
    numbers = [(number << 20) | partition for number, partition in ((0, 0), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (2, 0))]
    planned = dict.fromkeys(numbers, (5, 9)) | {numbers[3]: (None, 9), numbers[4]: (9, 9)}
    totals = total(0, [StageReport(0, "ingress", 0, sources=(SourceProgress(numbers[2], 3), SourceProgress(numbers[5], 0)))])
    topics = world.settings.source_topics
    assert topics.index("readings") == 1
    assert world.plane.untouched(planned, totals) == {("readings", 0): (5, 9), ("readings", 4): (5, 9)}


def test_a_finished_batch_is_one_line_at_debug_with_its_batch_query_and_bucket_ids_and_none_at_info(world: World) -> None:
    lines = io.StringIO()
    configure_logging(Logging(level="INFO", levels={"app.control.batch_line": "DEBUG"}), "shop", "1", lines)
    try:
        world.plane.held = lambda: {0: "a:1", 1: "b:2", 2: "a:1"}
        world.run(0, 100, arrived=130)
        told = [json.loads(line) for line in lines.getvalue().splitlines()]
        (line,) = [one for one in told if one["event"] == "batch finished"]
        assert (line["level"], line["batch_id"], line["run_id"], line["duration_ms"], line["left_behind"]) == ("debug", 0, "r", 400, 30)
        assert (line["consumed"], line["ended"]) == (100, {"matched": 100})
        assert line["queries"]["q"]["matches"] == 2
        assert line["queries"]["q"]["candidates"] == 100
        assert line["buckets"] == {"a:1": [0, 2], "b:2": [1]}
        configure_logging(Logging(level="INFO"), "shop", "1", lines)
        logging.getLogger("app.control.batch_line").setLevel(logging.NOTSET)
        world.plane.held = lambda: pytest.fail("nobody writes it down, so nobody should be asked")
        world.run(1, 100)
        assert "batch finished" not in "".join(lines.getvalue().splitlines()[len(told) :])
    finally:
        logging.getLogger().handlers = []


def test_offsets_of_streams_are_shown_when_a_batch_is_committed(world: World) -> None:
    told: list[dict[tuple[str, int], int]] = []
    world.plane.show_offsets = lambda offsets: told.append(dict(offsets))
    world.run(0, 100)
    assert told == [{("readings", 0): 100, ("readings", 1): 0}], "the heartbeat's topic is our own"


def of_part1(batch: int, *, event: bool) -> StageReport:
    """A task that has read ten records of the second topic partition."""
    return StageReport(batch, "ingress", 1, sources=(SourceProgress(PART1, 10, T0 if event else None, T0, T0),), counts={"consumed": 10})


def test_a_partition_that_sends_nothing_but_what_is_no_event_is_silent(world: World) -> None:
    world.plane.open(RunningCatalog(Catalog.of((a_plan(),)), "deployment"), lambda _: [("readings", 0), ("readings", 1)])
    world.plane.assign([("readings", 0), ("readings", 1)])
    for batch in range(4):
        world.run(batch, 100, of_part1(batch, event=False), duration_ms=2_000)
    assert world.plane.directive(4).idle == (PART1,), "nothing but dead letters for longer than idle_after"
    world.run(4, 100, of_part1(4, event=True), duration_ms=100)
    assert world.plane.directive(5).idle == ()
    world.run(5, 100, of_part1(5, event=True), duration_ms=60_000)
    assert world.plane.directive(6).idle == (), "it is planned to speak, and did so last"
