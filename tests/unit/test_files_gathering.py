import datetime as dt
import gzip
import io
import json
import tempfile
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import FindingsError
from app.events.batch import ABSENT, NULL, Column, Dictionary, EventBatch, source_number
from app.events.conform import conformed
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.files.avro_files import OddContainerError
from app.files.gathering import parse_events, read_events
from app.files.row_files import FileFormat
from app.local.generators.json_lines import json_lines


def texts(column):
    return [column.dictionary.entry(code).decode() for code in column.values.tolist()]


def kinds(events):
    return {t.name: {a.name: str(a.kind) for a in t.attributes} for t in events.schema.types}


def test_schemas_come_from_the_data_and_what_is_missing_is_null_or_absent():
    events = parse_events(
        b"""{"type": "A", "time": 5, "x": 1, "n": {"q": "z"}, "tags": [1, 2]}
{"type": "B", "time": "1970-01-01T00:00:00.007Z", "y": true}

{"type": "A", "time": 7, "x": null, "y": false}
{"type": "A", "time": 7.9, "x": 2.5}
"""
    )
    assert kinds(events) == {"A": {"x": "float", "n.q": "string", "y": "boolean"}, "B": {"y": "boolean"}}
    assert events.schema.inferred
    batch = events.batch
    assert batch.time.tolist() == [5, 7, 7, 7]
    assert batch.offset.tolist() == events.lines.tolist() == [0, 1, 3, 4]
    assert texts(batch.type) == ["A", "B", "A", "A"]
    assert batch.columns["x"].values.tolist()[::3] == [1.0, 2.5]
    assert batch.columns["x"].state.tolist() == [0, ABSENT, NULL, 0]
    assert batch.columns["n.q"].state.tolist() == [0, ABSENT, NULL, NULL]
    assert batch.columns["y"].state.tolist() == [NULL, 0, 0, NULL]


def test_elements_of_arrays_and_maps_are_attributes_when_asked_for():
    line = b"""{"type": "A", "time": 5, "tags": [1, 2], "labels": {"a.b": "z"}}"""
    events = parse_events(line, FileFormat(elements=("tags[1]", "labels['a.b']", "tags[9]")))
    assert events.batch.columns["tags[1]"].values.tolist() == [2]
    assert texts(events.batch.columns["labels['a.b']"]) == ["z"]


META = {
    "type": "record",
    "name": "E",
    "fields": [
        {
            "name": "meta",
            "type": {
                "type": "record",
                "name": "M",
                "fields": [{"name": "ts", "type": "long"}, *({"name": one, "type": "string"} for one in ("kind", "host"))],
            },
        },
        {"name": "x", "type": "int"},
    ],
}


@pytest.mark.parametrize("suffix", ["jsonl", "avro", "parquet"])
@pytest.mark.parametrize("way", ["at once", "rows"])
@pytest.mark.parametrize("kind", ["meta.kind", None])
def test_time_and_type_may_stand_in_nested_records(tmp_path, monkeypatch, suffix, way, kind):
    rows = [{"meta": {"ts": k, "kind": "AB"[k % 2], "host": "h"}, "x": k} for k in range(3)]
    path = tmp_path / f"e.{suffix}"
    if suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        with path.open("wb") as file:
            fastavro.writer(file, fastavro.parse_schema(META), rows)
    if way == "rows":
        monkeypatch.setattr("app.files.arrow_files.tabular_piece", lambda *_: None)
        monkeypatch.setattr("app.files.avro_files.ContainerDecoder.of", _odd)
    chosen = FileFormat(kind or "type", None if kind or suffix == "avro" else "E", "meta.ts")
    found = read_events(path, chosen)
    assert found.batch.time.tolist() == [0, 1, 2]
    assert texts(found.batch.type) == (["A", "B", "A"] if kind else ["E"] * 3)
    assert list(found.batch.columns) == ["meta.kind", "meta.host", "x"]


def test_what_nested_records_lack_is_told():
    lines = b"""{"meta": {"kind": "A"}, "x": 1}
{"meta": {"ts": 1}, "x": 1}
{"meta": 7, "x": 1}
"""
    with pytest.raises(FindingsError) as caught:
        parse_events(lines, FileFormat("meta.kind", time_attribute="meta.ts"))
    assert [finding.message for finding in caught.value.findings] == ['no "meta.ts"', 'no "meta.kind"', 'no "meta.ts"']


