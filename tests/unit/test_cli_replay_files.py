"""Files of every format, several of them, and what is wrong in one of them, through `cep replay`."""

from __future__ import annotations

import errno
import io
import json
from contextlib import suppress
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather

from app.cli.inputs.events import Choices, gather_input
from app.cli.whole_files import whole_file
from app.errors import DependencyError
from app.events.rows import Row
from app.files.opened import StandardInput

ROWS = [{"type": "Q", "time": 1000 * k, "symbol": "AB"[k % 2], "price": float(k) + 0.5, "n": None if k == 3 else k} for k in range(8)]
QUERY = 'name: rise\nevent: SEQ(Q a, Q b)\nwhere: "[symbol] AND b.price > a.price AND (b.n > 0 OR b.n IS NULL)"\nwithin: 3 s\n'


def jsonl(rows) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def packed(path: str, data: bytes) -> None:
    with pa.output_stream(path, compression={".gz": "gzip", ".zst": "zstd"}.get(Path(path).suffix)) as file:
        file.write(data)


@pytest.fixture
def expected(cep) -> str:
    Path("q.yaml").write_text(QUERY)
    Path("plain.jsonl").write_bytes(jsonl(ROWS))
    code, out, _ = cep("replay", "--queries", "q.yaml", "--events", "plain.jsonl")
    assert code == 0
    assert out.count("\n") == 6
    return out


@pytest.mark.parametrize("name", ["e.jsonl.gz", "e.jsonl.zst", "e.parquet", "e.feather", "e.arrow", "e.csv"])
def test_every_format_gives_what_json_lines_give(cep, expected, name) -> None:
    table = pa.Table.from_pylist(ROWS)
    if name.endswith(".parquet"):
        pq.write_table(table, name, row_group_size=3)
    elif name.endswith(".csv"):
        csv.write_csv(table, name, csv.WriteOptions(quoting_style="none"))
    elif name.endswith(("gz", "zst")):
        packed(name, jsonl(ROWS))
    elif name.endswith(".arrow"):
        with pa.ipc.new_stream(name, table.schema) as stream:
            stream.write_table(table)
    else:
        feather.write_feather(table, name)
    code, out, _ = cep("replay", "--queries", "q.yaml", "--events", name)
    assert code == 0
    lines = [json.loads(line) for line in out.splitlines()]
    for line in lines if name.endswith(".csv") else []:
        # the header is line 0
        line["events"] = [{**one, "position": one["position"] - 1} for one in line["events"]]
    assert lines == [json.loads(line) for line in expected.splitlines()]


@pytest.mark.parametrize("given", [["parts"], ["parts/*.jsonl*"], ["parts/a.jsonl", "parts/b.jsonl.gz"]])
def test_several_files_are_merged_by_time_and_their_lines_are_counted_on(cep, expected, given) -> None:
    Path("parts").mkdir()
    packed("parts/a.jsonl", jsonl(ROWS[::2]))
    packed("parts/b.jsonl.gz", jsonl(ROWS[1::2]))
    places = dict(enumerate([*range(0, 8, 2), *range(1, 8, 2)]))
    code, out, _ = cep("replay", "--queries", "q.yaml", "--events", *given)
    assert code == 0
    lines = [json.loads(line) for line in out.splitlines()]
    for line in lines:
        line["events"] = [{**one, "position": places[one["position"]]} for one in line["events"]]
    assert lines == [json.loads(line) for line in expected.splitlines()]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_standard_input_is_what_it_begins_with(expected, tmp_path, suffix) -> None:
    packed(f"in.x{suffix}", jsonl(ROWS))
    with StandardInput(io.BytesIO(Path(f"in.x{suffix}").read_bytes())) as file:
        assert (file.kind, len(b"".join(file.blocks()).splitlines())) == ("json", len(ROWS))
    pq.write_table(pa.Table.from_pylist(ROWS), "in.parquet")
    with StandardInput(io.BytesIO(Path("in.parquet").read_bytes())) as file:
        assert (file.kind, file.packing) == ("parquet", "")


def test_a_bad_line_of_the_second_file_is_named_by_that_file(cep, expected, monkeypatch) -> None:
    monkeypatch.setattr("app.files.opened.BLOCK_BYTES", 200)
    Path("b.jsonl").write_bytes(jsonl(ROWS) + b"no json\n" + jsonl(ROWS[:1]))
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", "plain.jsonl", "--events", "b.jsonl", "--out", "o")
    assert code == 1
    assert err.startswith("b.jsonl:9:1: no JSON")
    assert not Path("o").exists()


