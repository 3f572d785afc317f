"""Options that say how files of events are laid out, where no settings do: separator, time's column, time's unit."""

from __future__ import annotations

import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

QUERY = 'name: paid\nevent: SEQ(Order o, Payment p)\nwhere: "[id]"\nwithin: 10 minutes\nreturn: {id: o.id, note: p.note, took: p.time - o.time}\n'
START_S = 1_780_000_000
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "at", "type": "long"}, {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}


@pytest.fixture
def replay(cep):
    """Runs the query over files."""
    Path("q.yaml").write_text(QUERY)

    def run(*arguments: str) -> tuple[int, list[dict], str]:
        code, out, err = cep("replay", "--queries", "q.yaml", *arguments)
        return code, [json.loads(line) for line in out.splitlines()], err

    return run


def csv(*, sign: str = ",", time: str = "time", factor: int = 1000, note: str = "x") -> str:
    rows = [("type", time, "id", "note"), ("Order", START_S * factor, 1, note), ("Payment", (START_S + 60) * factor, 1, note)]
    return "".join(sign.join(map(str, row)) + "\n" for row in rows)


FOUND = (START_S + 60) * 1000


@pytest.mark.parametrize(("sign", "given"), [(";", ";"), ("|", "|"), ("\t", "tab"), ("\t", "\\t"), ("\t", "\t"), (" ", " "), (",", ",")])
@pytest.mark.parametrize("note", ["x", '"x"'])
def test_columns_are_separated_by_what_the_option_says(replay, sign, given, note):
    Path("e.csv").write_text(csv(sign=sign, note=note))
    code, found, err = replay("--events", "e.csv", "--separator", given)
    assert code == 0, err
    assert [(one["time"], one["fields"]) for one in found] == [(FOUND, {"id": 1, "note": "x", "took": 60_000})]


def test_quoted_cells_hold_separators_and_lines(replay):
    Path("e.csv").write_text(csv(sign=";", note='"a;b,c\nd"'))
    _, found, _ = replay("--events", "e.csv", "--separator", ";")
    assert [one["fields"]["note"] for one in found] == ["a;b,c\nd"]


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)])
def test_times_are_of_the_unit_and_in_the_column_that_options_say(replay, unit, factor):
    Path("e.csv").write_text(csv(time="at", factor=factor))
    code, found, err = replay("--events", "e.csv", "--time-column", "at", "--time-unit", unit)
    assert code == 0, err
    assert [one["time"] for one in found] == [FOUND]
    assert "warning" not in err


