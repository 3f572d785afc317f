"""The words that a query may use: event types and attributes of its streams, seen as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from app.events.types import Attribute, EventType, Kind, StreamSchema

BUILT_IN = {"time": Kind.TIME, "type": Kind.STRING}
"""Every event has these; attributes of these names are hidden."""

NUMERIC = (Kind.INTEGER, Kind.FLOAT)


@dataclass(frozen=True, slots=True)
class Streams:
    """Where a query's streams are looked up.

    ``known``: by name. ``everything``: stands for every other name (the file of `replay`, which is every stream); None: other names are errors.
    """

    known: Mapping[str, StreamSchema] = field(default_factory=dict)
    everything: StreamSchema | None = None
    assume: bool = False
    """Where a query's streams have no types at all, its plan speaks of guessed ones (`app.query.resolved.assumed`)."""

    def stream(self, name: str) -> StreamSchema | None:
        """The schema of a stream."""
        return self.known.get(name, self.everything)

    @property
    def default(self) -> str | None:
        """The name that a query without ``from`` means; None where it has to say."""
        own = [name for name in self.known if not name.startswith("query:")]
        if len(own) == 1:
            return own[0]
        return self.everything.stream if self.everything is not None and not own else None


UNKNOWN = Streams(everything=StreamSchema("events", (), inferred=True), assume=True)
"""Nothing is known: every type may exist with every attribute. For validation without configuration and schemas."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The schemas of a query's streams."""

    schemas: tuple[StreamSchema, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Types that can be listed (a stream whose types are values of an attribute has no list)."""
        return tuple(dict.fromkeys(t.name for s in self.schemas if s.type_attribute is None for t in s.types))

    def event_type(self, name: str) -> EventType | None:
        """The type of this name with the attributes it has in any of the streams; None when no stream has it."""
        found = [found for schema in self.schemas if (found := schema.event_type(name)) is not None]
        occurring = [event_type for event_type in found if event_type.occurs]
        if not found:
            return None
        merged: dict[str, Attribute] = {}
        for event_type in occurring:
            for attribute in event_type.attributes:
                merged.setdefault(attribute.name, attribute)
        return EventType(name, tuple(merged.values()), occurs=bool(occurring))

    def lacking(self, names: Iterable[str], attribute: str) -> tuple[str, EventType] | None:
        """The first stream, and of the named types one of its own that occurs, whose events come without the attribute; None where all have it.

        What a type has in one stream it may lack in another.
        """
        for name in names:
            for schema in self.schemas:
                known = schema.event_type(name)
                if known is not None and known.occurs and known.attribute(attribute) is None:
                    return schema.stream, known
        return None

    def kinds(self, attribute: str) -> dict[Kind, str]:
        """The kinds of an attribute over all types of all streams, each with a type that has it so."""
        found: dict[Kind, str] = {}
        for schema in self.schemas:
            for event_type in schema.types:
                known = event_type.attribute(attribute)
                if known is not None:
                    found.setdefault(known.kind, event_type.name)
        return found

    def mixed(self, attribute: str) -> bool:
        """Whether its column is of integers in one stream and of floats in another."""
        return {Kind.INTEGER, Kind.FLOAT} <= {Vocabulary((schema,)).column_kind(attribute) for schema in self.schemas}

    def column_kind(self, attribute: str) -> Kind | None:
        """The kind of the column that holds the attribute for all streams; None when no type has it or the kinds clash."""
        kinds = set(self.kinds(attribute))
        if kinds and kinds <= set(NUMERIC):
            return Kind.FLOAT if Kind.FLOAT in kinds else Kind.INTEGER
        return next(iter(kinds)) if len(kinds) == 1 else None
