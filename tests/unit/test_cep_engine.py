"""What the engine does, one behaviour at a time; equality with the definitions is tested in tests/property."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from app.cep.engine import EngineOptions, Tally, Watermarks
from app.cep.matches import Matches
from app.cep.stacks.engine import StacksEngine
from app.cep.stacks.layout import refusals
from app.errors import SnapshotError
from app.events.batch import ABSENT, NULL, Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.expressions import Aggregate, Arithmetic, AttributeOf, Call, Comparison, Like, Literal
from app.query.plan import Item, JoinPredicate, Plan, ReturnField, Within

END = Watermarks(2**63 - 1)
A, B, C = Item(0, "a", ("A",)), Item(1, "b", ("B",)), Item(2, "c", ("C",))


def not_(item: Item, lacks: tuple[str, ...] = ()) -> Item:
    return replace(item, negated=True, lacks=lacks)


def attribute(item: int, name: str, kind: Kind = Kind.INTEGER) -> AttributeOf:
    return AttributeOf(kind, item, name)


def plan(
    items: Sequence[Item],
    within: int | None = 10,
    key: tuple[str, ...] = ("k",),
    joins: Sequence[JoinPredicate] = (),
    returns: Sequence[ReturnField] = (),
) -> Plan:
    numbered = tuple(replace(item, index=i) for i, item in enumerate(items))
    window = None if within is None else Within(within)
    return Plan("q", 1, "", (), 1.0, ("s",), numbered, key, tuple(joins), window, tuple(returns), ("k", "v"), fingerprint="f1")


def stream(text: str, source: int = 0, first: int = 0) -> tuple[EventBatch, np.ndarray]:
    """Events written as ``time type key value``, separated by commas; ``?`` is null, ``-`` absent. Types A, B, C are items 0, 1, 2."""
    rows = [part.split() for part in text.split(",") if part.strip()]
    names = ["A", "B", "C", "X"]
    codes = np.array([names.index(row[1]) for row in rows], np.int32)
    batch = EventBatch(
        np.array([int(row[0]) for row in rows], np.int64),
        np.full(len(rows), source, np.int64),
        np.arange(first, first + len(rows), dtype=np.int64),
        Column(Kind.STRING, codes, None, Dictionary.of([name.encode() for name in names])),
        {"k": numbers([row[2] if len(row) > 2 else "1" for row in rows]), "v": numbers([row[3] if len(row) > 3 else "0" for row in rows])},
    )
    return batch, np.array([1, 2, 4, 0], np.uint64)[codes]


def numbers(texts: list[str]) -> Column:
    state = np.array([NULL if t == "?" else ABSENT if t == "-" else 0 for t in texts], np.uint8)
    return Column(Kind.INTEGER, np.array([0 if t in "?-" else int(t) for t in texts], np.int64), state if state.any() else None)


def offsets(matches: Matches) -> list[list[int]]:
    return matches.offsets()[matches.total_order()].tolist()


def find(query: Plan, text: str, options: EngineOptions | None = None) -> list[list[int]]:
    engine = StacksEngine(query, options)
    matches, _ = engine.feed(*stream(text), END)
    engine.validate()
    return offsets(matches)


def test_every_combination_of_earlier_events_is_a_match() -> None:
    assert find(plan([A, B, C]), "0 A, 1 A, 2 B, 3 B, 4 C") == [[0, 2, 4], [0, 3, 4], [1, 2, 4], [1, 3, 4]]


def test_events_of_one_time_match_in_arrival_order() -> None:
    assert find(plan([A, B]), "0 A, 0 B, 0 A") == [[0, 1]]


def test_events_of_different_keys_do_not_match() -> None:
    assert find(plan([A, B]), "0 A 1, 1 B 2, 2 B 1") == [[0, 2]]


def test_first_and_last_event_lie_strictly_less_than_the_window_apart() -> None:
    assert find(plan([A, B], within=5), "0 A, 4 B, 5 B") == [[0, 1]]


@pytest.mark.parametrize("options", [EngineOptions(), EngineOptions(window_pushdown=False)])
def test_windows_hold_where_the_watermark_is_far_behind(options: EngineOptions) -> None:
    behind = Watermarks(-1000)
    for query, text, expected in (
        (plan([A, B], within=5), "0 A, 1 A, 2 A, 5 B, 6 B", [[1, 3], [2, 3], [2, 4]]),
        (plan([A, B, C], within=5), "0 A, 1 A, 4 B, 5 C, 6 C", [[1, 2, 3]]),
        (plan([not_(A), B, C], within=5), "0 A, 3 B, 4 C, 5 C", [[1, 3]]),
    ):
        matches, tally = StacksEngine(query, options).feed(*stream(text), behind)
        assert offsets(matches) == expected
        assert tally.evicted == 0


def test_without_within_nothing_is_forgotten() -> None:
    assert find(plan([A, B], within=None), "0 A, 9000000000000000000 B") == [[0, 1]]


def test_null_key_matches_nothing_and_prevents_nothing() -> None:
    assert find(plan([A, not_(B), C]), "0 A ?, 0 A 1, 1 B ?, 2 C 1, 2 C ?") == [[1, 3]]


def test_negated_event_between_cancels() -> None:
    assert find(plan([A, not_(B), C]), "0 A, 1 B, 2 A, 3 C") == [[2, 3]]


def test_negated_event_without_the_key_cancels_in_every_partition() -> None:
    assert find(plan([A, not_(B, lacks=("k",)), C]), "0 A 1, 0 A 2, 1 B -, 2 C 1, 2 A 2, 3 C 2") == [[4, 5]]


def test_negated_start_looks_back_one_window_from_the_last_event() -> None:
    query = plan([not_(A), B, C], within=5)
    assert find(query, "0 A, 3 B, 4 C, 5 C") == [[1, 3]]


def test_negated_end_waits_for_the_watermark_and_has_the_windows_end_as_time() -> None:
    engine = StacksEngine(plan([A, B, not_(C)], within=5))
    matches, tally = engine.feed(*stream("0 A, 1 B"), Watermarks(4))
    assert (len(matches), tally.pending) == (0, 1)
    engine.validate()
    matches, tally = engine.feed(*stream(""), Watermarks(5))
    assert matches.time.tolist() == [5]
    assert tally.pending == 0


def test_negated_end_event_at_the_end_of_the_window_is_too_late_to_cancel() -> None:
    query = plan([A, B, not_(C)], within=5)
    assert find(query, "0 A, 1 B, 5 C") == [[0, 1]]
    assert find(query, "0 A, 1 B, 4 C") == []


@pytest.mark.parametrize(
    ("third", "expected"),
    [("4 C", []), ("5 C", [[0, 1]]), ("5 C, 9 C", [[0, 1]]), ("4 C, 9 C", []), ("3 A, 5 C", [[0, 1]]), ("3 A, 4 C", [])],
)
def test_negated_end_is_decided_by_times_when_the_watermark_comes_late(third: str, expected: list[list[int]]) -> None:
    engine = StacksEngine(plan([A, B, not_(C)], within=5))
    engine.feed(*stream(f"0 A, 1 B, {third}"), Watermarks(-100))
    matches, _ = engine.feed(*stream(""), Watermarks(20))
    assert offsets(matches) == expected


def test_negated_end_of_one_partition_fires_by_time_alone() -> None:
    engine = StacksEngine(plan([A, B, not_(C)], within=5))
    engine.feed(*stream("0 A 1, 1 B 1"), Watermarks(1))
    matches, _ = engine.feed(*stream("7 A 2, 7 C 1", first=2), Watermarks(8))
    assert offsets(matches) == [[0, 1]]


def test_trusted_order_fires_when_the_events_own_source_has_come_so_far() -> None:
    engine = StacksEngine(plan([A, B, not_(C)], within=5))
    engine.feed(*stream("0 A 1", source=1), Watermarks(-100, {1: 0, 2: -100}))
    engine.feed(*stream("-50 A 2, -49 B 2", source=2), Watermarks(-49, {1: 0, 2: -49}))
    matches, _ = engine.feed(*stream("1 B 1", source=1, first=1), Watermarks(-46, {1: 5, 2: -46}))
    engine.validate()
    assert [(s, o) for s, o in zip(matches.sources().tolist(), offsets(matches), strict=True)] == [([1, 1], [0, 1])]
    matches, tally = engine.feed(*stream(""), Watermarks(-45, {1: 6, 2: -45}))
    assert matches.sources().tolist() == [[2, 2]]
    _, tally = engine.feed(*stream(""), Watermarks(6))
    assert tally.live_events == 0


def test_an_event_may_be_a_candidate_of_several_items_but_binds_one() -> None:
    query = plan([A, A])
    batch, masks = stream("0 A, 1 A, 2 A")
    matches, _ = StacksEngine(query).feed(batch, masks * np.uint64(3), END)
    assert offsets(matches) == [[0, 1], [0, 2], [1, 2]]


def test_join_of_a_null_value_fails_and_of_an_absent_one_holds() -> None:
    join = JoinPredicate(Comparison("<", attribute(0, "v"), attribute(1, "v")), (0, 1))
    assert find(plan([A, B], joins=[join]), "0 A 1 5, 1 A 1 ?, 2 A 1 -, 3 B 1 6, 4 B 1 5, 5 B 1 ?") == [[0, 3], [2, 3], [2, 4], [2, 5]]


@pytest.mark.parametrize(
    "options", [EngineOptions(), EngineOptions(predicate_pushdown=False), EngineOptions(partitioned=False, window_pushdown=False)]
)
def test_a_negated_event_counts_only_if_its_predicate_holds(options: EngineOptions) -> None:
    join = JoinPredicate(Comparison("=", attribute(0, "v"), attribute(1, "v")), (0, 1), negated_item=1)
    assert find(plan([A, not_(B), C], joins=[join]), "0 A 1 5, 1 A 1 6, 2 B 1 6, 3 C 1", options) == [[0, 3]]


def test_time_difference_of_two_events() -> None:
    apart = Arithmetic(Kind.DURATION, "-", attribute(1, "time", Kind.TIME), attribute(0, "time", Kind.TIME))
    join = JoinPredicate(Comparison(">", apart, Literal(Kind.DURATION, 3)), (0, 1))
    assert find(plan([A, B], joins=[join]), "0 A, 3 B, 4 B") == [[0, 2]]


def test_returned_integers_that_leave_64_bit_become_floats() -> None:
    total = ReturnField("total", Arithmetic(Kind.INTEGER, "+", attribute(0, "v"), attribute(1, "v")), Kind.INTEGER)
    matches, _ = StacksEngine(plan([A, B], returns=[total])).feed(*stream(f"0 A 1 {2**63 - 1}, 1 B 1 1"), END)
    assert matches.fields["total"].kind is Kind.FLOAT
    assert matches.fields["total"].values.tolist() == [2.0**63]


def test_fields_are_columns_and_null_where_the_event_has_none() -> None:
    fields = [ReturnField("a_v", attribute(0, "v"), Kind.INTEGER), ReturnField("k", attribute(1, "k"), Kind.INTEGER)]
    matches, _ = StacksEngine(plan([A, B], returns=fields)).feed(*stream("0 A 7 ?, 1 A 7 3, 2 B 7"), END)
    assert matches.fields["a_v"].state is not None
    assert min(zip(matches.fields["a_v"].state.tolist(), matches.fields["a_v"].values.tolist(), strict=True)) == (0, 3)
    assert matches.fields["k"].values.tolist() == [7, 7]
    assert matches.key["k"].values.tolist() == [7, 7]


def texts_of(column: Column) -> list[str]:
    assert column.dictionary is not None
    return [column.dictionary.entry(code).decode() for code in column.values.tolist()]


def test_texts_are_equal_across_batches_with_other_dictionaries() -> None:
    fields = [ReturnField("k", Call(Kind.STRING, "upper", (attribute(0, "k", Kind.STRING),)), Kind.STRING)]
    engine = StacksEngine(plan([A, B], returns=fields))
    found = []
    for text, entries in (("0 A 0, 1 A 1", [b"x", b"y"]), ("2 B 0", [b"y", b"z"])):
        batch, masks = stream(text)
        key = Column(Kind.STRING, batch.columns["k"].values.astype(np.int32), None, Dictionary.of(entries))
        matches, _ = engine.feed(replace(batch, columns={**batch.columns, "k": key}), masks, Watermarks(int(batch.time[-1])))
        found += texts_of(matches.fields["k"]) + texts_of(matches.key["k"])
    assert found == ["Y", "y"]


def test_local_conditions_are_checked_by_the_engine() -> None:
    wanted = replace(
        A, local=(Like(attribute(0, "k", Kind.STRING), "t%"), Comparison(">", attribute(0, "v"), attribute(0, "time", Kind.TIME)))
    )
    batch, masks = stream("0 A 0 5, 1 A 1 5, 2 A 0 1, 3 B 0 0, 3 B 1 0")
    key = Column(Kind.STRING, batch.columns["k"].values.astype(np.int32), None, Dictionary.of([b"tag", b"x"]))
    matches, _ = StacksEngine(plan([wanted, B])).feed(replace(batch, columns={**batch.columns, "k": key}), masks, END)
    assert offsets(matches) == [[0, 3]]


def test_times_at_the_edge_of_the_representable_do_not_wrap() -> None:
    least, most = -(2**63) + 1, 2**63 - 1
    assert find(plan([A, B], within=100), f"{least} A, {least + 1} B, {most - 1} A, {most} B") == [[0, 1], [2, 3]]


def many(count: int, keys: int, *, text: bool = False) -> tuple[EventBatch, np.ndarray]:
    """A and B of random keys, one per ms."""
    random = np.random.default_rng(3)
    key = random.integers(0, keys, count)
    column = Column(Kind.INTEGER, key)
    if text:
        column = Column(Kind.STRING, key.astype(np.int32), None, Dictionary.of([f"tag {k}".encode() for k in range(keys)]))
    codes = random.integers(0, 2, count).astype(np.int32)
    line = np.arange(count, dtype=np.int64)
    types = Column(Kind.STRING, codes, None, Dictionary.of([b"A", b"B"]))
    columns = {"k": column, "v": Column(Kind.INTEGER, line)}
    return EventBatch(line, np.zeros(count, np.int64), line, types, columns), np.array([1, 2], np.uint64)[codes]


def cut(batch: EventBatch, masks: np.ndarray, size: int) -> list[tuple[EventBatch, np.ndarray]]:
    """Slices whose text columns have dictionaries of their own."""

    def part(column: Column, rows: slice) -> Column:
        if column.dictionary is None:
            return Column(column.kind, column.values[rows])
        used, codes = np.unique(column.values[rows], return_inverse=True)
        return Column(column.kind, codes.astype(np.int32), None, Dictionary.of([column.dictionary.entry(c) for c in used.tolist()]))

    found = []
    for start in range(0, len(batch), size):
        rows = slice(start, start + size)
        columns = {name: part(column, rows) for name, column in batch.columns.items()}
        found.append((EventBatch(batch.time[rows], batch.source[rows], batch.offset[rows], part(batch.type, rows), columns), masks[rows]))
    return found


def pairs(parts: Sequence[tuple[EventBatch, np.ndarray]], engine: StacksEngine) -> tuple[set[tuple[int, int]], Tally]:
    found: set[tuple[int, int]] = set()
    for batch, masks in parts:
        matches, tally = engine.feed(batch, masks, Watermarks(int(batch.time[-1]) + 1))
        rows = list(map(tuple, matches.offsets().tolist()))
        assert len(set(rows)) == len(rows)
        found |= set(rows)
        key = matches.key["k"]
        if key.dictionary is not None and len(matches):
            keys_by_event = dict(zip(batch.offset.tolist(), texts_of(batch.columns["k"]), strict=True))
            assert texts_of(key) == [keys_by_event[last] for _, last in rows]
    return found, tally


def expected_pairs(batch: EventBatch, masks: np.ndarray, within: int) -> set[tuple[int, int]]:
    keys = batch.columns["k"].values
    found = set()
    for last in np.flatnonzero(masks == 2).tolist():
        for first in range(max(0, last - within + 1), last):
            if masks[first] == 1 and keys[first] == keys[last]:
                found.add((first, last))
    return found


@pytest.mark.parametrize("text", [False, True])
def test_memory_follows_the_window_not_the_keys_ever_seen(*, text: bool) -> None:
    batch, masks = many(60_000, 20_000, text=text)
    found, tally = pairs(cut(batch, masks, 1000), engine := StacksEngine(plan([A, B], within=50)))
    engine.validate()
    assert found == expected_pairs(batch, masks, 50)
    assert tally.live_events <= 50
    assert tally.partitions <= 2000
    assert tally.texts <= 5000
    assert len(engine.snapshot()) < 20_000


def test_one_event_may_complete_more_matches_than_any_buffer_expects() -> None:
    text = ", ".join(f"{i} A" for i in range(3000)) + ", 3000 B"
    assert len(find(plan([A, B], within=5000), text)) == 3000
    assert len(find(plan([A, B, not_(C)], within=5000), text)) == 3000


def test_matches_handed_out_stay_as_they_were() -> None:
    batch, masks = many(20_000, 3_000, text=True)
    engine = StacksEngine(plan([A, B], within=300, returns=[ReturnField("k", attribute(0, "k", Kind.STRING), Kind.STRING)]))
    kept = []
    for part, part_masks in cut(batch, masks, 500):
        matches, _ = engine.feed(part, part_masks, Watermarks(int(part.time[-1]) + 1))
        kept.append((matches, offsets(matches), texts_of(matches.fields["k"])))
    engine.snapshot()
    for matches, before, texts in kept:
        assert offsets(matches) == before
        assert texts_of(matches.fields["k"]) == texts


def test_snapshot_of_another_plan_or_format_is_refused() -> None:
    query = plan([A, B])
    engine = StacksEngine(query)
    engine.feed(*stream("0 A"), Watermarks(1))
    data = engine.snapshot()
    with pytest.raises(SnapshotError, match="fingerprint"):
        StacksEngine.restore(replace(query, fingerprint="other"), data)
    with pytest.raises(SnapshotError, match="format 99"):
        StacksEngine.restore(query, data[:8] + b"\x63\x00\x00\x00" + data[12:])
    with pytest.raises(SnapshotError, match="no state"):
        StacksEngine.restore(query, b"x" * 100)
    for length in range(0, len(data) - 8, 7):
        with pytest.raises(SnapshotError):
            StacksEngine.restore(query, data[:length])
    restored = StacksEngine.restore(query, data)
    matches, _ = restored.feed(*stream("1 B", first=1), END)
    assert offsets(matches) == [[0, 1]]


def test_what_the_engine_cannot_run_is_refused_in_words() -> None:
    query = plan([A, B])
    assert refusals(query) == []
    assert refusals(replace(query, evaluator="runs")) != []
    assert refusals(replace(query, within=Within(5, "events"))) != []
    assert refusals(plan([A, B, not_(C)], within=None)) == ["a negated end needs within"]
    counted = ReturnField("n", Aggregate(Kind.INTEGER, "count", 0, None), Kind.INTEGER)
    assert refusals(plan([A, B], returns=[counted])) == ["the aggregate count() needs closures, which this engine does not run yet"]
    with pytest.raises(ValueError, match="closures"):
        StacksEngine(plan([A, B], returns=[counted]))


def test_partial_matches_time_out_with_null_fields_where_nothing_is_bound() -> None:
    fields = [ReturnField(f"{name}_v", attribute(i, "v"), Kind.INTEGER) for i, name in enumerate("abc")]
    apart = Arithmetic(Kind.DURATION, "-", attribute(1, "time", Kind.TIME), attribute(0, "time", Kind.TIME))
    query = replace(plan([A, B, C], within=5, returns=[*fields, ReturnField("took", apart, Kind.DURATION)]), on_timeout="emit")
    engine = StacksEngine(query)
    matches, _ = engine.feed(*stream("0 A 1 7, 2 B 1 8, 3 C 1 9"), Watermarks(4))
    assert len(matches) == 1
    assert engine.timeouts is not None
    assert len(engine.timeouts) == 0
    engine.feed(*stream(""), Watermarks(5))
    late = engine.timeouts
    assert late is not None
    assert late.time.tolist() == [5, 5]
    assert late.rows.tolist() == [[0, -1, -1], [0, 1, -1]]

    def column(name: str) -> list[int | None]:
        found = late.fields[name]
        state = [0, 0] if found.state is None else found.state.tolist()
        return [None if s else v for s, v in zip(state, found.values.tolist(), strict=True)]

    assert [column(name) for name in ("a_v", "b_v", "c_v", "took")] == [[7, 7], [None, 8], [None, None], [None, 2]]
    assert late.key["k"].values.tolist() == [1, 1]


def bound_offsets(timeouts: Matches) -> list[list[int]]:
    return [[int(timeouts.events.offset[row]) for row in rows if row >= 0] for rows in timeouts.rows.tolist()]


def test_a_negation_that_hangs_on_an_unbound_event_rules_no_partial_match_out() -> None:
    last = Item(3, "d", ("X",))
    join = JoinPredicate(Comparison("=", attribute(1, "v"), attribute(3, "v")), (1, 3), negated_item=1)
    query = replace(plan([A, not_(B), C, last], within=5, joins=[join]), on_timeout="emit")
    engine = StacksEngine(query)
    engine.feed(*stream("0 A 1 7, 1 B 1 7, 2 C 1 0, 5 A 1 0"), Watermarks(-10))
    assert engine.timeouts is not None
    assert len(engine.timeouts) == 0
    engine.feed(*stream(""), Watermarks(6))
    assert bound_offsets(engine.timeouts) == [[0], [0, 2]]
    bare = StacksEngine(replace(query, joins=()))
    bare.feed(*stream("0 A 1 7, 1 B 1 7, 2 C 1 0"), END)
    assert bare.timeouts is not None
    assert bound_offsets(bare.timeouts) == [[0]]


def test_tally_counts_what_happened() -> None:
    engine = StacksEngine(plan([A, B], within=5))
    _, tally = engine.feed(*stream("0 A, 1 X, 2 B, 3 B 9"), Watermarks(4))
    assert (tally.events, tally.candidates, tally.stored, tally.pushed, tally.matches) == (4, 3, 2, 1, 1)
    _, tally = engine.feed(*stream(""), Watermarks(10))
    assert (tally.evicted, tally.live_events) == (2, 0)
