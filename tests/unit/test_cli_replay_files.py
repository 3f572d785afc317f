"""Files of every format, several of them, and what is wrong in one of them, through `cep replay`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather

from app.cli.inputs.events import Choices, gather_input
from app.events.opened import StandardInput
from app.events.rows import Row

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
    monkeypatch.setattr("app.events.opened.BLOCK_BYTES", 200)
    Path("b.jsonl").write_bytes(jsonl(ROWS) + b"no json\n" + jsonl(ROWS[:1]))
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", "plain.jsonl", "--events", "b.jsonl", "--out", "o")
    assert code == 1
    assert err.startswith("b.jsonl:9:1: no JSON")
    assert not Path("o").exists()


def test_only_the_block_with_a_bad_line_is_read_row_by_row(expected, monkeypatch) -> None:
    monkeypatch.setattr("app.events.opened.BLOCK_BYTES", 200)
    Path("b.jsonl").write_bytes(jsonl(ROWS * 20) + b"no json\n" + jsonl(ROWS * 20))
    made = []

    def counting(*values):
        made.append(values)
        return Row(*values)

    monkeypatch.setattr("app.events.row_files.Row", counting)
    gathered = gather_input([Path("b.jsonl")], None, Choices(skip=True))
    assert (gathered.pieces.events, gathered.unreadable.count) == (320, 1)
    assert 0 < len(made) < 10


def test_a_csv_column_that_turns_out_to_be_text_is_text_from_the_beginning(expected, monkeypatch) -> None:
    monkeypatch.setattr("app.events.opened.BLOCK_BYTES", 40)
    Path("t.csv").write_text("type,time,tag\n" + "".join(f"A,{k},00{k}\n" if k == 9 else f"A,{k},{k}.50\n" for k in range(12)))
    gathered = gather_input([Path("t.csv")], None, Choices())
    column = gathered.whole().batch.columns["tag"]
    assert [column.dictionary.entry(code).decode() for code in column.values.tolist()] == [
        "009" if k == 9 else f"{k}.50" for k in range(12)
    ]
