"""What is wrong with a command line is told before kernels are compiled and events are read; nothing here depends on how long these take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

QUERY = """\
name: rise
from: quotes
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > a.price"
within: 10 s
return: {symbol: a.symbol}
tests:
  - name: it rises
    given: |
      0s Quote symbol=A price=1
      1s Quote symbol=A price=2
    expect: [{symbol: A}]
"""
SCHEMA = {
    "type": "record",
    "name": "Quote",
    "fields": [{"name": "time", "type": "long"}, {"name": "symbol", "type": "string"}, {"name": "price", "type": "double"}],
}
OVER = 'from: "query:rise"\nname: above\nevent: SEQ(rise a, rise b)\nwithin: 1 m\nreturn: {s: a.symbol}\n'


class CompiledError(Exception):
    """Kernels were to be compiled."""


@pytest.fixture
def files(cep, monkeypatch: pytest.MonkeyPatch):
    """A folder with a query, events and settings; compiling kernels, and reading events, is an error of its own."""

    def compiled(*_: object) -> None:
        raise CompiledError

    for command in ("queries.test", "replay.replay", "shedding.train", "shedding.evaluate"):
        monkeypatch.setattr(f"app.cli.{command}.warm_kernels", compiled)
    monkeypatch.setattr("app.cli.main.warm_kernels", compiled)
    monkeypatch.setattr("app.cli.inputs.events.gather", compiled)
    events = [{"type": "Quote", "time": k, "symbol": "A", "price": float(k)} for k in range(3)]
    Path("e.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    Path("quote.avsc").write_text(json.dumps(SCHEMA))
    Path("s.yaml").write_text("streams: {quotes: {schemas: [quote.avsc], time: time}}\n")
    Path("q.yaml").write_text(QUERY)
    return cep


REPLAY = ("replay", "--queries", "q.yaml", "--events", "e.jsonl")
TRAIN = ("train", "--queries", "q.yaml", "--events", "e.jsonl", "--shedder", "gspice", "--out", "m.model")
EVALUATE = ("evaluate", "--queries", "q.yaml", "--events", "e.jsonl")
ALL = [("test", "q.yaml"), REPLAY, TRAIN, EVALUATE]
SETTINGS = ("--settings", "s.yaml")
by_name = pytest.mark.parametrize("command", ALL, ids=lambda command: command[0])


@by_name
def test_kernels_are_compiled_where_nothing_is_wrong(files, command):
    with pytest.raises(CompiledError):
        files(*command, *SETTINGS)


@by_name
@pytest.mark.parametrize(
    ("written", "instead", "more", "message"),
    [
        ("within: 10 s", "withn: 10 s", (), 'did you mean "within"?'),
        ("b.price > a.price", "b.price >> a.price", (), "q.yaml:4"),
        ("b.price > a.price", "b.prise > a.price", SETTINGS, '"prise"'),
        ("name: rise", "", (), "name"),
    ],
)
def test_a_mistake_in_a_query_is_told_before_kernels_are_compiled(files, command, written, instead, more, message):
    Path("q.yaml").write_text(QUERY.replace(written, instead, 1))
    code, out, told = files(*command, *more)
    assert (code, out) == (1, "")
    assert message in told


@by_name
@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("s.yaml", "streamz: {}", '"streamz"'),
        ("s.yaml", "streams: {quotes: {schemas: [none.avsc]}}", "none.avsc"),
        ("quote.avsc", "{", "quote.avsc"),
    ],
)
def test_a_mistake_in_settings_or_a_schema_is_told_before_kernels_are_compiled(files, command, file, text, message):
    Path(file).write_text(text)
    code, out, told = files(*command, *SETTINGS)
    assert (code, out) == (78, "")
    assert message in told


@by_name
def test_query_files_that_are_not_there_are_told_before_kernels_are_compiled(files, command):
    Path("q.yaml").unlink()
    code, _, told = files(*command)
    assert (code, told) == (1, "q.yaml: cannot be read: no such file or directory\n")


@pytest.mark.parametrize("command", [REPLAY, TRAIN, EVALUATE], ids=lambda command: command[0])
@pytest.mark.parametrize("more", [(), SETTINGS])
def test_events_that_are_not_there_are_told_before_kernels_are_compiled(files, command, more):
    Path("e.jsonl").unlink()
    code, _, told = files(*command, *more)
    assert (code, told) == (1, "e.jsonl: cannot be read: no such file or directory\n")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("test", "q.yaml", "--only", "falls"), 'no test of these queries holds "falls" in its name'),
        ((*TRAIN, "--query", "rize"), 'there is no query "rize" in q.yaml\nhint: did you mean "rise"?'),
        ((*EVALUATE, "--query", "rize"), 'there is no query "rize" in q.yaml\nhint: did you mean "rise"?'),
        ((*TRAIN, "--shedder", "gspize"), 'there is no shedder "gspize"'),
        ((*EVALUATE, "--shedder", "gspize"), 'there is no shedder "gspize"'),
        ((*TRAIN, "--shedder", "random"), 'query rise: the shedder "random" learns nothing'),
        ((*TRAIN[:-1], "none/m.model"), "there is no folder"),
        ((*REPLAY, "--model", "none.model", "--drop-ratio", "0.1"), "none.model: no such file or directory"),
        ((*REPLAY, "--model", "q.yaml", "--drop-ratio", "0.1"), "query rise: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_names_that_nobody_knows_are_told_before_kernels_are_compiled(files, command, message):
    code, out, told = files(*command)
    assert code
    assert out == ""
    assert message in told


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ((*TRAIN[:-1], "e.jsonl"), "--out e.jsonl would overwrite the events of e.jsonl"),
        ((*EVALUATE, "--json", "./e.jsonl"), "--json e.jsonl would overwrite the events of e.jsonl"),
        ((*EVALUATE, "--json", "f.svg", "--plot", "f.svg"), "--plot f.svg would overwrite what --json writes"),
        (("generate", "retail", "--out", "s.jsonl", "--truth", "s.jsonl"), "--truth s.jsonl would overwrite what --out writes"),
        (("generate", "retail", "--truth", "e.jsonl", "--score", "e.jsonl"), "--truth e.jsonl would overwrite the events of e.jsonl"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_file_is_not_written_over_the_events_or_another_one(files, command, message):
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    code, out, told = files(*command)
    assert (code, out) == (78, "")
    assert message in told
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize("command", [TRAIN, EVALUATE], ids=lambda command: command[0])
def test_queries_that_shed_nothing_are_told_before_kernels_are_compiled(files, command):
    Path("q.yaml").write_text(f"{QUERY}enabled: false\n---\n{OVER}")
    code, _, told = files(*command)
    assert code == 1
    assert told.startswith("none of the queries is a pattern over events")


@pytest.mark.parametrize(
    "value",
    ["max(b.seen, '2026-01-01T00:00:00Z')", "min('2026-01-01', a.seen + 1 h, b.seen)", "max(min(a.seen, b.seen), '2026-01-01')"],
)
def test_texts_beside_what_nobody_knows_yet_may_be_times(files, value):
    Path("q.yaml").write_text(QUERY.replace("b.price > a.price", f"{value} > a.seen"))
    with pytest.raises(CompiledError):
        files(*REPLAY)


@pytest.mark.parametrize("value", ["max(b.seen, 'x')", "max('2026-01-01', '2026-01-02')", "min(b.seen, '2026-01-01', 'x')"])
def test_texts_that_are_no_times_have_no_greatest_whatever_is_beside_them(files, value):
    Path("q.yaml").write_text(QUERY.replace("b.price > a.price", f"{value} > a.seen"))
    code, _, told = files(*REPLAY)
    assert code == 1
    assert "() of a text" in told


def test_queries_without_tests_need_no_kernels(files):
    Path("q.yaml").write_text(QUERY.split("tests:", maxsplit=1)[0])
    assert files("test", "q.yaml")[:2] == (0, "0 passed, 0 failed\n")


def test_schemas_from_the_data_are_not_held_against_those_of_the_settings(files):
    Path("q.yaml").write_text(QUERY.replace("b.price > a.price", "b.prise > a.prise"))
    with pytest.raises(CompiledError):
        files(*REPLAY, *SETTINGS, "--types", "infer")
