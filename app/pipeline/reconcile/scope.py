"""Which composite events an interval of events can have to do with, and which events these have to do with. Pure; times are ms.

A match with the match time m has to do with events from ``m - back`` to ``m + forth`` and no others (`Reach`). So shedding between two times can have changed the
matches from ``begin - forth`` to ``end + back``, and to find these again takes a reach more at both ends. Who reads other queries adds its reach to theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from app.bucket.composition import read_by
from app.bucket.hold import FOREVER, NEVER
from app.query.plan import QUERY_STREAM, Catalog, Plan
from app.query.reach import emission_delay_ms, reach_ms


@dataclass(frozen=True, slots=True)
class Interval:
    """Times from ``begin`` to ``end``, both included; `NEVER` and `FOREVER` where there is no border."""

    begin: int = NEVER
    end: int = FOREVER

    def wider(self, before: int, behind: int) -> Interval:
        """With so much more at both ends.

        >>> Interval(5, 9).wider(1, 2), Interval().wider(1, 2) == Interval()
        (Interval(begin=4, end=11), True)
        """
        begin = self.begin if self.begin <= NEVER else self.begin - before
        return Interval(begin, self.end if self.end >= FOREVER else self.end + behind)

    def holds(self, time: int) -> bool:
        """Whether a time lies in it."""
        return self.begin <= time <= self.end


def hull(parts: Iterable[Interval]) -> Interval:
    """The least interval that holds all of them.

    >>> hull([Interval(1, 2), Interval(5, 6)])
    Interval(begin=1, end=6)
    """
    known = list(parts)
    return Interval(min(part.begin for part in known), max(part.end for part in known))


EVER = Interval()


@dataclass(frozen=True, slots=True)
class Reach:
    """How far before and behind its own time a match has to do with events."""

    back: int
    forth: int


def reach_of(plan: Plan) -> Reach | None:
    """The reach of a query's matches and timeouts; None: without bound in time, so that only a run from the very beginning tells what they are."""
    whole, delay = reach_ms(plan), emission_delay_ms(plan)
    size, window = plan.within, None if plan.runs is None else plan.runs.window
    if whole is None or delay is None or (plan.runs is not None and plan.runs.after != "no-skip" and window is None):
        return None  # what after: keeps depends on the match before, and that on the one before it
    if window is not None:
        return Reach(whole + window.size, max(delay, window.size))
    negated = plan.items[0].negated if plan.runs is None else any(item.negated for item in plan.items)
    return Reach(whole + (size.size if negated and size is not None else 0), delay)


def refusal(plan: Plan) -> str | None:
    """Why nobody can say what a query would have found; None where it can be said."""
    if plan.temporal is not None:
        return "a temporal query tells changes since its last window, so what was published before cannot be taken apart"
    if emission_delay_ms(plan) is None:
        return "its matches may wait for each other without a bound in time; give it a within in time"
    return None


def scope_of(plan: Plan, catalog: Catalog, shed: Interval) -> Interval:
    """The match times of the composite events that shedding in an interval can have changed.

    Args:
        plan: of the query.
        catalog: with the queries that it reads.
        shed: event times.
    """
    reach = reach_of(plan)
    if reach is None:
        return EVER
    read = [scope_of(other, catalog, shed) for other in read_by(plan, catalog)]
    raw = [shed] if any(not stream.startswith(QUERY_STREAM) for stream in plan.streams) else []
    return hull([*read, *raw]).wider(reach.forth, reach.back)


def needed_for(plan: Plan, catalog: Catalog, scope: Interval) -> Interval:
    """The times of the events without which nobody knows the query's composite events of a scope."""
    reach = reach_of(plan)
    if reach is None:
        return EVER
    own = scope.wider(reach.back, reach.forth)
    return hull([own, *(needed_for(other, catalog, own) for other in read_by(plan, catalog))])


def reached(plan: Plan, catalog: Catalog, watermarks: Mapping[str, int]) -> int:
    """Up to which match time (excluded) the composite events of a query are all known.

    Args:
        plan: of the query.
        catalog: with the queries that it reads.
        watermarks: by stream that is no query's.
    """
    delay = emission_delay_ms(plan)
    least = min(_reached_by_streams(plan, catalog, watermarks), default=NEVER)
    return NEVER if delay is None or least <= NEVER else least - delay


def _reached_by_streams(plan: Plan, catalog: Catalog, watermarks: Mapping[str, int]) -> Iterator[int]:
    yield from (watermarks.get(stream, NEVER) for stream in plan.streams if not stream.startswith(QUERY_STREAM))
    yield from (reached(other, catalog, watermarks) for other in read_by(plan, catalog))
