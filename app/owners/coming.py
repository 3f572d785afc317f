"""A deployment that will soon be used: an owner gets ready for it beside its batches, so that the first batch under it finds everything there."""

from __future__ import annotations

from threading import Thread

from app.bucket.engines import load_engines
from app.owners.deployment import load_deployment

_ready: set[str] = set()


def get_ready(checkpoint: str, coming: str) -> None:
    """Loads a deployment and the kernels of its engines in a thread, once; the empty name is none."""
    if coming and coming not in _ready:
        _ready.add(coming)
        Thread(target=_load, args=(checkpoint, coming), name="coming-deployment", daemon=True).start()


def _load(checkpoint: str, coming: str) -> None:
    load_engines(load_deployment(checkpoint, coming).catalog.plans)
