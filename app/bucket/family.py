"""One engine for all queries of one shape: those that differ in names, types and constant tests only, which selection has answered before.

A query is then one more value of the partition key: an event that is a candidate of several queries is fed once for each, with the query's
number beside it, and matches are sorted by it afterwards. A feed of an engine costs 0.1 to 0.3 ms whatever it finds, which for 1,000 queries
was most of the time; here they share one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from app.asc.layout import ItemLayout
from app.asc.selected import Bitmaps, Entries, SelectedEvents
from app.bucket.chunk import pack_events, unpack_events
from app.bucket.hold import NEVER
from app.bucket.kernels import list_pairs
from app.bucket.useful import UsefulPairs
from app.cep.cells.arrays import Integers, as_input
from app.cep.door import StacksEngine
from app.cep.engine import Tally, Watermarks
from app.cep.matches import Lists, Matches
from app.cep.snapshot.preamble import Buffer, Kept, begins, read_preamble, write_preamble
from app.cep.snapshot.regroup import Owner
from app.events.batch import Column, EventBatch, concatenate, take, with_columns
from app.events.types import Kind
from app.query.expressions import AttributeOf, Literal, walk
from app.query.plan import Output, Plan, Shedding

FAMILY = Kept(b"CEPFAMLY", "state of a query of a family")
"""Before the state of one query, so that it is never taken for that of an engine of its own."""
QUERY, ITEMS = "\x00query", "\x00items"
"""Columns that ride along: the number of the query, the items of it that the event can be. No attribute has such a name."""
_READERS: Mapping[int, Callable[[Buffer], tuple[EventBatch, NDArray[np.uint64]]]] = {1: unpack_events}
"""By format of a query's state, what reads events and their items; those of old formats stay."""
GONE = -1
"""In place of a query that was taken out of a family: its number is free again when nothing of it is held any more."""
_SHORT = 1 << 15
LEAST_PARTITIONED = 8
"""Queries of one shape with partition attributes that share an engine when they are deployed together."""


def shape_of(plan: Plan) -> Hashable | None:
    """What queries of one family have in common; None: the query needs an engine of its own.

    Its matches must be a matter of its candidates alone (no counted events), and nothing of it may wait for the end of a window. Events of types
    that lack a partition attribute would belong to all partitions, those of other queries included.
    """
    waits = plan.items[-1].negated or plan.on_timeout == "emit"
    outside = plan.equivalence and any(item.lacks for item in plan.items)
    if plan.evaluator != "stacks" or plan.ranks != "none" or waits or outside:
        return None
    items = tuple((item.negated, item.local) for item in plan.items)
    # 0.0 and -0.0 are equal, but not as an answer
    literal = [one.expression for one in plan.returns if not isinstance(one.expression, AttributeOf)]
    answers = [repr(node.value) for one in literal for node in walk(one) if isinstance(node, Literal)]
    return (plan.streams, plan.equivalence, items, plan.joins, plan.within, plan.returns, plan.columns, *answers)


def _shape(plan: Plan) -> Plan:
    """The plan without what its engine does not read."""
    items = tuple(replace(item, variable=None, types=(), tests=(), either=()) for item in plan.items)
    return replace(
        plan, name="", version=0, title="", labels=(), weight=1.0, items=items, output=Output(), shedding=Shedding(), fingerprint=""
    )


def is_family_state(data: Buffer) -> bool:
    """Whether a query's state was written by `Family.states`."""
    return begins(FAMILY, data)


def merged_family_states(states: Sequence[Buffer]) -> Buffer:
    """What `Family.states` gave of a query in several buckets, as one.

    Raises:
        SnapshotError: the bytes are no state of a query.
    """
    opened = [_read(data) for data in states]
    batch = concatenate([own for own, _ in opened])
    items = np.concatenate([bits for _, bits in opened])
    order = np.arange(len(batch)) if sum(len(own) > 0 for own, _ in opened) == 1 else batch.total_order()
    return b"".join(_written(take(batch, order), items[order]))


def parted_family_state(state: Buffer, owner: Owner, parts: int) -> list[Buffer]:
    """A query's state by the part that each partition goes to.

    Raises:
        SnapshotError: the bytes are no state of a query.
    """
    batch, items = _read(state)
    owners = owner(batch)
    rows = [np.flatnonzero(owners == part) for part in range(parts)]
    return [b"".join(_written(take(batch, own), items[own])) for own in rows]


