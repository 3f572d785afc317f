"""Files and folders of queries, several documents, queries that read queries, elements, tests of queries."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import CepError
from app.events.types import Kind
from app.query.compile import compile_texts, load_queries, read_queries
from app.query.explain.stages import STAGES, explain
from app.query.resolved.assumed import asked_kinds, assumed_schemas
from app.query.resolved.resolved import Resolved
from app.query.resolved.vocabulary import UNKNOWN, Streams
from app.query.text.source import Mapping, read_documents
from app.query.tree.elements import mentioned_elements
from app.query.tree.parse import parse_condition, parse_interval_test
from app.query.tree.printer import print_expression, print_interval_test
from tests.golden.streams import CLIMATE, RETAIL, STREAMS

ROOT = Path(__file__).parents[2]
SHELF = "name: {name}\nfrom: retail\nevent: ShelfReading s\n"


def test_folders_are_searched_and_all_findings_of_all_files_come_together(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.yaml").write_text(SHELF.format(name="one") + "---\n" + SHELF.format(name="two"))
    (tmp_path / "deep" / "b.yml").write_text(SHELF.format(name="two") + "where: s.x = 1\n")
    (tmp_path / "c.yaml").write_bytes(b"name: \xff\n")
    (tmp_path / "notes.txt").write_text("no query")
    catalog, findings = load_queries([tmp_path, tmp_path / "missing.yaml"], STREAMS)
    assert [plan.name for plan in catalog.plans] == ["one", "two"]
    assert [finding.message.replace(str(tmp_path), "") for finding in findings] == [
        "/c.yaml: no UTF-8 text (byte 6)",
        "/missing.yaml: cannot be read: no such file or directory",
        'two queries are named "two"',
        'event type "ShelfReading" has no attribute "x"',
    ]


def test_disabled_queries_are_validated_but_not_run() -> None:
    compiled = compile_texts([("q.yaml", SHELF.format(name="off") + "enabled: false\n---\n" + SHELF.format(name="on"))], STREAMS)
    assert [plan.name for plan in compiled.catalog.plans] == ["on"]
    assert compiled.query("off") is not None
    assert compile_texts([("q.yaml", SHELF.format(name="off") + "enabled: false\nwhere: s.x = 1\n")], STREAMS).errors


def test_from_may_be_left_out_where_there_is_one_stream() -> None:
    text = "name: q\nevent: ShelfReading s\n"
    assert compile_texts([("q.yaml", text)], {"retail": RETAIL}).catalog.plans[0].streams == ("retail",)
    assert compile_texts([("q.yaml", text)], STREAMS).errors
    everything = Streams(everything=RETAIL)
    assert compile_texts([("q.yaml", text)], everything).catalog.plans[0].streams == ("retail",)
    named = compile_texts([("q.yaml", "name: q\nfrom: [x, y]\nevent: ShelfReading s\n")], everything)
    assert named.catalog.plans[0].streams == ("x", "y")


def test_plain_scalars_are_texts_until_someone_asks() -> None:
    node = read_documents("q.yaml", "a: no\nb: 12:30\nc: 1e3\nd: 0o17\ne: ~\nf: 'null'\ng: 2026-01-01\n")[0][0]
    assert isinstance(node, Mapping)
    assert [getattr(value, "text", "") for _, value in node.entries] == ["no", "12:30", "1e3", "0o17", "~", "null", "2026-01-01"]
    assert [getattr(value, "missing", None) for _, value in node.entries] == [False, False, False, False, True, False, False]


def test_composite_events_of_another_query_are_resolved_against_its_return_fields() -> None:
    reader = "name: a\nfrom: query:b\nevent: b x\nwhere: x.dwell > 5 m AND x.tag = 'T'\n"
    source = (
        "name: b\nfrom: retail\nevent: SEQ(ShelfReading s, ExitReading e)\nwithin: 1 h\nreturn: {tag: s.tag_id, dwell: e.time - s.time}\n"
    )
    compiled = compile_texts([("a.yaml", reader), ("b.yaml", source)], STREAMS)
    assert not compiled.errors
    assert {field.name: field.kind for field in compiled.catalog.plans[0].returns} == {"x_tag": Kind.STRING, "x_dwell": Kind.DURATION}


def test_elements_of_arrays_and_maps_are_collected_before_schemas_are_known() -> None:
    text = (
        "name: a\nevent: SEQ(ANY(2; A, B BY ids[1]) a, C c)\nwhere: \"[m['k']] AND c.tags[0].x = 'not[1]' AND c.y = 1\"\nreturn: {z: 'c.list[3]'}\n"
        "---\nname: b\nselect: ['v[0]']\ncoalesce: {duration: until-next}\nwhere: w[2] > 3 AND u.r['q'] = 1\n"
    )
    assert mentioned_elements([("q.yaml", text)]) == ("ids[1]", "list[3]", "m['k']", "tags[0].x", "u.r['q']", "v[0]", "w[2]")


@pytest.mark.parametrize(
    "where",
    [
        "a.tags[0] = 1",
        "a.tags [  0 ] = 1",
        "|\n  a.tags[\n    0\n  ] = 1",
        "'a.m[''k''] = 1'",
        '"a.m[\\x27k\\x27] = 1"',
        '"a.tags\\x5b0] = 1"',
        '"a.tags[\\\n  0] = 1"',
    ],
)
def test_elements_are_found_however_yaml_writes_them(where: str) -> None:
    assert mentioned_elements([("q.yaml", f"name: a\nevent: A a\nwhere: {where}\n")]) in (("tags[0]",), ("m['k']",))


def test_indices_of_events_and_equivalences_are_no_elements() -> None:
    assert mentioned_elements([("q.yaml", "name: a\nevent: SEQ(A+ b[], C c)\nwhere: '[tag] AND b[1].x = b[i-1].x'\n")]) == ()


GIVEN = """
name: q
from: climate
event: SEQ(RoomClimate r, Door d)
within: 1 h
return: {mote: r.mote_id, at: d.time, waited: d.time - r.time, open: d.open, humidity: r.humidity}
tests:
  - name: all kinds of values
    given: |
      # a comment
      0s    RoomClimate mote_id=1 humidity=5 comment='it''s, "so"' measured_at=2026-01-01T00:00:00Z room.floor=-3
      1.5m  climate:RoomClimate mote_id="two words" humidity=null
      90 s  Door mote_id=7 open=true
      1h 'Door' mote_id= open=false
    expect:
      - {mote: 7, at: 90s, waited: 1.5 m, open: true, humidity: 5}
      - {at: 1970-01-01T00:00:01Z, humidity: ~}
