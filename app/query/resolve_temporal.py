"""Resolution of temporal queries (query-language.md, section 7)."""

from __future__ import annotations

from app.errors import Finding
from app.query import keys as k
from app.query import resolved as r
from app.query import tree as t
from app.query.check import Checker
from app.query.document import Document, Written
from app.query.resolve_streams import foreign_keys, resolve_streams
from app.query.similar import did_you_mean
from app.query.source import Scalar
from app.query.vocabulary import BUILT_IN, Streams, Vocabulary

ONLY_PATTERN = ("within", "strategy", "after", "return", "on_timeout", "max_gap", "evaluator")


def resolve_temporal_query(document: Document, streams: Streams, findings: list[Finding]) -> r.ResolvedTemporal | None:
    """Resolves a query with ``coalesce:`` (section 7)."""
    if document.has("event"):
        findings.append(Finding("event and coalesce exclude each other", document.location("coalesce"), "make two queries of it"))
        return None
    foreign_keys(document, ONLY_PATTERN, "patterns (event:)", findings)
    for needed in ("select", "window"):
        if not document.has(needed):
            hint = "select: [attribute]" if needed == "select" else "window: {range: 15 minutes, slide: 1 minute}"
            findings.append(Finding(f'a temporal query needs the key "{needed}"', document.location("coalesce"), hint))
    if document.plain("emit") in ("each", "longest"):
        findings.append(Finding(f"emit: {document.plain('emit')} belongs to patterns", document.location("emit"), "write changes or all"))
    shedder = document.record("shedding").get("shedder")
    if shedder is not None and shedder.value not in ("none", *k.TUPLE_SHEDDERS):
        findings.append(
            Finding(f'"{shedder.value}" does not shed tuples', shedder.node.location(), f"choose one of {', '.join(k.TUPLE_SHEDDERS)}")
        )
    _temporal_window(document, findings)
    found = resolve_streams(document, streams, findings)
    if found is None:
        return None
    names, vocabulary = found
    types = tuple(event_type.name for schema in vocabulary.schemas for event_type in schema.types)
    select = _attributes(document, "select", vocabulary, findings)
    key = _attributes(document, "key", vocabulary, findings)
    where = document.expression("where")
    condition = None
    if where is not None and not isinstance(where.tree, t.Value):
        condition = Checker(where, vocabulary, {}, findings, "tuple", tuple_types=types).condition(where.tree)
    valid = document.expression("valid")
    return r.ResolvedTemporal(document, names, select, key, condition, valid.tree if valid is not None else None)


def _temporal_window(document: Document, findings: list[Finding]) -> None:
    window = document.record("window")
    if "window" not in document.values:
        return
    hint = "window: {range: 15 minutes, slide: 1 minute}"
    place = document.location("window")
    findings.extend(
        Finding(f'the window of a temporal query needs "{key}"', place, hint) for key in ("range", "slide") if key not in window
    )
    for key in ("size", "open", "per"):
        if key in window:
            entry = window[key]
            node: Scalar = entry.scalar if isinstance(entry, Written) else entry.node
            findings.append(Finding(f'"{key}" belongs to the windows of patterns', node.location(), "write range and slide"))
    if "range" in window and "slide" in window and window["range"].value.unit != window["slide"].value.unit:
        findings.append(Finding("range and slide have different units", window["slide"].node.location(), "both durations, or both events"))


def _attributes(document: Document, key: str, vocabulary: Vocabulary, findings: list[Finding]) -> tuple[str, ...]:
    given = document.values.get(key)
    names: list[str] = []
    for entry in given.value if given is not None else ():
        known = [attribute.name for schema in vocabulary.schemas for event_type in schema.types for attribute in event_type.attributes]
        if known and entry.value not in known and entry.value not in BUILT_IN:
            findings.append(
                Finding(f'no event type has the attribute "{entry.value}"', entry.node.location(), did_you_mean(entry.value, known))
            )
        names.append(entry.value)
    return tuple(names)