def _written(batch: EventBatch, items: NDArray[np.uint64]) -> Sequence[Buffer]:
    """A query's state: its events, and uint64 (events, 1), the items that they can be."""
    return [write_preamble(FAMILY, {}), pack_events(batch, items)]


def _read(state: Buffer) -> tuple[EventBatch, NDArray[np.uint64]]:
    preamble = read_preamble(FAMILY, state)
    return _READERS[preamble.format](memoryview(state)[preamble.stop :])


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What the queries of a family found in one step.

    Attributes:
        queries: by number their indices in `Catalog.plans`, or `GONE`.
        events: fed to the group.
        counts: int64 (queries, 4): candidates, stored events, evicted ones, live ones.
        matches: query by query; None where there was nothing to look at.
        bounds: where those of each query end.
        texts: that the engine holds.
    """

    queries: tuple[int, ...]
    events: int
    counts: Integers
    matches: Matches | None
    bounds: list[int]
    texts: int

    def told(self) -> Iterator[tuple[int, Matches, Tally]]:
        """Query, matches and tally of every query that had candidates, or holds or forgot events."""
        return self._of(np.flatnonzero(self.counts.any(axis=1)))

    def matched(self) -> Iterator[tuple[int, Matches, Tally]]:
        """The same of those that found something."""
        return self._of(np.flatnonzero(np.diff(self.bounds, prepend=0)))

    def _of(self, numbers: NDArray[np.intp]) -> Iterator[tuple[int, Matches, Tally]]:
        if self.matches is None:
            return
        time, rows, events = self.matches.time, self.matches.rows, self.matches.events
        columns, key = _columns_of(self.matches), self.matches.key
        bounds = [0, *self.bounds]
        for number, (own, kept, evicted, live) in zip(numbers.tolist(), self.counts[numbers].tolist(), strict=True):
            if self.queries[number] == GONE:
                continue
            begin, end = bounds[number], bounds[number + 1]
            part = slice(begin, end)
            # what was pushed is not known by query; all that is stored is pushed, save what only completes matches
            tally = Tally(self.events, own, kept, kept, end - begin, 0, evicted, live, 0, int(live > 0), self.texts)
            yield self.queries[number], Matches(time[part], rows[part], events, _picked(columns, part), _picked(key, part)), tally


class Family:
    """The engine of some queries of one shape.

    Args:
        plans: by query (index in `Catalog.plans`); all with the same `shape_of`.
    """

    def __init__(self, plans: Mapping[int, Plan]) -> None:
        self._queries = tuple(plans)
        self.shape = shape_of(next(iter(plans.values())))
        one = _shape(next(iter(plans.values())))
        self._forgets = one.within is not None
        self._columns = tuple(dict.fromkeys((*one.columns, *one.equivalence)))
        self._engine = StacksEngine(replace(one, equivalence=(QUERY, *one.equivalence), columns=(*one.columns, ITEMS)))
        self._live = np.zeros(len(plans), np.int64)
        self._useful = UsefulPairs(one, self._queries)
        self._layout: ItemLayout | None = None
        self._pairs_per_event = 1.0

    def become(self, plans: Mapping[int, Plan], kept: Mapping[int, int]) -> Family:
        """The family with other members: itself, or one that is built anew where too much of it would only be waited for to be forgotten.

        Args:
            plans: by query those that it is to have, of its shape; new ones have seen nothing.
            kept: by query of those that it has and is to keep, their new indices in `Catalog.plans`.
        """
        known = set(kept.values())
        gone = sum(query not in kept for query in self._queries)
        if gone > len(plans) or (gone and not self._forgets):
            states = {kept[query]: b"".join(buffers) for query, buffers in self.states() if query in kept}
            family = Family(plans)
            family.go_on(states)
            return family
        fresh = [query for query in plans if query not in known]
        numbered = [kept.get(query, GONE) for query in self._queries]
        for number, query in enumerate(numbered):
            if query == GONE and not self._live[number] and fresh:
                numbered[number] = fresh.pop(0)
        self._number((*numbered, *fresh))
        return self

    def _number(self, queries: tuple[int, ...]) -> None:
        """Gives the members their numbers; those that a number had before must be the same or hold nothing."""
        self._live = np.append(self._live, np.zeros(len(queries) - len(self._queries), np.int64))
        self._queries, self._layout = queries, None
        self._useful.number(queries)

    def feed(self, batch: EventBatch, selected: SelectedEvents, watermarks: Watermarks) -> Answer:
        """Feeds events, as `app.cep.engine.Engine.feed` does, to every query what are its candidates."""
        pairs, candidates = self._pairs(batch, selected, watermarks)
        return self._fed(len(batch), self._part(batch, pairs), candidates, watermarks)

    def _pairs(self, batch: EventBatch, selected: SelectedEvents, watermarks: Watermarks) -> tuple[Integers, Integers]:
        """What the engine is fed, and how many candidates each query has. Of few queries, most candidates are worth being fed."""
        if isinstance(selected.answer, Entries):
            return self._useful.of(batch.time, selected.answer, selected.layout, watermarks.default_ms)
        pairs = self._all_pairs(selected.answer, selected.layout)
        self._useful.not_asked(batch.time)
        return pairs, np.bincount(pairs[1], minlength=len(self._queries))

    def _all_pairs(self, answer: Bitmaps, layout: ItemLayout) -> Integers:
        """Event, number of the query, its candidate items, int64 (3, pairs): for each query that an event is a candidate of, in order of events."""
        if layout is not self._layout:
            self._learn_bits(layout)
        relevant, bitmaps = as_input(answer.rows, np.int64), as_input(answer.bitmaps, np.uint64)
        start, found = 0, []
        while start < len(relevant):
            left = len(relevant) - start
            pairs = np.empty((3, int(left * self._pairs_per_event) + len(self._queries)), np.int64)
            count, following = list_pairs(bitmaps, relevant, *self._bits, len(self._queries), start, *pairs)
            found.append(pairs[:, :count])
            self._pairs_per_event = max(self._pairs_per_event, 1.1 * count / (following - start)) if following > start else 1.0
            start = following
        return found[0] if len(found) == 1 else np.concatenate([np.empty((3, 0), np.int64), *found], axis=1)

    def _learn_bits(self, layout: ItemLayout) -> None:
        """Where in a result bitmap the items of the queries are: by bit the query's number, by bit its mask and shift, by word all bits."""
        self._layout = layout
        number = np.zeros(64 * layout.words, np.int64)
        mask, shift = np.zeros((2, 64 * layout.words), np.uint64)
        own = np.zeros(layout.words, np.uint64)
        for k, query in enumerate(self._queries):
            if query == GONE:
                continue
            place = layout.place[query]
            word, first, items = layout.word[place], layout.shift[place], layout.items[place]
            bits = slice(64 * word + first, 64 * word + first + items)
            number[bits], mask[bits], shift[bits] = k, ((1 << items) - 1) << first, first
            own[word] |= np.uint64(((1 << items) - 1) << first)
        self._bits = (number, mask, shift, own)

    def _part(self, batch: EventBatch, pairs: Integers) -> EventBatch:
        rows, numbers, items = pairs
        part = take(with_columns(batch, self._columns), rows)
        riding = {QUERY: Column(Kind.INTEGER, numbers), ITEMS: Column(Kind.INTEGER, items)}
        return replace(part, columns={**part.columns, **riding})

    def _fed(self, events: int, part: EventBatch, candidates: Integers, watermarks: Watermarks) -> Answer:
        if not (candidates.any() or self._live.any()):
            return Answer(self._queries, events, np.zeros((len(self._queries), 4), np.int64), None, [], 0)
        before, (matches, tally) = self._live, self._engine.feed(part, part.columns[ITEMS].values.view(np.uint64), watermarks)
        held, fresh = self._engine.held(QUERY, tally.stored)
        stored, self._live = (np.bincount(one, minlength=len(self._queries)) for one in (fresh, held))
        counts = np.stack([candidates, stored, before + stored - self._live, self._live], axis=1)
        return Answer(self._queries, events, counts, *self._sorted(matches), tally.texts)

    def _sorted(self, matches: Matches) -> tuple[Matches, list[int]]:
        """Matches query by query, those of each in the order in which they were found, and where they end."""
        key = {name: column for name, column in matches.key.items() if name != QUERY}
        if len(self._queries) == 1 or not len(matches):
            return replace(matches, key=key), [len(matches)] * len(self._queries)
        order, bounds = self._by_query(matches.key[QUERY].values)
        time, rows = matches.time[order], matches.rows[order]
        return replace(matches, time=time, rows=rows, fields=_picked(_columns_of(matches), order), key=_picked(key, order)), bounds

    def _by_query(self, numbers: NDArray[Any]) -> tuple[NDArray[np.intp], list[int]]:
        """What is of one query together, in the order in which it stands, and by query its end. Short numbers are sorted in linear time."""
        order = np.argsort(numbers.astype(np.int16) if len(self._queries) < _SHORT else numbers, kind="stable")
        return order, np.cumsum(np.bincount(numbers, minlength=len(self._queries))).tolist()

    def states(self) -> Iterator[tuple[int, Sequence[Buffer]]]:
        """Query and state of every query: the events that it holds, and the items that they can be. Fed again, they make the same state."""
        held = with_columns(self._engine.held_events(), self._columns)
        (numbers, _), (items, _) = (self._engine.held(name, 0) for name in (QUERY, ITEMS))
        order, bounds = self._by_query(numbers)
        for query, begin, end in zip(self._queries, (0, *bounds), bounds, strict=False):
            if query == GONE:
                continue
            own = order[begin:end]
            yield query, _written(take(held, own), items[own].view(np.uint64).reshape(-1, 1))

    def places(self) -> Integers:
        """Source and offset of the events that the queries hold; see `app.cep.engine.Engine.places`."""
        numbers, _ = self._engine.held(QUERY, 0)
        return self._engine.places()[np.array(self._queries)[numbers] != GONE]

    def go_on(self, states: Mapping[int, Buffer]) -> None:
        """Takes over what `states` gave for some of the queries; what matches now was found before.

        Raises:
            SnapshotError: the bytes are no state of a query.
        """
        parts = []
        for query, data in states.items():
            batch, items = _read(data)
            every = np.arange(len(batch))
            if len(batch):
                pairs = np.stack([every, np.full(len(batch), self._queries.index(query)), items[:, 0].view(np.int64)])
                self._useful.not_asked(batch.time)
                parts.append(self._part(batch, pairs))
        if parts:
            part = concatenate(parts)
            self._fed(len(part), part, np.ones(len(self._queries), np.int64), Watermarks(NEVER))

    def validate(self) -> None:
        """Invariants.

        Raises:
            AssertionError: one of them does not hold.
        """
        self._engine.validate()
        held, _ = self._engine.held(QUERY, 0)
        assert (np.bincount(held, minlength=len(self._queries)) == self._live).all(), "live events are counted by query"  # noqa: S101


