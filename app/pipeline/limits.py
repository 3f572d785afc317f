"""How much a micro-batch may take: Spark's source counts records, so bytes become records by an estimate that is made at every start.

What a task holds is bounded anyway, whatever the estimate is worth (`app.pipeline.slices`); it bounds how long a batch takes, and what the JVM holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.config.settings import Settings
from app.delivery.record_sizes import mean_record_bytes, topic_sizes
from app.delivery.security import consumer_options
from app.observe.logs import get_logger
from app.pipeline.planned import PlannedOffsets

ARROW_UNLIMITED = (1 << 31) - 1
"""Below it Spark adds up the sizes of all columns after every row: 15 % of its time while catching up."""
ARROW_BYTES = 16 << 20
"""Of an Arrow batch where records are large: adding up costs little beside them."""
LARGE_BYTES = 8 << 10
"""From here on the 8,192 rows of an Arrow batch would be more than 64 MB, several times over in the JVM."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What bounds a batch.

    Attributes:
        records: most records of a micro-batch.
        arrow_bytes: of an Arrow batch between JVM and Python.
    """

    records: int
    arrow_bytes: int = ARROW_UNLIMITED


def limits_for(records: int, most_bytes: int, mean_bytes: float, largest_mean: float) -> BatchLimits:
    """From sizes to limits.

    Args:
        records: most records, by the settings.
        most_bytes: of a micro-batch, by the settings.
        mean_bytes: of a record in a batch; 0 when unknown.
        largest_mean: of the topic with the largest records.

    >>> limits_for(400_000, 256 << 20, 100.0, 120.0), limits_for(400_000, 256 << 20, 1e6, 1e6), limits_for(400_000, 1000, 1e6, 1e6).records
    (BatchLimits(records=400000, arrow_bytes=2147483647), BatchLimits(records=268, arrow_bytes=16777216), 1)
    """
    bounded = min(records, int(most_bytes / mean_bytes)) if mean_bytes else records
    return BatchLimits(max(1, bounded), ARROW_BYTES if largest_mean > LARGE_BYTES else ARROW_UNLIMITED)


def batch_limits(settings: Settings) -> BatchLimits:
    """The limits of this start.

    Raises:
        DependencyError: the brokers do not answer.
    """
    kafka = settings.kafka
    starts = PlannedOffsets(settings.checkpoint.uri).latest()
    sizes = topic_sizes(consumer_options(kafka), settings.source_topics, starts, from_beginning=kafka.starting_offsets == "earliest")
    mean = mean_record_bytes(sizes, kafka.max_offsets_per_trigger)
    limits = limits_for(
        kafka.max_offsets_per_trigger, kafka.max_bytes_per_trigger, mean, max((size.record_bytes for size in sizes.values()), default=0.0)
    )
    means = {topic: round(size.record_bytes) for topic, size in sizes.items() if size.record_bytes}
    log.info("batches are bounded", records=limits.records, record_bytes=means)
    return limits
