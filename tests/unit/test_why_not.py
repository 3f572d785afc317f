"""`cep explain --why-not`: every cause that keeps a match from being found, told with the event that it is about."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from app.cli.inputs.events import Choices, read_input
from app.cli.main import cli
from app.cli.queries.why_not import explain_why_not
from app.errors import CepError
from app.query.compile import compile_texts


def answer(tmp_path: Path, query: str, events: str, form: str = "json", expect: str | None = None) -> Any:
    """The answer for events written as ``seconds type attribute=value ..`` per line."""
    lines = []
    for line in events.strip().splitlines():
        seconds, type_, *pairs = line.split()
        attributes = {name: orjson.loads(value) for name, value in (pair.split("=") for pair in pairs)}
        lines.append(orjson.dumps({"time": int(float(seconds) * 1000), "type": type_, **attributes}) + b"\n")
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(lines))
    source = read_input(path, None, Choices())
    compiled = compile_texts([("query.yaml", f"name: q\n{query}")], source.streams)
    assert not compiled.errors, [finding.render() for finding in compiled.errors]
    text = explain_why_not(compiled.queries[0], source, form, expect, compiled)
    return orjson.loads(text) if form == "json" else text


def furthest(
    tmp_path: Path, query: str, events: str
) -> tuple[list[tuple[str, int]], dict[str, list[tuple[str, int, str]]], tuple[str, str] | None]:
    """Of the partial match that came furthest: its events, the refused ones by item, and what ended it."""
    found = answer(tmp_path, query, events)
    assert found["matches"] == 0
    first = found["partials"][0]
    bound = [(one["var"], one["position"]) for one in first["bound"]]
    refused = {one["item"]: [(r["cause"], r["position"], r["text"]) for r in one["events"]] for one in first["refused"]}
    return bound, refused, first["ended"] and (first["ended"]["cause"], first["ended"]["text"])


def test_predicate_between_events_is_told_with_its_values(tmp_path: Path) -> None:
    bound, refused, _ = furthest(tmp_path, "event: SEQ(A a, B b)\nwhere: b.v > a.v * 2\nwithin: 10 s", "1 A v=5\n2 B v=9\n3 B v=10")
    assert bound == [("a", 0)]
    assert refused["b"] == [
        ("predicate", 1, "b.v > a.v * 2 failed (9 > 10 is false)"),
        ("predicate", 2, "b.v > a.v * 2 failed (10 > 10 is false)"),
    ]


def test_null_makes_a_predicate_fail(tmp_path: Path) -> None:
    _, refused, _ = furthest(tmp_path, "event: SEQ(A a, B b)\nwhere: b.v > a.v\nwithin: 10 s", "1 A v=5\n2 B v=null\n3 A v=1")
    assert refused["b"] == [("predicate", 1, "b.v > a.v failed (null > 5 is false)")]


def test_condition_on_the_event_alone(tmp_path: Path) -> None:
    _, refused, _ = furthest(
        tmp_path, "event: SEQ(A a, B b)\nwhere: b.v > 7 AND b.v * 2 > b.w\nwithin: 10 s", "1 A v=5\n2 B v=7 w=1\n3 B v=8 w=99"
    )
    assert refused["b"] == [("test", 1, "v > 7 is false: v is 7"), ("test", 2, "b.v * 2 > b.w is false")]


def test_event_behind_the_window(tmp_path: Path) -> None:
    _, refused, _ = furthest(tmp_path, "event: SEQ(A a, B b)\nwithin: 10 s", "1 A v=5\n11 B v=9\n14 B v=9")
    assert refused["b"] == [
        ("window", 1, "it lies exactly at the end of the window of 10 s from line 0 on"),
        ("window", 2, "it lies 3 s behind the window of 10 s from line 0 on"),
    ]


def test_window_in_events(tmp_path: Path) -> None:
    _, refused, _ = furthest(tmp_path, "event: SEQ(A a, B b)\nwithin: 2 events", "1 A v=5\n2 C v=1\n3 B v=9")
    assert refused["b"] == [("window", 2, "it lies 1 events behind the window of 2 events from line 0 on")]


def test_explicit_window(tmp_path: Path) -> None:
    _, refused, _ = furthest(tmp_path, "event: SEQ(A a, B b)\nwindow: {size: 5 s, slide: 5 s}", "1 A v=5\n6 B v=1")
    assert refused["b"] == [("window", 1, "it lies in none of the windows that hold the events bound before")]


def test_gap(tmp_path: Path) -> None:
    _, refused, _ = furthest(tmp_path, "event: SEQ(A a, B b)\nmax_gap: 3 s", "1 A v=5\n6 B v=1")
    assert refused["b"] == [("gap", 1, "it comes 5 s after line 0: max_gap is 3 s")]


def test_negation_in_the_middle(tmp_path: Path) -> None:
    query = "event: SEQ(A a, !(N n), B b)\nwhere: n.v > a.v\nwithin: 10 s"
    _, refused, _ = furthest(tmp_path, query, "1 A v=5\n2 N v=1\n3 N v=6\n4 B v=9")
    assert refused["b"] == [("negation", 3, "line 2 (n) came where !n allows none")]


@pytest.mark.parametrize(
    ("query", "events", "text"),
    [
        ("event: SEQ(A a, B b, !(N n))\nwithin: 10 s", "1 A v=5\n2 B v=1\n10 N v=1", "line 2 (n) came where !n allows none"),
        ("event: SEQ(!(N n), A a, B b)\nwithin: 10 s", "1 N v=5\n2 A v=1\n10 B v=1", "line 0 (n) came where !n allows none"),
        ("event: SEQ(A a, B b, !(N n) FOR 5 s)", "1 A v=5\n2 B v=1\n6 N v=1", "line 2 (n) came where !n allows none"),
        (
            "event: SEQ(A a, B b, !(AND(N n, M m)))\nwithin: 10 s",
            "1 A v=5\n2 B v=1\n6 N v=1\n7 M v=1",
            "line 2 (n) and line 3 (m) came where !n, m allows none",
        ),
    ],
    ids=["end", "start", "for", "both"],
)
def test_negation_at_the_start_or_end(tmp_path: Path, query: str, events: str, text: str) -> None:
    bound, _, ended = furthest(tmp_path, query, events)
    assert [name for name, _ in bound] == ["a", "b"]
    assert ended == ("negation", text)


def test_finished_closure_that_its_aggregate_rejects(tmp_path: Path) -> None:
    query = "event: SEQ(A a, B b+)\nwhere: count(b) > 2\nwithin: 10 s\nstrategy: skip-till-next-match"
    bound, _, ended = furthest(tmp_path, query, "1 A v=5\n2 B v=1\n3 B v=1")
    assert bound == [("a", 0), ("b", 1), ("b", 2)]
    assert ended == ("predicate", "count(b) > 2 failed (2 > 2 is false)")


def test_rising_prices_name_the_element(tmp_path: Path) -> None:
    query = "event: SEQ(A a, B b+, C c)\nwhere: b[i].v > b[i-1].v AND c.v > b[last].v\nwithin: 10 s\nstrategy: skip-till-next-match"
    bound, refused, _ = furthest(tmp_path, query, "1 A v=5\n2 B v=1\n3 B v=4\n4 B v=2\n5 C v=3")
    assert bound == [("a", 0), ("b", 1), ("b", 2)]
    assert refused == {"c": [("predicate", 4, "c.v > b[last].v failed (3 > 4 is false)")]}


@pytest.mark.parametrize("strategy", ["strict-contiguity", "partition-contiguity"])
def test_contiguity(tmp_path: Path, strategy: str) -> None:
    _, _, ended = furthest(tmp_path, f"event: SEQ(A a, B b)\nwithin: 10 s\nstrategy: {strategy}", "1 A v=5\n2 C v=1\n3 B v=1")
    assert ended == ("strategy", "contiguity: line 1 (C) came next and could not be taken")


def test_event_that_skip_till_next_match_took_instead(tmp_path: Path) -> None:
    query = "event: SEQ(A a, B b, C c)\nwhere: c.v = b.v\nwithin: 10 s\nstrategy: skip-till-next-match"
    found = answer(tmp_path, query, "1 A v=5\n2 B v=1\n3 B v=2\n4 C v=2", expect="0,2,3")
    assert not found["match"]
    assert found["partial"]["ended"]["text"] == "skip-till-next-match: line 1 can be b, so it is taken and not passed"


def test_null_or_other_key(tmp_path: Path) -> None:
    query = 'event: SEQ(A a, B b)\nwhere: "[k]"\nwithin: 10 s'
    _, refused, _ = furthest(tmp_path, query, '1 A k="x"\n2 B k=null\n3 B k="y"')
    assert refused["b"] == [("key", 1, "its k is null, so it is in no partition"), ("key", 2, "it has another k: 'y', not 'x'")]


def test_elements_of_any_that_do_not_differ(tmp_path: Path) -> None:
    query = "event: SEQ(ANY(2; A BY v) a)\nwithin: 10 s"
    _, refused, _ = furthest(tmp_path, query, "1 A v=5\n2 A v=5")
    assert refused["a"] == [("different", 1, "its v does not differ from those of the events bound to a before")]


def test_until_stops_a_closure(tmp_path: Path) -> None:
    query = "event: SEQ(A a, B b{2,} UNTIL (b.v > 3), C c)\nwithin: 10 s"
    _, refused, _ = furthest(tmp_path, query, "1 A v=5\n2 B v=1\n3 B v=9\n4 B v=1\n5 C v=1")
    assert [cause for cause, _, _ in refused["b"]] == ["until", "until"]
    assert refused["b"][1][2] == "line 2 satisfies the UNTIL: the closure takes nothing from there on"


def test_nothing_began(tmp_path: Path) -> None:
    text = answer(tmp_path, "event: SEQ(A a, B b)\nwhere: a.v > 9\nwithin: 10 s", "1 A v=5\n2 B v=1", "text")
    assert text == (
        "why not q: 2 events, 0 matches\nnothing began: missing a\n  a: 1 event of type A came\n    line 0: v > 9 is false: v is 5\n"
    )


def test_no_event_of_the_missing_type(tmp_path: Path) -> None:
    text = answer(tmp_path, "event: SEQ(A a, B b)\nwithin: 10 s", "1 A v=5\n2 C v=1", "text")
    assert "the furthest: bound a = line 0 (A, v=5); missing b\n  b: no events of type B came behind them" in text


def test_many_refused_events_are_counted(tmp_path: Path) -> None:
    events = "1 A v=5\n" + "\n".join(f"{k} B v={k - 4}" for k in range(2, 9)) + "\n20 B v=9"
    text = answer(tmp_path, "event: SEQ(A a, B b)\nwhere: b.v > a.v\nwithin: 10 s", events, "text")
    assert "b: 8 events of type B came behind them" in text
    assert "4 more: 3 by a predicate, 1 by the window" in text


def test_expected_match_that_is_one(tmp_path: Path) -> None:
    query = "event: SEQ(A a, B b)\nwithin: 10 s"
    assert answer(tmp_path, query, "1 A v=5\n2 B v=1", "text", "0,1") == "the events 0,1 are a match of q\n"
    assert answer(tmp_path, f"{query}\nafter: skip-to-next", "1 A v=5\n2 B v=1", "text", "0,1").endswith(
        "(of which after: skip-to-next may keep fewer)\n"
    )


def test_expected_match_that_lacks_an_event(tmp_path: Path) -> None:
    found = answer(tmp_path, "event: SEQ(A a, B b, C c)\nwithin: 10 s", "1 A v=5\n2 B v=1\n3 C v=1", expect="0,1")
    assert (found["match"], found["partial"]["lacking"], found["partial"]["missing"]) == (False, 1, ["c"])


@pytest.mark.parametrize("expect", ["7", "a,b", ""])
def test_positions_that_are_no_events(tmp_path: Path, expect: str) -> None:
    with pytest.raises(CepError, match="positions are lines of the file"):
        answer(tmp_path, "event: SEQ(A a, B b)\nwithin: 10 s", "1 A v=5\n2 B v=1", expect=expect)


def test_matches_are_counted_and_the_rest_is_told(tmp_path: Path) -> None:
    found = answer(tmp_path, "event: SEQ(A a, B b)\nwithin: 10 s", "1 A v=5\n2 B v=1\n3 B v=1\n30 A v=2")
    assert found["matches"] == 2
    assert [one["bound"] for one in found["partials"]] == [[{"var": "a", "position": 3}]]


README = (Path(__file__).parents[2] / "queries" / "README.md").read_text(encoding="utf-8")
SECTION = README[README.index("## When nothing matches") :]


def test_readme_shows_what_the_command_says(tmp_path: Path) -> None:
    query = re.search(r"^```yaml\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
    events = re.search(r"^```jsonl\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
    answers = re.findall(r"^```why-not(?: expect=(\S+))?\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
    assert query is not None
    assert events is not None
    assert len(answers) == 2
    (tmp_path / "q.yaml").write_text(query[1], encoding="utf-8")
    (tmp_path / "events.jsonl").write_text(events[1], encoding="utf-8")
    for expect, text in answers:
        arguments = ["explain", str(tmp_path / "q.yaml"), "--why-not", str(tmp_path / "events.jsonl")]
        written = CliRunner().invoke(cli, [*arguments, *(["--expect", expect] if expect else [])])
        assert written.exit_code == 0, written.output
        assert written.stdout == text


def test_sample_tells_the_cost_of_an_event(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text("name: q\nevent: SEQ(A a, B b)\nwithin: 10 s\n", encoding="utf-8")
    (tmp_path / "events.jsonl").write_text(
        "".join(f'{{"type": "{t}", "time": {k}, "v": 1}}\n' for k, t in enumerate("AABC")), encoding="utf-8"
    )
    written = CliRunner().invoke(cli, ["explain", str(tmp_path / "q.yaml"), "--sample", str(tmp_path / "events.jsonl")])
    assert written.exit_code == 0, written.output
    assert "measured on the 4 events" in written.stdout
    assert "candidates: 3 (75.0%)" in written.stdout
    assert "matches: 2 (0.5 per event)" in written.stdout
    assert "events on stacks: at most 3 " in written.stdout


HUMID = """select: [h]
key: [m]
where: h > 75 AND ok = true
coalesce: {duration: until-next}
valid: ">= 5 s"
window: {range: 20 s, slide: 10 s}"""
READINGS = """
1 R m="A" h=80 ok=true
2 R m="A" h=80 ok=true
4 R m="A" h=81 ok=true
6 R m="A" h=70 ok=true
7 R m="B" h=90 ok=true
9 R m="B" h=90 ok=false
30 D v=1
"""


def test_a_temporal_query_tells_how_long_its_tuples_came_and_what_ended_them(tmp_path: Path) -> None:
    assert (
        answer(tmp_path, HUMID, READINGS, "text")
        == """\
