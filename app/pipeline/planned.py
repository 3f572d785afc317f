"""Which topic partitions have records in a batch, from Spark's own log of offsets.

The log is written before a batch runs, so the driver knows at the first request for a directive who speaks in this batch: a topic partition
whose records wait behind a slow batch is not idle.
"""

from __future__ import annotations

from app.config.settings import SPARK_FOLDER
from app.owners.spark_log import Offsets, read_offsets
from app.storage.open import open_store
from app.storage.store import MissingError

OFFSETS = f"{SPARK_FOLDER}/offsets"


class PlannedOffsets:
    """Reads ``<checkpoint>/spark/offsets``."""

    def __init__(self, checkpoint: str) -> None:
        self._store = open_store(checkpoint)
        self._known: dict[int, Offsets] = {}

    def speakers(self, batch: int) -> frozenset[tuple[str, int]] | None:
        """Topic partitions with offsets in the batch; None when the log does not say (sources other than Kafka).

        Markers of transactions and aborted records count as well: somebody does speak, even if nothing that we read.

        Raises:
            StorageError: the log cannot be read now. Guessing would take speakers for silent, and make their events late.
            SnapshotError: the log is damaged.
        """
        ends, starts = self._ends(batch), self._ends(batch - 1)
        if ends is None:
            return None
        return frozenset(place for place, end in ends.items() if end > (starts or {}).get(place, 0))

    def ranges(self, batch: int) -> dict[tuple[str, int], tuple[int | None, int]] | None:
        """The first offset of each topic partition in the batch (None where the log does not say) and the one after its last.

        Raises:
            StorageError: the log cannot be read now.
            SnapshotError: the log is damaged.
        """
        ends, starts = self._ends(batch), self._ends(batch - 1) or {}
        return None if ends is None else {place: (starts.get(place), end) for place, end in ends.items()}

    def latest(self) -> Offsets | None:
        """End offsets of the newest planned batch; None if there is none, or the source is not Kafka.

        Raises:
            StorageError: the log cannot be read.
            SnapshotError: the log is damaged.
        """
        names = [stored.name.rpartition("/")[2] for stored in self._store.names(OFFSETS)]
        batches = [int(name) for name in names if name.isdecimal()]
        return self._ends(max(batches)) if batches else None

    def _ends(self, batch: int) -> Offsets | None:
        """End offsets of a batch; None if there is no such batch, or they are not Kafka's."""
        if batch in self._known:
            return self._known[batch]
        path = f"{OFFSETS}/{batch}"
        try:
            found = read_offsets(path, self._store.read(path).decode())
        except MissingError:
            return None
        if found is not None:  # what Spark has written once stays
            self._known = {number: ends for number, ends in self._known.items() if number >= batch - 1} | {batch: found}
        return found
