"""`cep replay` tells which events were late: where they stand, when they are, and how far behind what came before."""

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
"""
START = 1_780_000_000_000
"""2026-05-28T20:26:40Z"""


def quotes(*rows: tuple[int, str], **more: object) -> str:
    return "".join(
        json.dumps({"type": "Quote", "time": START + time, "symbol": symbol, "price": 1.0, **more}) + "\n" for time, symbol in rows
    )


@pytest.fixture
def replayed(cep):
    """Runs the query over files; gives what was warned about, and the statistics."""

    def run(settings: str, *names: str, query: str = QUERY) -> tuple[list[str], dict]:
        Path("q.yaml").write_text(query)
        Path("s.yaml").write_text(settings)
        code, _, err = cep("replay", "--queries", "q.yaml", "--settings", "s.yaml", "--stats", "stats.json", "--events", *names)
        assert code == 0, err
        return [line for line in err.splitlines() if "warning: " in line], json.loads(Path("stats.json").read_text())

    return run


def test_late_events_are_told_with_file_line_time_and_how_far_behind_they_are(replayed):
    Path("a.jsonl").write_text(quotes((5000, "A"), (3000, "A"), (2999, "A")))
    Path("b.jsonl").write_text(quotes((6000, "A"), (1000, "B")))
    warned, stats = replayed("streams: {quotes: {allowed_lateness: 2 s}}", "a.jsonl", "b.jsonl")
    assert warned == [
        "a.jsonl:3:1: warning: late: 2026-05-28T20:26:42.999Z is 2001 ms behind an earlier event; the stream allows 2 s",
        "b.jsonl:2:1: warning: late: 2026-05-28T20:26:41.000Z is 5 s behind an earlier event; the stream allows 2 s",
    ]
    assert stats["late"] == 2
    assert stats["late_events"] == [
        {"file": "a.jsonl", "line": 3, "time": START + 2999, "behind_ms": 2001},
        {"file": "b.jsonl", "line": 2, "time": START + 1000, "behind_ms": 5000},
    ]


def test_the_header_of_a_csv_file_is_its_first_line(replayed):
    Path("e.csv").write_text(f"type,time,symbol,price\nQuote,{START + 9},A,1\nQuote,{START},A,1\n")
    warned, _ = replayed("streams: {quotes: {allowed_lateness: 0 s}}", "e.csv")
    assert warned == ["e.csv:3:1: warning: late: 2026-05-28T20:26:40.000Z is 9 ms behind an earlier event; the stream allows 0 s"]


def test_ten_late_events_are_told_and_the_others_counted(replayed):
    Path("e.jsonl").write_text(quotes((5000, "A"), *((k, "A") for k in range(12))))
    warned, stats = replayed("streams: {quotes: {allowed_lateness: 0 s}}", "e.jsonl")
    assert [line.split(":")[1] for line in warned[:10]] == [str(line) for line in range(2, 12)]
    assert warned[10:] == ["warning: 2 more late events"]
    assert (stats["late"], len(stats["late_events"])) == (12, 10)


def test_in_trusted_order_an_event_is_behind_those_of_its_key(replayed):
    Path("e.jsonl").write_text(quotes((9000, "B"), (5000, "A"), (4000, "A"), (4500, "A"), (1000, "C")))
    warned, _ = replayed("streams: {quotes: {ordered_by: symbol}}", "e.jsonl")
    assert warned == [
        'e.jsonl:3:1: warning: late: 2026-05-28T20:26:44.000Z is 1 s behind an earlier event of the same "symbol"',
        'e.jsonl:4:1: warning: late: 2026-05-28T20:26:44.500Z is 500 ms behind an earlier event of the same "symbol"',
    ]


def test_an_event_of_two_streams_is_told_as_the_more_patient_one_has_it(replayed):
    Path("e.jsonl").write_text(quotes((5000, "A"), (4000, "A"), (2000, "A")))
    streams = "streams: {a: {allowed_lateness: 0 s}, b: {allowed_lateness: 2 s}}"
    warned, _ = replayed(streams, "e.jsonl", query=QUERY.replace("from: quotes", "from: [a, b]"))
    assert warned == ["e.jsonl:3:1: warning: late: 2026-05-28T20:26:42.000Z is 3 s behind an earlier event; the stream allows 2 s"]


def test_an_event_is_told_by_a_stream_for_which_it_was_late(replayed):
    """The other one has no trades, and so nothing that came before."""
    for name in ("Quote", "Trade"):
        fields = [{"name": "time", "type": "long"}, {"name": "symbol", "type": "string"}, {"name": "price", "type": "double"}]
        Path(f"{name}.avsc").write_text(json.dumps({"type": "record", "name": name, "fields": fields}))
    Path("e.jsonl").write_text(quotes((5000, "A"), type="Trade") + quotes((1000, "A")))
    streams = "streams: {both: {schemas: [Quote.avsc, Trade.avsc], allowed_lateness: 1 s}, one: {schemas: [Quote.avsc]}}"
    queries = "---\n".join(
        QUERY.replace("from: quotes", f"from: {name}").replace("name: rise", f"name: of-{name}") for name in ("both", "one")
    )
    warned, _ = replayed(streams, "e.jsonl", query=queries)
    assert warned == ["e.jsonl:2:1: warning: late: 2026-05-28T20:26:41.000Z is 4 s behind an earlier event; the stream allows 1 s"]


def test_in_trusted_order_windows_say_how_far_a_key_may_be_behind(replayed):
    Path("e.jsonl").write_text(quotes((30_000, "B"), (25_000, "A"), (1000, "C")))
    warned, _ = replayed("streams: {quotes: {ordered_by: symbol}}", "e.jsonl")
    assert warned == ["e.jsonl:3:1: warning: late: 2026-05-28T20:26:41.000Z is 29 s behind an earlier event"]


def test_each_topic_partition_has_its_own_time(replayed):
    placed = [
        quotes((time, "A"), position=["t", partition, offset]) for time, partition, offset in ((9000, 0, 0), (3000, 1, 7), (1000, 1, 8))
    ]
    Path("e.jsonl").write_text("".join(placed))
    warned, _ = replayed("streams: {quotes: {allowed_lateness: 1 s, topics: [t]}}", "e.jsonl")
    assert warned == ["e.jsonl:3:1: warning: late: 2026-05-28T20:26:41.000Z is 2 s behind an earlier event; the stream allows 1 s"]


def test_nothing_is_told_where_nothing_is_late(replayed):
    Path("e.jsonl").write_text(quotes((1, "A"), (2, "A")))
    warned, stats = replayed("streams: {quotes: {allowed_lateness: 0 s}}", "e.jsonl")
    assert (warned, stats["late_events"]) == ([], [])
