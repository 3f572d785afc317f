"""The command line over files: what `cep replay --help` promises."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import fastavro
import pytest
from pyarrow import feather
from pyarrow import parquet as pq

from app.bucket import recording

QUERY = """\
name: rise
from: quotes
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > a.price"
within: 10 s
return: {symbol: a.symbol, gain: b.price - a.price, took: b.time - a.time}
"""


def write(path: str, text: str) -> str:
    Path(path).write_text(text)
    return path


def events(*rows: dict) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def quote(time: int, price: float, symbol: str = "IBM", **more: object) -> dict:
    return {"type": "Quote", "time": time, "symbol": symbol, "price": price, **more}


def objects(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_composite_event_has_exactly_the_promised_form(cep) -> None:
    write("q.yaml", QUERY)
    write("e.jsonl", events(quote(0, 1.0), quote(5, 9.0, "SAP"), {"type": "Other", "time": 6}, quote(2000, 3.5)))
    code, out, _ = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert code == 0
    assert objects(out) == [
        {
            "query": "rise",
            "version": 1,
            "time": 2000,
            "window": None,
            "fields": {"symbol": "IBM", "gain": 2.5, "took": 2000},
            "events": [{"var": "a", "position": 0}, {"var": "b", "position": 3}],
        }
    ]


def test_without_configuration_the_file_is_sorted_and_positions_stay_those_of_the_file(cep) -> None:
    write("q.yaml", QUERY)
    write("e.jsonl", events(quote(3000, 3.0), quote(1000, 1.0), quote(2000, 2.0)))
    code, out, _ = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--out", "o")
    assert (code, out) == (0, "")
    found = [(o["time"], [e["position"] for e in o["events"]]) for o in objects(Path("o").read_text())]
    assert found == [(2000, [1, 2]), (3000, [1, 0]), (3000, [2, 0])]


def test_order_is_match_time_then_events_then_query(cep) -> None:
    write("q.yaml", QUERY + "---\n" + QUERY.replace("rise", "again"))
    write("e.jsonl", events(quote(0, 1.0), quote(0, 1.5), quote(1, 9.0)))
    _, out, _ = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    found = [(o["query"], [e["position"] for e in o["events"]]) for o in objects(out)]
    assert found == [("again", [0, 1]), ("rise", [0, 1]), ("again", [0, 2]), ("rise", [0, 2]), ("again", [1, 2]), ("rise", [1, 2])]


def test_an_anonymous_item_has_no_name_and_nan_is_null(cep) -> None:
    write("q.yaml", 'name: q\nfrom: s\nevent: SEQ(A, B b)\nwithin: 1 s\nreturn: {r: "b.x / b.y", n: "0.0 * b.inf"}\n')
    write("e.jsonl", events({"type": "A", "time": 0}, {"type": "B", "time": 1, "x": 1, "y": 0, "inf": 1e308}))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert code == 0, err
    (found,) = objects(out)
    assert found["events"] == [{"var": None, "position": 0}, {"var": "b", "position": 1}]
    assert found["fields"] == {"r": None, "n": 0.0}


@pytest.mark.parametrize("out", ["o.jsonl", "o.parquet", "o.avro", "o.arrow"])
def test_times_and_durations_beyond_64_bit_are_null_in_every_format(cep, out) -> None:
    returned = '{due: a.time + a.n * 1 d, took: a.n * 1 d, never: "5 w * 1e200", near: "5 w * 1e5", square: a.n * a.n, all: "(b.time - a.time) * 1e300"}'
    write("q.yaml", f"name: q\nfrom: s\nevent: SEQ(A a, B b)\nwithin: 1 s\nreturn: {returned}\n")
    write("e.jsonl", events({"type": "A", "time": 0, "n": 300_000_000_000}, {"type": "B", "time": 1}))
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--out", out)
    assert code == 0, err
    if out == "o.jsonl":
        (found,) = objects(Path(out).read_text())
    else:
        (found,) = rows_of(Path(out))
    fields = found.get("fields", found)
    assert [fields[name] for name in ("due", "took", "never", "all")] == [None] * 4
    assert int(fields["near"]) == 302_400_000_000_000
    assert fields["square"] in (None, 9e22), "a float where it may be one"


@pytest.mark.parametrize("out", ["o.parquet", "o.arrow"])
def test_an_integer_that_no_float_is_goes_into_the_column_of_a_query_that_returns_floats(cep, out) -> None:
    text = "name: {name}\nfrom: s\nevent: A a\nreturn: {{x: a.{attribute}}}\n"
    write("q.yaml", "---\n".join(text.format(name=f"of-{attribute}", attribute=attribute) for attribute in ("n", "f")))
    write("e.jsonl", events({"type": "A", "time": 0, "n": 9_007_199_254_740_993, "f": 0.5}))
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--out", out)
    assert code == 0, err
    assert {row["query"]: row["fields"]["x"] for row in rows_of(Path(out))} == {"of-n": 9_007_199_254_740_992.0, "of-f": 0.5}


def rows_of(path: Path) -> list[dict]:
    """The records of a file of composite events."""
    if path.suffix == ".avro":
        with path.open("rb") as file:
            return list(fastavro.reader(file))
    table = pq.read_table(path) if path.suffix == ".parquet" else feather.read_table(path)
    return table.to_pylist()


def test_an_attribute_without_any_value_is_what_an_until_takes_it_for(cep) -> None:
    """It was a text, and a text is not compared with a number."""
    write("q.yaml", "name: q\nevent: SEQ(C c, A a+ UNTIL (a.v > 5), B b)\nwithin: 1 s\nstrategy: skip-till-next-match\n")
    write("e.jsonl", events(*({"type": name, "time": time, "v": None} for time, name in enumerate("CAAB"))))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert code == 0, err
    assert [len(one["events"]) for one in objects(out)] == [4]


def test_nothing_found_is_an_empty_file(cep) -> None:
    write("q.yaml", QUERY)
    write("e.jsonl", "")
    assert cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--out", "o")[0] == 0
    assert Path("o").read_bytes() == b""


def test_an_invalid_query_ends_with_findings_and_without_an_output_file(cep) -> None:
    write("q.yaml", QUERY.replace("a.price }", "x").replace("b.price > a.price", "b.prize > a.price"))
    write("e.jsonl", events(quote(0, 1.0)))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--out", "o")
    assert (code, out, Path("o").exists()) == (1, "", False)
    assert "q.yaml:4:" in err
    assert "prize" in err


def test_unreadable_events_end_with_their_lines_or_are_counted(cep) -> None:
    write("q.yaml", QUERY)
    write("e.jsonl", events(quote(0, 1.0)) + "{broken\n" + events(quote(1, 2.0)) + '{"type": "Quote"}\n')
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--out", "o")
    assert (code, Path("o").exists()) == (1, False)
    assert "e.jsonl:2:" in err
    assert "e.jsonl:4:" in err
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--on-error", "skip")
    assert (code, len(objects(out))) == (0, 1)
    assert "2 skipped" in err


def test_a_missing_file_is_a_sentence(cep) -> None:
    write("q.yaml", QUERY)
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", "nowhere.jsonl")
    assert code == 1
    assert err.startswith("nowhere.jsonl: cannot be read")


@pytest.mark.parametrize("name", ["Nowhere.jsonl", "Nowhere.csv", "Nowhere.avro", "Nowhere.parquet", "Nowhere.arrow", "Nowhere.jsonl.gz"])
def test_of_several_files_the_one_that_is_missing_is_named(cep, name) -> None:
    write("q.yaml", QUERY)
    write("e.jsonl", events(quote(0, 1.0)))
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--events", name)
    assert (code, err) == (1, f"{name}: cannot be read: no such file or directory\n")


@pytest.mark.parametrize("name", ["o.jsonl", "o.gz", "o.zst", "o.parquet", "o.arrow", "o.feather", "o.avro"])
def test_an_output_that_cannot_be_written_is_a_sentence(cep, name) -> None:
    write("q.yaml", QUERY)
    write("e.jsonl", events(quote(0, 1.0)))
    Path(name).mkdir()
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--out", name)
    assert code == 78
    assert err.startswith(f"{name}: is a directory\nhint: ")


CONFIG = "streams:\n  quotes:\n    allowed_lateness: 2 s\n"


def test_a_stream_with_allowed_lateness_is_taken_in_file_order_and_late_events_are_left_out(cep) -> None:
    write("q.yaml", QUERY)
    write("c.yaml", CONFIG)
    write("e.jsonl", events(quote(5000, 5.0), quote(3000, 3.0), quote(2999, 2.0), quote(6000, 6.0)))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--config", "c.yaml", "--stats", "s.json")
    assert code == 0, err
    found = [[e["position"] for e in o["events"]] for o in objects(out)]
    assert found == [[1, 0], [1, 3], [0, 3]]
    assert json.loads(Path("s.json").read_text())["late"] == 1


def test_a_configured_stream_without_allowed_lateness_is_sorted(cep) -> None:
    write("q.yaml", QUERY)
    write("c.yaml", "streams:\n  quotes: {}\n")
    write("e.jsonl", events(quote(5000, 5.0), quote(3000, 3.0)))
    assert len(objects(cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--config", "c.yaml")[1])) == 1


def test_a_trusted_stream_is_late_by_key_only(cep) -> None:
    write("q.yaml", QUERY)
    write("c.yaml", "streams:\n  quotes: {ordered_by: symbol}\n")
    rows = [quote(5000, 5.0), quote(1000, 1.0, "SAP"), quote(4999, 9.0), quote(2000, 2.0, "SAP")]
    write("e.jsonl", events(*rows))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--config", "c.yaml")
    assert code == 0, err
    assert [[e["position"] for e in o["events"]] for o in objects(out)] == [[1, 3]]
    assert "1 late" in err


def test_lines_that_name_a_stream_belong_to_it_alone_others_to_all(cep) -> None:
    write("q.yaml", QUERY + "---\n" + QUERY.replace("rise", "other").replace("from: quotes", "from: [trades, quotes]"))
    write("e.jsonl", events(quote(0, 1.0, stream="quotes"), quote(1, 2.0, stream="trades"), quote(2, 3.0)))
    _, out, _ = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    found = sorted((o["query"], tuple(e["position"] for e in o["events"])) for o in objects(out))
    assert found == [("other", (0, 1)), ("other", (0, 2)), ("other", (1, 2)), ("rise", (0, 2))]


TOPICS = "streams:\n  quotes: {topics: [q]}\n  trades: {topics: [t]}\n"


@pytest.mark.parametrize(("topic", "streams"), [("q", ["quotes"]), ("t", ["trades"]), ("unknown", ["quotes", "trades"])])
def test_a_recording_of_a_topic_belongs_to_the_stream_that_has_it(cep, topic, streams) -> None:
    write("c.yaml", TOPICS)
    write(
        "q.yaml", QUERY.replace("rise", "of-quotes") + "---\n" + QUERY.replace("rise", "of-trades").replace("from: quotes", "from: trades")
    )
    write("e.jsonl", events(*(quote(k, float(k), position=[topic, 0, k]) for k in range(2))))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--settings", "c.yaml")
    assert code == 0, err
    assert sorted(o["query"] for o in objects(out)) == [f"of-{stream}" for stream in streams]


def test_a_recording_is_not_held_against_the_schemas_of_other_streams(cep) -> None:
    for stream, more in (("quotes", []), ("trades", ["volume"])):
        fields = [{"name": name, "type": "double"} for name in ("price", *more)]
        fields += [{"name": "time", "type": "long"}, {"name": "symbol", "type": "string"}]
        write(f"{stream}.avsc", json.dumps({"type": "record", "name": "Quote", "fields": fields}))
    streams = {stream: {"topics": [stream], "schemas": [f"{stream}.avsc"], "time": "time"} for stream in ("quotes", "trades")}
    write("c.yaml", json.dumps({"streams": streams}))
    write("q.yaml", QUERY)
    write("e.jsonl", events(*(quote(k, float(k), position=["quotes", 0, k]) for k in range(2))))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--settings", "c.yaml")
    assert (code, len(objects(out))) == (0, 1), err


def test_an_event_of_two_streams_is_late_when_it_is_late_for_both_and_counts_once(cep) -> None:
    write("q.yaml", QUERY.replace("from: quotes", "from: [a, b]"))
    write("c.yaml", "streams:\n  a: {allowed_lateness: 0 s}\n  b: {allowed_lateness: 2 s}\n")
    write("e.jsonl", events(quote(5000, 5.0), quote(4000, 4.0), quote(2000, 2.0)))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--config", "c.yaml")
    assert code == 0, err
    assert [[e["position"] for e in o["events"]] for o in objects(out)] == [[1, 0]]
    assert "1 late" in err


def test_negated_ends_fire_at_the_end_of_the_file(cep) -> None:
    write("q.yaml", 'name: q\nfrom: s\nevent: SEQ(A a, !(B b))\nwhere: "[k]"\nwithin: 1 h\nreturn: {k: a.k}\n')
    write("e.jsonl", events({"type": "A", "time": 0, "k": 1}, {"type": "A", "time": 1, "k": 2}, {"type": "B", "time": 2, "k": 1}))
    _, out, _ = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert [(o["time"], o["fields"]) for o in objects(out)] == [(3600001, {"k": 2})]


def test_schemas_of_the_configuration_decide_what_is_absent_and_what_is_wrong(cep) -> None:
    schema = {
        "type": "record",
        "name": "Quote",
        "fields": [
            {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "symbol", "type": "string"},
            {"name": "price", "type": "double"},
        ],
    }
    write("Quote.avsc", json.dumps(schema))
    write("c.yaml", "streams:\n  quotes: {schemas: [Quote.avsc]}\n")
    write("q.yaml", QUERY)
    write("e.jsonl", events(quote(0, 1), quote(1, 2), {"type": "Trade", "time": 2}))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--config", "c.yaml")
    assert (code, objects(out)[0]["fields"]["gain"]) == (0, 1.0), err
    write("e.jsonl", events(quote(0, 1), quote(1, "much")))
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--config", "c.yaml")
    assert code == 1
    assert "e.jsonl:2:" in err


def test_positions_in_the_lines_make_order_and_identity_but_lines_are_reported(cep) -> None:
    write("q.yaml", QUERY)
    first = [quote(0, 1.0, position=["t", 1, 7]), quote(0, 2.0, position=["t", 0, 3])]
    write("e.jsonl", events(*first))
    write("turned.jsonl", events(*reversed(first)))
    runs = [objects(cep("replay", "--identities", "--queries", "q.yaml", "--events", name)[1]) for name in ("e.jsonl", "turned.jsonl")]
    assert runs == [[], []], "partition 0 comes first, so the price falls"
    write("q.yaml", QUERY.replace("b.price > a.price", "b.price < a.price"))
    one, other = [
        objects(cep("replay", "--identities", "--queries", "q.yaml", "--events", name)[1])[0] for name in ("e.jsonl", "turned.jsonl")
    ]
    assert one["id"] == other["id"]
    assert [e["position"] for e in one["events"]] == [1, 0]
    assert [e["position"] for e in other["events"]] == [0, 1]


def test_statistics_list_every_repetition(cep) -> None:
    write("q.yaml", QUERY)
    Path("e.jsonl.gz").write_bytes(gzip.compress(events(quote(0, 1.0), quote(1, 2.0)).encode()))
    assert cep("replay", "--queries", "q.yaml", "--events", "e.jsonl.gz", "--stats", "s.json", "--repeat", "3")[0] == 0
    stats = json.loads(Path("s.json").read_text())
    assert (stats["events"], stats["matches"], len(stats["match_s"])) == (2, 1, 3)
    assert stats["peak_memory_bytes"] > 0
    assert min(stats["read_s"], stats["write_s"], *stats["match_s"]) > 0


def test_csv_is_read_too(cep) -> None:
    write("q.yaml", QUERY)
    write("e.csv", "type,time,symbol,price\nQuote,0,IBM,1\nQuote,1,IBM,2.5\n")
    assert objects(cep("replay", "--queries", "q.yaml", "--events", "e.csv")[1])[0]["fields"]["gain"] == 1.5


def test_dropping_everything_finds_nothing_and_dropping_nothing_changes_nothing(cep) -> None:
    write("q.yaml", QUERY)
    write("e.jsonl", events(*(quote(k, float(k)) for k in range(50))))
    common = ["replay", "--queries", "q.yaml", "--events", "e.jsonl"]
    whole = cep(*common)[1]
    assert cep(*common, "--shedder", "random", "--drop-ratio", "0")[1] == whole
    assert cep(*common, "--shedder", "random", "--drop-ratio", "1")[1] == ""
    half = cep(*common, "--shedder", "random", "--drop-ratio", "0.5")[1]
    assert 0 < len(half.splitlines()) < len(whole.splitlines())
    assert set(half.splitlines()) < set(whole.splitlines())


def test_disabled_queries_are_skipped(cep) -> None:
    write("q.yaml", QUERY + "enabled: false\n")
    write("e.jsonl", events(quote(0, 1.0), quote(1, 2.0)))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert (code, out, "left out, since they are not enabled: rise" in err) == (0, "", True)


TESTED = (
    QUERY
    + """\
