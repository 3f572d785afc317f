"""Lateness and total order from the definitions of the language page, section 2.

Arrivals are events in the order in which they arrive; ``source`` is the topic partition. One stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.naive.language import Event
from tests.naive.matching import order


@dataclass(frozen=True)
class Arrived:
    """What has become of the arrivals so far.

    Attributes:
        fed: events that have been given to the matching, in total order.
        late: events that came too late, in order of arrival.
        watermark: of the stream; None before every partition has been seen.
    """

    fed: list[Event]
    late: list[Event]
    watermark: float


def arrive(arrivals: list[Event], lateness: int, sources: frozenset[int]) -> Arrived:
    """After these arrivals: what was fed, what was late, where the watermark is."""
    on_time, late = [], []
    for number, event in enumerate(arrivals):
        is_late = event["time"] < partition_watermark(arrivals[:number], event["source"], lateness)
        (late if is_late else on_time).append(event)
    watermark = min(partition_watermark(arrivals, source, lateness) for source in sources)
    return Arrived(sorted((e for e in on_time if e["time"] < watermark), key=order), late, watermark)


def partition_watermark(arrivals: list[Event], source: int, lateness: int) -> float:
    """The greatest time seen in the topic partition minus the allowed lateness."""
    return max((e["time"] for e in arrivals if e["source"] == source), default=float("-inf")) - lateness


def on_time(arrivals: list[Event], lateness: int) -> list[Event]:
    """All events that are not late, in total order: what has been fed when the watermark is at infinity."""
    sources = frozenset(e["source"] for e in arrivals)
    late = arrive(arrivals, lateness, sources).late if arrivals else []
    return sorted((e for e in arrivals if e not in late), key=order)


def arrive_trusted(arrivals: list[Event], key: str) -> Arrived:
    """A stream that is ``ordered_by: key``: fed as it arrives; late is what is earlier than its predecessor of the same key."""
    fed, late, last = [], [], {}
    for event in arrivals:
        own = event["attributes"].get(key)
        if own in last and event["time"] < last[own]:
            late.append(event)
        else:
            last[own] = event["time"]
            fed.append(event)
    return Arrived(fed, late, float("inf"))
