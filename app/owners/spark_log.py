"""What Spark's log of offsets says, where its source is Kafka."""

from __future__ import annotations

import json
from typing import Any

from app.errors import SnapshotError

Offsets = dict[tuple[str, int], int]
"""By topic and partition."""
NO_OFFSET = "-"
"""Spark's word for a source that has none yet."""
OF_BATCH, OF_FIRST_SOURCE = 2, 1
"""The line with the offsets: of a batch's entry, and of the file in which Spark keeps where the first batch begins."""


def read_offsets(name: str, text: str, line: int = OF_BATCH) -> Offsets | None:
    """The offsets in a file; None where the source is not Kafka, or has none yet.

    Args:
        name: of the file, for the text of the error.
        text: all of it.
        line: that holds them.

    Raises:
        SnapshotError: it is torn.
    """
    try:
        found = text.splitlines()[line]
        topics: Any = None if found == NO_OFFSET else json.loads(found)
    except (ValueError, IndexError) as error:
        hint = "restore it from a copy of the checkpoint, or begin with another checkpoint.path"
        raise SnapshotError(f"{name} is torn, no offsets of a batch: {error}\nhint: {hint}") from error
    try:
        return {(topic, int(partition)): int(end) for topic, ends in topics.items() for partition, end in ends.items()}
    except (ValueError, AttributeError):
        return None
