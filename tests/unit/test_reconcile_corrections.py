"""What is taken back, what cannot be, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.delivery.originals import Original
from app.errors import DependencyError
from app.pipeline.reconcile import corrections, reconcile
from app.pipeline.reconcile.audit import audit_value
from app.pipeline.reconcile.corrections import retract
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
    outcome = Outcome(Interval(0, 9), ROWS, {}, 40, {}, 0)
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
        reconcile._published(work, Outcome(Interval(0, 9), ROWS, {}, 40, {}, 0), None, DIFFERENCES)
    assert not publisher.records


def test_a_dry_run_tells_all_that_is_false():
    assert audit_value(Outcome(Interval(0, 9), ROWS, {}, 40, {}, 0), ROWS[0])["retracted"] == 3
