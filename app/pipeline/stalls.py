"""A batch that does not end is told: readiness, a metric, and a log line with what is going on."""

from __future__ import annotations

import time

from app.config.durations import format_duration
from app.control.plane import ControlPlane
from app.observe.logs import get_logger
from app.pipeline.batches import Batches, BatchInWork

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
        self._at: tuple[int | None, float] | None = None
        """The batch that Spark is at, or was last, and since when."""

    def look(self, *, active: bool = False) -> None:
        """One look; a stalled batch is told once.

        Args:
            active: whether Spark is at a batch, be it only planning it or writing that it is done: storage that hangs shows there.
        """
        running = self._batches.running
        running_s = 0.0 if running is None else time.monotonic() - running.since_s
        self._plane.metrics.set("cep_batch_running_seconds", max(running_s, self._active_s(running, active=active)))
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

    def _active_s(self, running: BatchInWork | None, *, active: bool) -> float:
        """How long Spark has been at the batch in work, or at what comes before and behind it."""
        if running is None and not active:
            self._at = None
            return 0.0
        now_s = time.monotonic()
        if self._at is None or (running is not None and running.batch != self._at[0]):
            self._at = None if running is None else running.batch, now_s if running is None else running.since_s
        return now_s - self._at[1]