def test_only_the_block_with_a_bad_line_is_read_row_by_row(expected, monkeypatch) -> None:
    monkeypatch.setattr("app.files.opened.BLOCK_BYTES", 200)
    Path("b.jsonl").write_bytes(jsonl(ROWS * 20) + b"no json\n" + jsonl(ROWS * 20))
    made = []

    def counting(*values):
        made.append(values)
        return Row(*values)

    monkeypatch.setattr("app.files.row_files.Row", counting)
    gathered = gather_input([Path("b.jsonl")], None, Choices(skip=True))
    assert (gathered.pieces.events, gathered.unreadable.count) == (320, 1)
    assert 0 < len(made) < 10


def test_a_csv_column_that_turns_out_to_be_text_is_text_from_the_beginning(expected, monkeypatch) -> None:
    monkeypatch.setattr("app.files.opened.BLOCK_BYTES", 40)
    Path("t.csv").write_text("type,time,tag\n" + "".join(f"A,{k},00{k}\n" if k == 9 else f"A,{k},{k}.50\n" for k in range(12)))
    gathered = gather_input([Path("t.csv")], None, Choices())
    column = gathered.whole().batch.columns["tag"]
    assert [column.dictionary.entry(code).decode() for code in column.values.tolist()] == [
        "009" if k == 9 else f"{k}.50" for k in range(12)
    ]


def avro(path: str, rows, schema) -> None:
    with Path(path).open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema({"type": "record", "name": "Q", "fields": schema}), rows)


@pytest.mark.parametrize("odd", [{"name": "stream", "type": "string"}, {"name": "either", "type": ["string", "long", "boolean"]}])
def test_lines_go_on_behind_a_container_that_is_read_row_by_row(cep, expected, odd) -> None:
    plain = [{"name": "time", "type": "long"}, {"name": "symbol", "type": "string"}, {"name": "price", "type": "double"}]
    rows = [{**row, odd["name"]: "s"} for row in ROWS]
    avro("a.avro", rows[:5], [*plain, odd])
    avro("b.avro", rows[5:], [*plain, odd])
    gathered = gather_input([Path("a.avro"), Path("b.avro")], None, Choices())
    assert gathered.whole().lines.tolist() == list(range(8))
    Path("s.yaml").write_text('name: rise\nfrom: s\nevent: SEQ(Q a, Q b)\nwhere: "[symbol] AND b.price > a.price"\nwithin: 3 s\n')
    Path("all.jsonl").write_bytes(jsonl(rows))
    together, apart = (cep("replay", "--queries", "s.yaml", "--events", *given) for given in (["all.jsonl"], ["a.avro", "b.avro"]))
    assert together[1].count("\n") == apart[1].count("\n") > 0


def test_a_container_that_breaks_off_is_counted_as_far_as_it_goes(expected) -> None:
    schema = [{"name": "time", "type": "long"}, {"name": "n", "type": ["null", "long"]}]
    avro("a.avro", [{"time": k, "n": k} for k in range(3)], schema)
    Path("a.avro").write_bytes(Path("a.avro").read_bytes()[:-4])
    avro("b.avro", [{"time": k, "n": k} for k in range(3)], schema)
    gathered = gather_input([Path("a.avro"), Path("b.avro")], None, Choices(skip=True))
    lines = gathered.whole().lines
    assert len(np.unique(lines)) == len(lines) >= 3


@pytest.mark.timeout(60)
@pytest.mark.parametrize("first", ["a.jsonl", "a.parquet"])
def test_numbers_of_one_file_and_texts_of_another_are_told_and_not_looked_at_for_ever(cep, expected, first) -> None:
    rows = [{"type": "Q", "time": k, "symbol": "A", "price": 1.0, "n": 1} for k in range(3)]
    Path(first).write_bytes(jsonl(rows)) if first.endswith("l") else pq.write_table(pa.Table.from_pylist(rows), first)
    Path("b.csv").write_text("type,time,symbol,price,n\nQ,1000,A,2.0,007\n")
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", first, "b.csv")
    assert code == 1
    assert err.startswith("b.csv:2:1: attribute \"n\": '007' is no integer, as in the lines before")


