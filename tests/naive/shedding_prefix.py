"""`prefix` from its definition: an event is worth something when kept events before it make a chain that it extends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Arrival:
    """An event: bits of the items that it can be, partition, place (ms), rank of its worth in [0, 1)."""

    items: int
    key: int
    place: int
    rank: float


def kept_events(events: Sequence[Arrival], needs: Sequence[int], negated: int, window: int, threshold: float) -> list[bool]:
    """Decides one after the other; a chain is looked for among all kept events, from its end to its beginning."""
    kept: list[Arrival] = []
    decisions = []
    for event in events:
        able = [item for item in range(len(needs)) if event.items >> item & 1 and _chains(kept, event, needs[item], needs, window)]
        level = 0 if not able else 2 if any(negated >> item & 1 for item in able) else 1
        stays = level + event.rank >= threshold
        decisions.append(stays)
        if stays:
            kept.append(event)
    return decisions


def _chains(kept: Sequence[Arrival], last: Arrival, item: int, needs: Sequence[int], window: int) -> bool:
    """Whether kept events can be ``item`` and all that it needs, in order, in the partition and window of the last event."""
    if item < 0:
        return True
    for number, event in enumerate(kept):
        same = event.key == last.key and last.place - event.place < window
        if same and event.items >> item & 1 and _chains(kept[:number], last, needs[item], needs, window):
            return True
    return False
