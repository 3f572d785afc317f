"""What the events of files teach about their schema, piece by piece; and pieces: some events as a reader hands them on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from app.events.batch import ABSENT, NULL, PARTITION_BITS, VALUE_TYPES, Column, Dictionary, EventBatch
from app.events.types import Attribute, EventType, Kind, StreamSchema


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some events of a file, in file order.

    Attributes:
        batch: cells that are not there are NULL, until `Learnt.settled` tells NULL from ABSENT; offsets are lines unless events have positions.
        lines: int64 (events,), 0-based.
        streams: text column of the streams that events name, null where they name none; None when none does.
        topics: of the positions, sorted: `source_number` counts along them.
        positioned: bool (events,), which events have a position; None without ``topics``.
    """

    batch: EventBatch
    lines: NDArray[np.int64]
    streams: Column | None = None
    topics: tuple[str, ...] = ()
    positioned: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.lines)


@dataclass(slots=True)
class Learnt:
    """The kinds of attributes and which types have which, as far as the files were read.

    The kind of an attribute is that of its first value; integers become floats once a float occurs. `given` kinds come from a
    configured schema and win.
    """

    given: Mapping[str, Kind] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    shapes: dict[tuple[str, ...], None] = field(default_factory=dict)
    """(type, attribute, attribute, …) of every shape of event seen, in order."""
    topics: set[str] = field(default_factory=set)

    def known(self, name: str) -> Kind | None:
        """The kind of an attribute; None before its first value."""
        return self.given.get(name) or self.kinds.get(name)

    @property
    def valueless(self) -> tuple[str, ...]:
        """Attributes that are null in every event: they have no kind, and take the one that queries ask (`kinds`); else they count as texts."""
        return tuple(dict.fromkeys(name for shape in self.shapes for name in shape[1:] if name not in self.kinds))

    def schema(self, stream: str) -> StreamSchema:
        """The types seen. An attribute belongs to a type when one event of the type has it."""
        owned: dict[str, dict[str, None]] = {}
        for shape in self.shapes:
            owned.setdefault(shape[0], {}).update(dict.fromkeys(shape[1:]))
        types = tuple(
            EventType(name, tuple(Attribute(a, self.kinds.get(a, Kind.STRING), nullable=True) for a in attributes))
            for name, attributes in owned.items()
        )
        return StreamSchema(stream, types, inferred=True)

    def settled(self, piece: Piece) -> Piece:
        """The piece as the whole of all files has it: every attribute a column, NULL where the type has it, else ABSENT; topics of all files."""
        batch, owners = piece.batch, self._owners()
        columns = {name: self._settled_column(batch, name, owners[name]) for name in owners}
        settled = replace(piece, batch=EventBatch(batch.time, batch.source, batch.offset, batch.type, columns))
        return renumbered(settled, tuple(sorted(self.topics)))

    def _owners(self) -> dict[str, set[str]]:
        owners: dict[str, set[str]] = {}
        for shape in self.shapes:
            for name in shape[1:]:
                owners.setdefault(name, set()).add(shape[0])
        return owners

    def _settled_column(self, batch: EventBatch, name: str, owners: set[str]) -> Column:
        kind, column = self.kinds.get(name, Kind.STRING), batch.columns.get(name)
        if column is None:
            column = nothing_of(kind, len(batch))
        values = column.values
        if kind is Kind.FLOAT and column.kind is Kind.INTEGER:
            values = values.astype(np.float64)
        state = None if column.state is None else settled_state(batch.type, column.state, owners)
        return Column(kind, values, state, column.dictionary)


def nothing_of(kind: Kind, size: int) -> Column:
    """A column without any value."""
    dictionary = Dictionary.of([b""]) if kind.textual else None
    return Column(kind, np.zeros(size, dtype=VALUE_TYPES[kind]), np.full(size, NULL, dtype=np.uint8), dictionary)


def settled_state(types: Column, state: NDArray[np.uint8], owners: Iterable[str]) -> NDArray[np.uint8]:
    """States in which cells that are not there are NULL where the type has the attribute, else ABSENT.

    Args:
        types: of the events.
        state: uint8 (events,), PRESENT or anything else.
        owners: types that have the attribute.
    """
    assert types.dictionary is not None  # noqa: S101 - text columns have one
    having = set(owners)
    owns = np.array([entry.decode() in having for entry in types.dictionary.entries()], dtype=bool)[types.values]
    return np.where(state == 0, 0, np.where(owns, NULL, ABSENT)).astype(np.uint8)


def renumbered(piece: Piece, topics: Sequence[str]) -> Piece:
    """The piece with sources that count along other topics, which hold all of its own."""
    if piece.positioned is None or tuple(topics) == piece.topics:
        return piece
    places = np.array([topics.index(topic) for topic in piece.topics], dtype=np.int64)
    batch = piece.batch
    own = batch.source >> PARTITION_BITS
    moved = places[own] << PARTITION_BITS | (batch.source & ((1 << PARTITION_BITS) - 1))
    source = np.where(piece.positioned, moved, batch.source)
    return replace(piece, batch=EventBatch(batch.time, source, batch.offset, batch.type, batch.columns), topics=tuple(topics))
