"""Generated streams are what they say: reproducible, in order, and true to their ground truth (asked of the naive engine)."""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from pathlib import Path

import fastavro
import numpy as np
import orjson
import pytest

from app.events.batch import ABSENT, NULL, Column, Dictionary, EventBatch, concatenate
from app.events.types import Kind
from app.local.generators import KINDS, generate
from app.local.generators.avro_records import avro_records, confluent_header
from app.local.generators.json_lines import json_lines
from tests.naive.language import Arith, Attr, Compare, Const, Equivalence, Event, Item, Query
from tests.naive.matching import matches
from tests.property.event_arrays import naive_events


def naive_found(query: Query, events: list[Event], key: str) -> list[dict]:
    """Matches as variables' events, partition by partition (the queries are all partitioned)."""
    partitions = defaultdict(list)
    for event in events:
        partitions[event["attributes"][key]].append(event)
    return [
        {query.items[item].var: bound[0] for item, bound in match.assignment.items() if bound}
        for part in partitions.values()
        for match in matches(query, part)
    ]


def attributes_equal(op: str, one: str, other: str, name: str) -> Compare:
    return Compare(op, Attr(one, name), Attr(other, name))


TAG = (Equivalence("tag_id"),)
SHOPLIFTING = Query(
    (Item(("ShelfReading",), "s"), Item(("CounterReading",), "c", negated=True), Item(("ExitReading",), "e")), TAG, (), 43_200_000
)
MISPLACED = Query(
    (
        Item(("ShelfReading",), "h", negated=True),
        Item(("ShelfReading",), "x"),
        Item(("ShelfReading",), "m", negated=True),
        Item(("ShelfReading",), "y"),
        Item(("CounterReading", "ShelfReading"), "z", negated=True),
    ),
    TAG,
    (
        attributes_equal("!=", "x", "y", "shelf_id"),
        attributes_equal("=", "h", "y", "shelf_id"),
        attributes_equal("=", "z", "x", "shelf_id"),
    ),
    3_600_000,
)
COUNTERFEIT = Query(
    (Item(("BackroomReading", "ShelfReading"), "b", negated=True), Item(("ShelfReading",), "s"), Item(("CounterReading",), "c")),
    TAG,
    (),
    604_800_000,
)


@pytest.mark.parametrize("rate", [1, 50, 100_000])
def test_retail_truth_is_what_the_definitions_find(rate: float) -> None:
    stream = generate("retail", 3000, seed=3, rate_per_s=rate, batch_rows=1000)
    events = [event for batch in stream.batches for event in naive_events(batch)]
    for query, name, variable in (
        (SHOPLIFTING, "shoplifting", "e"),
        (MISPLACED, "misplaced-item", "x"),
        (COUNTERFEIT, "counterfeit-path", "c"),
    ):
        found = [{"tag_id": bound[variable]["attributes"]["tag_id"]} for bound in naive_found(query, events, "tag_id")]
        assert len(stream.truth[name].expected) > 5
        assert stream.truth[name].score(found) == (1.0, 1.0), name


def rise(later: str, earlier: str) -> Compare:
    return Compare(">=", Attr(later, "price"), Arith("*", Const(1.005, "float"), Attr(earlier, "price")))


@pytest.mark.slow
def test_price_runs_are_what_the_definitions_find() -> None:
    quote = ("Quote",)
    query = Query(
        (Item(quote, "a"), Item(quote, "x", negated=True), Item(quote, "b"), Item(quote, "y", negated=True), Item(quote, "c")),
        (Equivalence("symbol"),), (rise("b", "a"), rise("c", "b")), 600_000,
    )  # fmt: skip
    stream = generate("stocks", 5000, seed=6, rate_per_s=5)
    events = [event for batch in stream.batches for event in naive_events(batch)]
    rare = {symbol for symbol, quotes in Counter(event["attributes"]["symbol"] for event in events).items() if quotes < 25}
    found = naive_found(query, [e for e in events if e["attributes"]["symbol"] in rare], "symbol")
    expected = {row for row in stream.truth["price-run"].expected if row[0] in rare}
    assert {(bound["c"]["attributes"]["symbol"], bound["c"]["time"]) for bound in found} == expected
    assert expected


