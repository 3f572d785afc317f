"""The alternatives of one plan, each matched over active instance stacks; behind the door of all (`app.cep.engine`).

Every event is fed to the engine of every alternative that it can be an item of; what they find in a feed is put together (`merging`). An event carries when
it came, so that matches of several engines can be told apart, and put in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from app.cep.alternatives.merging import Found, Merging
from app.cep.engine import EngineOptions, Tally, Watermarks
from app.cep.matches import Matches
from app.cep.snapshot.preamble import Buffer, reading
from app.cep.snapshot.state import STATE, ArrayFormat, as_they_are, kept_together, unpack
from app.cep.stacks.engine import StacksEngine
from app.events.batch import Column, EventBatch
from app.events.types import Kind
from app.query.plan import Plan
from app.query.planning.alternatives import ARRIVED, Alternative, alternatives_of

STATE_FORMAT = ArrayFormat("alternatives", {1: as_they_are})
"""What its state means: how many events have come, and the states of the alternatives, by their number; readers of old formats are added here."""
COUNT = "arrived"


class AlternativesEngine:
    """The engines of a plan's alternatives, as one.

    Args:
        plan: one that has alternatives (`app.query.planning.alternatives`).
        options: of all of them.
        state: how many events have come, and the states of the alternatives' engines (`apart`); None: nothing has been seen yet.

    Raises:
        ValueError: the plan has none.
    """

    def __init__(self, plan: Plan, options: EngineOptions | None = None, state: tuple[int, Sequence[Buffer]] | None = None) -> None:
        alternatives = split(plan)
        self.plan = plan
        self.timeouts: Matches | None = None
        """Plans that emit them are not run as alternatives."""
        if state is None:
            self._arrived, self._engines = 0, [StacksEngine(one.plan, options) for one in alternatives]
        else:
            self._arrived, states = state
            self._engines = [StacksEngine.restore(one.plan, own, options) for one, own in zip(alternatives, states, strict=True)]
        self._moves = [_moves(one) for one in alternatives]
        self._merging = Merging(plan, alternatives)

    def feed(self, batch: EventBatch, items: NDArray[np.uint64], watermarks: Watermarks) -> tuple[Matches, Tally]:
        """Processes events, and lets time come to the watermarks; see `app.cep.engine.Engine.feed`."""
        came = Column(Kind.INTEGER, np.arange(self._arrived, self._arrived + len(batch)))
        self._arrived += len(batch)
        batch = replace(batch, columns={**batch.columns, ARRIVED: came})
        found, tallies = [], []
        for engine, moves in zip(self._engines, self._moves, strict=True):
            matches, tally = engine.feed(batch, _moved(items, moves), watermarks)
            found.append(Found(matches, engine.stored(ARRIVED)))
            tallies.append(tally)
        merged = self._merging.merged(found)
        return merged, Tally(
            events=len(batch),
            candidates=int(np.count_nonzero(items)),
            stored=sum(one.stored for one in tallies),
            pushed=sum(one.pushed for one in tallies),
            matches=len(merged),
            timeouts=0,
            evicted=sum(one.evicted for one in tallies),
            live_events=sum(one.live_events for one in tallies),
            pending=sum(one.pending for one in tallies),
            partitions=sum(one.partitions for one in tallies),
            texts=sum(one.texts for one in tallies),
        )

    def places(self) -> NDArray[np.int64]:
        """Source and offset of all stored events; see `app.cep.engine.Engine.places`."""
        return np.concatenate([engine.places() for engine in self._engines])

    def snapshot(self) -> bytes:
        """The whole state as bytes; the engine goes on unchanged (apart from giving room back)."""
        return b"".join(self.snapshot_parts())

    def snapshot_parts(self) -> Sequence[Buffer]:
        """The same as buffers, which look into the state: to be used before the next feed."""
        return together(self.plan, self._arrived, [engine.snapshot_parts() for engine in self._engines])

    @classmethod
    def restore(cls, plan: Plan, data: Buffer, options: EngineOptions | None = None) -> AlternativesEngine:
        """An engine that goes on where the one of the snapshot was.

        Raises:
            SnapshotError: the bytes are no snapshot of this engine, damaged, of a newer version, or of a plan with another fingerprint.
        """
        return cls(plan, options, apart(plan, data))

    def validate(self) -> None:
        """Invariants of the state.

        Raises:
            AssertionError: one of them does not hold.
        """
        for engine in self._engines:
            engine.validate()
            assert (engine.stored(ARRIVED)[engine.live] < self._arrived).all(), "events came before"  # noqa: S101


def split(plan: Plan) -> tuple[Alternative, ...]:
    """The alternatives of a plan.

    Raises:
        ValueError: it has none.
    """
    alternatives = alternatives_of(plan)
    if alternatives is None:
        raise ValueError(f"the plan of {plan.name} has no alternatives to be matched apart")
    return alternatives


def together(plan: Plan, arrived: int, states: Sequence[Sequence[Buffer]]) -> Sequence[Buffer]:
    """The states of a plan's alternatives as one; ``arrived``: how many events have come."""
    named = {str(number): own for number, own in enumerate(states)}
    return kept_together(STATE_FORMAT, plan.fingerprint, {COUNT: [np.array([arrived], np.int64).tobytes()], **named})


def apart(plan: Plan, data: Buffer) -> tuple[int, list[Buffer]]:
    """How many events have come, and the states of a plan's alternatives.

    Raises:
        SnapshotError: it is no such state, or of another plan.
    """
    header, arrays = unpack(STATE_FORMAT, data)
    header.require(plan.fingerprint, partitioned=True)
    with reading(STATE.what):
        return int(arrays[COUNT].view(np.int64)[0]), [arrays[str(number)].data for number in range(len(arrays) - 1)]


def _moves(alternative: Alternative) -> list[tuple[np.uint64, np.uint64]]:
    """How bits of the plan's items become those of an alternative's: by how many places they move, and which of them then stand there."""
    moved: dict[int, int] = {}
    for own, whole in enumerate(alternative.items):
        moved[whole - own] = moved.get(whole - own, 0) | 1 << own
    return [(np.uint64(places), np.uint64(bits)) for places, bits in moved.items()]


def _moved(items: NDArray[np.uint64], moves: Sequence[tuple[np.uint64, np.uint64]]) -> NDArray[np.uint64]:
    found = np.zeros(len(items), np.uint64)
    for places, bits in moves:
        found |= (items >> places if places else items) & bits
    return found