def test_a_recording_with_positions_is_read_by_the_kernel(monkeypatch):
    def rows(*_):
        raise AssertionError("the rows' way is twenty times as slow")

    monkeypatch.setattr("app.files.gathering.json_rows", rows)
    lines = [{"type": "A", "time": 7 - k, "x": k, "position": [("u", "t")[k % 2], k, 10**15 + k]} for k in range(4)]
    events = parse_events("".join(json.dumps(line) + "\n" for line in lines).encode())
    assert events.topics == ("t", "u")
    assert events.batch.source.tolist() == [source_number(1, 0), source_number(0, 1), source_number(1, 2), source_number(0, 3)]
    assert events.batch.offset.tolist() == [10**15, 10**15 + 1, 10**15 + 2, 10**15 + 3]
    assert list(events.batch.columns) == ["x"]


def test_positions_replace_lines_in_the_total_order_and_streams_select():
    events = parse_events(
        b"""{"type": "A", "time": 1, "position": ["u", 0, 9]}
{"type": "A", "time": 1, "position": ["t", 2, 8], "stream": "s"}
{"type": "A", "time": 1, "stream": "other", "position": ["t", 1, 8]}
{"type": "A", "time": 1, "position": "left wing"}"""
    )
    assert events.topics == ("t", "u")
    assert events.batch.source.tolist() == [source_number(1, 0), source_number(0, 2), source_number(0, 1), 0]
    assert events.batch.offset.tolist() == [9, 8, 8, 3]
    assert texts(events.batch.columns["position"])[3] == "left wing"
    assert events.of_stream("s").lines.tolist() == [0, 1, 3]
    assert events.of_stream("other").lines.tolist() == [0, 2, 3]


def test_events_that_stood_in_a_topic_of_other_streams_are_theirs_unless_they_name_the_stream():
    lines = b"""{"type": "A", "time": 1, "position": ["u", 0, 9]}
{"type": "A", "time": 1, "position": ["t", 2, 8], "stream": "s"}
{"type": "A", "time": 1, "stream": "other", "position": ["t", 1, 8]}
{"type": "A", "time": 1, "position": "left wing"}
{"type": "A", "time": 1, "position": ["t", 1, 9]}
"""
    events = parse_events(lines)
    assert events.positioned.tolist() == [True, True, True, False, True]
    assert events.of_stream("s", {"t"}).lines.tolist() == [0, 1, 3]
    assert events.of_stream("other", {"t", "u", "nowhere"}).lines.tolist() == [2, 3]
    assert events.of_stream("s", {"nowhere"}).lines.tolist() == [0, 1, 3, 4]
    recorded = parse_events(lines.splitlines(keepends=True)[0])
    assert len(recorded.of_stream("s", {"u"}).batch) == 0
    assert recorded.of_stream("s", {"t"}).lines.tolist() == [0]


BAD = b"""{"type": "A", "time": 5, "x": 1}
{"type": "A", "time": 6, "x": "one"}
{"type": "A"
[1]
{"time": 7}
{"type": "A"}
{"type": "A", "time": "yesterday"}
{"type": "A", "time": 8, "x": 2}
"""


def test_every_unreadable_line_is_reported_with_its_number():
    with pytest.raises(FindingsError) as caught:
        parse_events(BAD, name="e.jsonl")
    lines = [(f.location.line, f.message) for f in caught.value.findings]
    assert [line for line, _ in lines] == [2, 3, 4, 5, 6, 7]
    assert lines[0][1] == "attribute \"x\": 'one' is no integer, as in the lines before"
    assert lines[3][1] == 'no "type"'
    assert lines[4][1] == 'no "time"'


def test_unreadable_lines_can_be_skipped_and_are_counted():
    events = parse_events(BAD, FileFormat(on_error="skip"))
    assert events.lines.tolist() == [0, 7]
    assert events.skipped == len(events.findings) == 6
    assert kinds(events) == {"A": {"x": "integer"}}


