"""A batch that does not end: told once, with what the owners are doing, and over when another one runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from structlog.testing import capture_logs

from app.control.server.health import Flag
from app.observe.metrics import Metrics
from app.pipeline.batches import BatchInWork
from app.pipeline.stalls import StallWatch


@dataclass
class Plane:
    """What the watch uses of the control plane."""

    moving: Flag = field(default_factory=lambda: Flag("nothing moves yet"))
    metrics: Metrics = field(default_factory=Metrics)


@dataclass
class Batches:
    """What the watch uses of the batches."""

    running: BatchInWork | None = None

    def stacks(self) -> dict[str, Any]:
        return {"127.0.0.1:5": "in a kernel"}


def test_a_batch_that_does_not_end_is_told_once_and_is_over_with_the_next() -> None:
    plane, batches = Plane(), Batches()
    plane.moving.good()
    watch = StallWatch(plane, batches, 60_000)
    batches.running = BatchInWork(7, time.monotonic() - 59)
    watch.look()
    assert plane.moving.check() is None
    assert 59 <= (plane.metrics.value("cep_batch_running_seconds") or 0) < 60
    batches.running = BatchInWork(7, time.monotonic() - 61)
    with capture_logs() as logs:
        watch.look()
        watch.look()
    assert plane.moving.check() == "batch 7 has not ended for 1 m"
    assert [(entry["batch_id"], entry["owners"]) for entry in logs] == [(7, {"127.0.0.1:5": "in a kernel"})]
    assert plane.metrics.value("cep_stalled_batches_total") == 1
    batches.running = BatchInWork(8, time.monotonic())
    watch.look()
    assert plane.moving.check() is None


def test_what_spark_does_before_and_behind_a_batch_counts_as_well(monkeypatch) -> None:
    """A commit that hangs on a volume hangs outside of the batch."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    plane, batches = Plane(), Batches()
    watch = StallWatch(plane, batches, 60_000)
    told = []
    for now, running, active in (  # noqa: B007 - the clock
        (1000.0, None, False),
        (1001.0, None, True),
        (1004.0, BatchInWork(7, 1003.0), True),
        (1010.0, None, True),
        (1011.0, BatchInWork(8, 1010.5), True),
        (1400.0, None, True),
        (1401.0, None, False),
        (1402.0, None, True),
    ):
        batches.running = running
        watch.look(active=active)
        told.append(plane.metrics.value("cep_batch_running_seconds"))
    assert told == [0, 0, 1, 7, 0.5, 389.5, 0, 0]