@pytest.mark.slow
def test_humid_spells_are_what_the_definitions_find() -> None:
    def humid(variable: str, op: str) -> Compare:
        return Compare(op, Attr(variable, "humidity"), Const(60, "integer"))

    reading = ("RoomClimate",)
    query = Query(
        (Item(reading, "d"), Item(reading, "x", negated=True), Item(reading, "h"), Item(reading, "b", negated=True)),
        (Equivalence("mote_id"),), (humid("d", "<="), humid("h", ">"), humid("b", "<=")), 600_000,
    )  # fmt: skip
    stream = generate("sensors", 1500, seed=7, rate_per_s=0.5)
    events = [event for batch in stream.batches for event in naive_events(batch)]
    found = [
        {"mote_id": bound["h"]["attributes"]["mote_id"], "since": bound["h"]["time"]} for bound in naive_found(query, events, "mote_id")
    ]
    assert found
    assert stream.truth["humid-room"].score(found) == (1.0, 1.0)


@pytest.mark.slow
def test_late_vehicles_are_what_the_definitions_find() -> None:
    arrival = ("StopArrival",)
    late = [Compare(">=", Attr(v, "delay_s"), Const(300, "integer")) for v in "abc"]
    different = [attributes_equal("!=", one, other, "vehicle_id") for one, other in ("ab", "ac", "bc")]
    query = Query(tuple(Item(arrival, v) for v in "abc"), (Equivalence("stop_id"),), (*late, *different), 600_000)
    stream = generate("vehicles", 500, seed=5, rate_per_s=0.1)
    events = [event for batch in stream.batches for event in naive_events(batch)]
    found = [
        {"stop_id": b["a"]["attributes"]["stop_id"], "began": b["a"]["time"], "ended": b["c"]["time"]}
        for b in naive_found(query, events, "stop_id")
    ]
    assert found
    assert stream.truth["delayed-vehicles"].score(found) == (1.0, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_is_in_order_of_the_asked_size_and_the_same_for_the_same_seed(kind: str) -> None:
    one, same, other = (generate(kind, 2500, seed=seed, start_ms=10**12, rate_per_s=20, batch_rows=700) for seed in (1, 1, 2))
    whole = concatenate(one.batches)
    assert [len(batch) for batch in one.batches] == [700, 700, 700, 400]
    assert (np.diff(whole.time) >= 0).all()
    assert whole.time[0] >= 10**12
    assert whole.offset.tolist() == list(range(2500))
    assert list(json_lines(one.batches)) == list(json_lines(same.batches))
    assert one.truth == same.truth
    assert list(json_lines(one.batches)) != list(json_lines(other.batches))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [0.5, 1000])
def test_the_rate_is_the_rate_of_event_time(kind: str, rate: float) -> None:
    time = concatenate(generate(kind, 5000, seed=1, rate_per_s=rate).batches).time
    assert 0.8 < (time[-1] - time[0]) * rate / 1000 / 5000 < 1.25


def test_json_lines_write_nulls_and_leave_absent_attributes_out() -> None:
    cells = Column(Kind.BOOLEAN, np.array([1, 0, 0]), np.array([0, NULL, ABSENT], np.uint8))
    texts = Column(Kind.STRING, np.array([0, 1, 0], np.int32), None, Dictionary.of([b"x", "ü".encode()]))
    types = Column(Kind.STRING, np.zeros(3, np.int32), None, Dictionary.of([b"A"]))
    batch = EventBatch(np.arange(3), np.zeros(3, np.int64), np.arange(3), types, {"flag": cells, "s": texts})
    assert [orjson.loads(line) for line in json_lines([batch], "retail")] == [
        {"type": "A", "time": 0, "flag": True, "s": "x", "stream": "retail"},
        {"type": "A", "time": 1, "flag": None, "s": "ü", "stream": "retail"},
        {"type": "A", "time": 2, "s": "x", "stream": "retail"},
    ]


EVERYTHING = {
    "type": "record",
    "name": "A",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "i", "type": ["null", "int"]},
        {"name": "x", "type": "double"},
        {"name": "y", "type": ["float", "null"]},
        {"name": "s", "type": ["null", "string"]},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["u", "v"]}},
        {"name": "b", "type": "boolean"},
        {"name": "none", "type": ["null", "string"]},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


