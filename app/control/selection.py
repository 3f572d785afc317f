"""Evaluation sequences of the running catalog: told what tasks saw, decides the order in which the next batches are selected.

The decision is part of the directive, so tasks of one batch, and a batch that is done again, evaluate in the same order.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.asc.adaptive import Adaptive, AdaptiveRules, Seen
from app.asc.selection import Selection
from app.config.settings import Selection as SelectionSettings
from app.control.messages.directives import SelectionOrders
from app.control.messages.reports import SelectionTally
from app.query.plan import QUERY_STREAM, Catalog


class Sequences:
    """One evaluation sequence per stream.

    Args:
        catalog: what runs.
        settings: when to search for another sequence.
    """

    def __init__(self, catalog: Catalog, settings: SelectionSettings) -> None:
        rules = AdaptiveRules(settings.mode, settings.period, settings.threshold, settings.sample)
        self._streams: dict[str, Adaptive] = {}
        for stream in sorted({name for plan in catalog.plans for name in plan.streams if not name.startswith(QUERY_STREAM)}):
            selection = Selection(catalog, stream)
            self._streams[stream] = Adaptive(selection.constructs, rules, selection.initial)

    def orders(self) -> dict[str, SelectionOrders]:
        """What the directive of the next batch says, by stream."""
        return {stream: SelectionOrders(one.sequence, one.sample_wanted) for stream, one in self._streams.items()}

    def observe(self, tallies: Mapping[str, SelectionTally]) -> list[str]:
        """Takes in a batch.

        Args:
            tallies: by stream, all tasks together.

        Returns:
            streams that have another sequence now.
        """
        changed = []
        for stream, tally in tallies.items():
            adaptive = self._streams.get(stream)
            if adaptive is None:
                continue
            samples = [unpacked(text, len(adaptive.sequence.order)) for text in tally.samples]
            fitting = [sample for sample in samples if sample is not None]
            regions = np.concatenate(fitting, axis=1) if fitting else None
            if adaptive.observe(Seen(tally.events, tally.pruned), regions):
                changed.append(stream)
        return changed

    def snapshot(self) -> dict[str, Any]:
        """Values for JSON."""
        return {stream: adaptive.snapshot() for stream, adaptive in self._streams.items()}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Goes on from a snapshot, where the stream's constructs are the same."""
        for stream, adaptive in self._streams.items():
            adaptive.restore(plain.get(stream, {}))


def sampled_rows(events: int, wanted: int) -> NDArray[np.int64]:
    """Rows of a batch to sample: evenly spread, the same whenever the batch is done again.

    >>> sampled_rows(10, 4).tolist(), sampled_rows(2, 4).tolist(), sampled_rows(10, 0).tolist()
    ([0, 2, 5, 7], [0, 1], [])
    """
    count = min(events, wanted)
    return np.arange(count) * events // max(1, count)


def packed(regions: NDArray[np.int32]) -> str:
    """Sampled regions, int32 (constructs, events), as text for a report."""
    return b64encode(zlib.compress(np.ascontiguousarray(regions, dtype="<i4").tobytes(), 1)).decode()


def unpacked(text: str, constructs: int) -> NDArray[np.int32] | None:
    """Reads what `packed` gave; None when it is of another number of constructs."""
    flat = np.frombuffer(zlib.decompress(b64decode(text)), dtype="<i4").astype(np.int32)
    return flat.reshape(constructs, -1) if constructs and len(flat) % constructs == 0 else None
