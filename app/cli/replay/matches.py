"""All matches of one query as `cep replay` writes them: arrays, sorted once, made into objects block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.bucket.chunk import compacted_batch
from app.bucket.encoding.pieces import Elements, Texts, decimals
from app.bucket.identity import SEPARATOR, Outcome, identities, opener_windows
from app.bucket.lists import joined_lists, ragged_rows, starts_of, taken_lists
from app.bucket.places import COMPOSITES, Places, named_topics
from app.cep.matches import Lists, Matches
from app.cli.inputs.events import LineFinder
from app.cli.replay.composites import ReadComposites
from app.events.batch import Column, Dictionary, EventBatch, concatenate, take
from app.events.types import Kind
from app.query.plan import Plan

Window = int | str | None


@dataclass(frozen=True, slots=True, eq=False)
class BoundEvents:
    """The events that matches bind, each match's in total order.

    Attributes:
        starts: int64 (matches + 1,); those of match k stand at ``starts[k] : starts[k + 1]``.
        item: int64 (bound,), index into `Plan.items`.
        time, source, offset: int64 (bound,).
        place: int64 (bound,), what sorts events of one time and source: their offsets, of composite events their ranks.
        alike: whether all matches bind the same items, in the same order.
    """

    starts: NDArray[np.int64]
    item: NDArray[np.int64]
    time: NDArray[np.int64]
    source: NDArray[np.int64]
    offset: NDArray[np.int64]
    place: NDArray[np.int64]
    alike: bool

    @staticmethod
    def of(plan: Plan, parts: Sequence[Matches], read: ReadComposites) -> BoundEvents:
        """Those of all parts together."""
        positive = [item.index for item in plan.positive]
        bound = [part.constituents(positive) for part in parts]
        time, source, offset = (
            np.concatenate([getattr(part.events, name)[one.rows] for part, one in zip(parts, bound, strict=True)])
            for name in ("time", "source", "offset")
        )
        lengths = np.concatenate([np.diff(one.starts) for one in bound])
        alike = all(part.varying is None for part in parts) and bool((lengths == len(positive)).all())
        items = np.concatenate([one.items for one in bound])
        return BoundEvents(starts_of(lengths), items, time, source, offset, read.places(source, offset), alike)

    def take(self, rows: NDArray[np.integer]) -> BoundEvents:
        """Those of some matches."""
        starts, places = ragged_rows(self.starts, rows)
        time, source, offset, place = (column[places] for column in (self.time, self.source, self.offset, self.place))
        return BoundEvents(starts, self.item[places], time, source, offset, place, self.alike)


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The windows that matches lie in.

    Attributes:
        number: int64 (matches,); of windows that events opened, the opener's offset.
        source: int64 (matches,), the opener's; None where windows have numbers.
        known: whether there are explicit windows at all.
    """

    number: NDArray[np.int64]
    source: NDArray[np.int64] | None
    known: bool

    @staticmethod
    def of(plan: Plan, parts: Sequence[Matches]) -> Windows:
        """Those of all parts together."""
        numbers = [np.zeros(len(part), np.int64) if part.windows is None else part.windows for part in parts]
        known = any(part.windows is not None for part in parts)
        if not known or not opener_windows(plan):
            return Windows(np.concatenate(numbers), None, known)
        sources = [part.events.source[number] for part, number in zip(parts, numbers, strict=True)]
        offsets = [part.events.offset[number] for part, number in zip(parts, numbers, strict=True)]
        return Windows(np.concatenate(offsets), np.concatenate(sources), known)

    def take(self, rows: NDArray[np.integer]) -> Windows:
        """Those of some matches."""
        return Windows(self.number[rows], None if self.source is None else self.source[rows], self.known)


