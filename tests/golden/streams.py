"""The streams that the golden queries read."""

from __future__ import annotations

from app.events.types import Attribute, EventType, Kind, StreamSchema


def _event_type(name: str, nullable: tuple[str, ...] = (), **kinds: Kind) -> EventType:
    return EventType(name, tuple(Attribute(attribute.replace("__", "."), kind, attribute in nullable) for attribute, kind in kinds.items()))


RETAIL = StreamSchema(
    "retail",
    (
        _event_type("ShelfReading", tag_id=Kind.STRING, store_id=Kind.INTEGER, shelf_id=Kind.INTEGER),
        _event_type("CounterReading", tag_id=Kind.STRING, store_id=Kind.INTEGER, counter_id=Kind.INTEGER),
        _event_type("ExitReading", tag_id=Kind.STRING, store_id=Kind.INTEGER, exit_id=Kind.INTEGER, alarm=Kind.BOOLEAN),
    ),
)
STOCKS = StreamSchema(
    "stocks",
    (EventType("Quote", (Attribute("symbol", Kind.STRING), Attribute("price", Kind.FLOAT), Attribute("volume", Kind.INTEGER))),),
    type_attribute="symbol",
)
CLIMATE = StreamSchema(
    "climate",
    (
        _event_type(
            "RoomClimate",
            nullable=("comment",),
            mote_id=Kind.STRING,
            humidity=Kind.FLOAT,
            temperature=Kind.FLOAT,
            measured_at=Kind.TIME,
            comment=Kind.STRING,
            raw=Kind.BYTES,
            room__floor=Kind.INTEGER,
        ),
        _event_type("Door", mote_id=Kind.STRING, open=Kind.BOOLEAN, store_id=Kind.STRING, floor=Kind.INTEGER),
    ),
)
STREAMS = {schema.stream: schema for schema in (RETAIL, STOCKS, CLIMATE)}
