"""The chains evaluator of one plan; behind the door of all (`app.cep.engine`).

The way of an event: `app.cep.candidates.taking` takes it up into cells, `kernels_chains.advance` lets every partial match of its partition meet it
and begins a new one, `returns` builds the columns of what was found.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.cep.candidates.layout import Parts, counted, text_constants
from app.cep.candidates.taking import pin_kinds, take_up
from app.cep.cells.arrays import CELL_OFFSET, CELL_SOURCE, FOREVER, Integers, as_input
from app.cep.cells.known import Known
from app.cep.chains import arrays as at
from app.cep.chains.kernels_chains import advance, advance_plain
from app.cep.chains.layout import STATE_FORMAT, layout_of
from app.cep.chains.returns import matches_of
from app.cep.chains.store import ChainStore
from app.cep.engine import EngineOptions, Tally, Watermarks
from app.cep.matches import Matches
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.state import kept, restoring
from app.cep.windows.horizons import capped, clipped, horizons_of, passing
from app.events.batch import EventBatch
from app.query.plan import Plan
from app.query.planning.chains import chain_of


class ChainsEngine:
    """The chains evaluator of one plan.

    Args:
        plan: one that is a chain (`app.query.planning.chains`).
        options: sizes; the optimisations of stacks do not concern it.

    Raises:
        ValueError: the plan is none.
    """

    def __init__(self, plan: Plan, options: EngineOptions | None = None) -> None:
        chain = chain_of(plan)
        if chain is None:
            raise ValueError(f"the plan of {plan.name} is no chain")
        self.plan, self.chain = plan, chain
        self.options = options or EngineOptions()
        self.timeouts: Matches | None = None
        """Partial matches that timed out in the last feed; None unless the plan emits them."""
        self._known = Known.of(plan, text_constants(plan))
        self.layout = layout_of(plan, chain, self._known.kinds, self._known.texts)
        self.store = ChainStore(self.layout)
        self._safe = Watermarks(-(2**63))  # no event to come is earlier

    def feed(self, batch: EventBatch, items: NDArray[np.uint64], watermarks: Watermarks) -> tuple[Matches, Tally]:
        """Processes events, and lets time come to the watermarks; see `app.cep.engine.Engine.feed`."""
        if pin_kinds(batch, self.layout.taking.attributes, self._known.kinds):
            self.layout = layout_of(self.plan, self.chain, self._known.kinds, self._known.texts)
        masks = counted(items, self.plan)
        store, state = self.store, self.store.state
        state[at.MATCHES] = state[at.LIMITED_MATCHES] = state[at.LIMITED_RUNS] = 0
        self._scan(batch, as_input(masks, np.int64), watermarks)
        # at the end of the input what waits is reported, and the windows in events are over
        shape = self.layout.tables.shape
        by_rank = shape[at.WINDOW] == at.COUNT_WINDOW or shape[at.RANKED] != 0
        final = watermarks.default_ms >= FOREVER and (self.chain.policy.once or bool(by_rank))
        live = store.end_runs(self.layout, passing(watermarks), final=final)
        matches, self.timeouts = matches_of(self.chain, self.layout, self._known.texts, store)
        stored, pushed = int(state[at.ROWS]), int(state[at.NODES])
        state[at.MATCHES] = 0
        # matches that were handed over read the old table
        timeouts = 0 if self.timeouts is None else len(self.timeouts)
        store.sweep(self.layout, np.empty_like(store.cells) if len(matches) or timeouts else store.cells)
        pending = store.waiting(self.layout)
        tally = Tally(
            events=len(batch),
            candidates=int(np.count_nonzero(masks)),
            stored=stored,
            pushed=pushed,
            matches=len(matches),
            timeouts=timeouts,
            evicted=0,
            live_events=live - (pending if self.chain.waits else 0),
            pending=pending,
            partitions=int(state[at.OCCUPIED]),
            texts=len(self._known.texts),
            limited_matches=int(state[at.LIMITED_MATCHES]),
            limited_runs=int(state[at.LIMITED_RUNS]),
        )
        return matches, tally

    def _scan(self, batch: EventBatch, masks: Integers, watermarks: Watermarks) -> None:
        """Chunk by chunk: takes candidates up, and advances."""
        horizons = horizons_of(batch.time, watermarks)
        go_on = advance_plain if self.layout.plain else advance
        start = 0
        while start < len(masks):
            self._safe = capped(watermarks, int(horizons[start]))
            self.store.drop_texts(self.layout, self._known.texts, now=clipped(self._safe.default_ms))
            chunk = take_up(batch, masks, start, self.options.chunk, Parts(self.layout.taking, self._known.texts, self.store))
            self.store.reserve(len(chunk.rows))
            first, stop = 0, len(chunk.rows)
            while True:
                first, why = go_on(self.layout.tables, self.store.memory(), chunk.table, first, stop)
                if why == at.DONE:
                    break
                if why == at.FULL:
                    # what has run out of window by now is dead
                    self.store.end_runs(self.layout, passing(self._safe), final=False)
                    self.store.make_room(self.layout)
                else:
                    self.store.renew_slots(self.layout, now=clipped(self._safe.default_ms))
            start = chunk.following

    def places(self) -> Integers:
        """Source and offset of all stored events; see `app.cep.engine.Engine.places`."""
        return self.store.cells[1 : self.store.state[at.ROWS]][:, [CELL_SOURCE, CELL_OFFSET]]

    def snapshot(self) -> bytes:
        """The whole state as bytes; the engine goes on unchanged (apart from giving room back)."""
        return b"".join(self.snapshot_parts())

    def snapshot_parts(self) -> Sequence[Buffer]:
        """The same as buffers, which look into the state: to be used before the next feed."""
        self.store.compact(self.layout, self._known.texts, now=clipped(self._safe.default_ms))
        return kept(STATE_FORMAT, self.plan.fingerprint, self._known, self.store.saved())

    @classmethod
    def restore(cls, plan: Plan, data: Buffer, options: EngineOptions | None = None) -> ChainsEngine:
        """An engine that goes on where the one of the snapshot was.

        Raises:
            SnapshotError: the bytes are no snapshot of this engine, damaged, of a newer version, or of a plan with another fingerprint.
        """
        engine = cls(plan, options)
        with restoring(STATE_FORMAT, data, plan.fingerprint, engine._known) as arrays:
            engine.layout = layout_of(plan, engine.chain, engine._known.kinds, engine._known.texts)
            engine.store.load(arrays, engine.layout)
        return engine

    def validate(self) -> None:
        """Invariants of the state.

        Raises:
            AssertionError: one of them does not hold.
        """
        self._known.texts.validate()
        self.store.validate(self.layout)
