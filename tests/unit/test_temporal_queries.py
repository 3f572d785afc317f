"""Temporal queries over files: what `cep replay`, `cep test`, `cep validate` and `cep explain` say of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from app.bucket.temporal import TemporalEngine
from app.cep.engine import Watermarks
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.owners.tuple_memory import tuple_memory
from app.query.compile import compile_texts
from app.query.plan import Plan

HUMID = """\
name: humid
from: climate
select: [humidity]
key: [mote]
where: humidity > 75
coalesce: {duration: until-next}
window: {range: 10 s, slide: 5 s}
"""


def reading(time: int, humidity: float | None, mote: str | None = "M", **more: object) -> dict:
    return {"type": "Reading", "time": time, "mote": mote, "humidity": humidity, **more}


def replay(cep, query: str, rows: list[dict], *arguments: str) -> list[dict]:
    Path("q.yaml").write_text(query)
    Path("e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", *arguments)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def intervals(found: list[dict]) -> list[tuple[int, int, int]]:
    return [(one["time"], one["fields"]["start"], one["fields"]["end"]) for one in found]


def test_a_coalesced_tuple_has_exactly_the_promised_form(cep) -> None:
    found = replay(cep, HUMID, [reading(1000, 80), reading(3000, 80), reading(4000, 70)])
    assert found == [
        {
            "query": "humid",
            "version": 1,
            "time": 5000,
            "window": 1,
            "fields": {
                "mote": "M",
                "humidity": 80,
                "start": 1000,
                "end": 4000,
                "length": 3000,
                "truncated_start": False,
                "truncated_end": False,
            },
            "events": [{"var": None, "position": 0}, {"var": None, "position": 1}],
        }
    ]


def test_the_last_window_ends_after_the_last_event_of_whatever_type(cep) -> None:
    rows = [reading(1000, 80)]
    assert intervals(replay(cep, HUMID + "emit: all\n", rows)) == [(5000, 1000, 5000)]
    door = {"type": "Door", "time": 15000, "mote": "M"}
    assert intervals(replay(cep, HUMID + "emit: all\n", [*rows, door])) == [
        (5000, 1000, 5000),
        (10000, 1000, 10000),
        (15000, 5000, 15000),
        (20000, 10000, 20000),
    ]


def test_a_type_without_the_attributes_neither_ends_a_tuple_nor_is_counted(cep) -> None:
    rows = [reading(1000, 80), {"type": "Door", "time": 2000, "mote": "M"}, reading(3000, 81)]
    assert intervals(replay(cep, HUMID, rows)) == [(5000, 1000, 3000), (5000, 3000, 5000)]
    counted = HUMID.replace("10 s, slide: 5 s", "2 events, slide: 2 events")
    assert intervals(replay(cep, counted, rows)) == [(3000, 1000, 3000)]


def test_a_null_key_is_a_key_and_a_null_value_a_value(cep) -> None:
    query = HUMID.replace("where: humidity > 75\n", "")
    found = replay(cep, query, [reading(1000, None, None), reading(2000, None), reading(3000, None, None), reading(4000, 1, None)])
    assert [
        (one["fields"]["mote"], one["fields"]["humidity"], *interval) for one, interval in zip(found, intervals(found), strict=True)
    ] == [
        (None, None, 5000, 1000, 4000),
        ("M", None, 5000, 2000, 5000),
        (None, 1, 5000, 4000, 5000),
    ]


def test_events_in_file_order_and_late_ones_find_what_sorted_ones_find(cep) -> None:
    Path("cep.yaml").write_text("streams: {climate: {topics: [climate], allowed_lateness: 2 s}}\n")
    rows = [reading(3000, 80), reading(1000, 80), reading(9000, 70), reading(2000, 70), reading(12000, 80)]
    assert intervals(replay(cep, HUMID, rows, "--config", "cep.yaml", "--types", "infer")) == [
        (5000, 1000, 5000),
        (10000, 1000, 9000),
        (15000, 12000, 15000),
    ]


def test_a_type_that_is_an_attributes_value_needs_no_name(cep) -> None:
    """Beside a query whose items fill a word of the result bitmap."""
    pattern = "SEQ(" + ", ".join(f"X{k}" for k in range(64)) + ")"
    both = (
        HUMID.replace("select: [humidity]", "select: [humidity, type]") + f"---\nname: many\nfrom: climate\nevent: {pattern}\nwithin: 1 s\n"
    )
    Path("cep.yaml").write_text("streams: {climate: {topics: [climate], type: kind, schemas: [r.avsc]}}\n")
    fields = [{"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}}]
    fields += [{"name": name, "type": kind} for name, kind in (("kind", "string"), ("mote", "string"), ("humidity", "double"))]
    Path("r.avsc").write_text(json.dumps({"type": "record", "name": "R", "fields": fields}))
    rows = [{**reading(time, 80.0), "type": kind, "kind": kind} for time, kind in ((1000, "a"), (2000, "b"))]
    found = replay(cep, both, rows, "--config", "cep.yaml")
    assert [(one["fields"]["type"], *interval) for one, interval in zip(found, intervals(found), strict=True)] == [
        ("a", 5000, 1000, 2000),
        ("b", 5000, 2000, 5000),
    ]


def test_identities_do_not_depend_on_the_configuration(cep) -> None:
    rows = [reading(1000, 80), reading(6000, 80), reading(11000, 80)]
    found = replay(cep, HUMID + "emit: all\n", rows, "--identities")
    assert len({one["id"] for one in found}) == len(found) == 3


def test_a_query_that_reads_nothing_finds_nothing(cep) -> None:
    assert replay(cep, HUMID, [reading(1000, 70)]) == []


def test_validate_and_explain_know_temporal_queries(cep) -> None:
    Path("q.yaml").write_text(HUMID)
    code, out, _ = cep("validate", "q.yaml")
    assert (code, out.strip()) == (0, "1 queries in 1 files: 0 errors, 0 warnings")
    for stage, word in (("ast", "coalesce"), ("plan", "evaluator coalesce"), ("asc", "#0"), ("code", "coalescing: duration -1")):
        code, out, err = cep("explain", "q.yaml", "--stage", stage)
        assert code == 0 and word in out, err


BOUNDED = HUMID.replace("10 s, slide: 5 s", "100 s, slide: 100 s") + "shedding: {shedder: cals, memory: 2 tuples}\n"


def test_bounded_memory_keeps_whole_values_and_says_how_many_tuples_went(cep) -> None:
    rows = [reading(time, humidity) for time, humidity in ((0, 80), (1000, 80), (9000, 81), (11000, 82), (20000, 70))]
    Path("q.yaml").write_text(BOUNDED)
    Path("e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert code == 0 and "warning: query humid: memory was full, 2 tuples went (cals)" in err
    assert sorted(intervals([json.loads(line) for line in out.splitlines()])) == [(100000, 9000, 11000), (100000, 11000, 20000)]


def test_bounded_memory_in_file_order_with_late_events_is_the_same(cep) -> None:
    Path("cep.yaml").write_text("streams: {climate: {topics: [climate], allowed_lateness: 2 s}}\n")
    rows = [reading(1000, 80), reading(0, 80), *(reading(time, humidity) for time, humidity in ((9000, 81), (11000, 82), (20000, 70)))]
    found = replay(cep, BOUNDED, rows, "--config", "cep.yaml", "--types", "infer")
    assert sorted(intervals(found)) == [(100000, 9000, 11000), (100000, 11000, 20000)]


def test_who_bounds_memory_must_be_told_how() -> None:
    plan = climate_plan(BOUNDED)
    with pytest.raises(ValueError, match="nobody says which tuples go"):
        TemporalEngine(plan)


def test_another_memory_is_another_state() -> None:
    texts = (HUMID, BOUNDED, BOUNDED.replace("2 tuples", "3 tuples"), BOUNDED.replace("cals,", "rand,"))
    assert len({climate_plan(text).fingerprint for text in texts}) == 4


COMPOSED = """\
name: rises
from: climate
event: SEQ(Reading a, Reading b)
where: "[mote] AND b.humidity > a.humidity"
within: 3 s
return: {mote: a.mote}
---
name: rising
from: query:rises
select: [mote]
coalesce: {duration: 2 s}
window: {range: 10 s, slide: 5 s}
---
name: long
from: query:rising
event: rising r
where: r.length >= 3 s
return: {mote: r.mote, began: r.start}
"""


def test_temporal_queries_read_composite_events_and_are_read(cep) -> None:
    found = replay(cep, COMPOSED, [reading(1000 * time, time) for time in range(4)])
    rising = [one for one in found if one["query"] == "rising"]
    assert intervals(rising) == [(5000, 1000, 5000)]
    assert {event["position"] for event in rising[0]["events"]} == {"rises/0", "rises/2", "rises/4"}, "the later of two of one time"
    assert [one["fields"] for one in found if one["query"] == "long"] == [{"mote": "M", "began": 1000}]


def climate_plan(query: str) -> Plan:
    schema = StreamSchema("climate", (EventType("Reading", (Attribute("mote", Kind.STRING), Attribute("humidity", Kind.FLOAT))),))
    compiled = compile_texts([("q.yaml", query)], {"climate": schema})
    assert not compiled.errors
    return compiled.catalog.plans[0]


def plan_of(query: str) -> Plan:
    schema = StreamSchema("s", (EventType("T", (Attribute("k", Kind.STRING), Attribute("v", Kind.INTEGER))),))
    compiled = compile_texts([("q.yaml", query)], {"s": schema})
    assert not compiled.errors
    return compiled.catalog.plans[0]


def tuples(first: int, count: int, keys: list[bytes], values: np.ndarray) -> EventBatch:
    """One per millisecond."""
    line = np.arange(first, first + count)
    columns = {
        "k": Column(Kind.STRING, np.arange(count, dtype=np.int32) % len(keys), None, Dictionary.of(keys)),
        "v": Column(Kind.INTEGER, values.astype(np.int64)),
    }
    kinds = Column(Kind.STRING, np.zeros(count, np.int32), None, Dictionary.of([b"T"]))
    return EventBatch(line, np.zeros(count, np.int64), line, kinds, columns)


@pytest.mark.parametrize("window", ["range: 1 s, slide: 100 ms", "range: 1000 events, slide: 100 events"])
def test_memory_follows_the_window_and_not_the_keys_ever_seen(window: str) -> None:
    """Every tuple has a key of its own; a second of them is alive."""
    query = f"name: q\nselect: [v]\nkey: [k]\nwhere: v > 0\ncoalesce: {{duration: 20 ms}}\nvalid: '> 1 h'\nwindow: {{{window}}}\n"
    engine = TemporalEngine(plan_of(query))
    for first in range(0, 60_000, 2_000):
        keys = [f"key-{first + k}".encode() for k in range(2_000)]
        batch = tuples(first, 2_000, keys, np.arange(2_000) % 3)
        _, tally = engine.feed(batch, np.ones(2_000, np.uint64), Watermarks(first + 2_000))
        assert tally.live_events <= 1_100
        assert tally.partitions <= 8_000 and tally.texts <= 10_000
        assert len(engine._coalescer.memory.tuples) <= 8_000
    assert len(engine.snapshot()) < 400_000


@pytest.mark.slow
@pytest.mark.parametrize("window", ["range: 1 s, slide: 100 ms", "range: 1000 events, slide: 100 events"])
def test_bounded_memory_follows_the_bound_and_forgets_keys(window: str) -> None:
    """A hundred keys at a time, which are not heard of again; ten tuples of each, two of which may stay."""
    query = f"name: q\nselect: [v]\nkey: [k]\ncoalesce: {{duration: 20 ms}}\nvalid: '> 1 h'\nwindow: {{{window}}}\n"
    engine = TemporalEngine(plan_of(query + "shedding: {shedder: cals, memory: 2 tuples}\n"), tuple_memory)
    shed = 0
    for first in range(0, 60_000, 1_000):
        batch = tuples(first, 1_000, [f"key-{first + k}".encode() for k in range(100)], np.arange(1_000) % 3)
        _, tally = engine.feed(batch, np.ones(1_000, np.uint64), Watermarks(first + 1_000))
        engine.validate()
        shed += tally.shed_tuples
        assert tally.live_events <= 3 * 200
        engine = TemporalEngine.restore(engine.plan, data := engine.snapshot(), tuple_memory)
        assert len(data) < 150_000
    assert shed > 60 * 100 * 6


def test_an_open_value_as_long_as_the_window_waits_for_a_tuple_and_not_for_time() -> None:
    query = "name: q\nselect: [v]\nkey: [k]\ncoalesce: {duration: until-next}\nwindow: {range: 100 ms, slide: 10 ms}\n"
    engine = TemporalEngine(plan_of(query))
    matches, tally = engine.feed(tuples(0, 1, [b"a"], np.zeros(1)), np.ones(1, np.uint64), Watermarks(50))
    assert (len(matches), tally.pending) == (1, 1)
    none = tuples(50, 0, [b"a"], np.zeros(0))
    matches, tally = engine.feed(none, np.zeros(0, np.uint64), Watermarks(10**15))
    assert (len(matches), tally.pending, tally.live_events) == (0, 0, 1)
    matches, tally = engine.feed(tuples(10**15 + 5, 1, [b"a"], np.ones(1)), np.ones(1, np.uint64), Watermarks(10**15 + 11))
    assert matches.fields["end"].values.tolist() == [10**15 + 5, 10**15 + 10]
