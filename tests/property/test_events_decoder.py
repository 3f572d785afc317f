"""The kernel against fastavro: random schemas, records, pairs of writer and reader, broken bytes."""

import contextlib
import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.events.avro import SchemaError, StreamDefinition, parse_schema, stream_records
from app.events.batch import ABSENT, NULL
from app.events.decoder import BatchDecoder
from app.events.program import TooGeneralError, compile_program, layout_of
from app.events.registry import FixedSchemas
from app.events.types import Kind
from app.events.wire import prefix

TIME = {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}}
LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
MILLIS = st.integers(0, 4_000_000_000_000)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS = {
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": TEXTS,
    "bytes": st.binary(max_size=20),
}


@st.composite
def types_(draw, names, depth=2):
    """(type, strategy of values)."""
    kinds = [*SCALARS, "enum", "fixed", "date", "timestamp-micros", "timestamp-millis", "uuid", "decimal", "null"]
    kind = draw(st.sampled_from(kinds + (["record", "union", "array", "map"] if depth else [])))
    if kind in SCALARS:
        return kind, SCALARS[kind]
    if kind == "null":
        return "null", st.none()
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from(["A", "BB", "CCCCCCCCCCC", "D_1"]), min_size=1, unique=True))
        return {"type": "enum", "name": draw(names), "symbols": symbols}, st.sampled_from(symbols)
    if kind == "fixed":
        size = draw(st.integers(0, 12))
        return {"type": "fixed", "name": draw(names), "size": size}, st.binary(min_size=size, max_size=size)
    if kind == "date":
        return {"type": "int", "logicalType": "date"}, st.integers(-700_000, 2_000_000)
    if kind.startswith("timestamp"):
        scale = 1000 if kind.endswith("micros") else 1
        return {"type": "long", "logicalType": kind}, st.integers(-60_000_000_000_000 * scale, 200_000_000_000_000 * scale)
    if kind == "uuid":
        return {"type": "string", "logicalType": "uuid"}, st.uuids().map(str)
    if kind == "decimal":
        return {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": draw(st.integers(0, 25))}, st.binary(max_size=12)
    if kind == "record":
        return draw(records(names, depth - 1))
    if kind == "union":
        branches = draw(st.lists(st.one_of([types_(names, 0), records(names, 0)]), max_size=2))
        chosen = {fastavro_name(t): (t, s) for t, s in [("null", st.none()), *branches]}
        order = draw(st.permutations(list(chosen.values())))
        values = st.one_of([s.map(lambda value, t=t: (fastavro_name(t), value)) for t, s in order])
        return [t for t, _ in order], values
    inner, values = draw(types_(names, depth - 1))
    if kind == "array" and takes_no_bytes(inner):  # such arrays are refused, see app/events/bounds.py
        inner, values = "boolean", st.booleans()
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    return {"type": "map", "values": inner}, st.dictionaries(TEXTS, values, max_size=2)


def takes_no_bytes(node):
    return node == "null" or (
        isinstance(node, dict) and node["type"] == "record" and all(takes_no_bytes(f["type"]) for f in node["fields"])
    )


def fastavro_name(node):
    if isinstance(node, dict):
        return node.get("name", node["type"])
    return node


@st.composite
def records(draw, names, depth=2):
    fields = draw(st.lists(types_(names, depth), max_size=4))
    wanted = [f"f{k}" for k in range(len(fields))]
    schema = {"type": "record", "name": draw(names), "fields": [{"name": n, "type": t} for n, (t, _) in zip(wanted, fields, strict=True)]}
    return schema, st.fixed_dictionaries({n: s for n, (_, s) in zip(wanted, fields, strict=True)})


@st.composite
def messages(draw):
    counter = iter(range(1000))
    schema, values = draw(records(st.builds(lambda: f"N{next(counter)}"), 2))
    schema = {**schema, "name": "Event", "fields": [TIME, *schema["fields"]]}
    rows = draw(st.lists(st.tuples(MILLIS, values), max_size=6))
    return schema, [{"time": time, **row} for time, row in rows]


MOMENTS = ("date", "timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
"""Logical types that fastavro turns into moments; the application's are stripped of all, and converted by the rules of its kernel."""


def with_moments(schema):
    """For fastavro: every named type written out once, other logical types left raw."""
    seen = set()

    def spelt(node):
        if isinstance(node, list):
            return [spelt(branch) for branch in node]
        if isinstance(node, str):
            if node in seen or node not in schema.names:
                return node
            node = schema.names[node]
        if node.get("name") in seen and "name" in node:
            return node["name"]
        seen.update([node["name"]] if "name" in node else [])
        plain = {key: value for key, value in node.items() if not key.startswith("__")}
        if plain.get("logicalType") not in MOMENTS:
            plain.pop("logicalType", None)
        if "fields" in plain:
            plain["fields"] = [{**field, "type": spelt(field["type"])} for field in plain["fields"]]
        return {**plain, **{inside: spelt(plain[inside]) for inside in ("items", "values") if inside in plain}}

    return parse_schema(spelt(schema.root)).root


def encoded(schema, row):
    plain = with_moments(schema)
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, plain, row, disable_tuple_notation=False)
    return buffer.getvalue()


def decode(decoder, values, headers=None):
    count = len(values)
    return decoder.decode(pa.array(values, pa.binary()), np.zeros(count, np.int64), np.arange(count), headers)


def cells(batch):
    """All cells of all events, comparable."""
    table = []
    for k in range(len(batch)):
        row = {"time": int(batch.time[k]), "type": batch.type.dictionary.entry(batch.type.values[k])}
        for name, column in batch.columns.items():
            state = 0 if column.state is None else int(column.state[k])
            if state:
                row[name] = {NULL: None, ABSENT: "absent"}[state]
            elif column.kind.textual:
                row[name] = column.dictionary.entry(column.values[k])
            elif column.kind is Kind.FLOAT:
                row[name] = repr(float(column.values[k]))
            else:
                row[name] = int(column.values[k])
        table.append(row)
    return table


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def expected(records, reader, payload, writer):
    """The cells by fastavro, straight from its Python values."""
    value = fastavro.schemaless_reader(io.BytesIO(payload), with_moments(writer), with_moments(reader))
    (record,) = records.types
    row = {
        "time": value["time"] if isinstance(value["time"], int) else (value["time"] - EPOCH) // timedelta(milliseconds=1),
        "type": b"Event",
    }
    for leaf in record.leaves:
        cell = value
        for step in leaf.path:
            cell = None if cell is None else cell[step]
        row[leaf.attribute.name] = as_cell(cell, leaf.attribute.kind, node_at(reader, leaf.path))
    return row


def node_at(schema, path):
    node = schema.records()[0]
    for step in path:
        node = schema.resolved(next(f["type"] for f in node["fields"] if f["name"] == step))
        if isinstance(node, list):
            node = next((schema.resolved(b) for b in node if b != "null"), "null")
    return node


def as_cell(value, kind, node):
    if value is None:
        return None
    if isinstance(value, datetime):
        return (value.replace(tzinfo=value.tzinfo or UTC) - EPOCH) // timedelta(milliseconds=1)
    if hasattr(value, "toordinal"):
        return (value.toordinal() - EPOCH.toordinal()) * 86_400_000
    if isinstance(node, dict) and node.get("logicalType") == "decimal":
        return repr(float(Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-node["scale"])))
    if kind is Kind.FLOAT:
        return repr(float(value))
    if kind.textual:
        if isinstance(value, str) and kind is Kind.BYTES:
            return value.encode("latin-1")  # a default: fastavro hands it out as JSON has it
        return value.encode() if isinstance(value, str) else bytes(value)
    return int(value)


