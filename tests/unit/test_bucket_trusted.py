"""Streams of trusted order: what a bucket remembers of their keys, and who is late."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.compile import compile_texts
from app.query.plan import Catalog
from tests.naive.language import Equivalence, Item, Query, yaml_text
from tests.property.event_arrays import stream_schema

RULES = TimeRules("input", 0, ordered_by="k")
WITHIN_MS = 2_000


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    known = {"A": {"k": "integer"}}
    query = Query((Item(("A",), "a"), Item(("A",), "b")), equivalence=(Equivalence("k"),), within=WITHIN_MS)
    compiled = compile_texts([("q.yaml", yaml_text(query, "input"))], {"input": stream_schema(known)})
    assert not compiled.errors
    return compiled.catalog


def events(time, key, source: int = 0, first_offset: int = 0) -> EventBatch:
    time, key = np.asarray(time, dtype=np.int64), np.asarray(key, dtype=np.int64)
    kind = Column(Kind.STRING, np.zeros(len(time), dtype=np.int32), None, Dictionary.of([b"A"]))
    places = np.full(len(time), source, dtype=np.int64), first_offset + np.arange(len(time))
    return EventBatch(time, *places, kind, {"k": Column(Kind.INTEGER, key)})


class Stage:
    """One ingress task and one bucket."""

    def __init__(self, catalog: Catalog) -> None:
        self.ingress, self.bucket = IngressPlan(catalog, RULES, 1), Bucket(catalog, [RULES], 0)
        self.greatest: dict[int, int] = {}
        self.late: list[tuple[int, int]] = []
        self.matches = 0

    def micro_batch(self, *parts: EventBatch, idle: frozenset[int] = frozenset()) -> None:
        progress = Progress(dict(self.greatest), frozenset(self.greatest), idle)
        chunks = []
        for batch in parts:
            ingested = self.ingress.ingest(batch, progress)
            self.late += [(int(batch.source[row]), int(batch.offset[row])) for row in ingested.late]
            self.greatest |= ingested.judgement.greatest_times
            chunks += ingested.chunks
        output = self.bucket.advance(chunks, progress)
        self.bucket.validate()
        self.late += [(int(source), int(offset)) for source, offset in output.late]
        self.matches += sum(len(found.matches) for found in output.found)

    @property
    def order(self):
        (state,) = self.bucket._groups.values()
        return state.order


@pytest.mark.slow
def test_memory_follows_the_window_and_not_the_keys_ever_seen(catalog: Catalog) -> None:
    stage = Stage(catalog)
    for first in range(0, 1_000_000, 10_000):
        at = np.arange(first, first + 10_000)
        stage.micro_batch(events(at, at, first_offset=first))
        assert len(stage.order) <= 40_000, "10,000 of the batch, and what came since keys were last forgotten"
    assert len(stage.bucket.snapshot()) < 500_000
    assert stage.late == []


def test_an_event_before_its_keys_predecessor_is_late_whether_or_not_the_key_was_forgotten(catalog: Catalog) -> None:
    """Key 7 was last seen at 0. Of two events from before, one comes when it is still known; the other when time has left it far behind."""
    stage = Stage(catalog)
    stage.micro_batch(events([1_000], [7]))
    stage.micro_batch(events([999], [7], first_offset=1))
    stage.micro_batch(events(np.arange(10_000, 20_000), np.arange(10_000, 20_000), first_offset=2))
    stage.micro_batch(events(np.arange(20_000, 40_000), np.arange(20_000, 40_000), first_offset=10_002))
    assert len(stage.order) < 30_001, "some were forgotten, the oldest first"
    stage.micro_batch(events([999], [7], first_offset=30_002))
    assert stage.late == [(0, 1), (0, 30_002)]


def test_a_partition_that_was_left_out_as_idle_cannot_bring_back_what_was_forgotten(catalog: Catalog) -> None:
    stage = Stage(catalog)
    stage.micro_batch(events([1_000, 1_000], [7, 8], source=1), events([1_000], [5]))
    stage.micro_batch(events(np.arange(2_000, 9_000), np.arange(2_000, 9_000), first_offset=1), idle=frozenset((1,)))
    stage.micro_batch(events([999, 1_500, 9_000, 9_001], [7, 8, 7, 7], source=1, first_offset=2))
    assert stage.late == [(1, 2), (1, 3)], "below the watermark less the window, whatever is known of their keys"
    assert stage.matches == 1


def test_forgetting_is_the_same_however_the_input_is_cut(catalog: Catalog) -> None:
    rng = np.random.default_rng(3)
    time = np.arange(30_000) + rng.integers(-900, 1, 30_000)
    key = rng.integers(0, 6_000, 30_000)
    answers = []
    for cuts in ([30_000], [5_000] * 6, [1, 999, 14_000, 15_000]):
        stage, first = Stage(catalog), 0
        for size in cuts:
            stage.micro_batch(events(time[first : first + size], key[first : first + size], first_offset=first))
            first += size
        answers.append(
            (sorted(stage.late), stage.matches, stage.order.contents(stage.bucket._floor(*stage.bucket._groups.values()))[0].tolist())
        )
    assert answers[0][0] and answers[0] == answers[1] == answers[2]


BOTH_KEYS = {"A": {"k": "integer", "s": "integer"}}
OF = 'name: {name}\nfrom: input\nevent: SEQ(A a, A b)\nwhere: "{keys}"\nwithin: 2 s\n'


def told_late(*keys: str, time: list[int], k: list[int], s: list[int]) -> tuple[list[tuple[int, int]], int]:
    """Places that buckets tell late, one by one, and how many matches there are; each query is a group of its own."""
    texts = [(f"{n}.yaml", OF.format(name=f"q{n}", keys=one)) for n, one in enumerate(keys)]
    compiled = compile_texts(texts, {"input": stream_schema(BOTH_KEYS)})
    assert not compiled.errors
    assert len(compiled.catalog.groups) == len(keys)
    buckets = 3
    ingress, all_ = IngressPlan(compiled.catalog, RULES, buckets), [Bucket(compiled.catalog, [RULES], n) for n in range(buckets)]
    greatest: dict[int, int] = {}
    told, matches = [], 0
    for row in range(len(time)):
        batch = events([time[row]], [k[row]], first_offset=row)
        batch = replace(batch, columns={**batch.columns, "s": Column(Kind.INTEGER, np.array([s[row]]))})
        progress = Progress(dict(greatest), frozenset(greatest))
        ingested = ingress.ingest(batch, progress)
        greatest |= ingested.judgement.greatest_times
        for bucket, chunk in zip(all_, ingested.chunks, strict=True):
            output = bucket.advance([chunk], progress)
            told += [(int(source), int(offset)) for source, offset in output.late]
            matches += sum(len(found.matches) for found in output.found)
    return told, matches


def test_an_event_that_is_late_for_its_key_is_told_once_however_many_groups_it_is_late_for() -> None:
    stream = {"time": [1_000, 500, 1_500], "k": [7, 7, 7], "s": [1, 1, 1]}
    for keys in (["[k]"], ["[k]", "[k] AND [s]"], ["[k] AND [s]", "[k]"]):
        assert told_late(*keys, **stream) == ([(0, 1)], len(keys)), keys


def test_an_event_that_another_group_matches_is_not_late() -> None:
    """A group that does not go by the key waits for the watermark: in its order nothing is late here, as far as lateness allows."""
    lateness = 5_000
    rules = replace(RULES, allowed_lateness_ms=lateness)
    texts = [("a.yaml", OF.format(name="trusted", keys="[k]")), ("b.yaml", OF.format(name="waits", keys="[s]"))]
    compiled = compile_texts(texts, {"input": stream_schema(BOTH_KEYS)})
    ingress, bucket = IngressPlan(compiled.catalog, rules, 1), Bucket(compiled.catalog, [rules], 0)
    batch = events([1_000, 500], [7, 7])
    batch = replace(batch, columns={**batch.columns, "s": Column(Kind.INTEGER, np.array([1, 1]))})
    ingested = ingress.ingest(batch, Progress({}))
    first = bucket.advance(ingested.chunks, Progress({}))
    end = bucket.advance([], Progress({0: 100_000}, frozenset({0})))
    assert len(first.late) == len(end.late) == 0
    found = {
        compiled.catalog.plans[one.query].name: len(one.matches) for output in (first, end) for one in output.found if len(one.matches)
    }
    assert found == {"waits": 1}


@pytest.mark.parametrize(("window", "late", "matches"), [("max_gap: 2 s", 0, 1), ("max_gap: 2 s\nwithin: 2 s", 1, 0)])
def test_a_silent_key_may_go_on_however_late_unless_every_query_has_a_window_in_time(window: str, late: int, matches: int) -> None:
    """Key 0 sends its second event, a second behind its first one, when all others are 50 s ahead; a pattern of two events spans no more than its gap."""
    text = f"name: q\nfrom: input\nevent: SEQ(A a, A b)\nwhere: '[k]'\n{window}\n"
    compiled = compile_texts([("q.yaml", text)], {"input": stream_schema({"A": {"k": "integer"}})})
    assert not compiled.errors
    stage, keys = Stage(compiled.catalog), 5_000
    for first in range(0, keys, 1_000):
        at = np.arange(first, first + 1_000)
        stage.micro_batch(events(10 * at, at, first_offset=first))
    remembered = len(stage.order.contents(stage.bucket._floor(*stage.bucket._groups.values()))[0])
    assert remembered == keys if not late else remembered < 1_500, "the keys of a batch, and of the window before it"
    stage.micro_batch(events([1_000], [0], first_offset=keys))
    assert (len(stage.late), stage.matches) == (late, matches)
