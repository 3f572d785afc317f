"""Verdicts, against the definition: a composite event is false if, and only if, the queries do not find it where nothing is shed."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, assume, event, given, note, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.asc.selected import SelectedEvents
from app.audit.heavy_hitters import HeavyHitters
from app.audit.sample import GROUPS
from app.audit.verdicts import Verdict, Verdicts, control_sample, is_audited
from app.bucket.audited import forgotten
from app.bucket.bucket import Bucket
from app.bucket.engines import QueryEngine
from app.bucket.hold import NEVER, Progress, TimeRules
from app.bucket.identity import Outcome
from app.bucket.ingress import Gate, IngressPlan
from app.bucket.matching import NO_ENDINGS, Clock, Ended, Ending, Found, GroupMatching, no_clock
from app.bucket.recording import match_sorted
from app.bucket.rescale import rescaled
from app.bucket.route import partition_keys
from app.bucket.snapshot import DESCRIPTION, described, description_part, unpack_parts
from app.cep.engine import Watermarks
from app.cep.matches import Matches
from app.events.batch import EventBatch, in_total_order, take
from app.features.partial_matches import progress_of_items
from app.files.gathering import parse_events
from app.owners.endings import MatchShedder
from app.owners.least_progress import LeastProgress
from app.owners.verdicts import counted
from app.query.compile import compile_texts
from app.query.plan import Catalog, Plan
from app.query.resolved.vocabulary import Streams
from tests.naive.composites import CompositeEvent, composite_events
from tests.naive.patterns import yaml_text
from tests.property.test_bucket_whole_language import SOURCES, identities, in_steps
from tests.property.whole_language import is_valid_for, queries, streams

SHEDDING = "shedding: {{shedder: {}, latency_bound: 1 s}}\n"
ALONE = frozenset((0,))
Place = tuple[int, int]
Judged = tuple[Outcome, str, Verdict, Place]
"""What it is, identity of a composite event, what is said of it, and source and offset of what refutes it."""


def shedding(places: set[Place]) -> Gate:
    """Drops these events, whoever could use them."""

    def gate(batch: EventBatch, selected: SelectedEvents) -> SelectedEvents:
        rows = selected.relevant
        gone = [place in places for place in zip(batch.source[rows].tolist(), batch.offset[rows].tolist(), strict=True)]
        bitmaps = selected.bitmaps.copy()
        bitmaps[np.array(gone, np.bool_)] = 0
        return selected.with_bitmaps(bitmaps).without_empty()

    return gate


def fed(
    catalog: Catalog,
    rules: TimeRules,
    steps: list[list[EventBatch]],
    gate: Gate,
    buckets: int,
    restarts: set[int],
    clock: Clock = no_clock,
    look: Callable[[Bucket], None] = lambda _: None,
    endings: Mapping[int, Ending] = NO_ENDINGS,
) -> Iterator[Found]:
    """What is found, batch by batch; ``look``: is shown each bucket after each of its batches."""
    plan = IngressPlan(catalog, rules, buckets)
    states = [Bucket(catalog, [rules], number, ("t",)) for number in range(buckets)]
    greatest: dict[int, int] = {}
    for number, tasks in enumerate([*steps, []]):
        progress = Progress(greatest, SOURCES, closing=number == len(steps))
        ingested = [plan.ingest(batch, progress, gate) for batch in tasks]
        assert all(one.events == len(one.late) + one.irrelevant + one.shed + one.forwarded for one in ingested)
        chunks = [[packed for one in ingested for bucket, packed in one.packed() if bucket == own] for own in range(buckets)]
        news = [item for one in ingested for item in one.judgement.greatest_times.items()]
        greatest = greatest | {source: max(time, greatest.get(source, time)) for source, time in sorted(news, key=lambda item: item[1])}
        for bucket, own in enumerate(chunks):
            if number in restarts:
                states[bucket] = Bucket.restore(catalog, [rules], bucket, states[bucket].snapshot(), ("t",))
            yield from states[bucket].advance(own, progress, endings, clock).found
            look(states[bucket])


def judged(catalog: Catalog, found: Iterable[Found]) -> Iterator[Judged]:
    """What is said of it: of matches, and of timeouts."""
    for one in found:
        told: list[tuple[Outcome, Matches | None, Verdicts | None]] = [
            ("match", one.matches, one.verdicts),
            ("timeout", one.timeouts, one.timeout_verdicts),
        ]
        for kind, matches, verdicts in told:
            if matches is None:
                continue
            made = [composite.id for composite in composite_events(catalog.plans[one.query], matches, ("t",), kind)]
            codes = np.zeros(len(made), np.uint8) if verdicts is None else verdicts.codes
            by = np.full((len(made), 2), -1) if verdicts is None else verdicts.refuted_by
            yield from ((kind, name, Verdict(code), (int(s), int(o))) for name, code, (s, o) in zip(made, codes.tolist(), by, strict=True))


@dataclass(frozen=True)
class Case:
    """A query and a stream of events, as sorted by time, some of which are shed."""

    catalog: Catalog
    batch: EventBatch
    gone: set[Place]

    @property
    def plan(self) -> Plan:
        return self.catalog.plans[0]


def letters(chance: random.Random, count: int, gap: int, keys: int) -> list[dict[str, Any]]:
    """So many events of types A, B and C, less than ``gap`` ms apart."""
    time, lines = 0, []
    for _ in range(count):
        time += chance.randrange(gap)
        lines.append({"type": chance.choice("ABC"), "time": time, "k": chance.randrange(keys), "v": chance.randrange(4)})
    return lines


def case_of(
    text: str, lines: Sequence[Mapping[str, object]], sources: Sequence[int], shed: Sequence[bool], *, shedder: str = "random"
) -> Case | None:
    """None where the query is refused."""
    file = parse_events("".join(json.dumps(line) + "\n" for line in lines).encode())
    compiled = compile_texts([("q.yaml", text + SHEDDING.format(shedder))], Streams(everything=file.schema))
    if compiled.errors:
        return None
    batch = in_total_order(replace(file.batch, source=np.array(sources, np.int64)))
    places = zip(batch.source.tolist(), batch.offset.tolist(), strict=True)
    return Case(compiled.catalog, batch, {place for place, gone in zip(places, shed, strict=True) if gone})


def checked(case: Case, steps: list[list[EventBatch]], buckets: int, restarts: set[int]) -> Counter[tuple[Outcome, Verdict]]:
    """Compares what is said with what is so; gives back how often what was said."""
    truth = {key[2] for key in identities(case.catalog, match_sorted(case.catalog, case.batch).found)}
    rules = TimeRules(case.plan.streams[0], 1_000_000)
    found = list(judged(case.catalog, fed(case.catalog, rules, steps, shedding(case.gone), buckets, restarts)))
    for _, name, verdict, refuted_by in found:
        assert verdict is not Verdict.CONFIRMED or name in truth, "what is confirmed is true"
        assert verdict is not Verdict.UNTOUCHED or name in truth, "what is not spoken of is true"
        assert verdict is not Verdict.FALSE_POSITIVE or name not in truth, "what is called false is false"
        if verdict is Verdict.FALSE_POSITIVE:
            assert refuted_by in case.gone, "what refutes it was shed"
            assert name in found_with(case, refuted_by, itself=False), "the shed events before it do not refute it"
            assert name not in found_with(case, refuted_by, itself=True)
        if verdict is Verdict.UNVERIFIABLE:
            assert case.plan.runs is not None
            assert case.plan.runs.after != "no-skip", "only what depends on matches before it cannot be verified"
    if not is_audited(case.plan):
        assert {name for _, name, _, _ in found} <= truth
    return Counter((kind, verdict) for kind, _, verdict, _ in found)


def found_with(case: Case, place: Place, *, itself: bool) -> set[str]:
    """Identities of what is found when the events that were shed before one are back in their places, and that one itself or not."""
    rows = range(len(case.batch))
    places = list(zip(case.batch.source.tolist(), case.batch.offset.tolist(), strict=True))
    there = [row for row in rows if places[row] not in case.gone or row < places.index(place) or (itself and places[row] == place)]
    kept = take(case.batch, np.array(there, dtype=np.intp))
    return {key[2] for key in identities(case.catalog, match_sorted(case.catalog, kept).found)}


@settings(max_examples=max(50, settings.default.max_examples // 4), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_false_is_what_would_not_be_found_without_shedding(data: st.DataObject) -> None:
    query = data.draw(queries())
    lines = data.draw(streams(query))
    assume(is_valid_for(query, lines))
    note(yaml_text(query) + "\n".join(map(json.dumps, lines)))
    of_each = {"min_size": len(lines), "max_size": len(lines)}
    sources, shed = data.draw(st.lists(st.integers(0, 1), **of_each)), data.draw(st.lists(st.sampled_from([True, False, False]), **of_each))
    case = case_of(yaml_text(query), lines, sources, shed)
    assume(case is not None)
    steps = in_steps(data, case.batch)
    for kind, verdict in checked(case, steps, data.draw(st.integers(1, 3)), data.draw(st.sets(st.integers(0, len(steps))))):
        event(f"{kind} {verdict.name}")


PREVENTING = {
    "a negation in between": "event: SEQ(A a, !(B b), C c)\nwithin: 30 ms\nwhere: '[k]'",
    "with a condition over two": "event: SEQ(A a, !(B b), C c)\nwithin: 30 ms\nwhere: '[k] AND b.v > a.v'",
    "a negated end": "event: SEQ(A a, C c, !(B b))\nwithin: 30 ms\nwhere: '[k]'",
    "a negated start": "event: SEQ(!(B b), A a, C c)\nwithin: 30 ms\nwhere: '[k]'",
    "without a key": "event: SEQ(A a, !(B b), C c)\nwithin: 20 ms",
    "the next match": "event: SEQ(A a, B b)\nwithin: 30 ms\nwhere: '[k]'\nstrategy: skip-till-next-match",
    "contiguity in the partition": "event: SEQ(A a, B b)\nwithin: 30 ms\nwhere: '[k]'\nstrategy: partition-contiguity",
    "strict contiguity": "event: SEQ(A a, B b)\nwithin: 30 ms\nstrategy: strict-contiguity",
    "a closure to the next": "event: SEQ(A a, B+ b[], C c)\nwithin: 30 ms\nwhere: '[k]'\nstrategy: skip-till-next-match",
    "a window that an event opens": "event: SEQ(B b, C c)\nwindow: {size: 20 ms, open: A}\nwhere: '[k]'\nstrategy: skip-till-next-match",
    "the longest": "event: SEQ(A a, B+ b[])\nwithin: 30 ms\nwhere: '[k]'\nstrategy: skip-till-next-match\nemit: longest",
}


WAITED_FOR = {
    "the next one": "event: SEQ(A a, B b)\nwithin: 30 ms\nwhere: '[k]'\nstrategy: skip-till-next-match",
    "behind a negation": "event: SEQ(A a, !(B n), C c, A d)\nwithin: 30 ms\nwhere: '[k]'",
    "behind a closure": "event: SEQ(A a, B+ b[], C c)\nwithin: 30 ms\nwhere: '[k]'\nstrategy: skip-till-next-match",
    "in windows": "event: SEQ(A a, B b)\nwindow: {size: 20 ms, slide: 10 ms}\nwhere: '[k]'\nstrategy: skip-till-next-match",
}
"""With ``on_timeout: emit``, a shed event lets what waited for it, or what it would have ended, run out of time."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "text"),
    [*(("match", text) for text in PREVENTING.values()), *(("timeout", f"{text}\non_timeout: emit") for text in WAITED_FOR.values())],
    ids=[*PREVENTING, *(f"waiting for {name}" for name in WAITED_FOR)],
)
def test_queries_that_shedding_makes_find_what_is_not_so(kind: Outcome, text: str) -> None:
    seen: Counter[tuple[Outcome, Verdict]] = Counter()
    for seed in range(30):
        chance = random.Random(seed)
        lines = letters(chance, 60, 7, 2)
        case = case_of(f"name: q\n{text}\n", lines, chance.choices([0, 1], k=60), chance.choices([True, False, False], k=60))
        assert case is not None
        if "[k]" not in text:  # without partitions there is no sample, whatever the setting says
            case = replace(case, catalog=replace(case.catalog, sample=1.0))
        cuts = sorted(chance.sample(range(61), 4))
        steps = [[take(case.batch, np.arange(*cut))] for cut in pairwise([0, *cuts, 60])]
        seen.update(checked(case, steps, 1 + seed % 3, set(chance.sample(range(6), seed % 3))))
    counted = "contiguity" in text  # such queries count events that were shed, so shedding makes nothing adjacent
    assert (seen[kind, Verdict.FALSE_POSITIVE] > 5) is not counted
    assert seen[kind, Verdict.CONFIRMED] > 0


