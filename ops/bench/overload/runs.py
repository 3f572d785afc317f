"""The application under load: what came out, when, and what it said about itself."""

from __future__ import annotations

import io
import json
import time
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.request import urlopen

import fastavro
import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from app.config.settings import Settings
from app.control.law.watchdog import Watchdog
from app.control.messages.batch_log import DIRECTIVE, BatchLog
from app.control.messages.directives import Directive
from app.storage.open import open_store
from ops.bench.overload.load import Schedule, Sending
from ops.bench.overload.speed import SpeedProbe
from ops.bench.overload.workloads import Place, Workload
from ops.bench.pipeline import application, apply_topics, everything

POLL_S = 5
"""How often directives are fetched: the batch log keeps the last hundred batches."""


@dataclass(frozen=True, slots=True)
class Composite:
    """A composite event.

    Attributes:
        places: topic partitions and offsets of its events.
        told_ms: broker time of itself.
        time_ms: its own, as time goes in its stream.
    """

    partition_key: str | None
    places: tuple[tuple[int, int], ...]
    told_ms: float
    time_ms: int


@dataclass(frozen=True, slots=True)
class Run:
    """What a run gave.

    Attributes:
        composites: by query and identity.
        arrived: broker times (ms) of the topic's records, by topic partition; the place is the offset.
        directives: by batch.
        audits: records of the audit topic, by the name of their schema.
        schedule: of the input, which began at a time of the clock and was sent so late at worst.
        speeds: of the processor, as `SpeedProbe.speeds`.
    """

    workload: Workload
    settings: Settings
    composites: Mapping[str, Mapping[str, Composite]]
    arrived: Mapping[int, NDArray[np.float64]]
    directives: Mapping[int, Directive]
    audits: Mapping[str, list[dict[str, Any]]]
    schedule: Schedule = field(default_factory=lambda: Schedule((), 0))
    began_ms: float = 0.0
    behind_s: float = 0.0
    speeds: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))

    def last_ms(self, composite: Composite) -> float:
        """Broker time of the last of its events to arrive, in this run."""
        return max(float(self.arrived[partition][offset]) for partition, offset in composite.places)


def shed_run(spark: SparkSession, place: Place, workload: Workload, shedder: str | None, schedule: Schedule) -> Run:
    """The application while events arrive phase by phase.

    Args:
        shedder: of all queries with a bound; None sheds nothing.
    """
    label = shedder or "unshed"
    settings = place.settings(workload, label, shedder)
    apply_topics(settings)
    asked: dict[int, Directive] = {}
    with (
        application(spark, settings, available_now=False),
        forced(workload),
        SpeedProbe() as probe,
        Sending(place.folder / label / "settings.yaml", workload, schedule) as sending,
    ):
        while sending.going_on:
            sending.wait(POLL_S)
            _note_directives(settings, asked)
        behind_s = sending.end()
        time.sleep(POLL_S)  # what was sent last is on its way
        _note_directives(settings, asked)
    found, arrived, audits = composites_of(settings, workload), _arrivals(settings, workload.stream), audits_of(settings)
    return Run(workload, settings, found, arrived, asked, audits, schedule, sending.began_ms, behind_s, probe.speeds)


@contextmanager
def forced(workload: Workload) -> Iterator[None]:
    """Ratios that are not the watchdog's, where the workload says so."""
    own = Watchdog.ratios
    if workload.forced is not None:
        Watchdog.ratios = property(lambda _: dict.fromkeys(workload.bounds_ms, workload.forced))  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Watchdog.ratios = own  # type: ignore[method-assign]


def whole_run(spark: SparkSession, place: Place, workload: Workload) -> Run:
    """The same topic from its beginning, without shedding and without hurry."""
    settings = place.settings(workload, "whole", None)
    apply_topics(settings)
    with application(spark, settings, available_now=True) as query:
        query.awaitTermination()
    return Run(workload, settings, composites_of(settings, workload), {}, {}, {})


def _note_directives(settings: Settings, asked: dict[int, Directive]) -> None:
    log = BatchLog(open_store(settings.checkpoint.uri))
    for batch, kind in log.logged_files():
        if kind == DIRECTIVE and batch not in asked:
            directive = log.logged(batch)
            if directive is not None:
                asked[batch] = directive


def composites_of(settings: Settings, workload: Workload) -> dict[str, dict[str, Composite]]:
    """Of the workload's queries, from their topics."""
    readers = _Readers(settings)
    found: dict[str, dict[str, Composite]] = {}
    for query in workload.queries:
        found[query] = {}
        for message in everything(settings, f"{settings.topics.prefix}.{query}"):
            read = readers.read(message)
            places = tuple((event["partition"], event["offset"]) for event in read["events"])
            time_ms = round(read["time"].timestamp() * 1000)
            found[query][read["id"]] = Composite(read.get("partition_key"), places, message.timestamp()[1], time_ms)
    return found


def audits_of(settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """All audit records, by the name of their schema."""
    readers, found = _Readers(settings), {}
    for message in everything(settings, settings.topics.audit):
        name = readers.schema(message)["name"].rpartition(".")[2]
        found.setdefault(name, []).append(readers.read(message))
    return found


class _Readers:
    """Reads records as any consumer would: by the id of their schema."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.schema_registry.url
        self._schemas: dict[int, Any] = {}

    def schema(self, message: Message) -> Any:
        """Of a record in the wire format."""
        number = int.from_bytes(message.value()[1:5], "big")
        if number not in self._schemas:
            with urlopen(f"{self._url}/schemas/ids/{number}", timeout=10) as answer:
                self._schemas[number] = fastavro.parse_schema(json.loads(json.load(answer)["schema"]))
        return self._schemas[number]

    def read(self, message: Message) -> dict[str, Any]:
        """What is in a record."""
        return fastavro.schemaless_reader(io.BytesIO(message.value()[5:]), self.schema(message))


def _arrivals(settings: Settings, topic: str) -> dict[int, NDArray[np.float64]]:
    found: dict[int, array[float]] = {}
    for message in everything(settings, topic):
        found.setdefault(message.partition(), array("d")).append(message.timestamp()[1])
    return {partition: np.frombuffer(times, dtype=np.float64) for partition, times in found.items()}
