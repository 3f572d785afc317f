"""Texts that an Avro enum does not have are told where queries compare it with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.events.avro import StreamDefinition, parse_schema, stream_records
from app.query.compile import compile_texts
from app.query.resolved.vocabulary import UNKNOWN, Streams

KIND = {"type": "enum", "name": "Kind", "symbols": ["entry", "exit"]}


def record(name: str, kind: object) -> dict:
    inner = {"type": "record", "name": f"{name}Gate", "fields": [{"name": "side", "type": {**KIND, "name": f"{name}Side"}}]}
    fields = [("time", "long"), ("id", "long"), ("kind", kind), ("gate", inner), ("note", "string")]
    return {"type": "record", "name": name, "fields": [{"name": one, "type": what} for one, what in fields]}


def streams(kind: object = KIND, other: object = KIND) -> Streams:
    schemas = [parse_schema(record("Door", kind)), parse_schema(record("Lift", other))]
    return Streams({"doors": stream_records(StreamDefinition("doors"), schemas).schema})


QUERY = 'name: q\nevent: SEQ(Door a, {second} b)\nwhere: "[id] AND {where}"\nwithin: 5 m\n'


def told(where: str, known: Streams | None = None, second: str = "Lift") -> list[str]:
    compiled = compile_texts([("q.yaml", QUERY.format(where=where, second=second))], streams() if known is None else known)
    assert not compiled.errors
    return [finding.render().splitlines()[0].split(": ", 1)[1] for finding in compiled.findings]


NEVER = 'warning: "kind" is never "exitt": its schema has no such symbol'


@pytest.mark.parametrize(
    "where",
    [
        "a.kind = 'exitt'",
        "'exitt' = a.kind",
        "a.kind != 'exitt'",
        "a.kind IN ('exit', 'exitt')",
        "a.kind NOT IN ('exitt')",
        "(b.id > 3 OR NOT (b.kind = 'exitt'))",
        "[kind = 'exitt']",
    ],
)
def test_a_text_that_is_no_symbol_is_told(where):
    assert told(where) == [NEVER]


def test_the_symbol_that_looks_like_it_is_named_at_its_place():
    compiled = compile_texts([("q.yaml", QUERY.format(where="a.kind = 'exitt'", second="Lift"))], streams())
    (finding,) = compiled.findings
    assert finding.location is not None
    assert (finding.location.line, finding.location.source[finding.location.column - 1 :][:7]) == (3, "'exitt'")
    assert finding.hint == 'did you mean "exit"? kind has entry, exit'


@pytest.mark.parametrize(
    "where", ["a.kind = 'exit'", "a.kind IN ('exit', 'entry')", "a.note = 'exitt'", "a.kind = b.kind", "a.kind LIKE 'ex%'", "a.id = 3"]
)
def test_symbols_and_texts_that_may_be_anything_are_fine(where):
    assert told(where) == []


def test_an_enum_that_may_be_null_has_its_symbols_and_one_in_a_record_too():
    assert told("a.kind = 'exitt'", streams(["null", KIND])) == [NEVER]
    assert told("b.gate.side = 'left'") == ['warning: "gate.side" is never "left": its schema has no such symbol']


def test_an_item_of_several_types_may_have_the_symbols_of_each():
    other = {**KIND, "symbols": ["up", "exitt"]}
    assert told("b.kind = 'exitt'", streams(other=other), "ANY(Door, Lift)") == []
    assert told("b.kind = 'exittt'", streams(other=other), "ANY(Door, Lift)") == [NEVER.replace("exitt", "exittt")]
    assert told("b.kind = 'exitt'", streams(other="string"), "ANY(Door, Lift)") == []
    assert told("a.kind = 'exitt'", streams(other="string")) == [NEVER]


def test_a_stream_that_may_have_any_text_is_asked_too():
    known = streams()
    both = Streams({**known.known, "more": stream_records(StreamDefinition("more"), [parse_schema(record("Door", "string"))]).schema})
    text = QUERY.format(where="a.kind = 'exitt'", second="Door").replace("name: q", "name: q\nfrom: [doors, more]")
    assert compile_texts([("q.yaml", text)], both).findings == ()


def test_without_schemas_nothing_is_told():
    assert told("a.kind = 'exitt'", UNKNOWN) == []


def test_renamed_attributes_keep_their_symbols():
    definition = StreamDefinition("doors", renames={"kind": "way"})
    schema = stream_records(definition, [parse_schema(record("Door", KIND)), parse_schema(record("Lift", KIND))]).schema
    assert told("a.way = 'exitt'", Streams({"doors": schema})) == [NEVER.replace("kind", "way")]


def test_untils_windows_and_temporal_queries_are_asked_too():
    until = "name: q\nevent: SEQ(Door a, Lift b+ UNTIL (b.kind = 'exitt'), Door c)\nwhere: '[id]'\nwithin: 5 m\nstrategy: skip-till-next-match\n"
    opened = "name: q\nevent: SEQ(Door a, Lift b)\nwhere: '[id]'\nwindow: {size: 5 m, open: \"Door d WHERE d.kind = 'exitt'\"}\n"
    temporal = "name: q\nselect: [note]\nkey: [id]\nwhere: {where}\ncoalesce: {{max_gap: 30 s, duration: 2 m}}\nvalid: '>= 5 m'\nwindow: {{range: 1 h, slide: 1 m}}\n"
    nested = compile_texts([("q.yaml", temporal.format(where="gate.side = 'left'"))], streams())
    assert [one.message for one in nested.findings] == ['"gate.side" is never "left": its schema has no such symbol']
    for text in (until, opened, temporal.format(where="kind = 'exitt'")):
        compiled = compile_texts([("q.yaml", text)], streams())
        assert [one.message for one in compiled.findings] == [NEVER.removeprefix("warning: ")], text


def test_validation_tells_of_it(cep):
    Path("door.avsc").write_text(json.dumps(record("Door", KIND)))
    Path("s.yaml").write_text("streams: {doors: {schemas: [door.avsc], time: time}}")
    Path("q.yaml").write_text(QUERY.format(where="a.kind = 'exitt'", second="Door"))
    code, _, err = cep("validate", "q.yaml", "--settings", "s.yaml")
    assert code == 0
    assert NEVER in err
    assert 'hint: did you mean "exit"? kind has entry, exit' in err
