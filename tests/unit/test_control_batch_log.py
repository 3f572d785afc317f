"""Directives and totals of batches in the checkpoint: decided once, kept through crashes, pruned."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.control.messages.batch_log import KEPT_BATCHES, BatchLog
from app.control.messages.directives import Directive, Frozen, QueryShedding
from app.control.messages.reports import QueryTally, SelectionTally, SourceProgress, StageReport
from app.control.messages.shed_reports import ShedReport
from app.control.messages.totals import BatchTotals, total
from app.errors import SnapshotError
from app.storage.frames import write_frame
from app.storage.posix import PosixStore
from app.storage.store import Part, StorageError


class Deciding:
    """Decides with a clock that ticks, and remembers how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, batch: int, greatest_times: Mapping[int, int]) -> Frozen:
        self.asked.append(batch)
        return Frozen(Directive(batch, decided_at_ms=len(self.asked), greatest_times=greatest_times), {"asked": len(self.asked)})


def opened(folder: Path) -> BatchLog:
    return BatchLog(PosixStore(folder))


def read(batch: int, *times: Mapping[int, int]) -> BatchTotals:
    """The totals of a batch, of one task for each of the mappings from source to greatest time."""
    return total(
        batch,
        [
            StageReport(
                batch,
                "ingress",
                part,
                sources=tuple(SourceProgress(source, 1, time) for source, time in one.items()),
                counts={"consumed": len(one)},
            )
            for part, one in enumerate(times)
        ],
    )


def test_first_request_decides_and_later_ones_get_the_same(tmp_path: Path) -> None:
    log, decide = opened(tmp_path), Deciding()
    first = log.directive(0, decide)
    assert log.directive(0, decide) == first
    log.await_directive()
    assert opened(tmp_path).directive(0, decide) == first
    assert decide.asked == [0]


class HeldStore(PosixStore):
    """Writes when it is let, or fails."""

    def __init__(self, root: Path, *, fails: bool = False) -> None:
        super().__init__(root)
        self.let, self.fails = threading.Event(), fails

    def write(self, name: str, parts: Iterable[Part]) -> int:
        assert self.let.wait(10)
        if self.fails:
            raise StorageError("no space is left")
        return super().write(name, parts)


def test_a_decision_is_on_its_way_when_it_is_told_and_safe_once_it_has_settled(tmp_path: Path) -> None:
    store = HeldStore(tmp_path)
    log = BatchLog(store)
    first = log.directive(0, Deciding())
    assert opened(tmp_path).logged(0) is None
    store.let.set()
    log.await_directive()
    assert opened(tmp_path).logged(0) == first


def test_what_became_of_a_batch_is_never_kept_without_its_directive(tmp_path: Path) -> None:
    store = HeldStore(tmp_path, fails=True)
    log = BatchLog(store)
    log.directive(0, Deciding())
    store.let.set()
    with pytest.raises(StorageError, match="no space"):
        log.await_directive()
    with pytest.raises(StorageError, match="no space"):
        log.finish(read(0, {1: 100}))
    assert list(tmp_path.glob("batches/*")) == []


def test_who_asks_again_for_a_directive_that_could_not_be_written_gets_another_try(tmp_path: Path) -> None:
    store = HeldStore(tmp_path, fails=True)
    log = BatchLog(store)
    first = log.directive(0, Deciding())
    store.let.set()
    with pytest.raises(StorageError, match="no space"):
        log.await_directive()
    store.fails = False
    with suppress(StorageError):  # the try that began at once
        log.await_directive()
    log.await_directive()
    assert opened(tmp_path).logged(0) == first


