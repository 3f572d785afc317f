"""A topic that was deleted and created again has the offsets of the one before; identities tell them apart, readers see its name."""

from __future__ import annotations

from app.events.topics import topic_and_incarnation, topic_label
from app.query.plan import Plan
from tests.naive.composites import Constituent, match_identity, opener_place

PLAN = Plan("shoplifting", 1, "", (), 1.0, ("retail",), (), (), (), None, (), ())


def constituent(topic: str, incarnation: int = 1) -> Constituent:
    return Constituent("s", "ShelfReading", topic, 0, 7, 5, incarnation)


def test_identities_of_a_first_incarnation_stay_what_they_were() -> None:
    assert match_identity(PLAN, None, [constituent("retail")]) == match_identity(PLAN, None, [Constituent("s", "", "retail", 0, 7, 5)])


def test_every_incarnation_has_identities_of_its_own() -> None:
    assert len({match_identity(PLAN, None, [constituent("retail", n)]) for n in range(1, 5)}) == 4


def test_windows_that_the_same_offset_opened_are_told_apart() -> None:
    assert [opener_place(constituent("retail", n)) for n in (1, 2)] == ["retail/0/7", "retail#2/0/7"]


def test_labels_are_read_as_they_were_written() -> None:
    for topic in ("a", "a-b.c_d", "a1"):
        for incarnation in (1, 2, 13):
            assert topic_and_incarnation(topic_label(topic, incarnation)) == (topic, incarnation)
