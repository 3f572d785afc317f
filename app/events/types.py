"""What an event looks like: kinds of attributes, event types, and the schema of a stream.

Pure values. A stream holds events of one or more types; attributes of the same name share one column.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """The kind of an attribute's values, and how a column stores them.

    Avro's boolean, int, long, date, timestamp → int64 (booleans 0/1; dates and timestamps milliseconds since the epoch, UTC);
    float, double, decimal → float64; string, enum, bytes, fixed, uuid → int32 codes into the column's dictionary.
    """

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    STRING = "string"
    BYTES = "bytes"
    TIME = "time"
    DURATION = "duration"
    """Milliseconds; only expressions have it (time - time), no Avro attribute does."""

    @property
    def textual(self) -> bool:
        """Whether a column of this kind stores dictionary codes."""
        return self in (Kind.STRING, Kind.BYTES)


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of an event type; nested ones are named by their path (``a.b``, ``tags[0]``, ``labels['k']``)."""

    name: str
    kind: Kind
    nullable: bool = False
    symbols: tuple[str, ...] = field(default=(), compare=False)
    """The only texts that it can be, of an Avro enum; empty: any. Warnings ask for them, and nothing that is matched: with one more the schema is the same."""


@dataclass(frozen=True, slots=True)
class EventType:
    """An event type and its attributes, without the built-in ``time`` and ``type``."""

    name: str
    attributes: tuple[Attribute, ...]
    occurs: bool = True
    """False for a type that a query names but that never occurs in a file with inferred types: nothing about it is an error."""

    def attribute(self, name: str) -> Attribute | None:
        """The attribute of this name, or None."""
        return next((a for a in self.attributes if a.name == name), None)


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """The event types of a stream.

    With ``type_attribute`` the type of an event is the value of that attribute: any name is then a type,
    and all of them have the attributes of the single entry of ``types``.
    ``inferred`` schemas come from the data (``--types infer``): unknown types are no error.
    """

    stream: str
    types: tuple[EventType, ...]
    type_attribute: str | None = None
    inferred: bool = False

    def event_type(self, name: str) -> EventType | None:
        """The type of this name; None if the stream has no such type."""
        if self.type_attribute is not None and self.types:
            return EventType(name, self.types[0].attributes)
        found = next((t for t in self.types if t.name == name), None)
        if found is None and self.inferred:
            return EventType(name, (), occurs=False)
        return found

    def columns(self) -> tuple[Attribute, ...]:
        """One attribute per distinct name over all types, in order of first appearance.

        Where types disagree, integer and float become float; any other clash is refused when the configuration is read.
        """
        merged: dict[str, Attribute] = {}
        for event_type in self.types:
            for attribute in event_type.attributes:
                known = merged.get(attribute.name)
                kind = attribute.kind if known is None or known.kind is attribute.kind else Kind.FLOAT
                nullable = attribute.nullable or (known is not None and known.nullable)
                merged[attribute.name] = Attribute(attribute.name, kind, nullable)
        return tuple(merged.values())
