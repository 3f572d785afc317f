"""The difference becomes records: what is missing with the bytes that the application would have written, what is false as it stands there, taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from app.config.settings import Settings
from app.delivery.composite_schema import RECONCILED, RETRACTED
from app.delivery.originals import Original, OriginalReader
from app.delivery.security import shipped_consumer_options
from app.owners.egress import Headers
from app.pipeline.publisher import Publisher
from app.pipeline.reconcile.found import TYPE, Found
from app.pipeline.reconcile.identities import Difference, Kind

REASON = "cep.reason"
MISSED, FALSE = b"shed", b"false-positive"


def corrected(headers: Headers, ending: str, reason: bytes) -> Headers:
    """The headers of a composite event that is published late, or taken back.

    >>> corrected((("ce_type", b"cep.theft.v1.reconciled"), ("ce_id", b"7")), RETRACTED, FALSE)
    (('ce_type', b'cep.theft.v1.retracted'), ('ce_id', b'7'), ('cep.reason', b'false-positive'))
    """
    kept = [(name, _with_ending(value, ending) if name == TYPE else value) for name, value in headers if name != REASON]
    return (*kept, (REASON, reason))


def _with_ending(kind: bytes | None, ending: str) -> bytes:
    return (kind or b"").removesuffix(RECONCILED.encode()) + ending.encode()


def publish_missing(publisher: Publisher, found: Found, differences: Mapping[Kind, Difference]) -> None:
    """Publishes what does not stand on the topics and should."""
    for kind, identity, record in found.records():
        if identity in differences[kind].missing:
            publisher.add(record.topic, record.key, record.value, corrected(record.headers, RECONCILED, MISSED))


@dataclass(frozen=True, slots=True)
class NotRetracted:
    """What stands on the topics, should not, and was not taken back.

    Attributes:
        gone: by kind, records that are gone.
        unread: by kind, records that could not be read again.
        problem: why the first of these could not; empty where all could.
    """

    gone: Counter[Kind]
    unread: Counter[Kind]
    problem: str


def retract(publisher: Publisher, settings: Settings, differences: Mapping[Kind, Difference]) -> NotRetracted:
    """Takes back what stands on the topics and should not."""
    kinds = {(*place, offset): kind for kind, one in differences.items() for place, offset in one.false.values()}
    gone: Counter[Kind] = Counter()
    unread: Counter[Kind] = Counter()
    problem = ""
    for original in _originals(settings, sorted(kinds)):
        kind = kinds[original.topic, original.partition, original.offset]
        if original.found:
            headers = corrected(original.headers, RETRACTED, FALSE)
            publisher.add(original.topic, original.key, original.value, headers)
        elif original.problem:
            unread[kind] += 1
            problem = problem or original.problem
        else:
            gone[kind] += 1
    return NotRetracted(gone, unread, problem)


def _originals(settings: Settings, places: list[tuple[str, int, int]]) -> Iterator[Original]:
    if not places:
        return
    reader = OriginalReader(shipped_consumer_options(settings.kafka))
    try:
        for (topic, partition), own in groupby(places, lambda place: place[:2]):
            yield from reader.read(topic, partition, [offset for _, _, offset in own])
    finally:
        reader.close()