def test_integers_beyond_64_bit_become_floats():
    events = parse_events(b'{"type": "A", "time": 1, "x": 1}\n{"type": "A", "time": 1, "x": 18446744073709551615}\n')
    assert events.batch.columns["x"].values.tolist() == [1.0, 2.0**64]


@pytest.mark.parametrize("time", [2**63, 2**64 - 1, -(2**64)])
def test_a_time_beyond_64_bit_is_an_unreadable_line(time):
    text = f'{{"type": "A", "time": 1}}\n{{"type": "A", "time": {time}}}\n'.encode()
    with pytest.raises(FindingsError, match=r"does not fit into 64 bit|is no time"):
        parse_events(text)
    assert parse_events(text, FileFormat(on_error="skip")).skipped == 1


def test_times_of_day_and_spans_of_time_are_no_attributes(tmp_path):
    hours = pa.array([dt.time(9, 30), None])
    spans = pa.array([dt.timedelta(seconds=5), None])
    table = pa.table({"type": ["A", "A"], "time": [1, 2], "opened": hours, "took": spans, "x": [1, 2]})
    pq.write_table(table, tmp_path / "e.parquet")
    assert kinds(read_events(tmp_path / "e.parquet")) == {"A": {"x": "integer"}}


def test_what_is_only_ever_null_is_null_where_the_type_has_it_and_absent_elsewhere():
    events = parse_events(b'{"type": "A", "time": 1, "x": null}\n{"type": "B", "time": 2}\n')
    assert kinds(events) == {"A": {"x": "string"}, "B": {}}
    assert events.batch.columns["x"].state.tolist() == [NULL, ABSENT]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_csv_has_kinds_by_column(tmp_path, suffix):
    path = tmp_path / f"e{suffix}"
    text = b'ts,symbol,price,volume,flag,code\n1,A,1.5,10,true,007\n2,"B, C",2,,false,010\n'
    path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    events = read_events(path, FileFormat(type_name="Quote", time_attribute="ts", time_unit="s"))
    assert kinds(events) == {"Quote": {"symbol": "string", "price": "float", "volume": "integer", "flag": "boolean", "code": "string"}}
    assert events.batch.time.tolist() == [1000, 2000]
    assert texts(events.batch.columns["symbol"]) == ["A", "B, C"]
    assert events.batch.columns["volume"].state.tolist() == [0, NULL]
    assert events.lines.tolist() == [1, 2]


