"""When a checkpoint's state moves: to another number of buckets because somebody asks for it, and at a start where queries begin or cease to be read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.bucket.composition import stream_of
from app.bucket.rescale import moved_groups
from app.config.settings import Settings
from app.control.messages.batch_log import BatchLog
from app.errors import CepError
from app.observe.logs import get_logger
from app.owners.deployment import Deployment, load_deployment
from app.owners.rescaling import MovedState, Tell, finish_move, move
from app.pipeline.draining import past_of
from app.pipeline.numbers import Numbers, load_numbers, store_numbers
from app.query.plan import Catalog
from app.storage.open import open_store

log = get_logger(__name__)


class RescaleError(CepError):
    """The state cannot be moved."""


@dataclass(frozen=True, slots=True)
class Rescaled:
    """What was done.

    Attributes:
        before: number of buckets; the same as now where nothing was to be done.
        state: in its new place; None where nothing was to be done.
    """

    before: int
    state: MovedState | None = None


def numbers_after_moves(checkpoint: str) -> Numbers:
    """The registry of a checkpoint, in which no move is half done any more; see `app.owners.rescaling.finish_move`.

    Raises:
        SnapshotError, StorageError: the checkpoint cannot be read or written.
    """
    numbers = load_numbers(checkpoint)
    finish_move(checkpoint, numbers.home)
    return numbers


def rescale(checkpoint: str, buckets: int, tell: Tell) -> Rescaled:
    """Moves the state to another number of buckets; composite events and their identities are those of a run in which nothing was moved.

    Args:
        checkpoint: whose sole driver the caller is.
        buckets: how many there are to be.
        tell: gets a sentence now and then.

    Raises:
        RescaleError: there is no state yet.
        SnapshotError, StorageError: it cannot be read or written; the old state counts.
    """
    numbers = numbers_after_moves(checkpoint)
    if numbers.buckets is None:
        raise RescaleError(f"the checkpoint {checkpoint} holds no state yet\nhint: set spark.buckets: {buckets}")
    if numbers.buckets == buckets:
        return Rescaled(buckets)
    newest = BatchLog(open_store(checkpoint)).latest()
    if newest is None:  # it was started, but no batch was ever planned
        store_numbers(checkpoint, replace(numbers, buckets=buckets))
        return Rescaled(numbers.buckets, MovedState(numbers.home, None))
    deployment = replace(load_deployment(checkpoint, newest.directive.deployment), buckets=buckets)
    return Rescaled(numbers.buckets, _moved(checkpoint, numbers, deployment, tell))


def move_to_readers(settings: Settings, deployment: Deployment) -> tuple[str, ...]:
    """At a start: moves the state where queries live elsewhere than before, because others begin to read them, or cease to; returns their names.

    Args:
        settings: of the application; the caller is the checkpoint's sole driver, and it is settled.
        deployment: that is to run.

    Raises:
        SnapshotError, StorageError: the state cannot be read or written; the old one counts.
    """
    past = past_of(settings)
    names = () if past is None else moved_groups(past.deployment.catalog, deployment.catalog)
    if not names:
        return ()
    checkpoint, started = settings.checkpoint.uri, time.monotonic()
    numbers = load_numbers(checkpoint).in_buckets(deployment.buckets)
    log.info("queries begin or cease to be read by others: their state moves", queries=list(names))
    moved = _moved(checkpoint, numbers, deployment, lambda what: log.info("state moves", step=what))
    log.info(
        "state moved",
        queries=list(names),
        after_batch=moved.committed,
        buckets=deployment.buckets,
        bytes=sum(moved.sizes),
        seconds=round(time.monotonic() - started, 3),
    )
    return names


def readers_of(catalog: Catalog, query: str) -> Sequence[str]:
    """Names of the queries that read another one's composite events."""
    return sorted(plan.name for plan in catalog.plans if stream_of(query) in plan.streams)


def _moved(checkpoint: str, numbers: Numbers, deployment: Deployment, tell: Tell) -> MovedState:
    assert numbers.buckets is not None, "there is state"  # noqa: S101
    moved = move(checkpoint, numbers.home, numbers.buckets, deployment, tell)
    store_numbers(checkpoint, numbers.moved(deployment.buckets, moved.home))  # from here on the new one counts
    finish_move(checkpoint, moved.home)
    return moved
