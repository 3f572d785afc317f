"""The shadow group commits beside the batches: it never makes one wait, and never ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from app.config.settings import Settings
from app.control.shadow_group import ShadowGroup
from app.observe.metrics import Metrics
from tests.kafka.application import until

PLACE = ("readings", 0)


class Broker:
    """Takes commits, as long as it may."""

    def __init__(self) -> None:
        self.open, self.refuses = threading.Event(), False
        self.committed: list[dict[tuple[str, int], int]] = []
        self.asked = 0
        self.open.set()

    def commit(self, offsets) -> None:
        self.asked += 1
        assert self.open.wait(60)
        if self.refuses:
            raise RuntimeError("group authorization failed")
        self.committed.append(dict(offsets))


@pytest.fixture
def broker() -> Broker:
    return Broker()


def soon(condition: Callable[[], object]) -> None:
    until(condition, 30, 0.005)


def test_offsets_of_a_batch_are_committed_and_counted(broker):
    metrics = Metrics()
    group = ShadowGroup(broker.commit, metrics)
    group.tell({PLACE: 5})
    soon(lambda: broker.committed == [{PLACE: 5}])
    group.tell({PLACE: 9})
    soon(lambda: broker.committed[-1] == {PLACE: 9})
    group.stop()
    assert metrics.value("cep_shadow_commits_total") == len(broker.committed)
    assert metrics.value("cep_shadow_commit_errors_total") == 0


def test_a_broker_that_hangs_makes_no_batch_wait_and_gets_only_the_newest_offsets_afterwards(broker):
    broker.open.clear()
    group = ShadowGroup(broker.commit, Metrics())
    group.tell({PLACE: 1})
    soon(lambda: broker.asked == 1)
    for end in range(2, 1000):
        group.tell({PLACE: end})  # would never come back if it waited
    broker.open.set()
    soon(lambda: {PLACE: 999} in broker.committed)
    group.stop()
    assert len(broker.committed) <= 3


def test_failures_are_counted_every_time_logged_once_and_over_with_the_first_success(broker):
    metrics = Metrics()
    broker.refuses = True
    with capture_logs() as lines:
        group = ShadowGroup(broker.commit, metrics)
        for end in (1, 2, 3):
            group.tell({PLACE: end})
            soon(lambda end=end: metrics.value("cep_shadow_commit_errors_total") >= end)
        broker.refuses = False
        group.tell({PLACE: 4})
        soon(lambda: broker.committed)
        group.stop()
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("offsets are not committed to the shadow group", "warning"),
        ("offsets are committed to the shadow group again", "info"),
    ]
    assert lines[0]["reason"] == "group authorization failed"


def test_what_failed_is_tried_again_without_a_batch(broker):
    broker.refuses = True
    group = ShadowGroup(broker.commit, Metrics(), retry_s=0.01)
    group.tell({PLACE: 7})
    soon(lambda: broker.asked > 2)
    broker.refuses = False
    soon(lambda: {PLACE: 7} in broker.committed)
    group.stop()


def test_offsets_are_renewed_while_nothing_comes(broker):
    group = ShadowGroup(broker.commit, Metrics(), renew_s=0.01)
    group.tell({PLACE: 7})
    soon(lambda: broker.committed[:3] == [{PLACE: 7}] * 3)
    group.stop()


def test_the_last_batch_is_committed_before_the_end_and_nothing_where_there_was_none(broker):
    broker.open.clear()
    group = ShadowGroup(broker.commit, Metrics())
    group.tell({PLACE: 1})
    soon(lambda: broker.asked == 1)
    group.tell({PLACE: 2})
    threading.Timer(0.05, broker.open.set).start()
    group.stop()
    assert broker.committed[-1] == {PLACE: 2}
    silent = ShadowGroup(broker.commit, Metrics())
    silent.stop()
    assert broker.committed[-1] == {PLACE: 2}


def test_the_group_is_named_after_the_application_behind_the_prefix_unless_it_has_a_name_or_is_off():
    def group(**kafka: object) -> str | None:
        return Settings.model_validate({"application": "shop", "kafka": kafka}).shadow_group

    assert group() == "shop"
    assert group(group_id_prefix="team") == "team-shop"
    assert group(group_id_prefix="team", shadow_group={"name": "lag"}) == "lag"
    assert group(shadow_group={"enabled": False}) is None
