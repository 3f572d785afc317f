"""A batch that was not over when its driver was killed: what owners had been fed in it, and what they had written."""

from __future__ import annotations

from dataclasses import dataclass

from app.bucket.chunk import unpack_chunk
from app.control.messages.batch_log import BatchLog
from app.control.messages.directives import Directive
from app.owners.state_log import STATE, StateLog, state_log
from app.storage.open import open_store
from tests.kafka.application import Application, Record, records_of
from tests.undated import DETECTED_AT, head, undated

Fed = set[tuple[int, int, int, bytes, bool]]
"""Events: query group, source, offset, what each could be, and whether it was shed."""


def uncommitted(application: Application) -> int:
    """The batch after the last one that Spark has committed."""
    return 1 + max(int(path.name) for path in (application.checkpoint / "spark" / "commits").glob("*") if path.name.isdigit())


def directive_of(application: Application, batch: int) -> Directive | None:
    """As it is stored; None while nothing is decided."""
    return BatchLog(open_store(str(application.checkpoint))).logged(batch)


def _log(application: Application, bucket: int) -> StateLog:
    return state_log(open_store(str(application.checkpoint)), STATE, bucket)


def epochs_of(application: Application, batch: int, buckets: int) -> dict[int, int]:
    """By bucket whose log of the batch is there, the epoch of the owner that wrote it."""
    known = {number: _log(application, number).listing().entries.get(batch) for number in range(buckets)}
    return {number: epoch for number, epoch in known.items() if epoch is not None}


def fed(application: Application, batch: int, bucket: int, epoch: int) -> Fed:
    """The events that a bucket was fed: kept ones, and shed ones that it was told of. How tasks cut them into chunks does not matter."""
    _, *chunks = _log(application, bucket).entry(batch, epoch)
    sections = [section for chunk in chunks for section in unpack_chunk(bytes(chunk)).sections]
    return {
        (one.group, int(one.batch.source[row]), int(one.batch.offset[row]), one.bitmaps[row].tobytes(), bool(one.hidden))
        for one in sections
        for row in range(len(one.batch))
    }


@dataclass(frozen=True)
class Torn:
    """What there was when everybody was dead.

    Attributes:
        epochs: by bucket, of the owners that had written its log.
        fed: by bucket, what.
        records: of the topics that were asked for.
    """

    number: int
    directive: Directive
    epochs: dict[int, int]
    fed: dict[int, Fed]
    records: list[Record]


def torn(application: Application, servers: str, topics: list[str], buckets: int) -> Torn:
    """Looks at the checkpoint and the topics of an application that is dead."""
    number = uncommitted(application)
    directive, epochs = directive_of(application, number), epochs_of(application, number, buckets)
    assert directive is not None
    own = {bucket: fed(application, number, bucket, epoch) for bucket, epoch in epochs.items()}
    return Torn(number, directive, epochs, own, records_of(servers, *topics))


def fed_again(application: Application, before: Torn) -> dict[int, Fed]:
    """What the same buckets were fed by the owners that did the batch again."""
    epochs = epochs_of(application, before.number, max(before.epochs) + 1)
    assert all(epochs[bucket] > epoch for bucket, epoch in before.epochs.items()), "other owners"
    return {bucket: fed(application, before.number, bucket, epochs[bucket]) for bucket in before.epochs}


def was_written(application: Application, servers: str, topics: list[str]) -> bool:
    """Whether the batch that is not over has left a composite event in one of the topics."""
    directive = directive_of(application, uncommitted(application))
    built = (head(record.value)[0][DETECTED_AT] for record in records_of(servers, *topics))
    return directive is not None and any(1000 * moment.timestamp() >= directive.decided_at_ms for moment in built)


def by_identity(records: list[Record]) -> dict[str, list[str]]:
    """Composite events without the moment at which they were built, by identity, as often as they were written."""
    found: dict[str, list[str]] = {}
    for record in records:
        found.setdefault(record.headers["ce_id"].decode(), []).append(undated(record.value))
    return found
