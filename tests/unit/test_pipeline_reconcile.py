"""A reconciliation's parts without Kafka and Spark: what is compared, how the run decides, and how identities differ."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.bucket.hold import NEVER
from app.config.settings import load_settings
from app.control.messages.reports import SourceProgress
from app.control.messages.totals import BatchTotals
from app.events.registry import Registry, RegistrySettings
from app.owners.deployment import deployment_from_json
from app.pipeline.draining import Past
from app.pipeline.numbers import Numbers
from app.pipeline.preparation import compile_queries, prepare, read_streams
from app.pipeline.reconcile.aims import Request, aims_of
from app.pipeline.reconcile.course import Course, Terms
from app.pipeline.reconcile.failure import NothingShedsError, ReconcileError
from app.pipeline.reconcile.identities import Kind, Ledger, Standing
from app.pipeline.reconcile.live import Live
from app.pipeline.reconcile.scope import EVER, Interval, Reach, reach_of
from app.pipeline.reconcile.span import Span
from app.query.plan import Catalog

ROOT = Path(__file__).parents[2]
S = 1_000
QUERIES = {
    "plain": 'event: SEQ(Quote a, Quote b)\nwhere: "[symbol]"\nwithin: 10 s',
    "between": 'event: SEQ(Quote a, !(Quote x), Quote b)\nwhere: "[symbol]"\nwithin: 10 s',
    "before": 'event: SEQ(!(Quote x), Quote a, Quote b)\nwhere: "[symbol]"\nwithin: 10 s',
    "longest": 'event: SEQ(Quote a, Quote b+)\nwhere: "[symbol]"\nwithin: 10 s\nemit: longest\nstrategy: skip-till-next-match',
    "windowed": 'event: SEQ(Quote a, Quote b)\nwhere: "[symbol]"\nwindow: {size: 20 s, slide: 5 s}',
    "policy": 'event: SEQ(Quote a, Quote b)\nwhere: "[symbol]"\nwithin: 10 s\nafter: skip-past-last-event',
    "counted": 'event: SEQ(Quote a, Quote b)\nwhere: "[symbol]"\nwithin: 50 events\nafter: skip-to-next',
    "sheds": 'event: SEQ(Quote a, Quote b)\nwhere: "[symbol]"\nwithin: 4 s\nreturn: {symbol: b.symbol}\nshedding: {shedder: random, latency_bound: 1 s}',
    "reads": 'from: [query:sheds]\nevent: SEQ(sheds a, sheds b)\nwhere: "[symbol]"\nwithin: 6 s',
    "temporal": "select: [volume]\nkey: [symbol]\ncoalesce: {duration: 1 s}\nwindow: {range: 2 s, slide: 1 s}",
}


def deployed(
    folder: Path, queries: dict[str, str] = QUERIES, past: Past | None = None, topic: str = "stocks", lateness: str = "2 s", **stream: Any
):
    texts = [f"name: {name}\n{'' if 'from:' in text else 'from: stocks'}\n{text}\n" for name, text in queries.items()]
    (folder / "q.yaml").write_text("---\n".join(texts))
    stocks = {"topics": [topic], "schemas": [str(ROOT / "schemas" / "Quote.avsc")], "time": "time", "allowed_lateness": lateness, **stream}
    plain = {"streams": {"stocks": stocks}, "queries": {"paths": ["q.yaml"]}, "heartbeat": {"enabled": False}}
    (folder / "settings.yaml").write_text(yaml.safe_dump(plain))
    settings = load_settings(folder / "settings.yaml", {})
    registry = Registry(RegistrySettings("mock://reconcile"))
    streams = read_streams(settings, registry)
    return prepare(settings, compile_queries(settings, streams), streams, registry, past)


def live_of(deployment, watermark: int) -> Live:
    return Live(deployment, Numbers().reading(["stocks"]), 7, {}, {("stocks", 0): 100}, {"stocks": watermark}, {})


def test_a_match_reaches_as_far_as_windows_negations_and_delays_say(tmp_path):
    reaches = {plan.name: reach_of(plan) for plan in deployed(tmp_path).catalog.plans}
    assert reaches["plain"] == reaches["between"] == Reach(10 * S, 0)
    assert reaches["before"] == Reach(20 * S, 0)
    assert reaches["longest"] == Reach(20 * S, 10 * S)
    assert reaches["windowed"] == Reach(40 * S, 20 * S)
    assert reaches["policy"] is None and reaches["counted"] is None


def test_queries_that_shed_are_compared_with_those_that_read_them_as_far_as_windows_reach(tmp_path):
    aims = aims_of(Request(Interval(100 * S, 110 * S)), live_of(deployed(tmp_path), 1_000 * S))
    assert {kind.query: one.scope for kind, one in aims.compared.items()} == {
        "sheds": Interval(100 * S, 114 * S),
        "reads": Interval(100 * S, 120 * S),
    }
    assert aims.needed == Interval(90 * S, 120 * S), "what the reader reads, and what that was made of"
    assert not aims.cut and not aims.left_out


def test_what_the_application_may_yet_find_is_not_compared(tmp_path):
    aims = aims_of(Request(Interval(100 * S, 110 * S), ("plain",)), live_of(deployed(tmp_path), 105 * S))
    assert aims.compared[Kind("plain")].scope == Interval(100 * S, 105 * S - 1)
    assert aims.cut == {Kind("plain")}
    waiting = aims_of(Request(Interval(100 * S, 110 * S), ("longest",)), live_of(deployed(tmp_path), 105 * S))
    assert waiting.compared[Kind("longest")].scope.end == 95 * S - 1, "it tells its matches when their windows are over"
    with pytest.raises(ReconcileError, match="has only come to 1970-01-01T00:01:39"):
        aims_of(Request(Interval(100 * S, 110 * S), ("plain",)), live_of(deployed(tmp_path), 99 * S))
    with pytest.raises(ReconcileError, match="does not know yet how far time has come"):
        aims_of(Request(Interval(100 * S, 110 * S), ("plain",)), live_of(deployed(tmp_path), NEVER))


def test_what_depends_on_all_before_is_compared_from_the_beginning_where_it_is_asked_for(tmp_path):
    aims = aims_of(Request(Interval(100 * S, 110 * S), ("policy",)), live_of(deployed(tmp_path), 1_000 * S))
    assert aims.needed == EVER
    assert aims.compared[Kind("policy")].scope == Interval(NEVER, 990 * S - 1)
    sheds = "\nshedding: {shedder: random, latency_bound: 1 s}"
    shedding = deployed(tmp_path, {name: QUERIES[name] + sheds for name in ("plain", "policy")})
    aims = aims_of(Request(Interval(100 * S, 110 * S)), live_of(shedding, 1_000 * S))
    assert set(aims.compared) == {Kind("plain")}
    assert "--query policy compares it from the very beginning" in aims.left_out["policy"]


def test_who_cannot_be_compared_is_named(tmp_path):
    live = live_of(deployed(tmp_path), 1_000 * S)
    with pytest.raises(ReconcileError, match='query "temporal" cannot be reconciled: a temporal query'):
        aims_of(Request(Interval(1, 2), ("temporal", "plain")), live)
    with pytest.raises(ReconcileError, match="may wait for each other without a bound in time"):
        aims_of(Request(Interval(1, 2), ("counted",)), live)


def terms(deployment, spans, **more) -> Terms:
    return Terms(deployment, deployment.fingerprint, spans, {"stocks": 50 * S}, {"stocks": 60 * S}, 100, 0, **more)


def totals(batch: int, **sources: tuple[int, int]) -> BatchTotals:
    """By partition, records read and their greatest time; Kafka's clock says the same."""
    return BatchTotals(
        batch, sources={int(p[1:]): SourceProgress(int(p[1:]), count, at, newest_broker_ms=at) for p, (count, at) in sources.items()}
    )


