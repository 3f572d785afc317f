"""Operations on batches against lists of rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.events.batch import (
    ABSENT,
    NULL,
    Column,
    Dictionary,
    EventBatch,
    concatenate,
    empty_batch,
    in_total_order,
    is_in_total_order,
    take,
    with_columns,
)
from app.events.hashes import entry_hashes
from app.events.types import Kind

CELLS = {
    "n": (Kind.INTEGER, st.integers(-(2**63), 2**63 - 1)),
    "x": (Kind.FLOAT, st.floats(allow_nan=False)),
    "s": (Kind.STRING, st.sampled_from([b"", b"a", b"bb", "ü".encode()])),
}


@st.composite
def rows_(draw):
    """Events as dictionaries; a missing name is ABSENT, None is NULL."""
    cells = {name: st.none() | values for name, (_, values) in CELLS.items()}
    row = st.fixed_dictionaries({"time": st.integers(0, 3), "source": st.integers(0, 1), "offset": st.integers(0, 9)}, optional=cells)
    return draw(st.lists(row, max_size=6))


def batch_of(rows, names):
    def column(name):
        kind, _ = CELLS[name]
        state = np.array([0 if row.get(name) is not None else (NULL if name in row else ABSENT) for row in rows], dtype=np.uint8)
        if kind.textual:
            entries = sorted({row[name] for row in rows if row.get(name) is not None}) or [b""]
            codes = [entries.index(row[name]) if row.get(name) is not None else 0 for row in rows]
            return Column(kind, np.array(codes, np.int32), state if state.any() else None, Dictionary.of(entries))
        values = np.array([row.get(name) or 0 for row in rows], dtype=np.int64 if kind is Kind.INTEGER else np.float64)
        return Column(kind, values, state if state.any() else None)

    numbers = {key: np.array([row[key] for row in rows], dtype=np.int64) for key in ("time", "source", "offset")}
    kind = Column(Kind.STRING, np.zeros(len(rows), np.int32), None, Dictionary.of([b"T"]))
    return EventBatch(**numbers, type=kind, columns={name: column(name) for name in names})


def rows_of(batch):
    rows = []
    for k in range(len(batch)):
        row = {"time": int(batch.time[k]), "source": int(batch.source[k]), "offset": int(batch.offset[k])}
        for name, column in batch.columns.items():
            state = 0 if column.state is None else column.state[k]
            if state == ABSENT:
                continue
            cell = column.dictionary.entry(column.values[k]) if column.kind.textual else column.values[k].item()
            row[name] = None if state == NULL else cell
        rows.append(row)
    return rows


@settings(deadline=None, max_examples=100)
@given(st.lists(rows_(), max_size=4))
def test_joined_batches_hold_the_rows_of_all(parts):
    batches = [batch_of(rows, {name for row in rows for name in row if name in CELLS}) for rows in parts]
    assert rows_of(concatenate(batches)) == [row for rows in parts for row in rows]


@settings(deadline=None, max_examples=100)
@given(rows_(), st.data())
def test_pieces_of_a_batch_join_to_what_was_taken(rows, data):
    batch = batch_of(rows, CELLS)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if rows else []
    cut = data.draw(st.integers(0, len(chosen)))
    pieces = [take(batch, np.array(part, dtype=np.int64)) for part in (chosen[:cut], chosen[cut:])]
    joined = concatenate(pieces)
    assert rows_of(joined) == [rows[k] for k in chosen]
    assert joined.columns["s"].dictionary is batch.columns["s"].dictionary


@settings(deadline=None, max_examples=100)
@given(rows_())
def test_total_order_is_by_time_source_and_offset(rows):
    def key(row):
        return row["time"], row["source"], row["offset"]

    batch = batch_of(rows, CELLS)
    ordered = in_total_order(batch)
    assert [key(row) for row in rows_of(ordered)] == sorted(map(key, rows))
    assert is_in_total_order(batch) == ([key(row) for row in rows] == sorted(map(key, rows)))
    assert in_total_order(ordered) is ordered


def test_columns_of_different_kinds_become_float_or_are_refused():
    numbers = {"time": np.zeros(1, np.int64), "source": np.zeros(1, np.int64), "offset": np.zeros(1, np.int64)}
    kind = Column(Kind.STRING, np.zeros(1, np.int32), None, Dictionary.of([b"T"]))
    integer = EventBatch(**numbers, type=kind, columns={"a": Column(Kind.INTEGER, np.array([3]))})
    floating = EventBatch(**numbers, type=kind, columns={"a": Column(Kind.FLOAT, np.array([0.5]))})
    text = EventBatch(**numbers, type=kind, columns={"a": Column(Kind.STRING, np.zeros(1, np.int32), None, Dictionary.of([b"x"]))})
    joined = concatenate([integer, floating]).columns["a"]
    assert (joined.kind, joined.values.tolist()) == (Kind.FLOAT, [3.0, 0.5])
    with pytest.raises(ValueError, match="cannot be joined"):
        concatenate([integer, text])


def test_columns_that_a_batch_lacks_are_left_out():
    batch = batch_of([{"time": 1, "source": 0, "offset": 0, "n": 1}], ["n", "x"])
    assert list(with_columns(batch, ["x", "q"]).columns) == ["x"]
    assert len(concatenate([])) == len(empty_batch()) == 0


XXH64 = {
    b"": 0xEF46DB3751D8E999,
    b"a": 0xD24EC4F1A98C6E5B,
    b"abc": 0x44BC2CF5AD770999,
    b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
}
"""Published test vectors: a change of the hash would send keys to other buckets and break every checkpoint."""


def test_entry_hashes_are_xxh64():
    assert entry_hashes(Dictionary.of(list(XXH64))).tolist() == list(XXH64.values())


def naive_xxh64(data):
    """The specification, with Python integers."""
    p1, p2, p3, p4, p5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
    word = 2**64 - 1

    def rotate(value, count):
        return (value << count | value >> (64 - count)) & word

    def mix(lane, number):
        return rotate((lane + number * p2) & word, 31) * p1 & word

    def number(start, size):
        return int.from_bytes(data[start : start + size], "little")

    at, h = 0, p5
    if len(data) >= 32:
        lanes = [(p1 + p2) & word, p2, 0, -p1 & word]
        while at + 32 <= len(data):
            lanes = [mix(lane, number(at + 8 * k, 8)) for k, lane in enumerate(lanes)]
            at += 32
        h = sum(rotate(lane, count) for lane, count in zip(lanes, (1, 7, 12, 18), strict=True)) & word
        for lane in lanes:
            h = ((h ^ mix(0, lane)) * p1 + p4) & word
    h = (h + len(data)) & word
    while at + 8 <= len(data):
        h = (rotate(h ^ mix(0, number(at, 8)), 27) * p1 + p4) & word
        at += 8
    if at + 4 <= len(data):
        h = (rotate(h ^ (number(at, 4) * p1 & word), 23) * p2 + p3) & word
        at += 4
    for byte in data[at:]:
        h = rotate(h ^ (byte * p5 & word), 11) * p1 & word
    h = (h ^ h >> 33) * p2 & word
    h = (h ^ h >> 29) * p3 & word
    return h ^ h >> 32


@settings(deadline=None, max_examples=100)
@given(st.lists(st.binary(max_size=100), max_size=5))
def test_entry_hashes_follow_the_specification_for_every_length(entries):
    assert entry_hashes(Dictionary.of(entries)).tolist() == [naive_xxh64(entry) for entry in entries]
