import pytest

from app.events.avro import SchemaError, StreamDefinition, parse_schema, parse_writer_schema, stream_records
from app.events.types import Kind


def attributes(*fields, **definition):
    schema = parse_schema({"type": "record", "name": "n.E", "fields": [{"name": n, "type": t} for n, t in fields]})
    records = stream_records(StreamDefinition("s", time_attribute=None, **definition), [schema])
    return {a.name: (a.kind, a.nullable) for a in records.schema.types[0].attributes}


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("boolean", Kind.BOOLEAN),
        ("int", Kind.INTEGER),
        ("long", Kind.INTEGER),
        ("float", Kind.FLOAT),
        ("double", Kind.FLOAT),
        ("string", Kind.STRING),
        ("bytes", Kind.BYTES),
        ({"type": "enum", "name": "C", "symbols": ["A"]}, Kind.STRING),
        ({"type": "fixed", "name": "F", "size": 4}, Kind.BYTES),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, Kind.STRING),
        ({"type": "string", "logicalType": "uuid"}, Kind.STRING),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, Kind.FLOAT),
        ({"type": "int", "logicalType": "date"}, Kind.TIME),
        ({"type": "int", "logicalType": "time-millis"}, Kind.INTEGER),
        ({"type": "long", "logicalType": "timestamp-millis"}, Kind.TIME),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, Kind.TIME),
        ({"type": "string", "avro.java.string": "String"}, Kind.STRING),
        ({"type": {"type": "string"}}, Kind.STRING),
    ],
)
def test_every_avro_type_has_its_kind(type_, kind):
    assert attributes(("a", type_)) == {"a": (kind, False)}
    assert attributes(("a", ["null", type_])) == {"a": (kind, True)}


def test_unions_of_numbers_are_numbers_and_other_mixtures_are_no_attributes():
    found = attributes(
        ("a", ["null", "int", "double"]), ("b", ["int", "long"]), ("c", ["int", "string"]), ("d", {"type": "array", "items": "int"})
    )
    assert found == {"a": (Kind.FLOAT, True), "b": (Kind.INTEGER, False)}


def test_nested_records_have_dotted_names_and_what_is_inside_a_nullable_one_is_nullable():
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}, {"name": "again", "type": ["null", "I"]}]}
    assert attributes(("i", ["null", inner]), ("j", "n.I")) == {"i.x": (Kind.INTEGER, True), "j.x": (Kind.INTEGER, False)}


def test_time_and_type_are_hidden_unless_renamed():
    fields = (("time", "int"), ("type", "string"), ("x", "int"))
    assert list(attributes(*fields)) == ["x"]
    assert list(attributes(*fields, renames={"type": "kind", "E.time": "shown", "x": "y"})) == ["shown", "kind", "y"]


def test_what_is_no_schema_is_refused():
    for text in ("{", '"strin"', '{"type": "record"}', "[1]", '{"type": "record", "name": "E", "fields": [{"name": "a", "type": "B"}]}'):
        with pytest.raises(SchemaError, match="no Avro schema"):
            parse_schema(text)


WATTS = {"type": "double", "unit": "W"}


def with_default(type_, default):
    return {"type": "record", "name": "E", "fields": [{"name": "x", "type": type_, "default": default}]}


@pytest.mark.parametrize(("type_", "default"), [("string", None), ("int", "1"), (WATTS, "much"), (WATTS, True), (["null", "int"], "")])
def test_a_wrong_default_is_an_error_of_a_reader_and_none_of_a_writer(type_, default):
    wrong = with_default(type_, default)
    with pytest.raises(SchemaError, match="no Avro schema: Default value"):
        parse_schema(wrong)
    assert parse_writer_schema(wrong).records()[0]["name"] == "E"
    whole = {"type": "record", "name": "F", "fields": [{"name": "e", "type": "E"}]}
    assert parse_writer_schema(whole, [wrong]).records()[0]["name"] == "F"


@pytest.mark.parametrize("type_", [WATTS, {"type": "float", "unit": "W"}, {"type": WATTS}, "double"])
def test_a_whole_number_is_a_default_of_a_float(type_):
    (entry,) = parse_schema(with_default(type_, 0)).records()[0]["fields"]
    assert entry["default"] == 0


@pytest.mark.parametrize("scale", [None, True, "2", 2_000_000_000])
def test_a_decimal_with_an_impossible_scale_is_bytes(scale):
    assert attributes(("a", {"type": "bytes", "logicalType": "decimal"})) == {"a": (Kind.FLOAT, False)}
    try:
        found = attributes(("a", {"type": "bytes", "logicalType": "decimal", "scale": scale}))
    except SchemaError:
        assert scale == "2", "fastavro says so itself"
    else:
        assert found == {"a": (Kind.BYTES, False)}


def test_named_types_can_come_from_elsewhere():
    schema = parse_schema(
        '{"type": "record", "name": "E", "fields": [{"name": "p", "type": "P"}]}', ['{"type": "enum", "name": "P", "symbols": ["A"]}']
    )
    assert stream_records(StreamDefinition("s", time_attribute=None), [schema]).schema.types[0].attributes[0].name == "p"
