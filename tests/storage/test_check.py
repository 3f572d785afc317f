"""Whether a checkpoint can be kept at a place is known before anything starts."""

import os
from pathlib import Path

import pytest

from app.config.addresses import BucketAddress, FolderAddress
from app.errors import ConfigurationError, DependencyError, Severity
from app.storage import check
from app.storage.check import look
from app.storage.store import StorageAwayError
from app.storage.trial import try_out


@pytest.fixture
def read_only(monkeypatch):
    """Who runs the tests may be root, whom no permission holds back."""
    monkeypatch.setattr(check.os, "access", lambda path, mode: False)


def test_looking_makes_nothing(tmp_path):
    assert look(FolderAddress(str(tmp_path / "a/b"))) == []
    assert list(tmp_path.iterdir()) == []
    assert look(BucketAddress("no-such-bucket", "x", "http://127.0.0.1:9")) == []


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path, read_only):
    (finding,) = look(FolderAddress(str(tmp_path)))
    assert finding.message == f"checkpoint.path: cannot write to {tmp_path}"
    assert finding.severity is Severity.ERROR


def test_a_folder_that_is_not_there_may_be_another_machines(tmp_path, read_only):
    (finding,) = look(FolderAddress(str(tmp_path / "a")))
    assert finding.severity is Severity.WARNING


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    for path in ("file", "file/checkpoint"):
        (finding,) = look(FolderAddress(str(tmp_path / path)))
        assert "file is no folder" in finding.message
        with pytest.raises(ConfigurationError, match="a file lies where a folder should be"):
            try_out(FolderAddress(str(tmp_path / path)))


def test_a_full_disk_is_no_wrong_configuration(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "open", lambda *_, **__: os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb"))
    with pytest.raises(StorageAwayError, match=r"no space left on device\nhint: make room there"):
        try_out(FolderAddress(str(tmp_path)))


def test_trying_out_leaves_no_file(tmp_path):
    try_out(FolderAddress(str(tmp_path / "new")))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_a_bucket_that_works(bucket, s3_server):
    try_out(BucketAddress(bucket, "x", s3_server))


def test_a_bucket_that_is_missing_is_told_with_what_to_look_at(s3_server):
    with pytest.raises(DependencyError, match=r"NO_SUCH_BUCKET.*\nhint: are bucket, endpoint and region right"):
        try_out(BucketAddress("no-such-bucket", "x", s3_server))
