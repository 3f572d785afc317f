"""Records that the driver, or a command, writes itself instead of owners."""

from __future__ import annotations

from typing import Any

from app.config.settings import Settings
from app.delivery.security import shipped_options
from app.owners.deployment import OutputTopic
from app.owners.egress import Headers, Limit, Records, add_audit_record
from app.owners.outlet import KafkaOutlet

AT_ONCE = 10_000
"""Records that wait for the broker together."""


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
        """Takes a record."""
        self._records.add(topic, key, value, headers)
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
        self._outlet.send(self._records)
        self._outlet.flush()
        self._records = Records(self._limit)
