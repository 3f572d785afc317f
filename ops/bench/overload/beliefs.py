"""What the watchdog saw and knew, batch by batch: where control looks odd, this says within minutes which belief is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from app.control.law.watchdog import Watchdog
from app.control.law.watched import BatchObservation, PlannedBatch


@contextmanager
def noted(file: Path | None) -> Iterator[None]:
    """Writes JSON lines: for every batch that is planned its ratios, what was foreseen and all that was known (`Watchdog.snapshot`), for every one that is over what was seen of it. None: notes nothing."""
    if file is None:
        yield
        return
    observe, plan = Watchdog.observe, Watchdog.plan
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lines:

        def observing(self: Watchdog, seen: BatchObservation) -> None:
            lines.write(json.dumps({"batch": seen.batch, "seen": asdict(seen)}) + "\n")
            observe(self, seen)

        def planning(self: Watchdog, planned: PlannedBatch) -> None:
            plan(self, planned)
            known, foreseen = self.snapshot(), self.forecast
            told = None if foreseen is None else {"unshed_ms": foreseen.unshed_latency_ms, "latency_ms": foreseen.latency_ms}
            line = {"batch": planned.batch, "planned": asdict(planned), "ratios": self.ratios, "foreseen": told, "known": known}
            lines.write(json.dumps(line) + "\n")

        Watchdog.observe, Watchdog.plan = observing, planning  # type: ignore[method-assign]
        try:
            yield
        finally:
            Watchdog.observe, Watchdog.plan = observe, plan  # type: ignore[method-assign]
