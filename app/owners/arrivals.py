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


class Arrivals:
    """Broker timestamps of recent events, by place. Sorted only when somebody asks: most batches have few matches."""

    def __init__(self) -> None:
        self._batches: deque[tuple[NDArray[np.int64], NDArray[np.int64]]] = deque(maxlen=KEPT_BATCHES)

    def learn(self, chunks: Sequence[Chunk]) -> None:
        """Takes in what arrived in one batch."""
        sections = [s.batch for chunk in chunks for s in chunk.sections if INGESTED in s.batch.columns]
        if sections:
            places = np.concatenate([place_numbers(batch.source, batch.offset) for batch in sections])
            times = np.concatenate([batch.columns[INGESTED].values.astype(np.int64, copy=False) for batch in sections])
            self._batches.append((places, times))

    def of_last_events(self, matches: Matches) -> NDArray[np.int64]:
        """Broker timestamps (ms) of the last events of those matches that their last event completed, as far as they are known."""
        last = matches.rows[:, -1] if matches.varying is None else matches.varying.rows[matches.varying.starts[1:] - 1]
        source = matches.events.source[last]
        wanted = place_numbers(source, matches.events.offset[last])[(matches.events.time[last] == matches.time) & (source != COMPOSITES)]
        found = []
        for places, times in reversed(self._batches):
            if not len(wanted):
                break
            order = np.argsort(places)
            at = np.minimum(np.searchsorted(places, wanted, sorter=order), len(places) - 1)
            hit = places[order[at]] == wanted
            found.append(times[order[at[hit]]])
            wanted = wanted[~hit]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
