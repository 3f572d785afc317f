"""Records that the driver, or a command, writes itself instead of owners."""

from __future__ import annotations

from typing import Any

from app.config.settings import Settings
from app.delivery.security import shipped_options
from app.observe.logs import get_logger
from app.owners.deployment import OutputTopic
from app.owners.egress import Headers, Limit, Records, add_audit_record
from app.owners.outlet import KafkaOutlet

AT_ONCE = 10_000
"""Records that wait for the broker together."""
CORRECTION_BYTES = 64
"""By which a correction may be larger than a composite event: its ending and its reason are 45. For Kafka it is no larger than the limit all the same: of a header,
which takes two or three bytes, ten are counted, and of a record 100 that takes 77; a correction has six headers and more."""

log = get_logger(__name__)


class Publisher:
    """Writes records to Kafka, each at least once.

    Args:
        settings: of the application.
    """

    def __init__(self, settings: Settings) -> None:
        self._limit = Limit(settings.topics.max_record_bytes, settings.topics.dead_letters)
        self._outlet = KafkaOutlet(shipped_options(settings.kafka), settings.topics.max_record_bytes)
        self._records = Records(self._limit)

    def add(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Takes a correction of a composite event; one that is too large, since the limit is lower than it was, becomes a dead letter."""
        self._records.add(topic, key, value, headers, composite=True, more_bytes=CORRECTION_BYTES)
        if len(self._records) >= AT_ONCE:
            self.flush()

    def audit(self, output: OutputTopic, query: str, value: dict[str, Any]) -> None:
        """Takes a record of the audit topic, which is keyed by its query."""
        add_audit_record(self._records, output, query, value)

    def flush(self) -> None:
        """Waits until all that was taken is safe.

        Raises:
            DependencyError: the brokers do not take it.
        """
        if self._records.oversized:
            log.warning(
                "corrections are larger than topics.max_record_bytes: they are dead letters",
                corrections=self._records.oversized,
                topic=self._limit.dead_letters_topic,
            )
        self._outlet.send(self._records)
        self._outlet.flush()
        self._records = Records(self._limit)
