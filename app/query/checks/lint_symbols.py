"""Texts that an attribute never is: none of the symbols of its Avro enum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from app.errors import Finding, Severity
from app.query.checks.walk import parts, primaries
from app.query.resolved import resolved as r
from app.query.resolved.vocabulary import Vocabulary
from app.query.tree import tree as t
from app.query.tree.document import Written
from app.similar import did_you_mean

Asked = tuple[t.Reference | None, str, t.Constant]
"""What is asked (None: every event of the query), its attribute, and what that is compared with."""


def no_such_symbol(query: r.Resolved) -> Iterator[Finding]:
    """Comparisons, memberships and ``[attr = 'v']`` that no event, or every event, fulfils."""
    document, opener = query.document, query.document.record("window").get("open")
    event, where = document.expression("event"), document.expression("where")
    conditions = [] if where is None else [(where, where.tree)]
    conditions += [(event, one.until) for one in primaries(query) if event is not None and one.until is not None]
    own = {binding.variable: binding.types for binding in query.bindings}
    everywhere = tuple(name for binding in query.bindings for name in binding.types)
    for written, tree in conditions:
        for reference, path, constant in _asked(tree):
            types = everywhere if reference is None else own.get(reference.variable, ())
            yield from _unknown(written, path, constant, query.vocabulary, types)
    if isinstance(opener, Written) and opener.tree.where is not None:
        types = tuple(one.name for one in opener.tree.types.names)
        for _, path, constant in _asked(opener.tree.where):
            yield from _unknown(opener, path, constant, query.vocabulary, types)


def no_such_symbol_of_tuples(query: r.ResolvedTemporal) -> Iterator[Finding]:
    """The same in the condition of a temporal query, whose attributes stand bare."""
    where = query.document.expression("where")
    if where is None:
        return
    types = query.types or tuple(one.name for schema in query.vocabulary.schemas for one in schema.types)
    for reference, _, constant in _asked(where.tree):
        if reference is not None:
            yield from _unknown(where, t.bare_path(reference), constant, query.vocabulary, types)


def _asked(tree: t.Expression) -> Iterator[Asked]:
    """The texts that attributes are compared with."""
    for part in parts(tree):
        if isinstance(part, t.Equivalence):
            yield from _with(None, part.path, [part.value])
        elif isinstance(part, t.Comparison) and part.operator in ("=", "!="):
            for one, other in ((part.left, part.right), (part.right, part.left)):
                if isinstance(one, t.Reference):
                    yield from _with(one, one.path, [other])
        elif isinstance(part, t.In) and isinstance(part.operand, t.Reference):
            yield from _with(part.operand, part.operand.path, part.values)


def _with(reference: t.Reference | None, path: str, values: Iterable[t.Expression | None]) -> Iterator[Asked]:
    for value in values:
        if isinstance(value, t.Constant) and value.kind == "string":
            yield reference, path, value


def _unknown(written: Written, path: str, constant: t.Constant, vocabulary: Vocabulary, types: Sequence[str]) -> Iterator[Finding]:
    symbols = _symbols(vocabulary, types, path)
    if symbols and constant.value not in symbols:
        message = f'"{path}" is never "{constant.value}": its schema has no such symbol'
        hint = did_you_mean(str(constant.value), symbols, path)
        yield Finding(message, written.location(constant.span), hint, Severity.WARNING)


def _symbols(vocabulary: Vocabulary, types: Sequence[str], path: str) -> frozenset[str]:
    """All that the attribute can be in one of the types and any stream; empty where it can be any text."""
    found: set[str] = set()
    for schema in vocabulary.schemas:
        for known in (schema.event_type(name) for name in types):
            attribute = None if known is None else known.attribute(path)
            if (known is not None and not known.occurs) or (attribute is not None and not attribute.symbols):
                return frozenset()
            found.update(() if attribute is None else attribute.symbols)
    return frozenset(found)
