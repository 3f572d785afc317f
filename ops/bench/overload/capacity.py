"""What the application manages without shedding, beside a sender as busy as in the runs, and what of it is a query's own: rates are multiples of the one, and `cep evaluate` is told the other."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from app.control.batch_log import BatchLog
from app.control.costs import BatchCost, fit_costs
from app.local.embedded import embedded_services
from app.storage.open import open_store
from ops.bench.overload.load import Phase, Schedule, Sending, send_at_once
from ops.bench.overload.workloads import Place, Workload
from ops.bench.pipeline import application, apply_topics, batches_of, per_second

CAPACITY_BATCHES, WARM_BATCHES = 10, 2
BESIDE = 1.2
"""Of the guessed capacity: what a sender sends while it is measured, as in the runs. It shares the machine, so an application that is measured alone would be asked for more than it can do from the first rate on."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Of the application, in batches of about a second.

    Attributes:
        per_s: events.
        fixed_ms: of a batch, whatever is in it.
        own: by query, its share of what an event takes.
    """

    per_s: float
    fixed_ms: float = 0.0
    own: Mapping[str, float] = field(default_factory=dict)

    def in_batches_of(self, length_ms: float) -> float:
        """Events per second in shorter batches, of which the fixed part is more.

        >>> round(Capacity(1000.0, 200.0).in_batches_of(400))
        625
        """
        return self.per_s * (1 - self.fixed_ms / length_ms) / (1 - self.fixed_ms / 1000)


def measured_capacity(spark: SparkSession, folder: Path, workload: Workload) -> Capacity:
    """In batches of about a second: how many events these are is measured first, alone; then beside a sender."""
    per_trigger, known, found = workload.first_batch, [], 0.0
    for attempt in ("guessed", "measured"):
        with embedded_services() as services:
            settings = Place(folder / workload.label / attempt, services).settings(workload, "capacity", None, per_trigger=per_trigger)
            apply_topics(settings)
            own_settings = folder / workload.label / attempt / "capacity" / "settings.yaml"
            send_at_once(own_settings, workload, CAPACITY_BATCHES * per_trigger)
            schedule = Schedule((Phase("", BESIDE, 4 * CAPACITY_BATCHES),), found)
            with (
                Sending(own_settings, workload, schedule) if found else nullcontext(),
                application(spark, settings, available_now=True) as query,
            ):
                query.awaitTermination()
                batches = batches_of(query)[WARM_BATCHES:]
        log = BatchLog(open_store(settings.checkpoint.uri))
        own = [{name: spent / 1e6 for name, spent in log.totals(one["batchId"]).slowest_ns.items()} for one in batches]
        known += [
            BatchCost(one["numInputRows"], one["numInputRows"], sum(spent.values()), one["durationMs"]["triggerExecution"])
            for one, spent in zip(batches, own, strict=True)
        ]
        found = per_second(batches)
        per_trigger = round(found)
    model = fit_costs(known)
    took = sum(one.duration_ms - model.fixed_ms for one in known[-len(batches) :])
    names = {name for spent in own for name in spent}
    shares = {name: model.per_work * sum(spent.get(name, 0.0) for spent in own) / took for name in sorted(names)}
    return Capacity(found, model.fixed_ms, {name: round(min(1.0, share), 3) for name, share in shares.items()})
