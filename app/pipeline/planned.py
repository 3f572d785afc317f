"""Which topic partitions have records in a batch, from Spark's own log of offsets.

The log is written before a batch runs, so the driver knows at the first request for a directive who speaks in this batch: a topic partition
whose records wait behind a slow batch is not idle.
"""

from __future__ import annotations

import json
from typing import Any

from pyarrow import fs

from app.errors import SnapshotError
from app.pipeline.checkpoint_files import checkpoint_files

NO_OFFSET = "-"
"""Spark's word for a source that has none yet."""
Offsets = dict[tuple[str, int], int]


class PlannedOffsets:
    """Reads ``<checkpoint>/spark/offsets``."""

    def __init__(self, checkpoint: str) -> None:
        self._files, base = checkpoint_files(checkpoint)
        self._folder = f"{base}/spark/offsets"

    def speakers(self, batch: int) -> frozenset[tuple[str, int]] | None:
        """Topic partitions with offsets in the batch; None when the log does not say (sources other than Kafka).

        Markers of transactions and aborted records count as well: somebody does speak, even if nothing that we read.

        Raises:
            OSError: the log cannot be read; whoever asked asks again. Guessing would take speakers for silent, and make their events late.
            SnapshotError: the log is damaged.
        """
        ends, starts = self._ends(batch), self._ends(batch - 1)
        if ends is None:
            return None
        return frozenset(place for place, end in ends.items() if end > (starts or {}).get(place, 0))

    def latest(self) -> Offsets | None:
        """End offsets of the newest planned batch; None if there is none, or the source is not Kafka.

        Raises:
            OSError: the log cannot be read.
            SnapshotError: the log is damaged.
        """
        files = self._files.get_file_info(fs.FileSelector(self._folder, allow_not_found=True))
        batches = [int(file.base_name) for file in files if file.base_name.isdigit()]
        return self._ends(max(batches)) if batches else None

    def _ends(self, batch: int) -> Offsets | None:
        """End offsets of a batch; None if there is no such batch, or they are not Kafka's."""
        path = f"{self._folder}/{batch}"
        try:
            with self._files.open_input_stream(path) as stream:
                lines = stream.readall().decode().splitlines()
        except FileNotFoundError:
            return None
        try:
            topics: Any = None if lines[2] == NO_OFFSET else json.loads(lines[2])
        except (ValueError, IndexError) as error:
            raise SnapshotError(f"{path}: no offsets of a batch: {error}") from error
        try:
            return {(topic, int(partition)): int(end) for topic, ends in topics.items() for partition, end in ends.items()}
        except (ValueError, AttributeError):
            return None
