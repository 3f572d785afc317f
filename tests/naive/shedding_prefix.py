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


def kept_events(events: Sequence[Arrival], needs: Sequence[int], negated: int, ending: int, window: int, threshold: float) -> list[bool]:
    """Decides one after the other; a chain is looked for among all kept events, from its end to its beginning.

    An event that surely ends something ends it whether it is kept or not: whoever was there before is no longer what its item needs. If it is not
    kept the engine does not know, so what would complete that chain there must go, until one that ends it is kept.
    """
    before: list[tuple[Arrival, bool]] = []
    decisions = []
    for event in events:
        own = [item for item in range(len(needs)) if event.items >> item & 1]
        chains = {item: _chains(before, event, needs[item], needs, ending, window) for item in own}
        able = [item for item in own if needs[item] < 0 or any(not one.over for one in chains[item])]
        forbidden = any(one.over and not one.known for item in own if not negated >> item & 1 for one in chains[item])
        must = any(negated >> item & 1 and not ending >> item & 1 for item in able)
        extends = any(not negated >> item & 1 for item in able)
        level = 3 if must else 2 if extends else 1 if able else 0
        decisions.append(not forbidden and level + event.rank >= threshold)
        before.append((event, decisions[-1]))
    return decisions


@dataclass(frozen=True)
class Chain:
    """Kept events that are the items up to one: whether something ended them, and whether the engine was told so."""

    over: bool
    known: bool


def _chains(
    before: Sequence[tuple[Arrival, bool]], last: Arrival, item: int, needs: Sequence[int], ending: int, window: int
) -> list[Chain]:
    """Of kept events that can be ``item`` and all that it needs, in order, in the partition and window of the last event."""
    found = []
    for number, (event, kept) in enumerate(before):
        if item < 0 or not kept or event.key != last.key or last.place - event.place >= window or not event.items >> item & 1:
            continue
        if needs[item] >= 0 and all(one.over for one in _chains(before[:number], last, needs[item], needs, ending, window)):
            continue
        enders = sum(1 << one for one in range(len(needs)) if ending >> one & 1 and needs[one] == item)
        after = [stays for one, stays in before[number + 1 :] if one.key == last.key and one.items & enders]
        found.append(Chain(bool(after), any(after)))
    return found
