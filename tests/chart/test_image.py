"""The image: built from the Dockerfile without Docker, run as restricted as Kubernetes would. Takes minutes: marker ``image``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chart.cluster import TOOLS

pytestmark = [pytest.mark.image, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def run(image: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run("python", "-m", ...)`: a command in the image, root read-only, /tmp writable."""

    def inside(*command: str) -> subprocess.CompletedProcess[str]:
        argv = [str(TOOLS / "run-image"), "--read-only", "--tmpfs", "/tmp", str(image), "--", *command]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)

    return inside


def test_the_application_says_its_version(run):
    done = run("python", "-m", "app", "version")
    assert done.returncode == 0, done.stderr
    assert "0.1.0" in done.stdout


def test_queries_are_validated_without_a_network(run):
    done = run("python", "-m", "app", "validate", "/opt/cep/queries")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_user_is_numeric_known_and_without_capabilities(run, image):
    assert json.loads((image / "config.json").read_text(encoding="utf-8"))["User"] == "10001:0"
    done = run("sh", "-c", "id -un; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; find / -xdev -type f -perm /6000 2>/dev/null")
    assert done.stdout.split() == ["cep", "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]


def test_the_bill_of_materials_names_what_is_inside(run):
    told = json.loads(run("cat", "/opt/cep/bom.json").stdout)
    names = {one["purl"].partition("@")[0] for one in told["components"]}
    assert {"pkg:pypi/pyspark", "pkg:pypi/numba", "pkg:generic/openjdk", "pkg:deb/debian/tini"} <= names
    assert any(name.endswith("/kafka-clients") for name in names)


def test_no_kernel_is_compiled_in_a_container(run):
    done = run("python", "ops/image/warm_kernels.py", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(tuple("123456789")), "there are kernels"


def test_no_module_is_compiled_in_a_container(run):
    done = run("python", "ops/image/bytecode.py", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 1000, "of the application and of all that it imports"


def test_plots_that_the_image_does_not_have_are_refused_before_the_work(run):
    done = run("python", "-m", "app", "evaluate", "--queries", "/opt/cep/queries", "--events", "/nowhere", "--plot", "/tmp/plot.png")
    assert done.returncode == 1
    assert "matplotlib" in done.stderr


def test_java_trusts_whom_the_system_trusts(run):
    done = run("sh", "-c", "test -s $JAVA_HOME/lib/security/cacerts && java --list-modules && ! command -v javac")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "jdk.incubator.vector" in done.stdout


def test_java_takes_the_archive_of_classes(run):
    java = """
import os, subprocess
from app.bootstrap.class_archive import class_archive, driver_class_path
from app.bootstrap.java import find_java
path = os.pathsep.join(map(str, driver_class_path()))
shared = ["-Xshare:on", f"-XX:SharedArchiveFile={class_archive()}", "-cp", path]  # on: without it Java ends
print(subprocess.run([find_java().command, *shared, "-Xlog:class+load", "org.apache.spark.util.ShutdownHookManager"], capture_output=True, text=True).stdout)
"""
    done = run("python", "-c", java)
    assert "org.apache.spark" in done.stdout, done.stdout[-2000:] + done.stderr
    assert "shared objects file (top)" in done.stdout, "from the archive, not from a jar"


def test_the_image_is_small(image):
    """2.2 GB with what nobody can reach (`ops/image/slim.sh`), and 1.7 with Debian's Java, plots, symbols and bytecode that nobody reads."""
    files = [path.lstat() for path in (image / "rootfs").rglob("*")]
    size = sum({(file.st_dev, file.st_ino): file.st_blocks * 512 for file in files}.values())
    assert size < 1.9e9


def test_jars_are_in_the_image_and_broker_and_registry_are_not(run):
    done = run("python", "-c", "from app.bootstrap.artifacts import connector_jars; print(*(jar.name for jar in connector_jars()))")
    assert "spark-sql-kafka" in done.stdout, done.stderr
    assert run("sh", "-c", "ls /opt/cep/cache/artifacts | cut -d- -f1").stdout.split() == ["connector", "s3"]