def _columns_of(matches: Matches) -> dict[str, Column]:
    """The return fields. Stacks have no lists."""
    assert not any(isinstance(column, Lists) for column in matches.fields.values()), "a field of stacks is a column"  # noqa: S101
    return cast("dict[str, Column]", matches.fields)


def _picked(columns: Mapping[str, Column], rows: slice | NDArray[np.intp]) -> dict[str, Column]:
    """Some rows of columns, by name."""
    return {
        name: Column(column.kind, column.values[rows], None if column.state is None else column.state[rows], column.dictionary)
        for name, column in columns.items()
    }


def families_of(plans: Mapping[int, Plan], kept: Collection[int] = ()) -> Sequence[Mapping[int, Plan]]:
    """The plans of one shape together; those that need engines of their own are in none.

    Args:
        plans: by query.
        kept: queries whose state is that of a family; they stay in one, however few they are.
    """
    by_shape: dict[Hashable, dict[int, Plan]] = {}
    for query, plan in plans.items():
        shape = shape_of(plan)
        if shape is not None:
            by_shape.setdefault(shape, {})[query] = plan
    return tuple(own for own in by_shape.values() if _worth_sharing(own) or any(query in kept for query in own))


def _worth_sharing(plans: Mapping[int, Plan]) -> bool:
    """Few partitioned queries are faster alone: a key of one attribute is found faster than one of two."""
    return len(plans) >= LEAST_PARTITIONED or not next(iter(plans.values())).equivalence
