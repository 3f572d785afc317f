"""Of a recording that is matched part by part no more is kept than is needed."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np

from app.bucket import recording
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Catalog

QUERIES = 400
SYMBOLS = Dictionary.of([b"X", *(f"R{number}".encode() for number in range(QUERIES + 1))])


def catalog() -> Catalog:
    """So many queries of rare symbols that candidates are listed, and may wait."""
    text = "name: q{0}\nevent: SEQ(Q a, Q b)\nwhere: a.s = 'R{0}' AND b.s = 'R{1}'\nwithin: 10 s\n"
    schema = StreamSchema("s", (EventType("Q", (Attribute("s", Kind.STRING),)),))
    found = compile_texts([("q.yaml", "---\n".join(text.format(number, number + 1) for number in range(QUERIES)))], {"s": schema})
    assert not found.errors
    return found.catalog


def part(first: int, symbols: list[int]) -> EventBatch:
    size = len(symbols)
    types = Column(Kind.STRING, np.zeros(size, np.int32), None, Dictionary.of([b"Q"]))
    times = np.arange(first, first + size)
    return EventBatch(times, np.zeros(size, np.int64), times, types, {"s": Column(Kind.STRING, np.array(symbols, np.int32), None, SYMBOLS)})


def test_events_of_which_few_are_candidates_do_not_all_wait_in_memory() -> None:
    """They waited until there were a million candidates: with none the whole file."""
    alive: list[int] = []

    def parts() -> Iterator[EventBatch]:
        given: list[weakref.ref] = []
        for number in range(100):
            one = part(10 * number, [0] * 10)
            given.append(weakref.ref(one.time))
            alive.append(sum(times() is not None for times in given))
            yield one
            del one

    with patch.object(recording, "WAITING_EVENTS", 80):
        steps = list(recording.steps_of(catalog(), parts()))
    assert max(alive) <= 10
    assert len(steps) == 13


def test_what_waits_for_other_parts_is_found_all_the_same() -> None:
    symbols = [0, 1, 0, 2, 0, 0, 3, 0, 4, 0, 5, 0]
    for waiting in (1, 5, 1000):
        given = (part(first, symbols[first : first + 2]) for first in range(0, len(symbols), 2))
        with patch.object(recording, "WAITING_EVENTS", waiting):
            steps = list(recording.steps_of(catalog(), given))
        assert sum(len(one.matches) for step in steps for one in step.found) == 4
