"""Files that are not in the format they are read in."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from app.errors import FindingsError
from app.files.gathering import parse_events, read_events
from app.files.opened import EventFile, StandardInput
from app.files.row_files import FileFormat

ROWS = "Order,0,1,5\nPayment,1,1,6\n"


def told(text: str, name: str, file_format: FileFormat | None = None) -> list[str]:
    Path(name).write_text(text)
    with pytest.raises(FindingsError) as caught:
        read_events(Path(name), file_format)
    return [finding.render() for finding in caught.value.findings]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("skip", ["stop", "skip"])
@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("type;time;id\nOrder;0;1\n", 'the header has 1 column, "type;time;id": is the separator ";"?', "columns are separated by commas"),
        ("type\ttime\nOrder\t0\n", 'the header has 1 column, "type\\ttime": is the separator a tab?', "columns are separated by commas"),
        (
            "type, time, id\n" + ROWS,
            'there is no column "time"; columns are type,  time,  id',
            "write the header without blanks: type,time,id",
        ),
        ("Type,time\nOrder,0\n", 'there is no column "type"; columns are Type, time', 'did you mean "Type"?'),
        ("type,timestamp\nOrder,0\n", 'there is no column "time"; columns are type, timestamp', 'did you mean "timestamp"?'),
        ("type,x\nOrder,0\n", 'there is no column "time"; columns are type, x', "streams.NAME.time of the settings"),
        (ROWS, 'there is no column "type"; columns are Order, 0, 1, 5', "the first line of a CSV file names the columns"),
        ("type,time,id,id\n" + ROWS, 'the header has two columns "id"', "give each column a name of its own"),
        ('{"type": "A", "time": 1}\n', 'there is no column "type"; columns are {"type": "A",  "time": 1}', "JSON lines are named .jsonl"),
    ],
)
def test_a_header_that_names_no_columns_is_told_once(text, message, hint, skip) -> None:
    found = told(text, "e.csv", FileFormat(on_error=skip))
    assert len(found) == 1
    assert found[0].startswith(f"e.csv:1:1: {message}\nhint: {hint}")


def test_a_column_of_the_settings_may_be_the_time_and_the_type() -> None:
    Path("e.csv").write_text("kind,when\nOrder,5\n")
    assert read_events(Path("e.csv"), FileFormat("kind", time_attribute="when")).batch.time.tolist() == [5]
    Path("e.csv").write_text("time\n5\n")
    assert len(read_events(Path("e.csv"), FileFormat(type_name="A")).batch) == 1


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ('[\n{"type": "A", "time": 1},\n{"type": "B", "time": 1}\n]\n', "an array", "jq -c '.[]' e.json"),
        ('[{"type": "A", "time": 1},\n{"type": "B", "time": 1}]\n', "an array", "jq -c '.[]' e.json"),
        ('{\n "type": "A",\n "time": 1\n}\n', "an object", "jq -c . e.json"),
    ],
)
def test_json_over_several_lines_is_told_once(text, what, hint) -> None:
    assert told(text, "e.json") == [f"e.json:1:1: no JSON lines: {what} goes over several lines\nhint: one object per line, e.g. {hint}"]


def test_an_array_on_one_line_is_told_what_to_do() -> None:
    assert told('[{"type": "A", "time": 1}]\n', "e.json") == [
        "e.json:1:1: not a JSON object\nhint: one object per line, e.g. jq -c '.[]' e.json"
    ]


def test_a_line_that_is_cut_off_is_one_bad_line() -> None:
    found = told('{"type": "A", "ti\n{"type": "A", "time": 1}\n{"type": "A", "time": 2},\n', "e.jsonl")
    assert found == ["e.jsonl:1:18: no JSON: unexpected end of data", "e.jsonl:3:25: no JSON: unexpected content after document"]
    assert parse_events(b'{"type": "A", "ti\n{"type": "A", "time": 1}\n', FileFormat(on_error="skip")).skipped == 1


@pytest.mark.parametrize(
    ("name", "why"), [("e.txt", "as files named .txt are"), ("e.json", "as its name says"), ("e", "as files without a suffix are")]
)
def test_csv_of_another_name_says_what_it_was_read_as(name, why) -> None:
    found = told("type,time\nOrder,0\n", name)
    assert found[0].splitlines()[1] == f"hint: {name} is read as JSON lines, {why}; comma-separated values are named .csv"
    assert not any("hint" in line for line in found[1:])


LINES = b'{"type": "A", "time": 1, "id": 1}\n{"type": "B", "time": 2, "id": 1}\n'


@pytest.mark.parametrize("name", ["e.jsonl", "e.csv"])
def test_a_byte_order_mark_is_no_part_of_what_it_marks(name) -> None:
    text = LINES if name == "e.jsonl" else b"type,time,id\nA,1,1\nB,2,1\n"
    Path(name).write_bytes(codecs.BOM_UTF8 + text)
    assert read_events(Path(name)).batch.time.tolist() == [1, 2]
    with Path(name).open("rb") as source, StandardInput(source) as given:
        assert given.kind == EventFile.of(Path(name)).kind


def test_nothing_but_a_byte_order_mark_is_an_empty_file() -> None:
    Path("e.jsonl").write_bytes(codecs.BOM_UTF8)
    assert len(read_events(Path("e.jsonl")).batch) == 0


def test_lines_of_two_bytes_a_character_are_told_as_such() -> None:
    Path("e.jsonl").write_bytes(LINES.decode().encode("utf-16"))
    with pytest.raises(FindingsError) as caught:
        read_events(Path("e.jsonl"))
    assert caught.value.findings[0].hint == "e.jsonl is UTF-16: iconv -f UTF-16 -t UTF-8 e.jsonl"
