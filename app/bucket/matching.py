"""The engines of one query group, fed together: each query gets the events that are its candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.asc.layout import ItemLayout
from app.asc.selected import Bitmaps, Dispatch, SelectedEvents
from app.audit.verdicts import Verdicts
from app.bucket.engines import QueryEngine, new_engine, restore_engine, taken_over
from app.bucket.family import Family, families_of, is_family_state, shape_of
from app.bucket.route import group_identity, in_partitions
from app.bucket.temporal import MemoryOf
from app.cep.door import state_bytes
from app.cep.engine import Tally, Watermarks
from app.cep.matches import Matches
from app.cep.snapshot.preamble import Buffer
from app.events.batch import EventBatch, take, with_columns
from app.query.plan import Catalog, Plan, QueryGroup

DENSE = 8
"""When at least one event in so many is a candidate, the engine skips the others faster (about 1 ns) than a copy of the candidates is made."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What one query found in one step.

    Attributes:
        query: index in `Catalog.plans`.
        timeouts: partial matches that timed out; None unless the plan emits them.
        fed: the events of the query's group that were fed in this step, with the columns that rode along.
        shed: partial matches that were asked about before and within the step, and those of them that a shedder ended.
        cost_ns: what it took, by the clock that was handed in.
        judging_ns: of that, what judging took: only what sheds is judged.
        verdicts: on the matches; None where nobody judges them.
        withheld: matches that are known to be false and are not written, with their verdicts (``output.hold_for_verdict``).
        timeout_verdicts, withheld_timeouts: the same of timeouts.
        state_bytes: that partial matches take after the step, of queries that have a limit for them.
    """

    query: int
    matches: Matches
    tally: Tally
    fed: EventBatch
    timeouts: Matches | None = None
    shed: tuple[int, int] = (0, 0)
    cost_ns: int = 0
    verdicts: Verdicts | None = None
    withheld: tuple[Matches, Verdicts] | None = None
    timeout_verdicts: Verdicts | None = None
    withheld_timeouts: tuple[Matches, Verdicts] | None = None
    state_bytes: int = 0
    judging_ns: int = 0

    @property
    def news(self) -> bool:
        """Whether there is anything to be written, or to be told."""
        timeouts = self.timeouts is not None and bool(len(self.timeouts))
        return (
            bool(len(self.matches))
            or timeouts
            or self.tally.limited_matches > 0
            or self.tally.limited_runs > 0
            or self.tally.shed_tuples > 0
        )


LEAST_PART = 64
"""Of a query's limit for its state: what a bucket holds is reckoned roughly below."""
NAMED = 5
"""Queries that an error names."""
Ended = tuple[tuple[int, int], Matches, Tally]
"""How many partial matches were asked about, and how many were ended; what the engine told."""
Ending = Callable[[QueryEngine, EventBatch, NDArray[np.uint64], Watermarks, int], Ended]
"""Feeds an engine (events, items and watermarks; the batch begins at this time, ms), and ends some of its partial matches before that and meanwhile."""
NO_ENDINGS: Mapping[int, Ending] = {}
Clock = Callable[[], int]
"""Nanoseconds since some moment, or time of the processor; this floor reads none of its own."""


def no_clock() -> int:
    """For whoever does not want to know what queries cost."""
    return 0


def named(error: Exception, queries: Sequence[str]) -> None:
    """Notes the queries that an error came from: of a thousand that share a batch somebody must find the one."""
    told = ", ".join(queries[:NAMED]) + (" …" if len(queries) > NAMED else "")
    error.add_note(f"{'query' if len(queries) == 1 else 'one of the queries'} {told}")


