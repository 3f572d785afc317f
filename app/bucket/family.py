"""One engine for all queries of one shape: those that differ in names, types and constant tests only, which selection has answered before.

A query is then one more value of the partition key: an event that is a candidate of several queries is fed once for each, with the query's
number beside it, and matches are sorted by it afterwards. A feed of an engine costs 0.1 to 0.3 ms whatever it finds, which for 1,000 queries
was most of the time; here they share one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.asc.layout import ItemLayout
from app.asc.selection import SelectedEvents
from app.bucket.chunk import pack_events, unpack_events
from app.bucket.hold import NEVER
from app.bucket.kernels import list_pairs
from app.cep.arrays import as_input
from app.cep.engine import Engine, Tally, Watermarks
from app.cep.matches import Matches
from app.events.batch import Column, EventBatch, concatenate, take, with_columns
from app.events.types import Kind
from app.query.expressions import Literal, walk
from app.query.plan import Output, Plan, Shedding

MAGIC = b"CEPFAMLY"
"""Before the state of one query, so that it is never taken for that of an engine of its own."""
QUERY, ITEMS = "\x00query", "\x00items"
"""Columns that ride along: the number of the query, the items of it that the event can be. No attribute has such a name."""
_SHORT = 1 << 15


def shape_of(plan: Plan) -> Hashable | None:
    """What queries of one family have in common; None: the query needs an engine of its own.

    Its matches must be a matter of its candidates alone (no counted events), and nothing of it may wait for the end of a window.
    """
    waits = plan.items[-1].negated or plan.on_timeout == "emit"
    if plan.evaluator != "stacks" or plan.equivalence or plan.ranks != "none" or waits:
        return None
    items = tuple((item.negated, item.local) for item in plan.items)
    # 0.0 and -0.0 are equal, but not as an answer
    answers = [repr(node.value) for one in plan.returns for node in walk(one.expression) if isinstance(node, Literal)]
    return (plan.streams, items, plan.joins, plan.within, plan.returns, plan.columns, *answers)


def _shape(plan: Plan) -> Plan:
    """The plan without what its engine does not read."""
    items = tuple(replace(item, variable=None, types=(), tests=(), either=()) for item in plan.items)
    return replace(
        plan, name="", version=0, title="", labels=(), weight=1.0, items=items, output=Output(), shedding=Shedding(), fingerprint=""
    )


def is_family_state(data: bytes) -> bool:
    """Whether a query's state was written by `Family.states`."""
    return data.startswith(MAGIC)


