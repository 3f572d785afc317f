"""A bucket under another catalog: what did not change is not touched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.bucket.bucket import Bucket
from app.bucket.engines import taken_over
from app.bucket.family import GONE, Family, shape_of
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.cep.stacks.engine import StacksEngine
from app.errors import SnapshotError
from app.query.compile import compile_texts
from app.query.plan import Catalog, Draining, Plan, Shedding
from tests.naive.language import Equivalence, Query
from tests.property import test_composition
from tests.property.application_way import plan_of
from tests.property.event_arrays import event_batch, stream_schema
from tests.property.test_bucket_way import LIVELY, A, B, hand_over

RULES = TimeRules("input")
KEYED = replace(plan_of(Query((A, B), (Equivalence("k"),), within=9), LIVELY), name="keyed", fingerprint="keyed")
PLAIN = plan_of(Query((A, B), within=6), LIVELY)


def rule(name: str) -> Plan:
    return replace(PLAIN, name=name, fingerprint=name)


def engines(bucket: Bucket) -> dict[str, object]:
    """By query its engine, its family's where it has none of its own."""
    named: dict[str, object] = {}
    for state in bucket._groups.values():
        matching = state.matching
        named |= {matching._plans[query].name: engine for query, engine in matching.engines.items()}
        named |= {matching._plans[query].name: family._engine for query, family in matching._families.items()}
    return named


def test_engines_of_unchanged_queries_are_the_same_ones_whatever_number_they_have() -> None:
    bucket = Bucket(Catalog.of((KEYED, rule("q"), rule("r"))), [RULES], 0)
    before = engines(bucket)
    assert before["q"] is before["r"], "a family"
    after = bucket.reload(Catalog.of((replace(KEYED, title="another"), rule("a"), rule("r"), rule("z"))), [RULES])
    found = engines(after)
    assert found["keyed"] is before["keyed"]
    assert {found[name] for name in "arz"} == {before["r"]}
    changed = engines(after.reload(Catalog.of((replace(KEYED, fingerprint="new"), rule("r"))), [RULES]))
    assert changed["keyed"] is not before["keyed"]


def test_a_number_of_a_family_is_given_again_when_nothing_of_it_is_held() -> None:
    family = Family({4: rule("q"), 5: rule("r")})
    assert family.shape == shape_of(rule("new"))
    family.become({1: rule("r")}, {5: 1})
    assert family._queries == (GONE, 1)
    family.become({1: rule("r"), 0: rule("new")}, {1: 1})
    assert family._queries == (0, 1)
    family._live[0] = 1
    family.become({1: rule("r"), 3: rule("newer")}, {1: 1})
    assert family._queries == (GONE, 1, 3), "what is held of the query that went must not be found by another"


def test_a_family_that_lost_most_of_its_members_is_built_anew() -> None:
    family = Family({number: rule(f"q{number}") for number in range(5)})
    assert family.become({0: rule("q0"), 1: rule("q1")}, {0: 0, 1: 1}) is not family
    forgetful = Family({0: replace(rule("q"), within=None), 1: replace(rule("r"), within=None)})
    assert forgetful.become({0: replace(rule("q"), within=None)}, {0: 0}) is not forgetful, "nothing of it would ever be forgotten"


def test_another_latency_bound_leaves_the_engine_alone() -> None:
    engine = StacksEngine(PLAIN)
    assert taken_over(engine, PLAIN, replace(PLAIN, shedding=Shedding("gspice", 1000))) is engine


def test_a_query_that_others_begin_to_read_is_not_taken_over_and_the_bucket_stays_as_it_was() -> None:
    upper, lower = test_composition.UPPER[0], test_composition.LOWER[0]
    alone, read = test_composition.compiled([(upper, ("input",))]), test_composition.compiled([(upper, ("input",)), lower])
    bucket = Bucket(alone, [RULES], 0)
    before = bucket.snapshot()
    with pytest.raises(SnapshotError, match='query "u" lives elsewhere'):
        bucket.reload(read, [RULES])
    with pytest.raises(SnapshotError, match='query "u" lives elsewhere'):
        Bucket.restore(read, [RULES], 0, before)
    assert bucket.snapshot() == before


BOUNDED = """\
name: q
from: input
event: SEQ(A a, B+ b, A c)
where: "[k]"
strategy: skip-till-any-match
within: 9 ms
limits: {state_bytes: 4096}
"""


def test_what_an_old_version_holds_while_it_drains_is_not_what_the_limit_bounds() -> None:
    compilation = compile_texts([("q.yaml", BOUNDED)], {"input": stream_schema(LIVELY)})
    old = replace(compilation.catalog.plans[0], fingerprint="old")
    draining = Catalog.of((replace(old, version=2, fingerprint="new"), replace(old, draining=Draining())))
    events = [
        {"type": kind, "time": time, "source": 0, "offset": time, "attributes": {"k": 1}} for time, kind in enumerate("ABAABA", start=1)
    ]
    bucket, held = Bucket(Catalog.of((old,)), [RULES], 0), []
    for number, catalog in enumerate((Catalog.of((old,)), draining)):
        bucket = bucket.reload(catalog, [RULES])
        progress, chunks, greatest = Progress({0: 3 * number}, frozenset([0])), [[]], {}
        hand_over(
            IngressPlan(catalog, RULES, 1).ingest(event_batch(events[3 * number : 3 * number + 3], LIVELY), progress), chunks, greatest
        )
        output = bucket.advance(chunks[0], Progress(greatest, frozenset([0])))
        held.append({catalog.plans[one.query].version: (one.tally.live_events > 0, one.state_bytes > 0) for one in output.found})
    assert held == [{1: (True, True)}, {2: (True, True), 1: (True, False)}]