def test_csv_rows_of_another_width_are_unreadable(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("type,time\nA,1\nA,1,2\n")
    with pytest.raises(FindingsError, match=r"e\.csv:3:1: 3 cells, but the header has 2"):
        read_events(path)


@pytest.mark.parametrize(("unused", "instead"), [("csv_rows", None), ("csv_columns", lambda *_: None)])
@pytest.mark.parametrize(
    "text", ["type,time,id,,\nA,1,7,,\nA,2,8,x,y\n", ",type,time,id\n0,A,1,7\n1,A,2,8\n", "type,time,id,\nA,1,7,\nA,2,8,\n"]
)
def test_columns_without_a_name_are_left_out(tmp_path, monkeypatch, text, unused, instead):
    monkeypatch.setattr(f"app.files.csv_files.{unused}", instead)
    path = tmp_path / "e.csv"
    path.write_text(text)
    events = read_events(path)
    assert kinds(events) == {"A": {"id": "integer"}}
    assert events.batch.columns["id"].values.tolist() == [7, 8]


CELLS = st.sampled_from(
    [
        "",
        "1",
        "-2",
        "007",
        "1.5",
        "1e3",
        "nan",
        "true",
        "False",
        "x",
        "é",
        '"a,b"',
        "1_0",
        " 3",
        "99999999999999999999",
        "+4",
        "0x1F",
        "-0XFF",
    ]
)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(CELLS, CELLS, st.sampled_from(["A", "B", "C"])), min_size=1, max_size=6))
def test_both_ways_through_a_csv_file_agree(rows):
    data = "a,b,type,time\n" + "".join(f"{a},{b},{t},{k}\n" for k, (a, b, t) in enumerate(rows))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "e.csv"
        path.write_text(data)
        at_once = read_events(path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("app.files.csv_files.csv_columns", lambda *_: None)
            by_rows = read_events(path)
    assert_same(at_once, by_rows)


def assert_same(at_once, by_rows):
    assert at_once.schema == by_rows.schema
    assert at_once.lines.tolist() == by_rows.lines.tolist()
    assert at_once.batch.time.tolist() == by_rows.batch.time.tolist()
    assert (at_once.topics, at_once.batch.source.tolist()) == (by_rows.topics, by_rows.batch.source.tolist())
    assert at_once.batch.offset.tolist() == by_rows.batch.offset.tolist()
    assert texts(at_once.batch.type) == texts(by_rows.batch.type)
    assert list(at_once.batch.columns) == list(by_rows.batch.columns)
    assert (at_once.skipped, at_once.findings) == (by_rows.skipped, by_rows.findings)
    for name, column in by_rows.batch.columns.items():
        other = at_once.batch.columns[name]
        assert (column.kind, np.asarray(column.state).tolist()) == (other.kind, np.asarray(other.state).tolist())
        present = np.ones(len(by_rows.batch), dtype=bool) if column.state is None else column.state == 0
        mine, yours = (
            np.array(texts(one))[present].tolist() if one.kind.textual else one.values[present].view(np.int64).tolist()
            for one in (column, other)
        )
        assert mine == yours


@pytest.mark.parametrize(
    "text",
    [
        "",
        "type,time",
        "type,time\n",
        'a,type,time\n"x\ny",A,1\n',
        "type,time\n\nA,1\n",
        "type,time\r\nA,1\r\n",
        "type,time\nA,1970-01-01\n",
    ],
)
def test_odd_csv_files_are_read(tmp_path, text):
    path = tmp_path / "e.csv"
    path.write_bytes(text.encode())
    events = read_events(path)
    assert len(events.batch) == ("A" in text)
    assert events.lines.tolist() == [text.replace("\r\n", "\n")[:-1].count("\n")] * ("A" in text)


def test_a_broken_gzip_file_says_so(tmp_path):
    path = tmp_path / "e.csv.gz"
    path.write_bytes(gzip.compress(b"type,time\nA,1\n")[:-9])
    with pytest.raises(FindingsError, match="no gzip file, or a broken one"):
        read_events(path)


def test_avro_containers_of_a_union_have_several_types(tmp_path):
    path = tmp_path / "e.avro"
    union = [
        {"type": "record", "name": f"x.{name}", "fields": [{"name": "time", "type": "long"}, {"name": name.lower(), "type": "int"}]}
        for name in "AB"
    ]
    buffer = io.BytesIO()
    fastavro.writer(buffer, union, [("x.B", {"time": 1, "b": 1}), ("x.A", {"time": 2, "a": 1})])
    path.write_bytes(buffer.getvalue())
    assert kinds(read_events(path)) == {"B": {"b": "integer"}, "A": {"a": "integer"}}


def test_avro_containers_have_the_records_name_as_type(tmp_path):
    path = tmp_path / "e.avro"
    schema = {
        "type": "record",
        "name": "x.E",
        "fields": [
            {"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "inner", "type": {"type": "record", "name": "I", "fields": [{"name": "d", "type": ["null", "double"]}]}},
            {"name": "b", "type": "bytes"},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        ],
    }
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, [{"time": 1_500_000, "inner": {"d": 1.5}, "b": b"\xff", "day": 2}])
    path.write_bytes(buffer.getvalue())
    events = read_events(path)
    assert kinds(events) == {"E": {"inner.d": "float", "b": "bytes", "day": "time"}}
    assert events.batch.time.tolist() == [1500]
    assert events.batch.columns["b"].dictionary.entry(0) == b"\xff"
    assert events.batch.columns["day"].values.tolist() == [2 * 86_400_000]
    path.write_bytes(buffer.getvalue()[:-3])
    with pytest.raises(FindingsError, match="no Avro container, or a broken one"):
        read_events(path)


def test_an_empty_file_has_no_events(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"")
    assert len(read_events(path).batch) == 0


SCHEMA = StreamSchema(
    "s",
    (
        EventType(
            "A", (Attribute("x", Kind.FLOAT), Attribute("at", Kind.TIME), Attribute("id", Kind.STRING), Attribute("extra", Kind.STRING))
        ),
        EventType("B", (Attribute("x", Kind.INTEGER),)),
    ),
)


def test_a_configured_schema_decides_types_kinds_and_states():
    events = parse_events(
        b"""{"type": "A", "time": 1, "x": 1, "at": "1970-01-01T00:00:01Z", "id": 17, "more": 1}
{"type": "C", "time": 2, "x": 5}
{"type": "B", "time": 3, "x": 2}
{"type": "A", "time": 4, "at": "noon"}"""
    )
    found = conformed(events.batch, SCHEMA)
    assert found.rows.tolist() == [0, 2]
    assert found.bad == {3: 'attribute "at": "noon" is no time (milliseconds or ISO-8601)'}
    columns = found.batch.columns
    assert list(columns) == ["x", "at", "id", "extra"]
    assert columns["x"].values.tolist() == [1.0, 2.0]
    assert columns["at"].values[0] == 1000
    assert texts(columns["id"])[0] == "17"
    assert columns["at"].state.tolist() == columns["id"].state.tolist() == [0, ABSENT]
    assert columns["extra"].state.tolist() == [NULL, ABSENT]


def test_times_and_bytes_of_json_lines_come_back_as_what_the_schema_says():
    schema = StreamSchema(
        "s", (EventType("A", (Attribute("at", Kind.TIME), Attribute("raw", Kind.BYTES, nullable=True))), EventType("B", ()))
    )
    raw = [bytes([0, 200, 255]), b"", "\u00e9".encode()]
    state = np.array([0, 0, NULL, ABSENT, 0], dtype=np.uint8)
    columns = {
        "at": Column(Kind.TIME, np.array([5, -1, 0, 0, 1 << 41]), np.array([0, 0, 0, ABSENT, 0], dtype=np.uint8)),
        "raw": Column(Kind.BYTES, np.array([0, 1, 0, 0, 2], dtype=np.int32), state, Dictionary.of(raw)),
    }
    types = Column(Kind.STRING, np.array([0, 0, 0, 1, 0], dtype=np.int32), None, Dictionary.of([b"A", b"B"]))
    batch = EventBatch(np.arange(5), np.zeros(5, np.int64), np.arange(5), types, columns)
    found = conformed(parse_events(b"".join(json_lines([batch]))).batch, schema)
    assert not found.bad
    again = found.batch.columns
    assert [(again[name].kind, again[name].state.tolist()) for name in columns] == [
        (Kind.TIME, columns["at"].state.tolist()),
        (Kind.BYTES, state.tolist()),
    ]
    present = [0, 1, 4]
    assert again["at"].values[present].tolist() == [5, -1, 1 << 41]
    assert [again["raw"].dictionary.entry(code) for code in again["raw"].values[present]] == raw


def floats(events):
    return [repr(value) for value in events.batch.columns["x"].values.tolist()]


@pytest.mark.parametrize("way", ["kernel", "rows"])
def test_floats_that_are_no_numbers_to_json_are_texts_between(monkeypatch, way):
    if way == "rows":
        monkeypatch.setattr("app.files.json_lines.LineReader.read", lambda *_: None)
    values = np.array([np.nan, np.inf, -np.inf, 1.5, np.nan])
    state = np.array([0, 0, 0, 0, NULL], dtype=np.uint8)
    types = Column(Kind.STRING, np.zeros(5, dtype=np.int32), None, Dictionary.of([b"A"]))
    batch = EventBatch(np.arange(5), np.zeros(5, np.int64), np.arange(5), types, {"x": Column(Kind.FLOAT, values, state)})
    lines = b"".join(json_lines([batch]))
    assert [json.loads(line)["x"] for line in lines.splitlines()] == ["NaN", "Infinity", "-Infinity", 1.5, None]
    for known in ({}, {"x": Kind.FLOAT}):
        again = parse_events(lines, FileFormat(kinds=known))
        assert (kinds(again), floats(again)[:4]) == ({"A": {"x": "float"}}, ["nan", "inf", "-inf", "1.5"])
        assert again.batch.columns["x"].state.tolist() == [0, 0, 0, 0, NULL]
    alone = lines.splitlines(keepends=True)[0]
    assert floats(parse_events(alone, FileFormat(kinds={"x": Kind.FLOAT}))) == ["nan"]
    assert kinds(parse_events(alone)) == {"A": {"x": "string"}}, "a text like others where nothing says that it is a float"
    schema = StreamSchema("s", (EventType("A", (Attribute("x", Kind.FLOAT),)),))
    assert not conformed(parse_events(alone).batch, schema).bad


@pytest.mark.parametrize("way", ["kernel", "rows"])
@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (['"NaN"', "1", '"Infinity"'], ["nan", "1.0", "inf"]),
        (["1", '"NaN"'], ["1.0", "nan"]),
        (['"x"', '"NaN"'], None),
        (['"NaN"', '"x"', '"NaN"'], None),
    ],
)
def test_texts_that_stand_for_floats_are_floats_beside_numbers(monkeypatch, cells, read, way):
    if way == "rows":
        monkeypatch.setattr("app.files.json_lines.LineReader.read", lambda *_: None)
    events = parse_events("".join(f'{{"type": "A", "time": 1, "x": {cell}}}\n' for cell in cells).encode())
    if read is None:
        assert texts(events.batch.columns["x"]) == [json.loads(cell) for cell in cells]
    else:
        assert floats(events) == read


