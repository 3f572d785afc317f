"""Plans that are chains: their own engine finds what the definitions say, and in every detail what the runs evaluator finds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from app.asc.selection import Selection
from app.cep.chains import store
from app.cep.chains.engine import ChainsEngine
from app.cep.engine import EngineOptions, Watermarks
from app.cep.matches import Matches
from app.cep.runs.engine import RunsEngine
from app.events.batch import Column
from app.query.compile import compile_texts
from app.query.plan import Catalog, Plan
from app.query.planning.chains import chain_of
from tests.naive.inputs import types_of
from tests.naive.language import Aggregate, Arith, Attr, Call, Compare, Const, Element, Equivalence, Event
from tests.naive.patterns import Absence, Item, Quantifier, Seq, Span, WholeQuery, Window, items_of, yaml_text
from tests.naive.whole import composite_events
from tests.property.application_way import END
from tests.property.event_arrays import _cells, event_batch, stream_schema
from tests.property.test_whole_language import Lines, comparable, replayed
from tests.property.test_whole_language import told as shown_case
from tests.property.whole_language import COMPARISONS, chance, is_valid_for, streams

KNOWN = {
    "A": {"k": "integer", "v": "integer", "w": "float", "s": "string"},
    "B": {"k": "integer", "v": "integer", "w": "float"},
    "C": {"k": "integer", "v": "integer", "s": "string"},
}
VALUES: dict[str, list[Any]] = {
    "k": [1, 1, 2, "x"],
    "v": [0, 1, 2, 3, 2**62],
    "w": [-0.0, 0.0, 0.5, 1.0, 2.0, float("nan")],
    "s": ["x", "y", "X"],
}
WAYS = ["skip-till-next-match", "skip-till-next-match", "partition-contiguity", "strict-contiguity"]
QUANTIFIERS = [Quantifier(1, None), Quantifier(1, None), Quantifier(1, None), None, Quantifier(2, None), Quantifier(2, 3), Quantifier(1, 2)]


class Author:
    """Draws one chain, over attributes ``v`` (and ``w`` and ``s`` where ``wide``)."""

    def __init__(self, draw: st.DrawFn, *, wide: bool) -> None:
        self.draw, self.wide = draw, wide
        self.names = "abc"[: draw(st.sampled_from([1, 2, 2, 2, 3]))]
        quantifier = draw(st.sampled_from(QUANTIFIERS))
        self.closure = self.names[-1] if quantifier else ""
        items: list[Any] = [Item(self.types(), name, quantifier if name == self.closure else None) for name in self.names]
        self.repeated: set[str] = set()
        for k, name in enumerate(self.names):
            if name == self.closure or not chance(draw, 20):
                continue
            if draw(st.booleans()):
                types, by = draw(st.sampled_from([("A", "B"), ("A", "C"), ("A", "B", "C")])), draw(st.sampled_from([None, "k", "v", "s"]))
                items[k] = Item(types[: draw(st.integers(1, 3))] if by else types, name, None, count=2, by=by)
                self.repeated.add(name)
            elif k < len(self.names) - 1:
                items[k] = Item(self.types(), name, Quantifier(2, 2))
                self.repeated.add(name)
        # a negated item in front of the k-th one, or behind all
        places = [*([0] if chance(draw, 50) else range(1, len(items))), *([len(items)] * (not self.closure))]
        self.negated = draw(st.sampled_from(places)) if places and chance(draw, 55) else -1
        self.waits = self.negated == len(items)
        self.lasting = lasting = draw(st.integers(1, 6)) if self.waits and chance(draw, 40) else None
        if self.negated >= 0:
            items.insert(self.negated, Absence((Item(self.types(), "n"),), lasting))
        # what ends the closure is of other types than it
        self.closing = "z" if self.closure and chance(draw, 35) else ""
        if self.closing:
            others = sorted(set(KNOWN) - set(items[-1].types))
            items.append(Item(tuple(draw(st.lists(st.sampled_from(others), min_size=1, unique=True))), self.closing))
        self.pattern = Seq(tuple(items))
        self.kind = "waits" if self.waits else draw(st.sampled_from(["plain", "plain", "timeouts", *["window"] * (self.negated != 0)]))
        if self.closing and self.kind == "timeouts":
            self.kind = "plain"
        self.timed = lasting is None and (self.waits or self.negated == 0)

    def types(self) -> tuple[str, ...]:
        return tuple(self.draw(st.lists(st.sampled_from("AABC"), min_size=1, max_size=2, unique=True)))

    def query(self) -> WholeQuery:
        draw, kind = self.draw, self.kind
        gap = draw(st.integers(1, 6)) if chance(draw, 25) else None
        timeouts = kind == "timeouts" and len(self.names) > 1
        ways = {f"{name}[]" * (name == self.closure) or name: draw(st.sampled_from(WAYS)) for name in self.names[1:] if chance(draw, 15)}
        strategy = "skip-till-next-match" if timeouts or self.negated > 0 else draw(st.sampled_from(WAYS))
        if self.closing:
            ways[self.closing] = ways.get(f"{self.closure}[]", strategy)
        within = Span(draw(st.integers(2, 12))) if kind != "window" and (timeouts or self.timed or chance(draw, 80)) else None
        if within is not None and kind != "window" and self.lasting is None and chance(draw, 40):
            within = Span(draw(st.integers(1, 6)), "events")
        unit = draw(st.sampled_from(["ms", "events"]))
        size = draw(st.integers(1, 8))
        window = Window(Span(size, unit), Span(draw(st.integers(1, size)), unit)) if kind == "window" else None
        skips = ["skip-past-last-event", "skip-to-next"]
        skips += [f"skip-to-{end} {name}" for end in ("first", "last") for name in self.names[1:] if not self.closing]
        return WholeQuery(
            self.pattern,
            (Equivalence("k"),) if chance(draw, 70) else (),
            (*(self.predicate() for _ in range(draw(st.sampled_from([0, 1, 1, 2, 2, 3])))), *self.of_negated()),
            within=within,
            window=window,
            max_gap=gap,
            timeouts=timeouts,
            after=draw(st.sampled_from(skips)) if kind == "plain" and chance(draw, 40) else "no-skip",
            longest=kind == "plain" and within is not None and chance(draw, 30),
            strategy=strategy,
            ways={} if timeouts else ways,
            returns=tuple((f"f{k}", self.field()) for k in range(3)) if chance(draw, 60) else None,
        )

    def of_negated(self) -> tuple[Compare, ...]:
        """What the negated item is compared with: an item in front of it."""
        if self.negated < 0 or chance(self.draw, 30):
            return ()
        if not self.negated:
            return (Compare(">", Attr("n", "v"), Const(self.draw(st.integers(0, 2)), "integer")),) if chance(self.draw, 30) else ()
        name = self.attribute()
        own = self.draw(st.sampled_from(self.names[: self.negated]))
        anchor = self.draw(st.sampled_from(["first", "last", 2]))
        sides = [Attr("n", name), self.changed(Element(own, anchor, name) if own in self.repeated else Attr(own, name))]
        left, right = self.draw(st.permutations(sides))
        return (Compare(self.draw(st.sampled_from(["=", "!="] if name in ("s", "type") else COMPARISONS)), left, right),)

    def predicate(self) -> Compare:
        name = self.attribute()
        if self.closing and chance(self.draw, 50):
            lasts = [Element(self.closure, "last", name), Aggregate("last", self.closure, name)]
            sides = [Attr(self.closing, name), self.draw(st.sampled_from([*self.earlier(name), *lasts]))]
        elif self.closure and chance(self.draw, 60):
            one = self.draw(
                st.sampled_from([Element(self.closure, "i", name), Element(self.closure, "i", name, 1), *[None] * (not self.closing)])
            )
            others = self.earlier(name) if one is None else [Element(self.closure, "i", name, 1), *self.earlier(name)]
            last = self.draw(st.sampled_from([Element(self.closure, "last", name), Aggregate("last", self.closure, name)]))
            sides = [one or last, self.draw(st.sampled_from(others))]
        else:
            sides = [self.draw(st.sampled_from(self.earlier(name))) for _ in range(2)]
            for one in sorted(self.repeated) if chance(self.draw, 50) else ():
                # all of its events, perhaps each with the one before
                sides = [Element(one, "i", name), self.draw(st.sampled_from([*self.earlier(name), Element(one, "i", name, 1)]))]
        left, right = (self.changed(side) for side in self.draw(st.permutations(sides)))
        textual = name in ("s", "type")
        return Compare(self.draw(st.sampled_from(["=", "!="] if textual else COMPARISONS)), left, right)

    def attribute(self) -> str:
        return str(self.draw(st.sampled_from(["v", "v", "v", "time", *(["w", "w", "s", "type"] if self.wide else [])])))

    def earlier(self, name: str) -> list[Any]:
        """Events that are known when the closure binds one."""
        own = [Element(self.closure, anchor, name) for anchor in ("first", 1)] if self.closure else []
        plain = [one for one in self.names if one != self.closure and one not in self.repeated]
        anchors = [Element(one, anchor, name) for one in sorted(self.repeated) for anchor in ("first", "last", 2)]
        return [*(Attr(one, name) for one in plain), *anchors, *own]

    def changed(self, side: Any) -> Any:
        """The side, or something computed of it alone."""
        if not self.wide or not chance(self.draw, 25):
            return side
        if side.name == "s":
            return Call("lower", (side,))
        if side.name == "v":
            return Arith("*", side, self.draw(st.sampled_from([Const(2, "integer"), Const(1.5, "float"), side])))
        return side

    def told_earlier(self, name: str) -> list[Any]:
        """Of these, what partial matches have too where they are told: their last event of an item that binds so many may be another one."""
        last = [Element(one, "last", name) for one in self.repeated] if self.kind == "timeouts" else []
        return [one for one in self.earlier(name) if one not in last]

    def field(self) -> Any:
        name = self.attribute()
        if self.repeated and chance(self.draw, 50):
            one = self.draw(st.sampled_from(sorted(self.repeated)))
            made = [Attr(one, name), Element(one, 2, name), Aggregate("count", one)]
            if self.kind != "timeouts":
                made += [Element(one, "last", name), Aggregate("last", one, name)]
            if name in "vw":
                made += [Aggregate(self.draw(st.sampled_from(["sum", "avg", "min", "max", "first"])), one, name)] * 2
            return self.draw(st.sampled_from(made))
        if not self.closure:
            own = self.told_earlier(name)
            return self.draw(st.sampled_from(own or [Element(self.names[0], "first", name)]))
        last = [Element(self.closure, "last", name, back) for back in (0, 1)]
        if name in "vw":
            functions = ["sum", "avg", "min", "max", "first", "last"]
            last += [Aggregate(self.draw(st.sampled_from(functions)), self.closure, name)] * 3
        plain = [
            *self.told_earlier(name),
            *last,
            Attr(self.closing, name) if self.closing else Element(self.closure, 2, name),
            Attr(self.closure, name),
            Aggregate("count", self.closure),
        ]
        made = self.draw(st.sampled_from(plain))
        if name == "v" and isinstance(made, Element) and chance(self.draw, 30):
            return Arith("-", made, self.draw(st.sampled_from(self.told_earlier(name))))
        return made


@st.composite
def chains(draw: st.DrawFn, *, wide: bool) -> WholeQuery:
    return Author(draw, wide=wide).query()


def plan_of(text: str) -> Plan:
    compiled = compile_texts([("q.yaml", text)], {"input": stream_schema(KNOWN)})
    assume(not any("has no attribute" in finding.message for finding in compiled.errors))
    assert not compiled.errors, "\n".join(finding.render() for finding in compiled.errors)
    return compiled.catalog.plans[0]


def needs_runs(query: WholeQuery) -> bool:
    """Whether any way is judged: a single item has none."""
    positive = [one for one in query.pattern.items if isinstance(one, Item)]
    return len(positive) > 1 or positive[0].quantifier is not None


@given(st.data())
def test_chains_find_what_the_naive_engine_finds(data: st.DataObject) -> None:
    query = data.draw(chains(wide=False).filter(needs_runs))
    lines = data.draw(streams(query, most=12))
    assume(is_valid_for(query, lines))
    # of types that never occur nothing is known: what asks for them is null, and no value of an event
    assume({name for item in items_of(query.pattern) for name in item.types} <= {line["type"] for line in lines})
    check_without_runs(query, lines)


def check_without_runs(query: WholeQuery, lines: Lines) -> None:
    """What the naive engine finds is found, and not by the general way."""
    note(shown_case(query, lines))
    with patch("app.cep.runs.engine.RunsEngine.feed", side_effect=AssertionError("the general way was taken")):
        written = replayed(query, lines)
    expected = composite_events(query, lines, types_of(lines))
    event("matches" if expected else "no match")
    assert written is not None
    assert comparable(written) == comparable(expected)


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    """In total order, with ties, nulls, keys that are no key, and events of two topic partitions."""
    time, made = 0, []
    for offset in range(draw(st.integers(1, 24))):
        time += draw(st.sampled_from([0, 1, 1, 2]))
        name = draw(st.sampled_from("AABC"))
        own = {attribute: None if chance(draw, 7) else draw(st.sampled_from(VALUES[attribute])) for attribute in KNOWN[name]}
        own["k"] = None if own["k"] == "x" else own["k"]
        made.append({"type": name, "time": time, "source": draw(st.integers(0, 1)), "offset": offset, "attributes": own})
    return sorted(made, key=lambda one: (one["time"], one["source"], one["offset"]))


def told_of(plan: Plan, matches: Matches) -> list[Any]:
    """What matches say."""
    bound = matches.constituents([item.index for item in plan.positive])
    columns = {**matches.fields, **{f"key {name}": column for name, column in matches.key.items()}}
    fields = {name: shown(column, len(matches)) for name, column in columns.items()}
    found = []
    for k in range(len(matches)):
        part = slice(bound.starts[k], bound.starts[k + 1])
        own = bound.rows[part]
        places = zip(bound.items[part].tolist(), matches.events.source[own].tolist(), matches.events.offset[own].tolist(), strict=True)
        window = None if matches.windows is None else int(matches.windows[k])
        found.append((list(places), int(matches.time[k]), window, {name: cells[k] for name, cells in fields.items()}))
    return found


def told_by(engine: ChainsEngine | RunsEngine, batch: list[Event], watermark: int, *, live: bool) -> list[Any]:
    """All that a feed says: matches in their order, timeouts, and what the tally counts in both engines (``live``: partial matches too)."""
    arrays = event_batch(batch, KNOWN)
    items = np.zeros(len(arrays), np.uint64)
    rows, masks = Selection(Catalog.of((engine.plan,)), "input").select(arrays).of_query(0)
    items[rows] = masks
    matches, tally = engine.feed(arrays, items, Watermarks(watermark))
    engine.validate()
    found = told_of(engine.plan, matches)
    timeouts = None if engine.timeouts is None else sorted(told_of(engine.plan, engine.timeouts), key=str)
    return [found, timeouts, tally.candidates, tally.matches, tally.live_events * live, tally.limited_matches, tally.limited_runs]


def shown(column: Any, count: int) -> list[str]:
    """A cell per match, as text: NaN is itself."""
    if hasattr(column, "starts"):
        cells = _cells(defined(column.values))
        return [str(cells[column.starts[k] : column.starts[k + 1]]) for k in range(count)]
    return [str(cell) for cell in _cells(defined(column))]


def defined(column: Column) -> Column:
    """What stands in a cell that is not present is undefined."""
    return column if column.state is None else replace(column, values=np.where(column.state == 0, column.values, 0))


@settings(max_examples=3 * settings.default.max_examples)
@given(st.data())
def test_both_engines_find_the_same_in_the_same_order(data: st.DataObject) -> None:
    query = data.draw(chains(wide=True).filter(needs_runs))
    plain = query.after == "no-skip" and not query.longest
    limited = data.draw(st.sampled_from(["", "limits: {matches_per_event: 1}\n", "limits: {partial_matches_per_partition: 2}\n"]))
    counted = query.within is not None and query.within.unit == "events"
    limits = limited * (plain and not counted and not any(isinstance(one, Absence) for one in query.pattern.items))
    text = yaml_text(query) + "from: input\n" + limits
    stream = data.draw(events())
    note(text + "".join(f"{one}\n" for one in stream))
    plan = plan_of(text)
    chain = chain_of(plan)
    assert chain is not None
    # what a negated event has ended the runs evaluator keeps until its window is over
    live = not chain.kills
    # matches that wait go out partition by partition
    ordered = plain and not chain.waits
    ends = sorted({*data.draw(st.lists(st.integers(1, len(stream)), max_size=3)), len(stream)})
    options = EngineOptions(chunk=data.draw(st.sampled_from([1, 3, 1000])))
    with patch.object(store, "ROOM", data.draw(st.sampled_from([1, 1024]))):
        engines: list[Any] = [ChainsEngine(plan, options), RunsEngine(plan, options)]
        begin, seen = 0, Counter[str]()
        found: list[list[Any]] = [[], []]
        for end in ends:
            watermark = END if end == len(stream) else stream[end]["time"]
            told = [told_by(engine, stream[begin:end], watermark, live=live) for engine in engines]
            # which of the matches are reported chains know earlier
            assert told[0] == told[1] or not ordered
            assert sorted(told[0][0], key=str) == sorted(told[1][0], key=str) or not plain
            for mine, own in zip(found, told, strict=True):
                mine.extend(own[0])
            seen["matches"] += len(told[0][0])
            seen["limited"] += told[0][-1] + told[0][-2]
            if data.draw(st.booleans()):
                engines = [type(engine).restore(plan, engine.snapshot(), options) for engine in engines]
            begin = end
    assert sorted(found[0], key=str) == sorted(found[1], key=str)
    event("matches" if seen["matches"] else "no match")
    if limits:
        event("limited" if seen["limited"] else "within limits")


@pytest.mark.parametrize("kind", [ChainsEngine, RunsEngine])
@pytest.mark.parametrize("ends", [[7], [4, 7], [1, 2, 3, 4, 5, 6, 7]])
@pytest.mark.parametrize("options", ["", "on_timeout: emit\n"])
def test_partial_matches_out_of_window_count_for_no_limit_wherever_batches_end(kind: Any, ends: list[int], options: str) -> None:
    text = 'name: q\nfrom: input\nevent: "SEQ(A a, B b, C c)"\nwhere: "[k] and b.v = a.v and c.v = a.v"\nwithin: 10 ms\nstrategy: skip-till-next-match\n'
    compiled = compile_texts([("q.yaml", text + options + "limits: {partial_matches_per_partition: 3}\n")], {"input": stream_schema(KNOWN)})
    (plan,) = compiled.catalog.plans
    # the one of 0 ms is lengthened and stands behind that of 5 ms; at 11 ms it is over, and that of 5 ms is lengthened
    told = [("A", 0, 1), ("A", 5, 2), ("B", 6, 1), ("A", 7, 3), ("B", 11, 2), ("C", 12, 2), ("C", 13, 3)]
    stream = [
        {"type": name, "time": time, "source": 0, "offset": offset, "attributes": {"k": 1, "v": v, "w": None, "s": None}}
        for offset, (name, time, v) in enumerate(told)
    ]
    engine, begin, times = kind(plan, EngineOptions(chunk=1000)), 0, []
    for end in ends:
        matches, *_, limited = told_by(engine, stream[begin:end], END if end == len(stream) else int(stream[end]["time"]), live=True)
        times += [one[1] for one in matches]
        assert limited == 0
        begin = end
    assert times == [12]


@pytest.mark.parametrize(("last", "matches"), [(9, 0), (10, 1)])
def test_a_partition_that_only_a_negated_start_asks_for_is_kept_until_that_is_over(last: int, matches: int) -> None:
    text = 'name: q\nfrom: input\nevent: "SEQ(!(B n), A a, C c)"\nwhere: "[k]"\nwithin: 10 ms\nstrategy: skip-till-next-match\n'
    (plan,) = compile_texts([("q.yaml", text)], {"input": stream_schema(KNOWN)}).catalog.plans
    times = {"B": 0, "A": 3, "C": last}
    own = {"k": 1, "v": 0, "w": 0.0, "s": "x"}
    stream = [
        {"type": name, "time": time, "source": 0, "offset": n, "attributes": {one: own[one] for one in KNOWN[name]}}
        for n, (name, time) in enumerate(times.items())
    ]
    engine, found = ChainsEngine(plan), 0
    for n, one in enumerate(stream):
        found += len(told_by(engine, [one], stream[min(n + 1, 2)]["time"], live=True)[0])
        engine = ChainsEngine.restore(plan, engine.snapshot())
    assert found == matches
    later = [{**stream[0], "time": 100, "offset": 3, "attributes": {**stream[0]["attributes"], "k": 2}}]
    told_by(engine, later, 200, live=True)
    told_by(engine, [{**later[0], "time": 300, "offset": 4}], 300, live=True)
    engine.snapshot()
    assert np.count_nonzero(engine.store.slots[:, 0] != -1) == 1, "the newest partition alone"
