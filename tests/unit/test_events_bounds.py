"""Writers' schemas that make endless work of few bytes: refused, or read by a reader that gives up."""

import faulthandler

import numpy as np
import pyarrow as pa
import pytest

from app.events.avro import SchemaError, StreamDefinition, parse_schema
from app.events.bounds import check_bounds, is_blind, is_recursive
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


@pytest.fixture
def watched():
    """Ends the process after a minute: where fastavro's compiled code hangs, no signal reaches it."""
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


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


def doubling(times, leaf):
    """A record with twice the one before in it, and so on: the leaf 2**times times."""
    found = {"type": "record", "name": "R0", "fields": [{"name": "v", "type": leaf}]}
    for k in range(1, times + 1):
        found = {"type": "record", "name": f"R{k}", "fields": [{"name": "a", "type": found}, {"name": "b", "type": f"R{k - 1}"}]}
    return found


@pytest.mark.parametrize("leaf", ["null", EMPTY])
def test_a_record_of_very_many_values_without_bytes_is_refused(leaf):
    check_bounds(record(doubling(7, leaf)))
    with pytest.raises(SchemaError, match="record R9 has 1,534 values that take no bytes" if leaf == "null" else "take no bytes"):
        check_bounds(record(doubling(30, leaf)))


FLAT = {"type": "record", "name": "Flat", "fields": [{"name": "x", "type": "float"}, {"name": "y", "type": "boolean"}]}
NAMED = {"type": "record", "name": "Named", "fields": [{"name": "x", "type": "float"}, {"name": "name", "type": "string"}]}


@pytest.mark.parametrize(
    ("field", "blind"),
    [
        ({"type": "array", "items": "double"}, True),
        ({"type": "array", "items": FLAT}, True),
        (doubling(14, "double"), True),
        ({"type": "map", "values": "double"}, False),
        ({"type": "array", "items": NAMED}, False),
        ({"type": "array", "items": ["null", "double"]}, False),
        (doubling(8, "double"), False),
    ],
)
def test_what_is_passed_over_without_a_look_is_known(field, blind):
    assert is_blind(record(field)) == blind
    assert not is_blind(record("double", "boolean"))


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("leaf", ["int", "double", "boolean", {"type": "fixed", "name": "Four", "size": 4}])
def test_thirty_records_with_two_of_the_one_before_are_read_as_far_as_their_bytes_go(leaf):
    writers = FixedSchemas({30: record(doubling(30, leaf)), 3: record(doubling(3, leaf))})
    decoder = BatchDecoder(StreamDefinition("readings"), [record()], writers)
    size = 4 if isinstance(leaf, dict) else 8 if leaf == "double" else 1
    values = [prefix(30) + b"\x02" + bytes(100), prefix(3) + b"\x04" + bytes(8 * size), prefix(30)]
    decoded = decoder.decode(pa.array(values, pa.binary()), np.zeros(3, dtype=np.int64), np.arange(3))
    assert decoded.batch.time.tolist() == [2]
    assert decoded.failures.counts() == {Reason.UNDECODABLE: 2}


def test_a_record_that_is_too_long_for_a_program_is_read_all_the_same():
    decoder = BatchDecoder(StreamDefinition("readings"), [record()], FixedSchemas({1: record(doubling(17, "int"))}))
    decoded = decoder.decode(pa.array([prefix(1) + b"\x02" + bytes(1 << 17)]), np.zeros(1, dtype=np.int64), np.arange(1))
    assert decoded.batch.time.tolist() == [1]
    assert decoder._compiled[1].program is None


@pytest.mark.usefixtures("watched")
def test_an_array_that_announces_more_than_there_is_ends_with_the_record():
    words, numbers = {"type": "array", "items": "string"}, {"type": "array", "items": "double"}
    decoder = BatchDecoder(StreamDefinition("readings", elements=("f0[0]",)), [record(words)], FixedSchemas({1: record(words, numbers)}))
    good = b"\x02\x02\x02a\x00"
    many = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"  # 2**62 - 1
    values = [prefix(1) + good + end for end in (b"\x00", many, b"\x02" + bytes(8) + b"\x00")]
    decoded = decoder.decode(pa.array(values), np.zeros(3, dtype=np.int64), np.arange(3))
    assert decoded.batch.time.tolist() == [1, 1]
    assert decoded.failures.rows.tolist() == [1]


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
