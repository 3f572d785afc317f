"""Resolution of temporal queries (queries/README.md, *Values that last*)."""

from __future__ import annotations

from app.errors import Finding
from app.events.types import Kind
from app.query import expressions as e
from app.query.plan import ReturnField
from app.query.resolved import resolved as r
from app.query.resolved.kinds import clash
from app.query.resolved.resolve_expressions import Checker
from app.query.resolved.resolve_streams import foreign_keys, resolve_streams
from app.query.resolved.vocabulary import BUILT_IN, Streams, Vocabulary
from app.query.text import keys as k
from app.query.text.source import Mapping
from app.query.tree import tree as t
from app.query.tree.document import Document, Written
from app.similar import did_you_mean

ONLY_PATTERN = ("within", "strategy", "after", "return", "on_timeout", "max_gap", "evaluator", "limits")
INTERVAL_FIELDS = {
    "start": Kind.TIME,
    "end": Kind.TIME,
    "length": Kind.DURATION,
    "truncated_start": Kind.BOOLEAN,
    "truncated_end": Kind.BOOLEAN,
}
"""What the composite event says of the coalesced interval, beside key and values."""


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
    _temporal_shedding(document, findings)
    _temporal_window(document, findings)
    found = resolve_streams(document, streams, findings)
    if found is None:
        return None
    names, vocabulary = found
    select = _attributes(document, "select", vocabulary, findings)
    key = _attributes(document, "key", vocabulary, findings)
    types = _tuple_types(document, (*key, *select), vocabulary, findings)
    where = document.expression("where")
    condition = None
    if where is not None and not isinstance(where.tree, t.Value):
        everything = tuple(event_type.name for schema in vocabulary.schemas for event_type in schema.types)
        condition = Checker(where, vocabulary, {}, findings, "tuple", tuple_types=types or everything).condition(where.tree)
    valid = document.expression("valid")
    returns = _returns((*key, *select), vocabulary)
    _output_key(document, returns, findings)
    test = valid.tree if valid is not None else None
    return r.ResolvedTemporal(document, names, types, select, key, condition, test, returns, vocabulary)


def _temporal_shedding(document: Document, findings: list[Finding]) -> None:
    shedder, memory = (document.record("shedding").get(key) for key in ("shedder", "memory"))
    if memory is not None and (shedder is None or shedder.value == "none"):
        message = "bounded memory needs a shedder that says which tuples go"
        findings.append(Finding(message, memory.node.location(), f"write shedder: one of {', '.join(k.TUPLE_SHEDDERS)}"))
    if shedder is not None and shedder.value not in ("none", *k.TUPLE_SHEDDERS):
        findings.append(
            Finding(f'"{shedder.value}" does not shed tuples', shedder.node.location(), f"choose one of {', '.join(k.TUPLE_SHEDDERS)}")
        )


def _temporal_window(document: Document, findings: list[Finding]) -> None:
    window, node = document.record("window"), document.node.get("window")
    if "window" not in document.values or not isinstance(node, Mapping):
        return
    hint = "window: {range: 15 minutes, slide: 1 minute}"
    place = document.location("window")
    findings.extend(
        Finding(f'the window of a temporal query needs "{key}"', place, hint) for key in ("range", "slide") if node.key(key) is None
    )
    for key in ("size", "open", "per"):
        if key in window:
            entry = window[key]
            place = (entry.scalar if isinstance(entry, Written) else entry.node).location()
            findings.append(Finding(f'"{key}" belongs to the windows of patterns', place, "write range and slide"))
    if "range" in window and "slide" in window and window["range"].value.unit != window["slide"].value.unit:
        findings.append(Finding("range and slide have different units", window["slide"].node.location(), "both durations, or both events"))


def _attributes(document: Document, key: str, vocabulary: Vocabulary, findings: list[Finding]) -> tuple[str, ...]:
    """The attributes under ``select`` or ``key``, each once; unknown ones, and those of several kinds, are findings."""
    given = document.values.get(key)
    names: list[str] = []
    known = [attribute.name for schema in vocabulary.schemas for event_type in schema.types for attribute in event_type.attributes]
    for entry in given.value if given is not None else ():
        name, place = entry.value, entry.node.location()
        kinds = vocabulary.kinds(name)
        if name in names:
            findings.append(Finding(f'attribute "{name}" stands twice in {key}', place, "leave one of them out"))
            continue
        if name in INTERVAL_FIELDS:
            message = f'"{name}" is a field of every coalesced tuple and cannot be in {key}'
            findings.append(Finding(message, place, "rename the attribute in the stream's configuration"))
        elif name in BUILT_IN or not known:
            pass
        elif not kinds:
            findings.append(Finding(f'no event type has the attribute "{name}"', place, did_you_mean(name, known)))
        elif vocabulary.column_kind(name) is None:
            message, hint = clash(name, vocabulary)
            findings.append(Finding(message, place, hint))
        names.append(name)
    return tuple(names)


def _tuple_types(document: Document, needed: tuple[str, ...], vocabulary: Vocabulary, findings: list[Finding]) -> tuple[str, ...]:
    """The types that have all attributes; their events are the tuples of the query. Empty: those of every type."""
    wanted = [name for name in needed if name not in BUILT_IN]
    listed = [event_type for schema in vocabulary.schemas for event_type in schema.types if event_type.occurs]
    fitting = [one.name for one in listed if all(one.attribute(name) is not None for name in wanted)]
    unknown = [name for name in wanted if not vocabulary.kinds(name)]
    if listed and not unknown and not fitting:
        place = document.location("select")
        findings.append(
            Finding(f"no event type has all of {', '.join(wanted)}", place, "a tuple is one event: make a query per event type")
        )
    by_value = [schema for schema in vocabulary.schemas if schema.type_attribute is not None]
    if not by_value:
        return tuple(dict.fromkeys(fitting))
    if len(fitting) < len(listed):
        lacking = next(one.name for one in listed if one.name not in fitting)
        message = f'stream "{by_value[0].stream}" has its types from an attribute, and "{lacking}" of another stream lacks one of {", ".join(wanted)}'
        findings.append(Finding(message, document.location("from"), "make two queries of it"))
    return ()


def _returns(attributes: tuple[str, ...], vocabulary: Vocabulary) -> tuple[ReturnField, ...]:
    fields = {}
    for name in attributes:
        kind = BUILT_IN.get(name) or vocabulary.column_kind(name)
        value = e.AttributeOf(kind, 0, name) if kind is not None else e.Literal(Kind.STRING, None)
        fields[name] = ReturnField(name, value, kind or Kind.STRING)
    interval = [ReturnField(name, e.AttributeOf(kind, 0, name), kind) for name, kind in INTERVAL_FIELDS.items()]
    return (*fields.values(), *interval)


def _output_key(document: Document, returns: tuple[ReturnField, ...], findings: list[Finding]) -> None:
    key = document.record("output").get("key")
    names = [one.name for one in returns]
    if key is not None and key.value not in names:
        message = f'"{key.value}" is no field of the coalesced tuple'
        findings.append(Finding(message, key.node.location(), did_you_mean(key.value, names, "a coalesced tuple")))
