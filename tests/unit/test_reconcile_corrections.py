"""What is taken back, what cannot be, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.config.settings import Settings
from app.delivery.originals import Original
from app.errors import DependencyError
from app.pipeline.reconcile import corrections, going_on, reconcile
from app.pipeline.reconcile.aims import Request
from app.pipeline.reconcile.audit import audit_value
from app.pipeline.reconcile.corrections import retract
from app.pipeline.reconcile.failure import DeletedError, NothingShedsError, NotThereYetError
from app.pipeline.reconcile.identities import Difference, Kind
from app.pipeline.reconcile.outcome import Outcome, Row
from app.pipeline.reconcile.scope import Interval

THEFTS, TIMEOUTS = Kind("theft", False), Kind("theft", True)
FALSE = {THEFTS: {b"1": (("found", 0), 3), b"2": (("found", 0), 8), b"3": (("found", 1), 2)}, TIMEOUTS: {b"4": (("late", 0), 5)}}


def difference(kind: Kind) -> Difference:
    return Difference(10, 9, 6, frozenset(), dict(FALSE[kind]))


DIFFERENCES = {kind: difference(kind) for kind in FALSE}
ROWS = tuple(Row(kind, 1, Interval(0, 9), False, one) for kind, one in DIFFERENCES.items())


class Published:
    """Instead of Kafka."""

    def __init__(self, *_: object) -> None:
        self.records: list[tuple[str, bytes]] = []
        self.told: list[dict] = []

    def add(self, topic, key, value, headers) -> None:
        self.records.append((topic, dict(headers)["ce_type"]))

    def audit(self, output, query, value) -> None:
        self.told.append(value)

    def flush(self) -> None:
        pass


def read_as(problem: str):
    """One record is gone, one cannot be read."""

    def originals(_settings, places):
        for topic, partition, offset in places:
            known = Original(topic, partition, offset, headers=(("ce_type", b"cep.theft.v1"),))
            if offset == 8:
                known = replace(known, found=False)
            elif offset == 2:
                known = replace(known, found=not problem, problem=problem)
            yield known

    return originals


def test_what_is_gone_and_what_could_not_be_read_are_told_apart(monkeypatch):
    monkeypatch.setattr(corrections, "_originals", read_as("no answer in 20 s"))
    publisher = Published()
    missed = retract(publisher, None, DIFFERENCES)
    assert publisher.records == [("found", b"cep.theft.v1.retracted"), ("late", b"cep.theft.v1.retracted")]
    assert (missed.gone, missed.unread, missed.problem) == ({THEFTS: 1}, {THEFTS: 1}, "no answer in 20 s")


@pytest.mark.parametrize("problem", ["", "no answer in 20 s"])
def test_the_audit_topic_is_told_what_was_taken_back_and_people_what_was_not(monkeypatch, problem):
    publisher = Published()
    monkeypatch.setattr(corrections, "_originals", read_as(problem))
    monkeypatch.setattr(reconcile, "Publisher", lambda _: publisher)
    monkeypatch.setattr(reconcile, "audit_output", lambda _: None)
    outcome = Outcome(Interval(0, 9), ROWS, {}, 40, {}, 0, 0)
    work = type("Work", (), {"settings": None, "telling": reconcile.Telling(lambda *_: None, lambda _: None)})()
    found = type("Found", (), {"records": lambda _: iter(())})()
    if problem:
        with pytest.raises(DependencyError, match="1 false composite events could not be read again: no answer in 20 s"):
            reconcile._published(work, outcome, found, DIFFERENCES)
    else:
        assert reconcile._published(work, outcome, found, DIFFERENCES).gone == {THEFTS: 1}
    assert [(one["kind"], one["retracted"]) for one in publisher.told] == [("COMPOSITE_EVENTS", 1 if problem else 2), ("TIMEOUTS", 1)]


def test_nothing_is_published_where_nobody_could_be_told(monkeypatch):
    publisher = Published()

    def away(_):
        raise DependencyError("the registry is away")

    monkeypatch.setattr(corrections, "_originals", read_as(""))
    monkeypatch.setattr(reconcile, "Publisher", lambda _: publisher)
    monkeypatch.setattr(reconcile, "audit_output", away)
    work = type("Work", (), {"settings": None, "telling": reconcile.Telling(lambda *_: None, lambda _: None)})()
    with pytest.raises(DependencyError, match="the registry is away"):
        reconcile._published(work, Outcome(Interval(0, 9), ROWS, {}, 40, {}, 0, 0), None, DIFFERENCES)
    assert not publisher.records


class Course:
    """Reconciliations as they were asked for, of which the first so many fail."""

    def __init__(self, *failures, come=10**9):
        self.failures, self.come, self.asked = list(failures), come, []

    def __call__(self, _settings, request, _session, _telling):
        self.asked.append(request.shed)
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure
        return Outcome(request.shed, (), {}, 0, {}, 0, self.come)


@pytest.fixture
def gone_on(monkeypatch, tmp_path):
    settings = Settings(checkpoint={"path": str(tmp_path / "checkpoint")})

    def run(course, begin, end, *, dry=False):
        monkeypatch.setattr(going_on, "reconcile", course)
        telling = reconcile.Telling(lambda *_: None, lambda _: None)
        return going_on.go_on(settings, Request(Interval(begin, end), dry=dry), lambda: None, telling)

    return run


def test_a_reconciliation_that_goes_on_begins_where_the_last_one_ended(gone_on):
    course = Course()
    for begin, end, dry in ((100, 110, True), (100, 110, False), (108, 118, False), (150, 160, False), (160, 170, False)):
        gone_on(course, begin, end, dry=dry)
    assert [(one.begin, one.end) for one in course.asked] == [(100, 110), (100, 110), (108, 118), (118, 158), (158, 170)]


def test_what_the_application_had_not_come_to_is_compared_again(gone_on):
    gone_on(Course(come=104), 100, 110)
    again = Course()
    gone_on(again, 110, 120)
    assert again.asked == [Interval(104, 120)]


def test_a_failure_moves_nothing_and_deleted_records_are_passed_over(gone_on):
    gone_on(Course(), 100, 110)
    with pytest.raises(NotThereYetError):
        gone_on(Course(NotThereYetError("not there yet")), 200, 210)
    course = Course(DeletedError("gone", 130), DeletedError("gone"), None)
    gone_on(course, 200, 210)
    assert course.asked == [Interval(110, 150), Interval(130, 170), Interval(200, 210)]
    with pytest.raises(DeletedError):
        gone_on(Course(DeletedError("gone", 300)), 205, 215)


def test_where_nothing_sheds_all_is_done(gone_on):
    with pytest.raises(NothingShedsError):
        gone_on(Course(NothingShedsError("no query sheds")), 100, 110)
    course = Course()
    gone_on(course, 120, 130)
    assert course.asked == [Interval(110, 130)]


def test_a_dry_run_tells_all_that_is_false():
    assert audit_value(Outcome(Interval(0, 9), ROWS, {}, 40, {}, 0, 0), ROWS[0])["retracted"] == 3
