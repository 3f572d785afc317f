"""A batch that does not end is told: readiness, a metric, and a log line with what is going on."""

from __future__ import annotations

import time

from app.config.durations import format_duration
from app.control.plane import ControlPlane
from app.observe.logs import get_logger
from app.pipeline.batches import Batches

log = get_logger(__name__)


class StallWatch:
    """Looks at the batch in work, as often as it is asked.

    Args:
        plane: made unready, and ready again.
        batches: looked at.
        after_ms: how long a batch may take.
    """

    def __init__(self, plane: ControlPlane, batches: Batches, after_ms: int) -> None:
        self._plane, self._batches, self._after_ms = plane, batches, after_ms
        self._told: int | None = None

    def look(self) -> None:
        """One look; a stalled batch is told once."""
        running = self._batches.running
        running_s = 0.0 if running is None else time.monotonic() - running.since_s
        self._plane.metrics.set("cep_batch_running_seconds", running_s)
        if self._told is not None and (running is None or running.batch != self._told):
            self._plane.moving.good()
            log.info("the stalled batch has ended", batch_id=self._told)
            self._told = None
        if running is None or running.batch == self._told or running_s * 1000 < self._after_ms:
            return
        self._told = running.batch
        self._plane.moving.bad(f"batch {running.batch} has not ended for {format_duration(self._after_ms)}")
        self._plane.metrics.add("cep_stalled_batches_total", 1)
        log.error("batch does not end", batch_id=running.batch, stall_after=format_duration(self._after_ms), owners=self._batches.stacks())
