"""``cep test`` without settings: what a query mentions and no line gives is null, not a mistake."""

from __future__ import annotations

from pathlib import Path

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
