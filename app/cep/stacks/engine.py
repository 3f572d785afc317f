"""The SASE engine of one query: events in as arrays, matches out as columns; pure, no clock, no files.

``engine = StacksEngine(plan)``; ``matches, tally = engine.feed(batch, items, watermarks)`` processes a batch whose rows stand in processing order
(total order, or the order of arrival of a trusted stream): ``items`` says for every event, bit by bit, whose type test and tests it passes;
``watermarks`` hold after the batch, and negated ends whose time is reached fire. ``engine.snapshot()`` and ``StacksEngine.restore(plan, data)``
carry the state, with the plan's fingerprint; ``engine.validate()`` checks its invariants.

The way of an event: `candidates` takes it up into cells, `kernels_scan.advance` pushes it onto the stacks of its partition (`arrays`, `store`)
or constructs the sequences it completes, `returns` builds their columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.cep.candidates.kernels_columns import count_candidates
from app.cep.candidates.layout import Parts, text_constants
from app.cep.candidates.taking import pin_kinds, take_up
from app.cep.cells.arrays import CELL_OFFSET, CELL_SOURCE, FOREVER, NEVER, Candidates, Integers, as_input, machine_scratch
from app.cep.cells.known import Known
from app.cep.engine import EngineOptions, Tally, Watermarks
from app.cep.matches import Matches
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.regroup import events_in
from app.cep.snapshot.state import ArrayFormat, as_they_are, kept, restoring
from app.cep.stacks import arrays as at
from app.cep.stacks.arrays import Machine, Output
from app.cep.stacks.kernels_scan import advance
from app.cep.stacks.kernels_windows import pass_time, pass_watermarks
from app.cep.stacks.layout import layout_of, refusals
from app.cep.stacks.returns import matches_of, timeouts_of
from app.cep.stacks.store import Store
from app.cep.stacks.validation import validate_store
from app.cep.windows.horizons import by_source, horizons_of, in_order
from app.events.batch import EventBatch
from app.events.pages import PAGES
from app.query.plan import Plan

STATE_FORMAT = ArrayFormat("stacks", {1: as_they_are})
"""What the arrays of its state mean; readers of old formats are added here, and the number goes up."""

MOST_PER_CANDIDATE = 512.0
"""Matches for which room is made before they are found: at 41 per event a candidate has 260, and room that grows is copied."""


class StacksEngine:
    """The stacks evaluator of one plan.

    Args:
        plan: one that `refusals` has nothing against.
        options: optimisations to switch off, for experiments.

    Raises:
        ValueError: the plan is one that `refusals` refuses.
    """

    def __init__(self, plan: Plan, options: EngineOptions | None = None) -> None:
        refused = refusals(plan)
        if refused:
            raise ValueError("; ".join(refused))
        self.plan = plan
        self.options = options or EngineOptions()
        self._known = Known.of(plan, text_constants(plan))
        self._lay_out()
        self._store = Store(self._layout)
        self._output = _output(0, 0, len(plan.positive))
        self._expires = bool(self._layout.tables.shape[at.EXPIRY] >= 0)
        self.timeouts: Matches | None = None
        """Partial matches that timed out in the last feed; None unless the plan emits them."""
        self._matches_per_candidate = 1.0

    def _lay_out(self) -> None:
        """Again whenever the kind of a column has become known."""
        self._layout = layout_of(self.plan, self._known.kinds, self._known.texts, self.options)
        layout, items, places = self._layout, len(self.plan.items), len(self.plan.positive)
        self._workspace = (machine_scratch(len(layout.taking.programs.code)), np.zeros(items, np.int64), *np.zeros((3, places), np.int64))
        self._no_matches: Matches | None = None

    def feed(self, batch: EventBatch, items: NDArray[np.uint64], watermarks: Watermarks) -> tuple[Matches, Tally]:
        """Processes events, and lets time come to the watermarks.

        Args:
            batch: events in processing order; columns that the plan does not name are not touched.
            items: uint64 (events,), candidate items.
            watermarks: after the batch. No event fed later may have a time below the watermark of its source.
        """
        if pin_kinds(batch, self._layout.taking.attributes, self._known.kinds):
            self._lay_out()
        masks = as_input(items, np.uint64).view(np.int64)
        expected = count_candidates(masks, self._layout.taking.all_items, 0)
        self._store.prepare(expected, self._known.texts, self._layout)
        state = self._store.state
        state[at.MATCHES] = state[at.PUSHED] = state[at.EXPIRED] = 0
        low_before, rows_before = int(state[at.LOW]), int(state[at.ROWS])
        self._reserve_output(int(expected * self._matches_per_candidate) + 64)
        self._scan(batch, masks, expected, watermarks)
        found = int(state[at.MATCHES])
        self._matches_per_candidate = min(MOST_PER_CANDIDATE, 1.2 * found / max(expected, 1))
        if self._expires:
            self.timeouts = timeouts_of(self._output, int(state[at.EXPIRED]), self._layout, self._known.texts, self._store)
        tally = Tally(
            events=len(batch),
            candidates=expected,
            stored=int(state[at.ROWS]) - rows_before,
            pushed=int(state[at.PUSHED]),
            matches=found,
            timeouts=int(state[at.EXPIRED]),
            evicted=int(state[at.LOW]) - low_before,
            live_events=int(state[at.ROWS] - state[at.LOW]),
            pending=int(state[at.PENDING_LIVE]),
            partitions=int(state[at.OCCUPIED]),
            texts=len(self._known.texts),
        )
        return self._matches(found), tally

    def _parts(self) -> Parts:
        return Parts(self._layout.taking, self._known.texts, self._store)

    def _matches(self, found: int) -> Matches:
        """Most feeds of most queries find nothing: that answer is built once."""
        if found == 0 and self._no_matches is not None:
            return self._no_matches
        matches = matches_of(self._output, found, self._layout, self._known.texts, self._store)
        if found == 0:
            self._no_matches = matches
        return matches

    def _machine(self) -> Machine:
        """The machine with the texts as they are now: their arrays move when they grow."""
        return Machine(self._layout.taking.programs, self._known.texts.arrays(), *self._workspace)

    def _scan(self, batch: EventBatch, masks: Integers, expected: int, watermarks: Watermarks) -> None:
        """Chunk by chunk: takes candidates up, advances, and lets rows die as far as the rest of the batch allows."""
        time = as_input(batch.time, np.int64)
        falls = not in_order(time, watermarks)
        limit = NEVER if falls else max(watermarks.default_ms, NEVER + 1)
        horizons = horizons_of(time, watermarks) if falls else None
        size = max(1, min(expected, self.options.chunk))
        start = 0
        while start < len(masks):
            chunk = take_up(batch, masks, start, size, self._parts())
            self._advance(chunk.table, limit)
            if horizons is not None and chunk.following < len(masks):
                self._pass_watermarks(watermarks, int(horizons[chunk.following]))
            start = chunk.following
        if falls:
            self._pass_watermarks(watermarks, FOREVER)
        else:
            self._pass_time(watermarks.default_ms)

    def _advance(self, candidates: Candidates, limit: int) -> None:
        first, stop, machine = 0, len(candidates.masks), self._machine()
        while True:
            first, why = advance(self._layout.tables, machine, candidates, self._store.memory(), self._output, first, stop, limit)
            if why == at.DONE:
                return
            self._make_room(why)

    def _make_room(self, why: int) -> None:
        if why == at.OUTPUT_FULL:
            self._reserve_output(2 * len(self._output.time))
        elif why == at.SLOTS_FULL:
            self._store.renew_slots(self._layout)
        else:
            self._store.grow_pending(len(self._output.time))

    def _pass_time(self, time: int) -> None:
        machine = self._machine()
        while not pass_time(self._layout.tables, machine, self._store.memory(), self._output, time):
            self._make_room(at.OUTPUT_FULL)

    def _pass_watermarks(self, watermarks: Watermarks, horizon: int) -> None:
        own = (*by_source(watermarks), watermarks.default_ms, horizon)
        machine = self._machine()
        while pass_watermarks(self._layout.tables, machine, self._store.memory(), self._output, *own) != at.DONE:
            self._make_room(at.OUTPUT_FULL)

    def _reserve_output(self, capacity: int) -> None:
        """A buffer for that many matches of this feed; those found so far move there."""
        found = int(self._store.state[at.MATCHES])
        expired = int(self._store.state[at.EXPIRED])
        old = self._output
        self._output = new = _output(capacity, capacity if self._expires else 0, len(self.plan.positive))
        new.rows[:found], new.time[:found] = old.rows[:found], old.time[:found]
        new.expired_rows[:expired], new.expired_time[:expired] = old.expired_rows[:expired], old.expired_time[:expired]

    def held(self, attribute: str, newest: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """An integer attribute of the stored events that are alive, int64 (live,), and of the ``newest`` stored ones, dead or alive."""
        cell, live = self._layout.taking.attributes[attribute], self._store.live
        return self._store.cells[live, cell], self._store.cells[live.stop - newest : live.stop, cell]

    def stored(self, attribute: str) -> NDArray[np.int64]:
        """An integer attribute of the stored events, int64 (stored,), by the places that matches of the last feed speak of; a view."""
        return self._store.cells[:, self._layout.taking.attributes[attribute]]

    @property
    def live(self) -> slice:
        """Places of the stored events that are alive."""
        return self._store.live

    def held_events(self) -> EventBatch:
        """The stored events that are alive, in the order in which they were processed, with the attributes that the plan names."""
        return events_in(self._store.cells[self._store.live], self._layout.taking, self._known.texts.dictionary())

    def places(self) -> NDArray[np.int64]:
        """Source and offset of all stored events; see `app.cep.engine.Engine.places`."""
        return self._store.cells[self._store.live][:, [CELL_SOURCE, CELL_OFFSET]]

    def snapshot(self) -> bytes:
        """The whole state as bytes; the engine goes on unchanged (apart from giving room back)."""
        return b"".join(self.snapshot_parts())

    def snapshot_parts(self) -> Sequence[Buffer]:
        """The same as buffers, which look into the state: to be used before the next feed."""
        self._store.compact(self._known.texts, self._layout)
        return kept(STATE_FORMAT, self.plan.fingerprint, self._known, self._store.saved(), partitioned=self.options.partitioned)

    @classmethod
    def restore(cls, plan: Plan, data: Buffer, options: EngineOptions | None = None) -> StacksEngine:
        """An engine that goes on where the one of the snapshot was.

        Raises:
            SnapshotError: the bytes are no snapshot of this engine, damaged, of a newer version, or of a plan with another fingerprint.
        """
        engine = cls(plan, options)
        with restoring(STATE_FORMAT, data, plan.fingerprint, engine._known, partitioned=engine.options.partitioned) as arrays:
            engine._lay_out()
            engine._store.load(arrays, engine._layout)
        return engine

    def validate(self) -> None:
        """Invariants of the state.

        Raises:
            AssertionError: one of them does not hold.
        """
        self._known.texts.validate()
        validate_store(self._store, self._layout)


def _output(matches: int, timeouts: int, positives: int) -> Output:
    rows, expired = PAGES.empty(matches, positives), np.empty((timeouts, positives), np.int64)
    return Output(rows, PAGES.empty(matches), expired, np.empty(timeouts, np.int64))
