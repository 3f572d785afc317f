"""Chunks there and back, routing, lateness: small examples with known answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.bucket.chunk import Chunk, Section, compacted, pack_chunk, unpack_chunk
from app.bucket.hold import FOREVER, NEVER, Held, KeyOrder, Progress, TimeRules, judge_lateness, stream_watermark
from app.bucket.ingress import IngressPlan
from app.bucket.kernels import EVERYWHERE, NOWHERE, ROUTED
from app.bucket.route import partition_keys, rows_by_bucket
from app.errors import SnapshotError
from app.events.batch import ABSENT, NULL, Column, Dictionary, EventBatch, events_of_types, take
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import QueryGroup

FLOATS = ["309fe7caef25cbb0", "2d8ff272c6640134", "8764675066c28960", "25fffb7bbc9dfd36", "86976d2164c10cbe", "582fa1bffae648fd"]
INTEGERS = ["309fe7caef25cbb0", "2d8ff272c6640134", "8764675066c28960", "86976d2164c10cbe", "6ca6925506965e4c", "cbcfbf6b106eb562"]


def texts(values: list[bytes], state: list[int] | None = None) -> Column:
    entries = list(dict.fromkeys(values))
    codes = np.array([entries.index(value) for value in values], dtype=np.int32)
    return Column(Kind.STRING, codes, None if state is None else np.array(state, dtype=np.uint8), Dictionary.of(entries))


def group(*equivalence: str) -> QueryGroup:
    return QueryGroup(0, ("s",), equivalence, (0,), ())


def cells(column: Column) -> list:
    states = np.zeros(len(column.values), dtype=np.uint8) if column.state is None else column.state
    found = (
        column.values.tolist()
        if column.dictionary is None
        else [column.dictionary.entry(c) if s == 0 else 0 for c, s in zip(column.values, states, strict=True)]
    )
    return [(s, None if s else v) for s, v in zip(states.tolist(), found, strict=True)]


def test_a_chunk_comes_back_with_all_columns_states_and_bitmaps() -> None:
    columns = {
        "n": Column(Kind.INTEGER, np.array([1, 2, 3]), np.array([0, NULL, ABSENT], dtype=np.uint8)),
        "x": Column(Kind.FLOAT, np.array([0.5, float("inf"), -1.0])),
        "t": texts([b"a", b"", "é".encode()], [0, 0, NULL]),
    }
    batch = events_of_types(["A", "B", "A"], [5, 6, 7], columns)
    bitmaps = np.array([[1, 2], [3, 1 << 63], [5, 0]], dtype=np.uint64)
    chunk = unpack_chunk(pack_chunk(Chunk("s", {0: 7, 5: NEVER}, [Section(2**64 - 1, "layout", batch, bitmaps)])))
    (section,) = chunk.sections
    assert (chunk.stream, chunk.greatest_times, section.group, section.layout) == ("s", {0: 7, 5: NEVER}, 2**64 - 1, "layout")
    assert section.bitmaps.tolist() == bitmaps.tolist()
    assert [section.batch.time.tolist(), section.batch.offset.tolist()] == [[5, 6, 7], [0, 1, 2]]
    assert cells(section.batch.type) == cells(batch.type)
    assert {name: (c.kind, cells(c)) for name, c in section.batch.columns.items()} == {n: (c.kind, cells(c)) for n, c in columns.items()}


def test_bytes_that_are_no_chunk_are_refused() -> None:
    with pytest.raises(SnapshotError):
        unpack_chunk(b"something else")


def test_a_chunk_ships_only_the_dictionary_entries_that_occur() -> None:
    many = events_of_types(["A"] * 1000, list(range(1000)), {"t": texts([f"tag-{n:06}".encode() for n in range(1000)])})
    packed = pack_chunk(Chunk("s", {}, [Section(1, "", take(many, np.array([7, 900])), np.ones((2, 1), dtype=np.uint64))]))
    assert len(packed) < 5000
    assert cells(unpack_chunk(packed).sections[0].batch.columns["t"]) == [(0, b"tag-000007"), (0, b"tag-000900")]


def test_compacting_leaves_garbage_codes_of_null_cells_alone() -> None:
    column = Column(Kind.STRING, np.array([99, 1], dtype=np.int32), np.array([NULL, 0], dtype=np.uint8), Dictionary.of([b"a", b"b"]))
    assert cells(compacted(column)) == [(NULL, None), (0, b"b")]
    empty = Column(Kind.STRING, np.array([3], dtype=np.int32), np.array([NULL], dtype=np.uint8), Dictionary.of([]))
    assert cells(compacted(empty)) == [(NULL, None)]


def test_equal_keys_meet_in_one_bucket_whatever_their_dictionary_or_number_type() -> None:
    one = events_of_types(["A"] * 3, [1, 2, 3], {"k": texts([b"x", b"y", b"z"]), "n": Column(Kind.INTEGER, np.array([1, 2, -3]))})
    other = events_of_types(["A"] * 3, [1, 2, 3], {"k": texts([b"z", b"y", b"x"]), "n": Column(Kind.FLOAT, np.array([-3.0, 2.0, 1.0]))})
    rows = np.arange(3)
    assert partition_keys(one, rows, group("k", "n")).hashes.tolist() == partition_keys(other, rows, group("k", "n")).hashes.tolist()[::-1]


def test_whole_floats_lie_where_the_integers_of_64_bit_lie() -> None:
    whole = [0.0, -0.0, 1.0, 2.0**53, 9.21e18, -9.21e18, np.nextafter(2.0**63, 0), -(2.0**63)]
    floats, integers = Column(Kind.FLOAT, np.array(whole)), Column(Kind.INTEGER, np.array([int(value) for value in whole]))
    found = [partition_keys(events_of_types(["A"] * 8, [0] * 8, {"k": one}), np.arange(8), group("k")) for one in (floats, integers)]
    assert found[0].hashes.tolist() == found[1].hashes.tolist()


def test_the_state_of_keys_is_found_where_it_always_was() -> None:
    """Hashes decide where a checkpoint has the state of a key: these are for ever."""
    columns = {"k": Column(Kind.FLOAT, np.array([0.0, 3.0, -3.0, 0.5, 2.0**53, 1e300]))}
    for column, expected in ((columns, FLOATS), ({"k": Column(Kind.INTEGER, np.array([0, 3, -3, 2**53, 2**53 + 1, 2**63 - 1]))}, INTEGERS)):
        found = partition_keys(events_of_types(["A"] * 6, [0] * 6, column), np.arange(6), group("k"))
        assert [f"{one:016x}" for one in found.hashes.tolist()] == expected
    mixed = replace(group("k"), floats=("k",))
    ordinary = events_of_types(["A"] * 6, [0] * 6, {"k": Column(Kind.INTEGER, np.array([0, 3, -3, 2**53, 2**53 + 2, -(2**63)]))})
    assert (
        partition_keys(ordinary, np.arange(6), mixed).hashes.tolist() == partition_keys(ordinary, np.arange(6), group("k")).hashes.tolist()
    )


def test_a_null_key_goes_nowhere_and_a_type_without_the_key_everywhere() -> None:
    state = np.array([0, NULL, ABSENT], dtype=np.uint8)
    batch = events_of_types(
        ["A", "A", "B"], [1, 2, 3], {"k": Column(Kind.INTEGER, np.array([4, 5, 6]), state), "j": Column(Kind.INTEGER, np.array([0, 0, 0]))}
    )
    keys = partition_keys(batch, np.arange(3), group("k", "j"))
    assert keys.reach.tolist() == [ROUTED, NOWHERE, EVERYWHERE]
    assert sorted(rows.tolist() for rows in rows_by_bucket(keys, 2)) == [[0, 2], [2]]


def test_without_equivalence_all_events_share_one_bucket() -> None:
    batch = events_of_types(["A"] * 5, list(range(5)))
    assert sorted(len(rows) for rows in rows_by_bucket(partition_keys(batch, np.arange(5), group()), 4)) == [0, 0, 0, 5]


def with_sources(times: list[int], sources: list[int]) -> EventBatch:
    batch = events_of_types(["A"] * len(times), times)
    return EventBatch(batch.time, np.array(sources), batch.offset, batch.type, {})


def test_lateness_is_judged_event_by_event_within_a_batch() -> None:
    found = judge_lateness(with_sources([10, 20, 15, 14, 30, 24], [0] * 6), TimeRules("s", 5), Progress())
    assert found.late.tolist() == [False, False, False, True, False, True]
    assert found.greatest_times == {0: 30}


def test_another_partition_does_not_make_an_event_late_unless_its_own_was_idle() -> None:
    batch = with_sources([50], [1])
    before = Progress({0: 100, 1: 40})
    assert judge_lateness(batch, TimeRules("s"), before).late.tolist() == [False]
    assert judge_lateness(batch, TimeRules("s"), Progress({0: 100, 1: 40}, idle=frozenset((1,)))).late.tolist() == [True]


def test_a_partition_without_any_event_holds_the_watermark_until_it_is_idle() -> None:
    rules, both = TimeRules("s"), frozenset((0, 1))
    assert stream_watermark(rules, {0: 100}, Progress(sources=both)) == NEVER
    assert stream_watermark(rules, {0: 100}, Progress(sources=both, idle=frozenset((1,)))) == 100
    assert stream_watermark(rules, {0: 100}, Progress(sources=both, closing=True)) == FOREVER
    assert stream_watermark(rules, {0: 100}, Progress(sources=both, idle=both, stream_times={"s": 900})) == 900


def test_an_event_is_released_when_the_watermark_is_greater_and_in_total_order() -> None:
    held = Held(1)
    held.add(with_sources([5, 3, 5], [1, 0, 0]), np.array([[1], [2], [3]], dtype=np.uint64))
    assert len(held.release(3)[0]) == 0
    batch, bitmaps = held.release(5)
    assert (batch.time.tolist(), bitmaps.tolist()) == ([3], [[2]])
    assert held.release(6)[1].tolist() == [[3], [1]]
    assert len(held) == 0


def test_an_event_earlier_than_the_predecessor_of_its_key_is_late_and_counts_nowhere() -> None:
    order = KeyOrder()
    keys = np.array([7, 7, 8, 7, 7], dtype=np.uint64)
    assert order.late(keys, np.array([10, 5, 1, 7, 10])).tolist() == [False, True, False, True, False]
    assert KeyOrder(*order.contents()).late(np.array([8, 7], dtype=np.uint64), np.array([0, 11])).tolist() == [True, False]


def test_the_memory_of_keys_follows_the_floor_over_a_million_keys() -> None:
    order = KeyOrder()
    keys = np.arange(1, 1_000_001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for first in range(0, 1_000_000, 5_000):  # a key per millisecond, each seen once; the floor is 10 s behind
        times = np.arange(first, first + 5_000)
        assert not order.late(keys[first : first + 5_000], times, floor=first - 10_000).any()
        assert order.places <= 1 << 17, "10,000 keys matter"
    assert order.late(keys[-10_000:], np.full(10_000, 989_999), floor=989_999).tolist() == [True] * 10_000


def test_when_keys_are_forgotten_is_not_to_be_seen_in_snapshots() -> None:
    rng = np.random.default_rng(5)
    keys, times = rng.integers(1, 4_000, 20_000).astype(np.uint64), np.arange(20_000)
    whole, parts = KeyOrder(), KeyOrder()
    whole.late(keys, times)
    for first in range(0, 20_000, 500):
        parts.late(keys[first : first + 500], times[first : first + 500], floor=first - 1_000)
    assert len(parts) < len(whole)
    for one, other in zip(whole.contents(18_500), parts.contents(18_500), strict=True):
        assert one.tolist() == other.tolist()


def test_the_memory_of_keys_grows_without_forgetting() -> None:
    order = KeyOrder()
    keys = np.arange(1, 3001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for part in np.split(keys, 30):
        assert not order.late(part, np.full(len(part), 5)).any()
    assert len(order) == 3000
    assert order.late(keys, np.full(3000, 4)).all()


def test_what_a_task_sends_to_a_bucket_does_not_grow_with_topic_partitions() -> None:
    """How far time came in each of them is told once per batch, by the driver; buckets without events get nothing."""
    kind = EventType("Reading", (Attribute("k", Kind.INTEGER),))
    text = "name: pairs\nfrom: s\nevent: SEQ(Reading a, Reading b)\nwhere: '[k]'\nwithin: 10 s\n"
    compiled = compile_texts([("q.yaml", text)], {"s": StreamSchema("s", (kind,))})
    plan = IngressPlan(compiled.catalog, TimeRules("s"), 80)
    batch = events_of_types(["Reading"] * 2, [5, 6], {"k": Column(Kind.INTEGER, np.array([1, 1]))})

    def sizes(partitions: int) -> list[int]:
        known = Progress(dict.fromkeys(range(partitions), 1), frozenset(range(partitions)))
        return [len(packed) for _, packed in plan.ingest(batch, known).packed(with_times=False)]

    assert sizes(1000) == sizes(1)
    assert len(sizes(1000)) == 1
