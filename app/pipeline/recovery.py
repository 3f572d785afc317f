"""The bucket as it was before a batch: from this worker's copy, caught up or rebuilt from the state log where need be.

Tasks hop between Python workers, so a copy is often a batch or two old: it is fed the missing entries. Entries carry the directive and the
deployment that they were fed under; where the deployment changes, unchanged queries keep their state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.bucket.bucket import Bucket, BucketOutput
from app.bucket.hold import Progress, TimeRules
from app.control.directives import Directive
from app.errors import SnapshotError
from app.pipeline.deployment import Deployment, load_deployment
from app.pipeline.endings import endings_of
from app.pipeline.state_log import StateLog
from app.pipeline.tuple_memory import tuple_memory

SNAPSHOT_AFTER_ENTRIES = 256
"""Bounds what a cold worker must feed again, however quiet the input was: below a second at 2 ms per small entry."""
SNAPSHOT_AFTER_BYTES = 64 << 20
"""About a million events, a second or two of feeding again. At 1 MiB, catching up wrote a snapshot in every batch: 2 s of 4."""


@dataclass(slots=True)
class LiveBucket:
    """A worker's copy of a bucket, as it is after ``batch_id``."""

    bucket: Bucket
    batch_id: int
    deployment: str
    entries_since_snapshot: int
    bytes_since_snapshot: int
    snapshot_bytes: int

    @property
    def snapshot_is_due(self) -> bool:
        """Whether the log has outgrown the last snapshot: then writing one keeps the total proportional to the input."""
        grown = self.bytes_since_snapshot > max(SNAPSHOT_AFTER_BYTES, self.snapshot_bytes)
        return grown or self.entries_since_snapshot >= SNAPSHOT_AFTER_ENTRIES


@dataclass(frozen=True, slots=True)
class BucketKey:
    """Which bucket of which streaming query."""

    checkpoint: str
    query_id: str
    number: int

    def log(self) -> StateLog:
        """Its state log."""
        return StateLog(self.checkpoint, self.query_id, self.number)


_live: dict[BucketKey, LiveBucket] = {}


def progress_of(directive: Directive) -> Progress:
    """What the directive says about time, as buckets and lateness see it."""
    return Progress(directive.greatest_times, frozenset(directive.sources), frozenset(directive.idle), directive.stream_times)


def feed(bucket: Bucket, payloads: Sequence[bytes], directive: Directive, checkpoint: str) -> BucketOutput:
    """Feeds one batch's chunks, and sheds what was shed then."""
    return bucket.advance(payloads, progress_of(directive), endings_of(checkpoint, directive))


def taken_before(key: BucketKey, log: StateLog, batch_id: int, deployment: str) -> LiveBucket:
    """The bucket after the batch before ``batch_id``, under the deployment of this batch.

    The copy is taken out of the worker: whoever fails while working on it leaves none behind, and the next attempt rebuilds.
    """
    live = _live.pop(key, None)
    if live is None or live.batch_id >= batch_id:
        live = _rebuilt(key, log, batch_id, deployment)
    for missing in range(live.batch_id + 1, batch_id):
        head, *payloads = log.entry(missing)
        directive = Directive.from_json(head)
        _move(key, live, directive.deployment)
        feed(live.bucket, payloads, directive, key.checkpoint)
        count_entry(live, missing, sum(map(len, payloads)))
    _move(key, live, deployment)
    live.batch_id = batch_id - 1
    return live


def give_back(key: BucketKey, live: LiveBucket) -> None:
    """Leaves the copy for the worker's next task of this bucket."""
    _live[key] = live


def count_entry(live: LiveBucket, batch_id: int, size: int) -> None:
    """The copy has been fed this batch."""
    live.batch_id = batch_id
    live.entries_since_snapshot += 1
    live.bytes_since_snapshot += size


def write_snapshot(live: LiveBucket, log: StateLog) -> None:
    """Writes the state after the copy's batch."""
    live.snapshot_bytes = log.write_snapshot(live.batch_id, [live.deployment.encode(), live.bucket.snapshot()])
    live.entries_since_snapshot = live.bytes_since_snapshot = 0


def _rebuilt(key: BucketKey, log: StateLog, batch_id: int, deployment: str) -> LiveBucket:
    """The bucket of the last snapshot before the batch, or an empty one at the log's beginning."""
    position = log.position()
    earlier = [number for number in position.snapshots if number < batch_id]
    if earlier:
        name, data = log.snapshot(earlier[-1])
        known = load_deployment(key.checkpoint, name.decode())
        return LiveBucket(_restored(known, key.number, data), earlier[-1], name.decode(), 0, 0, len(data))
    first = min((number for number in position.entries if number < batch_id), default=batch_id)
    if first > 1:  # Spark's first batch may have no input at all (empty topics): then no task ran and nothing was fed
        raise SnapshotError(
            f"bucket {key.number}: no state before batch {batch_id} in the checkpoint {key.checkpoint}; was part of it deleted?"
        )
    return LiveBucket(_empty(load_deployment(key.checkpoint, deployment), key.number), first - 1, deployment, 0, 0, 0)


def _move(key: BucketKey, live: LiveBucket, deployment: str) -> None:
    """Takes the bucket to another deployment: unchanged queries keep their state."""
    if live.deployment != deployment:
        known = load_deployment(key.checkpoint, deployment)
        live.bucket = live.bucket.reload(known.catalog, _rules(known), known.topics)
        live.deployment = deployment


def _rules(deployment: Deployment) -> list[TimeRules]:
    return [stream.rules for stream in deployment.streams]


def _empty(deployment: Deployment, number: int) -> Bucket:
    return Bucket(deployment.catalog, _rules(deployment), number, deployment.topics, tuple_memory)


def _restored(deployment: Deployment, number: int, data: bytes) -> Bucket:
    return Bucket.restore(deployment.catalog, _rules(deployment), number, data, deployment.topics, memory_of=tuple_memory)