def test_other_formats_have_the_same_time(replay):
    rows = [{"type": kind, "at": START_S + k * 60, "id": 1, "note": "x"} for k, kind in enumerate(("Order", "Payment"))]
    Path("e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), "e.parquet")
    for name in ("e.jsonl", "e.parquet"):
        code, found, err = replay("--events", name, "--time-column", "at", "--time-unit", "s")
        assert (code, [one["time"] for one in found]) == (0, [FOUND]), err


def test_an_option_has_its_way_over_the_settings(replay):
    fields = [{"name": "stamp", "type": "long"}, *SCHEMA["fields"][1:]]
    for name in ("Order", "Payment"):
        Path(f"{name}.avsc").write_text(json.dumps({**SCHEMA, "name": name, "fields": fields}))
    Path("s.yaml").write_text("streams: {orders: {schemas: [Order.avsc, Payment.avsc], time: stamp}}")
    Path("e.csv").write_text(csv(time="at", factor=1))
    code, found, err = replay("--events", "e.csv", "--settings", "s.yaml", "--time-column", "at", "--time-unit", "s")
    assert (code, [one["time"] for one in found]) == (0, [FOUND]), err


def test_an_attribute_of_a_schema_stays_one_when_it_is_also_the_time(replay):
    """Replayed by the other clock: the schema has a time of its own, and wants the attribute."""
    fields = [{"name": "stamp", "type": "long"}, *SCHEMA["fields"]]
    for name in ("Order", "Payment"):
        Path(f"{name}.avsc").write_text(json.dumps({**SCHEMA, "name": name, "fields": fields}))
    Path("s.yaml").write_text("streams: {orders: {schemas: [Order.avsc, Payment.avsc], time: stamp}}")
    Path("q.yaml").write_text(QUERY.replace("note: p.note", "note: p.at"))
    rows = [{"type": kind, "stamp": 5 - k, "at": START_S * 1000 + k, "id": 1, "note": "x"} for k, kind in enumerate(("Order", "Payment"))]
    Path("e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("nested.jsonl").write_text("".join(json.dumps({**row, "more": {"x": 1}}) + "\n" for row in rows))
    Path("e.csv").write_text("\n".join(",".join(map(str, row)) for row in [rows[0], *(row.values() for row in rows)]))
    pq.write_table(pa.Table.from_pylist(rows), "e.parquet")
    schemas = [{**SCHEMA, "name": row["type"], "fields": fields} for row in rows]
    with Path("e.avro").open("wb") as file:
        fastavro.writer(file, schemas, [(row["type"], {name: value for name, value in row.items() if name != "type"}) for row in rows])
    for name in ("e.jsonl", "nested.jsonl", "e.csv", "e.parquet", "e.avro"):
        code, found, err = replay("--events", name, "--settings", "s.yaml", "--time-column", "at")
        told = [(one["time"], one["fields"]["note"]) for one in found]
        assert (code, told) == (0, [(START_S * 1000 + 1, START_S * 1000 + 1)]), (name, err)


@pytest.mark.parametrize("name", ["e.jsonl", "nested.jsonl", "e.parquet", "e.avro"])
def test_a_time_that_an_option_names_is_not_taken_from_elsewhere(replay, name):
    rows = [{"type": "Order", "time": k, "id": 1, "note": "x"} for k in range(2)]
    Path("e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("nested.jsonl").write_text("".join(json.dumps({**row, "more": {"x": 1}}) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), "e.parquet")
    fields = [{"name": "time", "type": "long"}, *SCHEMA["fields"][1:]]
    with Path("e.avro").open("wb") as file:
        fastavro.writer(file, {**SCHEMA, "fields": fields}, [{name: row[name] for name in ("time", "id", "note")} for row in rows])
    code, _, err = replay("--events", name, "--time-column", "tiem")
    assert code == 1
    assert f'{name}:1:1: no "tiem"' in err


def test_a_unit_that_an_option_says_is_doubted_as_such(replay):
    Path("e.csv").write_text(csv())
    _, _, err = replay("--events", "e.csv", "--time-unit", "s")
    assert (
        "e.csv: times lie beyond the year 9999: are they seconds, as --time-unit s says?\nhint: without the option numbers are milli" in err
    )


def test_a_separator_may_be_that_of_standard_input(replay, monkeypatch):
    Path("e.jsonl").write_text('{"type": "Order", "time": 1, "id": 1}\n')
    Path("piped.csv").write_text(csv(sign=";"))
    with Path("piped.csv").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        code, _, err = replay("--events", "-", "--events", "e.jsonl", "--separator", ";")
    assert code == 0, err


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (csv(), ["--separator", ";;"], '--separator ";;" has 2 characters\nhint: one separates columns'),
        (csv(), ["--separator", ""], '--separator "" has 0 characters'),
        (csv(), ["--separator", "x"], "--separator 'x': a letter"),
        (csv(), ["--separator", '"'], "--separator '\"': a letter"),
        (
            csv(sign=";"),
            [],
            (
                'e.csv:1:1: the header has 1 column, "type;time;id;note": is the separator ";"?\n'
                'hint: columns are separated by commas, or as --separator ";" of cep replay, train and evaluate says\n'
            ),
        ),
        (csv(sign="\t"), [], "or as --separator tab of cep replay, train and evaluate says\n"),
        (csv(), ["--separator", ";"], 'e.csv:1:1: the header has 1 column, "type,time,id,note": is the separator ","?\n'),
        (
            csv(time="stamp"),
            ["--time-column", "stmap"],
            (
                'e.csv:1:1: there is no column "stmap"; columns are type, stamp, id, note\n'
                'hint: did you mean "stamp"? --time-column names that column\n'
            ),
        ),
        (
            csv(),
            ["--time-column", "at"],
            'there is no column "at"; columns are type, time, id, note\nhint: --time-column names that column\n',
        ),
        (
            csv(time="ts"),
            [],
            'did you mean "ts"? streams.NAME.time of the settings may name another column, and so may --time-column of cep replay, train and evaluate\n',
        ),
    ],
)
def test_what_does_not_fit_the_file_is_told(replay, text, more, message):
    Path("e.csv").write_text(text)
    code, found, err = replay("--events", "e.csv", *more)
    assert (code, found) == (1, [])
    assert message in err


def test_a_separator_where_nothing_is_separated_is_told(replay):
    Path("e.txt").write_text(csv(sign=";"))
    assert replay("--events", "e.txt", "--separator", ";")[::2] == (
        1,
        "--separator is for CSV files, and none of these is one: e.txt\nhint: CSV files are named .csv\n",
    )


def test_a_unit_that_nobody_knows_is_told(replay):
    code, _, err = replay("--events", "e.csv", "--time-unit", "h")
    assert code == 2
    assert "'s', 'ms', 'us', 'ns'" in err


def test_times_of_another_unit_are_told_with_the_option(replay):
    Path("e.csv").write_text(csv(factor=1))
    assert "unless --time-unit s of cep replay, train and evaluate says otherwise;" in replay("--events", "e.csv")[2]


def test_shedders_learn_from_files_that_are_laid_out_so(cep):
    Path("q.yaml").write_text(QUERY)
    rows = [(kind, START_S + k, k // 2, "x") for k, kind in enumerate(("Order", "Payment") * 300)]
    Path("e.csv").write_text("type;at;id;note\n" + "".join(";".join(map(str, row)) + "\n" for row in rows))
    layout = ("--events", "e.csv", "--separator", ";", "--time-column", "at", "--time-unit", "s")
    code, _, err = cep("train", "--queries", "q.yaml", *layout, "--shedder", "bl", "--out", "m.model")
    assert code == 0, err
    assert "bl learned from 600 events" in err
    code, _, err = cep("evaluate", "--queries", "q.yaml", *layout, "--shedder", "random", "--rate", "1.5")
    assert code == 0, err
