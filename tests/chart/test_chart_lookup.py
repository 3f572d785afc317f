"""What the chart reads of a cluster while it is installed: on the fake one, without any pod."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.cluster import TOOLS
from tests.chart.conftest import documents, run_over_chart

SECURITY = {
    "protocol": "SASL_SSL",
    "mechanism": "PLAIN",
    "username": "cep",
    "existingSecret": "kafka-user",
    "keys": {"password": "password"},
}
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not (TOOLS / "fakekube").is_dir() or os.geteuid() != 0:
        pytest.skip("needs fakekube (CEP_TOOLS, or beside the project) and root")
    sys.path.insert(0, str(TOOLS / "fakekube"))
    from fk.cli import FakeKube

    folder = tmp_path_factory.mktemp("cluster")
    (folder / "images.toml").write_text("")
    with FakeKube(images=str(folder / "images.toml"), state=str(folder / "state")) as kube:
        kubectl(kube.kubeconfig, "create", "namespace", "stores")
        yield kube.kubeconfig


def kubectl(kubeconfig: str, *arguments: str) -> str:
    done = subprocess.run(
        ["kubectl", *arguments], capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "KUBECONFIG": kubeconfig}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def rendered(helm: str, kubeconfig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The annotations of the driver's pod that an installation would make of values, nothing installed."""
    monkeypatch.setenv("KUBECONFIG", kubeconfig)

    def annotations(values: dict[str, Any]) -> dict[str, Any]:
        done = run_over_chart(helm, tmp_path, "install", values, ("-n", "stores", "--dry-run=server", "--hide-notes"))
        assert done.returncode == 0, done.stderr
        manifest = done.stdout[done.stdout.index("MANIFEST:") :].split("\n", 1)[1]
        driver = next(o for o in documents(manifest) if o["kind"] == "StatefulSet")
        return dict(driver["spec"]["template"]["metadata"]["annotations"])

    return annotations


def test_a_changed_existing_secret_restarts_the_driver_where_that_is_wanted(rendered, kubeconfig):
    def password(text: str) -> None:
        kubectl(kubeconfig, "-n", "stores", "delete", "secret", "kafka-user", "--ignore-not-found")
        kubectl(kubeconfig, "-n", "stores", "create", "secret", "generic", "kafka-user", f"--from-literal=password={text}")

    wanted = {"kafka": {"security": SECURITY}, "checksums": {"existing": True}}
    password("one")
    before = rendered(wanted)
    assert rendered(wanted) == before
    password("two")
    after = rendered(wanted)
    assert {name for name in after if after[name] != before[name]} == {"checksum/existing"}
    assert "checksum/existing" not in rendered({"kafka": {"security": SECURITY}})


def test_so_does_the_token_by_which_driver_and_executors_know_each_other(rendered, kubeconfig):
    def token(text: str) -> None:
        kubectl(kubeconfig, "-n", "stores", "delete", "secret", "cep-token", "--ignore-not-found")
        kubectl(kubeconfig, "-n", "stores", "create", "secret", "generic", "cep-token", f"--from-literal=token={text}")

    wanted = {"internalToken": {"existingSecret": "{{ .Chart.Name }}-token"}, "checksums": {"existing": True}}
    token("one")
    before = [rendered(values)["checksum/existing"] for values in (wanted, {**wanted, "mode": "local"})]
    token("two")
    after = [rendered(values)["checksum/existing"] for values in (wanted, {**wanted, "mode": "local"})]
    assert (before[0] == after[0], before[1] == after[1]) == (False, True), "a driver alone has none"


def test_a_changed_configmap_of_queries_restarts_a_driver_that_does_not_watch_them(rendered, kubeconfig):
    def queries(text: str) -> None:
        kubectl(kubeconfig, "-n", "stores", "delete", "configmap", "team", "--ignore-not-found")
        kubectl(kubeconfig, "-n", "stores", "create", "configmap", "team", f"--from-literal=a.yaml={text}")

    watched = {"queries": {"existingConfigMaps": ["team"]}, "checksums": {"existing": True}}
    unwatched = {**watched, "settings": {"queries": {"reload": {"enabled": False}}}}
    queries("name: a")
    before = [rendered(values)["checksum/existing"] for values in (watched, unwatched)]
    queries("name: b")
    after = [rendered(values)["checksum/existing"] for values in (watched, unwatched)]
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)
