"""Helm, and what it makes of the chart. Without Helm these tests skip; `python -m ops.tools` installs it, and so does `python3 -m tests`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.bootstrap.places import cache_folder
from tests.chart.cluster import TOOLS
from tests.tools import program

PROJECT = Path(__file__).resolve().parents[2]
CHART = PROJECT / "helm"
REQUIRED = {"kafka": {"bootstrapServers": "kafka:9092"}, "schemaRegistry": {"url": "http://registry:8081"}}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each of these tests runs programs of others: seconds apiece where the schemas are read."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.slow)


def documents(text: str) -> list[Any]:
    """What is not empty of a manifest; by libyaml where PyYAML was built with it, in a tenth of the time."""
    return [found for found in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if found]


@dataclass(frozen=True)
class Rendered:
    """The objects of one `helm template`."""

    objects: tuple[dict[str, Any], ...]

    def one(self, kind: str, ending: str = "") -> dict[str, Any]:
        found = [o for o in self.objects if o["kind"] == kind and o["metadata"]["name"].endswith(ending)]
        assert len(found) == 1, [(o["kind"], o["metadata"]["name"]) for o in self.objects]
        return found[0]

    def kinds(self) -> set[str]:
        return {o["kind"] for o in self.objects}

    @property
    def driver(self) -> dict[str, Any]:
        """The driver's pod template."""
        return self.one("StatefulSet")["spec"]["template"]

    @property
    def executor(self) -> dict[str, Any]:
        """The executors' pod template."""
        return yaml.safe_load(self.one("ConfigMap", "-executor")["data"]["executor.yaml"])

    @property
    def settings(self) -> dict[str, Any]:
        """The application's settings file."""
        return yaml.safe_load(self.one("ConfigMap", "-settings")["data"]["settings.yaml"])


def tool(name: str) -> str:
    """A program that `python -m ops.tools` installed, or one on PATH. Without it the test skips."""
    found = program(name)
    if not found:
        pytest.skip(f"no {name}: python -m ops.tools installs it")
    return found


@pytest.fixture(scope="session")
def helm() -> str:
    return tool("helm")


@pytest.fixture(scope="session")
def promtool() -> str:
    return tool("promtool")


@pytest.fixture(scope="module")
def render_once(helm: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Rendered]:
    """`render_once(values)`: as `render`, for fixtures of a module."""

    def template(values: dict[str, Any]) -> Rendered:
        folder = tmp_path_factory.mktemp("values")
        done = run_over_chart(helm, folder, "template", values, ("--namespace", "stores"))
        assert done.returncode == 0, done.stderr
        return Rendered(tuple(documents(done.stdout)))

    return template


@pytest.fixture(scope="session")
def image() -> Path:
    """The built image as `build-image` leaves it, made from this tree; CEP_IMAGE names one that is built already."""
    if told := os.environ.get("CEP_IMAGE"):
        return Path(told)
    tool = TOOLS / "build-image"
    if not tool.exists() or os.geteuid() != 0:
        pytest.skip("needs build-image (CEP_TOOLS, or beside the project) and root")
    out = cache_folder() / "image"
    done = subprocess.run(
        [sys.executable, str(tool), "-o", str(out), str(PROJECT)], capture_output=True, text=True, check=False, timeout=3000
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return out


def run_over_chart(
    program: str, folder: Path, command: str, values: dict[str, Any] | None, more: tuple[str, ...], release: str = "shop"
) -> subprocess.CompletedProcess[str]:
    """Helm's command over the chart; values are laid over the required ones."""
    file, required = folder / "values.yaml", folder / "required.yaml"
    file.write_text(yaml.safe_dump(values or {}), encoding="utf-8")
    required.write_text(yaml.safe_dump(REQUIRED), encoding="utf-8")
    name = [] if command == "lint" else [release]
    argv = [program, command, *name, str(CHART), "-f", str(required), "-f", str(file), *more]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def run_helm(helm: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run_helm("template", values, *more)`: Helm's command over the chart; values are laid over the required ones."""

    def run(command: str, values: dict[str, Any] | None = None, *more: str, release: str = "shop") -> subprocess.CompletedProcess[str]:
        return run_over_chart(helm, tmp_path, command, values, more, release)

    return run


@pytest.fixture
def render(run_helm: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., Rendered]:
    """`render(values)`: the objects that the chart makes of these values."""

    def template(values: dict[str, Any] | None = None, *more: str, release: str = "shop") -> Rendered:
        done = run_helm("template", values, "--namespace", "stores", *more, release=release)
        assert done.returncode == 0, done.stderr
        return Rendered(tuple(documents(done.stdout)))

    return template
