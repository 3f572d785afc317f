"""Negated starts that reach back so many events of a partition, of types without the key (or with a part of it): the newest event decides."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import Phase, event, given, note, settings
from hypothesis import strategies as st

from app.asc.selection import Selection
from app.bucket.engines import new_engine, restore_engine
from app.bucket.hold import TimeRules
from app.bucket.recording import match_sorted
from app.cep.engine import Watermarks
from app.cep.runs import arrays as at
from app.cep.runs import store
from app.cep.runs.engine import RunsEngine
from app.events.batch import EventBatch, in_total_order, take
from app.files.gathering import parse_events
from app.query.compile import compile_texts
from app.query.plan import Catalog, Plan
from app.query.resolved.vocabulary import Streams
from tests.naive.inputs import types_of
from tests.naive.language import Attr, Compare, Const, Equivalence
from tests.naive.patterns import Absence, All, Item, OneOf, Quantifier, Seq, Span, WholeQuery
from tests.naive.whole import composite_events
from tests.property.application_way import END
from tests.property.test_bucket_whole_language import compiled, identities, in_steps, run
from tests.property.test_whole_language import comparable, replayed, told
from tests.property.whole_language import chance


@st.composite
def starts(draw: st.DrawFn) -> WholeQuery:
    """D lacks k; of k and v it has v, and E has k."""
    apart = chance(draw, 40)
    first = Item(("A",), "a", draw(st.sampled_from([None, None, Quantifier(1, None), Quantifier(0, 1, optional=True)])))
    second = Item(("B",), "b")
    negated = Absence((Item(draw(st.sampled_from([("D",), ("D",), ("D", "B")])), "n"),))
    inside: Any = Seq((negated, first, second))
    if chance(draw, 25):
        inside = draw(st.sampled_from([Seq((negated, OneOf((first, second)))), All((Item(("C",), "c"), Seq((negated, second))))]))
    elif chance(draw, 30):
        inside = Seq((negated, Item(("A",), "a"), Absence((Item(("D",), "m"),)), second))
    where = (Compare(">", Attr("n", "v"), Const(draw(st.integers(0, 1)), "integer")),) if chance(draw, 40) else ()
    return WholeQuery(
        inside,
        (Equivalence("k"), Equivalence("v")) if apart else (Equivalence("k"),),
        where,
        within=Span(draw(st.integers(1, 5)), "events"),
        strategy=draw(st.sampled_from(["skip-till-any-match", "skip-till-next-match", "partition-contiguity", "strict-contiguity"])),
        after=draw(st.sampled_from(["no-skip", "no-skip", "skip-past-last-event"])),
    )


@st.composite
def lines_with_d(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Every type occurs once with its attributes; later keys may be null."""
    lines: list[dict[str, Any]] = [{"type": "C", "k": 1, "v": 0}, {"type": "D", "v": 0}, {"type": "B", "k": 2, "v": 1}]
    for name in draw(st.lists(st.sampled_from("AAABBCD"), min_size=3, max_size=14)):
        key = {"k": draw(st.sampled_from([1, 1, 2, 2, 3, None]))}
        lines.append({"type": name, **(key if name != "D" else {}), "v": draw(st.integers(0, 2))})
    if not any(line["type"] == "A" and line["k"] is not None for line in lines):
        lines.append({"type": "A", "k": 1, "v": 1})
    time = 0
    for line in lines:
        time += draw(st.sampled_from([0, 1, 1, 2]))
        line["time"] = time
    return lines


@given(st.data())
def test_the_newest_event_outside_partitions_decides(data: st.DataObject) -> None:
    query, lines = data.draw(starts()), data.draw(lines_with_d())
    note(told(query, lines))
    with patch.object(store, "ROOM", data.draw(st.sampled_from([1, 256]))):
        written = replayed(query, lines)
    expected = composite_events(query, lines, types_of(lines))
    assert written is not None
    event(f"matches {bool(expected)}, prevented {len(composite_events(without_start(query), lines, types_of(lines))) > len(expected)}")
    assert comparable(written) == comparable(expected)