def test_a_text_that_stands_for_no_float_is_told_beside_one_that_does():
    lines = "".join(f'{{"type": "A", "time": 1, "x": {cell}}}\n' for cell in ('"NaN"', "1.5", '"nan"')).encode()
    with pytest.raises(FindingsError, match="'nan' is no float, as in the lines before"):
        parse_events(lines)


def test_a_text_with_a_character_that_is_no_byte_is_told():
    schema = StreamSchema("s", (EventType("A", (Attribute("raw", Kind.BYTES),)),))
    found = conformed(parse_events('{"type": "A", "time": 1, "raw": "\u20ac"}'.encode()).batch, schema)
    assert "U+00FF" in found.bad[0]


def test_a_configured_type_attribute_replaces_the_type():
    events = parse_events(b'{"type": "Q", "time": 1, "sym": "A"}\n{"type": "Q", "time": 1, "sym": null}\n{"type": "R", "time": 1}')
    schema = StreamSchema("s", (EventType("Q", (Attribute("sym", Kind.STRING),)),), type_attribute="sym")
    found = conformed(events.batch, schema)
    assert texts(found.batch.type) == ["A"]
    assert list(found.bad) == [1]


def test_chunks_of_rows_join_as_if_read_at_once(monkeypatch):
    lines = b"\n".join(b'{"type": "T%d", "time": %d, "a%d": %s}' % (k % 2, k, k % 3, b"1.5" if k == 8 else b"%d" % k) for k in range(10))
    whole = parse_events(lines)
    monkeypatch.setattr("app.files.row_files.CHUNK", 3)
    parts = parse_events(lines)
    assert kinds(whole) == kinds(parts)
    for name, column in whole.batch.columns.items():
        other = parts.batch.columns[name]
        assert np.array_equal(column.values, other.values)
        assert np.array_equal(column.state, other.state)


