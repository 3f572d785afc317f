"""Writers' schemas that make endless work of few bytes: refused, or read by a reader that gives up."""

import numpy as np
import pyarrow as pa
import pytest

from app.events.avro import SchemaError, StreamDefinition, parse_schema
from app.events.bounds import check_bounds, is_recursive
from app.events.decoder import BatchDecoder
from app.events.failures import Reason
from app.events.registry import FixedSchemas
from app.events.wire import prefix

TIME = {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}}


def record(*fields):
    return parse_schema(
        {"type": "record", "name": "Reading", "fields": [TIME, *({"name": f"f{k}", "type": t} for k, t in enumerate(fields))]}
    )


LIST = record(["null", "Reading"])
EMPTY = {"type": "record", "name": "Empty", "fields": []}


@pytest.mark.parametrize("fields", [("Reading",), ({"type": "record", "name": "Inner", "fields": [{"name": "back", "type": "Reading"}]},)])
def test_a_record_that_holds_itself_without_end_is_refused(fields):
    with pytest.raises(SchemaError, match="Reading holds itself without end"):
        check_bounds(record(*fields))


@pytest.mark.parametrize("items", ["null", EMPTY, {"type": "fixed", "name": "None0", "size": 0}])
def test_arrays_of_items_without_bytes_are_refused(items):
    with pytest.raises(SchemaError, match="take no bytes"):
        check_bounds(record(["null", {"type": "array", "items": items}]))


def test_a_fixed_of_negative_size_is_refused():
    with pytest.raises(SchemaError, match="negative size"):
        check_bounds(record({"type": "fixed", "name": "Back", "size": -4}))


@pytest.mark.parametrize("field", ["int", "null", EMPTY, {"type": "map", "values": "null"}, {"type": "array", "items": "string"}])
def test_ordinary_schemas_are_bounded_and_not_recursive(field):
    check_bounds(record(field))
    assert not is_recursive(record(field))


@pytest.mark.parametrize("field", [["null", "Reading"], {"type": "array", "items": "Reading"}, {"type": "map", "values": "Reading"}])
def test_records_that_may_hold_themselves_are_recursive(field):
    check_bounds(record(field))
    assert is_recursive(record(field))


def test_a_record_nested_as_deep_as_its_bytes_allow_is_a_dead_letter_and_does_not_end_the_process():
    decoder = BatchDecoder(StreamDefinition("readings"), [record()], FixedSchemas({1: LIST}))
    good = prefix(1) + b"\x02\x02\x04\x00"
    values = pa.array([good, prefix(1) + b"\x02" * 1_000_000, good], pa.binary())
    decoded = decoder.decode(values, np.zeros(3, dtype=np.int64), np.arange(3))
    assert decoded.batch.time.tolist() == [1, 1]
    assert decoded.failures.counts() == {Reason.UNDECODABLE: 1}
