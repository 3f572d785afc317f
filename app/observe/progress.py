"""Spark's report on a micro-batch (`StreamingQueryProgress`, as parsed JSON) read into values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Offsets = Mapping[tuple[str, int], int]
"""By topic and partition."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A finished micro-batch.

    Attributes:
        planned_at_ms: when its trigger started.
        duration_ms: of the whole trigger.
        phases_ms: parts of it, by Spark's names.
        start: first offsets of the batch.
        end: offsets after its last records.
        latest: ends of the topic partitions when the batch was planned.
        rows: records that Spark says it read.
    """

    batch: int
    run_id: str
    planned_at_ms: int
    duration_ms: int
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    start: Offsets = field(default_factory=dict)
    end: Offsets = field(default_factory=dict)
    latest: Offsets = field(default_factory=dict)
    rows: int = 0
    state_rows: int = 0
    state_bytes: int = 0

    def lag(self, topic_partition: tuple[str, int]) -> int:
        """Records of one topic partition that were there at planning and that no batch has read yet."""
        end = self.end.get(topic_partition, 0)
        return max(0, self.latest.get(topic_partition, end) - end)

    @property
    def remaining(self) -> int:
        """All records that the batch left behind."""
        return sum(self.lag(topic_partition) for topic_partition in self.end)

    @property
    def arrived(self) -> int:
        """All records that had ever arrived when the batch was planned."""
        return sum(max(self.latest.get(topic_partition, end), end) for topic_partition, end in self.end.items())


def read_progress(progress: Mapping[str, Any]) -> Progress:
    """Reads the progress of a query with Kafka (or other) sources; what is missing counts as nothing."""
    sources = progress.get("sources") or []
    operators = progress.get("stateOperators") or []
    phases = {str(name): int(value) for name, value in (progress.get("durationMs") or {}).items()}
    return Progress(
        batch=int(progress.get("batchId", -1)),
        run_id=str(progress.get("runId", "")),
        planned_at_ms=_milliseconds(str(progress.get("timestamp", ""))),
        duration_ms=phases.pop("triggerExecution", int(progress.get("batchDuration", 0))),
        phases_ms=phases,
        start=_offsets(sources, "startOffset"),
        end=_offsets(sources, "endOffset"),
        latest=_offsets(sources, "latestOffset"),
        rows=int(progress.get("numInputRows", 0)),
        state_rows=sum(int(operator.get("numRowsTotal", 0)) for operator in operators),
        state_bytes=sum(int(operator.get("memoryUsedBytes", 0)) for operator in operators),
    )


def _milliseconds(timestamp: str) -> int:
    return round(datetime.fromisoformat(timestamp).timestamp() * 1000) if timestamp else 0


def _offsets(sources: list[Mapping[str, Any]], name: str) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for source in sources:
        value = source.get(name)
        parsed = _parsed(value) if isinstance(value, str) else value
        if not isinstance(parsed, dict):
            continue  # other sources (files, rate) have other offsets
        for topic, partitions in parsed.items():
            if isinstance(partitions, dict):
                found.update({(str(topic), int(partition)): int(offset) for partition, offset in partitions.items()})
    return found


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