why not q: 7 events, 0 coalesced tuples
tuples (events with m, h): 6, of which 4 passed where
  h > 75 refused 1
  ok = true refused 1
the furthest: m="A", h=80, valid for 3 s, merged from lines 0, 1
  ended: line 2 says h=81
  asked: length >= 5 s, in the window that ends at 10000
number 2: m="A", h=81, valid for 2 s, merged from lines 2
  ended: line 3 says h=70, and fails where
  asked: length >= 5 s, in the window that ends at 10000
number 3: m="B", h=90, valid for 2 s, merged from lines 4
  ended: line 5 fails where
  asked: length >= 5 s, in the window that ends at 10000
"""
    )


def ends(tmp_path: Path, query: str, events: str = READINGS) -> list[tuple[list[int], int, str]]:
    return [(one["lines"], one["length"], one["ended"]) for one in answer(tmp_path, query, events)["coalesced"]]


def test_what_ends_a_tuple_may_be_its_time_the_window_or_nothing(tmp_path: Path) -> None:
    short = HUMID.replace("until-next", "500 ms")
    assert ends(tmp_path, short)[0] == ([0], 500, "its time was over; the next tuple of its key came 500 ms later, on line 1")
    one = '1 R m="A" h=80 ok=true'
    assert ends(tmp_path, short, one) == [([0], 500, "no later tuple of its key came")]
    assert ends(tmp_path, HUMID, one) == [([0], 9000, "by the end of the window only; it goes on")]
    until = '1 R m="A" h=80 ok=true\n10 R m="A" h={} ok=true'
    assert ends(tmp_path, HUMID, until.format(70)) == [([0], 9000, "line 1 says h=70, and fails where")], "just at the window's end"
    assert ends(tmp_path, HUMID, until.format(80))[0][2] == "by the end of the window only; it goes on"
    assert [lines for lines, *_ in ends(tmp_path, HUMID.replace(">=", "<").replace("5 s", "1 s"))] == [[2], [4], [0, 1]], (
        "the shortest first"
    )


def test_tuples_that_lack_attributes_fail_where_or_go_out_of_memory_are_counted(tmp_path: Path) -> None:
    found = answer(tmp_path, HUMID, READINGS + '31 R m="C" h=1 ok=false')
    assert (found["tuples"], found["passed"], found["dropped"]) == (7, 4, 0)
    assert found["where"] == [{"condition": "h > 75", "refused": 2}, {"condition": "ok = true", "refused": 2}]
    bounded = answer(tmp_path, HUMID + "\nshedding: {shedder: cals, memory: 1 tuple}", READINGS)
    assert bounded["dropped"] == 2
    assert "memory was full: 2 of them went" in answer(tmp_path, HUMID + "\nshedding: {shedder: cals, memory: 1 tuple}", READINGS, "text")


def test_a_temporal_query_takes_no_expected_match(tmp_path: Path) -> None:
    with pytest.raises(CepError, match="--expect is for patterns"):
        answer(tmp_path, HUMID, READINGS, "text", "1")


COMPOSED = """where: s.d > r.d * 10
event: SEQ(rises r, rises s)
from: query:rises
within: 10 s
---
name: rises
from: events
event: SEQ(A a, A b)
where: b.v > a.v
within: 3 s
return: {d: b.v - a.v}"""


def test_a_query_is_explained_on_the_composite_events_that_it_reads(tmp_path: Path) -> None:
    bound, refused, _ = furthest(tmp_path, COMPOSED, "1 A v=1\n2 A v=2\n3 A v=9\n9 A v=1")
    assert bound == [("r", "rises/0")]
    assert refused["s"] == [
        ("predicate", "rises/1", "s.d > r.d * 10 failed (8 > 10 is false)"),
        ("predicate", "rises/2", "s.d > r.d * 10 failed (7 > 10 is false)"),
    ]
    text = answer(tmp_path, COMPOSED, "1 A v=1\n2 A v=2\n3 A v=9\n9 A v=1", "text")
    assert "the furthest: bound r = line rises/0 (rises, d=1); missing s" in text and "found nothing" not in text


def test_of_queries_that_found_nothing_it_is_said_why(tmp_path: Path) -> None:
    text = answer(tmp_path, COMPOSED, "1 A v=5\n2 A v=4", "text")
    assert "why not q: 0 events, 0 matches" in text
    assert "it reads rises, which found nothing:\nwhy not rises: 2 events, 0 matches" in text
    assert "line 1: b.v > a.v failed (4 > 5 is false)" in text
    (silent,) = answer(tmp_path, COMPOSED, "1 A v=5\n2 A v=4")["silent"]
    assert (silent["query"], silent["matches"]) == ("rises", 0)


def test_a_temporal_query_that_reads_another_one_is_explained_too(tmp_path: Path) -> None:
    query = COMPOSED.replace("where: s.d > r.d * 10\nevent: SEQ(rises r, rises s)\n", "").replace(
        "within: 10 s\n", "select: [d]\ncoalesce: {duration: 1 s}\nvalid: '> 1 s'\nwindow: {range: 10 s, slide: 10 s}\n", 1
    )
    assert ends(tmp_path, query, "1 A v=1\n2 A v=2\n3 A v=9\n9 A v=1")[0][:2] == (["rises/0"], 1000)
    assert answer(tmp_path, query, "1 A v=5\n2 A v=4")["silent"][0]["query"] == "rises"


def test_a_returned_field_may_be_called_as_an_attribute_of_another_kind_is(tmp_path: Path) -> None:
    query = COMPOSED.replace(
        "s.d > r.d * 10\nevent: SEQ(rises r, rises s)\nfrom: query:rises", "s.v > 5\nevent: SEQ(rises r, B s)\nfrom: [query:rises, events]"
    )
    query = query.replace("return: {d: b.v - a.v}", "return: {d: b.v - a.v, code: a.name}").replace("10 s\n", "10 s\nreturn: {d: r.d}\n")
    bound, refused, _ = furthest(tmp_path, query, '1 A v=1 name="x"\n2 A v=2\n3 B v=4 code=7')
    assert bound == [("r", "rises/0")]
    assert refused["s"] == [("test", 2, "v > 5 is false: v is 4")]
