"""Document → resolved query: names, kinds, and every rule of queries/README.md that a query can break."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from app.errors import Finding
from app.events.types import EventType, Kind
from app.query import expressions as e
from app.query.plan import ReturnField
from app.query.resolved import resolved as r
from app.query.resolved.resolve_expressions import Checker
from app.query.resolved.resolve_keys import CHECKS, resolve_window
from app.query.resolved.resolve_pattern import PatternResolver
from app.query.resolved.resolve_streams import foreign_keys, resolve_streams
from app.query.resolved.vocabulary import BUILT_IN, Streams, Vocabulary
from app.query.tree import tree as t
from app.query.tree.document import Document, Written
from app.similar import did_you_mean

ONLY_TEMPORAL = ("select", "key", "valid")


def resolve_pattern_query(document: Document, streams: Streams, findings: list[Finding]) -> r.Resolved | None:
    """Resolves a query with ``event:``; None when something that everything else needs is missing."""
    foreign_keys(document, ONLY_TEMPORAL, "temporal queries (coalesce:)", findings)
    found = resolve_streams(document, streams, findings)
    event = document.expression("event")
    if found is None or event is None:
        return None
    names, vocabulary = found
    resolver = PatternResolver(event, vocabulary, findings)
    pattern = r.flattened(resolver.resolve(event.tree))
    bindings = tuple(resolver.bindings)
    pattern = _with_untils(pattern, resolver, bindings, vocabulary, findings)
    predicates, equivalence = _where(document, bindings, vocabulary, findings)
    returns = _returns(document, bindings, vocabulary, findings)
    opener = resolve_window(document, vocabulary, findings)
    query = r.Resolved(document, names, pattern, bindings, predicates, equivalence, returns, vocabulary, opener)
    for check in CHECKS:
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
        predicates.append(_predicate(part, condition, checker, bindings))
    return tuple(predicates), tuple(equivalence)


def _predicate(part: t.Expression, condition: e.Expression, checker: Checker, bindings: tuple[r.Binding, ...]) -> r.Predicate:
    findings, written = checker.findings, checker.written
    mentioned = tuple(sorted(checker.mentioned))
    negated = [index for index in mentioned if bindings[index].negated]
    if len(negated) > 1:
        names = " and ".join(f'"{bindings[index].label}"' for index in negated)
        findings.append(
            Finding(
                f"a predicate over two negated variables, {names}",
                written.location(part.span),
                "split it at AND, or compare each with a positive variable",
            )
        )
    if len(negated) == 1 and bindings[negated[0]].groups:
        own = set(bindings[negated[0]].groups)
        inside = [bindings[index] for index in mentioned if index != negated[0] and own & set(bindings[index].groups)]
        if inside:
            message = (
                f'"{bindings[negated[0]].label}" is negated inside a group: its predicate cannot mention "{inside[0].label}" of the group'
            )
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
        lacking = vocabulary.lacking(binding.types, part.path)
        if lacking is not None and not binding.negated:
            stream, known = lacking
            elsewhere = vocabulary.event_type(known.name)
            where = f' in the stream "{stream}"' if elsewhere is not None and elsewhere.attribute(part.path) is not None else ""
            listing = [attribute.name for attribute in known.attributes]
            report(f'event type "{known.name}" has no attribute "{part.path}"{where}', did_you_mean(part.path, listing, known.name))
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


def _returns(
    document: Document, bindings: tuple[r.Binding, ...], vocabulary: Vocabulary, findings: list[Finding]
) -> tuple[ReturnField, ...]:
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


def _field_name(path: str) -> str:
    """A path as a field's name: what none may hold becomes an underscore, and nothing at the end; underscores of the path's own stay."""
    return re.sub(r"\W+", "_", re.sub(r"\W+$", "", path, flags=re.ASCII), flags=re.ASCII)


def _default_returns(
    document: Document, bindings: tuple[r.Binding, ...], vocabulary: Vocabulary, findings: list[Finding]
) -> tuple[ReturnField, ...]:
    fields: dict[str, ReturnField] = {}
    owners: dict[str, str] = {}
    for binding in bindings:
        if binding.negated or binding.variable is None:
            continue
        attributes = dict.fromkeys(
            attribute.name
            for name in binding.types
            for attribute in (vocabulary.event_type(name) or EventType(name, ())).attributes
            # elements of arrays and maps are known only because some query, perhaps another one, mentions them
            if attribute.name not in BUILT_IN and "[" not in attribute.name
        )
        for attribute in attributes:
            name = _field_name(f"{binding.variable}_{attribute}")
            source = f"{binding.variable}.{attribute}"
            kind = vocabulary.column_kind(attribute)
            if kind is None:
                findings.append(
                    Finding(
                        f'attribute "{attribute}" has different kinds',
                        document.location("event"),
                        "give them different names in the stream's configuration",
                    )
                )
                continue
            if name in fields:
                message = f'the default return has two fields "{name}", of {owners[name]} and {source}'
                findings.append(Finding(message, document.location("event"), "rename a variable, or write return:"))
                continue
            owners[name] = source
            fields[name] = ReturnField(name, e.AttributeOf(kind, binding.index, attribute), kind, binding.closure)
    return tuple(fields.values())
