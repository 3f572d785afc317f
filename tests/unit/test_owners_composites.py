"""Composite events as records: what is written for odd values, keys and windows."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pytest

from app.cep.matches import EventTable, Matches
from app.delivery.composite_schema import composite_schema
from app.errors import SnapshotError
from app.events.batch import ABSENT, NULL, PRESENT, Column, Dictionary
from app.events.types import Kind
from app.owners.composites import Destination, add_composite_events
from app.owners.deployment import OutputTopic
from app.owners.egress import Records
from app.query import expressions as e
from app.query.plan import Item, Output, Plan, ReturnField
from tests.naive.composites import add_objects, composite_events

KINDS = {
    "b": Kind.BOOLEAN,
    "n": Kind.INTEGER,
    "x": Kind.FLOAT,
    "s": Kind.STRING,
    "y": Kind.BYTES,
    "t": Kind.TIME,
    "d": Kind.DURATION,
}
ITEMS = (Item(0, "a", ("A",)), Item(1, None, ("B", "C")))
TOPICS = ("retail", "stocks", "retail#2")


def plan(*names: str, **changes: Any) -> Plan:
    returns = tuple(ReturnField(name, e.AttributeOf(KINDS[name], 0, name), KINDS[name]) for name in names)
    return replace(Plan("pair", 3, "", (), 1.0, ("shop",), ITEMS, (), (), None, returns, ()), **changes)


def found(size: int, **fields: Column) -> Matches:
    """Matches of an event of the second incarnation of a topic and one of another topic."""
    dictionary = Dictionary.of(["Ä".encode(), b"A", b"B", b"C"])
    codes = Column(Kind.STRING, np.array([1, 2, 3, 1], np.int64), None, dictionary)
    table = EventTable(
        np.array([5, 7, 9, 11]), np.array([(2 << 20) + 3, 1 << 20, (1 << 20) + 9, 3 << 20]), np.array([1, 1 << 39, 0, 4]), codes
    )
    rows = np.array([[0, 1], [0, 2], [3, 1]], np.int64)[:size]
    return Matches(np.array([7, -9, 1_795_392_000_123])[:size], rows, table, fields, {})


def destination(own: Plan) -> Destination:
    return Destination(OutputTopic("alerts", 77, json.dumps(composite_schema(own))), "shop", TOPICS, 12)


def written(own: Plan, matches: Matches) -> Records:
    """What is written, after it was compared with what the naive twin writes, byte by byte."""
    to, records, objects = destination(own), Records(), Records()
    ids = add_composite_events(records, own, matches, to)
    events = list(composite_events(own, matches, to.topics))
    add_objects(objects, events, to.output, to.application, to.detected_at_ms)
    assert ids == [event.id for event in events]
    assert (records.topics, records.keys, records.headers) == (objects.topics, objects.keys, objects.headers)
    assert records.values == objects.values
    return records


def fields(own: Plan, matches: Matches) -> list[dict[str, Any]]:
    return [read(own, value)["fields"] for value in written(own, matches).values]


def read(own: Plan, value: bytes) -> dict[str, Any]:
    """A record; times as numbers, since Python's reach from year 1 to 9999 only."""
    schema = json.loads(json.dumps(composite_schema(own)).replace("logicalType", "told"))
    return fastavro.schemaless_reader(io.BytesIO(value[5:]), schema)


def text(*entries: str | bytes, codes: list[int], state: list[int] | None = None, kind: Kind = Kind.STRING) -> Column:
    encoded = [one.encode() if isinstance(one, str) else one for one in entries]
    return Column(kind, np.array(codes, np.int32), None if state is None else np.array(state, np.uint8), Dictionary.of(encoded))


def test_events_are_told_with_type_topic_partition_offset_and_time() -> None:
    own = plan()
    first, second, third = (read(own, value) for value in written(own, found(3)).values)
    assert [tuple(event.values()) for event in first["events"]] == [
        ("a", "A", "retail", 3, 1, 5),
        (None, "B", "stocks", 0, 1 << 39, 7),
    ]
    assert [(event["type"], event["partition"]) for event in second["events"]] == [("A", 3), ("C", 9)]
    assert third["events"][0]["topic"] == "", "of a topic that nobody knows"


@pytest.mark.parametrize("values", [[0, 1, 1], [1, -1, 1 << 62], [-(1 << 63), (1 << 63) - 1, 64]])
@pytest.mark.parametrize("name", ["b", "n", "t", "d"])
def test_whole_numbers_of_all_sizes(name: str, values: list[int]) -> None:
    own = plan(name)
    fields(own, found(3, **{name: Column(KINDS[name], np.array(values))}))


