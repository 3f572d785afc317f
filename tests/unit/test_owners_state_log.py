"""The log of a bucket: what it was fed and its snapshots, by batch and epoch; what counts, what is dead, what goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import SnapshotError
from app.owners.state_log import FORMAT, SNAPSHOT, Generation, StateLog
from app.storage.frames import write_frame
from app.storage.posix import PosixStore
from app.storage.store import MissingError


@pytest.fixture
def log(tmp_path: Path) -> StateLog:
    return StateLog(PosixStore(tmp_path), "state/bucket-3")


def snapshot(log: StateLog, batch: int, epoch: int, *names: tuple[int, int]) -> None:
    """A snapshot of the owner at work, which remembers what it wrote: all blocks in its own file, or some in files of earlier ones."""
    generation = Generation(batch, epoch)
    write_frame(log.store, log.snapshot_name(generation), SNAPSHOT, FORMAT, [b"state"])
    log.remember(generation, [log.snapshot_name(one) for one in (generation, *(Generation(*earlier) for earlier in names))])


def generations(log: StateLog) -> list[tuple[int, int]]:
    return [(one.batch, one.epoch) for one in log.listing().generations]


def texts(parts: tuple[memoryview, ...]) -> list[bytes]:
    return [bytes(part) for part in parts]


def test_parts_come_back_as_they_were(log):
    size = log.append(0, 1, [b"head", b"", b"\x00chunk"])
    assert texts(log.entry(0, 1)) == [b"head", b"", b"\x00chunk"]
    assert size == (Path(log.store.uri) / log.entry_name(0, 1)).stat().st_size


def test_a_repeated_batch_replaces_the_same_entry(log):
    log.append(4, 1, [b"a"])
    log.append(4, 1, [b"b"])
    assert log.listing().entries == {4: 1}
    assert texts(log.entry(4, 1)) == [b"b"]


def test_of_two_entries_of_a_batch_the_one_of_the_later_owner_counts_whoever_wrote_last(log):
    log.append(4, 2, [b"new"])
    log.append(4, 1, [b"old"])
    log.append(4, 10, [b"newest"])
    log.append(5, 1, [b"nobody else wrote it"])
    listing = log.listing()
    assert listing.entries == {4: 10, 5: 1}
    assert set(listing.dead) == {log.entry_name(4, 1), log.entry_name(4, 2)}


def test_a_snapshot_counts_where_its_owner_wrote_the_entry_that_counts(log):
    log.append(4, 1, [b"old"])
    log.append(4, 2, [b"new"])
    snapshot(log, 4, 1)
    assert generations(log) == []
    assert log.snapshot_name(Generation(4, 1)) in log.listing().dead
    snapshot(log, 4, 2)
    assert generations(log) == [(4, 2)]


def test_a_snapshot_whose_entry_is_gone_counts(log):
    snapshot(log, 4, 1)
    snapshot(log, 4, 3)
    assert generations(log) == [(4, 3)]
    assert log.listing().dead == (log.snapshot_name(Generation(4, 1)),)


def test_other_files_and_other_buckets_are_passed_over(log, tmp_path):
    log.append(1, 1, [b"x"])
    (tmp_path / "state" / "bucket-3" / "notes.txt").write_text("of somebody")
    (tmp_path / "state" / "bucket-3" / "log-1-1.bin").write_text("of somebody")
    StateLog(log.store, "state/bucket-31").append(7, 1, [b"x"])
    assert log.listing().entries == {1: 1}
    log.prune(100, 1)
    assert (tmp_path / "state" / "bucket-3" / "notes.txt").exists()


def test_the_snapshot_before_the_last_and_what_follows_it_stay(log):
    for batch in range(10):
        log.append(batch, 1, [b"x"])
        if batch in (2, 5, 8):
            snapshot(log, batch, 1)
    gone = log.prune(committed=9, keep_batches=2)
    assert [one.batch for one in gone] == [2]
    assert generations(log) == [(5, 1), (8, 1)]
    assert sorted(log.listing().entries) == [5, 6, 7, 8, 9], "a damaged snapshot 8 is made good from 5"


def test_how_far_a_checkpoint_can_be_rewound_keeps_older_snapshots(log):
    for batch in range(10):
        log.append(batch, 1, [b"x"])
        if batch in (2, 5, 8):
            snapshot(log, batch, 1)
    assert list(log.prune(committed=9, keep_batches=6)) == []
    assert generations(log) == [(2, 1), (5, 1), (8, 1)]
    assert [one.batch for one in log.prune(committed=11, keep_batches=6)] == [2], "5 is old enough to be rewound to"


def test_with_one_snapshot_all_of_the_log_stays(log):
    for batch in range(5):
        log.append(batch, 1, [b"x"])
    snapshot(log, 3, 1)
    assert list(log.prune(committed=100, keep_batches=1)) == []
    assert sorted(log.listing().entries) == [0, 1, 2, 3, 4]


def test_a_snapshot_stays_while_one_that_stays_names_its_blocks(log):
    for batch in range(9):
        log.append(batch, 1, [b"x"])
    snapshot(log, 2, 1)
    snapshot(log, 4, 1)
    snapshot(log, 5, 1, (2, 1))
    snapshot(log, 8, 1, (5, 1))
    assert [one.batch for one in log.prune(committed=8, keep_batches=1)] == [4]
    assert generations(log) == [(2, 1), (5, 1), (8, 1)]


def test_where_nobody_remembers_what_a_snapshot_names_no_snapshot_goes(log, tmp_path):
    for batch in range(10):
        log.append(batch, 1, [b"x"])
        if batch in (2, 5, 8):
            snapshot(log, batch, 1)
    restarted = StateLog(PosixStore(tmp_path), "state/bucket-3")
    assert list(restarted.prune(committed=9, keep_batches=2)) == []
    assert generations(restarted) == [(2, 1), (5, 1), (8, 1)]
    snapshot(restarted, 9, 1)
    snapshot(restarted, 10, 1)
    assert [one.batch for one in restarted.prune(committed=10, keep_batches=1)] == [2, 5, 8], "two of its own: they name all that counts"


def test_what_replaced_owners_wrote_is_deleted(log):
    log.append(4, 1, [b"old"])
    log.append(4, 2, [b"new"])
    snapshot(log, 4, 1)
    log.prune(committed=4, keep_batches=20)
    assert [stored.name for stored in log.store.names("state/bucket-3")] == [log.entry_name(4, 2)]


@settings(max_examples=60, deadline=None)
@given(
    last=st.integers(1, 30),
    snapshots=st.sets(st.integers(0, 29)),
    committed=st.integers(0, 30),
    keep=st.integers(1, 12),
    epochs=st.lists(st.integers(1, 3), min_size=30, max_size=30),
)
def test_after_pruning_every_batch_that_can_be_asked_for_can_be_rebuilt_twice(tmp_path_factory, last, snapshots, committed, keep, epochs):
    """From the newest snapshot before it, and from the one before that; what was complete before stays complete."""
    log = StateLog(PosixStore(tmp_path_factory.mktemp("log")), "state/bucket-0")
    for batch in range(last):
        log.append(batch, epochs[batch], [b"x"])
        if batch in snapshots:
            snapshot(log, batch, epochs[batch])
    committed = min(committed, last - 1)
    before = {batch: starts(log, batch) for batch in range(last + 1)}
    log.prune(committed, keep)
    for batch in range(max(0, committed - keep + 1), last + 1):
        after = starts(log, batch)
        assert after[:1] == before[batch][:1], "nobody has to feed more than before"
    assert len(starts(log, last)) >= min(2, len(before[last])), "a damaged snapshot can be passed over"


def starts(log: StateLog, batch: int) -> list[int]:
    """Snapshots (or -1: the beginning) from which the state before a batch can be rebuilt, the newest first."""
    listing = log.listing()
    known = [one.batch for one in listing.generations if one.batch < batch]
    return [start for start in sorted([-1, *known], reverse=True) if all(between in listing.entries for between in range(start + 1, batch))]


@pytest.mark.parametrize("cut", [1, 6, 12, 21])
def test_a_torn_entry_is_named(log, tmp_path, cut):
    log.append(7, 1, [b"some", b"parts of it"])
    path = tmp_path / log.entry_name(7, 1)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(SnapshotError, match="log-000000000007-1"):
        log.entry(7, 1)


def test_a_missing_entry_names_itself(log):
    with pytest.raises(MissingError, match="log-000000000007-1"):
        log.entry(7, 1)


def test_what_is_remembered_of_files_goes_with_the_snapshots(log):
    for batch in range(0, 100, 10):
        snapshot(log, batch, 1)
        log.append(batch, 1, [b"entry"])
        log.prune(batch, 20)
    assert len(log._files) <= len(generations(log)) + 1 <= 5, "those that went with the last call, at most"


def test_a_snapshot_that_could_not_be_read_is_none_to_fall_back_on(log):
    for batch in range(40):
        log.append(batch, 1, [b"entry"])
    for batch in (9, 19, 29):
        snapshot(log, batch, 1)
    log.pass_over(Generation(19, 1))
    log.prune(39, 5)
    assert generations(log) == [(9, 1), (19, 1), (29, 1)], "two whole ones"
    assert min(log.listing().entries) == 9, "and the log since the first of them"
    snapshot(log, 39, 1)
    log.prune(49, 5)
    assert generations(log) == [(29, 1), (39, 1)]
