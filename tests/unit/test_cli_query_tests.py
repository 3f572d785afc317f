"""``cep test`` without settings: what a query mentions and no line gives is null, not a mistake."""

from __future__ import annotations

import json
from pathlib import Path

from app.cli.inputs.query_streams import settings_of
from app.cli.queries.test import run_tests

QUERY = """
name: q
event: SEQ(A a, !(N n), B b)
where: "[k] AND a.x > 3 AND n.y = 2 AND b.z IS NOT NULL"
within: 1 m
return: {d: b.time - a.time, z: b.z, w: a.w}
tests:
  - name: the attributes y and w are in no line
    given: |
      0s A k=1 x=5
      1s N k=1
      2s B k=1 z=7
    expect: [{d: 2s, z: 7, w: ~}]
  - name: a null comparison is false
    given: |
      0s A k=1
      2s B k=1 z=7
    expect: []
"""


def test_attributes_that_no_line_of_a_test_gives_are_null(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(QUERY)
    assert [outcome.passed for outcome in run_tests([tmp_path])] == [True, True]


THEFT = """
name: theft
event: SEQ(Shelf s, Exit e)
where: "[tag] AND s.price > 2"
within: 1 h
return: {tag: e.tag, gate: e.gate, dwell: e.time - s.time, price: s.price}
tests:
  - name: one
    given: |
      0s Shelf tag=T1 price=2.5
      5m Exit tag=T1 gate=3
    expect: [{tag: T1, gate: 3, dwell: 5m}]
"""
GANG = """
name: gang
from: query:theft
event: SEQ(theft a, theft b)
where: "[gate] AND b.price > a.price AND a.dwell < 10 m AND b.tag != a.tag"
within: 10 m
return: {gate: a.gate, total: a.price + b.price, between: b.time - a.time}
tests:
  - name: two at one gate
    given: |
      0s theft tag=T1 gate=3 dwell=5m price=2.5
      1m theft tag=T2 gate=3 dwell=6m price=4
      1m theft tag=T3 gate=4 dwell=6m price=4
    expect: [{gate: 3, total: 6.5, between: 1m}]
  - name: one that took too long
    given: |
      0s theft tag=T1 gate=3 dwell=10m price=2.5
      1m theft tag=T2 gate=3 dwell=6m price=4
    expect: []
"""


def test_a_query_over_composite_events_is_tested_with_them_wherever_the_other_query_is(tmp_path: Path) -> None:
    apart, together = tmp_path / "apart", tmp_path / "together"
    apart.mkdir()
    together.mkdir()
    (apart / "theft.yaml").write_text(THEFT)
    (apart / "gang.yaml").write_text(GANG)
    (together / "both.yaml").write_text(f"{GANG}---{THEFT}")
    for folder in (apart, together):
        assert {(one.query, one.passed) for one in run_tests([folder])} == {("theft", True), ("gang", True)}
        assert len(run_tests([folder])) == 3


UNTIL = """
name: q
event: SEQ(C c, A a+ UNTIL (a.stop = true AND a.level > 2.5), B b)
within: 1 m
strategy: skip-till-next-match
return: {steps: count(a)}
tests:
  - name: the attribute stop is in no line, and level is a whole number in all of them
    given: |
      0s C
      1s A level=3
      2s A level=3
      3s B
    expect: [{steps: 2}]
"""


def test_attributes_that_only_an_until_mentions_are_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(UNTIL)
    assert [outcome.passed for outcome in run_tests([tmp_path])] == [True]


HALVES = """
name: halves
event: SEQ(A a, B b)
within: 10 s
return: {half: "(b.time - a.time) / 2", back: "(a.time - b.time) / 2"}
tests:
  - name: one
    given: |
      0s A
      1ms B
    expect: [{half: 0.5ms, back: -0.5 ms}]
  - name: five
    given: |
      0s A
      5ms B
    expect: [{half: 2.5ms, back: -2.5ms}]
  - name: as they are written
    given: |
      0s A
      5ms B
    expect: [{half: 3ms, back: -3}]
"""


def test_expected_durations_are_rounded_as_those_of_composite_events(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(HALVES)
    assert [outcome.passed for outcome in run_tests([tmp_path])] == [True, True, True]


SETTINGS = """
kafka: {bootstrap_servers: "localhost:9092"}
streams:
  rooms: {topics: [rooms], schemas: [rooms/A.avsc, rooms/B.avsc, rooms/C.avsc], time: time}
  hall: {topics: [hall], schemas: [hall/C.avsc], time: time}
"""
CALLED_OFF = """
name: q
from: [rooms, hall]
event: SEQ(A a, !(C c), B b)
where: "[room]"
within: 1 m
tests:
  - name: the hall's is for all rooms, though the other one's says which
    given: |
      0s A room=1
      1s hall:C level=7
      1s rooms:C room=2
      2s B room=1
    expect: []
  - name: that one alone is for its room
    given: |
      0s A room=1
      1s C room=2
      2s B room=1
    expect: [{a_room: 1}]
"""


def test_what_a_type_lacks_in_one_stream_its_events_of_that_stream_lack(tmp_path: Path) -> None:
    for stream, name, attribute in (("rooms", "A", "room"), ("rooms", "B", "room"), ("rooms", "C", "room"), ("hall", "C", "level")):
        fields = [{"name": one, "type": "long"} for one in ("time", attribute)]
        (tmp_path / stream).mkdir(exist_ok=True)
        (tmp_path / stream / f"{name}.avsc").write_text(json.dumps({"type": "record", "name": name, "fields": fields}))
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    (tmp_path / "q.yml").write_text(CALLED_OFF)
    assert [outcome.passed for outcome in run_tests([tmp_path / "q.yml"], settings_of(tmp_path / "settings.yaml"))] == [True, True]


OTHER_KINDS = """
name: q
from: [s1, s2]
event: SEQ(A a, B b)
where: "[id]"
within: 1 m
return: {id: a.id}
tests:
  - name: one
    given: |
      0s A id=1 code=x
      1s B id=1
    expect: [{id: 1}]
"""


def test_streams_may_mean_other_things_by_a_name_that_the_query_does_not_speak_of(tmp_path: Path) -> None:
    for name, kind in (("A", "string"), ("B", "long")):
        fields = [{"name": "time", "type": "long"}, {"name": "id", "type": "long"}, {"name": "code", "type": kind}]
        (tmp_path / f"{name}.avsc").write_text(json.dumps({"type": "record", "name": name, "fields": fields}))
    streams = {stream: {"topics": [stream], "schemas": [f"{name}.avsc"], "time": "time"} for stream, name in (("s1", "A"), ("s2", "B"))}
    (tmp_path / "settings.yaml").write_text(json.dumps({"streams": streams}))
    (tmp_path / "q.yml").write_text(OTHER_KINDS)
    assert [outcome.passed for outcome in run_tests([tmp_path / "q.yml"], settings_of(tmp_path / "settings.yaml"))] == [True]