def without_start(query: WholeQuery) -> WholeQuery:
    """The query without its negation, where that stands in front of all (else itself)."""
    if isinstance(query.pattern, Seq) and isinstance(query.pattern.items[0], Absence):
        pattern = Seq(query.pattern.items[1:])
        names = {part.var for part in query.pattern.items[0].parts}
        return replace(query, pattern=pattern, where=tuple(one for one in query.where if one.left.var not in names))
    return query


@settings(max_examples=max(50, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_any_split_over_buckets_and_restarts_finds_the_same(data: st.DataObject) -> None:
    query, lines = data.draw(starts()), data.draw(lines_with_d())
    catalog, events = compiled(query, lines)
    batch = replace(events, source=np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(lines), max_size=len(lines))), np.int64))
    rules = TimeRules(catalog.plans[0].streams[0], 1_000_000)
    whole = identities(catalog, match_sorted(catalog, in_total_order(batch)).found)
    steps = in_steps(data, batch)
    restarts = data.draw(st.sets(st.integers(0, len(steps))))
    assert run(catalog, rules, steps, data.draw(st.integers(1, 3)), restarts) == whole


@given(st.data())
def test_an_engine_that_is_put_away_after_every_event_finds_the_same(data: st.DataObject) -> None:
    """What is put away is swept: neither the newest event outside partitions nor a partition that had events since may go."""
    query, lines = data.draw(starts()), data.draw(lines_with_d())
    catalog, events = compiled(query, lines)
    batch, (plan,) = in_total_order(events), catalog.plans
    whole = matches_of(plan, batch, [len(batch)])
    event("matches" if whole else "no match")
    assert matches_of(plan, batch, range(1, len(batch) + 1)) == whole


def matches_of(plan: Plan, batch: EventBatch, ends: Sequence[int]) -> Counter[tuple[int, ...]]:
    """Lines of the events of every match, of an engine that is put away between the pieces."""
    selection, engine = Selection(Catalog.of((plan,)), plan.streams[0]), new_engine(plan)
    found: Counter[tuple[int, ...]] = Counter()
    begin = 0
    for end in ends:
        piece, begin = take(batch, np.arange(begin, end)), end
        items = np.zeros(len(piece), np.uint64)
        rows, masks = selection.select(piece).of_query(0)
        items[rows] = masks
        matches, _ = engine.feed(piece, items, Watermarks(END if end == len(batch) else int(batch.time[end])))
        engine.validate()
        bound = matches.constituents([item.index for item in plan.positive])
        places = matches.events.offset[bound.rows].tolist()
        found += Counter(tuple(places[bound.starts[k] : bound.starts[k + 1]]) for k in range(len(matches)))
        engine = restore_engine(plan, engine.snapshot())
    return found


def test_of_a_thousand_events_outside_partitions_one_is_kept_and_a_partition_since_it_is_not_forgotten() -> None:
    text = 'name: q\nevent: "SEQ(!(D n), A a)"\nwhere: "[k]"\nwithin: 1 events\nevaluator: runs\n'
    lines: list[dict[str, Any]] = [{"type": "D", "v": k, "time": k} for k in range(1000)]
    lines += [{"type": "B", "k": 1, "time": 1000}, {"type": "A", "k": 1, "time": 1001}, {"type": "A", "k": 2, "time": 1002}]
    file = parse_events("".join(json.dumps(line) + "\n" for line in lines).encode())
    batch, (plan,) = file.batch, compile_texts([("q.yaml", text)], Streams(everything=file.schema)).catalog.plans
    assert matches_of(plan, batch, [1000, 1001, 1002, 1003]) == Counter([(1001,)])
    assert matches_of(plan, batch, [1003]) == Counter([(1001,)])
    engine = RunsEngine(plan)
    for begin in range(0, 1000, 100):
        engine.feed(take(batch, np.arange(begin, begin + 100)), np.ones(100, np.uint64), Watermarks(begin))
        engine = RunsEngine.restore(plan, engine.snapshot())
    assert engine.parts().store.state[at.NEGATED] == 1
