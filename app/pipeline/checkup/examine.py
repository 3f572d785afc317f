"""All checks, in the order in which a start needs things; what rests on something that failed is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from app.config.settings import Settings
from app.delivery.connection import Connected, connect
from app.delivery.topics import WantedTopic, wanted_topics
from app.errors import CepError
from app.pipeline.checkup import kafka, machine, schemas
from app.pipeline.checkup.checks import Check, attempted, of_error
from app.query.compile import Compilation


def examine(settings: Settings, clock_ms: Callable[[], int], *, write: bool = True) -> Iterator[Check]:
    """Looks at everything.

    Args:
        settings: of the application.
        clock_ms: this machine's clock.
        write: whether heartbeats may be written, to hold the clocks against each other.
    """
    yield from attempted("versions", machine.versions)
    yield from attempted("disk", lambda: machine.disks(settings))
    yield from attempted("checkpoint", lambda: machine.checkpoint(settings))
    yield from attempted("port", lambda: machine.port(settings))
    asked = schemas.ask(settings)
    yield from asked.checks
    compiled: Compilation | None = None
    if asked.answers or all(stream.schemas for stream in settings.streams.values()):
        checks, compiled = schemas.schemas(settings, asked)
        yield from checks
    else:
        yield Check("schemas", "skipped", "the registry does not answer")
    yield from attempted("queries", lambda: schemas.queries(settings, compiled or schemas.known_anyhow(settings)))
    yield from _of_brokers(settings, wanted_topics(settings, (compiled or schemas.known_anyhow(settings)).catalog), clock_ms, write=write)


def _of_brokers(settings: Settings, wanted: tuple[WantedTopic, ...], clock_ms: Callable[[], int], *, write: bool) -> Iterator[Check]:
    try:
        connected: Connected = connect(settings.kafka)
        known = kafka.described(connected, wanted, settings)
    except CepError as error:
        yield of_error("brokers", error)
        yield from (Check(name, "skipped", "the brokers do not answer") for name in ("topics", "partitions", "permissions", "clock"))
        return
    yield from kafka.brokers(connected)
    yield from attempted("permissions", lambda: kafka.permissions(settings, wanted, known, connected))
    yield from attempted("topics", lambda: kafka.topics(settings, wanted, known))
    yield from attempted("partitions", lambda: kafka.partitions(known))
    if not write:
        yield Check("clock", "skipped", "nothing is written (--read-only)")
    elif settings.topics.heartbeat not in known.found:
        yield Check("clock", "skipped", "there is no heartbeat topic to write to")
    else:
        yield from attempted("clock", lambda: kafka.clock(settings, clock_ms))
