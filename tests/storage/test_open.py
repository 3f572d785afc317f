"""A place is a folder or an S3 bucket; anything else is refused with what works."""

import pytest

from app.config.addresses import BucketAddress, FolderAddress, parse_address
from app.errors import ConfigurationError
from app.storage.objects import ObjectStore
from app.storage.open import open_store
from app.storage.posix import PosixStore


@pytest.mark.parametrize("uri", ["{}", "file:{}", "file://{}", "file://localhost{}"])
def test_folders(uri, tmp_path):
    store = open_store(uri.format(tmp_path))
    assert isinstance(store, PosixStore)
    assert store.root == tmp_path


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_buckets(scheme):
    store = open_store(f"{scheme}://bucket/some/where/?endpoint_override=minio:9000&scheme=http&region=eu-1")
    assert isinstance(store, ObjectStore)
    assert store.uri == "s3://bucket/some/where?scheme=http&endpoint_override=minio%3A9000&region=eu-1"
    assert parse_address(store.uri) == BucketAddress("bucket", "some/where", "http://minio:9000", "eu-1")


@pytest.mark.parametrize("uri", ["hdfs://name/x", "gs://b/x", "abfs://c@a/x", "s3n://b/x", "http://x/y", "dbfs://x"])
def test_other_file_systems_are_refused_with_what_works(uri):
    with pytest.raises(ConfigurationError, match=r"is no place for a checkpoint; what works: a folder .* and an S3 bucket \(s3a://"):
        open_store(uri)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("", "an empty path is no place"),
        ("s3a:///x", "names no bucket"),
        ("s3a://key:secret@b/x", "no credentials in the path"),
        ("s3a://b/x?endpoint=y", 'unknown option "endpoint" in the path'),
        ("file:relative", "names no folder of this machine"),
        ("file://host/x", "names no folder of this machine"),
    ],
)
def test_what_cannot_be_meant_is_refused(uri, reason):
    with pytest.raises(ConfigurationError, match=reason) as refused:
        open_store(uri)
    assert "secret" not in str(refused.value)


def test_a_colon_in_a_folder_is_no_scheme():
    assert parse_address("/data/a:b") == FolderAddress("/data/a:b")
    assert parse_address("a:b") == FolderAddress("a:b")
