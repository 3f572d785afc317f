"""The driver's JVM maps the archive of its classes."""

from pathlib import Path

import pytest

from app.bootstrap.class_archive import class_archive


def test_the_drivers_jvm_has_mapped_the_archive(spark):
    archive = class_archive()
    if archive is None:
        pytest.skip("no archive was made: python -m tests makes it")
    jvm = int(spark._jvm.ProcessHandle.current().pid())
    assert str(archive) in Path(f"/proc/{jvm}/maps").read_text()
