"""Attributes that every event of a type must have, as the stream's schemas say."""

from __future__ import annotations

from collections.abc import Mapping

from app.events.avro import Leaf, RecordType, StreamRecords, type_name, without_null


def required_attributes(records: StreamRecords) -> Mapping[str, frozenset[str]]:
    """By event type, the attributes that are neither nullable nor have a default, also not of a record they stand in.

    ``stream`` is none of them: in files it is the name of the stream.
    """
    return {
        one.name: frozenset(
            leaf.attribute.name
            for leaf in one.leaves
            if not leaf.attribute.nullable and leaf.attribute.name != "stream" and not _has_default(one, leaf)
        )
        for one in records.types
    }


def _has_default(record: RecordType, leaf: Leaf) -> bool:
    node = record.record
    for step in leaf.path:
        entry = next((entry for entry in node["fields"] if entry["name"] == step), None)
        if entry is None or "default" in entry:
            return True
        inside, _ = without_null(record.schema, entry["type"])
        if not isinstance(inside, dict) or type_name(inside) != "record":
            return False
        node = inside
    return False
