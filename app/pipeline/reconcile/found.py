"""What the run without shedding finds: its identities in memory, its records in files until it is known which are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from app.owners.egress import Headers
from app.pipeline.reconcile.identities import Kind, Ledger, type_of
from app.pipeline.reconcile.scope import Interval

ID, TYPE, TIME = "ce_id", "ce_type", "ce_time"


@dataclass(frozen=True, slots=True)
class Record:
    """A record that the application would have written."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Compared:
    """What of a kind is compared.

    Attributes:
        version: of the query.
        topic: where its records are.
        scope: match times.
    """

    version: int
    topic: str
    scope: Interval


def milliseconds(time: str) -> int:
    """The match time in a record's header.

    >>> milliseconds("2026-05-28T20:26:40.250Z")
    1780000000250
    """
    return round(datetime.fromisoformat(time).timestamp() * 1000)


class Found:
    """Takes what is found, batch by batch.

    Args:
        compared: by kind.
        ledgers: by kind; get the identities.
        folder: for the records, or None where nothing will be published.
    """

    def __init__(self, compared: Mapping[Kind, Compared], ledgers: Mapping[Kind, Ledger], folder: Path | None) -> None:
        self._kinds = {type_of(kind, one.version): kind for kind, one in compared.items()}
        self._compared, self._ledgers, self._folder = compared, ledgers, folder
        self._files: list[Path] = []

    def take(self, table: pa.Table) -> None:
        """The output records of one batch (`app.owners.egress.OUTPUT_SCHEMA`); of late events and dead letters the application told itself."""
        topics = table.column("topic").to_pylist() if table.num_rows else []
        rows = [row for row, (topic, headers) in enumerate(zip(topics, _headers(table), strict=True)) if self._noted(topic, headers)]
        if rows and self._folder is not None:
            self._files.append(self._folder / f"{len(self._files):09}.parquet")
            pq.write_table(table.take(pa.array(rows)), self._files[-1])

    def records(self) -> Iterator[tuple[Kind, bytes, Record]]:
        """Kind, identity and content of every record."""
        for file in self._files:
            table = pq.read_table(file)
            columns = (table.column(name).to_pylist() for name in ("topic", "key", "value"))
            for topic, key, value, headers in zip(*columns, _headers(table), strict=True):
                told = dict(headers)
                yield self._kinds[_text(told[TYPE])], bytes.fromhex(_text(told[ID])), Record(topic, key, value, headers)

    def _noted(self, topic: str, headers: Headers) -> bool:
        """Notes the identity of what is compared; whether it is. Composite events that are too large are among the dead letters, now and then."""
        told = dict(headers)
        kind = self._kinds.get(_text(told.get(TYPE)))
        if kind is None or topic != self._compared[kind].topic or not self._compared[kind].scope.holds(milliseconds(_text(told[TIME]))):
            return False
        self._ledgers[kind].true.add(bytes.fromhex(_text(told[ID])))
        return True


def _headers(table: pa.Table) -> Iterator[Headers]:
    for headers in table.column("headers").to_pylist() if table.num_rows else ():
        yield tuple((one["key"], one["value"]) for one in headers or ())


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
