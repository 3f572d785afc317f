"""`cep record` of what a topic holds: the file has what the application takes, and is read again as what it was."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from app.delivery.span import HEADERS, Part
from app.events.avro import parse_schema
from app.events.registry import FixedSchemas
from app.local.generators.avro_records import confluent_header
from app.pipeline.recorded import StreamReader

NOW = 1_780_000_000_000
DAY = 86_400_000
SCHEMA = {
    "type": "record",
    "name": "Quote",
    "fields": [
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "symbol", "type": "string"},
        {"name": "price", "type": "double"},
    ],
}
SETTINGS = "streams:\n  quotes: {topics: [q], schemas: [Quote.avsc], time: time, allowed_lateness: 0 s}\nqueries: {paths: [q.yaml]}\n"
QUERY = """\
name: rise
from: quotes
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > a.price"
within: 10 s
return: {low: a.price, high: b.price}
"""
Record = Callable[..., str]


class Held:
    """A span of records that all came to Kafka at `NOW`."""

    def __init__(self, quotes: tuple[tuple[int, float], ...]) -> None:
        self.size = len(quotes)
        self._quotes = quotes

    def parts(self) -> Iterator[Part]:
        numbers = np.arange(self.size)
        nothing = np.zeros(self.size, dtype=np.int64)
        values = pa.array([written(*quote) for quote in self._quotes], pa.binary())
        yield Part(values, nothing, nothing, numbers, np.full(self.size, NOW), pa.array([[]] * self.size, HEADERS))


def written(time: int, price: float) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(SCHEMA), {"time": time, "symbol": "IBM", "price": price})
    return confluent_header(1) + body.getvalue()


@pytest.fixture
def record(cep, monkeypatch: pytest.MonkeyPatch) -> Record:
    """Records quotes (time, price) into ``e.jsonl``; what the command tells comes back."""
    Path("Quote.avsc").write_text(json.dumps(SCHEMA))
    Path("s.yaml").write_text(SETTINGS)
    Path("q.yaml").write_text(QUERY)
    monkeypatch.setattr("app.cli.streams.record.connect", lambda _: SimpleNamespace(metadata=None))
    monkeypatch.setattr("app.cli.streams.record.absent", lambda *_: [])
    monkeypatch.setattr("app.pipeline.recorded.Registry", lambda _: FixedSchemas({1: parse_schema(SCHEMA)}))

    def run(*quotes: tuple[int, float]) -> str:
        monkeypatch.setattr(StreamReader, "span", lambda *_: Held(quotes))
        code, _, err = cep("record", "quotes", "--settings", "s.yaml", "--out", "e.jsonl")
        assert code == 0, err
        return err

    return run


def prices(cep, *more: str) -> list[tuple[float, float]]:
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", *more)
    assert code == 0, err
    return [(one["fields"]["low"], one["fields"]["high"]) for one in map(json.loads, out.splitlines())]


def test_an_event_that_the_application_refuses_for_its_time_is_not_recorded(cep, record) -> None:
    told = record((NOW, 1.0), (NOW + 2 * DAY, 2.0), (NOW + 1000, 3.0))
    assert "2 events of quotes, 1 records that the application refuses" in told
    assert prices(cep, "--settings", "s.yaml") == [(1.0, 3.0)]


@pytest.mark.parametrize("settings", [True, False])
def test_floats_that_are_no_numbers_to_json_are_read_again_as_what_they_were(cep, record, settings) -> None:
    told = record((NOW, math.nan), (NOW + 1, -math.inf), (NOW + 2, 1.0), (NOW + 3, math.inf), (NOW + 4, math.nan))
    assert "5 events of quotes, 0 records that the application refuses" in told
    assert len(prices(cep, *(["--settings", "s.yaml"] if settings else []))) == 3, (
        "from -Infinity to 1.0 and Infinity, from 1.0 to Infinity"
    )
