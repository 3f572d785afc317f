"""What the application manages without shedding, beside a sender as busy as in the runs, and what of it is a query's own: rates are multiples of the one, and `cep evaluate` is told the other."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import SparkSession

from app.config.settings import load_settings
from app.control.law.costs import BatchCost, fit_costs
from app.control.messages.batch_log import BatchLog
from app.local.embedded import embedded_services
from app.storage.open import open_store
from ops.bench.overload.load import Phase, Schedule, Sending, send_at_once
from ops.bench.overload.workloads import Place, Workload
from ops.bench.pipeline import application, apply_topics, batches_of, per_second

CAPACITY_BATCHES, WARM_BATCHES = 20, 10
BESIDE_TOPIC = "beside"
"""What the sender sends is not what is measured: the same events twice would go back in time."""
SHORTER = 3
"""Times fewer records in the batches that tell the fixed part: equal batches cannot tell it from what each event takes."""
LEAST = 0.1
"""Of the capacity: what is left of it in batches that are hardly longer than their fixed part."""
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

        >>> round(Capacity(1000.0, 200.0).in_batches_of(400)), round(Capacity(1000.0, 500.0).in_batches_of(400))
        (625, 100)
        """
        return self.per_s * max(LEAST, (1 - self.fixed_ms / length_ms) / max(LEAST, 1 - self.fixed_ms / 1000))

    def batch_ms(self, share: float) -> float:
        """How long a batch takes under so much of the capacity, when each holds what came during the one before.

        >>> round(Capacity(1000.0, 200.0).batch_ms(0.4)), round(Capacity(1000.0, 500.0).batch_ms(0.4))
        (294, 625)
        """
        return self.fixed_ms / (1 - share * (1 - self.fixed_ms / 1000))


def measured_capacity(spark: SparkSession, folder: Path, workload: Workload) -> Capacity:
    """In batches of about a second, beside a sender: how many events these are is guessed first, alone. Shorter ones tell what a batch takes whatever is in it."""
    place = folder / workload.label
    # what a JVM does in its first minutes is no measure: it gave 9,007 events/s and 601 ms per batch once, and 9,390 and 249 ms half an hour later
    _batches(spark, place / "young", workload, workload.first_batch, None)
    guessed = per_second([batch for batch, _ in _batches(spark, place / "guessed", workload, workload.first_batch, None)])
    sizes = {"measured": round(guessed), "shorter": round(guessed / SHORTER)}
    seen = {name: _batches(spark, place / name, workload, size, guessed) for name, size in sizes.items()}
    known = [
        BatchCost(one["numInputRows"], one["numInputRows"], sum(own.values()), one["durationMs"]["triggerExecution"])
        for one, own in (*seen["shorter"], *seen["measured"])
    ]
    model = fit_costs(known)
    batches, spent = zip(*seen["measured"], strict=True)
    took = sum(one["durationMs"]["triggerExecution"] - model.fixed_ms for one in batches)
    shares = {name: model.per_work * sum(own.get(name, 0.0) for own in spent) / took for name in sorted({*chain(*spent)})}
    return Capacity(per_second(batches), model.fixed_ms, {name: round(min(1.0, share), 3) for name, share in shares.items()})


def _batches(
    spark: SparkSession, folder: Path, workload: Workload, size: int, beside: float | None
) -> list[tuple[dict[str, Any], dict[str, float]]]:
    """Warm batches of so many records, as Spark tells them, and each query's work in them, ms.

    Args:
        beside: events per second that a sender is to take for the capacity; None: nobody sends.
    """
    with embedded_services() as services:
        settings = Place(folder, services).settings(workload, "capacity", None, per_trigger=size)
        apply_topics(settings)
        own_settings = folder / "capacity" / "settings.yaml"
        send_at_once(own_settings, workload, CAPACITY_BATCHES * size)
        schedule = Schedule((Phase("", BESIDE, 4 * CAPACITY_BATCHES),), beside or 0.0)
        with (
            Sending(_elsewhere(own_settings), workload, schedule) if beside else nullcontext(),
            application(spark, settings, available_now=True) as query,
        ):
            query.awaitTermination()
            batches = batches_of(query)[WARM_BATCHES:]
    log = BatchLog(open_store(settings.checkpoint.uri))
    return [(one, {name: ns / 1e6 for name, ns in log.totals(one["batchId"]).slowest_ns.items()}) for one in batches]


def _elsewhere(settings: Path) -> Path:
    """The same settings with the stream on a topic of its own, which is there."""
    plain = yaml.safe_load(settings.read_text())
    for stream in plain["streams"].values():
        stream["topics"] = [BESIDE_TOPIC]
    other = settings.with_name("beside.yaml")
    other.write_text(yaml.safe_dump(plain))
    apply_topics(load_settings(other, {}))
    return other
