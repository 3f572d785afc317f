"""A bucket as it was before a batch, rebuilt from storage: the newest snapshot that is whole, and what was fed since.

Entries carry the directive that they were fed under, and name the deployment; where that changes, unchanged queries keep their state. A damaged
snapshot is passed over, loudly: the one before it and the log since then are kept for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.bucket.bucket import Bucket
from app.bucket.chunk import unpack_chunk
from app.bucket.hold import TimeRules
from app.errors import CepError, SnapshotError
from app.observe.logs import get_logger
from app.owners.blocks import Known
from app.owners.chains import chains_of
from app.owners.deployment import Deployment, load_deployment
from app.owners.inbox import Payload
from app.owners.matching import feed
from app.owners.orders import Advance, opened_orders, packed_orders
from app.owners.snapshots import read_snapshot
from app.owners.state_log import Generation, Listing, StateLog
from app.owners.tuple_memory import tuple_memory
from app.storage.store import Part, StorageAwayError, StorageError

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A bucket from storage.

    Attributes:
        entries, entry_bytes: of the log that were fed.
        damaged: snapshots that were passed over.
    """

    bucket: Bucket
    deployment: str
    entries: int = 0
    entry_bytes: int = 0
    snapshot_batch: int = -1
    snapshot_bytes: int = 0
    damaged: int = 0
    known: Known = field(default_factory=Known)


def entry_parts(order: Advance, chunks: Sequence[Payload]) -> list[Part]:
    """A log entry: what was decided, how far time had come, and the chunks."""
    return [order.packed or packed_orders(order.directive, order.greatest), *chunks]


def fed_again(order: Advance, parts: Sequence[memoryview], batch: int) -> tuple[Advance, Sequence[memoryview]]:
    """The order that a log entry was fed under, and its chunks."""
    directive, greatest = opened_orders(parts[0])
    return Advance(order.application, batch, 0, directive, greatest, {}, ()), parts[1:]


def rebuilt(checkpoint: str, state: StateLog, number: int, order: Advance) -> Rebuilt:
    """The bucket after the batch before the order's.

    Raises:
        SnapshotError: what there is does not reach there; the text names the file, and what to do.
        StorageAwayError: nothing can be read now.
    """
    listing = state.listing()
    found = _newest(checkpoint, state, number, order, listing)
    bucket, deployment, entries, size = found.bucket, found.deployment, 0, 0
    for batch in range(found.snapshot_batch + 1 if found.snapshot_batch >= 0 else _first(listing, order.batch), order.batch):
        past, chunks = fed_again(order, _entry(state, listing, batch), batch)
        if past.directive.deployment != deployment:
            deployment = past.directive.deployment
            bucket = moved(checkpoint, bucket, deployment)
        feed(bucket, [unpack_chunk(chunk) for chunk in chunks], past, checkpoint)
        entries, size = entries + 1, size + sum(map(len, chunks))
    bucket.sample_anew()  # what was learned of these batches has been told
    return Rebuilt(bucket, deployment, entries, size, found.snapshot_batch, found.snapshot_bytes, found.damaged, found.known)


def moved(checkpoint: str, bucket: Bucket, deployment: str) -> Bucket:
    """The bucket under another deployment: unchanged queries keep their state."""
    known = load_deployment(checkpoint, deployment)
    return bucket.reload(known.catalog, _rules(known), known.topics)


def _newest(checkpoint: str, state: StateLog, number: int, order: Advance, listing: Listing) -> Rebuilt:
    """The newest snapshot before the batch that is whole, or an empty bucket where the log reaches back to the beginning."""
    earlier = [one for one in listing.generations if one.batch < order.batch]
    damaged: list[str] = []
    for generation in reversed(earlier):
        if damaged and any(batch not in listing.entries for batch in range(generation.batch + 1, order.batch)):
            break  # it is there for its blocks only, the log since then is gone
        try:
            return _restored(checkpoint, state, number, generation, len(damaged))
        except StorageAwayError:
            raise  # nothing is known about the snapshot; the one before it would not be read either
        except (SnapshotError, StorageError) as error:
            damaged.append(str(error))
            state.pass_over(generation)
            log.error("snapshot is damaged, the one before it is used", bucket=number, batch_id=generation.batch, reason=str(error))  # noqa: TRY400
    first = _first(listing, order.batch)
    if damaged and first > 0:
        raise SnapshotError(
            f"bucket {number}: no snapshot before batch {order.batch} can be used: {'; '.join(damaged)}\n"
            "hint: cep checkpoint verify shows all that is damaged; a copy of the checkpoint can be put back with the application stopped"
        )
    if first > 0:  # every batch leaves an entry, an empty one as well
        raise SnapshotError(
            f"bucket {number}: no state before batch {order.batch} in the checkpoint {checkpoint}; was part of it deleted?\n"
            "hint: cep checkpoint verify shows what is missing"
        )
    fresh = load_deployment(checkpoint, order.directive.deployment)
    return Rebuilt(_empty(fresh, number), order.directive.deployment, damaged=len(damaged))


def _first(listing: Listing, batch: int) -> int:
    """The first batch in the log before this one."""
    return min((number for number in listing.entries if number < batch), default=batch)


def _restored(checkpoint: str, state: StateLog, number: int, generation: Generation, damaged: int) -> Rebuilt:
    snapshot = read_snapshot(state, generation)
    known = load_deployment(checkpoint, snapshot.deployment)
    bucket = Bucket.restore_parts(
        known.catalog, _rules(known), number, snapshot.parts, known.topics, memory_of=tuple_memory, chains_of=chains_of
    )
    return Rebuilt(bucket, snapshot.deployment, 0, 0, generation.batch, snapshot.size, damaged, snapshot.known)


def _entry(state: StateLog, listing: Listing, batch: int) -> tuple[memoryview, ...]:
    epoch = listing.entries.get(batch)
    if epoch is None:
        raise SnapshotError(
            f"the checkpoint is incomplete: there is no {state.entry_name(batch, 0).removesuffix('-0.bin')}-*.bin\n"
            "hint: cep checkpoint verify shows all that is missing"
        )
    try:
        return state.entry(batch, epoch)
    except StorageAwayError:
        raise
    except CepError as error:
        raise SnapshotError(f"{error}\nhint: cep checkpoint verify shows all that is damaged") from error


def _rules(deployment: Deployment) -> list[TimeRules]:
    return [stream.rules for stream in deployment.streams]


def _empty(deployment: Deployment, number: int) -> Bucket:
    return Bucket(deployment.catalog, _rules(deployment), number, deployment.topics, tuple_memory, chains_of=chains_of)
