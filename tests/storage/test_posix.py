"""What is particular to files on a disk: the order of syncs and renames, full disks, folders that cannot be used."""

import os
import subprocess
from pathlib import Path

import pytest

from app.storage.posix import PosixStore
from app.storage.store import StorageAwayError, StorageError, Stored


@pytest.fixture
def effects(monkeypatch, tmp_path):
    """What was made durable, in order, as ("sync" | "rename", path below the test's folder)."""
    done = []
    sync, rename = os.fsync, os.rename

    def fsync(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(tmp_path)
        done.append(("sync", str(path.parent / "draft") if path.parent.name == ".drafts" else str(path)))
        sync(descriptor)

    def renaming(source, target, **options):
        done.append(("rename", str(Path(target).relative_to(tmp_path))))
        rename(source, target, **options)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", renaming)
    return done


def test_a_file_is_synced_before_its_rename_and_its_folder_after_it(tmp_path, effects):
    store = PosixStore(tmp_path / "root")
    store.write("state/a", [b"1"])
    effects.clear()
    store.write("state/b", [b"1"])
    assert effects == [("sync", "root/.drafts/draft"), ("rename", "root/state/b"), ("sync", "root/state")]


def test_a_file_of_the_scratch_folder_is_synced_before_its_rename(tmp_path, effects):
    store = PosixStore(tmp_path / "root")
    store.write("state/a", [b"1"])
    path = store.scratch() / "mine"
    path.write_bytes(b"1")
    effects.clear()
    store.write_file("state/b", path)
    assert effects == [("sync", "root/.drafts/draft"), ("rename", "root/state/b"), ("sync", "root/state")]


def test_a_new_folder_is_made_durable_from_above(tmp_path, effects):
    PosixStore(tmp_path / "root").write("state/bucket-3/a", [b"1"])
    synced = [path for what, path in effects if what == "sync"]
    assert synced == [".", "root", "root/.drafts/draft", "root", "root/state", "root/state/bucket-3"]


def test_a_folder_that_was_removed_is_made_again(tmp_path):
    store = PosixStore(tmp_path)
    store.write("x/a", [b"1"])
    store.delete(["x/a"])
    (tmp_path / "x").rmdir()
    store.write("x/a", [b"2"])
    assert store.read("x/a") == b"2"


def test_a_failing_sync_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    store = PosixStore(tmp_path)
    store.write("a", [b"old"])

    def broken(descriptor):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StorageError, match=r"cannot write a in .*: input/output error"):
        store.write("a", [b"new"])
    assert store.read("a") == b"old"
    assert list((tmp_path / ".drafts").iterdir()) == []


def test_a_folder_where_a_file_should_be_is_refused_by_name(tmp_path):
    (tmp_path / "a").mkdir()
    store = PosixStore(tmp_path)
    with pytest.raises(StorageError, match=r"cannot read a in .*: is a directory"):
        store.read("a")
    with pytest.raises(StorageError, match=r"cannot write a in "):
        store.write("a", [b"x"])
    with pytest.raises(StorageError, match=r"cannot delete a in "):
        store.delete(["a"])


def test_a_file_where_a_folder_should_be_is_refused_by_name(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(StorageError, match=r"cannot write a/b in .*: file exists\nhint: a file lies where a folder should be") as told:
        PosixStore(tmp_path).write("a/b", [b"x"])
    assert not isinstance(told.value, StorageAwayError), "waiting does not help"
    with pytest.raises(StorageError, match=r"cannot make .drafts in .*: file exists\nhint: a file lies where a folder should be"):
        PosixStore(tmp_path / "a").write("b", [b"x"])


def test_a_file_made_on_another_file_system_is_refused_with_what_to_do(tmp_path):
    if not os.access("/dev/shm", os.W_OK) or Path("/dev/shm").stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is only one file system")
    foreign = Path(f"/dev/shm/cep-test-{os.getpid()}")
    foreign.write_bytes(b"x")
    try:
        with pytest.raises(StorageError, match=r"hint: make the file in the folder that scratch\(\) names"):
            PosixStore(tmp_path).write_file("a", foreign)
    finally:
        foreign.unlink()


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_is_told_and_keeps_what_was_there(small_disk):
    store = PosixStore(small_disk)
    store.write("a", [b"old"])
    with pytest.raises(StorageAwayError, match=r"cannot write a in .*: no space left on device\nhint: make room there"):
        store.write("a", [b"x" * 700_000, b"x" * 700_000])
    assert store.read("a") == b"old"
    assert store.names() == [Stored("a", 3)]
    assert store.write("b", [b"x" * 500_000]) == 500_000


def test_a_disk_that_is_mounted_for_reading_is_told(small_disk):
    store = PosixStore(small_disk)
    store.write("a", [b"old"])
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(StorageError, match=r"hint: mount it writable"):
        PosixStore(small_disk).write("b", [b"new"])
    assert PosixStore(small_disk).read("a") == b"old"


def test_files_of_somebody_else_are_synced_with_their_checksums_and_folders(tmp_path, effects):
    root = tmp_path / "root"
    for folder in ("spark/offsets", "spark/commits"):
        (root / folder).mkdir(parents=True)
    for name in ("spark/offsets/3", "spark/offsets/.3.crc", "spark/commits/2"):
        (root / name).write_text("x")
    PosixStore(root).sync(["spark/offsets/3", "spark/commits/2", "spark/commits/9"])
    assert effects == [
        ("sync", "root/spark/offsets/3"),
        ("sync", "root/spark/offsets/.3.crc"),
        ("sync", "root/spark/commits/2"),
        ("sync", "root/spark/offsets"),
        ("sync", "root/spark/commits"),
    ]