tests:
  - name: up
    given: |
      0s Quote symbol=A price=1
      1s Quote symbol=A price=2.5
    expect:
      - {gain: 1.5, took: 1s}
  - name: wrong on purpose
    given: |
      0s Quote symbol=A price=1
      1s Quote symbol=A price=2
    expect: []
"""
)


def test_inline_tests_say_what_is_missing_and_what_is_too_much(cep) -> None:
    write("q.yaml", TESTED)
    code, out, _ = cep("test", "q.yaml", "--junit", "j.xml")
    assert code == 1
    assert "ok   rise: up" in out
    assert "FAIL rise: wrong on purpose" in out
    assert "found, not expected: {symbol: A, gain: 1.0, took: 1000}" in out
    assert "1 passed, 1 failed" in out
    assert 'tests="2" failures="1"' in Path("j.xml").read_text()


@pytest.mark.parametrize("command", [("validate", "{}"), ("test", "{}"), ("replay", "--events", "e.jsonl", "--queries", "{}")])
@pytest.mark.parametrize("content", [None, "", "# nothing yet\n"])
def test_a_path_without_queries_is_no_success(cep, command, content) -> None:
    write("e.jsonl", "")
    Path("queries").mkdir()
    if content is not None:
        write("queries/q.yaml", content)
    code, _, err = cep(*(one.format("queries") for one in command))
    assert code != 0
    assert "there is no query in queries\nhint: query files end in .yaml or .yml" in err


def test_an_expectation_of_a_field_that_is_not_returned_fails(cep) -> None:
    text = 'name: q\nevent: SEQ(A a, B b)\nwhere: "[id]"\nwithin: 1 m\ntests:\n  - name: t\n    given: |\n      0s A id=1\n      1s B id=1\n    expect: [{%s: 1}]\n'
    write("q.yaml", text % "a_id")
    assert cep("test", "q.yaml")[0] == 0
    write("q.yaml", text % "a_idd")
    code, out, _ = cep("test", "q.yaml")
    assert (code, "expected, not found: {a_idd: 1}" in out) == (1, True)


def test_single_tests_are_chosen_by_their_names(cep) -> None:
    test = "  - {name: %s, given: '0s A id=1', expect: [{id: %d}]}\n"
    write("q.yaml", "name: q\nevent: A a\nreturn: {id: a.id}\ntests:\n" + test % ("good", 1) + test % ("bad", 2))
    write("r.yaml", "name: r\nevent: A a\nreturn: {id: a.id}\ntests:\n" + test % ("good", 1))
    assert cep("test", ".", "--only", "good")[:2] == (0, "ok   q: good\nok   r: good\n2 passed, 0 failed\n")
    assert cep("test", ".", "--only", "r: ")[1] == "ok   r: good\n1 passed, 0 failed\n"
    assert "no test of these queries holds" in cep("test", ".", "--only", "nothing")[2]


PAIR = """name: src
from: s
event: SEQ(A a, B b)
within: 1 s
{more}
---
name: reader
from: "query:src"
event: SEQ(src x, src y)
within: 1 s
"""


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        ("on_change: drain", 1, 'q.yaml:5:12: query "src" is read by another query and so cannot drain'),
        (
            "after: skip-past-last-event\nwindow: {size: 5 events, slide: 1 event, per: partition}",
            1,
            "wait for each other without a bound in time",
        ),
        ("shedding: {shedder: universe, latency_bound: 1 s}", 1, 'query "src": '),
        ("enabled: false", 0, 'warning: query "reader" finds nothing: it reads "src", which is not enabled'),
        ("", 0, "2 queries in 1 files: 0 errors"),
    ],
)
def test_validate_refuses_what_the_application_would(cep, more, code, told) -> None:
    text = PAIR.format(more=more)
    write("q.yaml", text.replace("within: 1 s\nafter", "after") if "window" in more else text)
    found, out, err = cep("validate", "q.yaml")
    assert (found, told in out + err) == (code, True), out + err


def test_validate_lists_everything_at_once(cep) -> None:
    write("q.yaml", QUERY)
    assert cep("validate", "q.yaml")[0] == 0
    write("bad.yaml", "name: bad\nevent: SEQ(A a\n")
    write("worse.yaml", "name: worse\nevents: A a\n")
    code, _, err = cep("validate", ".")
    assert code == 1
    assert "bad.yaml:2:" in err
    assert "worse.yaml:" in err


@pytest.mark.parametrize("stage", ["ast", "plan", "asc", "code"])
@pytest.mark.parametrize("form", ["text", "mermaid", "json"])
def test_every_stage_can_be_explained_in_every_format(cep, stage: str, form: str) -> None:
    write("q.yaml", QUERY)
    code, out, err = cep("explain", "rise", "--stage", stage, "--format", form, "--queries", "q.yaml")
    assert code == 0, err
    assert out.strip()
    if form == "json":
        json.loads(out)


def test_a_query_is_looked_for_where_the_settings_name_queries(cep) -> None:
    Path("mine").mkdir()
    write("mine/q.yaml", QUERY)
    write("settings.yaml", "queries: {paths: [mine]}\nstreams: {quotes: {topics: [quotes], time: time}}\n")
    assert cep("explain", "rise", "--settings", "settings.yaml")[0] == 0
    assert cep("explain", "rise", "--settings", "settings.yaml", "--queries", "mine/q.yaml")[0] == 0
    code, _, err = cep("explain", "rise")
    assert code == 1
    assert "queries" in err


def test_explaining_an_unknown_query_names_the_known_ones(cep) -> None:
    write("q.yaml", QUERY)
    code, _, err = cep("explain", "rize", "--queries", "q.yaml")
    assert code == 1
    assert "rise" in err


def test_version_is_a_line(cep) -> None:
    assert cep("version")[1].startswith("cep ")


OVER = """
name: rose
from: quotes
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > a.price"
within: 2 s
return: {symbol: a.symbol, price: b.price}
---
name: rose-twice
from: [query:rose, quotes]
event: SEQ(rose x, rose y, Quote q)
where: "[symbol]"
within: 1 m
return: {first: x.price, second: y.price, q: q.price}
"""


def test_a_query_over_composite_events_calls_them_by_name_and_number(cep) -> None:
    write("q.yaml", OVER)
    write("e.jsonl", events(quote(0, 1.0), quote(1000, 2.0), quote(2000, 3.0), quote(2000, 2.5), quote(4000, 0.5)))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert code == 0, err
    found = objects(out)
    rose = [(o["time"], [e["position"] for e in o["events"]]) for o in found if o["query"] == "rose"]
    assert rose == [(1000, [0, 1]), (2000, [1, 2]), (2000, [1, 3])]
    twice = [[e["position"] for e in o["events"]] for o in found if o["query"] == "rose-twice"]
    # at equal times raw events come first: the quotes of 2000 are not behind the composite events of 2000
    assert twice == [["rose/0", "rose/1", 4], ["rose/0", "rose/2", 4], ["rose/1", "rose/2", 4]]


def test_a_query_over_a_query_that_is_not_enabled_finds_nothing_and_waits_for_nothing(cep) -> None:
    write("q.yaml", OVER.replace("name: rose\n", "name: rose\nenabled: false\n"))
    write("e.jsonl", events(quote(0, 1.0), quote(1000, 2.0)))
    assert cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")[:2] == (0, "")


def test_composition_leaves_late_events_out_as_configured(cep) -> None:
    write("q.yaml", OVER)
    write("c.yaml", "streams:\n  quotes:\n    allowed_lateness: 500 ms\n")
    write("e.jsonl", events(quote(0, 1.0), quote(2000, 3.0), quote(1000, 2.0), quote(1600, 2.5), quote(4000, 0.5)))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--config", "c.yaml")
    assert code == 0
    assert "1 late" in err
    assert [[e["position"] for e in o["events"]] for o in objects(out) if o["query"] == "rose"] == [[0, 3], [3, 1]]
    assert [[e["position"] for e in o["events"]] for o in objects(out) if o["query"] == "rose-twice"] == [["rose/0", "rose/1", 4]]


def test_a_limit_that_is_reached_is_told_and_stops_the_rest(cep) -> None:
    write(
        "q.yaml",
        "name: q\nfrom: s\nevent: SEQ(A+ a[], B b)\nwithin: 1 m\nreturn: {n: count(a)}\nlimits: {matches_per_event: 5}\n",
    )
    write("e.jsonl", events(*({"type": "A", "time": k} for k in range(4)), {"type": "B", "time": 9}))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert code == 0
    assert len(objects(out)) == 5
    assert "warning: query q: limits.matches_per_event was reached, 10 were not made" in err


@pytest.mark.parametrize(
    ("after", "found"),
    [("skip-past-last-event", [(1, 2), (3, 4), (5, 6)]), ("skip-to-next", [(n, n + 1) for n in range(1, 6)])],
)
def test_after_goes_by_the_order_of_composite_events_of_one_time(cep, after, found) -> None:
    """One event completes six matches: their identities say nothing of their order."""
    write(
        "q.yaml",
        "name: u\nfrom: input\nevent: SEQ(A a, B b)\nwithin: 1 minute\nreturn: {n: a.n}\n---\n"
        f"name: w\nfrom: query:u\nevent: SEQ(u x, u y)\nwithin: 1 minute\nafter: {after}\nreturn: {{x: x.n, y: y.n}}\n",
    )
    write("e.jsonl", events(*({"type": "A", "time": n, "n": n} for n in range(1, 7)), {"type": "B", "time": 10, "n": 0}))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert code == 0, err
    assert [(o["fields"]["x"], o["fields"]["y"]) for o in objects(out) if o["query"] == "w"] == found


def test_partial_matches_that_slept_time_out_in_all_windows_that_are_over(cep) -> None:
    """300 windows of 120 partial matches, none of which is open when the events come that end them."""
    write(
        "q.yaml",
        "name: q\nevent: SEQ(A a, B b)\nwhere: '[k]'\nwindow: {size: 10 s, open: N n}\non_timeout: emit\nreturn: {k: a.k, v: b.v}\n",
    )
    rows = [{"type": "N", "time": n, "w": 1} for n in range(300)]
    rows += [{"type": "A", "time": 1000, "k": 0, "v": 0}] * 20
    rows += [{"type": "A", "time": 2000, "k": k, "v": 0} for k in range(1, 101)]
    rows += [{"type": "B", "time": 20000, "k": k, "v": 0} for k in range(1, 101)]
    write("e.jsonl", events(*rows))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert code == 0, err
    told = Counter((o["fields"]["k"], o["time"]) for o in objects(out))
    assert sum(told.values()) == 120 * 300
    assert {time for _, time in told} == set(range(10_000, 10_300))
    assert all(count == (20 if key == 0 else 1) for (key, _), count in told.items())


def test_a_match_that_is_held_over_a_sweep_keeps_its_window(cep, monkeypatch) -> None:
    write("q.yaml", "name: q\nevent: SEQ(C c, A a+)\nwhere: '[k]'\nwindow: {size: 1 s, open: N n}\nemit: longest\nreturn: {k: c.k}\n")
    monkeypatch.setattr(recording, "SLICE", 8)
    rows = [{"type": "X", "time": 0}, {"type": "N", "time": 0, "w": 1}]
    rows += [{"type": "C", "time": 1, "k": 1}, {"type": "A", "time": 2, "k": 1}]
    rows += [{"type": "X", "time": 100 * n} for n in range(1, 9)]
    rows += [{"type": "N", "time": 5000, "w": 1}, {"type": "C", "time": 5001, "k": 1}]
    rows += [{"type": "C", "time": 5002, "k": k} for k in range(2, 2001)]
    write("e.jsonl", events(*rows))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert code == 0, err
    assert [(o["window"], [one["position"] for one in o["events"]]) for o in objects(out)] == [(1, [2, 3])]


@pytest.mark.parametrize("within", ["", "within: 1 hour\n"])
@pytest.mark.parametrize("from_ms", [-100_000, -20_000, -12_000, 0])
def test_for_works_before_1970_as_well(cep, within, from_ms) -> None:
    write("q.yaml", f'name: q\nevent: "SEQ(A a, B b, !(C c) FOR 10 s)"\n{within}return: {{n: b.n}}\n')
    rows = [("A", 0, 1), ("B", 1_000, 2), ("C", 50_000, 3), ("A", 60_000, 4), ("B", 61_000, 5), ("C", 62_000, 6)]
    write("e.jsonl", events(*({"type": name, "time": from_ms + at, "n": n} for name, at, n in rows)))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert code == 0, err
    assert [(o["time"] - from_ms, o["fields"]["n"]) for o in objects(out)] == [(11_000, 2)]
