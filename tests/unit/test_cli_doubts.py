"""What `cep replay` and its like warn about in files of events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.files import opened

QUERY = 'name: paid\nevent: SEQ(Order o, Payment p)\nwhere: "[id]"\nwithin: 10 minutes\n'
HEAD = "type,time,id,amount\n"


def warnings(cep, text: str, name: str = "e.csv") -> list[str]:
    Path("q.yaml").write_text(QUERY)
    Path(name).write_text(text)
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", name)
    assert code == 0, err
    return [line for line in err.splitlines() if "warning: " in line]


@pytest.mark.parametrize("wrong", ["n/a", "NULL", '"1,000"', '"5,50"', "10 EUR"])
def test_a_word_among_the_numbers_of_a_column_is_told(cep, wrong) -> None:
    text = HEAD + f"Order,0,1,5\nPayment,1,1,10.5\nOrder,2,2,\nPayment,3,2,{wrong}\nOrder,4,2,-7\n"
    value = wrong.strip('"')
    assert warnings(cep, text) == [f'e.csv:5:1: warning: amount is a number in 3 of 4 lines, here "{value}": the column is read as text']


def test_columns_of_words_and_identifiers_are_not_told(cep) -> None:
    rows = [("a1", "01234"), ("b2", "7"), ("3", "8")]
    assert not warnings(cep, HEAD + "".join(f"Order,{k},{one},{other}\n" for k, (one, other) in enumerate(rows)))


def test_a_word_in_a_later_block_is_told_once(cep, monkeypatch) -> None:
    monkeypatch.setattr(opened, "BLOCK_BYTES", 60)
    text = HEAD + "".join(f"Order,{k},{k},{k}\n" for k in range(30)) + "Order,30,30,x\n"
    told = warnings(cep, text)
    assert told == ['e.csv:32:1: warning: amount is a number in 30 of 31 lines, here "x": the column is read as text']


def test_lines_that_are_read_one_by_one_are_told_too(cep) -> None:
    text = HEAD + 'Order,0,1,5\n\nOrder,1,1,6\nOrder,2,1,"a\nb"\n'
    assert warnings(cep, text) == ['e.csv:6:1: warning: amount is a number in 2 of 3 lines, here "a\\nb": the column is read as text']


def test_few_columns_of_a_file_are_told(cep) -> None:
    names = [f"c{k}" for k in range(9)]
    cells = [",".join("1" * 9), ",".join("2" * 9), ",".join("x" * 9)]
    told = warnings(cep, f"type,time,id,{','.join(names)}\n" + "".join(f"Order,{k},1,{row}\n" for k, row in enumerate(cells)))
    assert len(told) == 3


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (1_767_225_600, "in 1970-01-21: are they seconds?"),
        (1_767_225_600_000_000, "beyond the year 9999: are they microseconds?"),
        (1_767_225_600_000_000_000, "beyond the year 9999: are they nanoseconds?"),
        (200_000_000_000_000, "in 8307-10-01: are they microseconds?"),
    ],
)
@pytest.mark.parametrize("name", ["e.csv", "e.jsonl"])
def test_times_of_another_unit_are_told_once(cep, first, told, name) -> None:
    lines = [f'{{"type": "Order", "time": {first + k}, "id": 1}}' if name == "e.jsonl" else f"Order,{first + k},1" for k in range(3)]
    text = "\n".join(lines if name == "e.jsonl" else ["type,time,id", *lines]) + "\n"
    assert warnings(cep, text, name) == [f"warning: {name}: times lie {told}"]


@pytest.mark.parametrize("first", [0, 1_000_000, 90_000_000, 1_767_225_600_000, -5])
def test_times_of_milliseconds_are_not_told(cep, first) -> None:
    assert not warnings(cep, HEAD + f"Order,{first},1,1\nOrder,{first + 1},1,1\n")


def event(kind: str, **values: object) -> str:
    return json.dumps({"type": kind, "time": 1, "id": 1, **values}) + "\n"


def test_events_of_a_stream_that_no_query_reads_are_told(cep) -> None:
    text = event("Order", stream="shop") + event("Payment", stream="shop") + event("Order", stream="web")
    expected = [
        'warning: 2 events name the stream "shop", which no query reads',
        'warning: 1 event names the stream "web", which no query reads',
    ]
    assert warnings(cep, text, "e.jsonl") == expected
    assert warnings(cep, "type,time,id,stream\nOrder,1,1,shop\n") == ['warning: 1 event names the stream "shop", which no query reads']
    code, _, err = cep("explain", "paid", "--queries", "q.yaml", "--why-not", "e.jsonl")
    assert code == 0
    assert expected[0] in err
    Path("q.yaml").write_text(QUERY + "from: [shop, web]\n")
    assert "names the stream" not in cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")[2]


@pytest.mark.parametrize("more", [(), ("--identities",)])
def test_a_file_without_any_type_of_the_queries_is_told(cep, more) -> None:
    Path("q.yaml").write_text(QUERY)
    Path("e.jsonl").write_text(event("order") + event("payment") + event("Refund"))
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", *more)
    assert code == 0
    assert err.startswith(
        "warning: no event has a type that the queries name (Order, Payment); types in the file: Refund, order, payment\n"
        'hint: did you mean "order" for "Order", "payment" for "Payment"? types are told apart by case\n'
    )


def explained(cep, *events: str) -> str:
    """What is warned about when a query that reads another one is explained."""
    over = 'name: wave\nfrom: "query:paid"\nevent: SEQ(paid x, paid y)\nwithin: 1 h\n'
    Path("q.yaml").write_text(f"{QUERY}from: shop\n---\n{over}")
    Path("e.jsonl").write_text("".join(events))
    code, _, err = cep("explain", "wave", "--queries", "q.yaml", "--why-not", "e.jsonl")
    assert code == 0, err
    return err


def test_a_query_that_reads_another_one_reads_its_stream_and_no_type_of_the_file(cep) -> None:
    told = explained(cep, event("Order", stream="shop"), event("Payment", stream="shop"))
    assert "the stream" not in told
    assert "no event has a type" not in told
    told = explained(cep, event("Refund", stream="web"))
    assert 'warning: 1 event names the stream "web", which no query reads' in told
    assert "warning: no event has a type that the queries name (Order, Payment); types in the file: Refund\n" in told


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ([("Quote", "IBM"), ("Quote", "MSFT")], []),
        ([("Quote", "IBM"), ("Order", "MSFT")], []),
        (
            [("Quote", "ORCL"), ("Order", "")],
            ["warning: no event has a type that the queries name (IBM, MSFT); types in the file: ORCL, Order"],
        ),
        ([("Refund", "")], ["warning: no event has a type that the queries name (IBM, MSFT); types in the file: Refund"]),
    ],
)
def test_types_are_those_of_the_streams_which_may_have_them_from_an_attribute(cep, kinds, told) -> None:
    fields = [{"name": "time", "type": "long"}, {"name": "id", "type": "long"}]
    symbol = {"name": "symbol", "type": "string"}
    Path("Order.avsc").write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}))
    Path("Quote.avsc").write_text(json.dumps({"type": "record", "name": "Quote", "fields": [*fields, symbol]}))
    Path("s.yaml").write_text(
        "streams:\n  retail: {schemas: [Order.avsc], time: time}\n  stocks: {schemas: [Quote.avsc], time: time, type: symbol}\n"
    )
    Path("q.yaml").write_text('name: both\nfrom: stocks\nevent: SEQ(IBM a, MSFT b)\nwhere: "[id]"\nwithin: 1 m\n')
    Path("e.jsonl").write_text("".join(event(kind, **({"symbol": symbol} if symbol else {})) for kind, symbol in kinds))
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", "--settings", "s.yaml")
    assert code == 0, err
    assert [line for line in err.splitlines() if "warning: " in line] == told


def test_one_type_of_the_queries_is_enough(cep) -> None:
    assert not warnings(cep, event("Order") + event("Refund"), "e.jsonl")
    assert not warnings(cep, "", "e.jsonl")
