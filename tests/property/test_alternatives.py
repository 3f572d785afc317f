"""Patterns with ORs that are a few sequences: matched apart they are what the definitions say, and in every detail and in its order what the runs evaluator finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from app.asc.selection import Selection
from app.bucket.hold import TimeRules
from app.bucket.identity import identities_of
from app.cep.alternatives.engine import AlternativesEngine
from app.cep.alternatives.order import order_of_runs
from app.cep.door import new_engine, restore_engine
from app.cep.engine import EngineOptions, Watermarks
from app.cep.runs.engine import RunsEngine
from app.query.compile import compile_texts
from app.query.plan import Catalog, Plan
from app.query.planning.alternatives import alternatives_of
from tests.naive.language import And, Equivalence, Event
from tests.naive.patterns import Item, OneOf, Seq, Span, WholeQuery, absences_of, items_of, yaml_text
from tests.property.application_way import END
from tests.property.event_arrays import event_batch, stream_schema
from tests.property.moving import World, moved
from tests.property.test_bucket_way import split
from tests.property.test_chains import check_without_runs, told_of
from tests.property.whole_language import DOMAINS, TYPES, chance, is_valid_for, negated_of, predicate, returned, streams, variables_of
from tests.property.whole_language import Author as WholeAuthor

KINDS = {"k": "integer", "v": "integer", "s": "string"}
KNOWN = {name: {attribute: KINDS[attribute] for attribute in own} for name, own in TYPES.items()}
EXAMPLES = settings(max_examples=2 * settings.default.max_examples)


class Author(WholeAuthor):
    """Draws sequences of single events, single negations and ORs, in each other."""

    def node(self, depth: int) -> Any:
        if depth >= 4 or self.budget <= 1:
            return self.item()
        kind = self.draw(st.sampled_from(["item", "item", "or", "or", "seq"] if depth < 3 else ["item", "item", "seq"]))
        if kind == "item":
            return self.item()
        return self.sequence(depth + 1) if kind == "seq" else self.several(depth + 1, [OneOf])

    def absences(self, percent: int) -> list[Any]:
        found = super().absences(percent)
        return [replace(one, parts=one.parts[:1]) for one in found] if percent > 10 else []

    def item(self) -> Item:
        self.budget -= 1
        types = tuple(self.draw(st.lists(st.sampled_from(self.types), min_size=1, max_size=2 if chance(self.draw, 20) else 1, unique=True)))
        return Item(types, next(self.names, None) if chance(self.draw, 92) else None)


@st.composite
def queries(draw: st.DrawFn) -> WholeQuery:
    keyed = chance(draw, 60)
    author = Author(draw, keyed, draw(st.sampled_from([3, 4, 5, 6])))
    pattern = Seq((author.item(), author.several(1, [OneOf]))) if chance(draw, 40) else author.pattern()
    if chance(draw, 30):
        pattern = Seq((pattern, author.item()))
    positive, negated = variables_of(pattern), negated_of(pattern)
    where = tuple(predicate(draw, positive, negated) for _ in range(draw(st.sampled_from([0, 1, 1, 2, 2, 3])) if positive else 0))
    if len(where) == 1 and not keyed and isinstance(where[0], And):
        where = where[0].operands
    bounded = any(absences_of(pattern)) or chance(draw, 75)
    return WholeQuery(
        pattern,
        (Equivalence("k"),) if keyed else (),
        where,
        within=Span(draw(st.integers(2, 12))) if bounded else None,
        returns=returned(draw, positive) if positive and chance(draw, 60) else None,
    )


def plans_of(query: WholeQuery) -> tuple[Plan, Plan]:
    """The query's plan, and the one for the runs evaluator."""
    plans = []
    for more in ("", "evaluator: runs\n"):
        compiled = compile_texts([("q.yaml", yaml_text(query) + "from: input\n" + more)], {"input": stream_schema(KNOWN)})
        assume(not any("has no attribute" in finding.message or "has the attribute" in finding.message for finding in compiled.errors))
        assert not compiled.errors, "\n".join(finding.render() for finding in compiled.errors)
        plans.append(compiled.catalog.plans[0])
    apart, whole = plans
    assume(apart.runs is not None)
    alternatives = alternatives_of(apart)
    event(f"{0 if alternatives is None else len(alternatives)} alternatives")
    assume(alternatives is not None)
    assert apart.fingerprint == whole.fingerprint
    return apart, whole


@st.composite
def events(draw: st.DrawFn, most: int = 24) -> list[Event]:
    """In total order, with ties, nulls, and events of two topic partitions."""
    time, made = 0, []
    for offset in range(draw(st.integers(1, most))):
        time += draw(st.sampled_from([0, 1, 1, 2]))
        name = draw(st.sampled_from(sorted(KNOWN)))
        own = {attribute: None if chance(draw, 5) else draw(st.sampled_from(DOMAINS[attribute])) for attribute in KNOWN[name]}
        made.append({"type": name, "time": time, "source": draw(st.integers(0, 1)), "offset": offset, "attributes": own})
    return sorted(made, key=lambda one: (one["time"], one["source"], one["offset"]))


def told_by(engine: Any, batch: Sequence[Event], watermark: int) -> list[Any]:
    """All that a feed says: matches and their identities, in their order, and what the tally counts in both engines."""
    arrays = event_batch(batch, KNOWN)
    items = np.zeros(len(arrays), np.uint64)
    rows, masks = Selection(Catalog.of((engine.plan,)), "input").select(arrays).of_query(0)
    items[rows] = masks
    matches, tally = engine.feed(arrays, items, Watermarks(watermark))
    engine.validate()
    assert engine.timeouts is None
    kinds = [(name, column.kind) for name, column in {**matches.fields, **matches.key}.items()]  # type: ignore[union-attr]
    return [told_of(engine.plan, matches), identities_of(engine.plan, matches, ["t"]), kinds, tally.events, tally.candidates, tally.matches]