ONLY_ADDING = {
    "a sequence": "event: SEQ(A a, B b, C c)\nwithin: 30 ms\nwhere: '[k] AND c.v >= a.v'",
    "without a window": "event: SEQ(A a, B b)\nwhere: '[k]'",
    "one event": "event: A a\nwhere: 'a.v > 1'",
}


@pytest.mark.parametrize(("shedder", "more"), [("random", "evaluator: runs\n"), ("pm-random", "")], ids=["runs", "partial matches"])
@pytest.mark.parametrize("text", ONLY_ADDING.values(), ids=ONLY_ADDING)
def test_what_takes_any_sequence_is_not_audited_whoever_matches_it(text: str, shedder: str, more: str) -> None:
    for seed in range(20):
        chance = random.Random(seed)
        gone = chance.choices([True, False, False], k=60)
        case = case_of(f"name: q\n{text}\n{more}", letters(chance, 60, 7, 2), chance.choices([0, 1], k=60), gone, shedder=shedder)
        assert case is not None
        assert case.plan.evaluator == "runs"
        assert not is_audited(case.plan)
        assert set(checked(case, [[case.batch]], 1, set())) <= {("match", Verdict.UNTOUCHED)}, "nothing is found that is not so"


@pytest.mark.parametrize(
    "more",
    ["on_timeout: emit\nevaluator: runs", "limits: {partial_matches_per_partition: 2}", "max_gap: 9 ms", "after: skip-past-last-event"],
)
def test_what_more_events_can_take_away_is_audited(more: str) -> None:
    case = case_of(
        f"name: q\nevent: SEQ(A a, B b)\nwithin: 30 ms\nwhere: '[k]'\n{more}\n", letters(random.Random(1), 9, 7, 2), [0] * 9, [False] * 9
    )
    assert case is not None
    assert is_audited(case.plan)


