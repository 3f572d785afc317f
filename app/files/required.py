"""Attributes that every event of a type must have, as the streams' schemas say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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


def required_texts(streams: Iterable[StreamRecords]) -> Mapping[str, frozenset[str] | None]:
    """By name in files, the texts that every event of some types must have: of which types, None: of all. Of enums an empty text is none."""
    found: dict[str, frozenset[str] | None] = {}
    for records in streams:
        required = required_attributes(records)
        for one, leaf in ((record, leaf) for record in records.types for leaf in record.leaves):
            if not leaf.attribute.kind.textual or leaf.attribute.symbols or leaf.attribute.name not in required[one.name]:
                continue
            for name in names_in_files(leaf):
                known = found.get(name, frozenset())
                found[name] = None if known is None or one.type_path is not None else known | {one.name}
    return found


def names_in_files(leaf: Leaf) -> tuple[str, str]:
    """What an attribute may be called in files: what queries call it, or what records do."""
    return leaf.attribute.name, ".".join(map(str, leaf.path))


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