NUMBER_TEXTS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        [
            "-0",
            "-0.0",
            "0.1",
            "1e5",
            "1E+2",
            "2e-3",
            "01",
            "1.",
            ".5",
            "+1",
            "1e400",
            "4.9e-324",
            "9007199254740993.0",
            "0.30000000000000004",
        ]
    ),
)
JSON_CELLS = st.one_of(
    st.sampled_from(
        [
            "null",
            "true",
            "false",
            "nul",
            '"x"',
            '"é"',
            '"a\\"b"',
            '"\\u00e9"',
            '""',
            "[1, 2]",
            '{"c": 1}',
            "NaN",
            '"NaN"',
            '"-Infinity"',
            '"a b c d e f g h"',
        ]
    ),
    NUMBER_TEXTS,
)
JSON_KEYS = st.sampled_from(["a", "b", "longer_than_eight", "é", "time", "type", "stream", "position"])
JSON_PLACES = st.one_of(
    st.sampled_from(["", '"position": ["t", 0, 1], ', '"position":["u",3,12],', '"position" : [ "é" , 1048575 ,0 ] ,']),
    st.sampled_from(
        ['["t", -1, 2]', '["t", 01, 2]', '["t", 1.0, 2]', '["t", 1]', '["t", 1, 2, 3]', '["t", 1, 2', "[1, 1, 2]", '"left"', "7", "null"]
    ).map('"position": {}, '.format),
)
JSON_OBJECTS = st.builds(
    lambda kind, time, more, space, end, place: (
        "{"
        + space
        + place
        + f'"type":{space}"{kind}",{space}"time"{space}:{time}'
        + "".join(f',"{key}":{space}{cell}' for key, cell in more)
        + "}"
        + end
    ),
    st.sampled_from(["A", "B"]),
    st.one_of(st.integers(-5, 10**13).map(str), st.sampled_from(['"1970-01-01T00:00:01Z"', "1.5", "null", '"x"'])),
    st.lists(st.tuples(JSON_KEYS, JSON_CELLS), max_size=4),
    st.sampled_from(["", " ", "\t"]),
    st.sampled_from(["", " ", "\r", "}", "\n"]),
    JSON_PLACES,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=400)
