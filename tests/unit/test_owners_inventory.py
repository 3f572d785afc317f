"""What `cep checkpoint verify` and a start find missing beside our own state."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.control.messages.batch_log import BatchLog
from app.control.messages.directives import Directive, Frozen
from app.control.messages.totals import BatchTotals
from app.owners.blocks import Known, cut_up, known_of
from app.owners.inventory import fault_of_spark_log, faults
from app.owners.state_log import FORMAT, SNAPSHOT, Generation, StateLog, state_log
from app.storage.frames import write_frame
from app.storage.posix import PosixStore


def checkpoint(folder: Path, *, done: int, planned: list[int]) -> PosixStore:
    store = PosixStore(folder)
    log = BatchLog(store)
    for batch in range(done):
        log.directive(batch, lambda number, times: Frozen(Directive(number, greatest_times=times), {}))
        log.finish(BatchTotals(batch))
    for batch in planned:
        path = folder / "spark" / "offsets" / str(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("v1")
    return store


@pytest.mark.parametrize(("done", "planned"), [(0, []), (0, [0]), (2, [0, 1]), (2, [1, 2])])
def test_a_log_of_sparks_that_reaches_as_far_as_ours_is_whole(tmp_path: Path, done: int, planned: list[int]) -> None:
    assert fault_of_spark_log(checkpoint(tmp_path, done=done, planned=planned)) is None


def test_a_log_of_sparks_that_is_gone_or_older_is_told(tmp_path: Path) -> None:
    store = checkpoint(tmp_path, done=3, planned=[0, 1])
    assert fault_of_spark_log(store) == "batch 2 is done, but Spark's log (spark/offsets) ends with batch 1"
    for path in (tmp_path / "spark" / "offsets").iterdir():
        path.unlink()
    assert fault_of_spark_log(store) == "batch 2 is done, but Spark's log (spark/offsets) is missing"


@pytest.mark.parametrize(("batches", "told"), [((0, 1), []), ((1,), ["bucket 0: there is no snapshot, and its log begins with batch 1"])])
def test_a_log_that_does_not_begin_with_the_first_batch_needs_a_snapshot(tmp_path: Path, batches: tuple[int, ...], told: list[str]) -> None:
    store = checkpoint(tmp_path, done=2, planned=[0, 1])
    for batch in batches:
        state_log(store, "state", 0).append(batch, 0, [b"nothing"])
    assert [fault for fault in faults(store, str(tmp_path), "state") if fault.startswith("bucket 0")] == told


@pytest.mark.parametrize("name", ["run.bin", "schemas/4/7.bin", "registry-answers.bin", "numbers.bin"])
def test_every_single_file_is_looked_at(tmp_path: Path, name: str) -> None:
    store = PosixStore(tmp_path)
    write_frame(store, name, "anything", 9, [b"what it says"])
    assert list(faults(store, str(tmp_path), "state")) == []
    data = bytearray((tmp_path / name).read_bytes())
    data[-7] ^= 1
    (tmp_path / name).write_bytes(data)
    assert list(faults(store, str(tmp_path), "state")) == [f"{name} is damaged: its checksum does not fit"]


@pytest.mark.parametrize("text", ["", "v1", 'v1\n{"a":'])
@pytest.mark.parametrize("folder", ["offsets", "commits"])
def test_torn_files_of_sparks_are_told(tmp_path: Path, folder: str, text: str) -> None:
    path = tmp_path / "spark" / folder / "3"
    path.parent.mkdir(parents=True)
    path.write_text('v1\n{"a":1}\n-')
    store = PosixStore(tmp_path)
    before = list(faults(store, str(tmp_path), "state"))
    path.write_text(text)
    assert sorted(set(faults(store, str(tmp_path), "state")) - set(before)) == [f"spark/{folder}/3 is torn"]


def written(log: StateLog, batch: int, state: str, known: Known) -> Known:
    """A snapshot of a state of which every letter is a block; what an earlier one holds is named."""
    name = log.snapshot_name(Generation(batch, 1))
    cut = cut_up(name, [(letter, [letter.encode() * 50_000]) for letter in state], known, deployment="d")
    found = known_of(cut.head, write_frame(log.store, name, SNAPSHOT, FORMAT, [cut.head, *cut.fresh]))
    log.remember(Generation(batch, 1), found.files)
    return found


def bucket_with_snapshots(folder: Path, *batches: int) -> StateLog:
    """Each names blocks of the last but one, and the last one none of the first any more."""
    store = PosixStore(folder)
    log, last = state_log(store, "state", 0), batches[-1] + 1
    for kind in ("offsets", "commits"):
        store.write(f"spark/{kind}/{last}", [b"v1\n{}"])
    for batch in range(last + 1):
        log.append(batch, 1, [b"entry"])
    known = [Known(), Known()]
    for batch, state in zip(batches, ("ab", "ab", "bc", "bc", "cd"), strict=True):
        known.append(written(log, batch, state, known[-2]))
    return log


@pytest.mark.parametrize("batches", [(2, 4, 6, 8, 10), (2, 4, 6, 7, 8)])
def test_a_snapshot_that_stays_for_its_blocks_is_whole_without_those_that_it_names(tmp_path: Path, batches: tuple[int, ...]) -> None:
    """Wherever whoever deletes the older ones is interrupted."""
    log = bucket_with_snapshots(tmp_path, *batches)
    log.prune(batches[-1] + 1, 1, at_once=0)
    assert list(faults(log.store, str(tmp_path), "state")) == []
    while log.prune_more(1):
        assert list(faults(log.store, str(tmp_path), "state")) == []
    assert [one.batch for one in log.listing().generations] == list(batches[1:])


def test_a_snapshot_to_begin_from_is_told_without_those_that_it_names(tmp_path: Path) -> None:
    log = bucket_with_snapshots(tmp_path, 2, 4, 6, 8, 10)
    log.prune(11, 1)
    log.store.delete([log.snapshot_name(Generation(4, 1))])
    (told,) = faults(log.store, str(tmp_path), "state")
    assert told.startswith("there is no state/bucket-0/snapshot-000000000004-1.bin")
