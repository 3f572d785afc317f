"""An embedded schema registry (Apicurio, Confluent API), a child process, everything in memory."""

from __future__ import annotations

import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.bootstrap.artifacts import registry_jar
from app.bootstrap.java import find_java
from app.local.child import Child
from app.local.ports import free_ports

_START_SECONDS = 120.0
"""8 s on a free machine."""

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The registry is on this machine; a proxy of the environment must not see it."""


@dataclass(frozen=True, slots=True)
class Registry:
    """A running embedded registry."""

    url: str
    """For clients of Confluent's registry API."""
    child: Child
    folder: Path


@contextmanager
def embedded_registry(folder: Path | None = None, port: int | None = None, listen: str = "127.0.0.1") -> Iterator[Registry]:
    """A schema registry for as long as the block runs.

    Args:
        folder: For its log; a temporary one, removed at the end, when not given.
        port: To come back at the same address after a restart (what was registered is lost); a free one when not given.
        listen: Address to listen on; ``0.0.0.0`` for clients that are not on this machine.

    Yields:
        The registry, ready: it lists its subjects.

    Raises:
        DependencyError: it did not start in time.
    """
    home = folder or Path(tempfile.mkdtemp(prefix="cep-registry-"))
    try:
        registry = start_registry(home, port, listen)
        try:
            wait_for_registry(registry)
            yield registry
        finally:
            registry.child.terminate()
    finally:
        if folder is None:
            shutil.rmtree(home, ignore_errors=True)


def start_registry(home: Path, port: int | None = None, listen: str = "127.0.0.1") -> Registry:
    """Start a registry and return at once; :func:`wait_for_registry` tells when it is ready."""
    chosen = port or free_ports(1)[0]
    jar = registry_jar()
    command = [find_java().command, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", str(jar)]
    environment = {"QUARKUS_HTTP_HOST": listen, "QUARKUS_HTTP_PORT": str(chosen), "QUARKUS_LOG_LEVEL": "WARN"}
    child = Child("embedded registry", command, home / "registry.log", environment)
    return Registry(f"http://127.0.0.1:{chosen}/apis/ccompat/v7", child, home)


def wait_for_registry(registry: Registry) -> None:
    """Wait until the registry answers.

    Raises:
        DependencyError: it does not in time.
    """

    def answers() -> bool:
        try:
            with _direct.open(f"{registry.url}/subjects", timeout=2) as response:
                return response.status == 200
        except (urllib.error.URLError, OSError):
            return False

    registry.child.wait_until(answers, _START_SECONDS)