def test_all_threads_get_the_one_decision(tmp_path: Path) -> None:
    log, decide, got, entered, go = opened(tmp_path), Deciding(), [], threading.Semaphore(0), threading.Event()

    def slowly(*arguments):
        entered.release()
        go.wait(10)
        return decide(*arguments)

    threads = [threading.Thread(target=lambda: got.append(log.directive(3, slowly))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert entered.acquire(timeout=10)
    assert not entered.acquire(timeout=0.2), "the others wait for the one that decides"
    go.set()
    for thread in threads:
        thread.join()
    assert decide.asked == [3]
    assert set(map(Directive.to_json, got)) == {got[0].to_json()}


def test_next_directive_has_the_greatest_times_of_all_tasks_before(tmp_path: Path) -> None:
    log, decide = opened(tmp_path), Deciding()
    log.directive(0, decide)
    log.finish(read(0, {1: 100}, {2: 70, 1: 90}))
    log.directive(1, decide)
    log.finish(read(1, {1: 95}))
    assert log.directive(1, decide).greatest_times == {1: 100, 2: 70}
    assert log.directive(2, decide).greatest_times == {1: 100, 2: 70}


def test_restart_after_a_batch_is_over_gives_the_same_next_directive(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.directive(0, Deciding())
    log.finish(read(0, {1: 100}, {2: 70}))
    assert opened(tmp_path).directive(1, Deciding()).greatest_times == {1: 100, 2: 70}


def test_repeated_batch_gets_its_directive_even_if_it_was_over(tmp_path: Path) -> None:
    log, decide = opened(tmp_path), Deciding()
    first = log.directive(0, decide)
    log.finish(read(0, {1: 100}))
    again = opened(tmp_path)
    assert again.directive(0, decide) == first
    assert first.greatest_times == {}


def test_totals_of_a_repeated_batch_replace_those_of_before(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.directive(0, Deciding())
    log.finish(read(0, {0: 1}, {1: 1}, {2: 1}))
    # After a restart with fewer tasks the batch is cut otherwise.
    log.finish(read(0, {0: 1, 1: 1, 2: 1}))
    assert (log.totals(0).counts, log.totals(0).reports) == ({"consumed": 3}, 1)
    assert opened(tmp_path).totals(0) == log.totals(0)


def test_totals_survive_a_restart_but_for_the_samples_of_selection(tmp_path: Path) -> None:
    reports = [
        StageReport(
            4,
            "ingress",
            0,
            sources=(SourceProgress(1, 2, 10, 5, 6, 7, 9),),
            queries=(QueryTally("q", 5, 2),),
            counts={"consumed": 2, "shed": 2},
            cost_ns={"decode": 5},
            selection=(SelectionTally("s", 2, 1, 3, ("sample",)),),
            handed=7,
        ),
        StageReport(
            4,
            "cep",
            1,
            queries=(QueryTally("q", matches=3, latencies=(0, 3), latency_sum_ms=40),),
            rejected={"late": 1},
            waiting=2,
            next_release_ms=12,
            fed={"own": 1, "lost": 3},
            damaged=1,
            unpacked=7,
            records=3,
            sent=3,
        ),
    ]
    log = opened(tmp_path)
    log.finish(total(4, reports))
    again = opened(tmp_path).totals(4)
    assert log.totals(4).selection["s"].samples == ("sample",), "the driver that got them can use them"
    assert again.selection == {}
    for name in BatchTotals.__slots__:
        if name != "selection":
            assert getattr(again, name) == getattr(log.totals(4), name), name


def test_a_batch_that_is_not_over_has_no_totals(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.directive(0, Deciding())
    assert log.totals(0) == BatchTotals(0)


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(0, 10_000))
def test_killed_at_any_byte_of_the_totals_nothing_that_was_finished_is_lost(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    """A kill leaves a draft that nobody reads: the file is seen whole or not at all."""
    folder = tmp_path_factory.mktemp("log")
    log = opened(folder)
    log.directive(0, Deciding())
    log.finish(read(0, {1: 100}))
    directive = log.directive(1, Deciding())
    log.finish(read(1, {2: 70}))
    (path,) = folder.glob("batches/000000000001-totals.bin")
    whole = path.read_bytes()
    path.unlink()
    (folder / ".drafts" / "killed").write_bytes(whole[: cut % len(whole)])
    again = opened(folder)
    assert again.directive(1, Deciding()) == directive
    assert again.greatest_times_before(2) == {1: 100}
    again.finish(read(1, {2: 70}))
    assert opened(folder).greatest_times_before(2) == {1: 100, 2: 70}


@settings(max_examples=50, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["directive", "totals"]))
def test_a_damaged_file_is_named_and_nothing_is_decided_in_its_place(tmp_path_factory, data: st.DataObject, kind: str) -> None:
    folder, decide = tmp_path_factory.mktemp("log"), Deciding()
    log = opened(folder)
    log.directive(0, decide)
    log.finish(read(0, {1: 100}))
    path = folder / "batches" / f"000000000000-{kind}.bin"
    whole = bytearray(path.read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole[: data.draw(st.integers(len(whole) // 2, len(whole)))])
    again = opened(folder)
    with pytest.raises(SnapshotError, match=f"000000000000-{kind}"):
        again.directive(0 if kind == "directive" else 1, decide)
    assert decide.asked == [0]


@pytest.mark.parametrize("said", [b"", b"[]", b"3", b'{"directive":{}}', b'{"directive":[],"memory":{}}', b'{"directive":{"batch":0}}'])
def test_a_whole_file_that_says_nonsense_is_refused_by_name(tmp_path: Path, said: bytes) -> None:
    write_frame(PosixStore(tmp_path), "batches/000000000000-directive.bin", "directive", 1, [said] if said else [])
    with pytest.raises(SnapshotError, match="000000000000-directive"):
        opened(tmp_path).directive(0, Deciding())


def test_files_of_another_format_are_refused(tmp_path: Path) -> None:
    write_frame(PosixStore(tmp_path), "batches/000000000000-directive.bin", "directive", 99, [b"{}"])
    with pytest.raises(SnapshotError, match=r"newer version.*99"):
        opened(tmp_path).directive(0, Deciding())


def test_latest_gives_what_a_restarted_driver_goes_on_from(tmp_path: Path) -> None:
    log, decide = opened(tmp_path), Deciding()
    assert log.latest() is None
    for batch in range(3):
        log.directive(batch, decide)
    log.await_directive()
    latest = opened(tmp_path).latest()
    assert latest is not None
    assert (latest.directive.batch, latest.memory) == (2, {"asked": 3})


def test_old_files_are_pruned_after_commit(tmp_path: Path) -> None:
    log, decide = opened(tmp_path), Deciding()
    for batch in range(KEPT_BATCHES + 5):
        log.directive(batch, decide)
        log.finish(read(batch, {1: batch}))
        log.prune(batch)
    assert len(list(tmp_path.glob("batches/*-directive.bin"))) == len(list(tmp_path.glob("batches/*-totals.bin"))) == KEPT_BATCHES
    assert opened(tmp_path).greatest_times_before(KEPT_BATCHES + 5) == {1: KEPT_BATCHES + 4}
    assert log.totals(KEPT_BATCHES - 20).counts == {"consumed": 1}, "what left memory is read again"


def test_what_the_store_does_not_delete_now_it_deletes_later_and_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, decide = opened(tmp_path), Deciding()
    for batch in range(KEPT_BATCHES + 3):
        log.directive(batch, decide)
        log.finish(read(batch, {1: batch}))
    log.await_directive()

    def away(_store: PosixStore, names: list[str]) -> None:
        asked = threading.Thread(target=log.logged, args=(KEPT_BATCHES,))
        asked.start()
        asked.join(10)
        assert not asked.is_alive(), "whoever asks meanwhile is answered"
        raise StorageError(f"cannot delete {len(names)} files")

    with monkeypatch.context() as patched:
        patched.setattr(PosixStore, "delete", away)
        log.prune(KEPT_BATCHES + 2)
    assert len(list(tmp_path.glob("batches/*-totals.bin"))) == KEPT_BATCHES + 3
    log.prune(KEPT_BATCHES + 2)
    assert len(list(tmp_path.glob("batches/*-totals.bin"))) == KEPT_BATCHES


def test_deployments_that_directives_name_are_known(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for batch, deployment in enumerate(["a", "a", "b"]):
        log.directive(batch, lambda number, times, deployment=deployment: Frozen(Directive(number, deployment=deployment)))
    log.await_directive()
    assert opened(tmp_path).deployments() == {"a", "b"}


def test_runs_of_the_driver_are_counted_through_restarts(tmp_path: Path) -> None:
    assert [opened(tmp_path).begin_run() for _ in range(3)] == [1, 2, 3]
    write_frame(PosixStore(tmp_path), "run.bin", "run", 1, [b'{"walks":3}'])
    with pytest.raises(SnapshotError, match=r"run\.bin"):
        opened(tmp_path).begin_run()  # from 1 again would give epochs that are on files already


def test_a_count_of_runs_that_is_gone_is_not_begun_again(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert log.begin_run() == 1
    log.directive(0, Deciding())
    log.finish(read(0, {1: 100}))
    (tmp_path / "run.bin").unlink()
    with pytest.raises(SnapshotError, match=r"run\.bin is missing"):
        opened(tmp_path).begin_run()


def test_directives_survive_json() -> None:
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


def test_what_a_directive_is_about_survives_a_crash_before_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    store = PosixStore(tmp_path)
    write, sync = store.write, store.sync

    def writing(name: str, parts: Iterable[Part]) -> int:
        done.append(f"write {name}")
        return write(name, parts)

    def syncing(names: Iterable[str]) -> None:
        names = list(names)
        done.extend(f"sync {name}" for name in names)
        sync(names)

    monkeypatch.setattr(store, "write", writing)
    monkeypatch.setattr(store, "sync", syncing)
    log = BatchLog(store)
    log.directive(7, Deciding())
    log.await_directive()
    assert done == ["sync spark/offsets/7", "sync spark/commits/6", "write batches/000000000007-directive.bin"]
