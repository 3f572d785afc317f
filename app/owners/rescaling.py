"""A checkpoint's whole state, moved: to another number of buckets, or to where its queries live now that others begin or cease to read them.

What is moved is written into a folder of its own, from the state after the last committed batch; the old folder is what counts until one small file
(`app.pipeline.numbers`) names the new one. So whatever ends this in the middle leaves a state that is whole: the old one before that write, the new
one after it, and `finish_move` does what was left to do. The new folder begins with snapshots: no log entry of before is fed again under another catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.bucket.rescale import rescaled
from app.bucket.snapshot import unpack_parts
from app.control.messages.batch_log import BatchLog
from app.control.messages.directives import Frozen
from app.owners.blocks import Known, cut_up
from app.owners.deployment import Deployment, load_deployment, store_deployment
from app.owners.inventory import SPARK, newest_batch
from app.owners.orders import EPOCHS_PER_RUN, Advance
from app.owners.rebuilding import moved, rebuilt
from app.owners.state_log import FORMAT, SNAPSHOT, Generation, StateHome, state_log
from app.owners.tuple_memory import tuple_memory
from app.storage.frames import write_frame
from app.storage.open import open_store
from app.storage.store import Store

Tell = Callable[[str], None]
"""Gets a sentence now and then: this may take long."""


@dataclass(frozen=True, slots=True)
class MovedState:
    """A state in its new folder, which does not count yet.

    Attributes:
        home: the new one.
        committed: the batch after which the state is; None: before the first.
        sizes: of the buckets' snapshots, bytes.
    """

    home: StateHome
    committed: int | None
    sizes: tuple[int, ...] = ()


def move(checkpoint: str, home: StateHome, buckets: int, deployment: Deployment, tell: Tell) -> MovedState:
    """Writes the state as it is after the last committed batch for a deployment, in as many buckets as that has. Changes nothing that counts.

    Args:
        checkpoint: whose sole driver the caller is; it is settled.
        home: where the state is.
        buckets: in how many.
        deployment: under which it is to go on.
        tell: told of every bucket.

    Raises:
        SnapshotError: what there is cannot be read, or a query's state cannot be moved.
        StorageError: the checkpoint cannot be read or written.
    """
    store = open_store(checkpoint)
    log, committed = BatchLog(store), newest_batch(store, f"{SPARK}/commits")
    newest, fingerprint = log.latest(), store_deployment(checkpoint, deployment)
    following = StateHome(home.number + 1, -1 if newest is None else newest.directive.batch, fingerprint)
    if newest is None or committed is None:
        tell("no batch is committed yet: nothing is to be moved")
        _clear(store, following)
        return MovedState(following, committed)
    order = Advance("", committed + 1, 0, newest.directive, {}, {}, ())
    snapshots = []
    for number in range(buckets):
        snapshots.append(_state_of(checkpoint, store, home, number, order))
        tell(f"bucket {number} is read as it was after batch {committed}: {len(snapshots[-1]):,} bytes")
    parts = rescaled(snapshots, deployment.catalog, [stream.rules for stream in deployment.streams], deployment.buckets, tuple_memory)
    _clear(store, following)
    sizes, epoch = [], log.begin_run() * EPOCHS_PER_RUN
    for number, data in enumerate(parts):
        sizes.append(_write(store, following, number, Generation(committed, epoch + number), data))
        tell(f"bucket {number} of {len(parts)} is written: {sizes[-1]:,} bytes")
    return MovedState(following, committed, tuple(sizes))


def finish_move(checkpoint: str, home: StateHome) -> None:
    """Makes the rest of the checkpoint go by where the state is: the newest directive names its deployment, and nothing lies where it was before.

    To be called before anything else is done with a checkpoint; twice does no harm.

    Raises:
        StorageError, SnapshotError: the checkpoint cannot be read or written.
    """
    if not home.number:
        return
    store = open_store(checkpoint)
    log = BatchLog(store)
    newest = log.latest()
    if newest is not None and newest.directive.batch == home.newest and newest.directive.deployment != home.deployment:
        log.rewrite(_under(newest, home.deployment, load_deployment(checkpoint, home.deployment)))
    _clear(store, replace(home, number=home.number - 1))


def _under(known: Frozen, fingerprint: str, deployment: Deployment) -> Frozen:
    """The directive with all its decisions, under another deployment. Orders of selection fit one catalog; what they find is the same."""
    directive, version = known.directive, deployment.catalog.version
    selection = directive.selection if directive.catalog_version == version else {}
    return replace(known, directive=replace(directive, deployment=fingerprint, catalog_version=version, selection=selection, coming=""))


def _state_of(checkpoint: str, store: Store, home: StateHome, number: int, order: Advance) -> bytes:
    """A bucket's snapshot, under the deployment that the order names."""
    found = rebuilt(checkpoint, state_log(store, home.folder, number), number, order)
    same = found.deployment == order.directive.deployment
    return (found.bucket if same else moved(checkpoint, found.bucket, order.directive.deployment)).snapshot()


def _write(store: Store, home: StateHome, number: int, generation: Generation, data: bytes) -> int:
    name = state_log(store, home.folder, number).snapshot_name(generation)
    cut = cut_up(name, [(part, [content]) for part, content in unpack_parts(data).items()], Known(), deployment=home.deployment)
    return write_frame(store, name, SNAPSHOT, FORMAT, [cut.head, *cut.fresh])


def _clear(store: Store, home: StateHome) -> None:
    """Nothing may lie in a folder that is not the state's."""
    names: Sequence[str] = [stored.name for stored in store.names(home.folder)]
    if names:
        store.delete(names)
