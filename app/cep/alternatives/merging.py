"""The matches of alternatives as those of the one plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.cep.alternatives.order import merged_order, order_of_runs
from app.cep.cells.arrays import Integers
from app.cep.matches import Constituents, EventTable, Lists, Matches
from app.events.batch import NULL, VALUE_TYPES, Column, Dictionary, EventBatch, concatenate, first_of_each, take
from app.events.types import Kind
from app.query.plan import Plan
from app.query.planning.alternatives import Alternative, last_ones_differ

_KEY = "\x00"
"""What names of key columns begin with while they stand beside fields."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What an alternative's engine found in a feed.

    Attributes:
        matches: of its plan.
        arrived: int64 (stored,), by place in the matches' events, when the event came.
    """

    matches: Matches
    arrived: Integers


class Merging:
    """How matches of a plan's alternatives become the plan's.

    Args:
        plan: the whole one.
        alternatives: of it.
    """

    def __init__(self, plan: Plan, alternatives: Sequence[Alternative]) -> None:
        self._plan = plan
        self._positive = [np.array(one.positive, np.int64) for one in alternatives]
        self._last_ones_differ = last_ones_differ(alternatives)
        self._no_matches: tuple[list[Matches], Matches] | None = None

    def merged(self, found: Sequence[Found]) -> Matches:
        """The matches of all alternatives, in the order in which runs find them.

        Args:
            found: by alternative.
        """
        some = [number for number, one in enumerate(found) if len(one.matches)]
        if some:
            return self._together(found, some)
        # most feeds of most queries find nothing: engines give the same answer then until the kind of a column becomes known
        if self._no_matches is None or any(one.matches is not own for one, own in zip(found, self._no_matches[0], strict=True)):
            self._no_matches = ([one.matches for one in found], self._together(found, [0]))
        return self._no_matches[1]

    def _together(self, found: Sequence[Found], some: Sequence[int]) -> Matches:
        parts = [found[number] for number in some]
        order = self._order(parts)
        columns = _ordered([self._columns(one.matches, found) for one in parts], order)
        time = np.concatenate([one.matches.time for one in parts]) if len(parts) > 1 else parts[0].matches.time
        events, rows = (parts[0].matches.events, [parts[0].matches.rows]) if len(parts) == 1 else _one_table(parts)
        return Matches(
            time if order is None else time[order],
            np.zeros((len(time) if order is None else len(order), 0), np.int64),
            events,
            {field.name: columns[field.name] for field in self._plan.returns},
            {name: columns[_KEY + name] for name in sorted(self._plan.equivalence)},
            _constituents(rows, [self._positive[number] for number in some], order),
        )

    def _order(self, parts: Sequence[Found]) -> NDArray[np.intp] | None:
        """Numbers of matches that stand part after part; those that another one of the same events comes before are left out."""
        rows = [one.matches.rows for one in parts]
        if len(parts) == 1:
            return order_of_runs(rows[0])
        if not self._last_ones_differ:
            order, same = merged_order(rows, [one.arrived for one in parts])
            return order[~same] if same.any() else order
        before, orders = 0, []
        for own in rows:
            order_of_own = order_of_runs(own)
            orders.append(before + (np.arange(len(own)) if order_of_own is None else order_of_own))
            before += len(own)
        last = np.concatenate([one.arrived[own[:, -1]] for one, own in zip(parts, rows, strict=True)])
        # each part ascends, and a merge sort makes use of that
        return np.concatenate(orders)[np.argsort(last, kind="stable")]

    def _columns(self, matches: Matches, found: Sequence[Found]) -> dict[str, Column]:
        """Fields and key of an alternative's matches; fields that it does not have are null, of the kind that they have elsewhere."""
        columns = {}
        for field in self._plan.returns:
            column = matches.fields.get(field.name)
            if column is None:
                kinds = (one.matches.fields[field.name] for one in found if field.name in one.matches.fields)
                column = _nulls(next((known.kind for known in kinds if isinstance(known, Column)), field.kind), len(matches))
            assert not isinstance(column, Lists), "sequences have no closures"  # noqa: S101
            columns[field.name] = column
        return columns | {_KEY + name: column for name, column in matches.key.items()}


