"""What every store promises, whatever it stands on."""

import os
import signal
import subprocess
import sys
import threading
from array import array
from random import Random
from typing import Self

import pytest

from app.storage.open import open_store
from app.storage.store import MissingError, StorageError, Stored

NAME = "state/bucket-3/log-000000000007-12.bin"


def test_what_was_written_is_read_by_others(store, reopened):
    assert store.write(NAME, [b"abc", memoryview(b"de"), bytearray(b"f")]) == 6
    assert reopened().read(NAME) == b"abcdef"


def test_parts_of_any_items_are_written_as_their_bytes(store):
    assert store.write("a", [memoryview(array("d", [1.0, 2.0]))]) == 16
    assert store.read("a") == array("d", [1.0, 2.0]).tobytes()


def test_an_empty_file_is_a_file(store):
    assert store.write("a", []) == 0
    assert store.read("a") == b""
    assert store.names() == [Stored("a", 0)]


def test_writing_again_replaces(store):
    store.write("a", [b"longer"])
    store.write("a", [b"new"])
    assert store.read("a") == b"new"


def test_a_small_upload_that_fails_leaves_what_was_there_before(s3_uri, tmp_path, monkeypatch):
    store = open_store(s3_uri, tmp_path / "scratch")
    store.write("numbers.bin", [b"good"])
    files = store._files
    with monkeypatch.context() as patched:
        patched.setattr(store, "_opened", Refusing(files))
        with pytest.raises(StorageError):
            store.write("numbers.bin", [b"better"])
    assert store.read("numbers.bin") == b"good"


class Refusing:
    """A server that takes no upload, and does all else."""

    def __init__(self, files) -> None:
        self.delete_file = files.delete_file

    def open_output_stream(self, _name: str) -> "Refusing":
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        raise OSError("503 slow down")

    def write(self, _: object) -> None:
        """It is kept until the end."""


def test_parts_that_raise_leave_what_was_there_before(store):
    store.write("a", [b"old"])

    def breaking():
        yield b"x" * 100
        raise RuntimeError("the state cannot be told")

    for name in ("a", "b/c"):
        with pytest.raises(RuntimeError):
            store.write(name, breaking())
    assert store.read("a") == b"old"
    assert store.names() == [Stored("a", 3)]
    assert list(store.scratch().iterdir()) == []


def test_nobody_sees_a_file_before_all_of_it_was_written(store, reopened):
    seen = []

    def looking():
        yield b"half"
        seen.extend(reopened().names())
        yield b" and half"

    store.write("a", looking())
    assert seen == []
    assert reopened().read("a") == b"half and half"


def test_two_attempts_of_one_name_do_not_mix(store, reopened):
    def overtaken():
        yield b"fi"
        other = reopened()
        other.write("a", [b"second"])
        assert other.read("a") == b"second"
        yield b"rst"

    store.write("a", overtaken())
    assert store.read("a") == b"first"
    assert store.names() == [Stored("a", 5)]


def test_attempts_at_the_same_time_leave_one_of_them_whole(store, reopened):
    contents = [bytes([k]) * 100_000 for k in range(6)]
    threads = [threading.Thread(target=lambda c=content: reopened().write("a", [c[:50_000], c[50_000:]])) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.read("a") in contents


WRITER = """
import sys
from pathlib import Path
from app.storage.open import open_store
store = open_store(sys.argv[1], Path(sys.argv[2]))
print("ready", flush=True)
for number in range(1_000_000):
    store.write("a", (bytes([number % 256]) * 1_000_000 for _ in range(7)))
    if not number:
        print("written", flush=True)
"""


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_whole_files(store, uri, tmp_path):
    random = Random(11)
    for _ in range(4):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, uri, str(tmp_path / "writer")], stdout=subprocess.PIPE)
        assert [writer.stdout.readline() for _ in range(2)] == [b"ready\n", b"written\n"]
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(random.uniform(0.05, 0.6))
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        assert store.names() == [Stored("a", 7_000_000)]
        assert len(set(store.read("a"))) == 1


def test_a_writer_that_is_killed_in_the_middle_leaves_nothing(store, uri, tmp_path):
    code = f"import sys\nfrom pathlib import Path\nfrom app.storage.open import open_store\nstore = open_store({uri!r}, Path({str(tmp_path / 'w')!r}))\n"
    code += "def parts():\n    yield b'x' * 7_000_000\n    print('half', flush=True)\n    yield sys.stdin.buffer.read()\nstore.write('a', parts())"
    writer = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"half\n"
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    assert store.names() == []
    with pytest.raises(MissingError):
        store.read("a")