@pytest.mark.parametrize("name", ["n", "t", "d"])
def test_whole_numbers_that_became_floats_are_whole_again_and_those_that_left_64_bit_null(name: str) -> None:
    own = plan(name)
    large = fields(own, found(3, **{name: Column(KINDS[name], np.array([5.0, 2.0**63, -(2.0**64)]))}))
    assert large[0][name] is not None
    assert [one[name] for one in large[1:]] == [None, None]


def test_what_is_no_time_is_null_and_half_a_millisecond_goes_away_from_zero() -> None:
    own = plan("d")
    found_ = fields(own, found(3, d=Column(Kind.DURATION, np.array([2.5, -2.5, np.nan]))))
    assert [one["d"] for one in found_] == [3, -3, None]


def test_floats_are_written_as_they_are() -> None:
    own = plan("x")
    one, two, three = fields(own, found(3, x=Column(Kind.FLOAT, np.array([0.1, np.inf, np.nan]))))
    assert (one["x"], two["x"]) == (0.1, np.inf)
    assert np.isnan(three["x"])
    assert [one["x"] for one in fields(own, found(2, x=Column(Kind.INTEGER, np.array([3, 4]))))] == [3.0, 4.0]


def test_what_is_null_or_absent_is_null_whatever_stands_in_its_place() -> None:
    state = np.array([NULL, PRESENT, ABSENT], np.uint8)
    own = plan("n", "s", "y")
    columns = {
        "n": Column(Kind.INTEGER, np.array([9, 8, 7]), state),
        "s": text("u", "ü", codes=[99, 1, -1], state=state.tolist()),
        "y": text(b"\xff", codes=[5, 0, 5], state=state.tolist(), kind=Kind.BYTES),
    }
    assert fields(own, found(3, **columns)) == [
        {"n": None, "s": None, "y": None},
        {"n": 8, "s": "ü", "y": b"\xff"},
        {"n": None, "s": None, "y": None},
    ]
    nothing = Column(Kind.STRING, np.zeros(2, np.int32), None, Dictionary.of([]))
    assert fields(plan("s"), found(2, s=nothing)) == [{"s": None}, {"s": None}]


def test_texts_that_are_no_texts_are_mended() -> None:
    assert fields(plan("s"), found(1, s=text(b"\xffx", codes=[0])))[0]["s"] == "�x"


def test_the_record_s_key_is_the_chosen_field_or_else_the_partition_key() -> None:
    own = plan("s", output=Output(key="s"), equivalence=("tag",))
    matches = found(3, s=text("chosen", codes=[0, 0, 0], state=[PRESENT, NULL, PRESENT]))
    keyed = replace(matches, key={"tag": text("T1", "T2", codes=[1, 0, 1])})
    assert written(own, keyed).keys == [b"chosen", b"T1", b"chosen"]
    assert written(plan("s", equivalence=("tag",)), keyed).keys == [b"T2", b"T1", b"T2"]
    assert written(plan("s"), matches).keys == [None] * 3


@pytest.mark.parametrize(
    "keys",
    [
        {"tag": Column(Kind.INTEGER, np.array([7, -1, 7]))},
        {"tag": text(b"\xff", b"a", codes=[0, 1, 0], kind=Kind.BYTES)},
        {"tag": text("a", codes=[0, 0, 0], state=[PRESENT, NULL, PRESENT])},
        {"a": text("x,y", "\\", codes=[0, 1, 0]), "b": Column(Kind.BOOLEAN, np.array([0, 1, 1]))},
        {"tag": text(codes=[0, 0, 0])},
    ],
    ids=["numbers", "bytes", "null", "several", "no entries"],
)
def test_partition_keys_of_all_kinds(keys: dict[str, Column]) -> None:
    written(plan(equivalence=tuple(keys)), replace(found(3), key=keys))


def test_a_record_that_is_too_large_goes_to_the_dead_letters() -> None:
    own = plan("s")
    records = Records()
    records.limit = replace(records.limit, record_bytes=2000, dead_letters_topic="dead")
    add_composite_events(records, own, found(2, s=text("x" * 3000, "y", codes=[0, 1])), destination(own))
    assert records.topics == ["dead", "alerts"]
    assert records.values[0] is None
    assert records.oversized == 1


def test_a_schema_of_another_shape_is_refused_and_other_words_are_not() -> None:
    own = plan("n", "s")
    matches = found(1, n=Column(Kind.INTEGER, np.array([1])), s=text("a", codes=[0]))
    schema = composite_schema(own)
    told = {**schema, "doc": "in other words"}
    add_composite_events(Records(), own, matches, replace(destination(own), output=OutputTopic("alerts", 1, json.dumps(told))))
    other = {**schema, "fields": [one for one in schema["fields"] if one["name"] != "partition_key"]}
    with pytest.raises(SnapshotError, match="query pair was registered with a schema"):
        add_composite_events(Records(), own, matches, replace(destination(own), output=OutputTopic("alerts", 1, json.dumps(other))))
