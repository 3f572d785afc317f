"""What a repeated batch must write again: everything but the moment at which a composite event was built."""

from __future__ import annotations

import io

import fastavro

DETECTED_AT = "detected_at"
_TIME = {"type": "long", "logicalType": "timestamp-millis"}
_HEAD = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Head",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "query", "type": "string"},
            {"name": "version", "type": "int"},
            {"name": "time", "type": _TIME},
            {"name": DETECTED_AT, "type": _TIME},
        ],
    }
)
"""Composite events and timeouts of all queries begin with it."""


def head(value: bytes) -> tuple[dict, bytes]:
    """The first fields of a composite event in the wire format, and the rest."""
    stream = io.BytesIO(value[5:])
    return fastavro.schemaless_reader(stream, _HEAD), stream.read()


def undated(value: bytes) -> str:
    """A composite event or timeout without `DETECTED_AT`."""
    read, rest = head(value)
    del read[DETECTED_AT]
    return f"{value[:5]!r} {read} {rest!r}"


def undated_row(row: dict) -> tuple[str, bytes, object, str]:
    """A row of a batch's output; composite events are known by their headers."""
    headers = row["headers"] or ()
    built = row["value"] is not None and any(header["key"] == "ce_id" for header in headers)
    return row["topic"], row["key"] or b"", undated(row["value"]) if built else repr(row["value"]), str(headers)