def test_a_quote_that_nobody_closes_is_a_finding(cep, expected) -> None:
    Path("b.csv").write_text('type,time,symbol,price,n\n"Q,1,A,2.0,7\n' + "Q,2,A,2.0,7\n" * 20_000)
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", "b.csv")
    assert code == 1
    assert "b.csv:" in err
    assert "field larger than field limit" in err


def test_no_room_for_what_does_not_fit_into_memory_is_no_fault_of_the_events(expected, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("app.cli.inputs.events.gather", full)
    with pytest.raises(DependencyError, match=r"no room for temporary files in .*\nhint: make room, or name another folder in TMPDIR"):
        gather_input([Path("plain.jsonl")], None, Choices())


def test_an_output_file_takes_its_place_when_it_is_whole(cep, expected) -> None:
    Path("out.jsonl").write_text("before\n")
    Path("bad.jsonl").write_bytes(jsonl(ROWS) + b"no json\n")
    assert cep("replay", "--queries", "q.yaml", "--events", "bad.jsonl", "--out", "out.jsonl")[0] == 1
    with suppress(RuntimeError), whole_file(Path("out.jsonl")) as path:
        path.write_text("half")
        raise RuntimeError
    assert Path("out.jsonl").read_text() == "before\n"
    assert cep("replay", "--queries", "q.yaml", "--events", "plain.jsonl", "--out", "out.jsonl")[0] == 0
    assert Path("out.jsonl").read_text() == expected
    assert not [path.name for path in Path().iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz", "E.JSONL.ZST"])
def test_a_generated_stream_is_packed_as_its_name_says(cep, expected, name) -> None:
    assert cep("generate", "retail", "--events", "100", "--out", name)[0] == 0
    assert gather_input([Path(name)], None, Choices()).pieces.events == 100


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["retail", "--out", "e.parquet"], "what is written are JSON lines"),
        (["retail", "--out", "e.jsonl", "--score", "plain.jsonl"], "leave --out out"),
    ],
)
def test_what_generate_cannot_do_it_says(cep, expected, arguments, told) -> None:
    code, _, err = cep("generate", *arguments)
    assert code == 78
    assert told in err
    assert not Path(arguments[2]).exists()


def test_streams_that_mean_other_things_by_one_name_are_read_together_where_no_query_speaks_of_it(cep, expected) -> None:
    def record(name: str, kind: str) -> str:
        fields = [{"name": "time", "type": "long"}, {"name": "key", "type": "long"}, {"name": "store_id", "type": ["null", kind]}]
        return json.dumps({"type": "record", "name": name, "fields": fields})

    Path("Shelf.avsc").write_text(record("Shelf", "long"))
    Path("Door.avsc").write_text(record("Door", "string"))
    streams = {
        name: {"topics": [name], "schemas": [f"{kind}.avsc"], "time": "time"}
        for name, kind in {"retail": "Shelf", "climate": "Door"}.items()
    }
    Path("settings.yaml").write_text(json.dumps({"streams": streams}))
    Path("both.yaml").write_text(
        "name: q\nfrom: [retail, climate]\nevent: SEQ(Shelf s, Door d)\nwhere: s.key = d.key\nwithin: 1 m\nreturn: {k: s.key}\n"
    )
    Path("both.jsonl").write_bytes(
        jsonl([{"type": "Shelf", "time": 1, "key": 3, "store_id": 7}, {"type": "Door", "time": 2, "key": 3, "store_id": None}])
    )
    code, out, err = cep("replay", "--queries", "both.yaml", "--events", "both.jsonl", "--settings", "settings.yaml")
    assert code == 0, err
    assert [json.loads(line)["fields"] for line in out.splitlines()] == [{"k": 3}]


def test_timestamps_of_a_table_have_a_greatest_among_constants(cep) -> None:
    """Before the events were read the constant was taken for a text, which has none."""
    Path("q.yaml").write_text(
        "name: q\nevent: SEQ(A a, B b)\nwhere: max(a.seen, '2026-01-01T00:00:00Z') > b.seen\nwithin: 1 m\nreturn: {n: b.n}\n"
    )
    seen = pa.array(np.array(["2025-01-01", "2025-12-31", "2026-01-01"], "datetime64[ms]"), pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table({"type": ["A", "B", "B"], "time": [0, 1, 2], "n": [1, 2, 3], "seen": seen}), "e.parquet")
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.parquet")
    assert code == 0, err
    assert [json.loads(line)["fields"] for line in out.splitlines()] == [{"n": 2}]
