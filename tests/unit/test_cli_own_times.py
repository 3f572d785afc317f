"""A stream whose times are its records' own timestamps, as `time:` left out says it."""

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
      0s  Quote symbol=IBM price=1.0
      1s  Quote symbol=IBM price=2.0
    expect:
      - {symbol: IBM}
"""
FIELDS = [{"name": "symbol", "type": "string"}, {"name": "price", "type": "double"}]


@pytest.fixture(params=[[], [{"name": "time", "type": "string"}]], ids=["no field time", "a text of that name"])
def stream(cep, request: pytest.FixtureRequest):
    Path("Quote.avsc").write_text(json.dumps({"type": "record", "name": "Quote", "fields": [*request.param, *FIELDS]}))
    Path("c.yaml").write_text("streams:\n  quotes: {schemas: [Quote.avsc]}\n")
    Path("q.yaml").write_text(QUERY)
    rows = [{"type": "Quote", "time": 1000 * k, "symbol": "IBM", "price": k} for k in range(2)]
    Path("e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return cep


@pytest.mark.parametrize("command", [("validate",), ("explain",), ("test",)])
def test_queries_are_checked_against_it(stream, command) -> None:
    code, out, err = stream(*command, "q.yaml", "--config", "c.yaml")
    assert code == 0, out + err


def test_replayed_lines_bring_their_times(stream) -> None:
    code, out, err = stream("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--config", "c.yaml")
    assert code == 0, err
    assert [json.loads(line)["time"] for line in out.splitlines()] == [1000]
