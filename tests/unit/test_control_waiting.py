"""Figures of a query that sheds in the bucket, whose events wait for the watermark: what was dropped is held against what could be, and work is that of what was fed."""

from __future__ import annotations

import pytest

from app.control.audit_reports import shed_reports
from app.control.law.observations import Done, Streams, observation_of
from app.control.law.query_cost import FEED_MS, QueryCost, QueryObservation
from app.control.messages.directives import Directive, QueryShedding
from app.control.messages.reports import QueryTally
from app.control.messages.totals import BatchTotals, total
from app.control.shown.batch_metrics import FinishedBatch, count_batch
from app.control.shown.history import _Sums
from app.observe.metrics import Metrics
from app.observe.progress import Progress
from app.query.compile import compile_texts
from app.query.plan import Plan
from app.query.resolved.vocabulary import UNKNOWN

EACH_MS = 0.04
FALLEN = QueryTally("q", candidates=100, shed=500, let_go=900)
"""Of a batch behind a burst: what is let go are the burst's events."""
BEGUN = QueryTally("q", candidates=5_000, unasked=5_000)
"""Of a batch in which the query is asked to shed, and all that is let go arrived before."""


@pytest.fixture
def plan() -> Plan:
    text = "name: q\nevent: SEQ(A a, B b)\nwithin: 10 s\nshedding: {shedder: prefix, latency_bound: 1 s}\n"
    (query,) = compile_texts([("q.yaml", text)], UNKNOWN).queries
    assert query.plan is not None, query.findings
    return query.plan


def totals_of(tally: QueryTally) -> BatchTotals:
    return BatchTotals(7, queries={"q": tally})


def directive() -> Directive:
    return Directive(7, shedding={"q": QueryShedding(0.5, "prefix", "bucket")})


@pytest.mark.parametrize(("tally", "considered", "ratio"), [(FALLEN, 1_000, 0.5), (BEGUN, 0, 0.0)])
def test_what_is_told_to_have_been_dropped_is_a_share_of_what_could_be(
    plan: Plan, tally: QueryTally, considered: int, ratio: float
) -> None:
    (report,) = shed_reports(directive(), totals_of(tally), {"q": plan})
    assert (report.considered, report.realised_drop_ratio) == (considered, ratio)
    metrics = Metrics()
    finished = FinishedBatch(Progress(7, "r", 0, 1), totals_of(tally), directive(), 0, {}, {}, {})
    count_batch(metrics, finished, {"q": plan}, frozenset())
    assert metrics.value("cep_realised_drop_ratio", query="q", shedder="prefix") == ratio
    sums = _Sums()
    sums.add(tally)
    assert sums.dropped == ratio, "of the console"


def test_totals_of_an_earlier_version_are_of_events_that_did_not_wait() -> None:
    plain = total(7, []).to_plain() | {"queries": {"q": [100, 40, []]}}
    tally = BatchTotals.from_plain(plain).queries["q"]
    assert (tally.shed, tally.considered) == (40, 100)


def seen(tally: QueryTally, plan: Plan, fed: int) -> QueryObservation:
    """With the work of so many events."""
    totals = BatchTotals(7, queries={"q": tally}, slowest_ns={"q": round(1e6 * (FEED_MS + EACH_MS * fed))})
    done = Done(Progress(7, "r", 0, 1), totals, directive(), None)
    return observation_of(done, [plan], Streams(lambda _: None, lambda _: None), lambda _: 0).queries["q"]


def test_events_that_arrived_before_a_shedder_was_asked_do_not_say_that_shedding_is_in_vain(plan: Plan) -> None:
    known = QueryCost()
    for _ in range(12):
        known.learn(seen(BEGUN, plan, 5_000), 5_000, None, warm=True)
    assert known.effect == 1.0
    for _ in range(12):
        known.learn(seen(QueryTally("q", candidates=5_000, shed=500), plan, 4_500), 5_000, None, warm=True)
    assert known.effect == pytest.approx(0.2, abs=0.05), "now it was asked about all of them"


def test_an_event_costs_what_those_cost_that_were_fed_whatever_arrives_meanwhile(plan: Plan) -> None:
    known = QueryCost()
    for tally, fed in (
        (QueryTally("q", candidates=5_000, let_go=-4_500), 500),
        (QueryTally("q", candidates=5_000), 5_000),
        (QueryTally("q", candidates=10, let_go=4_990), 5_000),
        (QueryTally("q", candidates=10, shed=2_500, let_go=4_990), 2_500),
    ) * 5:
        known.learn(seen(tally, plan, fed), 5_000, None, warm=True)
        assert known.per_event_ms == pytest.approx(EACH_MS)
