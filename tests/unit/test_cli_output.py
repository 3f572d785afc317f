"""``--output json`` of commands that need no broker."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise

import pytest

GOOD = """
name: rise
from: stocks
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > a.price"
within: 5 s
return: {symbol: a.symbol}
tests:
  - name: rises
    given: |
      0s Quote symbol=A price=1.0
      1s Quote symbol=A price=2.0
    expect:
      - {symbol: A}
  - name: does not
    given: |
      0s Quote symbol=A price=1.0
      1s Quote symbol=A price=2.0
    expect: []
"""


@pytest.fixture
def query(tmp_path):
    file = tmp_path / "rise.yaml"
    file.write_text(GOOD)
    return file


def test_validate_tells_counts_and_findings(query, shell):
    ended = shell("validate", query, "--output", "json")
    assert (ended.code, ended.lines) == (0, [{"queries": 1, "files": 1, "errors": 0, "warnings": 0, "findings": []}])
    query.write_text(GOOD.replace("within: 5 s", "within: 5 parsecs"))
    ended = shell("validate", query, "--output", "json")
    (told,) = ended.lines
    assert (ended.code, told["errors"]) == (1, 1)
    (finding,) = told["findings"]
    assert (finding["severity"], finding["path"], finding["line"]) == ("error", str(query), 6)
    assert finding["message"] in ended.err, "people read the same on standard error"


def test_every_test_is_an_object(query, shell):
    ended = shell("test", query, "--output", "json")
    assert ended.code == 1
    assert [(line["query"], line["test"], line["passed"]) for line in ended.lines] == [("rise", "rises", True), ("rise", "does not", False)]
    assert ended.lines[1]["surplus"] == [{"symbol": "A"}]


def test_version(shell):
    (told,) = shell("version", "--output", "json").lines
    assert set(told) == {"version", "python", "machine"}


def test_an_empty_checkpoint(tmp_path, shell):
    file = tmp_path / "settings.yaml"
    file.write_text(json.dumps({"checkpoint": {"path": str(tmp_path / "checkpoint")}}))
    (told,) = shell("checkpoint", "ls", "--settings", file, "--output", "json").lines
    assert (told["committed"], told["runs"], told["buckets"]) == (None, 0, [])
    verified = shell("checkpoint", "verify", "--settings", file, "--output", "json")
    assert (verified.code, verified.out) == (78, ""), "a volume that is not mounted is no whole checkpoint"
    assert f"there is no checkpoint in {tmp_path}/checkpoint" in verified.err
    forked = shell("checkpoint", "fork", str(tmp_path / "copy"), "--settings", file)
    assert forked.code == 78, "a copy of nothing is no way back"
    assert f"there is no checkpoint in {tmp_path}/checkpoint" in forked.err
    assert not (tmp_path / "copy").exists()


def test_explain_calls_its_format_output_as_well(query, shell):
    ended = shell("explain", query, "--output", "json")
    assert ended.code == 0
    assert json.loads(ended.out)


def test_a_wrong_value_is_a_wrong_command_line(query, shell):
    assert shell("validate", query, "--output", "xml").code == 2


@pytest.mark.parametrize("line", ["no JSON", "[]", '{"query": "rise"}', '{"query": 5, "fields": {}}'])
def test_a_score_of_what_is_no_composite_event_is_a_sentence_with_its_line(line, shell, tmp_path):
    found = tmp_path / "found.jsonl"
    found.write_text('{"query": "rise", "fields": {}}\n' + line + "\n")
    ended = shell("generate", "stocks", "--events", "10", "--score", found)
    assert ended.code == 1
    assert f"{found}:2:1: no composite event" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(("name", "why"), [("not-there", "no such file or directory"), ("", "is a directory")])
def test_a_score_of_what_cannot_be_read_says_so(name, why, shell, tmp_path):
    ended = shell("generate", "stocks", "--events", "10", "--score", tmp_path / name)
    assert ended.code == 1
    assert ended.err.splitlines() == [f"{tmp_path / name}: cannot be read: {why}", "hint: write them with `cep replay --out FILE.jsonl`"]


def test_packed_composite_events_are_scored(shell, tmp_path):
    found = tmp_path / "found.jsonl.gz"
    found.write_bytes(gzip.compress(b'{"query": "other", "fields": {}}\n' * 3))
    ended = shell("generate", "stocks", "--events", "10", "--score", found)
    assert (ended.code, ended.err) == (0, "")
    assert "price-run: 0 expected, 0 found" in ended.out


@pytest.mark.parametrize("fields", ['{"price": 5}', '{"symbol": ["AAPL"], "began": 0, "ended": 1}'])
def test_a_score_of_other_fields_than_the_truth_has_says_which(fields, shell, tmp_path):
    found = tmp_path / "found.jsonl"
    found.write_text(f'{{"query": "price-run", "fields": {fields}}}\n')
    ended = shell("generate", "stocks", "--events", "10", "--score", found)
    assert ended.code == 1
    assert f"{found}:1:1: no value of symbol" in ended.err


def test_a_name_that_no_file_can_have_is_told_as_such(shell):
    ended = shell("validate", "name: q " * 40)
    assert ended.code == 78
    assert "file name too long\nhint: no file can be called so" in ended.err


def test_a_folder_in_a_files_place_is_refused_before_anything_is_computed(query, shell, tmp_path):
    ended = shell("test", query, "--junit", tmp_path)
    assert (ended.code, ended.out) == (78, "")
    assert ended.err.splitlines() == [f"{tmp_path}: is a directory", "hint: name a file, in it perhaps"]


def test_of_a_long_line_is_shown_what_stands_around_the_mistake(shell, tmp_path):
    file = tmp_path / "long.yaml"
    where = " AND ".join(f"a.x != {number}" for number in range(300)) + " AND a.x = = 1"
    file.write_text(f"name: long\nevent: SEQ(A a, B b)\nwithin: 1 s\nwhere: {where}\n")
    lines = shell("validate", file).err.splitlines()
    line, caret = next(pair for pair in pairwise(lines) if "^" in pair[1])
    assert line.startswith("    4 | …")
    assert line[caret.index("^") :] == "= 1"


def test_no_stream_begins_where_times_end(shell):
    assert shell("generate", "stocks", "--events", "10", "--start-ms", str(1 << 63)).code == 2