def test_a_missing_file_is_told_by_its_name(store):
    store.write("there", [b"x"])
    with pytest.raises(MissingError, match="there is no state/nowhere in "):
        store.read("state/nowhere")
    with pytest.raises(MissingError, match="there is no state/nowhere in "):
        store.read_range("state/nowhere", 0, 1)


def test_ranges(store):
    store.write("a", [b"0123456789"])
    assert store.read_range("a", 3, 4) == b"3456"
    assert store.read_range("a", 0, 10) == b"0123456789"
    assert store.read_range("a", 10, 0) == b""


@pytest.mark.parametrize(("offset", "length"), [(8, 3), (10, 1), (20, 5)])
def test_a_range_beyond_the_end_is_an_error_that_says_how_long_the_file_is(store, offset, length):
    store.write("a", [b"0123456789"])
    with pytest.raises(StorageError, match=f"cannot read a in .* up to byte {offset + length}: it has 10"):
        store.read_range("a", offset, length)


def test_listing_is_deep_sorted_and_of_this_folder_alone(store):
    for name in ("state/b-10/log", "state/b-1/log", "state/b-1/deep/er", "directives/1"):
        store.write(name, [name.encode()])
    assert [file.name for file in store.names()] == ["directives/1", "state/b-1/deep/er", "state/b-1/log", "state/b-10/log"]
    assert store.names("state/b-1") == [Stored("state/b-1/deep/er", 17), Stored("state/b-1/log", 13)]
    assert store.names("nowhere") == []


def test_listing_an_empty_store_is_empty(store):
    assert store.names() == []


def test_deleted_files_are_gone_and_deleting_them_again_is_no_error(store):
    for name in ("x/a", "x/b", "x/c"):
        store.write(name, [b"1"])
    store.delete(["x/a", "x/c", "x/never"])
    assert store.names() == [Stored("x/b", 1)]
    store.delete(["x/b", "x/a"])
    assert store.names() == store.names("x") == []
    store.delete([])


def test_files_made_in_the_scratch_folder_become_files_of_the_store(store, reopened):
    path = store.scratch() / "of my own"
    path.write_bytes(b"0" * 10_000)
    assert store.names() == []
    assert store.write_file("snapshots/1", path) == 10_000
    assert not path.exists()
    assert reopened().read("snapshots/1") == b"0" * 10_000


def test_an_empty_file_of_the_scratch_folder_is_taken(store):
    path = store.scratch() / "empty"
    path.touch()
    assert store.write_file("a", path) == 0
    assert store.read("a") == b""


def test_sweeping_takes_what_dead_attempts_left_and_nothing_else(store):
    store.write("a", [b"1"])
    for name, age_s in (("dead", 3700), ("alive", 60)):
        path = store.scratch() / name
        path.write_bytes(b"draft")
        written = path.stat().st_mtime - age_s
        os.utime(path, (written, written))
    dead_folder = store.scratch() / "dead folder"
    dead_folder.mkdir()
    (dead_folder / "x").touch()
    os.utime(dead_folder, (1, 1))
    assert store.sweep() == 2
    assert [path.name for path in store.scratch().iterdir()] == ["alive"]
    assert store.names() == [Stored("a", 1)]


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../a", "a/../b", "a//b", "a/", ".hidden", "a/.b", "./a", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(store, name):
    for attempt in (
        lambda: store.write(name, [b"x"]),
        lambda: store.read(name),
        lambda: store.delete([name]),
        lambda: store.read_range(name, 0, 1),
    ):
        with pytest.raises(StorageError, match="is no name of a stored file"):
            attempt()


def test_foreign_hidden_files_are_not_shown(store, uri, tmp_path):
    store.write("spark/offsets/1", [b"1"])
    if "://" in uri:
        key = f"{uri.removeprefix('s3://').partition('?')[0]}/spark/offsets/.1.crc"
        with store._files.open_output_stream(key) as stream:
            stream.write(b"x")
    else:
        (store.root / "spark/offsets/.1.crc").write_bytes(b"x")
    assert store.names("spark/offsets") == [Stored("spark/offsets/1", 1)]


def test_a_file_that_is_too_large_for_memory_is_written_whole(store, monkeypatch):
    monkeypatch.setattr("app.storage.objects.IN_MEMORY", 1000)
    assert store.write("a", (bytes([k]) * 300 for k in range(10))) == 3000
    assert store.read("a") == b"".join(bytes([k]) * 300 for k in range(10))
    assert list(store.scratch().iterdir()) == []