def runs_in_the_kernel(decoder, writer):
    try:
        compile_program(writer, decoder._records, decoder._layout)
    except TooGeneralError:
        return False
    return True


@settings(deadline=None, max_examples=100)
@given(messages())
def test_columns_hold_what_fastavro_reads(message):
    raw, rows = message
    schema = parse_schema(raw)
    definition = StreamDefinition("s")
    decoder = BatchDecoder(definition, [schema], FixedSchemas({7: schema}))
    payloads = [encoded(schema, row) for row in rows]
    decoded = decode(decoder, [prefix(7) + p for p in payloads])
    assert runs_in_the_kernel(decoder, schema)
    assert not len(decoded.failures), [decoded.failures.text(k) for k in range(len(decoded.failures))]
    records = stream_records(definition, [schema])
    assert cells(decoded.batch) == [expected(records, schema, payload, schema) for payload in payloads]


@settings(deadline=None, max_examples=100)
@given(messages())
def test_the_general_path_fills_the_same_cells_as_the_kernel(message):
    raw, rows = message
    schema = parse_schema(raw)
    decoder = BatchDecoder(StreamDefinition("s"), [schema], FixedSchemas({7: schema}))
    values = [prefix(7) + encoded(schema, row) for row in rows]
    kernel = decode(decoder, values)
    for compiled in decoder._compiled.values():
        compiled.program = None
    general = decode(decoder, values)
    assert cells(general.batch) == cells(kernel.batch)
    assert len(general.failures) == len(kernel.failures) == 0


