"""Reports packed, joined and added up say what a plain sum over them says; bytes that are no report are refused."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.control.messages.reports import QueryTally, SelectionTally, SourceProgress, StageReport
from app.control.messages.totals import BatchTotals, add_up, head_of, joined, pack_report, total, with_fields
from app.errors import SnapshotError
from app.observe.latency import LATENCY_BOUNDS_MS

NAMES = ("a", "b", "c", "old", "unused")
COUNTS = [one.name for one in dataclasses.fields(QueryTally) if one.name not in ("query", "latencies")]
LATENCIES = len(LATENCY_BOUNDS_MS) + 1


def report_of(chance: random.Random) -> StageReport:
    """Any report: small counts, great ones, negative ones, and fields that are empty."""
    few = lambda: chance.randrange(200)  # noqa: E731
    any_count = lambda: chance.choice(  # noqa: E731
        [0, few(), -few(), chance.randrange(-300, 300), chance.randrange(1 << 55), chance.randrange(-(1 << 55), 0)]
    )
    maybe = lambda: chance.choice([None, chance.randrange(-(1 << 45), 1 << 45)])  # noqa: E731
    counted = lambda: {name: any_count() for name in ("consumed", "matched", "late") if chance.random() < 0.6}  # noqa: E731
    some = lambda make, most: tuple(make() for _ in range(chance.randrange(most + 1)))  # noqa: E731
    queries = tuple(
        QueryTally(name, latencies=some(few, LATENCIES), **{count: any_count() for count in COUNTS})
        for name in chance.sample(NAMES[:4], chance.randrange(5))
    )
    return StageReport(
        7,
        chance.choice(["ingress", "cep"]),
        few(),
        sources=some(lambda: SourceProgress(chance.randrange(3), few(), maybe(), maybe(), maybe(), maybe(), maybe()), 3),
        queries=queries,
        counts=counted(),
        rejected=counted(),
        cost_ns=counted(),
        waiting=few(),
        next_release_ms=maybe(),
        state_rows=few(),
        state_bytes=few(),
        selection=some(lambda: SelectionTally(chance.choice("st"), few(), few(), few(), some(lambda: chance.choice("xyz"), 2)), 2),
        fed=counted(),
        damaged=few(),
        handed=few(),
        unpacked=few(),
        records=few(),
        sent=few(),
        undelivered=some(lambda: "10.0.0.1:7", 1),
    )


def several(seed: int) -> list[StageReport]:
    chance = random.Random(seed)
    return [report_of(chance) for _ in range(chance.randrange(1, 6))]


seeds = st.integers(0, 1 << 32)


def naive(of: Sequence[StageReport]) -> BatchTotals:
    """The twin: sums by name, one report after the other."""
    named: dict[str, defaultdict[str, int]] = {name: defaultdict(int) for name in ("counts", "rejected", "cost_ns", "fed")}
    plain = dict.fromkeys(("waiting", "state_rows", "state_bytes", "damaged", "handed", "unpacked", "records", "sent"), 0)
    queries: dict[str, dict[str, int]] = {}
    ways: dict[str, list[int]] = {}
    by_source: dict[int, list[SourceProgress]] = {}
    by_stream: dict[str, list[SelectionTally]] = {}
    for report in of:
        for name, found in named.items():
            for key, value in getattr(report, name).items():
                found[key] += value
        for name in plain:
            plain[name] += getattr(report, name)
        for tally in report.queries:
            known = queries.setdefault(tally.query, dict.fromkeys(COUNTS, 0))
            for name in COUNTS:
                known[name] += getattr(tally, name)
            way = ways.setdefault(tally.query, [0] * LATENCIES)
            for place, number in enumerate(tally.latencies):
                way[place] += number
        for source in report.sources:
            by_source.setdefault(source.source, []).append(source)
        for one in report.selection:
            by_stream.setdefault(one.stream, []).append(one)
    releases = [report.next_release_ms for report in of if report.next_release_ms is not None]
    return BatchTotals(
        7,
        len(of),
        sources={number: naive_source(number, found) for number, found in by_source.items()},
        queries={
            name: QueryTally(name, **found, latencies=tuple(ways[name]) if any(ways[name]) else ()) for name, found in queries.items()
        },
        next_release_ms=min(releases) if releases else None,
        selection={
            stream: SelectionTally(
                stream,
                sum(one.events for one in found),
                sum(one.pruned for one in found),
                sum(one.evaluated for one in found),
                tuple(sample for one in found for sample in one.samples),
            )
            for stream, found in by_stream.items()
        },
        **named,  # type: ignore[arg-type]
        **plain,
        slowest_ns={tally.query: tally.cost_ns for tally in naive_slowest(of) if tally.cost_ns},
        judging_ns={tally.query: tally.judging_ns for tally in naive_slowest(of) if tally.judging_ns},
    )


def naive_slowest(of: Sequence[StageReport]) -> Sequence[QueryTally]:
    best: Sequence[QueryTally] | None = None
    for report in of:
        if report.stage == "cep" and (best is None or sum(one.cost_ns for one in report.queries) > sum(one.cost_ns for one in best)):
            best = report.queries
    return best or ()


def naive_source(number: int, found: Sequence[SourceProgress]) -> SourceProgress:
    known = {name: [v for one in found if (v := getattr(one, name)) is not None] for name in SourceProgress.__slots__}
    ends = {"greatest_time": max, "oldest_broker_ms": min, "newest_broker_ms": max, "first_offset": min, "next_offset": max}
    values = {name: end(known[name]) if known[name] else None for name, end in ends.items()}
    return SourceProgress(number, sum(known["events"]), **values)


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_totals_are_the_sum_of_the_reports(seed):
    listed = several(seed)
    packed = [pack_report(report, NAMES) for report in listed]
    assert add_up(7, packed, NAMES) == naive(listed)
    assert add_up(7, [memoryview(one) for one in packed], NAMES) == naive(listed), "as they come from the wire"
    assert total(7, listed) == naive(listed)


@settings(max_examples=150, deadline=None)
@given(seeds, st.integers(1, 5))
def test_an_owner_may_join_its_buckets_reports_first(seed, cut):
    listed = several(seed)
    first, rest = listed[:cut], listed[cut:]
    owner = joined([pack_report(report, NAMES) for report in first], 5)
    assert head_of(owner)["part"] == 5
    totals = add_up(7, [owner, *(pack_report(report, NAMES) for report in rest)], NAMES)
    unlike = {"reports": len(listed), "slowest_ns": {}, "judging_ns": {}}
    assert dataclasses.replace(totals, **unlike) == dataclasses.replace(naive(listed), **unlike)


def test_the_slowest_owner_is_the_one_whose_buckets_together_took_longest():
    def bucket(number: int, **cost_ns: int) -> bytes:
        tallies = tuple(QueryTally(q, cost_ns=ns, judging_ns=ns // 10) for q, ns in cost_ns.items())
        return pack_report(StageReport(7, "cep", number, queries=tallies), NAMES)

    one, other = joined([bucket(0, a=70), bucket(2, a=1, b=60)], 0), joined([bucket(1, b=100)], 1)
    task = pack_report(StageReport(7, "ingress", 0, queries=(QueryTally("a", candidates=5, cost_ns=10**6),)), NAMES)
    totals = add_up(7, [task, one, other], NAMES)
    assert totals.slowest_ns == {"a": 71, "b": 60}
    assert totals.judging_ns == {"a": 7, "b": 6}
    assert totals.queries["b"].cost_ns == 160


@given(seeds, st.integers(0, 1 << 40))
def test_one_field_is_set_and_nothing_else_changes(seed, sent):
    (report, *_) = several(seed)
    packed = with_fields(pack_report(report, NAMES), sent=sent)
    assert add_up(7, [packed], NAMES) == naive([dataclasses.replace(report, sent=sent)])


@given(seeds)
def test_totals_survive_json(seed):
    totals = total(7, several(seed))
    assert BatchTotals.from_plain(totals.to_plain()) == totals


def test_an_owner_without_buckets_adds_nothing():
    assert dataclasses.replace(add_up(7, [with_fields(joined([], 0), sent=0)], NAMES), reports=0) == BatchTotals(7)


@pytest.mark.parametrize(
    "values", [(-1, 5_000_000_000), (-(1 << 62) - 1, (1 << 62) + 1), (0, (1 << 63) - 1), (-128, 127), (-1, 255), (-129, 1), (-(1 << 63), 0)]
)
def test_counts_are_exact_whatever_their_type(values):
    listed = [QueryTally(name, shed=value) for name, value in zip("ab", values, strict=True)]
    totals = add_up(7, [pack_report(StageReport(7, "cep", 0, queries=tuple(listed)), NAMES)], NAMES)
    assert [totals.queries[name].shed for name in "ab"] == list(values)


def test_small_counts_travel_in_few_bytes():
    names = [f"q{k}" for k in range(1000)]
    one = lambda matches: len(  # noqa: E731
        pack_report(StageReport(7, "cep", 0, queries=tuple(QueryTally(name, matches=matches, candidates=9) for name in names)), names)
    )
    assert one(3) < 1000 * (2 + 1 + 1) + 500
    assert one(-3) < 1000 * (2 + 1 + 1) + 500
    assert one(300) < 1000 * (2 + 2 + 1) + 500


def test_a_query_and_its_old_version_that_drains_are_one():
    names = ("q", "q")
    report = StageReport(7, "cep", 0, queries=(QueryTally("q", matches=2, latencies=(1,)), QueryTally("q", matches=3)))
    tally = add_up(7, [pack_report(report, names)], names).queries["q"]
    assert (tally.matches, tally.latencies[0]) == (5, 1)


def test_totals_add_up_and_find_what_is_unaccounted() -> None:
    listed = [
        StageReport(1, "ingress", 0, sources=(SourceProgress(1, 5, 100, 7, 9, 0, 5),), counts={"consumed": 5, "irrelevant": 2, "shed": 1}),
        StageReport(1, "ingress", 1, sources=(SourceProgress(1, 2, None, 6, 6, 5, 7),), counts={"consumed": 2, "dead": 2}),
        StageReport(
            1, "cep", 0, queries=(QueryTally("q", matches=1, latencies=(0, 1)),), counts={"matched": 2}, waiting=3, next_release_ms=50
        ),
        StageReport(1, "cep", 1, queries=(QueryTally("q", matches=2, latencies=(2,)),), waiting=1, next_release_ms=40),
    ]
    totals = total(1, listed)
    assert totals.sources[1] == SourceProgress(1, 7, 100, 6, 9, 0, 7)
    assert totals.queries["q"].matches == 3
    assert totals.queries["q"].latencies[:2] == (2, 1)
    assert (totals.waiting, totals.next_release_ms) == (4, 40)
    assert totals.unaccounted() == 0
    assert total(1, listed[:2]).unaccounted() == 2


WHOLE = pack_report(
    StageReport(7, "cep", 1, queries=(QueryTally("a", 300, -4), QueryTally("b", 1)), sources=(SourceProgress(1, 2),), counts={"late": 1}),
    NAMES,
)


def test_a_report_that_ends_early_is_none():
    for length in range(len(WHOLE)):
        with pytest.raises(SnapshotError):
            head_of(WHOLE[:length])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_bytes_are_refused_or_read_as_another_report_but_nothing_breaks(data):
    """There is no checksum: TCP has one. But a report of another version must not end the driver in a way that nobody expects."""
    damaged = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(SnapshotError):
        head_of(bytes(damaged))
    with contextlib.suppress(SnapshotError):
        add_up(7, [WHOLE, bytes(damaged)], NAMES)


OTHER = WHOLE.replace(b'"sources"', b'"sourcez"')


def test_a_report_of_another_version_is_refused_by_whoever_opens_it():
    with pytest.raises(SnapshotError):
        head_of(OTHER)
    assert head_of(joined([], part=1))["part"] == 1, "of an owner without buckets"


@pytest.mark.parametrize(
    "strange",
    [
        OTHER,
        pack_report(StageReport(7, "cep", 1, queries=(QueryTally("q98"),)), [f"q{number}" for number in range(99)]),
    ],
)
def test_a_report_of_another_version_or_deployment_is_refused(strange):
    with pytest.raises(SnapshotError):
        add_up(7, [WHOLE, strange], NAMES)


@pytest.mark.parametrize(
    "text", [b"[]", b"3", b'"rows"', b"{}", b'{"rows":1,"used":[],"types":[]}', b'{"rows":-1,"used":[],"types":["|u1"]}']
)
def test_heads_that_say_nonsense_are_refused(text):
    with pytest.raises(SnapshotError):
        head_of(len(text).to_bytes(4, "little") + text + b"\0")
    with pytest.raises(SnapshotError):
        add_up(7, [len(text).to_bytes(4, "little") + text], NAMES)
