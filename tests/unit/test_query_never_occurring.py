"""Types that never occur in a file with inferred types: what a query asks of them stops nobody, whatever other types call by the same name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

TEXT, NUMBER = {"v": "x"}, {"v": 1_000_000}
OTHER = 'name: then\nevent: B b\nwhere: "[v] AND b.v = {constant}"\nwithin: 1 m\n'
QUERIES = {
    "constant": ("event: SEQ(A a, B b)\nwhere: a.v > 5 AND b.v = 'x'", TEXT),
    "alternatives": ("event: SEQ(A a, B b)\nwhere: a.v > 5 OR a.v < 3", TEXT),
    "fixed": ('event: SEQ(A a, !(D d), C c)\nwhere: "[v = 5]"', TEXT),
    "like": ("event: SEQ(A a, B b)\nwhere: a.v LIKE 'x%'", NUMBER),
    "function": ("event: SEQ(A a, B b)\nwhere: length(a.v) > 3 AND length(a.v) = b.v\nreturn: {n: length(a.v)}", NUMBER),
    "until": ("event: SEQ(A a?, B+ b[] UNTIL (length(a.v) = b.v), D d)\nstrategy: skip-till-next-match", NUMBER),
    "own until": ("event: SEQ(B b, A+ a[] UNTIL (length(a.v) > 3), D d)", NUMBER),
    "aggregate": ("event: SEQ(B b, A a+)\nwhere: sum(a.v) > 3", TEXT),
}


def found(cep, query: str, event: dict[str, object], within: str = "within: 1 m\n") -> list[tuple[str, list[int]]]:
    other = OTHER.format(constant="'x'" if event is TEXT else "1000000")
    Path("q.yaml").write_text(f"name: q\n{query}\n{within}---\n{other}")
    rows = [{"type": "B", "time": 1, **event}, {"type": "D", "time": 2}]
    Path("e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert code == 0, err
    matches = [json.loads(line) for line in out.splitlines()]
    return sorted((one["query"], [event["position"] for event in one["events"]]) for one in matches)


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_asked_of_a_type_that_never_occurs_stops_no_other_query(cep, name: str) -> None:
    """The kind of its attribute is the constant's, that of the column another one: regions of both were made from one list of constants."""
    expected = [("then", [0])] if name != "until" else [("q", [0, 1]), ("then", [0])]
    assert found(cep, *QUERIES[name]) == expected


def test_a_window_is_opened_by_no_type_that_never_occurs(cep) -> None:
    query = 'event: SEQ(B b, D d)\nwindow: {size: 10 s, open: "A a WHERE a.v > 5"}'
    assert found(cep, query, TEXT, within="") == [("then", [0])]


def test_a_denied_comparison_with_a_type_that_never_occurs_ends_every_match(cep) -> None:
    """What is not there makes a comparison true, and so NOT of it false: as where the type occurs and did not bind."""
    assert found(cep, "event: SEQ(A a?, B b)\nwhere: NOT a.v > 5", TEXT) == [("then", [0])]
