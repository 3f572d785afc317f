"""What control sample, memory of audits and watchdog cost while nothing is shed: catch-up with bounds that nothing breaks, in turn with queries that have none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from app.local.embedded import embedded_services
from ops.bench.overload.capacity import WARM_BATCHES
from ops.bench.overload.load import send_at_once
from ops.bench.overload.workloads import Place, Workload
from ops.bench.pipeline import application, apply_topics, batches_of, per_second

NEVER_BROKEN_MS = 3_600_000
BATCHES = WARM_BATCHES + 10


def calm_costs(spark: SparkSession, folder: Path, workload: Workload, capacity: float, rounds: int) -> list[float]:
    """Ratios of events per second, with over without, one per round.

    Args:
        capacity: events/s; batches are of about a second.
    """
    patient = replace(workload, bounds_ms=dict.fromkeys(workload.bounds_ms, NEVER_BROKEN_MS))
    ratios = []
    with embedded_services() as services:
        place = Place(folder / workload.label / "calm", services)
        apply_topics(place.settings(workload, "sent", None))
        send_at_once(place.folder / "sent" / "settings.yaml", workload, int(BATCHES * capacity))
        for number in range(rounds):
            speeds = {}
            for shedder in ("random", None) if number % 2 else (None, "random"):
                settings = place.settings(patient, f"{shedder or 'plain'}-{number}", shedder, per_trigger=round(capacity))
                apply_topics(settings)
                with application(spark, settings, available_now=True) as query:
                    query.awaitTermination()
                    speeds[shedder] = per_second(batches_of(query)[WARM_BATCHES:])
            ratios.append(speeds["random"] / speeds[None])
            print(
                f"{workload.name}: with shedding in reserve {speeds['random']:,.0f}/s, without {speeds[None]:,.0f}/s, ratio {ratios[-1]:.3f}",
                flush=True,
            )
    return ratios
