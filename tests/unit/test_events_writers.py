"""Writers' schemas as registries have them: odd ones, many of them, and what aliases and unreadable branches make of them."""

import io

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from app.events.avro import StreamDefinition, parse_schema, parse_writer_schema, stream_records
from app.events.decoder import FEW_SCHEMAS, BatchDecoder
from app.events.failures import Failure, Reason
from app.events.program import compile_program, layout_of
from app.events.registry import FixedSchemas
from app.events.wire import prefix

TIME = {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
NULLABLE_INT = {"name": "n", "type": ["null", "int"], "default": None}


def record(*fields, name="Event"):
    return {"type": "record", "name": name, "fields": [TIME, *fields]}


def decimal(**more):
    return {"type": "bytes", "logicalType": "decimal", **more}


def encoded(row, *fields):
    """Avro bytes of a row whose fields have the given plain types."""
    buffer = io.BytesIO()
    plain = {"type": "record", "name": "Plain", "fields": [{"name": "time", "type": "long"}, *fields]}
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(plain), row)
    return buffer.getvalue()


def decode(decoder, values):
    count = len(values)
    return decoder.decode(pa.array(values, pa.binary()), np.zeros(count, np.int64), np.arange(count))


def problems(decoded):
    return [decoded.failures.text(k) for k in range(len(decoded.failures))]


@pytest.mark.parametrize("field", [{"type": "string", "default": None}, {"type": {"type": "double", "unit": "kW"}, "default": "none"}])
def test_records_are_read_whatever_the_defaults_of_their_schema(field):
    writer = parse_writer_schema(record({"name": "note", **field}, {"name": "n", "type": "int"}))
    decoder = BatchDecoder(StreamDefinition("s"), [parse_schema(record(NULLABLE_INT))], FixedSchemas({1: writer}))
    row = {"time": 1, "note": "x" if field["type"] == "string" else 1.5, "n": 5}
    value = prefix(1) + encoded(row, {"name": "note", "type": writer.records()[0]["fields"][1]["type"]}, {"name": "n", "type": "int"})
    for general in (False, True):
        decoded = decode(decoder, [value])
        assert not problems(decoded)
        assert decoded.batch.columns["n"].values.tolist() == [5]
        decoder._compiled[1].program = None if general else decoder._compiled[1].program


def test_a_whole_number_is_the_default_of_a_float_that_the_writer_does_not_have():
    reader = parse_schema(record({"name": "load", "type": {"type": "double", "unit": "kW"}, "default": 2}))
    decoder = BatchDecoder(StreamDefinition("s"), [reader], FixedSchemas({1: parse_schema(record())}))
    value = prefix(1) + encoded({"time": 1})
    first = decode(decoder, [value]).batch.columns["load"].values.tolist()
    decoder._compiled[1].program = None
    assert [first, decode(decoder, [value]).batch.columns["load"].values.tolist()] == [[2.0], [2.0]]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("scale", [None, 2_000_000_000])
def test_a_writers_impossible_scale_leaves_the_readers(scale):
    writer = parse_schema(record({"name": "x", "type": decimal(scale=scale)}))
    reader = parse_schema(record({"name": "x", "type": decimal(precision=9, scale=1)}))
    decoder = BatchDecoder(StreamDefinition("s"), [reader], FixedSchemas({1: writer}))
    value = prefix(1) + encoded({"time": 1, "x": b"\x7b"}, {"name": "x", "type": "bytes"})
    first = decode(decoder, [value])
    decoder._compiled[1].program = None
    second = decode(decoder, [value])
    assert [one.batch.columns["x"].values.tolist() for one in (first, second)] == [[12.3], [12.3]], problems(first)


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "fixed", "name": "F", "size": "4"},
        {"type": "fixed", "name": "F", "size": 10**30},
        {"type": "record", "name": "R", "fields": [{"name": "y", "type": "int", "aliases": [{}]}]},
    ],
)
def test_an_odd_schema_is_the_problem_of_its_records_alone(odd):
    writer = parse_writer_schema(record({"name": "x", "type": odd}))
    good = parse_schema(record(NULLABLE_INT))
    decoder = BatchDecoder(StreamDefinition("s"), [good], FixedSchemas({1: writer, 2: good}))
    values = [prefix(1) + b"\x02\x02abcd", prefix(2) + encoded({"time": 2, "n": 3}, NULLABLE_INT)]
    decoded = decode(decoder, values)
    assert 2 in decoded.batch.time.tolist()
    assert set(decoded.failures.counts()) <= {Reason.SCHEMA, Reason.UNDECODABLE}


def test_a_store_that_is_away_is_no_problem_of_a_schema():
    class Away(FixedSchemas):
        def schema(self, key):
            raise OSError("away")

    decoder = BatchDecoder(StreamDefinition("s"), [parse_schema(record())], Away({}))
    with pytest.raises(OSError, match="away"):
        decode(decoder, [prefix(1) + b"\x02"])
    assert not decoder._compiled


@pytest.mark.parametrize("distinct", [2, FEW_SCHEMAS, FEW_SCHEMAS + 1, 500])
def test_records_of_many_schemas_keep_their_order(distinct):
    schema = parse_schema(record(NULLABLE_INT))
    decoder = BatchDecoder(StreamDefinition("s"), [schema], FixedSchemas(dict.fromkeys(range(0, distinct, 2), schema)))
    ids = np.random.default_rng(distinct).integers(0, distinct, 2000).tolist()
    values = [prefix(number) + encoded({"time": row, "n": number}, NULLABLE_INT) for row, number in enumerate(ids)]
    values[::7] = [b"?"] * len(values[::7])
    decoded = decode(decoder, values)
    good = [row for row, number in enumerate(ids) if row % 7 and number % 2 == 0]
    assert decoded.rows.tolist() == decoded.batch.time.tolist() == good
    assert decoded.batch.columns["n"].values.tolist() == [ids[row] for row in good]
    unknown = [int(row) for row, code in zip(decoded.failures.rows, decoded.failures.codes, strict=True) if code == Failure.UNKNOWN_SCHEMA]
    assert unknown == [row for row, number in enumerate(ids) if row % 7 and number % 2]