def test_the_run_reads_evenly_waits_for_nobody_who_is_done_and_lets_time_go_on_at_the_end(tmp_path):
    read = []
    spans = {("stocks", 0): Span(0, 300), ("stocks", 1): Span(50, 80)}
    course = Course(terms(deployed(tmp_path), spans), read.append)
    assert course.plan(0) == {("stocks", 0): (0, 91), ("stocks", 1): (50, 59)}
    first = course.directive(0)
    assert (first.sources, first.idle, first.stream_times, first.shedding) == ((0, 1), (), {}, {})
    course.finish(totals(0, p0=(91, 10 * S), p1=(9, 12 * S)))
    assert read == [100]
    assert course.directive(0) is first, "a repeated batch is told the same"
    course.plan(1)
    assert course.directive(1).greatest_times == {0: 10 * S, 1: 12 * S}
    course.finish(totals(1, p0=(91, 20 * S), p1=(9, 52 * S + 1)))
    assert set(course.plan(2)) == {("stocks", 0)}, "what follows in the other one is later than all that counts"
    assert course.directive(2).idle == (1,)
    course.finish(totals(2, p0=(100, 30 * S)))
    assert course.plan(3) == {("stocks", 0): (282, 300)}
    course.finish(totals(3, p0=(18, 31 * S)))
    assert course.plan(4) == {}
    assert course.directive(4).idle == (0, 1)
    assert course.directive(4).stream_times == {"stocks": 52 * S}, "its watermark is then as far as it has to be"


def test_events_further_ahead_of_kafkas_time_than_was_said_are_told(tmp_path):
    course = Course(terms(deployed(tmp_path), {("stocks", 0): Span(10, 300)}), lambda _: None)
    course.plan(0)
    course.finish(BatchTotals(0, sources={0: SourceProgress(0, 5, 80 * S, newest_broker_ms=20 * S)}))
    course.plan(1)
    with pytest.raises(ReconcileError, match=r"70 s ahead of Kafka's timestamps.*\n.*--ahead '140 s'"):
        course.finish(BatchTotals(1, sources={0: SourceProgress(0, 5, 90 * S, newest_broker_ms=20 * S)}))