PROMOTED = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"], "string": ["bytes"], "bytes": ["string"]}


@st.composite
def evolved(draw, raw):
    """A reader's schema for a writer's: fields dropped, added with defaults, reordered, renamed with aliases, promoted, made nullable."""
    fields = []
    for entry in raw["fields"]:
        entry = dict(entry)  # noqa: PLW2901
        change = draw(st.sampled_from(["keep", "drop", "promote", "nullable", "rename"])) if entry["name"] != "time" else "keep"
        if change == "drop":
            continue
        if change == "promote" and isinstance(entry["type"], str) and entry["type"] in PROMOTED:
            entry["type"] = draw(st.sampled_from(PROMOTED[entry["type"]]))
        if change == "nullable" and not isinstance(entry["type"], list) and entry["type"] != "null":
            entry["type"] = draw(st.permutations(["null", entry["type"]]))
        if change == "rename":
            entry["aliases"] = [entry["name"]]
            entry["name"] = f"renamed_{entry['name']}"
        fields.append(entry)
    added = [("int", 5), ("double", 2.5), ("string", "zwölf"), (["null", "long"], None), ("boolean", True), ("bytes", "\x00ÿ")]
    for k, (type_, default) in enumerate(draw(st.lists(st.sampled_from(added), max_size=2))):
        fields.append({"name": f"added{k}", "type": type_, "default": default})
    return {**raw, "fields": draw(st.permutations(fields))}


@settings(deadline=None, max_examples=120)
@given(st.data())
def test_resolution_agrees_with_fastavro(data):
    raw, rows = data.draw(messages())
    writer, reader = parse_schema(raw), parse_schema(data.draw(evolved(raw)))
    definition = StreamDefinition("s")
    decoder = BatchDecoder(definition, [reader], FixedSchemas({7: writer}))
    records = stream_records(definition, [reader])
    for row in rows:
        payload = encoded(writer, row)
        decoded = decode(decoder, [prefix(7) + payload])
        try:
            want = [expected(records, reader, payload, writer)]
        except (fastavro.read.SchemaResolutionError, UnicodeDecodeError):
            assert len(decoded.failures) == 1
            continue
        assert cells(decoded.batch) == want, [decoded.failures.text(k) for k in range(len(decoded.failures))]
        decoder._compiled[7].program = None
        assert cells(decode(decoder, [prefix(7) + payload]).batch) == want


@settings(deadline=None, max_examples=120)
@given(st.data())
def test_broken_bytes_fail_alone_and_leave_their_neighbours_untouched(data):
    raw, rows = data.draw(messages().filter(lambda message: len(message[1]) > 1))
    schema = parse_schema(raw)
    decoder = BatchDecoder(StreamDefinition("s"), [schema], FixedSchemas({7: schema}))
    values = [prefix(7) + encoded(schema, row) for row in rows]
    sound = cells(decode(decoder, values).batch)
    victim = data.draw(st.integers(0, len(values) - 1))
    broken = bytearray(values[victim])
    for _ in range(data.draw(st.integers(1, 3))):
        what = data.draw(st.sampled_from(["flip", "cut", "insert", "null"]))
        place = data.draw(st.integers(0, max(0, len(broken) - 1)))
        if what == "flip" and broken:
            broken[place] = data.draw(st.integers(0, 255))
        elif what == "cut":
            del broken[place:]
        elif what == "insert":
            broken[place:place] = data.draw(st.binary(max_size=12))
    values[victim] = bytes(broken)
    decoded = decode(decoder, values)
    kept = {int(row): cell for row, cell in zip(decoded.rows, cells(decoded.batch), strict=True)}
    assert set(kept) | set(decoded.failures.rows.tolist()) == set(range(len(values)))
    assert all(kept[k] == sound[k] for k in range(len(values)) if k != victim)
    if victim in kept and values[victim].startswith(prefix(7)):
        records = stream_records(StreamDefinition("s"), [schema])
        with contextlib.suppress(OverflowError, ValueError):  # fastavro's moments end with the year 9999
            assert kept[victim] == expected(records, schema, values[victim][5:], schema)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.binary(max_size=40)))
