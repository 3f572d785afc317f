"""A dead letter whose value is where its record was: what stands there now may be another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.delivery.dead_letters import Letter, LetterPlace, record_of
from app.delivery.originals import Original

WRITTEN_MS = 1_800_000_000_000
LETTER = Letter(LetterPlace(0, 3), WRITTEN_MS, "a", (0, 17), WRITTEN_MS - 500, "oversized", "too large", "oversized", None, None, ())


class Broker:
    """Has one record at every place."""

    def __init__(self, timestamp_ms: int) -> None:
        self.timestamp_ms = timestamp_ms

    def read(self, topic, partition, offsets):
        return (Original(topic, partition, offset, self.timestamp_ms, b"k", b"v") for offset in offsets)


@pytest.mark.parametrize(
    ("known_ms", "found_ms", "is_it"),
    [
        (WRITTEN_MS - 500, WRITTEN_MS - 500, True),
        (WRITTEN_MS - 500, WRITTEN_MS - 499, False),
        (-1, WRITTEN_MS - 1, True),  # it could not be read when the letter was written
        (-1, WRITTEN_MS + 1, False),
    ],
)
def test_a_record_of_a_topic_that_was_made_again_is_not_sent_in_the_place_of_a_letter(known_ms: int, found_ms: int, *, is_it: bool) -> None:
    found = record_of(replace(LETTER, timestamp_ms=known_ms), "dead", Broker(found_ms))
    assert (found is not None) is is_it
