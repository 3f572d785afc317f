import io
import pickle
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from app.errors import ConfigurationError, DependencyError
from app.events.avro import StreamDefinition, parse_schema
from app.events.batch import ABSENT, NULL
from app.events.decoder import BatchDecoder
from app.events.failures import TEXTS, Failure, Reason
from app.events.registry import FixedSchemas
from app.events.types import Kind
from app.events.wire import guid_prefix, prefix

TIME = {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}}
GUID = "0190a7c2-0000-4000-8000-000000000001"


def record(name, *fields):
    return parse_schema(
        {"type": "record", "name": name, "fields": [TIME, *({"name": n, "type": t, **dict(more)} for n, t, *more in fields)]}
    )


def written(schema, row, head=b""):
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema.root, row)
    return head + buffer.getvalue()


def decode(decoder, values, headers=None):
    count = len(values)
    return decoder.decode(
        values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values, pa.binary()),
        np.full(count, 3, np.int64),
        np.arange(count) + 100,
        headers,
    )


def texts(column):
    return [column.dictionary.entry(code) for code in column.values.tolist()]


SHELF = record("Shelf", ("tag", "string"), ("shelf", "int"))
EXIT = record("Exit", ("tag", "string"), ("door", ["null", "int"]), ("weight", "double"))
BOTH = FixedSchemas({1: SHELF, 2: EXIT})


def test_types_of_several_schemas_come_back_in_input_order_and_lacking_attributes_are_absent():
    decoder = BatchDecoder(StreamDefinition("retail"), [SHELF, EXIT], BOTH)
    decoded = decode(
        decoder,
        [
            written(EXIT, {"time": 5, "tag": "t1", "door": None, "weight": 1.5}, prefix(2)),
            written(SHELF, {"time": 6, "tag": "t2", "shelf": 7}, prefix(1)),
            written(EXIT, {"time": 7, "tag": "t2", "door": 4, "weight": 2.5}, prefix(2)),
        ],
    )
    batch = decoded.batch
    assert texts(batch.type) == [b"Exit", b"Shelf", b"Exit"]
    assert batch.time.tolist() == [5, 6, 7]
    assert batch.source.tolist() == [3, 3, 3]
    assert batch.offset.tolist() == [100, 101, 102]
    assert list(batch.columns) == ["tag", "shelf", "door", "weight"]
    assert batch.columns["tag"].state is None
    assert batch.columns["shelf"].state.tolist() == [ABSENT, 0, ABSENT]
    assert batch.columns["door"].state.tolist() == [NULL, ABSENT, 0]
    assert batch.columns["weight"].values.dtype == np.float64
    assert batch.columns["tag"].values.dtype == np.int32
    assert decoded.rows.tolist() == [0, 1, 2]


def test_a_union_of_records_at_the_top_is_several_types():
    union = parse_schema([SHELF.root, EXIT.root])
    decoder = BatchDecoder(StreamDefinition("retail"), [SHELF, EXIT], FixedSchemas({9: union}))
    row = {"time": 6, "tag": "t2", "shelf": 7}
    other = {"time": 7, "tag": "t2", "door": 4, "weight": 2.5}
    decoded = decode(decoder, [prefix(9) + b"\0" + written(SHELF, row), prefix(9) + b"\2" + written(EXIT, other), prefix(9) + b"\4"])
    assert texts(decoded.batch.type) == [b"Shelf", b"Exit"]
    assert decoded.batch.columns["shelf"].state.tolist() == [0, ABSENT]
    assert decoded.failures.codes.tolist() == [Failure.BAD_UNION_BRANCH]
    decoder._compiled[9].program = None
    assert texts(decode(decoder, [prefix(9) + b"\2" + written(EXIT, other)]).batch.type) == [b"Exit"]


ODD = record("Odd", ("flag", "boolean"), ("n", "int"), ("e", {"type": "enum", "name": "E", "symbols": ["A"]}), ("s", "string"))
SOUND = written(ODD, {"time": 1, "flag": True, "n": 1, "e": "A", "s": "x"})


