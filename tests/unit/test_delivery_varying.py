"""Matches that bind different numbers of events: order, lists, window numbers, identities; as an engine of runs gives them."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pytest

from app.bucket.matching import Found
from app.cep.engine import Tally
from app.cep.matches import Constituents, EventTable, Lists, Matches
from app.cli.inputs.events import ReplayInput
from app.cli.replay.output import json_lines
from app.delivery.composite_schema import composite_schema
from app.events.batch import Column, Dictionary, empty_batch
from app.events.types import Kind
from app.files.gathering import parse_events
from app.owners.arrivals import Arrivals
from app.owners.composites import Destination, add_composite_events
from app.owners.deployment import OutputTopic
from app.owners.egress import Records
from app.query import expressions as e
from app.query.plan import Catalog, ExplicitWindow, Item, Plan, ReturnField, Runs, Take
from tests.naive.composites import composite_events

TALLY = Tally(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def plan(window: ExplicitWindow | None = None) -> Plan:
    """``A a+`` with the values of its events and how many they are; the pattern itself is not looked at here."""
    items = (Item(0, "a", ("A",)), Item(1, "b", ("B",)))
    returns = (
        ReturnField("v", e.AttributeOf(Kind.INTEGER, 0, "v"), Kind.INTEGER, array=True),
        ReturnField("w", e.AttributeOf(Kind.STRING, 0, "w"), Kind.STRING, array=True),
        ReturnField("n", e.AttributeOf(Kind.INTEGER, 0, "n"), Kind.INTEGER),
    )
    runs = Runs(Take(0, 1, None), (), window=window)
    return Plan("rise", 1, "", (), 1.0, ("s",), items, (), (), None, returns, (), evaluator="runs", runs=runs)


def matches(bound: list[list[tuple[int, int]]], windows: list[int] | None = None, texts: tuple[str, ...] = ("x", "yy")) -> Matches:
    """Matches that bind (item, event); event k has time 10 * k (8 and 9 share one) and offset k, its value is 100 + k."""
    rows = np.array([row for one in bound for _, row in one], np.int64)
    starts = np.cumsum([0, *map(len, bound)]).astype(np.int64)
    time = np.array([10 * k for k in range(9)] + [80], np.int64)
    codes = Column(Kind.STRING, np.zeros(10, np.int64), None, Dictionary.of([b"A"]))
    table = EventTable(time, np.zeros(10, np.int64), np.arange(10), codes)
    own = [[row for item, row in one if item == 0] for one in bound]
    list_starts = np.cumsum([0, *map(len, own)]).astype(np.int64)
    flat = np.array([row for one in own for row in one], np.int64)
    words = Column(Kind.STRING, (flat % len(texts)).astype(np.int32), None, Dictionary.of([text.encode() for text in texts]))
    fields = {
        "v": Lists(Column(Kind.INTEGER, 100 + flat), list_starts),
        "w": Lists(words, list_starts),
        "n": Column(Kind.INTEGER, np.array([len(one) for one in own], np.int64)),
    }
    varying = Constituents(starts, np.array([item for one in bound for item, _ in one], np.int64), rows)
    last = np.array([time[one[-1][1]] for one in bound], np.int64)
    numbers = None if windows is None else np.array(windows, np.int64)
    return Matches(last, np.zeros((len(bound), 0), np.int64), table, fields, {}, varying, numbers)


def replayed(own: Plan, *steps: Matches, identities: bool = False) -> list[dict]:
    lines = b"".join(json.dumps({"type": "A", "time": int(10 * k)}).encode() + b"\n" for k in range(10))
    source = ReplayInput(parse_events(lines))
    found = [Found(0, one, TALLY, empty_batch()) for one in steps]
    return [json.loads(line) for line in b"".join(json_lines(Catalog.of((own,)), found, source, identities=identities)).splitlines()]


def positions(found: list[dict]) -> list[list[int]]:
    return [[event["position"] for event in one["events"]] for one in found]


A = 0
B = 1


def test_a_match_is_written_with_all_its_events_and_lists() -> None:
    (found,) = replayed(plan(), matches([[(A, 1), (B, 2), (A, 4)]]))
    assert found["events"] == [{"var": "a", "position": 1}, {"var": "b", "position": 2}, {"var": "a", "position": 4}]
    assert found["fields"] == {"v": [101, 104], "w": ["yy", "x"], "n": 2}


def test_an_empty_list_is_null() -> None:
    (found,) = replayed(plan(), matches([[(B, 2)]]))
    assert found["fields"] == {"v": None, "w": None, "n": 0}


def test_matches_of_equal_time_are_sorted_by_their_events_a_shorter_one_before_its_extension() -> None:
    bound = [[(A, 2), (A, 5)], [(A, 1), (A, 3), (A, 5)], [(A, 1), (A, 5)], [(A, 5)], [(A, 1), (A, 3), (A, 4), (A, 5)]]
    assert positions(replayed(plan(), matches(bound))) == [[1, 3, 4, 5], [1, 3, 5], [1, 5], [2, 5], [5]]
    assert positions(replayed(plan(), matches([[(A, 1)] * 0 + [(A, 8)], [(A, 8), (A, 9)], [(A, 9)]]))) == [[8], [8, 9], [9]]


def test_steps_are_put_together_whatever_their_dictionaries() -> None:
    one, two = matches([[(A, 5), (A, 6)]], texts=("p", "q")), matches([[(A, 1)], [(A, 2), (A, 3)]], texts=("r", "s", "t"))
    found = replayed(plan(), one, two)
    assert positions(found) == [[1], [2, 3], [5, 6]]
    assert [line["fields"]["w"] for line in found] == [["s"], ["t", "r"], ["q", "p"]]
    assert [line["fields"]["v"] for line in found] == [[101], [102, 103], [105, 106]]


def test_the_same_events_bound_to_other_variables_are_another_match_in_a_fixed_order() -> None:
    one, two = [(A, 1), (B, 2)], [(B, 1), (A, 2)]
    found = replayed(plan(), matches([two, one]), identities=True)
    assert found == replayed(plan(), matches([one, two]), identities=True)
    assert len({line["id"] for line in found}) == 2


def test_window_numbers_are_written_and_part_of_the_identity() -> None:
    own = plan(ExplicitWindow(100, "ms", 50))
    found = replayed(own, matches([[(A, 1)], [(A, 1)]], windows=[-1, 7]), identities=True)
    assert [line["window"] for line in found] == [-1, 7]
    assert found[0]["id"] != found[1]["id"]
    assert replayed(plan(), matches([[(A, 1)]]), identities=True)[0]["id"] not in {line["id"] for line in found}


def test_a_window_that_an_event_opened_has_its_place_as_number() -> None:
    own = plan(ExplicitWindow(5, "events", None, opener=1))
    (found,) = replayed(own, matches([[(A, 4)]], windows=[3]), identities=True)
    assert found["window"] == 3
    (event,) = composite_events(own, matches([[(A, 4)]], windows=[3]), ["s"])
    assert event.window == "s/0/3"
    assert event.id == found["id"], "replay without positions takes the stream for the topic and the line for the offset"


@pytest.mark.parametrize(
    ("window", "number", "written"), [(ExplicitWindow(5, "events", 5), 3, 3), (ExplicitWindow(5, "events", None, opener=1), 3, "t/0/3")]
)
def test_lists_and_windows_leave_as_avro(window: ExplicitWindow, number: int, written: object) -> None:
    own = plan(window)
    schema = composite_schema(own)
    records = Records()
    add_composite_events(records, own, matches([[(A, 1), (A, 4)], [(B, 2)]], windows=[number, number]), alerts(schema))
    first, second = (fastavro.schemaless_reader(io.BytesIO(value[5:]), schema) for value in records.values)
    assert first["fields"] == {"v": [101, 104], "w": ["yy", "x"], "n": 2}
    assert second["fields"] == {"v": None, "w": None, "n": 0}
    assert first["window"] == written
    assert dict(records.headers[0])["ce_window"] == str(written).encode()
    assert [event["offset"] for event in first["events"]] == [1, 4]


def test_whole_numbers_of_a_list_that_left_64_bit_are_null() -> None:
    own = plan()
    schema = composite_schema(own)
    found = matches([[(A, 1), (A, 4)]])
    large = Lists(Column(Kind.INTEGER, np.array([5.0, 2.0**70])), np.array([0, 2]))
    records = Records()
    add_composite_events(records, own, replace(found, fields={**found.fields, "v": large}), alerts(schema))
    assert fastavro.schemaless_reader(io.BytesIO(records.values[0][5:]), schema)["fields"]["v"] == [5, None]


def alerts(schema: dict[str, Any]) -> Destination:
    return Destination(OutputTopic("alerts", 1, json.dumps(schema)), "cep", ["t"], 0)


def test_the_latency_of_a_match_is_that_of_its_last_event() -> None:
    arrivals = Arrivals()
    places = np.array([1, 4], np.int64)
    arrivals.add(places, np.array([1000, 4000], np.int64))
    found = matches([[(A, 1), (A, 4)], [(A, 1)]])
    assert arrivals.of_last_events(found).tolist() == [4000, 1000]
    assert arrivals.of_last_events(found).tolist() == [4000, 1000], "whoever asks next"
    arrivals.add(np.array([7, 3], np.int64), np.array([7000, 3000], np.int64))
    assert sorted(arrivals.of_last_events(matches([[(A, 1)], [(A, 3)], [(A, 5)]])).tolist()) == [1000, 3000], (
        "from any batch; one is not known"
    )
