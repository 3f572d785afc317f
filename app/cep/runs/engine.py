"""The runs evaluator of one plan; behind the door of all (`app.cep.engine`).

The way of an event: `app.cep.candidates.taking` takes it up into cells, `kernels_scan.advance` lets every run of its partition meet it and
starts new ones, `kernels_time` lets time pass, `policies` decides which of the found matches are reported, `returns` builds their columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.cep.candidates.layout import Parts, counted
from app.cep.candidates.taking import Chunk, check_conditions, pin_kinds, take_up, without_key
from app.cep.cells.arrays import CELL_OFFSET, CELL_SOURCE, FOREVER, NEVER, OUTSIDE, Candidates, Integers, as_input, machine_scratch
from app.cep.cells.known import Known
from app.cep.engine import EngineOptions, Looking, Tally, Watermarks
from app.cep.matches import Matches
from app.cep.runs import arrays as at
from app.cep.runs.arrays import NOTHING_HIDDEN, RunMachine, RunTables
from app.cep.runs.automaton.grammar import grammar_of
from app.cep.runs.automaton.terms_text import terms_from_bytes, terms_to_bytes
from app.cep.runs.kernels_scan import advance
from app.cep.runs.kernels_time import count_runs, pass_runs, pass_waiting
from app.cep.runs.layout import STATE_FORMAT, layout_of, pinned_texts
from app.cep.runs.policies import Policies
from app.cep.runs.returns import Read, RunParts, matches_of, read_matches
from app.cep.runs.store import RunStore
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.state import kept, restoring
from app.cep.windows.horizons import capped, clipped, horizons_of, passing
from app.events.batch import EventBatch
from app.query.plan import Plan


class RunsEngine:
    """The runs evaluator of one plan.

    Args:
        plan: with `Plan.runs`.
        options: sizes; the optimisations of stacks do not concern it.
    """

    def __init__(self, plan: Plan, options: EngineOptions | None = None) -> None:
        self.plan = plan
        self.options = options or EngineOptions()
        self.timeouts: Matches | None = None
        """Partial matches that timed out in the last feed; None unless the plan emits them."""
        self.hiding = NOTHING_HIDDEN
        """What is hidden from runs (`app.cep.runs.hiding`); no state: who sheds says it anew for an engine that is restored."""
        self._known = Known.of(plan, pinned_texts(plan))
        self._grammar = grammar_of(plan)
        self._lay_out()
        self._store = RunStore(self._layout)
        self._policies = Policies(plan, self._grammar)
        self._emits = plan.on_timeout == "emit"
        self._reads: list[Read] = []
        self._safe = Watermarks(NEVER)  # no event to come is earlier

    def _lay_out(self) -> None:
        """Again whenever the kind of a column has become known."""
        self._layout = layout_of(self.plan, self._grammar, self._known.kinds, self._known.texts)
        self._scratch = machine_scratch(len(self._layout.taking.programs.code))
        self._bound = np.zeros(self._layout.slots, np.int64)
        self._tabulate()

    def _tabulate(self) -> None:
        """Again whenever states were added."""
        automaton = self._grammar.automaton
        tables = {**self._layout.static, **automaton.tables()}
        self._tables = RunTables(**tables)
        self._fan = automaton.most_edges()

    def feed(
        self, batch: EventBatch, items: NDArray[np.uint64], watermarks: Watermarks, looking: Looking | None = None
    ) -> tuple[Matches, Tally]:
        """Processes events, and lets time come to the watermarks; see `app.cep.engine.Engine.feed`. Whoever is ``looking`` is asked meanwhile."""
        if pin_kinds(batch, self._layout.taking.attributes, self._known.kinds):
            self._lay_out()
        masks = counted(items, self.plan)
        state = self._store.state
        state[at.MATCHES] = state[at.EXPIRED] = state[at.LIMITED_MATCHES] = state[at.LIMITED_RUNS] = 0
        held = self._scan(batch, as_input(masks, np.int64), watermarks, looking)
        self._read(final=watermarks.default_ms >= FOREVER)
        parts, read, self._reads = self.parts(), self._reads, []
        matches = matches_of(parts, read)
        if self._emits:
            expired = self._store.expired[: state[at.EXPIRED]].copy()
            self.timeouts = matches_of(parts, [read_matches(parts, self._policies.distinct(parts, expired))])
        self._store.let_rows_go(self._tables, self._policies, now=clipped(self._safe.default_ms))
        limited = int(state[at.LIMITED_MATCHES]), int(state[at.LIMITED_RUNS])
        tally = Tally(
            events=len(batch),
            candidates=int(np.count_nonzero(masks)),
            stored=int(state[at.ROWS]),
            pushed=int(state[at.NODES]),
            matches=len(matches),
            timeouts=len(self.timeouts) if self.timeouts is not None else 0,
            evicted=0,
            live_events=count_runs(self._world()),
            pending=int(state[at.WAITS]) + self._policies.waiting,
            partitions=int(state[at.OCCUPIED]),
            texts=len(self._known.texts),
            limited_matches=limited[0],
            limited_runs=limited[1],
            held_matches=held,
        )
        return matches, tally

    def _read(self, *, final: bool) -> None:
        """Reads the matches found so far off their nodes, which can go then."""
        parts, state = self.parts(), self._store.state
        found = self._store.found[: state[at.MATCHES]].copy()
        self._reads.append(read_matches(parts, self._policies.report(parts, found, final=final)))
        state[at.MATCHES] = 0

    def state_bytes(self, above: int) -> int:
        """Bytes of live partial matches and of the events that they hold; without texts. What is dead counts as well while all of it is no more than ``above``: telling them apart takes a look at everything."""
        used = self._store.used_bytes()
        if used > above:
            self._store.compact(self._tables, self._known.texts, self._layout, self._policies, now=clipped(self._safe.default_ms))
            used = self._store.used_bytes()
        return used

    def parts(self) -> RunParts:
        """The engine's arrays as they stand now, for those who look inside (`app.cep.runs.live`)."""
        return RunParts(self._layout, self._tables, self._machine(), self._known.texts, self._store, self.hiding)

    def _world(self) -> Integers:
        """The tables as they stand now: they move when they grow."""
        return self.parts().world()

    def _machine(self) -> RunMachine:
        return RunMachine(self._layout.taking.programs, self._known.texts.arrays(), self._scratch, self._bound)

    def _scan(self, batch: EventBatch, masks: Integers, watermarks: Watermarks, looking: Looking | None) -> int:
        """Chunk by chunk: takes candidates up, advances, lets time pass as far as the rest of the batch allows; see `Tally.held_matches`."""
        horizons = horizons_of(batch.time, watermarks)
        size = apart = self.options.chunk
        if looking is not None:
            apart = looking.candidates(batch.time, batch.source, int(np.count_nonzero(masks)), size, int(self._store.state[at.OCCUPIED]))
            size = min(size, apart)
        start = unseen = taken = held = 0
        self._safe = capped(watermarks, int(horizons[0])) if len(masks) else watermarks
        while start < len(masks):
            self._store.drop_texts(self._tables, self._known.texts, self._layout)
            chunk = take_up(batch, masks, start, size, Parts(self._layout.taking, self._known.texts, self._store))
            if self._layout.opener_bit >= 0:
                self._open_outside_partitions(chunk, masks)
            before = self._live(looking)
            self._advance(chunk)
            start, events = chunk.following, len(chunk.table.masks)
            unseen, taken, held = unseen + events, taken + events, held + events * (before + self._live(looking)) // 2
            if start < len(masks):
                self._safe = capped(watermarks, int(horizons[start]))
                self._pass_waiting((*passing(self._safe), 0))
                if looking is not None and unseen >= apart:
                    looking.look(int(batch.time[start]))
                    unseen = 0
        self._safe = watermarks
        self._pass(watermarks, final=watermarks.default_ms >= FOREVER)
        return held // max(1, taken)

    def _live(self, looking: Looking | None) -> int:
        """How many partial matches there are, where somebody looks at them."""
        return 0 if looking is None else int(count_runs(self._world()))

    def _open_outside_partitions(self, chunk: Chunk, masks: Integers) -> None:
        """Windows are cut before partitioning: an event of no partition opens one too, where it satisfies what is asked of it."""
        bit = np.int64(1 << self._layout.opener_bit)
        table, taking = chunk.table, self._layout.taking
        lost = np.flatnonzero((masks[chunk.rows] & bit != 0) & (table.masks == 0) & without_key(table.cells, taking))
        if len(lost):
            alone = Candidates(np.full(len(lost), bit), np.full(len(lost), OUTSIDE), np.ascontiguousarray(table.cells[lost]))
            check_conditions(alone, Parts(taking, self._known.texts, self._store))
            table.masks[lost], table.hashes[lost] = alone.masks, alone.hashes

    def _advance(self, chunk: Chunk) -> None:
        stop = len(chunk.table.masks)
        self._store.sweep_rows(stop, self._tables, self._layout, self._policies, now=clipped(self._safe.default_ms))
        self._store.reserve(stop, self._layout)
        first = 0
        while True:
            first, why = advance(self._world(), chunk.table, first, stop, self._fan)
            if why == at.DONE:
                return
            if why == at.STATES_MISSING:
                self._grammar.automaton.expand_missing()
                self._tabulate()
                self._store.state[at.NEEDS_STATES] = 0
                if first == stop:
                    return
            elif why == at.SLOTS_FULL:
                self._store.renew_slots(self._tables)
            else:
                # what has run out of window by now is dead
                self._pass(self._safe, final=False)
                again = self._store.rows_stay
                if self._policies.immediate:
                    self._read(final=False)
                    self._store.rows_stay = True
                self._store.make_room(self._tables, self._policies, now=clipped(self._safe.default_ms), fan=self._fan, again=again)

    def _pass(self, watermarks: Watermarks, *, final: bool) -> None:
        """Lets time come to the watermarks: matches that waited, then runs that run out of window."""
        own = (*passing(watermarks), int(final))
        self._pass_waiting(own)
        while not pass_runs(self._world(), *own):
            self._store.grow_output()

    def _pass_waiting(self, own: tuple[Integers, Integers, int, int]) -> None:
        while self._store.state[at.WAITS] and not pass_waiting(self._world(), *own):
            self._store.grow_output()

    def places(self) -> Integers:
        """Source and offset of all stored events; see `app.cep.engine.Engine.places`."""
        return self._store.cells[1 : self._store.state[at.ROWS]][:, [CELL_SOURCE, CELL_OFFSET]]

    def snapshot(self) -> bytes:
        """The whole state as bytes; the engine goes on unchanged (apart from giving room back)."""
        return b"".join(self.snapshot_parts())

    def snapshot_parts(self) -> Sequence[Buffer]:
        """The same as buffers, which look into the state: to be used before the next feed."""
        self._store.state[at.MATCHES] = self._store.state[at.EXPIRED] = 0
        self._store.compact(self._tables, self._known.texts, self._layout, self._policies, now=clipped(self._safe.default_ms))
        terms = np.frombuffer(terms_to_bytes(self._grammar.automaton.states), np.uint8)
        arrays = {**self._store.saved(), **self._policies.saved(), "terms": terms}
        return kept(STATE_FORMAT, self.plan.fingerprint, self._known, arrays)

    @classmethod
    def restore(cls, plan: Plan, data: Buffer, options: EngineOptions | None = None) -> RunsEngine:
        """An engine that goes on where the one of the snapshot was.

        Raises:
            SnapshotError: the bytes are no snapshot of this engine, damaged, of a newer version, or of a plan with another fingerprint.
        """
        engine = cls(plan, options)
        with restoring(STATE_FORMAT, data, plan.fingerprint, engine._known) as arrays:
            engine._lay_out()
            automaton = engine._grammar.automaton
            numbers = np.array([automaton.number(state) for state in terms_from_bytes(arrays["terms"].tobytes())], np.int64)
            for number in numbers.tolist():
                automaton.expand(number)
            engine._store.load(arrays, engine._layout, numbers)
            engine._policies.load(arrays)
            engine._tabulate()
        return engine

    def validate(self) -> None:
        """Invariants of the state.

        Raises:
            AssertionError: one of them does not hold.
        """
        self._known.texts.validate()
        self._store.validate(self._tables)