def test_random_bytes_never_raise(values):
    schema = parse_schema({"type": "record", "name": "E", "fields": [TIME, {"name": "a", "type": {"type": "array", "items": "string"}}]})
    decoder = BatchDecoder(StreamDefinition("s"), [schema], FixedSchemas(dict.fromkeys(range(3), schema)))
    decoded = decode(decoder, [b"\0\0\0\0\1" + value if k % 2 else value for k, value in enumerate(values)])
    assert len(decoded.batch) + len(decoded.failures) == len(values)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.binary(max_size=12), min_size=1), st.integers(1, 4))
def test_dictionaries_grow_without_losing_an_entry(entries, repeats):
    schema = parse_schema({"type": "record", "name": "E", "fields": [TIME, {"name": "a", "type": "bytes"}]})
    decoder = BatchDecoder(StreamDefinition("s"), [schema], FixedSchemas({1: schema}))
    wanted = [entry + b"%d" % k for k in range(400) for entry in entries[:5]] * repeats
    decoded = decode(decoder, [prefix(1) + encoded(schema, {"time": 0, "a": entry}) for entry in wanted])
    column = decoded.batch.columns["a"]
    found = column.dictionary.entries()
    assert len(set(found)) == len(found) == len(set(wanted))
    assert [found[code] for code in column.values.tolist()] == wanted


def test_layouts_of_no_stream_are_refused():
    schema = parse_schema({"type": "record", "name": "E", "fields": [TIME]})
    records = stream_records(StreamDefinition("s"), [schema])
    with pytest.raises(SchemaError, match='record "F" is no type of stream "s", which has E'):
        compile_program(parse_schema({"type": "record", "name": "F", "fields": [TIME]}), records, layout_of(records))


MICROS, MILLIS_LONG = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("micros", "millis"))


@pytest.mark.parametrize("general", [False, True], ids=["kernel", "fastavro"])
@pytest.mark.parametrize(
    ("written", "read", "raw", "cell"),
    [
        pytest.param(
            {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4},
            {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
            (123_400).to_bytes(3, "big"),
            "12.34",
            id="registries let the scale change",
        ),
        pytest.param("bytes", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}, b"\x7b", "12.3", id="it came later"),
        pytest.param("long", MICROS, 5_000_000, 5_000, id="a moment that was a number before"),
        pytest.param(MICROS, MILLIS_LONG, 5_000_000, 5_000, id="another unit"),
        pytest.param(MICROS, "long", 5_000_000, 5_000_000, id="a number that is a moment now"),
    ],
)
def test_what_was_written_is_read_by_the_writers_logical_type(general, written, read, raw, cell):
    """And by the reader's where the writer has none; by both ways alike."""
    fields = ({"type": "record", "name": "Event", "fields": [TIME, {"name": "x", "type": one}]} for one in (written, read))
    writer, reader = map(parse_schema, fields)
    bare = "bytes" if isinstance(raw, bytes) else "long"
    plain = {"type": "record", "name": "Event", "fields": [{"name": "time", "type": "long"}, {"name": "x", "type": bare}]}
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(plain), {"time": 7, "x": raw})
    decoder = BatchDecoder(StreamDefinition("s"), [reader], FixedSchemas({7: writer}))
    values = [prefix(7) + buffer.getvalue()]
    decode(decoder, values)  # compiles
    if general:
        decoder._compiled[7].program = None
    decoded = decode(decoder, values)
    assert cells(decoded.batch) == [{"time": 7, "type": b"Event", "x": cell}], [
        decoded.failures.text(k) for k in range(len(decoded.failures))
    ]
