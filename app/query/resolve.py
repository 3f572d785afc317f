"""Document → resolved query: names, kinds, and every rule of query-language.md that a query can break."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.errors import Finding
from app.events.types import EventType, Kind
from app.query import expressions as e
from app.query import keys as k
from app.query import resolved as r
from app.query import tree as t
from app.query.check import Checker
from app.query.document import Document, Located, Written
from app.query.plan import ReturnField
from app.query.resolve_pattern import PatternResolver
from app.query.similar import did_you_mean
from app.query.source import Scalar
from app.query.vocabulary import BUILT_IN, Streams, Vocabulary

ONLY_PATTERN = ("within", "strategy", "after", "return", "on_timeout", "max_gap", "evaluator")
ONLY_TEMPORAL = ("select", "key", "valid")


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


def _named(streams: Streams, name: str) -> Any:
    schema = streams.stream(name)
    assert schema is not None  # noqa: S101 - checked by the caller
    return replace(schema, stream=name)


def resolve_pattern_query(document: Document, streams: Streams, findings: list[Finding]) -> r.Resolved | None:
    """Resolves a query with ``event:``; None when something that everything else needs is missing."""
    for key in ONLY_TEMPORAL:
        if document.has(key):
            findings.append(Finding(f'"{key}" belongs to temporal queries (coalesce:)', document.location(key), "leave it out"))
    found = resolve_streams(document, streams, findings)
    event = document.expression("event")
    if found is None or event is None:
        return None
    names, vocabulary = found
    resolver = PatternResolver(event, vocabulary, findings)
    pattern = resolver.resolve(event.tree)
    bindings = tuple(resolver.bindings)
    pattern = _with_untils(pattern, resolver, bindings, vocabulary, findings)
    predicates, equivalence = _where(document, bindings, vocabulary, findings)
    returns = _returns(document, bindings, vocabulary, findings)
    opener = _check_window(document, vocabulary, findings)
    query = r.Resolved(document, names, pattern, bindings, predicates, equivalence, returns, vocabulary, opener)
    for check in (_check_bounds, _check_strategy, _check_after, _check_output, _check_emit, _check_shedding):
        check(query, findings)
    return query


def _by_name(bindings: tuple[r.Binding, ...]) -> dict[str, r.Binding]:
    return {binding.variable: binding for binding in bindings if binding.variable is not None}


# --- where: -----------------------------------------------------------------------------------------------------------------


def _where(
    document: Document, bindings: tuple[r.Binding, ...], vocabulary: Vocabulary, findings: list[Finding]
) -> tuple[tuple[r.Predicate, ...], tuple[r.Equivalence, ...]]:
    written = document.expression("where")
    if written is None:
        return (), ()
    predicates: list[r.Predicate] = []
    equivalence: list[r.Equivalence] = []
    parts = written.tree.operands if isinstance(written.tree, t.And) else (written.tree,)
    for part in parts:
        if isinstance(part, t.Equivalence):
            one = _equivalence(part, written, bindings, vocabulary, findings)
            if one is not None and any(other.attribute == one.attribute and other.value == one.value for other in equivalence):
                findings.append(Finding(f"[{one.attribute}] stands twice", written.location(part.span), "leave one of them out"))
            elif one is not None:
                equivalence.append(one)
            continue
        if isinstance(part, t.Value):
            continue
        checker = Checker(written, vocabulary, _by_name(bindings), findings)
        condition = checker.condition(part)
        predicates.append(_predicate(part, condition, checker, bindings, written, findings))
    return tuple(predicates), tuple(equivalence)


def _predicate(
    part: t.Expression, condition: e.Expression, checker: Checker, bindings: tuple[r.Binding, ...], written: Written, findings: list[Finding]
) -> r.Predicate:
    mentioned = tuple(sorted(checker.mentioned))
    negated = [index for index in mentioned if bindings[index].negated]
    if len(negated) > 1:
        names = " and ".join(f'"{bindings[index].label}"' for index in negated)
        findings.append(
            Finding(f"a predicate over two negated variables, {names}", written.location(part.span), "split it at AND, or compare each with a positive variable")
        )
    if len(negated) == 1 and bindings[negated[0]].groups:
        own = set(bindings[negated[0]].groups)
        inside = [bindings[index] for index in mentioned if index != negated[0] and own & set(bindings[index].groups)]
        if inside:
            message = f'"{bindings[negated[0]].label}" is negated inside a group: its predicate cannot mention "{inside[0].label}" of the group'
            findings.append(Finding(message, written.location(part.span), "compare it with a variable outside of the group"))
    return r.Predicate(condition, mentioned, negated[0] if len(negated) == 1 else None, part.span)


def _equivalence(
    part: t.Equivalence, written: Written, bindings: tuple[r.Binding, ...], vocabulary: Vocabulary, findings: list[Finding]
) -> r.Equivalence | None:
    def report(message: str, hint: str | None = None) -> None:
        findings.append(Finding(message, written.location(part.span), hint))

    if part.path in BUILT_IN:
        report(f"[{part.path}] is no attribute", f"compare a.{part.path} = b.{part.path}")
        return None
    kind: Kind | None = None
    for binding in bindings:
        found = [known for name in binding.types if (known := vocabulary.event_type(name)) is not None]
        lacking = [known for known in found if known.occurs and known.attribute(part.path) is None]
        if lacking and not binding.negated:
            listing = [attribute.name for attribute in lacking[0].attributes]
            report(f'event type "{lacking[0].name}" has no attribute "{part.path}"', did_you_mean(part.path, listing, lacking[0].name))
            return None
        if any(known.attribute(part.path) for known in found):
            kind = vocabulary.column_kind(part.path)
            if kind is None:
                report(f'attribute "{part.path}" has different kinds', "give them different names in the stream's configuration")
                return None
    value: e.Literal | None = None
    if part.value is not None:
        fixed = Checker(written, vocabulary, {}, findings).fixed(kind, part.value, part.path)
        value = fixed if isinstance(fixed, e.Literal) else None
        kind = kind or (value.kind if value is not None else None)
    return r.Equivalence(part.path, kind or Kind.STRING, value, part.span)


# --- UNTIL ------------------------------------------------------------------------------------------------------------------


def _with_untils(
    pattern: r.Node, resolver: PatternResolver, bindings: tuple[r.Binding, ...], vocabulary: Vocabulary, findings: list[Finding]
) -> r.Node:
    resolved: dict[t.Span, e.Expression] = {}
    for index, primary, before in resolver.untils:
        if primary.until is None or isinstance(primary.until, t.Value):
            continue
        own = bindings[index].variable
        visible = before | ({own} if own is not None else frozenset())
        checker = Checker(resolver.written, vocabulary, _by_name(bindings), findings, "until", own, visible)
        resolved[primary.span] = checker.condition(primary.until)
    return _place_untils(pattern, resolved) if resolved else pattern


def _place_untils(node: r.Node, untils: Mapping[t.Span, e.Expression]) -> r.Node:
    if isinstance(node, r.Leaf):
        return replace(node, until=untils.get(node.span))
    if isinstance(node, r.Series):
        return replace(node, items=tuple(_place_untils(item, untils) for item in node.items))
    if isinstance(node, r.Repeat):
        return replace(node, inner=_place_untils(node.inner, untils))
    if isinstance(node, r.Absence):
        return node
    return replace(node, operands=tuple(_place_untils(operand, untils) for operand in node.operands))


# --- return: ----------------------------------------------------------------------------------------------------------------


def _returns(document: Document, bindings: tuple[r.Binding, ...], vocabulary: Vocabulary, findings: list[Finding]) -> tuple[ReturnField, ...]:
    given = document.values.get("return")
    if not document.has("return"):
        return _default_returns(document, bindings, vocabulary, findings)
    fields: list[ReturnField] = []
    for name, written in (given.value if given is not None else {}).items():
        if not isinstance(written.tree, t.Value):
            continue
        checker = Checker(written, vocabulary, _by_name(bindings), findings, "return")
        typed = checker.value(written.tree)
        value = typed.value if typed.kind is not None else e.Literal(Kind.INTEGER, None)
        fields.append(ReturnField(name, value, typed.kind or Kind.INTEGER, typed.array))
    return tuple(fields)


def _default_returns(document: Document, bindings: tuple[r.Binding, ...], vocabulary: Vocabulary, findings: list[Finding]) -> tuple[ReturnField, ...]:
    fields: dict[str, ReturnField] = {}
    owners: dict[str, str] = {}
    for binding in bindings:
        if binding.negated or binding.variable is None:
            continue
        attributes = dict.fromkeys(
            attribute.name
            for name in binding.types
            for attribute in (vocabulary.event_type(name) or EventType(name, ())).attributes
            if attribute.name not in BUILT_IN
        )
        for attribute in attributes:
            name = re.sub(r"\W+", "_", f"{binding.variable}_{attribute}", flags=re.ASCII).rstrip("_")
            source = f"{binding.variable}.{attribute}"
            kind = vocabulary.column_kind(attribute)
            if kind is None:
                findings.append(
                    Finding(f'attribute "{attribute}" has different kinds', document.location("event"), "give them different names in the stream's configuration")
                )
                continue
            if name in fields:
                message = f'the default return has two fields "{name}", of {owners[name]} and {source}'
                findings.append(Finding(message, document.location("event"), "rename a variable, or write return:"))
                continue
            owners[name] = source
            fields[name] = ReturnField(name, e.AttributeOf(kind, binding.index, attribute), kind, binding.closure)
    return tuple(fields.values())


# --- the other keys ---------------------------------------------------------------------------------------------------------


def absences(node: r.Node) -> list[r.Absence]:
    """All negations of a pattern, in textual order."""
    if isinstance(node, r.Absence):
        return [node]
    if isinstance(node, r.Leaf):
        return []
    inner = (node.inner,) if isinstance(node, r.Repeat) else node.items if isinstance(node, r.Series) else node.operands
    return [absence for part in inner for absence in absences(part)]


def leaves(node: r.Node) -> list[r.Leaf]:
    """All positive places of a pattern, in textual order."""
    if isinstance(node, r.Leaf):
        return [node]
    if isinstance(node, r.Absence):
        return []
    inner = (node.inner,) if isinstance(node, r.Repeat) else node.items if isinstance(node, r.Series) else node.operands
    return [leaf for part in inner for leaf in leaves(part)]


def _check_bounds(query: r.Resolved, findings: list[Finding]) -> None:
    document = query.document
    event = document.expression("event")
    assert event is not None  # noqa: S101 - there is no resolved query without
    window = document.has("window")
    if window and document.has("within"):
        findings.append(Finding("within and window exclude each other", document.location("window"), "leave one of them out"))
    bounded = window or document.has("within")
    for absence in absences(query.pattern):
        if absence.for_ms is not None and window:
            findings.append(Finding("FOR and window exclude each other", event.location(absence.span), "use within, or leave FOR out"))
        if bounded or absence.for_ms is not None:
            continue
        if absence.at_start or absence.at_end:
            place = "start" if absence.at_start else "end"
            hint = "write for instance within: 10 minutes" + (", or !(B b) FOR 10 s" if place == "end" else "")
            findings.append(Finding(f"a negation at the {place} needs within", event.location(absence.span), hint))


def _check_window(document: Document, vocabulary: Vocabulary, findings: list[Finding]) -> e.Expression | None:
    window = document.record("window")
    if not document.has("window") or "window" not in document.values:
        return None
    where = document.location("window")
    if "range" in window:
        findings.append(Finding('"range" belongs to temporal queries', window["range"].node.location(), "write size"))
    if "size" not in window and "range" not in window:
        findings.append(Finding("a window needs a size", where, "write size: 250 s, or size: 8000 events"))
    size, slide, per = window.get("size"), window.get("slide"), window.get("per")
    if size is not None and slide is not None:
        if size.value.unit != slide.value.unit:
            findings.append(Finding("size and slide have different units", slide.node.location(), "both durations, or both events"))
        elif slide.value.size > size.value.size:
            findings.append(Finding("the slide is longer than the window: events between windows would be lost", slide.node.location(), "make slide at most size"))
    if per is not None and (size is None or size.value.unit != "events"):
        findings.append(Finding("per: partition goes with count windows only", per.node.location(), "write size: 1000 events, or leave per out"))
    opener = window.get("open")
    if opener is None:
        return None
    if slide is not None:
        findings.append(Finding("a window that events open has no slide", slide.node.location(), "leave slide out"))
    if per is not None:
        findings.append(Finding("a window that events open has no per", per.node.location(), "leave per out"))
    return _opener(opener, vocabulary, findings)


def _opener(written: Written, vocabulary: Vocabulary, findings: list[Finding]) -> e.Expression | None:
    opener: t.Opener = written.tree
    primary = t.Primary(opener.types, opener.variable, variable_span=opener.span, span=opener.span)
    resolver = PatternResolver(written, vocabulary, findings)
    resolver.resolve(primary)
    if opener.types.count is not None:
        findings.append(Finding("one event opens a window, not ANY(n; ..)", written.location(opener.types.span), "write ANY(A, B) q"))
    if opener.where is None or isinstance(opener.where, t.Value):
        return None
    return Checker(written, vocabulary, _by_name(tuple(resolver.bindings)), findings).condition(opener.where)


def strategies(query: r.Resolved) -> tuple[str, dict[str, Located]]:
    """The default strategy, and those set apart per variable."""
    given = query.document.values.get("strategy")
    if given is None:
        return k.STRATEGIES[0], {}
    if isinstance(given.value, str):
        return given.value, {}
    table = dict(given.value)
    default = table.pop("default", None)
    return default.value if default is not None else k.STRATEGIES[0], table


def _check_strategy(query: r.Resolved, findings: list[Finding]) -> None:
    _, apart = strategies(query)
    given = query.document.values.get("strategy")
    node = given.node if given is not None else None
    absent = [leaf.binding for absence in absences(query.pattern) for leaf in absence.parts]
    for name, strategy in apart.items():
        key = node.key(name) if node is not None else None
        place = key.location() if key is not None else strategy.node.location()
        binding = query.binding(name.removesuffix("[]"))
        if binding is None:
            known = [b.variable for b in query.bindings if b.variable is not None]
            findings.append(Finding(f'unknown variable "{name}"', place, did_you_mean(name.removesuffix("[]"), known, "the pattern")))
        elif name.endswith("[]") and not binding.closure:
            findings.append(Finding(f'"{binding.variable}" is no closure: it has no further events', place, f"write {binding.variable}"))
        elif binding.index in absent and not strategy.value.endswith("contiguity"):
            findings.append(Finding("a negated item can only have a contiguous strategy", place, "write strict-contiguity or partition-contiguity"))
        elif binding.index in absent and any(part.binding == binding.index and absence.at_start for absence in absences(query.pattern) for part in absence.parts):
            findings.append(Finding("a contiguous negation stands behind a positive item", place, "leave it out, or move the negation"))


def _check_after(query: r.Resolved, findings: list[Finding]) -> None:
    policy = query.document.plain("after", "no-skip")
    if " " not in policy:
        return
    variable = policy.split()[1]
    binding = query.binding(variable)
    known = [b.variable for b in query.bindings if b.variable is not None and not b.negated]
    if binding is None:
        findings.append(Finding(f'unknown variable "{variable}"', query.document.location("after"), did_you_mean(variable, known, "the pattern")))
    elif binding.negated:
        findings.append(Finding(f'"{variable}" is negated: there is no such event to skip to', query.document.location("after"), did_you_mean("", known, "the pattern")))


def _check_output(query: r.Resolved, findings: list[Finding]) -> None:
    key = query.document.record("output").get("key")
    names = [one.name for one in query.returns]
    if key is not None and key.value not in names:
        findings.append(Finding(f'"{key.value}" is no return field', key.node.location(), did_you_mean(key.value, names, "return:")))
    elif key is not None and next(one for one in query.returns if one.name == key.value).array:
        findings.append(Finding(f'"{key.value}" is a list and so no key', key.node.location(), "choose a field with one value"))


def _check_emit(query: r.Resolved, findings: list[Finding]) -> None:
    emit = query.document.plain("emit", "each")
    if emit in ("changes", "all"):
        findings.append(Finding(f"emit: {emit} belongs to temporal queries", query.document.location("emit"), "write each or longest"))
    if emit == "longest" and not query.document.has("within") and not query.document.has("window"):
        findings.append(Finding("emit: longest needs within", query.document.location("emit"), "write for instance within: 10 minutes"))


def _check_shedding(query: r.Resolved, findings: list[Finding]) -> None:
    shedding = query.document.record("shedding")
    shedder = shedding.get("shedder")
    if shedder is not None and shedder.value in k.TUPLE_SHEDDERS:
        findings.append(Finding(f'"{shedder.value}" sheds tuples of temporal queries', shedder.node.location(), f"choose one of {', '.join(k.EVENT_SHEDDERS + k.WINDOW_SHEDDERS + k.MATCH_SHEDDERS)}"))
    if "memory" in shedding:
        findings.append(Finding('"memory" belongs to temporal queries', shedding["memory"].node.location(), "leave it out"))


# --- temporal queries -------------------------------------------------------------------------------------------------------


def resolve_temporal_query(document: Document, streams: Streams, findings: list[Finding]) -> r.ResolvedTemporal | None:
    """Resolves a query with ``coalesce:`` (section 7)."""
    if document.has("event"):
        findings.append(Finding("event and coalesce exclude each other", document.location("coalesce"), "make two queries of it"))
        return None
    for foreign in ONLY_PATTERN:
        if document.has(foreign):
            findings.append(Finding(f'"{foreign}" belongs to patterns (event:)', document.location(foreign), "leave it out"))
    for needed in ("select", "window"):
        if not document.has(needed):
            hint = "select: [attribute]" if needed == "select" else "window: {range: 15 minutes, slide: 1 minute}"
            findings.append(Finding(f'a temporal query needs the key "{needed}"', document.location("coalesce"), hint))
    if document.plain("emit") in ("each", "longest"):
        findings.append(Finding(f"emit: {document.plain('emit')} belongs to patterns", document.location("emit"), "write changes or all"))
    shedder = document.record("shedding").get("shedder")
    if shedder is not None and shedder.value not in ("none", *k.TUPLE_SHEDDERS):
        findings.append(Finding(f'"{shedder.value}" does not shed tuples', shedder.node.location(), f"choose one of {', '.join(k.TUPLE_SHEDDERS)}"))
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
    for key in ("range", "slide"):
        if key not in window:
            findings.append(Finding(f'the window of a temporal query needs "{key}"', document.location("window"), "window: {range: 15 minutes, slide: 1 minute}"))
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
            findings.append(Finding(f'no event type has the attribute "{entry.value}"', entry.node.location(), did_you_mean(entry.value, known)))
        names.append(entry.value)
    return tuple(names)