"""


def test_given_and_expect_are_read_as_the_kinds_that_the_schema_says() -> None:
    text = GIVEN.replace("90 s  Door", "90s  Door")
    compiled = compile_texts([("q.yaml", text)], {"climate": CLIMATE})
    assert not compiled.errors, [finding.render() for finding in compiled.errors]
    (test,) = compiled.queries[0].tests
    first, second, door, last = test.events
    assert first == {
        "type": "RoomClimate", "time": 0, "mote_id": "1", "humidity": 5.0, "temperature": None, "measured_at": 1767225600000,
        "comment": 'it\'s, "so"', "raw": None, "room.floor": -3,
    }  # fmt: skip
    assert (second["time"], second["stream"], second["mote_id"], second["humidity"]) == (90_000, "climate", "two words", None)
    assert (door["mote_id"], door["open"]) == ("7", True)
    assert (last["type"], last["mote_id"], last["open"]) == ("Door", None, False)
    assert test.expect == ({"mote": "7", "at": 90_000, "waited": 90_000, "open": True, "humidity": 5}, {"at": 1000, "humidity": None})


def test_without_schemas_values_are_what_they_look_like_over_all_lines() -> None:
    text = "name: q\nevent: A a\ntests:\n  - name: t\n    given: |\n      0s A k=1 v=1 b=true\n      1s A k=x v=1.5 b=false\n    expect: [{k: 1, dwell: 6m}]\n"
    compiled = compile_texts([("q.yaml", text)], UNKNOWN)
    assert not compiled.errors
    (test,) = compiled.queries[0].tests
    assert [dict(event) for event in test.events] == [
        {"type": "A", "time": 0, "k": "1", "v": 1.0, "b": True},
        {"type": "A", "time": 1000, "k": "x", "v": 1.5, "b": False},
    ]


def test_type_attribute_is_filled_in_from_the_type() -> None:
    text = "name: q\nfrom: stocks\nevent: \"'BRK.B' a\"\ntests:\n  - name: t\n    given: |\n      0s 'BRK.B' price=1\n    expect: []\n"
    (test,) = compile_texts([("q.yaml", text)], STREAMS).queries[0].tests
    assert test.events[0] == {"type": "BRK.B", "time": 0, "symbol": "BRK.B", "price": 1.0, "volume": None}


def test_explain_takes_more_stages_and_says_what_it_has() -> None:
    compiled = compile_texts([("q.yaml", SHELF.format(name="q"))], STREAMS)
    query = compiled.queries[0]
    with pytest.raises(CepError, match="the stages are ast, plan"):
        explain(query, "asc")
    with pytest.raises(CepError, match="the formats are"):
        explain(query, "plan", "xml")
    assert explain(query, "asc", stages={**STAGES, "asc": STAGES["plan"]}) == explain(query, "plan")
    broken = compile_texts([("q.yaml", SHELF.format(name="q") + "where: s.x = 1\n")], STREAMS).queries[0]
    with pytest.raises(CepError, match="no plan"):
        explain(broken, "plan")
    assert explain(broken, "ast")


def test_the_syntax_tree_explained_as_text_is_the_query_again() -> None:
    for path in sorted((ROOT / "tests" / "golden" / "ast").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        first = compile_texts([("q.yaml", text)], UNKNOWN).queries[0]
        again = compile_texts([("q.yaml", explain(first, "ast"))], UNKNOWN).queries[0]
        assert explain(again, "ast", "json") == explain(first, "ast", "json")


def test_shipped_queries_have_no_errors() -> None:
    compiled = read_queries([ROOT / "queries"], UNKNOWN)
    assert compiled.queries
    assert compiled.errors == ()
    assert all(query.plan is not None and query.tests for query in compiled.queries)


def test_kinds_of_composite_attributes_are_those_of_the_return_fields() -> None:
    text = "name: q\nfrom: retail\nevent: SEQ(ShelfReading s, ExitReading e)\nwithin: 1 m\nreturn: {a: e.time - s.time, b: e.time, c: s.store_id / 2, d: s.store_id % 2, e: round(1.5), f: length(s.tag_id), g: e.alarm}\n"
    fields = {field.name: field.kind for field in compile_texts([("q.yaml", text)], STREAMS).catalog.plans[0].returns}
    assert fields == {
        "a": Kind.DURATION,
        "b": Kind.TIME,
        "c": Kind.FLOAT,
        "d": Kind.INTEGER,
        "e": Kind.FLOAT,
        "f": Kind.INTEGER,
        "g": Kind.BOOLEAN,
    }


def test_without_any_schemas_explain_shows_guessed_kinds_and_validation_stays_silent() -> None:
    text = (
        "name: q\nevent: SEQ(A a, !(N n), B b)\nwithin: 1 m\nwhere: \"[k] AND a.x > b.y AND b.y = 1.5 AND a.t > '2026-01-01' AND length(n.s) = 3\"\n"
        "return: {k: a.k, y: b.y, z: a.z, d: a.t - b.time}\ntests:\n  - name: t\n    given: |\n      0s A k=1\n    expect: []\n"
    )
    (query,) = compile_texts([("q.yaml", text)], UNKNOWN).queries
    assert query.assumed
    assert query.plan is not None
    assert query.plan.columns == ("k", "s", "t", "x", "y", "z")
    assert [field.kind for field in query.plan.returns] == [Kind.INTEGER, Kind.FLOAT, Kind.STRING, Kind.DURATION]
    clashing = "name: q\nevent: SEQ(A a, B b)\nwithin: 1 m\nwhere: a.x = 'text' AND b.x > 3\n"
    assert not compile_texts([("q.yaml", clashing)], UNKNOWN).errors


def test_guessed_attributes_belong_to_the_types_that_tests_or_queries_say() -> None:
    text = (
        "name: q\nevent: SEQ(A a, !(N n), ANY(B, C) x)\nwithin: 1 m\nwhere: \"[k] AND a.p > 3 AND x.q = 'v' AND x.r = 1 AND n.s = 2\"\nreturn: {w: a.w}\n"
        "tests:\n  - name: t\n    given: |\n      0s A k=1 p=5\n      1s N other=1\n      2s B k=1 q=v\n    expect: []\n"
    )
    (query,) = compile_texts([("q.yaml", text)], UNKNOWN).queries
    assert isinstance(query.resolved, Resolved)
    (schema,) = assumed_schemas(query.resolved, query.tests).values()
    attributes = {event_type.name: {attribute.name for attribute in event_type.attributes} for event_type in schema.types}
    assert attributes == {"A": {"k", "p", "w"}, "N": {"other", "s"}, "B": {"k", "q", "r"}, "C": {"k", "r"}}
    assert query.plan is not None
    assert query.plan.equivalence == ("k",)
    assert query.plan.items[1].lacks == ("k",)
    assert query.plan.columns == ("k", "w")


def test_kinds_are_guessed_from_untils_openers_and_what_must_differ_as_well() -> None:
    text = (
        'name: q\nevent: "SEQ(C c, A a+ UNTIL (a.v > 5 OR a.w = c.u), ANY(2; D, E BY k))"\nwhere: c.u = true\n'
        'window: {size: 10 s, open: "Q c WHERE c.p > 1.5"}\n'
    )
    (query,) = compile_texts([("q.yaml", text)], UNKNOWN).queries
    assert isinstance(query.resolved, Resolved)
    (schema,) = assumed_schemas(query.resolved, query.tests).values()
    kinds = {event_type.name: {attribute.name: attribute.kind for attribute in event_type.attributes} for event_type in schema.types}
    assert kinds == {
        "C": {"u": Kind.BOOLEAN},
        "A": {"v": Kind.INTEGER, "w": Kind.BOOLEAN},
        "D": {"k": Kind.STRING},
        "E": {"k": Kind.STRING},
        "Q": {"p": Kind.FLOAT},
    }
    assert query.assumed
    assert query.plan is not None
    assert query.plan.columns == ("k", "u", "v", "w")
    assert asked_kinds([query.resolved], ["v", "p"]) == {"v": Kind.INTEGER, "p": Kind.FLOAT}


def test_the_windows_opener_need_not_have_the_equivalence_attribute() -> None:
    text = 'name: q\nevent: SEQ(A a, B b)\nwhere: "[k]"\nwindow: {size: 10 s, open: "Q q WHERE q.p > 1.5"}\n'
    (query,) = compile_texts([("q.yaml", text)], UNKNOWN).queries
    assert isinstance(query.resolved, Resolved)
    (schema,) = assumed_schemas(query.resolved, query.tests).values()
    names = {event_type.name: [attribute.name for attribute in event_type.attributes] for event_type in schema.types}
    assert names == {"A": ["k"], "B": ["k"], "Q": ["p"]}


@pytest.mark.parametrize("value", ["inf", "nan", "-Infinity", "1e999"])
def test_events_of_tests_hold_finite_numbers(value: str) -> None:
    """They are JSON lines on their way, in which others are null."""
    text = GIVEN.replace("90 s  Door", "90s  Door").replace("humidity=5", f"humidity={value}")
    (error,) = compile_texts([("q.yaml", text)], {"climate": CLIMATE}).errors
    assert (error.message, error.hint) == (f'"{value}" is no finite number', 'attribute "humidity" has the kind float')


@pytest.mark.parametrize("text", ["a.x < 0.5 ms", "a.x < -0.0000001 ms", "a.x < 1001 ms", "a.x IN (1.5 ms, -2 s)"])
def test_durations_are_printed_as_they_are_read(text: str) -> None:
    tree = parse_condition(text).tree
    assert print_expression(tree) == text
    assert parse_condition(print_expression(tree)).tree == tree


@pytest.mark.parametrize(
    ("written", "meant"), [(">= 0.5 ms", ">= 1 ms"), ("> 0.5 ms", "> 0 s"), ("< 1.5 ms", "< 2 ms"), ("<= 1.5 ms", "<= 1 ms")]
)
def test_lengths_of_intervals_are_held_against_whole_milliseconds_that_say_the_same(written: str, meant: str) -> None:
    assert print_interval_test(parse_interval_test(written).tree) == meant


def test_a_negated_end_for_part_of_a_millisecond_lasts_a_whole_one() -> None:
    text = "name: q\nfrom: retail\nevent: SEQ(ShelfReading s, !(ExitReading e) FOR 0.4 ms)\nwithin: 1 m\n"
    plan = compile_texts([("q.yaml", text)], STREAMS).catalog.plans[0]
    assert plan.runs is not None
    assert "for_ms=1)" in str(plan.runs.pattern)
