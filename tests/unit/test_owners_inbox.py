"""Deliveries wait for the order that uses them; none of another attempt is ever used."""

from __future__ import annotations

import threading

from app.owners.inbox import Delivery, Inbox


def delivered(inbox: Inbox, batch: int, attempt: int, part: int, text: bytes = b"x", application: str = "a") -> None:
    inbox.put(Delivery(application, batch, attempt, part, {3: [text]}))


def test_an_attempt_gets_what_its_tasks_delivered():
    inbox = Inbox()
    delivered(inbox, 7, 1, 0, b"first")
    delivered(inbox, 7, 1, 4, b"second")
    assert inbox.take("a", 7, 1) == {0: {3: [b"first"]}, 4: {3: [b"second"]}}
    assert inbox.take("a", 7, 1) == {}, "it is given once"


def test_a_repeated_task_replaces_what_it_sent_before():
    inbox = Inbox()
    delivered(inbox, 7, 1, 0, b"half")
    delivered(inbox, 7, 1, 0, b"whole")
    assert inbox.take("a", 7, 1) == {0: {3: [b"whole"]}}


def test_attempts_do_not_mix_and_stragglers_are_dropped():
    inbox = Inbox()
    delivered(inbox, 7, 1, 0, b"of the attempt that failed")
    delivered(inbox, 7, 2, 1, b"of the next")
    assert inbox.take("a", 7, 2) == {1: {3: [b"of the next"]}}
    delivered(inbox, 7, 1, 2)
    delivered(inbox, 7, 2, 2)
    assert (inbox.take("a", 7, 1), inbox.take("a", 7, 2), inbox._deliveries) == ({}, {}, {})


def test_the_next_batch_can_come_before_this_one_is_taken():
    inbox = Inbox()
    delivered(inbox, 8, 3, 0, b"eight")
    delivered(inbox, 7, 2, 0, b"seven")
    assert inbox.take("a", 7, 2) == {0: {3: [b"seven"]}}
    assert inbox.take("a", 8, 3) == {0: {3: [b"eight"]}}


def test_applications_do_not_see_each_other():
    inbox = Inbox()
    delivered(inbox, 7, 1, 0, b"mine", "a")
    delivered(inbox, 7, 1, 0, b"yours", "b")
    inbox.take("a", 9, 9)
    inbox.forget("a")
    assert inbox.take("b", 7, 1) == {0: {3: [b"yours"]}}


def test_a_new_run_of_an_application_begins_anew():
    """The driver restarts and repeats batch 7 as its first attempt: it is no straggler."""
    inbox = Inbox()
    delivered(inbox, 7, 5, 0)
    inbox.take("a", 7, 5)
    delivered(inbox, 8, 6, 0)
    inbox.forget("a")
    delivered(inbox, 7, 1, 0, b"again")
    assert inbox.take("a", 7, 1) == {0: {3: [b"again"]}}
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
    assert sorted(inbox.take("a", 7, 1)) == list(range(400))
