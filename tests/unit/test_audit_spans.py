"""Events within the spans of matches, against the definition."""

import numpy as np
import pytest

from app.audit.spans import Places, Spans, covered


@pytest.mark.parametrize("seed", range(40))
def test_an_event_is_covered_if_one_span_of_its_partition_holds_it(seed):
    chance = np.random.default_rng(seed)
    matches, events, partitions = chance.integers(1, 12), chance.integers(0, 60), chance.integers(1, 6)
    since = chance.integers(0, 40, matches)
    spans = Spans(chance.integers(0, partitions, matches).astype(np.uint64), since, since + chance.integers(0, 15, matches))
    keys, times = chance.integers(0, partitions + 1, events).astype(np.uint64), chance.integers(-3, 60, events)
    everywhere = chance.random(events) < 0.2
    expected = [
        any(
            first <= time <= last and (anywhere or key == own)
            for own, first, last in zip(spans.keys, spans.since, spans.until, strict=True)
        )
        for key, time, anywhere in zip(keys, times, everywhere, strict=True)
    ]
    assert covered(spans, keys, everywhere, times).tolist() == expected


@pytest.mark.parametrize("seed", range(40))
def test_places_are_those_of_the_events_in_a_span_of_their_partition(seed):
    chance = np.random.default_rng(seed)
    matches, events, partitions = chance.integers(1, 12), chance.integers(0, 60), chance.integers(1, 6)
    since = chance.integers(0, 40, matches)
    spans = Spans(chance.integers(0, partitions + 1, matches).astype(np.uint64), since, since + chance.integers(0, 15, matches))
    keys, times = chance.integers(0, partitions, events).astype(np.uint64), np.sort(chance.integers(-3, 60, events))
    everywhere = chance.random(events) < 0.2
    expected = [
        [row for row in range(events) if spans.since[k] <= times[row] <= spans.until[k] and (everywhere[row] or keys[row] == spans.keys[k])]
        for k in range(matches)
    ]
    places = Places(times, keys, everywhere)
    assert [places.of(spans, k).tolist() for k in range(matches)] == expected
    assert places.counted(spans).tolist() == [len(rows) for rows in expected]
