"""The image's bill of materials, made of what this very environment holds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = Path(sysconfig.get_path("purelib"))
needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="no machine of Debian's family")


def bill(*jars: Path) -> dict[str, dict]:
    argv = [sys.executable, "ops/image/bill_of_materials.py", "--python", str(SITE), "--jars", *map(str, jars)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    told = json.loads(done.stdout)
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.6")
    assert len({one["bom-ref"] for one in told["components"]}) == len(told["components"])
    return {one["purl"]: one for one in told["components"]}


@needs_dpkg
def test_packages_of_python_and_debian_are_there_with_their_versions(tmp_path: Path) -> None:
    found = bill(tmp_path)
    assert f"pkg:pypi/pyspark@{version('pyspark')}" in found
    assert f"pkg:pypi/scikit-learn@{version('scikit-learn')}" in found
    assert any(purl.startswith("pkg:deb/debian/libc6@") for purl in found)


@needs_dpkg
def test_an_archive_is_what_maven_says_of_it_and_not_what_was_packed_into_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "core-tool_2.13-1.7.jar", "w") as archive:
        archive.writestr("META-INF/maven/a.b/inner/pom.properties", "groupId=a.b\nartifactId=inner\nversion=9\n")
        archive.writestr("META-INF/maven/c.d/core-tool_2.13/pom.properties", "#made\ngroupId=c.d\nartifactId=core-tool_2.13\nversion=1.7\n")
    with zipfile.ZipFile(tmp_path / "nameless.jar", "w") as archive:
        archive.writestr("x", "")
    found = bill(tmp_path)
    assert found["pkg:maven/c.d/core-tool_2.13@1.7"]["group"] == "c.d"
    assert len(found["pkg:maven/c.d/core-tool_2.13@1.7"]["hashes"][0]["content"]) == 64
    assert "pkg:maven/nameless@unknown" in found
    assert not any("inner" in purl for purl in found)


@needs_dpkg
def test_a_runtime_that_is_no_package_is_named_by_its_release(tmp_path: Path) -> None:
    (tmp_path / "release").write_text('JAVA_VERSION="17.0.99"\nMODULES="java.base java.logging"\n')
    argv = [sys.executable, "ops/image/bill_of_materials.py", "--python", str(tmp_path), "--java", str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert "pkg:generic/openjdk@17.0.99" in {one["purl"] for one in json.loads(done.stdout)["components"]}


@needs_dpkg
def test_every_archive_of_spark_has_a_name_and_a_version() -> None:
    jars = SITE / "pyspark" / "jars"
    found = [one for purl, one in bill(jars).items() if purl.startswith("pkg:maven/")]
    assert len(found) > 100
    assert [one["name"] for one in found if one["version"] == "unknown"] == []
