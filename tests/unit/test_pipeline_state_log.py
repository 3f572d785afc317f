"""The state log: what a bucket was fed, checked, pruned."""

import pytest
from app.pipeline.state_log import StateLog, framed, unframed

from app.errors import SnapshotError


@pytest.fixture
def log(tmp_path):
    return StateLog(str(tmp_path), "query", 3)


def test_parts_come_back_as_they_were(log):
    log.append(0, [b"head", b"", b"\x00chunk"])
    assert log.entry(0) == [b"head", b"", b"\x00chunk"]


def test_a_repeated_batch_replaces_the_same_entry(log):
    log.append(4, [b"a"])
    log.append(4, [b"a"])
    assert log.position().entries == (4,)


def test_snapshot_before_the_last_and_what_follows_it_stay(log):
    for batch in range(10):
        log.append(batch, [b"x"])
        if batch in (2, 5, 8):
            log.write_snapshot(batch, [b"state"])
    position = log.position()
    assert position.snapshots == (5, 8)
    assert position.entries == (6, 7, 8, 9), "a repetition of batch 8 starts from snapshot 5"


@pytest.mark.parametrize("cut", [0, 5, 11, 20])
def test_a_torn_file_is_noticed(cut):
    whole = framed([b"some", b"parts of it"])
    with pytest.raises(SnapshotError):
        unframed(whole[: len(whole) - 1 - cut])


def test_a_changed_byte_is_noticed():
    whole = bytearray(framed([b"some", b"parts"]))
    whole[-1] ^= 1
    with pytest.raises(SnapshotError):
        unframed(bytes(whole))


def test_a_missing_entry_names_itself(log):
    with pytest.raises(SnapshotError, match="log-000000000007"):
        log.entry(7)


def test_uris_are_folders_too(tmp_path):
    log = StateLog(f"file://{tmp_path}", "query", 0)
    log.append(0, [b"x"])
    assert (tmp_path / "cep-state" / "query" / "bucket-0" / "log-000000000000.bin").exists()
