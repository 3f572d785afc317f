"""Queries of one shape share an engine: each finds what it would find alone, whatever is restarted, added or taken away on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from unittest.mock import patch

from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from app.asc.selection import Selection
from app.bucket import family
from app.bucket.engines import new_engine, restore_engine
from app.bucket.family import families_of, shape_of
from app.bucket.matching import GroupMatching
from app.cep.engine import Watermarks
from app.cep.matches import Matches
from app.query.plan import Catalog, ConstantTest, Plan
from tests.naive.language import Equivalence, Event, Item, Query
from tests.property.application_way import END, Answer, answers, plan_of
from tests.property.event_arrays import event_batch
from tests.property.random_queries import Schemas, cuts, queries, schemas, streams
from tests.property.test_asc_lists import lists_of

LIVELY: Schemas = {"A": {"k": "integer", "s": "string"}, "B": {"k": "integer", "s": "string"}}
A, B, C = (Item(("A", "B"), name) for name in "abc")
SHAPES = [
    Query((A, B), within=6),
    Query((A, B, C), within=9),
    Query((A, Item(("B",), "n", negated=True), C), within=9),
    Query((A,), within=3),
    Query((A, B), (Equivalence("k"),), within=6),
    Query((A, Item(("B",), "n", negated=True), C), (Equivalence("k"), Equivalence("s")), within=9),
]


@st.composite
def variants(draw: st.DrawFn, known: Schemas) -> list[Plan]:
    """Plans that differ in constant tests only, if they are not of a random query's shape, and one of another shape."""
    shape = plan_of(draw(st.sampled_from(SHAPES)) if known is LIVELY else draw(queries(known)), known)
    plans = []
    for number in range(draw(st.integers(1, 4))):
        items = []
        for item in shape.items:
            value, operator = draw(st.integers(0, 3)), draw(st.sampled_from(["=", "!=", "<", ">="]))
            own = (ConstantTest("k", known["A"]["k"], operator, (value,)),) if known is LIVELY and draw(st.booleans()) else ()
            items.append(replace(item, tests=(*item.tests, *own)))
        plans.append(replace(shape, name=f"q{number}", items=tuple(items), fingerprint=f"q{number}"))
    return [*plans, replace(plan_of(draw(queries(known)), known), name="other", fingerprint="other")]


def answers_with_keys(plan: Plan, matches: Matches) -> Iterable[Answer]:
    """Answers with the partition key among the fields."""
    assert sorted(matches.key) == sorted(plan.equivalence) or not len(matches)
    return answers(plan, replace(matches, fields={**matches.fields, **{f"key {name}": column for name, column in matches.key.items()}}))


def found_alone(plan: Plan, known: Schemas, events: list[Event], ends: list[int], begin: int) -> Counter:
    """What an engine of the query's own finds of the events from ``begin`` on, with its state kept as bytes in between."""
    engine, seen = new_engine(plan), Counter()
    for end in ends:
        if end <= begin:
            continue
        batch = event_batch(events[begin:end], known)
        rows, items = Selection(Catalog.of((plan,)), "input").select(batch).of_query(0)
        spread = batch.time.astype("uint64") * 0
        spread[rows] = items
        matches, _ = engine.feed(batch, spread, Watermarks(END if end == len(events) else events[end]["time"]))
        seen += Counter(answers_with_keys(plan, matches))
        engine, begin = restore_engine(plan, engine.snapshot()), end
    return seen