class GroupMatching:
    """The engines of the queries of one group.

    Args:
        catalog: all queries.
        number: of the group, in ``catalog.groups``.
        states: by query (index in `Catalog.plans`), what `states` gave; missing ones start afresh.
        memory_of: makes the bounded memory of temporal queries that ask for one.

    Raises:
        SnapshotError: a state is none of its query.
    """

    def __init__(
        self, catalog: Catalog, number: int, states: Mapping[int, Buffer] | None = None, memory_of: MemoryOf | None = None
    ) -> None:
        self._begin(catalog, number)
        known = states or {}
        # a state that an engine of the query's own has written needs one again
        shared = {query: plan for query, plan in self._plans.items() if query not in known or is_family_state(known[query])}
        for plans in families_of(shared, [query for query in shared if query in known]):
            family = Family(plans)
            family.go_on({query: known[query] for query in plans if query in known})
            self._share(family, plans)
        alone = [query for query in self._plans if query not in self._families]
        self._run_alone({query: _engine(self._plans[query], known.get(query), memory_of) for query in alone})

    def _begin(self, catalog: Catalog, number: int) -> None:
        self.group = catalog.groups[number]
        self.identity = group_identity(self.group)
        self.layout = ItemLayout.of_group(catalog, self.group)
        self._plans = {query: catalog.plans[query] for query in self.group.queries}
        self._families: dict[int, Family] = {}
        self._distinct: list[Family] = []
        self._dispatch = Dispatch(self.layout)

    def _share(self, family: Family, queries: Iterable[int]) -> None:
        self._families |= dict.fromkeys(queries, family)
        self._distinct.append(family)

    def _run_alone(self, engines: dict[int, QueryEngine]) -> None:
        self.engines = engines
        self._asleep = dict.fromkeys(engines, False)  # whether nothing lives in the engine: time alone cannot change it

    def reload(self, catalog: Catalog, number: int, memory_of: MemoryOf | None = None) -> GroupMatching:
        """The group under another catalog. Live engines of queries of equal name and fingerprint go on there; this object is not to be used any more.

        Args:
            catalog: all queries.
            number: of the group of the same identity, in ``catalog.groups``.
            memory_of: as of the class.
        """
        after: GroupMatching = GroupMatching.__new__(GroupMatching)
        after._begin(catalog, number)
        kept = self.kept(after)
        own = {kept[query]: query for query in self.engines if query in kept}
        members = {kept[query] for query in self._families if query in kept}
        before = {family.shape: family for family in self._distinct}
        for plans in families_of({query: plan for query, plan in after._plans.items() if query not in own}, members):
            family = before.get(shape_of(next(iter(plans.values()))))
            moved = {query: new for query, new in kept.items() if self._families.get(query) is family and new in plans}
            after._share(Family(plans) if family is None or not moved else family.become(plans, moved), plans)
        alone = [query for query in after._plans if query not in after._families]
        after._run_alone({query: self._taken(own.get(query), after._plans[query], memory_of) for query in alone})
        for query in own:
            after._asleep[query] = self._asleep[own[query]]
        return after

    def kept(self, after: GroupMatching) -> dict[int, int]:
        """Queries that are the same in another catalog, by their indices here those there."""
        there = {(plan.name, plan.fingerprint): query for query, plan in after._plans.items()}
        known = ((query, there.get((plan.name, plan.fingerprint))) for query, plan in self._plans.items())
        return {query: new for query, new in known if new is not None}

    def _taken(self, query: int | None, plan: Plan, memory_of: MemoryOf | None) -> QueryEngine:
        """The live engine of a query under a plan, or a fresh one."""
        return new_engine(plan, memory_of) if query is None else taken_over(self.engines[query], self._plans[query], plan, memory_of)

    @property
    def shared(self) -> bool:
        """Whether all queries have engines that they share."""
        return not self.engines

    def feed(
        self,
        batch: EventBatch,
        bitmaps: NDArray[np.uint64],
        watermarks: Watermarks,
        endings: Mapping[int, Ending] = NO_ENDINGS,
        clock: Clock = no_clock,
    ) -> list[Found]:
        """Feeds events, in the order in which they are to be processed, and lets time come to the watermarks.

        Args:
            batch: events of the group.
            bitmaps: uint64 (events, words) in the group's layout.
            watermarks: after the batch.
            endings: by query, shedders of partial matches.
            clock: tells what each query costs; what queries that share an engine cost is split by their candidates.
        """
        selected = SelectedEvents(self._dispatch, Bitmaps(np.arange(len(batch)), bitmaps), len(batch))
        return self.feed_selected(batch, selected, watermarks, endings, clock)

    def feed_selected(
        self,
        batch: EventBatch,
        selected: SelectedEvents,
        watermarks: Watermarks,
        endings: Mapping[int, Ending] = NO_ENDINGS,
        clock: Clock = no_clock,
    ) -> list[Found]:
        """As `feed`, for events with the answer of any selection that knows the group's queries."""
        found = self._alone(batch, selected, watermarks, endings, clock)
        for family in self._distinct:
            try:
                began = clock()
                told = [Found(*one, batch) for one in family.feed(batch, selected, watermarks).told()]
                found += _split(told, clock() - began)
            except Exception as error:
                named(error, [plan.name for query, plan in self._plans.items() if self._families.get(query) is family])
                raise
        return sorted(found, key=lambda one: one.query)

    def news_of_selected(self, batch: EventBatch, selected: SelectedEvents, watermarks: Watermarks) -> list[Found]:
        """As `feed_selected`; gives back only what there is to be written, or to be told."""
        found = [one for one in self._alone(batch, selected, watermarks, NO_ENDINGS, no_clock) if one.news]
        for family in self._distinct:
            found += [Found(*one, batch) for one in family.feed(batch, selected, watermarks).matched()]
        return sorted(found, key=lambda one: one.query)

    def _alone(
        self, batch: EventBatch, selected: SelectedEvents, watermarks: Watermarks, endings: Mapping[int, Ending], clock: Clock
    ) -> list[Found]:
        """Feeds the queries that have engines of their own."""
        found = []
        counting = self.group.ranks != "none"
        counted = in_partitions(batch, self.group) if self.group.ranks == "partition" else None
        for query, engine in self.engines.items():
            rows, items = selected.of_query(query)
            if self._asleep[query] and not len(batch if counting else rows):
                continue
            began, plan = clock(), self._plans[query]
            part = _with_counted(batch, rows, items, counted) if counting else _candidates(plan, batch, rows, items)
            try:
                if query in endings and len(batch):
                    shed, matches, tally = endings[query](engine, *part, watermarks, int(batch.time[0]))
                else:
                    shed, (matches, tally) = (0, 0), engine.feed(*part, watermarks)
            except Exception as error:
                named(error, [plan.name])
                raise
            self._asleep[query] = tally.pending == 0 and tally.live_events == 0
            limit = None if plan.draining is not None else plan.shedding.state_bytes  # an old version's goes by itself, and only so
            held = 0 if limit is None else state_bytes(engine, limit // LEAST_PART)
            found.append(Found(query, matches, tally, batch, engine.timeouts, shed, clock() - began, state_bytes=held))
        return found

    def states(self) -> Iterator[tuple[int, Sequence[Buffer]]]:
        """Query and state of all queries, those of families first; the buffers are to be used before the next feed."""
        for family in self._distinct:
            yield from family.states()
        for query, engine in self.engines.items():
            yield query, engine.snapshot_parts()

    def places(self, queries: Iterable[int]) -> NDArray[np.int64]:
        """int64 (events, 2), source and offset of the events that the queries' engines store (`app.cep.engine.Engine.places`), others' among them where one is shared."""
        engines = {id(one): one for one in (self._families.get(query) or self.engines[query] for query in queries)}
        return np.concatenate([engine.places() for engine in engines.values()])

    def validate(self) -> None:
        """Invariants of all engines.

        Raises:
            AssertionError: one of them does not hold.
        """
        for engine in self.engines.values():
            engine.validate()
        for family in self._distinct:
            family.validate()


def _split(told: Sequence[Found], cost_ns: int) -> list[Found]:
    """What an engine took, split over the queries that share it by their candidates; whoever only holds events counts as one."""
    parts = [1 + one.tally.candidates for one in told]
    whole = sum(parts)
    return [replace(one, cost_ns=cost_ns * part // whole) for one, part in zip(told, parts, strict=True)]


def engine_input(
    plan: Plan, group: QueryGroup, batch: EventBatch, rows: NDArray[np.int64], items: NDArray[np.uint64]
) -> tuple[EventBatch, NDArray[np.uint64]]:
    """What the engine of a query is fed of the events of its group.

    Args:
        plan: of the query.
        group: of the query.
        batch: of the group, in the order of feeding.
        rows: int64 (candidates,).
        items: uint64 (candidates,).
    """
    if group.ranks == "none":
        return _candidates(plan, batch, rows, items)
    return _with_counted(batch, rows, items, in_partitions(batch, group) if group.ranks == "partition" else None)


def _candidates(plan: Plan, batch: EventBatch, rows: NDArray[np.int64], items: NDArray[np.uint64]) -> tuple[EventBatch, NDArray[np.uint64]]:
    if len(rows) == len(batch):
        return batch, items
    if len(rows) * DENSE >= len(batch):
        spread = np.zeros(len(batch), dtype=np.uint64)
        spread[rows] = items
        return batch, spread
    return take(with_columns(batch, plan.columns), rows), items


def _engine(plan: Plan, state: Buffer | None, memory_of: MemoryOf | None) -> QueryEngine:
    return new_engine(plan, memory_of) if state is None else restore_engine(plan, state, memory_of)


def _with_counted(
    batch: EventBatch, rows: NDArray[np.int64], items: NDArray[np.uint64], counted: NDArray[np.bool_] | None
) -> tuple[EventBatch, NDArray[np.uint64]]:
    """The candidates among the events that the query counts, which are candidates of nothing.

    Args:
        batch: of the group.
        rows: int64 (candidates,).
        items: uint64 (candidates,).
        counted: bool (events,); None: all are.
    """
    spread = np.zeros(len(batch), dtype=np.uint64)
    spread[rows] = items
    if counted is None:
        return batch, spread
    kept = np.flatnonzero(counted | (spread != 0))
    return take(batch, kept), spread[kept]