ONLY_NEGATED = {
    "in between": "event: SEQ(A a, !(B b), C c)\nwithin: 30 ms\nwhere: '[k]'",
    "with a condition": "event: SEQ(A a, !(B b), C c)\nwithin: 30 ms\nwhere: '[k] AND b.v > 1'",
    "at the end": "event: SEQ(A a, C c, !(B b))\nwithin: 30 ms\nwhere: '[k]'",
    "timeouts": "event: SEQ(A a, !(B b), C c)\nwithin: 30 ms\nwhere: '[k]'\non_timeout: emit",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", ONLY_NEGATED.values(), ids=ONLY_NEGATED)
def test_of_a_plain_sequence_is_spoken_only_where_what_it_forbids_was_shed(text: str) -> None:
    """All other events can only add to what it finds. The definition: is there a shed event of the negated item in the partition, and within a window of what is bound?"""
    spoken = silent = 0
    for seed in range(20):
        chance = random.Random(seed)
        lines = letters(chance, 60, 7, 2)
        shares = {"A": 0.3, "B": 0.0 if seed % 2 else 0.4, "C": 0.3}
        gone = [chance.random() < shares[line["type"]] for line in lines]
        case = case_of(f"name: q\n{text}\n", lines, [0] * 60, gone)
        assert case is not None
        forbidding = [
            line for line, one in zip(lines, gone, strict=True) if one and line["type"] == "B" and ("b.v" not in text or line["v"] > 1)
        ]
        steps = [[take(case.batch, np.arange(at, at + 10))] for at in range(0, 60, 10)]
        checked(case, steps, 1 + seed % 2, set())
        for one in fed(case.catalog, TimeRules(case.plan.streams[0], 20), steps, shedding(case.gone), 1, set()):
            for matches, verdicts in ((one.matches, one.verdicts), (one.timeouts, one.timeout_verdicts)):
                if matches is None or not len(matches):
                    continue
                codes = np.zeros(len(matches), np.uint8) if verdicts is None else verdicts.codes
                bound = matches.constituents([item.index for item in case.plan.positive])
                for code, start, stop in zip(codes.tolist(), bound.starts[:-1].tolist(), bound.starts[1:].tolist(), strict=True):
                    opener = lines[int(matches.events.offset[bound.rows[start:stop]].min())]
                    near = [line for line in forbidding if line["k"] == opener["k"] and abs(line["time"] - opener["time"]) <= 30]
                    assert code == Verdict.UNTOUCHED or near
                    spoken, silent = spoken + (code != Verdict.UNTOUCHED), silent + (code == Verdict.UNTOUCHED)
    assert min(spoken, silent) > 10


def test_what_is_known_to_be_false_is_not_told_where_the_query_holds_it_back() -> None:
    lines = [{"type": kind, "time": time, "k": int(key), "v": 0} for time, (kind, key) in enumerate(["A0", "A1", "B0", "C0", "C1"])]
    text = f"name: q\n{PREVENTING['a negation in between']}\noutput: {{hold_for_verdict: true}}\n"
    case = case_of(text, lines, [0] * 5, [False, False, True, False, True])
    assert case is not None
    rules = TimeRules(case.plan.streams[0], 1_000_000)
    ingested = IngressPlan(case.catalog, rules, 1).ingest(case.batch, Progress({}, ALONE, closing=True), shedding({(0, 2)}))
    bucket = Bucket(case.catalog, [rules], 0, ("t",))
    (found,) = bucket.advance(
        [packed for _, packed in ingested.packed()], Progress(ingested.judgement.greatest_times, ALONE, closing=True)
    ).found
    (told,) = composite_events(case.plan, found.matches, ("t",))
    assert [event.offset for event in told.events] == [1, 4]
    assert found.withheld is not None
    matches, verdicts = found.withheld
    (held,) = composite_events(case.plan, matches, ("t",))
    assert [event.offset for event in held.events] == [0, 3]
    assert verdicts.codes.tolist() == [Verdict.FALSE_POSITIVE]
    assert verdicts.refuted_by.tolist() == [[0, 2]]


def test_where_memories_are_not_taken_along_ended_partial_matches_are_as_unknown_as_what_was_shed() -> None:
    moved = forgotten([("g", {}, [7, NEVER, 0, 60, {"q": 50, "r": 40}]), ("g", {}, [9, 45, 0, 60]), ("g", {}, [NEVER, NEVER, 0, 60, 0])])
    assert moved == [9, 50, 0, 60]
    assert forgotten([("g", {}, [7, NEVER, 0, 60, 1])]) == [7, NEVER, 1, 60], "of an earlier version: events were dropped undecoded"


def test_timeouts_that_are_known_to_be_false_are_held_back_as_well() -> None:
    lines = [{"type": kind, "time": time, "k": int(key), "v": 0} for time, (kind, key) in enumerate(["A0", "A1", "B0", "C0"])]
    text = f"name: q\n{WAITED_FOR['the next one']}\non_timeout: emit\noutput: {{hold_for_verdict: true}}\n"
    case = case_of(text, lines, [0] * 4, [False, False, True, False])
    assert case is not None
    rules = TimeRules(case.plan.streams[0], 1_000_000)
    ingested = IngressPlan(case.catalog, rules, 1).ingest(case.batch, Progress({}, ALONE, closing=True), shedding(case.gone))
    (found,) = (
        Bucket(case.catalog, [rules], 0, ("t",))
        .advance([packed for _, packed in ingested.packed()], Progress(ingested.judgement.greatest_times, ALONE, closing=True))
        .found
    )
    assert found.timeouts is not None
    assert [event.offset for event in next(composite_events(case.plan, found.timeouts, ("t",), "timeout")).events] == [1]
    assert found.withheld_timeouts is not None
    matches, verdicts = found.withheld_timeouts
    (held,) = composite_events(case.plan, matches, ("t",), "timeout")
    assert [event.offset for event in held.events] == [0]
    assert verdicts.refuted_by.tolist() == [[0, 2]]
    told = {"confirmed": 0, "refuted": 1, "unverifiable": 0, "withheld": 1}
    assert counted(found) == {**told, "refuted_timeouts": 0, "unverifiable_timeouts": 0}, "of what is written"


def test_after_buckets_were_rescaled_nothing_is_claimed_of_what_was_shed_before() -> None:
    lines = [{"type": kind, "time": time, "k": 1, "v": 0} for time, kind in enumerate("ABCCC")]
    case = case_of(f"name: q\n{PREVENTING['a negation in between']}\n", lines, [0] * 5, [False, True, False, False, False])
    assert case is not None
    rules, gate = TimeRules(case.plan.streams[0], 1_000_000), shedding(case.gone)
    ingested = IngressPlan(case.catalog, rules, 1).ingest(case.batch, Progress({}, ALONE, closing=True), gate)
    one = Bucket(case.catalog, [rules], 0, ("t",))
    one.advance([packed for _, packed in ingested.packed()], Progress(ingested.judgement.greatest_times, ALONE))
    moved = [
        Bucket.restore(case.catalog, [rules], number, data, ("t",))
        for number, data in enumerate(rescaled([one.snapshot()], case.catalog, [rules], 2))
    ]
    found = [
        found for bucket in moved for found in bucket.advance([], Progress(ingested.judgement.greatest_times, ALONE, closing=True)).found
    ]
    codes = [code for one in found if one.verdicts is not None for code in one.verdicts.codes.tolist()]
    assert codes == [Verdict.UNVERIFIABLE] * 3


SAMPLED = {name: text for name, text in PREVENTING.items() if "[k]" in text and "open:" not in text}


@dataclass
class Pieces:
    """A clock that lets who works beside the batches feed so many pieces at a time."""

    left: int

    def __call__(self) -> int:
        self.left -= 1
        return 0 if self.left > 0 else 2


def looking(pieces: Callable[[], int]) -> tuple[NDArray[np.float64], Callable[[Bucket], None]]:
    """Counts, and who lets so many pieces be fed beside the batches and adds what was learned to them."""
    counts = np.zeros((2, GROUPS))

    def look(bucket: Bucket) -> None:
        bucket.look_beside(Pieces(pieces()), 1)
        for some in bucket.sampled().values():
            counts[:] += some

    return counts, look


@pytest.mark.slow
@pytest.mark.parametrize("text", SAMPLED.values(), ids=SAMPLED)
def test_the_control_sample_says_what_shedding_has_lost(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is worked off between which batches; after a restart, of nothing that lies before it."""
    lost = kept = 0
    for seed in range(60):
        chance = random.Random(seed)
        monkeypatch.setattr("app.bucket.beside.FIRST_PIECE", chance.choice([1, 3, 100]))
        lines = letters(chance, 80, 10, 6)
        ordered = seed % 4 == 3  # each key is one source's, and nothing is held back
        sources = [int(line["k"]) % 2 for line in lines] if ordered else chance.choices([0, 1], k=80)
        case = case_of(f"name: q\n{text}\n", lines, sources, chance.choices([True, False, False], k=80))
        assert case is not None
        sampled = replace(case.catalog, sample=0.5)
        whole = Whole.of(case, sampled)
        cuts = sorted(chance.sample(range(81), 3))
        steps = [[take(case.batch, np.arange(*cut))] for cut in pairwise([0, *cuts, 80])]
        rules, restarts = (
            TimeRules(case.plan.streams[0], chance.choice([0, 20, 1_000_000]), "k" if ordered else None),
            set(chance.sample(range(5), seed % 3)),
        )
        true = whole.found(match_sorted(case.catalog, case.batch).found)
        counts, look = looking(lambda chance=chance: 3 * chance.randrange(5))
        found = list(fed(sampled, rules, steps, shedding(case.gone), 1 + seed % 2, restarts, look=look))
        shed = whole.found(fed(case.catalog, rules, steps, shedding(case.gone), 1, set()))
        assert whole.found(found) == shed, "what is sampled is shed like everything else"
        if restarts:
            assert counts[0].sum() <= len(true)
            assert counts[1].sum() <= len(true & shed)
        else:
            assert (counts[0].sum(), counts[1].sum()) == (len(true), len(true & shed))
        lost, kept = lost + counts[0].sum() - counts[1].sum(), kept + counts[1].sum()
    assert min(lost, kept) > 5


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a negation in between", "the next match", "the longest"])
def test_heavy_partitions_are_in_the_control_sample_more_often_and_weigh_the_less(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is heavy is taken from the bucket (`tests/unit/test_audit_heavy_hitters.py`); what is in the sample and what it weighs is asked composite event by composite event."""
    monkeypatch.setattr("app.audit.heavy_hitters.ENOUGH", 5)
    monkeypatch.setattr(HeavyHitters, "let_go", lambda *_: None)
    lighter = 0
    for seed in range(12):
        chance = random.Random(seed)
        lines = [{**line, "k": min(9, int(chance.paretovariate(1.2)))} for line in letters(chance, 600, 10, 1)]
        case = case_of(f"name: q\n{PREVENTING[text]}\n", lines, chance.choices([0, 1], k=600), chance.choices([True, False, False], k=600))
        assert case is not None
        sampled = replace(case.catalog, sample=0.2)
        steps = [[take(case.batch, np.arange(*cut))] for cut in pairwise(range(0, 601, 50))]
        (counts, look), buckets = looking(lambda chance=chance: 3 * chance.randrange(5)), list[Bucket]()
        rules = TimeRules(case.plan.streams[0], chance.choice([0, 20]))
        found = list(fed(sampled, rules, steps, shedding(case.gone), 1, set(), look=lambda one: (look(one), buckets.append(one))))  # noqa: B023
        (group,) = buckets[-1]._groups.values()
        assert group.beside is not None
        ((sample, heavy),) = group.beside._heavy.items()
        whole, hashes = Whole.of(case, sampled, heavy), hashes_of(case, sampled)
        true, left = (whole.composites(some) for some in (match_sorted(case.catalog, case.batch).found, found))

        def weight(one: CompositeEvent, heavy: HeavyHitters = heavy, hashes: Mapping[str, np.uint64] = hashes) -> float:
            return 1 / int(heavy.often(np.array([hashes[one.partition_key]]), np.array([one.time]))[0])

        weights = {name: weight(one) for name, one in true.items()}
        assert sample.share == 0.2
        assert counts.sum(axis=1).tolist() == [sum(weights.values()), sum(weights[name] for name in true.keys() & left.keys())]
        lighter += sum(one < 1 for one in weights.values())
    assert lighter > 20


@pytest.mark.slow
def test_the_control_sample_says_what_ended_partial_matches_have_lost() -> None:
    """Of a query that loses no event at all."""
    lost = kept = 0
    for seed in range(40):
        chance = random.Random(seed)
        lines = letters(chance, 80, 10, 6)
        text = "name: q\nevent: SEQ(A a, B b, C c)\nwithin: 60 ms\nwhere: '[k]'\n"
        case = case_of(text, lines, chance.choices([0, 1], k=80), [False] * 80, shedder="pm-random")
        assert case is not None
        sampled, ending = (
            replace(case.catalog, sample=0.5),
            MatchShedder(case.plan, LeastProgress(seed=seed), progress_of_items(case.plan)).ending(0.8, 0.8),
        )
        whole = Whole.of(case, sampled)
        counts, look = looking(lambda chance=chance: 3 * chance.randrange(5))
        steps = [[take(case.batch, np.arange(*cut))] for cut in pairwise(range(0, 81, 10))]
        rules = TimeRules(case.plan.streams[0], chance.choice([0, 20]))
        found = whole.found(fed(sampled, rules, steps, shedding(set()), 1 + seed % 2, set(), look=look, endings={0: ending}))
        true = whole.found(match_sorted(case.catalog, case.batch).found)
        assert (counts[0].sum(), counts[1].sum()) == (len(true), len(true & found))
        lost, kept = lost + len(true - found), kept + len(true & found)
    assert min(lost, kept) > 5


def at_first(ending: Ending, times: int) -> Ending:
    """Ends partial matches in the first so many steps in which there is something to feed."""
    left = [times]

    def feed(engine: QueryEngine, batch: EventBatch, items: NDArray[np.uint64], watermarks: Watermarks, now_ms: int) -> Ended:
        left[0] -= 1
        return ending(engine, batch, items, watermarks, now_ms) if left[0] >= 0 else ((0, 0), *engine.feed(batch, items, watermarks))

    return feed


FOLLOWED = {
    "the longest": f"{PREVENTING['the longest']}",
    "after a match": "event: SEQ(A a, B b, C c)\nwithin: 30 ms\nwhere: '[k]'\nafter: skip-past-last-event",
    "another branch": "event: OR(SEQ(A a, B b, C c), SEQ(A d, ANY(B, C) e, C f))\nwithin: 30 ms\nwhere: '[k]'",
}


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", "limits: {state_bytes: 1000000}\n"], ids=["for its bound", "for memory"])
@pytest.mark.parametrize("text", FOLLOWED.values(), ids=FOLLOWED)
def test_what_is_found_in_the_place_of_ended_partial_matches_is_never_passed_over(text: str, more: str) -> None:
    """No event is shed in half of the streams, and what is known goes through a restart at every step; of the longest match the query itself is asked, what follows on other matches nobody can tell."""
    seen, by_events = Counter[Verdict](), 0
    for seed in range(24):
        chance = random.Random(seed)
        lines = letters(chance, 80, 7, 2)
        gone = chance.choices([True, False, False, False], k=80) if seed % 2 else [False] * 80
        case = case_of(f"name: q\n{text}\n{more}", lines, chance.choices([0, 1], k=80), gone, shedder="random" if more else "pm-random")
        assert case is not None
        if more:  # the limit alone: there is no bound
            bare = replace(case.plan, shedding=replace(case.plan.shedding, latency_bound_ms=None, shedder="none"))
            case, gone = replace(case, catalog=Catalog.of((bare,)), gone=set()), [False] * 80
        ending = at_first(MatchShedder(case.plan, LeastProgress(seed=seed), progress_of_items(case.plan)).ending(0.5, 0.5), 6 + seed % 5)
        steps = [[take(case.batch, np.arange(*cut))] for cut in pairwise(range(0, 81, 5))]
        rules, restarts = TimeRules(case.plan.streams[0], 20), set(range(17) if seed % 3 else ())
        truth = {key[2] for key in identities(case.catalog, match_sorted(case.catalog, case.batch).found) if key[0] == "match"}
        endings = {0: ending}
        for _, name, verdict, refuted_by in judged(
            case.catalog, fed(case.catalog, rules, steps, shedding(case.gone), 1 + seed % 2, restarts, endings=endings)
        ):
            assert verdict is not Verdict.UNTOUCHED or name in truth, "what is not spoken of is true"
            assert verdict is not Verdict.CONFIRMED or name in truth
            assert verdict is not Verdict.FALSE_POSITIVE or name not in truth
            if refuted_by != (-1, -1):
                assert refuted_by in case.gone
                by_events += 1
                assert name not in found_with(case, refuted_by, itself=True)
                assert name in found_with(case, refuted_by, itself=False), "the ended partial matches are not what refutes it"
            seen[verdict] += 1
    if "after:" in text:
        assert set(seen) <= {Verdict.UNTOUCHED, Verdict.UNVERIFIABLE}
        assert seen[Verdict.UNVERIFIABLE] > 20
    else:
        assert min(seen[Verdict.FALSE_POSITIVE], seen[Verdict.CONFIRMED]) > 5
        assert seen[Verdict.CONFIRMED] > 5 * seen[Verdict.UNVERIFIABLE], "nobody doubts what is told at its regular time"


@pytest.mark.parametrize(("limit", "most", "text"), [("MOST_WAITING", 150, "a negated end"), ("MOST_HELD", 130, "a negated start")])
def test_what_is_forgotten_of_the_control_sample_is_forgotten_turn_by_turn(
    limit: str, most: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is shed, so what is true is found: but of a turn that is known by halves, where what prevents a match is missing, more would seem to be true."""
    monkeypatch.setattr(f"app.bucket.beside.{limit}", most)
    chance = random.Random(4)
    lines = [{"type": chance.choice("ABC"), "time": at // 2, "k": chance.randrange(8), "v": 0} for at in range(12_000)]
    case = case_of(f"name: q\n{PREVENTING[text]}\n", lines, chance.choices([0, 1], k=12_000), [False] * 12_000)
    assert case is not None
    sampled, (counts, look) = replace(case.catalog, sample=1.0), looking(lambda: 5)
    steps = [[take(case.batch, np.arange(*cut))] for cut in pairwise(range(0, 12_001, 100))]
    found = list(fed(sampled, TimeRules(case.plan.streams[0], 0), steps, shedding(set()), 1, set(), look=look))
    assert 0.2 < counts[0].sum() / sum(len(one.matches) for one in found) < 0.5
    assert (counts[0] == counts[1]).all()


def test_who_works_beside_the_batches_stops_in_time_however_dear_events_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by 10 us with an event, and from the middle on, where a heavy partition begins, by half a millisecond."""
    lines = [{"type": "ABC"[at % 3], "time": at, "k": 1, "v": 0} for at in range(20_000)]
    case = case_of(f"name: q\n{PREVENTING['a negated end']}\n", lines, [0, 1] * 10_000, [False] * 20_000)
    assert case is not None
    bucket, now, fed_ms = Bucket(replace(case.catalog, sample=1.0), [TimeRules(case.plan.streams[0], 0)], 0, ("t",)), [0], [0]
    ingested = IngressPlan(case.catalog, TimeRules(case.plan.streams[0], 0), 1).ingest(case.batch, Progress({}, SOURCES))
    bucket.advance([packed for _, packed in ingested.packed()], Progress(ingested.judgement.greatest_times, SOURCES))
    feed = GroupMatching.feed

    def timed(self: GroupMatching, batch: EventBatch, *rest: Any) -> list[Found]:
        fed_ms[0] = int(batch.time.max(initial=0))
        now[0] += int((batch.time < 10_000).sum()) * 10_000 + int((batch.time >= 10_000).sum()) * 500_000
        return feed(self, batch, *rest)

    monkeypatch.setattr(GroupMatching, "feed", timed)
    longest = 0
    while fed_ms[0] < 19_990:
        began = now[0]
        bucket.look_beside(lambda: now[0], began + 20_000_000)
        longest = max(longest, now[0] - began)
    assert 20_000_000 <= longest < 55_000_000


def hashes_of(case: Case, catalog: Catalog) -> dict[str, np.uint64]:
    """Of partition keys."""
    keys = partition_keys(case.batch, np.arange(len(case.batch)), catalog.groups[0]).hashes
    return {str(int(name)): key for name, key in zip(case.batch.columns["k"].values.tolist(), keys, strict=True)}


@dataclass(frozen=True)
class Whole:
    """Which matches have nothing to do with events outside of sampled turns: asked event by event, at every moment of the longest that they can be."""

    case: Case
    sampled: Callable[[str, int], bool]

    @staticmethod
    def of(case: Case, catalog: Catalog, known: HeavyHitters | None = None) -> Whole:
        """``known``: who is in the sample more often; None: nobody."""
        sample, turns = control_sample(catalog.plans[0], catalog.sample), {}
        assert sample is not None
        heavy = known or HeavyHitters(sample)
        hashes = hashes_of(case, catalog)
        first, last = int(case.batch.time[0]) - 200, int(case.batch.time[-1]) + 200
        for name, key in hashes.items():
            times = np.arange(first, last)
            there = np.full(len(times), key)
            turns[name] = dict(zip(times.tolist(), zip(sample.turns(there, times), heavy.hold(there, times), strict=True), strict=True))
        assert len({turn for times in turns.values() for turn, _ in times.values()}) / len(turns) > 1, "partitions come and go"

        def whole(key: str, end: int) -> bool:
            moments = [turns[key][end + moved] for moved in range(-sample.before_ms, sample.after_ms + 1)]
            return len(set(moments)) == 1 and bool(moments[0][1])

        return Whole(case, whole)

    def found(self, found: Iterable[Found]) -> set[str]:
        return set(self.composites(found))

    def composites(self, found: Iterable[Found]) -> dict[str, CompositeEvent]:
        return {made.id: made for one in found for made in self._made(one) if made is not None}

    def _made(self, one: Found) -> list[CompositeEvent | None]:
        made = composite_events(self.case.plan, one.matches, ("t",))
        return [composite if self.sampled(composite.partition_key, composite.time) else None for composite in made]


def test_a_checkpoint_without_memory_makes_no_claims_about_what_began_before_it() -> None:
    lines = [{"type": kind, "time": time, "k": 1, "v": 0} for time, kind in enumerate("ACCB")]
    case = case_of(f"name: q\n{PREVENTING['a negated end']}\n", lines, [0] * 4, [False, False, False, True])
    assert case is not None
    rules, gate = TimeRules(case.plan.streams[0], 0), shedding(case.gone)
    plan, bucket = IngressPlan(case.catalog, rules, 1), Bucket(case.catalog, [rules], 0, ("t",))
    begun = plan.ingest(take(case.batch, np.arange(3)), Progress({}, ALONE), gate)
    bucket.advance([packed for _, packed in begun.packed()], Progress(begun.judgement.greatest_times, ALONE))
    parts = {name: part for name, part in unpack_parts(bucket.snapshot()).items() if not name.startswith(("fed-", "shed-"))}
    header = described(parts)
    for group in header["groups"]:
        del group["audit"]
    older = {**parts, DESCRIPTION: b"".join(description_part(header)[1])}
    restored = Bucket.restore_parts(case.catalog, [rules], 0, older, ("t",))
    rest = plan.ingest(take(case.batch, np.arange(3, 4)), Progress(begun.judgement.greatest_times, ALONE), gate)
    (found,) = restored.advance([packed for _, packed in rest.packed()], Progress(rest.judgement.greatest_times, ALONE, closing=True)).found
    assert len(found.matches) == 2
    assert found.verdicts is not None
    assert found.verdicts.codes.tolist() == [Verdict.UNVERIFIABLE] * 2