@given(st.lists(st.one_of(JSON_OBJECTS, JSON_OBJECTS, st.sampled_from(["", "  ", "{}", "[]", "x"])), min_size=1, max_size=8), st.booleans())
def test_both_ways_through_json_lines_agree(lines, ended):
    data = ("\n".join(lines) + "\n" * ended).encode()
    at_once = parse_events(data, FileFormat(on_error="skip"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.files.json_lines.LineReader.read", lambda *_: None)
        by_rows = parse_events(data, FileFormat(on_error="skip"))
    assert_same(at_once, by_rows)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(NUMBER_TEXTS, st.integers(0, 10**6)), min_size=1, max_size=20))
def test_numbers_of_json_lines_are_exact(numbers):
    plain = [(text, time) for text, time in numbers if _is_float(text)]
    data = "".join(f'{{"type":"A","time":{time},"x":{text}}}\n' for text, time in plain).encode()
    found = parse_events(data).batch
    assert found.columns["x"].values.tolist() == [float(text) for text, _ in plain] if plain else not len(found)


def _is_float(text):
    try:
        return isinstance(json.loads(text), float) and abs(float(text)) < 1e308
    except ValueError:
        return False


AVRO_FIELDS = [
    {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "n", "type": ["null", "int"]},
    {"name": "x", "type": "double"},
    {"name": "s", "type": ["null", "string"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "b", "type": "boolean"},
    {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["P", "Q"]}},
    {
        "name": "in",
        "type": {
            "type": "record",
            "name": "In",
            "fields": [{"name": "f", "type": "float"}, {"name": "tags", "type": {"type": "array", "items": "int"}}],
        },
    },
]
AVRO_RECORDS = st.fixed_dictionaries(
    {
        "time": st.integers(0, 10**12),
        "n": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
        "x": st.floats(allow_nan=False),
        "s": st.one_of(st.none(), st.text(max_size=12)),
        "at": st.integers(0, 10**15),
        "b": st.booleans(),
        "e": st.sampled_from("PQ"),
        "in": st.fixed_dictionaries({"f": st.floats(width=32, allow_nan=False), "tags": st.lists(st.integers(0, 9), max_size=3)}),
    }
)


@settings(deadline=None, max_examples=60)
@given(st.lists(AVRO_RECORDS, min_size=1, max_size=30), st.sampled_from(["null", "deflate", "bzip2", "xz"]), st.integers(1, 400))
def test_both_ways_through_an_avro_container_agree(records, codec, block):
    # the first record has every value: without any the rows know no kind, the schema does
    records = [{**records[0], "n": 1, "s": "x"}, *records]
    schema = {"type": "record", "name": "x.A", "fields": AVRO_FIELDS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "e.avro"
        with path.open("wb") as file:
            fastavro.writer(file, fastavro.parse_schema(schema), records, codec=codec, sync_interval=block)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("app.files.avro_files.ROWS", 7)
            patch.setattr("app.files.avro_files.READ_BYTES", 100)
            patch.setattr("app.files.avro_files.avro_rows", None)
            at_once = read_events(path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("app.files.avro_files.ContainerDecoder.of", _odd)
            by_rows = read_events(path)
    assert_same(at_once, by_rows)


def _odd(*_):
    raise OddContainerError
