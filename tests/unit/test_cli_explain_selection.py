from __future__ import annotations

import json
from pathlib import Path

QUERY = """
name: q
event: SEQ(Trade a, Trade b)
where: "a.price > 90 AND (b.price < 5 OR b.symbol = 'X' AND b.price < 50) AND b.note LIKE '%urgent%'
  AND a.symbol NOT IN ('P', 'Q') AND a.symbol != 'R' AND b.symbol != 'P' AND b.symbol != 'Q'"
within: 1 min
"""


def stream() -> str:
    """A hundred trades: prices 0 to 99, notes seldom urgent, one symbol of ten."""
    rows = [
        {"type": "Trade", "time": k, "price": float(k % 100), "symbol": "XABCDEFGHI"[k % 10], "note": "urgent" if k % 50 == 0 else "no"}
        for k in range(200)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def explained(cep, *more: str, form: str = "text") -> str:
    Path("q.yaml").write_text(QUERY)
    Path("e.jsonl").write_text(stream())
    code, out, err = cep("explain", "q.yaml", "--stage", "asc", "--format", form, *more)
    assert code == 0, err
    return out


def test_without_a_sample_the_initial_order_is_shown(cep) -> None:
    lines = explained(cep).splitlines()
    assert "order (initial): type, symbol, price, note" in lines
    assert "cover set: type" in lines
    symbols = lines.index("attribute symbol, tested by a, b, b':")
    assert lines[symbols + 1 : symbols + 5] == ["  less than P: a, b", "  P: none", "  between P and Q: a, b", "  Q: none"]
    assert "  X: a, b, b'" in lines
    assert "  once per distinct text: like '%urgent%'" in lines
    types = lines.index("attribute type, tested by a, b, b':")
    assert lines[types + 1 : types + 3] == ["  Trade: a, b, b'", "  any other: none"]


def test_a_sample_gives_the_order_that_drops_early_and_what_it_saves(cep) -> None:
    found = json.loads(explained(cep, "--sample", "e.jsonl", form="json"))
    costs = found["sample"]["constructs_per_event"]
    assert found["sample"]["events"] == 200
    assert found["order"][0] == "price"
    assert found["cover_set"] == ["price"]
    assert costs["macro"] < costs["initial"]
    # left: twice nine prices above 90; twice an urgent one of price 0 (that of price 50 is too dear)
    assert found["sample"]["dropped"] == 200 - (2 * 9 + 2)


def test_the_sample_is_told_in_words_and_drawn(cep) -> None:
    text = explained(cep, "--sample", "e.jsonl")
    assert "of 200 events 180 are dropped; constructs evaluated per event:" in text
    assert "order: price, " in text
    assert "order (initial)" not in text
    assert explained(cep, "--sample", "e.jsonl", form="mermaid").startswith("flowchart LR")
