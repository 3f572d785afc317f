"""Broker and registry together, started side by side."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.local.broker import Broker, start_broker, wait_for_broker
from app.local.registry import Registry, start_registry, wait_for_registry


@dataclass(frozen=True, slots=True)
class Embedded:
    """A running embedded broker and registry."""

    broker: Broker
    registry: Registry
    folder: Path


@contextmanager
def embedded_services(folder: Path | None = None) -> Iterator[Embedded]:
    """Broker and registry for as long as the block runs; both start at the same time.

    Args:
        folder: Data and logs; a temporary one, removed at the end, when not given.

    Yields:
        Both, ready.

    Raises:
        DependencyError: one of them did not start in time.
    """
    home = folder or Path(tempfile.mkdtemp(prefix="cep-embedded-"))
    with ExitStack() as cleanup:
        if folder is None:
            cleanup.callback(shutil.rmtree, home, ignore_errors=True)
        registry = start_registry(home)
        cleanup.callback(registry.child.terminate)
        broker = start_broker(home)
        cleanup.callback(broker.child.terminate)
        wait_for_broker(broker)
        wait_for_registry(registry)
        yield Embedded(broker, registry, home)
