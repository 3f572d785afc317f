"""From which offsets a reconciliation reads: by Kafka's index of timestamps, never past what the application has read, and not where records are gone."""

from dataclasses import replace

import pytest
from confluent_kafka import Producer

from app.bucket.hold import NEVER
from app.delivery.positions import Positions
from app.pipeline.draining import Past
from app.pipeline.numbers import Numbers
from app.pipeline.reconcile.failure import ReconcileError
from app.pipeline.reconcile.live import Live
from app.pipeline.reconcile.span import Since, Span, newcomers, spans
from tests.kafka.retention import delete_records
from tests.unit.test_pipeline_reconcile import QUERIES, deployed

S = 1_000


@pytest.fixture
def topic(bootstrap_servers, make_topic):
    """Two partitions with a record per second, from 1000 s on; in the second one every second one."""
    name = make_topic("spans", partitions=2, message_timestamp_type="CreateTime", retention_ms="-1")
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for second in range(100):
        producer.produce(name, b"", partition=0, timestamp=(1000 + second) * S)
        if second % 2 == 0:
            producer.produce(name, b"", partition=1, timestamp=(1000 + second) * S)
    producer.flush()
    return name


@pytest.fixture
def positions(bootstrap_servers):
    asked = Positions({"bootstrap.servers": bootstrap_servers})
    yield asked
    asked.close()


def live(ends, first=(), greatest=()):
    return Live(None, Numbers(), 0, dict(first), ends, {}, dict(greatest))


def test_reading_begins_as_early_as_events_may_be_ahead_and_ends_where_the_application_is(topic, positions):
    both = {(topic, 0): 90, (topic, 1): 50}
    found = spans(positions, live(both), [topic], Since(1050 * S, {topic: 10 * S}))
    assert found == {(topic, 0): Span(40, 90), (topic, 1): Span(20, 50)}
    found = spans(positions, live(both, {(topic, 0): 60}.items()), [topic], Since(1050 * S, {topic: 10 * S}))
    assert found[topic, 0] == Span(60, 90), "where the application itself began"
    assert spans(positions, live(both), [topic], Since(NEVER, {}))[topic, 1] == Span(0, 50)
    assert set(spans(positions, live({(topic, 0): 90}), [topic], Since(1050 * S, {}))) == {(topic, 0)}, "it has read nothing of the other"
    assert spans(positions, live(both), [topic], Since(2000 * S, {})) == {}, "nothing is so late"


def test_events_that_are_needed_and_whose_timestamps_are_too_early_are_told(topic, positions):
    ahead = live({(topic, 0): 90}, greatest={(topic, 0): 2050 * S}.items())
    with pytest.raises(ReconcileError, match=r"961 s ahead of Kafka's timestamps.*\n.*--ahead '1922 s'"):
        spans(positions, ahead, [topic], Since(2000 * S, {topic: 60 * S}))
    assert spans(positions, ahead, [topic], Since(2000 * S, {topic: 1922 * S}))[topic, 0].start == 0


def test_a_query_is_compared_from_when_it_runs(topic, positions, tmp_path):
    first = deployed(tmp_path, {"plain": QUERIES["plain"]}, topic=topic)
    both = deployed(tmp_path, {name: QUERIES[name] for name in ("plain", "between")}, Past(first, {}), topic=topic)
    at = dict(zip((plan.name for plan in both.catalog.plans), range(2), strict=True))
    both = replace(both, since=tuple(900 * S if number == at["between"] else None for number in range(2)))
    come = Live(both, Numbers(), 0, {}, {(topic, 0): 90}, {}, {})
    read = spans(positions, come, [topic], Since(1050 * S, {}))
    plain, between = (both.catalog.plans[at[name]] for name in ("plain", "between"))
    assert newcomers(positions, come, [plain, between], read) == {}
    late = replace(come, deployment=replace(both, since=tuple(since and 1000 * S for since in both.since)))
    assert newcomers(positions, late, [plain], read) == {}
    told = newcomers(positions, late, [plain, between], read)
    assert list(told) == ["between"]
    assert '"between" runs as it is since 1970-01-01T00:16:40.000Z only, and records of' in told["between"]
    assert "from 1970-01-01T00:17:30" in told["between"]


def test_of_a_topic_that_was_created_again_what_was_before_is_gone(topic, positions):
    again = replace(live({(topic, 0): 90}, greatest={(topic, 0): 1089 * S}.items()), renewed=frozenset({topic}))
    assert spans(positions, again, [topic], Since(1050 * S, {}))[topic, 0] == Span(50, 90)
    with pytest.raises(ReconcileError, match=r"from before 1970-01-01T00:16:40.000Z are deleted"):
        spans(positions, again, [topic], Since(900 * S, {}))
    with pytest.raises(ReconcileError, match="only a run from the very beginning"):
        spans(positions, again, [topic], Since(NEVER, {}))
    with pytest.raises(ReconcileError, match="was created again, and the application has read nothing of it since"):
        spans(positions, replace(again, ends={}), [topic], Since(1050 * S, {}))


def test_a_partition_that_begins_later_than_the_others_of_a_topic_that_was_created_again_misses_nothing(
    bootstrap_servers, make_topic, positions
):
    topic = make_topic("spans", partitions=2, message_timestamp_type="CreateTime", retention_ms="-1")
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for second in range(100):
        producer.produce(topic, b"", partition=0, timestamp=(1000 + second) * S)
        if second >= 60:
            producer.produce(topic, b"", partition=1, timestamp=(1000 + second) * S)
    producer.flush()
    greatest = {(topic, 0): 1099 * S, (topic, 1): 1099 * S}
    again = replace(live({(topic, 0): 100, (topic, 1): 40}, greatest=greatest.items()), renewed=frozenset({topic}))
    assert spans(positions, again, [topic], Since(1030 * S, {})) == {(topic, 0): Span(30, 100), (topic, 1): Span(0, 40)}
    with pytest.raises(ReconcileError, match=r"from before 1970-01-01T00:1[67]:40.000Z are deleted"):
        spans(positions, again, [topic], Since(990 * S, {}))


def test_deleted_records_are_missed_only_where_they_may_be_needed(topic, positions, admin):
    delete_records(admin, {(topic, 0): 40})
    ends = live({(topic, 0): 90, (topic, 1): 50})
    assert spans(positions, ends, [topic], Since(1041 * S, {}))[topic, 0].start == 41
    with pytest.raises(
        ReconcileError, match=r"from before 1970-01-01T00:17:20.000Z are deleted.*\n.*from --from 1970-01-01T00:17:35.001Z on"
    ):
        spans(positions, ends, [topic], Since(1030 * S, {topic: 10 * S}, spare=5 * S))
    with pytest.raises(ReconcileError, match="only a run from the very beginning"):
        spans(positions, ends, [topic], Since(NEVER, {}))
    began_later = live({(topic, 0): 90}, {(topic, 0): 40}.items())
    assert spans(positions, began_later, [topic], Since(NEVER, {}))[topic, 0] == Span(40, 90)