def test_avro_records_are_what_fastavro_reads() -> None:
    random = np.random.default_rng(1)
    rows = 40_000
    nulls = (random.uniform(size=rows) < 0.3).astype(np.uint8)
    big = np.array([0, -1, 1, 63, -64, 64, 2**31, -(2**63), 2**63 - 1])
    strings = Dictionary.of([b"", b"abc", "é".encode() * 70, b"x" * 200])
    columns = {
        "n": Column(Kind.INTEGER, big[random.integers(0, 9, rows)]),
        "i": Column(Kind.INTEGER, random.integers(-300, 300, rows), nulls),
        "x": Column(Kind.FLOAT, random.normal(size=rows)),
        "y": Column(Kind.FLOAT, random.integers(0, 9, rows) / 2, nulls),
        "s": Column(Kind.STRING, random.integers(0, 4, rows).astype(np.int32), nulls, strings),
        "e": Column(Kind.STRING, random.integers(0, 2, rows).astype(np.int32), None, Dictionary.of([b"v", b"u"])),
        "b": Column(Kind.BOOLEAN, random.integers(0, 2, rows)),
    }
    types = Column(Kind.STRING, np.zeros(rows, np.int32), None, Dictionary.of([b"A"]))
    batch = EventBatch(np.arange(rows) + 10**12, np.zeros(rows, np.int64), np.arange(rows), types, columns)
    ((name, places, records),) = avro_records(batch, {"A": EVERYTHING}, headers={"A": confluent_header(300)})
    assert (name, places.tolist()) == ("A", list(range(rows)))
    schema = fastavro.parse_schema(EVERYTHING)
    for row in [*range(200), rows - 1]:
        assert records[row][:5] == b"\0\0\0\1\x2c"
        read = fastavro.schemaless_reader(io.BytesIO(records[row][5:]), schema)
        written = {}
        for attribute, column in columns.items():
            value = column.values[row].item()
            value = column.dictionary.entry(value).decode() if column.dictionary else value
            written[attribute] = None if column.state is not None and column.state[row] else value
        assert round(read.pop("time").timestamp() * 1000) == batch.time[row]
        assert read == {**written, "none": None, "b": bool(written["b"])}


@pytest.mark.parametrize(("value", "fits"), [(2**31 - 1, True), (-(2**31), True), (2**31, False), (-(2**31) - 1, False)])
def test_an_int_of_avro_holds_32_bits(value: int, *, fits: bool) -> None:
    schema = {"type": "record", "name": "A", "fields": [{"name": "time", "type": "long"}, {"name": "n", "type": ["null", "int"]}]}
    column = Column(Kind.INTEGER, np.array([value, 2**60]), np.array([0, 1], np.uint8))
    types = Column(Kind.STRING, np.zeros(2, np.int32), None, Dictionary.of([b"A"]))
    batch = EventBatch(np.zeros(2, np.int64), np.zeros(2, np.int64), np.arange(2), types, {"n": column})
    written = avro_records(batch, {"A": schema}, headers={"A": confluent_header(1)})
    if fits:
        ((_, _, records),) = written
        assert fastavro.schemaless_reader(io.BytesIO(records[0][5:]), fastavro.parse_schema(schema))["n"] == value
    else:
        with pytest.raises(ValueError, match=f'field "n": {value} is too large for an int of Avro'):
            list(written)


SCHEMAS = Path(__file__).parents[2] / "schemas"


@pytest.mark.parametrize("kind", KINDS)
def test_generated_events_have_exactly_the_attributes_of_their_schemas_and_can_be_written(kind: str) -> None:
    batch = concatenate(generate(kind, 2000, seed=1, rate_per_s=5).batches)
    attributes = {event["type"]: set(event["attributes"]) for event in naive_events(batch)}
    schemas = {name: orjson.loads((SCHEMAS / f"{name}.avsc").read_bytes()) for name in attributes}
    assert attributes == {name: {field["name"] for field in schema["fields"]} - {"time"} for name, schema in schemas.items()}
    assert sum(len(records) for _, _, records in avro_records(batch, schemas)) == 2000