@dataclass(frozen=True, slots=True, eq=False)
class QueryMatches:
    """All matches of one query, or all its timeouts, in the order in which they are written.

    Attributes:
        fields: one "event" per match: its time, and the return fields that are no lists as columns.
        lists: the other return fields.
        read: composite events that may be among the bound ones.
    """

    plan: Plan
    kind: Outcome
    fields: EventBatch
    lists: Mapping[str, Lists]
    bound: BoundEvents
    windows: Windows
    read: ReadComposites

    @staticmethod
    def of(plan: Plan, parts: Sequence[Matches], kind: Outcome, read: ReadComposites) -> QueryMatches:
        """The matches of all steps together, as they were found."""
        lists = {
            returned.name: joined_lists([part for part in own if isinstance(part, Lists)])
            for returned in plan.returns
            if isinstance((own := [one.fields[returned.name] for one in parts])[0], Lists)
        }
        fields = concatenate([_as_batch(one) for one in parts])
        return QueryMatches(plan, kind, fields, lists, BoundEvents.of(plan, parts, read), Windows.of(plan, parts), read)

    def __len__(self) -> int:
        return len(self.fields)

    def take(self, rows: NDArray[np.integer]) -> QueryMatches:
        """Some of the matches."""
        lists = {name: taken_lists(one, rows) for name, one in self.lists.items()}
        bound, windows = self.bound.take(rows), self.windows.take(rows)
        return replace(self, fields=take(self.fields, rows), lists=lists, bound=bound, windows=windows)

    def position_texts(
        self, finder: LineFinder, source: NDArray[np.int64], offset: NDArray[np.int64]
    ) -> list[int | str] | NDArray[np.int64]:
        """What stands for events: their lines, of composite events ``name/n``."""
        if not self.read.rank:
            return finder.lines_of(source, offset)
        raw = np.where(source == COMPOSITES, 0, source), np.where(source == COMPOSITES, 0, offset)
        return self.read.positions(source, offset, finder.lines_of(*raw).tolist())

    def window_texts(self, finder: LineFinder) -> Sequence[Window] | NDArray[np.int64] | None:
        """The windows' numbers, of those that events opened their positions; None without windows."""
        windows = self.windows
        if not windows.known:
            return None
        return windows.number if windows.source is None else self.position_texts(finder, windows.source, windows.number)

    def identities(self, topics: Sequence[str]) -> list[str]:
        """Without positions in the file, the stream's name stands for the topic and the line for the offset."""
        named, bound = named_topics(self.plan, topics), self.bound
        texts = self._places(bound.source, bound.offset, named).texts(SEPARATOR)
        return identities(self.plan, self.kind, self._window_places(named), Elements(bound.starts, bound.item, texts))

    def _window_places(self, topics: Sequence[str]) -> Texts | None:
        windows = self.windows
        if not windows.known:
            return None
        return decimals(windows.number) if windows.source is None else self._places(windows.source, windows.number, topics).texts("/")

    def _places(self, source: NDArray[np.int64], offset: NDArray[np.int64], topics: Sequence[str]) -> Places:
        types = [self.read.type_of(s, o) for s, o in zip(source.tolist(), offset.tolist(), strict=True)] if self.read.rank else []
        names = list(dict.fromkeys(types))
        numbers = {name: k for k, name in enumerate(names)}
        codes = np.array([numbers[name] for name in types] if types else np.zeros(len(source)), dtype=np.int64)
        return Places.of(source, offset, (codes, names), topics)


def _kinds(plan: Plan) -> list[tuple[str, Kind]]:
    return [(returned.name, returned.kind) for returned in plan.returns]


def _as_batch(matches: Matches) -> EventBatch:
    """Matches as events with their return fields as attributes, so that what joins and cuts batches serves them, too."""
    zeros = np.zeros(len(matches), dtype=np.int64)
    nameless = Column(Kind.STRING, zeros.astype(np.int32), None, Dictionary.of([b""]))
    columns = {name: field for name, field in matches.fields.items() if isinstance(field, Column)}
    return compacted_batch(EventBatch(matches.time, zeros, zeros, nameless, columns))
