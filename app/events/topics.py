"""Topics by number: an event's source holds the number of its topic, and a number never gets another meaning.

A list of topics names them by number, those that are no longer read among them. A topic that was deleted and created again has a number of its own,
and is called ``name#2`` there: its offsets begin at 0 again, and nothing of it may be taken for what was there before.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.events.batch import PARTITION_BITS

_AGAIN = "#"
"""Kafka allows it in no topic's name."""


def topic_label(topic: str, incarnation: int) -> str:
    """A topic in a list of topics; ``incarnation`` counts from 1 how often it was created.

    >>> topic_label("retail", 1), topic_label("retail", 2)
    ('retail', 'retail#2')
    """
    return topic if incarnation == 1 else f"{topic}{_AGAIN}{incarnation}"


def topic_and_incarnation(label: str) -> tuple[str, int]:
    """What `topic_label` was given.

    >>> topic_and_incarnation("retail"), topic_and_incarnation("retail#2")
    (('retail', 1), ('retail', 2))
    """
    topic, again, incarnation = label.rpartition(_AGAIN)
    return (topic, int(incarnation)) if again and incarnation.isdecimal() else (label, 1)


def topic_name(label: str) -> str:
    """The topic's name for Kafka."""
    return topic_and_incarnation(label)[0]


def topic_numbers(topics: Sequence[str]) -> dict[str, int]:
    """By name the number under which a topic is read today: that of its newest incarnation.

    >>> topic_numbers(("a", "b", "a#2"))
    {'a': 2, 'b': 1}
    """
    return {topic_name(label): number for number, label in enumerate(topics)}


def topic_partition(topics: Sequence[str], source: int) -> tuple[str, int]:
    """The topic partition that a source stands for.

    >>> topic_partition(("a", "b", "a#2"), (2 << 20) + 7)
    ('a', 7)
    """
    return topic_name(topics[source >> PARTITION_BITS]), source & ((1 << PARTITION_BITS) - 1)
