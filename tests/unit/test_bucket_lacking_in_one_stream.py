"""One type name in two streams, of which one has no partition attribute: its negated events agree with every value, as those of any type without it."""

from __future__ import annotations

import pytest

from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.errors import Severity
from app.query.compile import compile_texts
from app.query.plan import Catalog
from tests.property.event_arrays import event_batch, stream_schema

HALL = 1 << 20
TYPES = {
    "rooms": {"A": {"room": "integer"}, "B": {"room": "integer"}, "C": {"room": "integer"}},
    "hall": {"C": {"level": "integer"}},
}
SCHEMAS = {name: stream_schema(types, name) for name, types in TYPES.items()}
RULES = [TimeRules("rooms", 0, topics=frozenset({0})), TimeRules("hall", 0, topics=frozenset({1}))]
QUERY = 'name: q\nfrom: [rooms, hall]\nevent: {event}\nwhere: "[room]"\nwithin: {within}\n{more}return: {{room: a.room}}\n'


def catalog_of(more: str) -> Catalog:
    compiled = compile_texts([("q.yaml", QUERY.format(event="SEQ(A a, !(C c), B b)", within="1 m", more=more))], SCHEMAS)
    assert not compiled.errors, compiled.errors
    return compiled.catalog


def matches(catalog: Catalog, called_off: tuple[str, int, dict[str, int]]) -> int:
    """How many there are of an A and a B, where an event comes between them."""
    stream, time, attributes = called_off
    given = {"rooms": [("A", 1_000, {"room": 1}), ("B", 3_000, {"room": 1})], "hall": []}
    given[stream].append(("C", time, attributes))
    begun = Progress({0: 0, HALL: 0}, frozenset({0, HALL}))
    bucket, chunks = Bucket(catalog, RULES, 0), []
    for rules, source in zip(RULES, (0, HALL), strict=True):
        rows = [
            {"type": kind, "time": time, "source": source, "offset": offset, "attributes": values}
            for offset, (kind, time, values) in enumerate(sorted(given[rules.stream], key=lambda one: one[1]))
        ]
        chunks += IngressPlan(catalog, rules, 1).ingest(event_batch(rows, TYPES[rules.stream]), begun).chunks if rows else []
    output = bucket.advance(chunks, Progress({0: 100_000, HALL: 100_000}, frozenset({0, HALL})))
    return sum(len(one.matches) for one in output.found)


@pytest.mark.parametrize("more", ["", "evaluator: runs\n", "strategy: skip-till-next-match\n"])
def test_a_negated_event_of_the_stream_without_the_attribute_agrees_with_every_value(more: str) -> None:
    catalog = catalog_of(more)
    assert [item.lacks for item in catalog.plans[0].items] == [(), ("room",), ()]
    assert matches(catalog, ("rooms", 2_000, {"room": 1})) == 0
    assert matches(catalog, ("rooms", 2_000, {"room": 2})) == 1
    assert matches(catalog, ("hall", 2_000, {"level": 7})) == 0
    assert matches(catalog, ("hall", 4_000, {"level": 7})) == 1


@pytest.mark.parametrize(
    ("event", "within", "message"),
    [
        ("SEQ(A a, C c, B b)", "1 m", 'event type "C" has no attribute "room" in the stream "hall"'),
        ("SEQ(!(AND(C c, B b)), A a)", "9 events", 'a negated C has no "room": it is in no partition'),
    ],
)
def test_what_no_type_without_the_attribute_may_be_no_type_of_one_stream_may(event: str, within: str, message: str) -> None:
    found = compile_texts([("q.yaml", QUERY.format(event=event, within=within, more=""))], SCHEMAS).findings
    assert [one.message.startswith(message) for one in found if one.severity is Severity.ERROR] == [True]