class Family:
    """The engine of some queries of one shape.

    Args:
        plans: by query (index in `Catalog.plans`); all with the same `shape_of`.
    """

    def __init__(self, plans: Mapping[int, Plan]) -> None:
        self._queries = tuple(plans)
        one = _shape(next(iter(plans.values())))
        self._columns = one.columns
        self._engine = Engine(replace(one, equivalence=(QUERY,), columns=(*one.columns, ITEMS)))
        self._live = np.zeros(len(plans), np.int64)
        self._layout: ItemLayout | None = None
        self._pairs_per_event = 1.0

    def feed(self, batch: EventBatch, selected: SelectedEvents, watermarks: Watermarks) -> list[tuple[int, Matches, Tally]]:
        """Feeds events, as `app.cep.engine.Engine.feed` does, to every query what are its candidates.

        Returns:
            Query, matches and tally of every query that had candidates or holds events.
        """
        rows, numbers, items = self._pairs(selected)
        if not len(rows) and not self._live.any():
            return []
        return self._fed(len(batch), self._part(batch, rows, numbers, items), watermarks)

    def _pairs(self, selected: SelectedEvents) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Event, number of the query, its candidate items: one for each query that an event is a candidate of, in order of events."""
        if selected.layout is not self._layout:
            self._learn_bits(selected.layout)
        relevant, bitmaps = as_input(selected.relevant, np.int64), as_input(selected.bitmaps, np.uint64)
        start, found = 0, []
        while start < len(relevant):
            left = len(relevant) - start
            pairs = np.empty((3, int(left * self._pairs_per_event) + len(self._queries)), np.int64)
            count, following = list_pairs(bitmaps, relevant, *self._bits, len(self._queries), start, *pairs)
            found.append(pairs[:, :count])
            self._pairs_per_event = max(self._pairs_per_event, 1.1 * count / (following - start)) if following > start else 1.0
            start = following
        rows, numbers, items = found[0] if len(found) == 1 else np.concatenate([np.empty((3, 0), np.int64), *found], axis=1)
        return rows, numbers, items

    def _learn_bits(self, layout: ItemLayout) -> None:
        """Where in a result bitmap the items of the queries are: by bit the query's number, by bit its mask and shift, by word all bits."""
        self._layout = layout
        number = np.zeros(64 * layout.words, np.int64)
        mask, shift = np.zeros((2, 64 * layout.words), np.uint64)
        own = np.zeros(layout.words, np.uint64)
        for k, query in enumerate(self._queries):
            place = layout.place[query]
            word, first, items = layout.word[place], layout.shift[place], layout.items[place]
            bits = slice(64 * word + first, 64 * word + first + items)
            number[bits], mask[bits], shift[bits] = k, ((1 << items) - 1) << first, first
            own[word] |= np.uint64(((1 << items) - 1) << first)
        self._bits = (number, mask, shift, own)

    def _part(self, batch: EventBatch, rows: NDArray[np.int64], numbers: NDArray[np.int64], items: NDArray[np.int64]) -> EventBatch:
        part = take(with_columns(batch, self._columns), rows)
        riding = {QUERY: Column(Kind.INTEGER, numbers), ITEMS: Column(Kind.INTEGER, items)}
        return replace(part, columns={**part.columns, **riding})

    def _fed(self, events: int, part: EventBatch, watermarks: Watermarks) -> list[tuple[int, Matches, Tally]]:
        before, (matches, tally) = self._live, self._engine.feed(part, part.columns[ITEMS].values.view(np.uint64), watermarks)
        held, fresh = self._engine.held(QUERY, tally.stored)
        size = len(self._queries)
        candidates, stored, self._live = (np.bincount(one, minlength=size) for one in (part.columns[QUERY].values, fresh, held))
        found = dict(self._split(matches))
        nothing = replace(matches, time=matches.time[:0], rows=matches.rows[:0], fields=_cut(matches, slice(0)), key={})
        told = np.flatnonzero(candidates + before + self._live)
        counts = np.stack([candidates, stored, before + stored - self._live, self._live], axis=1)[told].tolist()
        answers = []
        for number, (own, kept, evicted, live) in zip(told.tolist(), counts, strict=True):
            one = found.get(number, nothing)
            # what was pushed is not known by query; all that is stored is pushed, save what only completes matches
            own_tally = Tally(events, own, kept, kept, len(one), 0, evicted, live, 0, int(live > 0), tally.texts)
            answers.append((self._queries[number], one, own_tally))
        return answers

    def _split(self, matches: Matches) -> Iterator[tuple[int, Matches]]:
        """The matches of each query that has some, in the order in which they were found."""
        if not len(matches):
            return
        order, bounds = self._by_query(matches.key[QUERY].values)
        time, rows = matches.time[order], matches.rows[order]
        whole = replace(matches, time=time, rows=rows, fields=_cut(matches, order), key={})
        for number, (begin, end) in enumerate(zip((0, *bounds), bounds, strict=False)):
            if end > begin:
                own = slice(begin, end)
                yield number, Matches(time[own], rows[own], whole.events, _cut(whole, own), {})

    def _by_query(self, numbers: NDArray[Any]) -> tuple[NDArray[np.intp], list[int]]:
        """What is of one query together, in the order in which it stands, and by query its end. Short numbers are sorted in linear time."""
        order = np.argsort(numbers.astype(np.int16) if len(self._queries) < _SHORT else numbers, kind="stable")
        return order, np.cumsum(np.bincount(numbers, minlength=len(self._queries))).tolist()

    def states(self) -> Iterator[tuple[int, bytes]]:
        """Query and state of every query: the events that it holds, and the items that they can be. Fed again, they make the same state."""
        held = with_columns(self._engine.held_events(), self._columns)
        (numbers, _), (items, _) = (self._engine.held(name, 0) for name in (QUERY, ITEMS))
        order, bounds = self._by_query(numbers)
        for query, begin, end in zip(self._queries, (0, *bounds), bounds, strict=False):
            own = order[begin:end]
            yield query, MAGIC + pack_events(take(held, own), items[own].view(np.uint64).reshape(-1, 1))

    def go_on(self, states: Mapping[int, bytes]) -> None:
        """Takes over what `states` gave for some of the queries; what matches now was found before.

        Raises:
            SnapshotError: the bytes are no state of a query.
        """
        parts = []
        for query, data in states.items():
            batch, items = unpack_events(memoryview(data)[len(MAGIC) :])
            every = np.arange(len(batch))
            if len(batch):
                parts.append(self._part(batch, every, np.full(len(batch), self._queries.index(query)), items[:, 0].astype(np.int64)))
        if parts:
            part = concatenate(parts)
            self._fed(len(part), part, Watermarks(NEVER))

    def validate(self) -> None:
        """Invariants.

        Raises:
            AssertionError: one of them does not hold.
        """
        self._engine.validate()
        held, _ = self._engine.held(QUERY, 0)
        assert (np.bincount(held, minlength=len(self._queries)) == self._live).all(), "live events are counted by query"  # noqa: S101


def _cut(matches: Matches, rows: slice | NDArray[np.intp]) -> dict[str, Column]:
    """The return fields of some matches. Stacks have no lists."""
    fields: dict[str, Column] = {}
    for name, column in matches.fields.items():
        assert isinstance(column, Column), "a field of stacks is a column"  # noqa: S101
        fields[name] = Column(column.kind, column.values[rows], None if column.state is None else column.state[rows], column.dictionary)
    return fields


def families_of(plans: Mapping[int, Plan]) -> Sequence[Mapping[int, Plan]]:
    """The plans of one shape together; those that need engines of their own are in none."""
    by_shape: dict[Hashable, dict[int, Plan]] = {}
    for query, plan in plans.items():
        shape = shape_of(plan)
        if shape is not None:
            by_shape.setdefault(shape, {})[query] = plan
    return tuple(by_shape.values())
