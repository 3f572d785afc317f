"""When events arrived at the broker: for the detection latency of composite events."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.bucket.chunk import Chunk
from app.bucket.places import COMPOSITES
from app.cep.matches import Matches
from app.events.batch import place_numbers
from app.owners.deployment import INGESTED

KEPT_BATCHES = 32
"""Events wait for the watermark a few batches at most; what waited longer is not measured."""


class _Batch:
    """Of one batch; sorted by place when somebody asks for the first time, and no more then: a thousand queries may ask."""

    def __init__(self, places: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        self._places, self._times, self._sorted = places, times, False

    def look_up(self, wanted: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Times of the events that were in the batch, and the places of those that were not."""
        if not self._sorted:
            order = np.argsort(self._places)
            self._places, self._times, self._sorted = self._places[order], self._times[order], True
        at = np.minimum(np.searchsorted(self._places, wanted), len(self._places) - 1)
        hit = self._places[at] == wanted
        return self._times[at[hit]], wanted[~hit]


class Arrivals:
    """Broker timestamps of recent events, by place. Most batches have few matches, so nothing is sorted before somebody asks."""

    def __init__(self) -> None:
        self._batches: deque[_Batch] = deque(maxlen=KEPT_BATCHES)

    def learn(self, chunks: Sequence[Chunk]) -> None:
        """Takes in what arrived in one batch."""
        sections = [s.batch for chunk in chunks for s in chunk.sections if INGESTED in s.batch.columns]
        if sections:
            places = np.concatenate([place_numbers(batch.source, batch.offset) for batch in sections])
            times = np.concatenate([batch.columns[INGESTED].values.astype(np.int64, copy=False) for batch in sections])
            self.add(places, times)

    def add(self, places: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        """Takes in one batch: `place_numbers` of its events, and their broker timestamps (ms)."""
        if len(places):
            self._batches.append(_Batch(places, times))

    def of_last_events(self, matches: Matches) -> NDArray[np.int64]:
        """Broker timestamps (ms) of the last events of those matches that their last event completed, as far as they are known."""
        last = matches.rows[:, -1] if matches.varying is None else matches.varying.rows[matches.varying.starts[1:] - 1]
        source = matches.events.source[last]
        wanted = place_numbers(source, matches.events.offset[last])[(matches.events.time[last] == matches.time) & (source != COMPOSITES)]
        found = [np.zeros(0, dtype=np.int64)]
        for batch in reversed(self._batches):
            if not len(wanted):
                break
            times, wanted = batch.look_up(wanted)
            found.append(times)
        return np.concatenate(found)