def _nulls(kind: Kind, count: int) -> Column:
    dictionary = Dictionary.of([b""]) if kind.textual else None
    return Column(kind, np.zeros(count, VALUE_TYPES[kind]), np.full(count, NULL, np.uint8), dictionary)


def _ordered(parts: Sequence[Mapping[str, Column]], order: NDArray[np.intp] | None) -> Mapping[str, Column]:
    """Columns of the same names, part after part, then in another order."""
    if len(parts) == 1 and order is None:
        return parts[0]
    counts = [len(next(iter(own.values())).values) if own else 0 for own in parts]
    whole = concatenate([_as_events(own, count) for own, count in zip(parts, counts, strict=True)])
    return whole.columns if order is None or not whole.columns else take(whole, order).columns


def _as_events(columns: Mapping[str, Column], count: int) -> EventBatch:
    """Columns as those of events of which nothing else is known."""
    nothing = np.zeros(count, np.int64)
    return EventBatch(nothing, nothing, nothing, Column(Kind.INTEGER, nothing), columns)


def _one_table(parts: Sequence[Found]) -> tuple[EventTable, list[Integers]]:
    """The events that matches of several engines bind, each once; by part, the matches' places in them."""
    used, places = zip(*(_used(one.matches.rows, len(one.arrived)) for one in parts), strict=True)
    pieces = []
    for one, own in zip(parts, used, strict=True):
        events = one.matches.events
        columns = {"arrived": Column(Kind.INTEGER, one.arrived[own])}
        pieces.append(EventBatch(events.time[own], events.source[own], events.offset[own], _few_texts(events.type, own), columns))
    whole = concatenate(pieces)
    came = whole.columns["arrived"].values
    # numbers of arrival are those of the bucket that an event came to: behind a change of buckets some events have the same
    order = np.lexsort((whole.offset, whole.source, came))
    fresh = first_of_each(whole, order)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(fresh) - 1
    once = take(whole, order[fresh])
    own_numbers = np.split(numbers, np.cumsum([len(own) for own in used])[:-1])
    table = EventTable(
        once.time, once.source, once.offset, Column(Kind.STRING, once.type.values.astype(np.int64), None, once.type.dictionary)
    )
    return table, [own[place] for own, place in zip(own_numbers, places, strict=True)]


def _used(rows: Integers, stored: int) -> tuple[Integers, Integers]:
    """The rows that occur, ascending; the others' places among them. Sorting costs less than a look at everything where matches are few."""
    if 4 * rows.size < stored:
        used, places = np.unique(rows, return_inverse=True)
        return used, places.reshape(rows.shape)
    marked = np.zeros(stored, np.bool_)
    marked[rows.reshape(-1)] = True
    return np.flatnonzero(marked), (np.cumsum(marked) - 1)[rows]


def _few_texts(column: Column, rows: Integers) -> Column:
    """Some rows of a column of texts, with a dictionary of those that occur."""
    assert column.dictionary is not None, "texts"  # noqa: S101
    occurring, codes = np.unique(column.values[rows], return_inverse=True)
    return Column(column.kind, codes.astype(np.int32), None, Dictionary.of([column.dictionary.entry(code) for code in occurring.tolist()]))


def _constituents(rows: Sequence[Integers], items: Sequence[Integers], order: NDArray[np.intp] | None) -> Constituents:
    """The bound events of matches that stand part after part, in an order."""
    if len(rows) == 1:
        own = rows[0] if order is None else rows[0][order]
        return Constituents(np.arange(len(own) + 1) * len(items[0]), np.tile(items[0], len(own)), np.ascontiguousarray(own).reshape(-1))
    parts = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
    numbers = np.concatenate([np.arange(len(own)) for own in rows])
    if order is not None:
        parts, numbers = parts[order], numbers[order]
    lengths = np.array([len(own) for own in items], np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[parts])])
    bound_items, bound_rows = np.empty(int(starts[-1]), np.int64), np.empty(int(starts[-1]), np.int64)
    for part, own in enumerate(rows):
        which = np.flatnonzero(parts == part)
        at = starts[which][:, None] + np.arange(lengths[part])
        bound_items[at], bound_rows[at] = items[part], own[numbers[which]]
    return Constituents(starts, bound_items, bound_rows)