def test_of_the_records_of_one_identity_the_last_one_counts():
    a, b, c, d = (bytes([number]) for number in range(4))
    ledger, place = Ledger(true={a, b, c}), ("t", 0)
    records = [
        Standing(a, "", place, 1, 10),
        Standing(a, "", place, 2, 11),  # written twice
        Standing(b, "reconciled", place, 5, 20),
        Standing(d, "", place, 3, 12),
        Standing(d, "retracted", place, 6, 21),
        Standing(c, "retracted", place, 4, 13),
    ]
    for order in (records, records[::-1]):
        ledger.own, ledger.standing = set(), {}
        ledger.read(order)
        told = ledger.difference()
        assert (told.true, told.published, told.published_true) == (3, 2, 1)
        assert told.missing == {c} and told.false == {}
        assert (told.recall, told.precision) == (pytest.approx(1 / 3), 0.5)
    ledger.true = {c}
    assert ledger.difference().false == {a: (place, 2), b: (place, 5)}


def test_a_deployment_notes_since_when_a_query_runs_beside_others(tmp_path):
    plain, between = QUERIES["plain"], QUERIES["between"]
    first = deployed(tmp_path, {"plain": plain})
    assert first.since == (None,), "since the checkpoint began"
    again = deployed(tmp_path, {"plain": plain}, Past(first, {}))
    assert again.fingerprint == first.fingerprint
    more = deployed(tmp_path, {"plain": plain, "between": between}, Past(first, {}))
    assert [(plan.name, since is None) for plan, since in zip(more.catalog.plans, more.since, strict=True)] == [
        ("between", False),
        ("plain", True),
    ]
    assert deployed(tmp_path, {"plain": plain, "between": between}, Past(more, {})).fingerprint == more.fingerprint
    assert deployment_from_json(more.to_json(), 1, lambda _: b"").since == more.since
    changed = deployed(tmp_path, {"plain": plain.replace("10 s", "11 s"), "between": between}, Past(more, {}))
    assert changed.since[0] == more.since[0] and changed.since[1] is not None


def test_who_reads_or_writes_otherwise_has_other_composite_events_since_then(tmp_path):
    def since(output: str = "", **more: Any) -> dict[str, bool]:
        """By query whether it has found what it finds since the checkpoint began."""
        now = deployed(tmp_path, {**queries, "sheds": queries["sheds"] + output}, Past(first, {}), **more)
        return {plan.name: one is None for plan, one in zip(now.catalog.plans, now.since, strict=True)}

    queries = {name: QUERIES[name] for name in ("sheds", "reads", "plain")}
    first = deployed(tmp_path, queries)
    assert since() == {"sheds": True, "reads": True, "plain": True}
    assert since("\noutput: {topic: elsewhere}") == {"sheds": False, "reads": True, "plain": True}
    assert since(topic="others") == {"sheds": False, "reads": False, "plain": False}
    assert since(lateness="3 s") == {"sheds": False, "reads": False, "plain": False}
    assert since(time="volume") == {"sheds": False, "reads": False, "plain": False}
    assert since(rename={"volume": "quantity"}) == {"sheds": False, "reads": False, "plain": False}


def test_an_old_version_that_comes_back_is_compared_from_then_on(tmp_path):
    """While it drained it told nothing of what began after the change."""
    old = {"plain": QUERIES["plain"] + "\non_change: drain"}
    new = {"plain": old["plain"].replace("10 s", "11 s")}
    first = deployed(tmp_path, old)
    both = deployed(tmp_path, new, Past(first, {}))
    assert [plan.draining is None for plan in both.catalog.plans] == [True, False]
    assert deployed(tmp_path, new, Past(both, {})).fingerprint == both.fingerprint, "nothing else is noted at the next look"
    back = deployed(tmp_path, old, Past(both, {}))
    assert back.catalog.plans[0].fingerprint == first.catalog.plans[0].fingerprint
    assert back.since[0] is not None


def test_where_no_query_sheds_there_is_nothing_to_do_unless_one_is_named(tmp_path):
    live = live_of(deployed(tmp_path), 1_000 * S)
    catalog = live.deployment.catalog
    silent = Catalog.of(tuple(replace(plan, shedding=replace(plan.shedding, shedder="none")) for plan in catalog.plans), catalog.version)
    live = replace(live, deployment=replace(live.deployment, catalog=silent))
    with pytest.raises(NothingShedsError):
        aims_of(Request(Interval(100 * S, 110 * S)), live)
    assert aims_of(Request(Interval(100 * S, 110 * S), ("plain",)), live).compared


def test_queries_whose_state_is_bounded_shed_without_a_shedder(tmp_path):
    bounded = QUERIES["plain"] + "\nlimits: {state_bytes: 1000000}"
    live = live_of(deployed(tmp_path, {"bounded": bounded, "other": QUERIES["between"]}), 1_000 * S)
    aims = aims_of(Request(Interval(100 * S, 110 * S)), live)
    assert set(aims.compared) == {Kind("bounded")}, "partial matches are ended there"
