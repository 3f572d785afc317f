"""Deliveries wait for the order that uses them; none of another attempt is ever used."""

from __future__ import annotations

import threading

from app.owners.inbox import Delivery, Inbox

PARTS = dict.fromkeys(range(400), 0)


def delivered(inbox: Inbox, batch: int, attempt: int, part: int, text: bytes = b"x", application: str = "a", copy: int = 0) -> None:
    inbox.put(Delivery(application, batch, attempt, part, {3: [text]}, copy))


def test_an_attempt_gets_what_its_tasks_delivered():
    inbox = Inbox()
    delivered(inbox, 7, 1, 0, b"first")
    delivered(inbox, 7, 1, 4, b"second")
    assert inbox.take("a", 7, 1, PARTS) == {0: {3: [b"first"]}, 4: {3: [b"second"]}}
    assert inbox.take("a", 7, 1, PARTS) == {}, "it is given once"


def test_of_the_copies_of_a_task_the_one_counts_whose_report_was_taken_whoever_came_last():
    for copies in ([11, 12], [12, 11]):
        inbox = Inbox()
        for copy in copies:
            delivered(inbox, 7, 1, 0, b"%d" % copy, copy=copy)
        delivered(inbox, 7, 1, 1, b"other", copy=13)
        delivered(inbox, 7, 1, 2, b"of a copy that nobody waited for", copy=14)
        assert inbox.take("a", 7, 1, {0: 12, 1: 13, 2: 15}) == {0: {3: [b"12"]}, 1: {3: [b"other"]}}, "the third one is missing"
        assert inbox._deliveries == {}


def test_attempts_do_not_mix_and_stragglers_are_dropped():
    inbox = Inbox()
    delivered(inbox, 7, 1, 0, b"of the attempt that failed")
    delivered(inbox, 7, 2, 1, b"of the next")
    assert inbox.take("a", 7, 2, PARTS) == {1: {3: [b"of the next"]}}
    delivered(inbox, 7, 1, 2)
    delivered(inbox, 7, 2, 2)
    assert (inbox.take("a", 7, 1, PARTS), inbox.take("a", 7, 2, PARTS), inbox._deliveries) == ({}, {}, {})


def test_the_next_batch_can_come_before_this_one_is_taken():
    inbox = Inbox()
    delivered(inbox, 8, 3, 0, b"eight")
    delivered(inbox, 7, 2, 0, b"seven")
    assert inbox.take("a", 7, 2, PARTS) == {0: {3: [b"seven"]}}
    assert inbox.take("a", 8, 3, PARTS) == {0: {3: [b"eight"]}}


def test_applications_do_not_see_each_other():
    inbox = Inbox()
    delivered(inbox, 7, 1, 0, b"mine", "a")
    delivered(inbox, 7, 1, 0, b"yours", "b")
    inbox.take("a", 9, 9, PARTS)
    inbox.forget("a")
    assert inbox.take("b", 7, 1, PARTS) == {0: {3: [b"yours"]}}


def test_a_new_run_of_an_application_begins_anew():
    """The driver restarts and repeats batch 7 as its first attempt: it is no straggler."""
    inbox = Inbox()
    delivered(inbox, 7, 5, 0)
    inbox.take("a", 7, 5, PARTS)
    delivered(inbox, 8, 6, 0)
    inbox.forget("a")
    delivered(inbox, 7, 1, 0, b"again")
    assert inbox.take("a", 7, 1, PARTS) == {0: {3: [b"again"]}}
    assert inbox._deliveries == {}


def test_many_tasks_deliver_at_once():
    inbox = Inbox()
    threads = [
        threading.Thread(target=lambda part=part: [delivered(inbox, 7, 1, k) for k in range(part, 400, 8)] and None) for part in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(inbox.take("a", 7, 1, PARTS)) == list(range(400))
