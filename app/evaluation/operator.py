"""One query over a recording in memory, as an operator that shedders stand before: what it finds, and which events that took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import thread_time

import numpy as np
from numpy.typing import NDArray

from app.asc.selected import SelectedEvents
from app.asc.selection import Selection
from app.bucket.hold import FOREVER
from app.bucket.identity import opener_windows
from app.bucket.ingress import Gate
from app.bucket.matching import Found, GroupMatching
from app.bucket.recording import match_sorted, slices
from app.cep.engine import Watermarks
from app.cep.matches import Matches
from app.events.batch import EventBatch, place_numbers
from app.query.plan import Catalog, Plan
from shedding.identity import identities


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The composite events of one query.

    Attributes:
        identity: uint64 (matches,), a hash of window and constituents: equal for the same composite event in every run.
        starts: int64 (matches + 1,), the constituents of match k stand at ``starts[k] : starts[k + 1]``.
        rows: int64 (constituents,), rows of the recording.
        window: int64 (matches,), number of the explicit window; 0 without.
    """

    identity: NDArray[np.uint64]
    starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    window: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.identity)

    def weights(self, events: int, weight: float) -> NDArray[np.float64]:
        """float64 (events,): sum of the weights of the composite events that each event of the recording is part of."""
        return np.bincount(self.rows, minlength=events).astype(np.float64) * weight

    def before(self, row: int) -> Outcome:
        """Those of which every constituent comes before a row of the recording."""
        if not len(self):
            return self
        own = np.maximum.reduceat(self.rows, self.starts[:-1]) < row
        counts = np.diff(self.starts)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[own])])
        return Outcome(self.identity[own], starts, self.rows[np.repeat(own, counts)], self.window[own])


class Operator:
    """A query and a recording.

    Args:
        plan: of a pattern query.
        batch: the recording, in total order.
    """

    def __init__(self, plan: Plan, batch: EventBatch) -> None:
        self.plan, self.batch = plan, batch
        self._catalog = Catalog.of((plan,))
        self._places = Places(batch)

    def run(self, kept: NDArray[np.bool_] | None = None) -> Outcome:
        """The composite events when only some events are let through; all of them without a mask.

        Args:
            kept: bool (events,), True = reaches the operator. Events that are only counted (contiguity, windows in events) are counted all the same.
        """
        return self.outcome([one.matches for one in self.found(kept)])

    def found(self, kept: NDArray[np.bool_] | None = None) -> Sequence[Found]:
        """The same as matches, step by step."""
        return match_sorted(self._catalog, self.batch, None if kept is None else self._gate(kept)).found

    def work_s(self, kept: NDArray[np.bool_] | None = None) -> float:
        """Seconds of the processor that the query's engine takes when only some events are let through: what the application counts as the query's cost. To select events, and to compare what was found, is no part of it.

        Args:
            kept: as of `run`.
        """
        groups = [GroupMatching(self._catalog, group.number) for group in self._catalog.groups]
        spent_s, stop = 0.0, 0
        for part, selected in self._selected:
            start, stop = stop, stop + len(part)
            own = selected if kept is None else selected.only(kept[start:stop])
            last_ms = int(part.time[-1]) if len(part) else 0
            watermarks = Watermarks(last_ms) if stop < len(self.batch) else Watermarks(FOREVER, end_ms=last_ms)
            began = thread_time()
            for group in groups:
                group.feed_selected(part, own, watermarks)
            spent_s += thread_time() - began
        return spent_s

    @cached_property
    def _selected(self) -> list[tuple[EventBatch, SelectedEvents]]:
        selection = Selection(self._catalog, None)
        return [(part, selection.select(part)) for part in slices(self.batch)]

    def rows(self, source: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 (n,): rows of the recording at these places."""
        return self._places.rows(source, offset)

    def outcome(self, parts: Sequence[Matches]) -> Outcome:
        """Matches of the query, of any steps, as an outcome."""
        positive = [item.index for item in self.plan.positive]
        bound = [part.constituents(positive) for part in parts]
        source = _joined([part.events.source[one.rows] for part, one in zip(parts, bound, strict=True)])
        offset = _joined([part.events.offset[one.rows] for part, one in zip(parts, bound, strict=True)])
        items = _joined([one.items for one in bound])
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(_joined([np.diff(one.starts) for one in bound]))])
        windows = _joined([_windows(self.plan, part) for part in parts])
        return Outcome(_match_identities(starts, items, source, offset, windows), starts, self._places.rows(source, offset), windows)

    def _gate(self, kept: NDArray[np.bool_]) -> Callable[[Selection], Gate]:
        """A gate that lets through the marked events, whatever slice of the recording comes."""

        def gate(part: EventBatch, selected: SelectedEvents) -> SelectedEvents:
            return selected.only(kept[self._places.rows(part.source, part.offset)])

        return lambda _selection: gate


class Places:
    """Finds rows of a recording by (source, offset)."""

    def __init__(self, batch: EventBatch) -> None:
        keys = place_numbers(batch.source, batch.offset)
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]

    def rows(self, source: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 (n,): rows of events that are in the recording."""
        return self._order[np.searchsorted(self._sorted, place_numbers(source, offset))].astype(np.int64)


def _joined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _match_identities(
    starts: NDArray[np.int64], items: NDArray[np.int64], source: NDArray[np.int64], offset: NDArray[np.int64], windows: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """A sum over the constituents of a hash of event and item: their order follows from the events' times."""
    hashes = identities(identities(source, offset).view(np.int64), items)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
    return identities((sums[starts[1:]] - sums[starts[:-1]]).view(np.int64), windows)


def _windows(plan: Plan, part: Matches) -> NDArray[np.int64]:
    if part.windows is None:
        return np.zeros(len(part), np.int64)
    return part.events.offset[part.windows] if opener_windows(plan) else part.windows
