"""Late events and dead letters: refused records, with the originals read again from the broker."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from app.control.messages.reports import Trouble
from app.delivery.originals import Original, OriginalReader
from app.events.batch import PARTITION_BITS
from app.events.topics import topic_name, topic_numbers
from app.owners.deployment import Deployment
from app.owners.egress import Failure, Records, add_dead_letters, add_late_events
from app.owners.orders import OwnerSettings
from app.owners.shipment import Refused

LATE = "late"
UNREADABLE = "originals"
"""The trouble that the driver is told of when originals could not be read."""


def add_letters(records: Records, refused: Sequence[Refused], deployment: Deployment, settings: OwnerSettings) -> tuple[Trouble, ...]:
    """Puts refused records among those that leave. Sources of files have no originals: places and reasons remain.

    Returns:
        What went wrong while they were read again.
    """
    options = tuple(sorted(settings.consumer_options.items()))
    problems: list[str] = []
    for one in refused:
        originals = _originals(one, deployment, options)
        problems += [original.problem for original in originals if original.problem]
        if one.reason == LATE:
            add_late_events(records, deployment.late_topic, originals)
        else:
            failures = [Failure(offset, one.reason, text) for offset, text in zip(one.offsets, one.texts, strict=True)]
            add_dead_letters(records, deployment.dead_letters_topic, settings.name, originals, failures)
    return (Trouble(UNREADABLE, len(problems), problems[0]),) if problems else ()


def _originals(refused: Refused, deployment: Deployment, options: tuple[tuple[str, str], ...]) -> list[Original]:
    number, partition = refused.source >> PARTITION_BITS, refused.source & ((1 << PARTITION_BITS) - 1)
    topic = topic_name(deployment.topics[number])
    is_there = (
        topic_numbers(deployment.topics)[topic] == number
    )  # else the topic was created again: these records are gone, and others have their places
    if options and is_there:
        return list(_reader(options).read(topic, partition, refused.offsets))
    return [Original(topic, partition, offset, found=False) for offset in sorted(refused.offsets)]


@lru_cache(maxsize=1)
def _reader(options: tuple[tuple[str, str], ...]) -> OriginalReader:
    return OriginalReader(dict(options))
