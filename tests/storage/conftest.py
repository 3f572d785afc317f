"""Stores for one suite that all of them must pass: on a disk, and on an S3 server."""

from collections.abc import Callable

import pytest

from app.storage.open import open_store
from app.storage.store import Store


@pytest.fixture
def s3_uri(s3_server: str, bucket: str) -> str:
    """A prefix in an empty bucket, as `open_store` takes it."""
    return f"s3://{bucket}/a/checkpoint?scheme=http&endpoint_override={s3_server.removeprefix('http://')}"


@pytest.fixture(params=["posix", "objects"])
def uri(request: pytest.FixtureRequest, tmp_path) -> str:
    """Where a store is: every test that takes it runs with both implementations."""
    return str(tmp_path / "checkpoint") if request.param == "posix" else request.getfixturevalue("s3_uri")


@pytest.fixture
def store(uri: str, tmp_path) -> Store:
    return open_store(uri, tmp_path / "scratch")


@pytest.fixture
def reopened(uri: str, tmp_path) -> Callable[[], Store]:
    """Another process's view of the same place."""
    return lambda: open_store(uri, tmp_path / "other scratch")