@settings(max_examples=max(30, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_every_query_of_a_family_finds_what_it_finds_alone(data: st.DataObject) -> None:
    known = LIVELY if data.draw(st.booleans()) else data.draw(schemas())
    with lists_of(data.draw(st.sampled_from([0, 1 << 12]))), patch.object(family, "LEAST_PARTITIONED", data.draw(st.integers(1, 4))):
        check_a_family(data, known)


def check_a_family(data: st.DataObject, known: Schemas) -> None:
    plans = data.draw(variants(known))
    events = data.draw(streams(known))
    ends = [end for end in data.draw(cuts(len(events))) if end]
    note([(plan.name, plan.items) for plan in plans])
    note(events)
    newcomer = data.draw(st.integers(0, len(ends)))
    """The step before which the first query is deployed; the others are from the beginning."""
    found: dict[str, Counter] = {plan.name: Counter() for plan in plans}
    states: dict[str, bytes] = {}
    begin = 0
    for step, end in enumerate(ends):
        catalog = Catalog.of(tuple(plans if step >= newcomer else plans[1:]))
        batch = event_batch(events[begin:end], known)
        watermarks = Watermarks(END if end == len(events) else events[end]["time"])
        for group in catalog.groups:
            own = {query: states[catalog.plans[query].name] for query in group.queries if catalog.plans[query].name in states}
            matching = GroupMatching(catalog, group.number, own)
            selected = Selection(catalog, "input").select(batch)
            feed = data.draw(st.sampled_from([matching.feed_selected, matching.news_of_selected]))
            for one in feed(batch, selected, watermarks):
                assert one.tally.matches == len(one.matches)
                found[catalog.plans[one.query].name] += Counter(answers_with_keys(catalog.plans[one.query], one.matches))
            matching.validate()
            states |= {catalog.plans[query].name: b"".join(state) for query, state in matching.states()}
        begin = end
    late = ends[newcomer - 1] if newcomer else 0
    for plan in plans:
        assert found[plan.name] == found_alone(plan, known, events, ends, late if plan is plans[0] else 0), plan.name


def test_matches_of_partitioned_queries_bear_their_own_keys() -> None:
    """Many matches in one step, of several queries and keys in turn."""
    shape = plan_of(Query((A, B), (Equivalence("k"),), within=6), LIVELY)
    plans = []
    for number in range(3):
        own = (ConstantTest("k", LIVELY["A"]["k"], "!=", (number,)),)
        plans.append(
            replace(shape, name=f"q{number}", items=(replace(shape.items[0], tests=own), shape.items[1]), fingerprint=f"q{number}")
        )
    events: list[Event] = [
        {"type": "AB"[row % 2], "time": row // 4, "source": 0, "offset": row, "attributes": {"k": row // 2 % 5, "s": "x"}}
        for row in range(60)
    ]
    batch = event_batch(events, LIVELY)
    with patch.object(family, "LEAST_PARTITIONED", 1):
        catalog = Catalog.of(tuple(plans))
        (group,) = catalog.groups
        matching = GroupMatching(catalog, group.number)
    assert matching.shared
    found = matching.feed_selected(batch, Selection(catalog, "input").select(batch), Watermarks(END))
    for one in found:
        assert Counter(answers_with_keys(shape, one.matches)) == found_alone(plans[one.query], LIVELY, events, [len(events)], 0)
    assert sum(len(one.matches) for one in found) > 100


def test_few_partitioned_queries_have_engines_of_their_own_unless_their_state_is_that_of_a_family() -> None:
    one = replace(plan_of(Query((A, B), within=6), LIVELY), equivalence=("k",))
    plans = {query: replace(one, name=f"q{query}") for query in range(family.LEAST_PARTITIONED)}
    few = dict(list(plans.items())[1:])
    assert families_of(plans) == (plans,)
    assert families_of(few) == ()
    assert families_of(few, [2]) == (few,)


def test_what_waits_or_is_partitioned_by_what_an_item_lacks_has_an_engine_of_its_own() -> None:
    shared = plan_of(Query((A, B), within=6), LIVELY)
    assert shape_of(shared) == shape_of(replace(shared, name="other", fingerprint="other"))
    assert shape_of(replace(shared, within=None)) not in (None, shape_of(shared))
    for alone in (
        replace(shared, equivalence=("k",), items=(shared.items[0], replace(shared.items[1], lacks=("k",)))),
        replace(shared, on_timeout="emit"),
        replace(shared, items=(*shared.items, replace(shared.items[0], index=2, negated=True))),
        replace(shared, evaluator="runs"),
    ):
        assert shape_of(alone) is None
