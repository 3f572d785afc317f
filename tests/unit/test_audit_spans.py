"""Events within the spans of matches, against the definition."""

import numpy as np
import pytest

from app.audit.verdicts import Spans, covered


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
