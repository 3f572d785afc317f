"""Resolution of ``from:``."""

from __future__ import annotations

from dataclasses import replace

from app.errors import Finding
from app.events.types import StreamSchema
from app.query.resolved.vocabulary import Streams, Vocabulary
from app.query.tree.document import Document
from app.similar import did_you_mean


def resolve_streams(document: Document, streams: Streams, findings: list[Finding]) -> tuple[tuple[str, ...], Vocabulary] | None:
    """The streams of ``from`` (or the only one there is) and their words."""
    given = document.values.get("from")
    if document.has("from") and given is None:
        return None
    if given is None:
        default = streams.default
        if default is None:
            known = ", ".join(sorted(name for name in streams.known if not name.startswith("query:")))
            hint = f"the streams are {known}" if known else "the configuration has no streams"
            findings.append(Finding('the query needs the key "from"', document.node.location(), hint))
            return None
        return (default,), Vocabulary((_named(streams, default),))
    names: list[str] = []
    for entry in given.value:
        if streams.stream(entry.value) is None or (entry.value.startswith("query:") and entry.value not in streams.known):
            what = "query" if entry.value.startswith("query:") else "stream"
            candidates = [name for name in streams.known if name.startswith("query:") == (what == "query")]
            hint = did_you_mean(entry.value, candidates) or "the configuration has none"
            findings.append(Finding(f'unknown {what} "{entry.value.removeprefix("query:")}"', entry.node.location(), hint))
        elif entry.value in names:
            findings.append(Finding(f'stream "{entry.value}" is named twice', entry.node.location(), "leave one of them out"))
        else:
            names.append(entry.value)
    if len(names) < len(given.value):
        return None
    return tuple(names), Vocabulary(tuple(_named(streams, name) for name in names))


def _named(streams: Streams, name: str) -> StreamSchema:
    schema = streams.stream(name)
    assert schema is not None  # noqa: S101 - checked by the caller
    return replace(schema, stream=name)


def foreign_keys(document: Document, keys: tuple[str, ...], owner: str, findings: list[Finding]) -> None:
    """Findings for keys that belong to the other sort of query."""
    findings.extend(Finding(f'"{key}" belongs to {owner}', document.location(key), "leave it out") for key in keys if document.has(key))