@pytest.mark.parametrize(
    ("value", "failure"),
    [
        (None, Failure.NULL_VALUE),
        (b"", Failure.NO_MAGIC_BYTE),
        (b"{}", Failure.NO_MAGIC_BYTE),
        (b"\0\0\0", Failure.NO_SCHEMA_ID),
        (b"\1" + b"x" * 15, Failure.NO_SCHEMA_ID),
        (prefix(99) + SOUND, Failure.UNKNOWN_SCHEMA),
        (prefix(1), Failure.TRUNCATED),
        (prefix(1) + SOUND[:-1], Failure.TRUNCATED),
        (prefix(1) + SOUND + b"\0", Failure.TRAILING_BYTES),
        (prefix(1) + b"\xff" * 9 + b"\2" + SOUND[1:], Failure.VARINT_TOO_LONG),
        (prefix(1) + b"\2\1", Failure.TRUNCATED),
        (prefix(1) + b"\2\3\2\0\2x", Failure.BAD_BOOLEAN),
        (prefix(1) + b"\2\1\xfe\xff\xff\xff\x7f\0\2x", Failure.OUT_OF_RANGE),
        (prefix(1) + b"\2\1\2\2\2x", Failure.BAD_ENUM),
        (prefix(1) + b"\2\1\2\0\1x", Failure.NEGATIVE_LENGTH),
        (prefix(1) + b"\2\1\2\0\2\xff", Failure.INVALID_UTF8),
        (prefix(1) + b"\2\1\2\0\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1x", Failure.TRUNCATED),
        (prefix(3) + SOUND, Failure.SCHEMA_UNREADABLE),
        (prefix(4) + SOUND, Failure.SCHEMA_UNREADABLE),
    ],
)
def test_a_bad_record_fails_with_its_reason_between_two_good_ones(value, failure):
    source = FixedSchemas({1: ODD, 3: record("Other"), 4: record("Odd")})
    decoder = BatchDecoder(StreamDefinition("s"), [ODD], source)
    good = prefix(1) + SOUND
    decoded = decode(decoder, [good, value, good])
    assert decoded.failures.rows.tolist() == [1]
    assert decoded.failures.codes.tolist() == [failure]
    assert decoded.failures.reason(0) in Reason
    assert decoded.failures.text(0)
    assert decoded.rows.tolist() == [0, 2]
    assert texts(decoded.batch.columns["s"]) == [b"x", b"x"]


def test_every_failure_has_a_reason_and_a_text():
    assert set(TEXTS) == set(Failure) - {Failure.NONE, Failure.GENERAL_PATH}


def test_a_schema_that_does_not_fit_says_what_is_missing():
    decoder = BatchDecoder(StreamDefinition("s"), [ODD], FixedSchemas({4: record("Odd", ("flag", "boolean"))}))
    decoded = decode(decoder, [prefix(4) + b"\2\1"])
    assert decoded.failures.text(0) == 'schema 4: field "n" has no default and the writer does not have it'
    assert decoded.failures.counts() == {Reason.SCHEMA: 1}


def test_a_null_time_is_a_failure_and_so_is_a_null_type():
    nullable = {**TIME, "type": ["null", TIME["type"]]}
    schema = parse_schema({"type": "record", "name": "Q", "fields": [nullable, {"name": "symbol", "type": ["null", "string"]}]})
    decoder = BatchDecoder(StreamDefinition("s", type_attribute="symbol"), [schema], FixedSchemas({1: schema}))
    rows = [{"time": None, "symbol": "A"}, {"time": 4, "symbol": None}, {"time": 5, "symbol": "B"}]
    decoded = decode(decoder, [written(schema, row, prefix(1)) for row in rows])
    assert decoded.failures.codes.tolist() == [Failure.NO_TIME, Failure.NO_TYPE]
    assert texts(decoded.batch.type) == [b"B"]


def test_an_attribute_can_be_the_type_and_the_time_can_have_another_name_and_unit():
    schema = parse_schema(
        {
            "type": "record",
            "name": "Q",
            "fields": [
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
                {"name": "symbol", "type": "string"},
                {"name": "type", "type": "int"},
            ],
        }
    )
    definition = StreamDefinition("s", type_attribute="symbol", time_attribute="at", renames={"type": "kind"})
    decoder = BatchDecoder(definition, [schema], FixedSchemas({1: schema}), wanted=["kind"])
    decoded = decode(decoder, [prefix(1) + b"\xff\x1f" + b"\6IBM\2"])
    assert decoded.batch.time.tolist() == [-3]
    assert texts(decoded.batch.type) == [b"IBM"]
    assert {name: column.values.tolist() for name, column in decoded.batch.columns.items()} == {"kind": [1]}
    assert [a.name for a in decoder.schema.types[0].attributes] == ["symbol", "kind"]
    assert decoder.schema.type_attribute == "symbol"


def test_a_field_named_type_can_be_the_type():
    schema = record("Q", ("type", "string"), ("x", "int"))
    decoder = BatchDecoder(StreamDefinition("s", type_attribute="type"), [schema], FixedSchemas({1: schema}))
    value = written(schema, {"time": 1, "type": "IBM", "x": 1}, prefix(1))
    batch = decode(decoder, [value]).batch
    assert texts(batch.type) == [b"IBM"]
    assert list(batch.columns) == ["x"]
    decoder._compiled[1].program = None
    assert texts(decode(decoder, [value]).batch.type) == [b"IBM"]


