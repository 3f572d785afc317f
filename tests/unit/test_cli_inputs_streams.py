"""Files of events as the streams of the settings have them: names, time, kinds, and what an event must have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import fastavro
import pytest

from app.cli.inputs.events import Choices, StreamEvents, read_input
from app.config.settings import load_settings
from app.errors import FindingsError
from app.events.batch import NULL, PRESENT

FIELDS = [
    {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "orderId", "type": "int"},
    {"name": "amount", "type": "double"},
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "shop", "type": "string", "default": "main"},
]
QUERY = """\
name: paid
event: SEQ(Order o, Payment p)
where: "[id] AND p.amount >= o.amount"
within: 10 minutes
return: {id: o.id, amount: p.amount}
"""
PAIR = [
    {"type": "Order", "when": 1000, "orderId": 1, "amount": 5.0},
    {"type": "Payment", "when": 2000, "orderId": 1, "amount": 6.5},
]
FOUND = {"id": 1, "amount": 6.5}


def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


def jsonl(*rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def turned(row: dict, **names: str) -> dict:
    return {names.get(key, key): value for key, value in row.items()}


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("Order", "Payment"):
        write(f"{name}.avsc", json.dumps({"type": "record", "name": name, "fields": FIELDS}))
    write("q.yaml", QUERY)
    write(
        "s.yaml",
        "application: shop\nstreams:\n  shop: {schemas: [Order.avsc, Payment.avsc], time: when, rename: {orderId: id}}\n"
        "queries: {paths: [q.yaml]}\n",
    )
    return load_settings(Path("s.yaml"), {})


def replayed(cep, name: str, *more: str) -> list:
    code, out, err = cep("replay", "--queries", "q.yaml", "--settings", "s.yaml", "--events", name, *more)
    assert code == 0, err
    return [json.loads(line)["fields"] for line in out.splitlines()]


@pytest.mark.parametrize("types", ["config", "infer"])
@pytest.mark.parametrize("id_name", ["orderId", "id"])
@pytest.mark.parametrize("time_name", ["when", "time"])
def test_json_lines_have_the_names_of_the_data_or_of_queries(cep, settings, id_name, time_name, types) -> None:
    write("e.jsonl", jsonl(*(turned(row, orderId=id_name, when=time_name) for row in PAIR)))
    assert replayed(cep, "e.jsonl", "--types", types) == [FOUND]


def test_one_file_may_have_both_names(cep, settings) -> None:
    write("e.jsonl", jsonl(PAIR[0], turned(PAIR[1], orderId="id", when="time")))
    assert replayed(cep, "e.jsonl") == [FOUND]


def test_the_name_in_queries_wins_over_the_name_in_the_data(settings) -> None:
    write("e.jsonl", jsonl({**PAIR[0], "id": 7}, PAIR[1]))
    assert read_input(Path("e.jsonl"), settings, Choices()).of_stream("shop").batch.columns["id"].values.tolist() == [7, 1]


def test_csv_and_avro_have_the_names_of_the_data(cep, settings) -> None:
    write("e.csv", "type,when,orderId,amount,shop\nOrder,1000,1,5.0,a\nPayment,2000,1,6.5,a\n")
    assert replayed(cep, "e.csv") == [FOUND]
    schemas = [json.loads(Path(f"{name}.avsc").read_text()) for name in ("Order", "Payment")]
    with Path("e.avro").open("wb") as file:
        fastavro.writer(file, schemas, [(row["type"], {key: row[key] for key in ("when", "orderId", "amount")}) for row in PAIR])
    assert replayed(cep, "e.avro") == [FOUND]


def test_a_name_may_be_of_one_type_only(settings) -> None:
    write("s.yaml", Path("s.yaml").read_text().replace("orderId: id", "Order.orderId: id"))
    write("e.jsonl", jsonl(*PAIR))
    read = read_input(Path("e.jsonl"), load_settings(Path("s.yaml"), {}), Choices(infer=True)).of_stream("shop")
    assert {one.name: [a.name for a in one.attributes] for one in read.schema.types} == {
        "Order": ["id", "amount"],
        "Payment": ["orderId", "amount"],
    }


@pytest.mark.parametrize("infer", [False, True])
@pytest.mark.parametrize("renames", ["{orderId: amount, amount: total}", "{Order.orderId: amount, Order.amount: total}"])
@pytest.mark.parametrize("row", [{"orderId": 1, "amount": 5.0}, {"amount": 1, "total": 5.0}, {"total": 5.0, "orderId": 1}])
def test_a_name_of_the_data_may_be_another_attributes_name_in_queries(settings, row, renames, infer) -> None:
    write("s.yaml", Path("s.yaml").read_text().replace("{orderId: id}", renames).replace(", Payment.avsc", ""))
    write("e.jsonl", jsonl({"type": "Order", "when": 1, **row}, {"type": "Order", "when": 2, **row}))
    read = read_input(Path("e.jsonl"), load_settings(Path("s.yaml"), {}), Choices(infer=infer)).of_stream("shop")
    assert {name: read.batch.columns[name].values.tolist() for name in ("amount", "total")} == {"amount": [1, 1], "total": [5.0, 5.0]}
    (order,) = read.schema.types
    assert {"amount", "total"} <= {attribute.name for attribute in order.attributes}
    assert "orderId" not in read.batch.columns


def test_a_name_that_only_another_streams_events_have_does_not_tell_which_names_a_file_has(settings) -> None:
    write(
        "s.yaml",
        Path("s.yaml")
        .read_text()
        .replace("{orderId: id}", "{orderId: amount, amount: total}")
        .replace("queries:", "  other: {time: when}\nqueries:"),
    )
    rows = [{**PAIR[0], "stream": "shop"}, {"type": "Sum", "when": 1, "total": 7, "stream": "other"}]
    write("e.jsonl", jsonl(*rows))
    read = read_input(Path("e.jsonl"), load_settings(Path("s.yaml"), {}), Choices()).of_stream("shop")
    assert {name: read.batch.columns[name].values.tolist() for name in ("amount", "total")} == {"amount": [1], "total": [5.0]}


def messages(name: str, settings) -> list[str]:
    with pytest.raises(FindingsError) as caught:
        read_input(Path(name), settings, Choices())
    return [finding.render() for finding in caught.value.findings]


def test_an_attribute_that_every_event_has_may_not_be_missing(settings) -> None:
    write("e.jsonl", jsonl({**turned(PAIR[0], amount="Amount"), "note": "x"}, PAIR[1], {**PAIR[1], "amount": None}))
    assert messages("e.jsonl", settings) == [
        'e.jsonl:1:1: no "amount", which every Order has; did you mean "Amount"?',
        'e.jsonl:3:1: no "amount", which every Payment has',
    ]
    kept = read_input(Path("e.jsonl"), settings, Choices(skip=True))
    assert (len(kept.of_stream("shop").batch), kept.skipped) == (1, 2)


def test_a_column_that_every_event_has_may_not_be_missing(settings) -> None:
    write("e.csv", "type,when,id\nOrder,1000,1\n")
    assert messages("e.csv", settings) == ['e.csv:2:1: no "amount", which every Order has']


def test_what_is_nullable_or_has_a_default_may_be_missing(settings) -> None:
    write("e.jsonl", jsonl(*PAIR))
    assert len(read_input(Path("e.jsonl"), settings, Choices()).of_stream("shop").batch) == 2


@pytest.fixture(params=["at once", "rows"])
def labelled(settings, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], StreamEvents]:
    """Reads rows of a CSV; every Order has a label, a Payment may have one."""
    if request.param == "rows":
        monkeypatch.setattr("app.files.csv_files.csv_columns", lambda *_: None)
    for name, kind in (("Order", "string"), ("Payment", ["null", "string"])):
        write(f"{name}.avsc", json.dumps({"type": "record", "name": name, "fields": [*FIELDS[:4], {"name": "label", "type": kind}]}))

    def read(rows: str) -> StreamEvents:
        write("e.csv", f"type,when,id,amount,note,label\n{rows}")
        return read_input(Path("e.csv"), settings, Choices()).of_stream("shop")

    return read


@pytest.mark.parametrize("other", ["x", "7", ""])
def test_an_empty_cell_is_an_empty_text_where_the_schema_requires_a_text(labelled, other) -> None:
    batch = labelled(f"Order,1,1,5,,\nPayment,2,1,5,,\nOrder,3,1,5,,{other}\n").batch
    label, note = batch.columns["label"], batch.columns["note"]
    assert label.state.tolist() == [PRESENT, NULL, PRESENT]
    assert [label.dictionary.entry(label.values[row]) for row in (0, 2)] == [b"", other.encode()]
    assert note.state.tolist() == [NULL, NULL, NULL], "not required"


def test_a_text_that_is_missing_as_a_column_is_no_empty_text(labelled, settings) -> None:
    write("e.csv", "type,when,id,amount\nOrder,1,1,5\n")
    assert messages("e.csv", settings) == ['e.csv:2:1: no "label", which every Order has']


def test_an_empty_cell_of_another_kind_is_still_missing(labelled, settings) -> None:
    write("e.csv", "type,when,id,amount,label\nOrder,1,1,,\n")
    assert messages("e.csv", settings) == ['e.csv:2:1: no "amount", which every Order has']


def test_empty_texts_are_read_also_where_another_stream_has_no_schema(labelled, settings) -> None:
    write("s.yaml", Path("s.yaml").read_text().replace("queries:", "  other: {time: when}\nqueries:"))
    write("e.csv", "type,when,id,amount,label\nOrder,1,1,5,\nOrder,2,1,5,\n")
    label = read_input(Path("e.csv"), load_settings(Path("s.yaml"), {}), Choices()).of_stream("shop").batch.columns["label"]
    assert label.state is None
    assert {label.dictionary.entry(code) for code in label.values.tolist()} == {b""}


@pytest.mark.parametrize("wrong", ["n/a", '"1,000"', "5 EUR", "true"])
def test_one_bad_cell_of_csv_is_one_bad_line(settings, wrong) -> None:
    write("e.csv", f"type,when,orderId,amount,shop\nOrder,1000,1,5,7\nOrder,1000,2,5.5,a\nPayment,2000,1,{wrong},7\nPayment,3000,1,,7\n")
    told = wrong.strip('"').capitalize() if wrong == "true" else f"'{wrong.strip(chr(34))}'"
    assert messages("e.csv", settings) == [
        f'e.csv:4:1: attribute "amount": {told} is no number',
    ]
    kept = read_input(Path("e.csv"), settings, Choices(skip=True))
    assert kept.skipped == 2, "and the one without an amount"
    assert kept.of_stream("shop").batch.columns["amount"].values.tolist() == [5.0, 5.5]


def test_the_schema_and_not_the_first_line_says_what_json_lines_hold(settings) -> None:
    write("e.jsonl", jsonl({**PAIR[0], "orderId": True}, *PAIR, {**PAIR[0], "amount": "5"}))
    assert messages("e.jsonl", settings) == [
        'e.jsonl:1:1: attribute "orderId": True is no integer',
        "e.jsonl:4:1: attribute \"amount\": '5' is no number",
    ]
    assert read_input(Path("e.jsonl"), settings, Choices(skip=True)).skipped == 2


def test_a_text_of_the_schema_may_look_like_a_number_in_some_lines(settings) -> None:
    write("e.jsonl", jsonl({**PAIR[0], "note": 7}, {**PAIR[1], "note": "x"}))
    column = read_input(Path("e.jsonl"), settings, Choices()).of_stream("shop").batch.columns["note"]
    assert [column.dictionary.entry(code) for code in column.values.tolist()] == [b"7", b"x"]


def test_kinds_of_the_data_stay_where_a_stream_has_no_schema(settings) -> None:
    write("s.yaml", Path("s.yaml").read_text().replace("queries:", "  other: {time: when}\nqueries:"))
    write("e.jsonl", jsonl({"type": "X", "stream": "other", "when": 1, "amount": "much"}))
    read = read_input(Path("e.jsonl"), load_settings(Path("s.yaml"), {}), Choices())
    assert read.of_stream("other").batch.columns["amount"].kind == "string"


def test_time_and_type_of_a_stream_may_be_nested(cep, settings) -> None:
    meta = [{"name": "at", "type": "long"}, {"name": "kind", "type": "string"}]
    fields = [{"name": "meta", "type": {"type": "record", "name": "Meta", "fields": meta}}, *FIELDS[1:3]]
    write("Event.avsc", json.dumps({"type": "record", "name": "Event", "fields": fields}))
    write(
        "s.yaml",
        "application: shop\nstreams:\n  shop: {schemas: [Event.avsc], time: meta.at, type: meta.kind, rename: {orderId: id}}\n"
        "queries: {paths: [q.yaml]}\n",
    )
    write(
        "e.jsonl",
        jsonl(*({"meta": {"at": row["when"], "kind": row["type"]}, "orderId": row["orderId"], "amount": row["amount"]} for row in PAIR)),
    )
    assert replayed(cep, "e.jsonl") == [FOUND]


def test_queries_say_by_their_own_names_what_an_attribute_without_any_value_is(cep, settings) -> None:
    """It was looked for by its name in the data, and so a text, which is not compared with a number."""
    write("s.yaml", "streams:\n  shop: {time: when, rename: {orderId: id, Payment.amount: paid}}\n  other: {time: when}\n")
    write("q.yaml", "name: q\nfrom: shop\nevent: SEQ(Order o, Payment p)\nwhere: p.id = 5 AND p.paid > 0.5 AND o.note = 'x'\nwithin: 1 m\n")
    write("e.jsonl", jsonl(*({**row, "orderId": None, "amount": None, "note": None} for row in PAIR)))
    assert replayed(cep, "e.jsonl") == []
    read = read_input(Path("e.jsonl"), load_settings(Path("s.yaml"), {}), Choices.for_queries([Path("q.yaml")])).of_stream("shop")
    assert {name: read.batch.columns[name].kind for name in ("id", "paid", "note")} == {"id": "integer", "paid": "float", "note": "string"}


def test_numbers_stay_numbers_beside_the_name_of_the_data_without_any_value(settings) -> None:
    """They became texts, of which 10 is less than 9."""
    write("s.yaml", "streams: {shop: {time: when, rename: {orderId: id}}}\n")
    write("e.jsonl", jsonl({"type": "Order", "when": 1, "id": 9}, {"type": "Order", "when": 2, "orderId": None}))
    read = read_input(Path("e.jsonl"), load_settings(Path("s.yaml"), {}), Choices.for_queries([Path("q.yaml")]))
    assert read.of_stream("shop").batch.columns["id"].kind == "integer"
