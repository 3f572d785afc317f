"""Programs of the chart that run in the image, and the installer of the checkers."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.control.server.health import Flag, Health
from app.control.server.http import ControlServer, Endpoints
from app.control.server.registry_watch import Ruling
from app.observe.logs import levels, set_level
from ops.tools import pins as pins_module
from ops.tools.__main__ import UnavailableError, ran
from ops.tools.pins import pins, tools_folder
from tests.chart.conftest import PROJECT

CHECK = PROJECT / "ops" / "image" / "release_check.py"
DECOMMISSION = PROJECT / "ops" / "image" / "decommission.sh"


class Driver:
    """The driver's real server, with answers that a test chooses."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.health, self.ready = Health(), Flag("no query runs yet")
        self.health.add("readyz", "query", self.ready.check)
        self.metrics = b"cep_leader 1.0\n"
        self.queries: object = {"queries": [{"query": "a", "status": "running"}, {"query": "old", "status": "draining"}]}
        endpoints = Endpoints(
            token="secret",
            health=self.health,
            metrics=lambda: (self.metrics, "text/plain; version=1.0.0"),
            queries=lambda: self.queries,
            version=dict,
            log_levels=levels,
            set_log_level=set_level,
            registry=lambda notice: Ruling("use"),
        )
        self.server = ControlServer(host, 0, endpoints)

    def check(self, seconds: float = 0, host: str = "127.0.0.1") -> subprocess.CompletedProcess[str]:
        """The program, asking this server."""
        url = f"http://{host}:{self.server.port}/"
        argv = [sys.executable, "-S", str(CHECK), str(seconds), url, url]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def driver() -> Iterator[Driver]:
    running = Driver()
    yield running
    running.server.close()


def test_a_release_that_runs_passes(driver):
    driver.ready.good()
    done = driver.check()
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        ["[+]/livez?verbose ok", "[+]/readyz?verbose ok", "[+]/metrics ok", "[+]/queries ok"],
    )


def has_ipv6() -> bool:
    """Whether this machine can listen on its own IPv6 address."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 on this machine")
@pytest.mark.parametrize(("listens", "asked"), [("::1", ["[::1]"]), ("::", ["[::1]", "127.0.0.1"]), ("0.0.0.0", ["127.0.0.1"])])
def test_a_driver_is_found_at_the_address_that_the_chart_gives_it(listens, asked):
    driver = Driver(listens)
    with closing(driver.server):
        driver.ready.good()
        assert [driver.check(host=host).returncode for host in asked] == [0] * len(asked)


def broken(driver: Driver) -> None:
    driver.queries = {"queries": [{"query": "a", "status": "broken"}]}


def follower(driver: Driver) -> None:
    driver.metrics = b"cep_leader 0.0\n"


def not_ready(driver: Driver) -> None:
    driver.ready.bad("broker away")


@pytest.mark.parametrize(
    ("change", "line"),
    [(broken, "[-]/queries a: broken"), (follower, "[-]/metrics cep_leader is not 1"), (not_ready, "broker away")],
)
def test_what_is_wrong_is_told(driver: Driver, change: Callable[[Driver], None], line: str):
    driver.ready.good()
    change(driver)
    done = driver.check()
    assert done.returncode == 1
    assert line in done.stdout


def test_a_driver_that_is_not_there_is_told_and_not_a_crash(driver):
    driver.server.close()
    done = driver.check()
    assert done.returncode == 1
    assert done.stdout.count("[-]") == 4
    assert done.stderr == ""


def test_an_executor_that_is_to_go_is_told_by_sigpwr_and_waited_for(tmp_path):
    """The hook finds Java by its name and ends when Java has."""
    java = tmp_path / "java"
    shutil.copy("/bin/sh", java)
    script = f"trap 'echo told > {tmp_path}/told; exit 0' PWR; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen([str(java), "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        folder = tmp_path / "proc" / str(process.pid)
        folder.mkdir(parents=True)
        (folder / "comm").write_text("java\n")
        other = tmp_path / "proc" / str(os.getpid())
        other.mkdir()
        (other / "comm").write_text("python\n")
        hook = subprocess.Popen([str(DECOMMISSION)], env={**os.environ, "PROC": str(tmp_path / "proc")})
        assert process.wait(timeout=60) == 0
        assert hook.wait(timeout=60) == 0
    assert (tmp_path / "told").read_text() == "told\n"


def test_the_hook_fails_no_deletion_when_there_is_no_java(tmp_path):
    (tmp_path / "proc").mkdir()
    assert (
        subprocess.run(
            [str(DECOMMISSION)], env={"PROC": str(tmp_path / "proc"), "PATH": os.environ["PATH"]}, check=False, timeout=60
        ).returncode
        == 0
    )


def test_the_charts_programs_are_where_the_image_has_them():
    lines = (PROJECT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert "COPY ops/image ops/image" in lines
    for program in ("decommission.sh", "release_check.py"):
        named = [
            p.name for p in (PROJECT / "helm" / "templates").rglob("*") if p.is_file() and f"/opt/cep/ops/image/{program}" in p.read_text()
        ]
        assert named, program
    assert os.access(DECOMMISSION, os.X_OK)


def test_every_program_has_a_version_and_a_checksum():
    known = pins()
    assert {"helm", "helm3", "helm-unittest", "kubeconform", "kube-score", "helm-docs", "hadolint", "promtool", "prometheus"} == set(
        known.programs
    )
    assert all(re.fullmatch(r"h1:[A-Za-z0-9+/]{43}=", one.sum) and one.version.startswith("v") for one in known.modules)
    assert all(re.fullmatch(r"[0-9a-f]{64}", one.sha256) for one in known.wheels)


def test_the_installer_names_no_host():
    for path in sorted(Path(pins_module.__file__).parent.glob("*.*")):
        assert "://" not in path.read_text(encoding="utf-8"), "packages come from where this machine's go, pip and apt fetch theirs"


def test_another_table_is_another_folder(monkeypatch, tmp_path):
    before = tools_folder()
    other = tmp_path / "pins.toml"
    other.write_text(pins_module.FILE.read_text() + "\n# raised\n")
    monkeypatch.setattr(pins_module, "FILE", other)
    assert tools_folder() != before


def test_a_program_that_cannot_be_had_is_told_and_no_crash(tmp_path):
    with pytest.raises(UnavailableError, match="no-such-program"):
        ran(["no-such-program"])
    with pytest.raises(UnavailableError, match="because"):
        ran(["sh", "-c", "echo because >&2; exit 3"])