def test_the_time_can_be_the_records_own_timestamp():
    schema = parse_schema({"type": "record", "name": "Q", "fields": [{"name": "x", "type": "int"}]})
    decoder = BatchDecoder(StreamDefinition("s", time_attribute=None), [schema], FixedSchemas({1: schema}))
    values = pa.array([prefix(1) + b"\2", b"?", prefix(1) + b"\4"])
    decoded = decoder.decode(values, np.zeros(3, np.int64), np.arange(3), None, np.array([7, 8, 9]))
    assert decoded.batch.time.tolist() == [7, 9]


def test_elements_of_arrays_and_maps_and_recursive_types_take_the_general_path():
    node = {"type": "record", "name": "Node", "fields": [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Node"]}]}
    schema = record("E", ("tags", {"type": "array", "items": "string"}), ("labels", {"type": "map", "values": "int"}), ("node", node))
    definition = StreamDefinition("s", elements=("tags[1]", "labels['k']", "nothing[0]"))
    decoder = BatchDecoder(definition, [schema], FixedSchemas({1: schema}))
    rows = [
        {"time": 1, "tags": ["a", "b"], "labels": {"k": 5}, "node": {"n": 1, "next": {"n": 2, "next": None}}},
        {"time": 2, "tags": ["a"], "labels": {}, "node": {"n": 3, "next": None}},
    ]
    batch = decode(decoder, [written(schema, row, prefix(1)) for row in rows]).batch
    assert list(batch.columns) == ["node.n", "tags[1]", "labels['k']"]
    assert batch.columns["tags[1]"].state.tolist() == [0, NULL]
    assert texts(batch.columns["tags[1]"])[0] == b"b"
    assert batch.columns["labels['k']"].values.tolist()[0] == 5
    assert batch.columns["node.n"].values.tolist() == [1, 3]


def test_long_decimals_and_fixed_uuids_agree_with_short_ones():
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}
    fixed = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    schema = record("E", ("price", decimal))
    decoder = BatchDecoder(StreamDefinition("s"), [schema], FixedSchemas({1: schema}))
    values = [12345, -1, 0, 2**53 + 1, -(2**90) - 1]
    raw = [prefix(1) + b"\2" + bytes([2 * size]) + value.to_bytes(size, "big", signed=True) for value in values for size in (12,)]
    raw.append(prefix(1) + b"\2\4" + (12345).to_bytes(2, "big"))
    assert decode(decoder, raw).batch.columns["price"].values.tolist() == [v / 100 for v in [*values, 12345]]
    schema = record("E", ("id", fixed))
    decoder = BatchDecoder(StreamDefinition("s"), [schema], FixedSchemas({1: schema}))
    assert texts(decode(decoder, [prefix(1) + b"\2" + UUID(GUID).bytes]).batch.columns["id"]) == [GUID.encode()]


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def test_a_guid_in_the_header_or_before_the_value_names_the_schema():
    decoder = BatchDecoder(StreamDefinition("s"), [SHELF], FixedSchemas({GUID: SHELF, 1: SHELF}))
    payload = written(SHELF, {"time": 6, "tag": "t2", "shelf": 7})
    header = {"key": "__value_schema_id", "value": guid_prefix(GUID)}
    values = [payload, prefix(1) + payload, guid_prefix(GUID) + payload, payload, None, payload, payload]
    headers = pa.array(
        [
            [{"key": "traceparent", "value": b"x"}, header],
            None,
            [],
            [{"key": "__value_schema_id", "value": prefix(1)}],
            [header],
            [{"key": "__value_schema_id", "value": b"?"}],
            [{"key": "__value_schema_id", "value": guid_prefix(GUID.replace("1", "2"))}],
        ],
        HEADERS,
    )
    decoded = decode(decoder, values, headers)
    assert decoded.rows.tolist() == [0, 1, 2, 3]
    assert decoded.failures.codes.tolist() == [Failure.NULL_VALUE, Failure.NO_SCHEMA_ID, Failure.UNKNOWN_SCHEMA]


def test_slices_chunks_and_large_arrays_are_read_as_they_are():
    decoder = BatchDecoder(StreamDefinition("s"), [SHELF], BOTH)
    values = [written(SHELF, {"time": k, "tag": f"t{k}", "shelf": k}, prefix(1)) for k in range(6)]
    whole = pa.array(values, pa.binary())
    for array in (
        whole.slice(2, 3),
        pa.chunked_array([whole.slice(2, 1), whole.slice(3, 2)]),
        pa.array(values, pa.large_binary()).slice(2, 3),
    ):
        batch = decode(decoder, array).batch
        assert batch.time.tolist() == [2, 3, 4]
        assert texts(batch.columns["tag"]) == [b"t2", b"t3", b"t4"]


def test_no_records_are_an_empty_batch_with_all_columns():
    decoder = BatchDecoder(StreamDefinition("s"), [SHELF, EXIT], BOTH)
    decoded = decode(decoder, [])
    assert len(decoded.batch) == len(decoded.failures) == 0
    assert list(decoded.batch.columns) == ["tag", "shelf", "door", "weight"]


def test_codes_of_null_cells_can_be_looked_up():
    schema = record("E", ("s", ["null", "string"]))
    decoder = BatchDecoder(StreamDefinition("s"), [schema], FixedSchemas({1: schema}))
    column = decode(decoder, [prefix(1) + b"\2\0"]).batch.columns["s"]
    assert column.values[0] < len(column.dictionary)


def test_a_registry_that_is_down_stops_the_batch_instead_of_losing_it():
    class Down:
        def schema(self, key):
            raise DependencyError("down")

    decoder = BatchDecoder(StreamDefinition("s"), [SHELF], Down())
    with pytest.raises(DependencyError):
        decode(decoder, [prefix(1) + b"\2"])


def test_an_unknown_schema_is_asked_for_again_with_the_next_batch():
    schemas = {}
    source = FixedSchemas(schemas)
    decoder = BatchDecoder(StreamDefinition("s"), [SHELF], source)
    value = written(SHELF, {"time": 6, "tag": "t2", "shelf": 7}, prefix(1))
    assert decode(decoder, [value]).failures.counts() == {Reason.UNKNOWN_SCHEMA_ID: 1}
    source._schemas[1] = SHELF
    assert len(decode(decoder, [value]).batch) == 1


@pytest.mark.parametrize(
    ("definition", "schemas", "message"),
    [
        (StreamDefinition("s"), [parse_schema({"type": "record", "name": "E", "fields": []})], 'record E has no attribute "time"'),
        (StreamDefinition("s", time_attribute="tag"), [SHELF], "has no date, timestamp or number of milliseconds"),
        (StreamDefinition("s", type_attribute="shelf"), [SHELF], 'no text attribute "shelf"'),
        (StreamDefinition("s", type_attribute="tag"), [SHELF, EXIT], "one record only"),
        (StreamDefinition("s", renames={"tag": "shelf"}), [SHELF], 'two attributes "shelf"'),
        (StreamDefinition("s", renames={"Exit.tag": "weight", "weight": "tag"}), [SHELF, EXIT], "rename one of them"),
        (StreamDefinition("s"), [SHELF, SHELF], 'two records are named "Shelf"'),
        (StreamDefinition("s"), [], "none of its schemas is a record"),
    ],
)
def test_schemas_that_make_no_stream_are_refused_with_the_reason(definition, schemas, message):
    with pytest.raises(ConfigurationError, match=message):
        BatchDecoder(definition, schemas, BOTH)


def test_definitions_can_be_pickled():
    definition = StreamDefinition("s", renames={"a": "b"}, elements=("x[0]",))
    assert pickle.loads(pickle.dumps(definition)) == definition


def test_integers_and_floats_of_one_name_share_a_float_column():
    one, two = record("One", ("x", "int")), record("Two", ("x", "double"))
    decoder = BatchDecoder(StreamDefinition("s"), [one, two], FixedSchemas({1: one, 2: two}))
    batch = decode(decoder, [written(one, {"time": 1, "x": 3}, prefix(1)), written(two, {"time": 1, "x": 0.5}, prefix(2))]).batch
    assert batch.columns["x"].kind is Kind.FLOAT
    assert batch.columns["x"].values.tolist() == [3.0, 0.5]


def test_of_a_union_of_two_types_of_one_short_name_the_one_that_was_written_is_read():
    states = [
        {"type": "enum", "name": "door.State", "symbols": ["OPEN", "SHUT"], "default": "SHUT"},
        {"type": "enum", "name": "alarm.State", "symbols": ["ARMED", "OFF"]},
    ]
    created = [
        {"type": "record", "name": f"acme.{of}.Created", "fields": [{"name": f"{of}_id", "type": "string"}]} for of in ("order", "customer")
    ]
    schema = record("Event", ("state", states), ("payload", created))
    decoder = BatchDecoder(StreamDefinition("s"), [schema], FixedSchemas({1: schema}))
    rows = [
        {"time": 1, "state": "OPEN", "payload": ("acme.order.Created", {"order_id": "o"})},
        {"time": 2, "state": "ARMED", "payload": ("acme.customer.Created", {"customer_id": "c"})},
    ]
    decoded = decode(decoder, [written(schema, row, prefix(1)) for row in rows])
    assert decoded.batch.time.tolist() == [1, 2], "none is a dead letter"
    assert texts(decoded.batch.columns["state"]) == [b"OPEN", b"ARMED"]
