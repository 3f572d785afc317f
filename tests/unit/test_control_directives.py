from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.control.directives import KEPT_BATCHES, Directive, DirectiveLog, Frozen, QueryShedding
from app.control.reports import QueryTally, SourceProgress, StageReport, total
from app.control.shed_reports import ShedReport
from app.errors import SnapshotError


class Deciding:
    """Decides with a clock that ticks, and remembers how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, batch: int, greatest_times: Mapping[int, int]) -> Frozen:
        self.asked.append(batch)
        return Frozen(Directive(batch, decided_at_ms=len(self.asked), greatest_times=greatest_times), {"asked": len(self.asked)})


def read(batch: int, part: int, times: Mapping[int, int], run: str = "") -> StageReport:
    sources = tuple(SourceProgress(source, 1, time) for source, time in times.items())
    return StageReport(batch, "ingress", part, run=run, sources=sources, counts={"consumed": len(times)})


def test_first_request_decides_and_later_ones_get_the_same(tmp_path: Path) -> None:
    log, decide = DirectiveLog(tmp_path), Deciding()
    first = log.directive(0, decide)
    assert log.directive(0, decide) == first
    assert DirectiveLog(tmp_path).directive(0, decide) == first
    assert decide.asked == [0]


def test_all_threads_get_the_one_decision(tmp_path: Path) -> None:
    log, decide, got = DirectiveLog(tmp_path), Deciding(), []
    threads = [threading.Thread(target=lambda: got.append(log.directive(3, decide))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert decide.asked == [3]
    assert set(map(Directive.to_json, got)) == {got[0].to_json()}


def test_next_directive_has_the_greatest_times_of_all_reports_before(tmp_path: Path) -> None:
    log, decide = DirectiveLog(tmp_path), Deciding()
    log.directive(0, decide)
    log.record(read(0, 0, {1: 100}))
    log.record(read(0, 1, {2: 70, 1: 90}))
    log.directive(1, decide)
    log.record(read(1, 0, {1: 95}))
    assert log.directive(1, decide).greatest_times == {1: 100, 2: 70}
    assert log.directive(2, decide).greatest_times == {1: 100, 2: 70}


def test_restart_after_the_reports_came_gives_the_same_next_directive(tmp_path: Path) -> None:
    log = DirectiveLog(tmp_path)
    log.directive(0, Deciding())
    log.record(read(0, 0, {1: 100}))
    log.record(read(0, 1, {2: 70}))
    assert DirectiveLog(tmp_path).directive(1, Deciding()).greatest_times == {1: 100, 2: 70}


def test_repeated_batch_gets_its_directive_even_if_its_reports_came(tmp_path: Path) -> None:
    log, decide = DirectiveLog(tmp_path), Deciding()
    first = log.directive(0, decide)
    log.record(read(0, 0, {1: 100}))
    again = DirectiveLog(tmp_path)
    assert again.directive(0, decide) == first
    assert first.greatest_times == {}


def test_repeated_report_replaces_and_other_runs_are_forgotten(tmp_path: Path) -> None:
    log = DirectiveLog(tmp_path)
    log.directive(0, Deciding())
    for part in range(3):
        log.record(read(0, part, {part: 1}, run="first"))
    log.record(read(0, 0, {0: 1}, run="first"))
    assert log.totals(0).counts == {"consumed": 3}
    # After a restart with fewer tasks the batch is cut otherwise.
    log.record(read(0, 0, {0: 1, 1: 1, 2: 1}, run="second"))
    assert log.totals(0).counts == {"consumed": 3}
    assert DirectiveLog(tmp_path).totals(0).counts == {"consumed": 3}


def test_torn_line_is_a_report_that_never_came(tmp_path: Path) -> None:
    log = DirectiveLog(tmp_path)
    log.directive(0, Deciding())
    log.record(read(0, 0, {1: 100}))
    (path,) = tmp_path.glob("*.jsonl")
    with path.open("ab") as file:
        file.write(read(0, 1, {2: 70}).to_json()[:-9])
    again = DirectiveLog(tmp_path)
    assert again.totals(0).reports == 1
    again.record(read(0, 1, {2: 71}))
    assert DirectiveLog(tmp_path).greatest_times_before(1) == {1: 100, 2: 71}


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(0, 10_000))
def test_killed_at_any_byte_of_a_report_nothing_acknowledged_is_lost(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = DirectiveLog(folder)
    directive = log.directive(0, Deciding())
    log.record(read(0, 0, {1: 100}))
    (path,) = folder.glob("*.jsonl")
    acknowledged = path.read_bytes()
    log.record(read(0, 1, {2: 70}))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(acknowledged) + cut % (len(whole) - len(acknowledged))])
    again = DirectiveLog(folder)
    assert again.directive(0, Deciding()) == directive
    assert again.greatest_times_before(1)[1] == 100
    again.record(read(0, 1, {2: 70}))
    assert again.greatest_times_before(1) == {1: 100, 2: 70}


def test_latest_gives_what_a_restarted_driver_goes_on_from(tmp_path: Path) -> None:
    log, decide = DirectiveLog(tmp_path), Deciding()
    assert log.latest() is None
    for batch in range(3):
        log.directive(batch, decide)
    latest = DirectiveLog(tmp_path).latest()
    assert latest is not None
    assert (latest.directive.batch, latest.memory) == (2, {"asked": 3})


def test_old_files_are_pruned_after_commit(tmp_path: Path) -> None:
    log, decide = DirectiveLog(tmp_path), Deciding()
    for batch in range(KEPT_BATCHES + 5):
        log.directive(batch, decide)
        log.record(read(batch, 0, {1: batch}))
        log.prune(batch)
    assert len(list(tmp_path.glob("*.jsonl"))) == KEPT_BATCHES
    assert DirectiveLog(tmp_path).greatest_times_before(KEPT_BATCHES + 5) == {1: KEPT_BATCHES + 4}


def test_half_written_files_of_a_crash_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.tmp").write_bytes(b"{")
    assert DirectiveLog(tmp_path).directive(0, Deciding()).batch == 0


def test_files_of_another_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.jsonl").write_bytes(b'{"format":99,"frozen":null}\n')
    with pytest.raises(SnapshotError, match="format 99"):
        DirectiveLog(tmp_path).directive(0, Deciding())


def test_directives_and_reports_survive_json() -> None:
    directive = Directive(
        7,
        3,
        "abc",
        1_000,
        5,
        {"q": QueryShedding(0.5, unshed_latency_ms=1.5)},
        {1 << 20: 10},
        (0, 1 << 20),
        (1 << 20,),
        {"retail": 99},
        {"s": 4},
        (ShedReport(9, "q", 1, 6, "random", 0.5, 10, 4),),
    )
    assert Directive.from_json(directive.to_json()) == directive
    report = StageReport(
        7, "cep", 1, "r", (SourceProgress(3, 5, 100, 1, 2, 0, 5),), (QueryTally("q", 5, 2, 1, 0, 9, 100, (1, 0), 30),), {"matched": 3}
    )
    assert StageReport.from_json(report.to_json()) == report
    for nonsense in (b"[]", b"{}", b'{"batch":1,"stage":"x","part":0,"sources":[3]}', b"\xff"):
        with pytest.raises(ValueError):
            StageReport.from_json(nonsense)


def test_totals_add_up_and_find_what_is_unaccounted() -> None:
    reports = [
        StageReport(1, "ingress", 0, sources=(SourceProgress(1, 5, 100, 7, 9, 0, 5),), counts={"consumed": 5, "irrelevant": 2, "shed": 1}),
        StageReport(1, "ingress", 1, sources=(SourceProgress(1, 2, None, 6, 6, 5, 7),), counts={"consumed": 2, "dead": 2}),
        StageReport(
            1, "cep", 0, queries=(QueryTally("q", matches=1, latencies=(0, 1)),), counts={"matched": 2}, waiting=3, next_release_ms=50
        ),
        StageReport(1, "cep", 1, queries=(QueryTally("q", matches=2, latencies=(2,)),), waiting=1, next_release_ms=40),
    ]
    totals = total(1, reports)
    assert totals.sources[1] == SourceProgress(1, 7, 100, 6, 9, 0, 7)
    assert totals.queries["q"] == QueryTally("q", matches=3, latencies=(2, 1))
    assert (totals.waiting, totals.next_release_ms) == (4, 40)
    assert totals.unaccounted() == 0
    assert total(1, reports[:2]).unaccounted() == 2
