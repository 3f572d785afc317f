"""The engine of temporal queries behind the door that all engines have: events become tuples, coalesced tuples become matches.

Reading attributes and evaluating ``where`` is the pattern engine's own way of taking candidates up; coalescing is `app.coalesce`. Neither
knows the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from app.bucket.hold import FOREVER, NEVER
from app.cep.candidates.layout import Parts, Taking, compiler_of, own_conditions, taking_of, text_constants
from app.cep.candidates.taking import Chunk, pin_kinds, take_up
from app.cep.cells.arrays import CELL_OFFSET, CELL_SOURCE, CELL_TIME, CELL_TYPE, STATES_PER_WORD, as_input
from app.cep.cells.known import Known
from app.cep.cells.texts import TextTable
from app.cep.engine import Tally, Watermarks
from app.cep.matches import Constituents, EventTable, Matches
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.state import ArrayFormat, as_they_are, kept, restoring
from app.coalesce import arrays as at
from app.coalesce.arrays import Arrivals, Integers
from app.coalesce.coalescer import Coalesced, Coalescer
from app.coalesce.memory import TupleMemory
from app.events.batch import NULL, Column, EventBatch
from app.events.types import Kind
from app.query.plan import Plan, Temporal

MemoryOf = Callable[[Plan], TupleMemory]
"""Makes the bounded memory of a plan that asks for one (`app.query.plan.Shedding.bounds_memory`)."""

CHUNK = 32_768
"""Tuples taken up at once: their cells stay in the second-level cache."""
_NOT_A_NUMBER = int(np.array(np.nan).view(np.int64))
_BUILT_IN = {"time": (Kind.TIME, CELL_TIME), "type": (Kind.STRING, CELL_TYPE)}
STATE_FORMAT = ArrayFormat("coalesce", {1: as_they_are})
"""What the arrays of its state mean; readers of old formats are added here, and the number goes up."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """Where an attribute of the key or the values stands among the cells of an event."""

    name: str
    kind: Kind
    column: int


@dataclass(slots=True)
class _Spotted:
    """Nothing is stored of the events themselves; which cells were not present is remembered."""

    cells: Integers = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    spotted: set[int] = field(default_factory=set)


def as_one_item(plan: Plan) -> Plan:
    """The plan as if a tuple were a pattern of one event: what reads its attributes and evaluates ``where``."""
    return replace(plan, evaluator="stacks", equivalence=(), returns=(), temporal=None)


def taking_of_tuples(plan: Plan) -> Taking:
    """How tuples of a plan are taken up, before any batch has shown the kinds of columns."""
    one_item = as_one_item(plan)
    return _taking(one_item, {}, TextTable(text_constants(one_item)))


def _taking(one_item: Plan, kinds: Mapping[str, Kind], texts: TextTable) -> Taking:
    compiler = compiler_of(one_item, kinds, texts)
    return taking_of(one_item, compiler, own_conditions(one_item, compiler), np.zeros(1, np.int64))


class TemporalEngine:
    """The coalesce evaluator of one plan.

    Args:
        plan: of a temporal query.
        memory_of: handed down by who may know shedders.

    Raises:
        ValueError: it is none, or it bounds its memory and nobody says how.
    """

    def __init__(self, plan: Plan, memory_of: MemoryOf | None = None) -> None:
        if plan.temporal is None:
            raise ValueError(f"query {plan.name} is no temporal query")
        self.plan = plan
        self.timeouts: Matches | None = None
        """There are none: nothing of a temporal query is partial."""
        self._temporal: Temporal = plan.temporal
        self._one_item = as_one_item(plan)
        self._known = Known.of(plan, self.constants)
        self._lay_out()
        bounded = _memory(plan, memory_of) if plan.shedding.bounds_memory else None
        self._coalescer = Coalescer(plan.temporal, 1 + len(plan.temporal.key), 1 + len(plan.temporal.select), bounded)

    @property
    def constants(self) -> list[bytes]:
        """The texts that have the first numbers."""
        return text_constants(self._one_item)

    def text_places(self) -> tuple[list[int], list[int]]:
        """Places of texts among the attributes of the key, and among the values."""
        return self._text_cells(self._key), self._text_cells(self._values)

    def _lay_out(self) -> None:
        """Again whenever the kind of a column has become known."""
        self._parts = Parts(_taking(self._one_item, self._known.kinds, self._known.texts), self._known.texts, _Spotted())
        self._key = [self._cell(name) for name in self._temporal.key]
        self._values = [self._cell(name) for name in self._temporal.select]

    def _cell(self, name: str) -> _Cell:
        if name in _BUILT_IN:
            return _Cell(name, *_BUILT_IN[name])
        declared = next(one.kind for one in self.plan.returns if one.name == name)
        return _Cell(name, self._known.kinds.get(name, declared), self._parts.taking.attributes[name])

    def feed(self, batch: EventBatch, items: NDArray[np.uint64], watermarks: Watermarks) -> tuple[Matches, Tally]:
        """Takes tuples in, and evaluates the windows that are due.

        Args:
            batch: events in total order.
            items: uint64 (events,), whether an event is a tuple.
            watermarks: after the batch; a window with a t less than the default is due.
        """
        if pin_kinds(batch, self._parts.taking.attributes, self._known.kinds):
            self._lay_out()
        if self._known.texts.doubled:
            self._keep_texts()
        masks = as_input(items, np.uint64).view(np.int64)
        found: list[Coalesced] = []
        start = taken = passed = 0
        dropped = self._coalescer.dropped
        while start < len(masks):
            chunk = take_up(batch, masks, start, CHUNK, self._parts)
            arrivals = self._arrivals(chunk)
            found += self._coalescer.feed(arrivals, NEVER)
            taken, passed, start = taken + len(chunk.rows), passed + int(arrivals.passes.sum()), chunk.following
        if watermarks.default_ms == FOREVER:
            found.append(self._coalescer.close(watermarks.end_ms))
        else:
            found += self._coalescer.feed(self._none(), watermarks.default_ms)
        matches = self._matches([one for one in found if len(one.found)])
        tally = self._tally(len(batch), taken, passed, len(matches))
        return matches, replace(tally, shed_tuples=self._coalescer.dropped - dropped)

    def _tally(self, events: int, tuples: int, stored: int, matches: int) -> Tally:
        state = self._coalescer.memory.state
        live, counted = int(state[at.LIVE]), self._temporal.window.unit == "events"
        return Tally(
            events=events,
            candidates=tuples,
            stored=stored,
            pushed=stored,
            matches=matches,
            timeouts=0,
            evicted=0,
            live_events=live,
            pending=0 if counted else self._coalescer.awake(),
            partitions=int(state[at.KEYS]),
            texts=len(self._known.texts),
        )

    def _arrivals(self, chunk: Chunk) -> Arrivals:
        cells = chunk.table.cells
        return Arrivals(
            np.ascontiguousarray(cells[:, CELL_TIME]),
            (chunk.table.masks != 0).astype(np.int64),
            np.ascontiguousarray(cells[:, [CELL_SOURCE, CELL_OFFSET, CELL_TYPE]]),
            self._compared(cells, self._key),
            self._compared(cells, self._values),
        )

    def _compared(self, cells: Integers, attributes: Sequence[_Cell]) -> Integers:
        """Cells in the form in which they are compared: equal values have equal bits, nulls are 0 and marked in the first one."""
        states_at = self._parts.taking.states_at
        compared = np.zeros((len(cells), 1 + len(attributes)), np.int64)
        for place, one in enumerate(attributes):
            values = cells[:, one.column]
            if one.kind is Kind.FLOAT:
                numbers = values.copy().view(np.float64)
                values = np.where(np.isnan(numbers), _NOT_A_NUMBER, np.where(numbers == 0.0, 0, values))
            if one.column in self._parts.store.spotted:
                missing = cells[:, states_at + one.column // STATES_PER_WORD] >> 2 * (one.column % STATES_PER_WORD) & 3 != 0
                values = np.where(missing, 0, values)
                compared[:, 0] |= missing.astype(np.int64) << place
            compared[:, 1 + place] = values
        return compared

    def _none(self) -> Arrivals:
        time, widths = np.zeros(0, np.int64), (3, 1 + len(self._key), 1 + len(self._values))
        return Arrivals(time, time, *(np.zeros((0, width), np.int64) for width in widths))

    def _matches(self, parts: Sequence[Coalesced]) -> Matches:
        found = _joined([part.found for part in parts], at.FOUND_WIDTH)
        members = _joined([part.members for part in parts], 4)
        texts = self._known.texts.dictionary()
        kinds = Column(Kind.STRING, members[:, 3], None, texts)
        time, source, offset = (np.ascontiguousarray(members[:, k]) for k in range(3))
        events = EventTable(time, source, offset, kinds)
        before = np.cumsum([0, *(len(part.members) for part in parts)], dtype=np.int64)[:-1]
        behind = found[:, at.FOUND_MEMBERS] + np.repeat(before, [len(part.found) for part in parts])
        starts = np.concatenate([np.zeros(1, np.int64), behind])
        constituents = Constituents(starts, np.zeros(len(members), np.int64), np.arange(len(members)))
        key = self._columns(_joined([part.key for part in parts], 1 + len(self._key)), self._key)
        values = self._columns(_joined([part.values for part in parts], 1 + len(self._values)), self._values)
        start, end = found[:, at.FOUND_START].copy(), found[:, at.FOUND_END].copy()
        interval = {
            "start": Column(Kind.TIME, start),
            "end": Column(Kind.TIME, end),
            "length": Column(Kind.DURATION, end - start),
            "truncated_start": Column(Kind.BOOLEAN, found[:, at.CUT_START].copy()),
            "truncated_end": Column(Kind.BOOLEAN, found[:, at.CUT_END].copy()),
        }
        fields = {**values, **key, **interval}
        ordered = {one.name: fields[one.name] for one in self.plan.returns}
        rows = np.zeros((len(found), 0), np.int64)
        times, windows = found[:, at.FOUND_TIME].copy(), found[:, at.FOUND_WINDOW].copy()
        return Matches(times, rows, events, ordered, dict(sorted(key.items())), constituents, windows)

    def _columns(self, cells: Integers, attributes: Sequence[_Cell]) -> dict[str, Column]:
        columns = {}
        for place, one in enumerate(attributes):
            values = np.ascontiguousarray(cells[:, 1 + place])
            missing = cells[:, 0] >> place & 1 != 0
            state = np.where(missing, NULL, 0).astype(np.uint8) if missing.any() else None
            if one.kind.textual:
                columns[one.name] = Column(one.kind, values.astype(np.int32), state, self._known.texts.dictionary())
            else:
                columns[one.name] = Column(one.kind, values.view(np.float64) if one.kind is Kind.FLOAT else values, state)
        return columns

    def _keep_texts(self) -> None:
        """Texts that no live tuple, run or key uses go."""
        self._coalescer.renumber_texts(*self.text_places(), self._known.texts.keep)

    @staticmethod
    def _text_cells(attributes: Sequence[_Cell]) -> list[int]:
        return [place for place, one in enumerate(attributes) if one.kind.textual]

    def places(self) -> Integers:
        """Source and offset of all stored events; see `app.cep.engine.Engine.places`."""
        return self._coalescer.places()

    def snapshot(self) -> bytes:
        """The whole state as bytes; the engine goes on unchanged (apart from giving room back)."""
        return b"".join(self.snapshot_parts())

    def snapshot_parts(self) -> Sequence[Buffer]:
        """The same as buffers, which look into the state: to be used before the next feed."""
        self._keep_texts()
        return kept(STATE_FORMAT, self.plan.fingerprint, self._known, self._coalescer.saved())

    @classmethod
    def restore(cls, plan: Plan, data: Buffer, memory_of: MemoryOf | None = None) -> TemporalEngine:
        """An engine that goes on where the one of the snapshot was.

        Raises:
            SnapshotError: the bytes are no snapshot of this engine, damaged, of a newer version, or of a plan with another fingerprint.
        """
        engine = cls(plan, memory_of)
        with restoring(STATE_FORMAT, data, plan.fingerprint, engine._known) as arrays:
            engine._lay_out()
            engine._coalescer.load(arrays)
        return engine

    def validate(self) -> None:
        """Invariants of the state.

        Raises:
            AssertionError: one of them does not hold.
        """
        self._known.texts.validate()
        self._coalescer.validate()


def _memory(plan: Plan, memory_of: MemoryOf | None) -> TupleMemory:
    if memory_of is None:
        raise ValueError(f"query {plan.name} bounds its memory, but nobody says which tuples go")
    return memory_of(plan)


def _joined(parts: Sequence[Integers], width: int) -> Integers:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([np.zeros((0, width), np.int64), *parts])