def compared(data: st.DataObject, query: WholeQuery, stream: list[Event]) -> None:
    """Feeds both engines the stream as it stands, restarted now and then."""
    apart, whole = plans_of(query)
    options = EngineOptions(chunk=data.draw(st.sampled_from([1, 3, 1000])))
    engines: list[Any] = [AlternativesEngine(apart, options), RunsEngine(whole, options)]
    begin, found = 0, 0
    for end in sorted({*data.draw(st.lists(st.integers(1, len(stream)), max_size=4)), len(stream)}):
        watermark = min((one["time"] for one in stream[end:]), default=END)
        told = [told_by(engine, stream[begin:end], watermark) for engine in engines]
        assert told[0] == told[1]
        found += len(told[0][0])
        if data.draw(st.booleans()):
            engines = [type(engine).restore(engine.plan, engine.snapshot(), options) for engine in engines]
        begin = end
    event("matches" if found else "no match")


@EXAMPLES
@given(st.data())
def test_alternatives_find_what_runs_find_in_the_same_order(data: st.DataObject) -> None:
    query, stream = data.draw(queries()), data.draw(events())
    note(yaml_text(query) + "".join(f"{one}\n" for one in stream))
    compared(data, query, stream)


@given(st.data())
def test_alternatives_find_what_runs_find_in_a_trusted_order(data: st.DataObject) -> None:
    """Topic partitions come one after the other, each with all of the time; equal keys are in one of them."""
    query = data.draw(queries().filter(lambda one: one.equivalence))
    stream = [one for one in data.draw(events()) if one["attributes"].get("k") is not None]
    assume(stream and all("k" in TYPES[name] for absence in absences_of(query.pattern) for part in absence.parts for name in part.types))
    for one in stream:
        one["source"] = one["attributes"]["k"] % 2
    stream.sort(key=lambda one: (data.draw(st.integers(0, 1)), one["source"]))
    places = {source: [one for one in stream if one["source"] == source] for source in (0, 1)}
    for own in places.values():
        # in a topic partition the times of other keys may fall
        for offset, (one, time) in enumerate(zip(own, sorted(one["time"] for one in own), strict=True)):
            one["offset"], one["time"] = offset, time
    note(yaml_text(query) + "".join(f"{one}\n" for one in stream))
    compared(data, query, stream)


@given(st.data())
def test_alternatives_find_what_the_naive_engine_finds(data: st.DataObject) -> None:
    query = data.draw(queries())
    lines = data.draw(streams(query, most=12))
    assume(is_valid_for(query, lines))
    # of types that never occur nothing is known: what asks for them is null, and no value of an event
    assume({name for item in items_of(query.pattern) for name in item.types} <= {line["type"] for line in lines})
    plans_of(query)
    check_without_runs(query, lines)


@given(st.data())
def test_partitions_that_move_between_buckets_are_told_once(data: st.DataObject) -> None:
    query = data.draw(queries())
    stream = data.draw(events())
    note(yaml_text(query) + "".join(f"{one}\n" for one in stream))
    plan, whole = plans_of(query)
    steps = [[event_batch(tasks, KNOWN) for tasks in step] for step in split(data, stream)]
    changes = data.draw(st.sets(st.integers(1, len(steps)), min_size=1, max_size=2)) if steps else set()
    catalog, rules = Catalog.of((plan,)), TimeRules("input", 0)
    worlds = {step: World(catalog, data.draw(st.integers(1, 4))) for step in sorted({0, *changes})}
    found = moved(rules, steps, worlds)
    event("matches" if found[0] else "no match")
    assert found == moved(rules, steps, {0: World(Catalog.of((whole,)), 1)})


@given(st.data())
def test_a_state_of_runs_goes_on_as_runs(data: st.DataObject) -> None:
    """A running application that learns to match apart loses nothing of what it holds."""
    apart, whole = plans_of(query := data.draw(queries()))
    stream = data.draw(events())
    note(yaml_text(query) + "".join(f"{one}\n" for one in stream))
    half = len(stream) // 2
    engines = [new_engine(whole), new_engine(whole)]
    assert isinstance(engines[0], RunsEngine)
    for engine in engines:
        told_by(engine, stream[:half], stream[half]["time"])
    upgraded = restore_engine(apart, engines[0].snapshot())
    assert told_by(upgraded, stream[half:], END)[0] == told_by(engines[1], stream[half:], END)[0]


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4).map(tuple), unique=True, max_size=30), st.integers(1, 4))
def test_order_of_runs_is_that_of_its_definition(rows: list[tuple[int, ...]], items: int) -> None:
    """By the last event and the one before ascending, then descending and ascending in turn; stacks give all but the last one descending."""
    cut = sorted({row[:items] for row in rows}, key=lambda row: (row[-1], *(-one for one in row[-2::-1])))
    given_rows = np.array(cut, np.int64).reshape(-1, items)
    order = order_of_runs(given_rows)
    found = cut if order is None else [cut[k] for k in order.tolist()]
    assert found == sorted(cut, key=lambda row: (row[-1], *(one if k % 2 == 0 else -one for k, one in enumerate(row[-2::-1]))))
