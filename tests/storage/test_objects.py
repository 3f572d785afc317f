"""What is particular to S3: buckets that are missing, servers that are away, how many requests a file costs."""

import os
import signal
from pathlib import Path

import pytest

from app.storage import objects
from app.storage.open import open_store
from app.storage.store import StorageAwayError, StorageError


def test_a_missing_bucket_is_told(s3_server, tmp_path):
    uri = f"s3://no-such-bucket/x?scheme=http&endpoint_override={s3_server.removeprefix('http://')}"
    with pytest.raises(StorageError, match=r"cannot write a in s3://no-such-bucket/x.*NO_SUCH_BUCKET"):
        open_store(uri, tmp_path).write("a", [b"x"])


@pytest.mark.slow
def test_a_server_that_is_away_is_told(s3_server, tmp_path):
    store = open_store("s3://bucket/x?scheme=http&endpoint_override=127.0.0.1:9", tmp_path)
    for attempt in (lambda: store.write("a", [b"x"]), lambda: store.read("a"), store.names, lambda: store.delete(["a"])):
        with pytest.raises(StorageAwayError, match=r"in s3://bucket/x.*NETWORK_CONNECTION"):
            attempt()


def test_a_local_folder_that_is_full_is_not_told_as_the_bucket(tmp_path, monkeypatch):
    monkeypatch.setattr(objects, "IN_MEMORY", 1)
    monkeypatch.setattr(Path, "open", lambda *_: os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb"))
    with pytest.raises(StorageAwayError, match=rf"cannot write \w+ in {tmp_path}: no space left on device"):
        open_store("s3://bucket/x?scheme=http&endpoint_override=127.0.0.1:9", tmp_path).write("a", [b"xx"])


def test_both_names_of_the_scheme_mean_the_same(s3_uri, tmp_path):
    open_store(s3_uri, tmp_path).write("a", [b"x"])
    assert open_store(s3_uri.replace("s3://", "s3a://"), tmp_path).read("a") == b"x"


def test_a_whole_bucket_can_be_a_store(s3_uri, bucket, tmp_path):
    store = open_store(s3_uri.replace("/a/checkpoint", ""), tmp_path)
    store.write("a/b", [b"x"])
    assert [file.name for file in store.names()] == ["a/b"]
    assert store.read("a/b") == b"x"


def test_files_of_a_prefix_that_begins_alike_are_not_shown(s3_uri, tmp_path):
    open_store(s3_uri.replace("/a/checkpoint", "/a/checkpoint-2"), tmp_path).write("b", [b"x"])
    assert open_store(s3_uri, tmp_path).names() == []


def test_a_file_of_several_uploaded_parts_is_whole(s3_uri, tmp_path):
    store = open_store(s3_uri, tmp_path)
    content = bytes(range(256)) * 100_000
    path = store.scratch() / "large"
    path.write_bytes(content)
    assert store.write_file("a", path) == len(content)
    assert store.read("a") == content
    assert store.read_range("a", 12_800_000, 256) == bytes(range(256))


def test_a_small_file_costs_one_request(s3_uri, s3_requests, tmp_path):
    store = open_store(s3_uri, tmp_path)
    before = len(s3_requests())
    store.write("a", [b"x"])
    assert len(s3_requests()) == before + 1


def test_a_forked_process_opens_a_store_of_its_own(s3_uri, tmp_path):
    open_store(s3_uri, tmp_path).write("before", [b"x"])
    child = os.fork()
    if not child:
        signal.alarm(60)  # a client that waits for threads of its parent waits for ever
        try:
            open_store(s3_uri, tmp_path).write("after", [b"y"])
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert open_store(s3_uri, tmp_path).read("after") == b"y"