INNER = {"type": "record", "name": "Inner", "fields": [{"name": "was", "type": MICROS}, {"name": "n", "type": "int"}]}
INNER_NOW = {"type": "record", "name": "Inner", "fields": [{"name": "at", "type": TIME["type"], "aliases": ["was"]}]}
OTHER = {"type": "record", "name": "Other", "fields": [{"name": "was", "type": TIME["type"]}]}


@pytest.mark.parametrize("general", [False, True], ids=["kernel", "fastavro"])
@pytest.mark.parametrize(
    ("written", "read", "plain", "raw", "found"),
    [
        pytest.param(decimal(precision=38, scale=2), decimal(precision=38, scale=4), "bytes", b"\x04\xd2", 12.34, id="decimal"),
        pytest.param(MICROS, TIME["type"], "long", 5_000_000, 5000, id="time"),
        pytest.param(["null", MICROS], ["null", TIME["type"]], ["null", "long"], 5_000_000, 5000, id="nullable"),
    ],
)
def test_a_field_found_by_an_alias_has_the_writers_unit(general, written, read, plain, raw, found):
    writer = parse_schema(record({"name": "was", "type": written}))
    reader = parse_schema(record({"name": "x", "type": read, "aliases": ["before", "was"]}))
    decoder = BatchDecoder(StreamDefinition("s"), [reader], FixedSchemas({1: writer}))
    value = prefix(1) + encoded({"time": 1, "was": raw}, {"name": "was", "type": plain})
    decode(decoder, [value])
    if general:
        decoder._compiled[1].program = None
    decoded = decode(decoder, [value])
    assert not problems(decoded)
    assert decoded.batch.columns["x"].values.tolist() == [found]


@pytest.mark.parametrize("general", [False, True], ids=["kernel", "fastavro"])
@pytest.mark.parametrize("branches", [[INNER], ["null", INNER], ["null", OTHER, INNER]], ids=["record", "nullable", "one of two"])
def test_aliases_are_followed_step_by_step(general, branches):
    writer = parse_schema(record({"name": "old", "type": branches}))
    reader = parse_schema(record({"name": "new", "type": ["null", INNER_NOW], "aliases": ["old"]}))
    decoder = BatchDecoder(StreamDefinition("s"), [reader], FixedSchemas({1: writer}))
    value = prefix(1) + encoded({"time": 1}) + bytes([2 * (len(branches) - 1)]) + b"\x80\xad\xe2\x04" + b"\x02"  # 5,000,000 and 1
    decode(decoder, [value])
    if general:
        decoder._compiled[1].program = None
    decoded = decode(decoder, [value])
    assert not problems(decoded)
    assert decoded.batch.columns["new.at"].values.tolist() == [5000]


def test_an_element_found_by_an_alias_has_the_writers_unit():
    times = {"type": "map", "values": MICROS}
    writer = parse_schema(record({"name": "was", "type": times}))
    reader = parse_schema(record({"name": "at", "type": {"type": "map", "values": TIME["type"]}, "aliases": ["was"]}))
    decoder = BatchDecoder(StreamDefinition("s", elements=("at['k']",)), [reader], FixedSchemas({1: writer}))
    decoded = decode(
        decoder, [prefix(1) + encoded({"time": 1, "was": {"k": 5_000_000}}, {"name": "was", "type": times | {"values": "long"}})]
    )
    assert decoded.batch.columns["at['k']"].values.tolist() == [5000]


TAG = {"type": "record", "name": "Tag", "fields": [{"name": "x", "type": "int"}]}
TAG_NOW = {"type": "record", "name": "Tag", "fields": [{"name": "x", "type": "int"}, {"name": "needed", "type": "int"}]}


def compiled(writer, reader):
    records = stream_records(StreamDefinition("s"), [parse_schema(reader)])
    return compile_program(parse_schema(writer), records, layout_of(records))


def test_an_unreadable_branch_leaves_the_rest_of_the_schema_to_the_kernel():
    writer = record({"name": "tag", "type": ["null", TAG]}, {"name": "again", "type": "Tag"}, {"name": "n", "type": "int"})
    reader = record({"name": "tag", "type": ["null", TAG_NOW]}, NULLABLE_INT)
    assert len(compiled(writer, reader).code)
    decoder = BatchDecoder(StreamDefinition("s"), [parse_schema(reader)], FixedSchemas({1: parse_schema(writer)}))
    decoded = decode(decoder, [prefix(1) + b"\x02\x00\x04\x06", prefix(1) + b"\x04\x02\x02\x04\x06"])
    assert decoded.batch.time.tolist() == [1]
    assert decoded.batch.columns["n"].values.tolist() == [3]
    assert decoded.failures.codes.tolist() == [Failure.BRANCH_UNREADABLE]


def test_many_unreadable_branches_are_no_deep_nesting():
    def lists(items):
        return [{"name": f"l{k}", "type": ["null", {"type": "array", "items": items}]} for k in range(10)]

    assert len(compiled(record(*lists("string")), record(*lists("int"))).code)
