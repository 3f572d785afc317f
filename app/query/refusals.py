"""What the language has but this version's engine does not run yet: told at validation, in plain words, at its place.

The issue that brings an engine for a feature deletes its line here and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from app.errors import Finding, Location
from app.query import keys as k
from app.query import resolved as r
from app.query.document import Written
from app.query.plan import MAX_ITEMS
from app.query.resolve_keys import strategies

RUN_SHEDDERS = ("none", "random")


def refusals(query: r.Resolved) -> tuple[Finding, ...]:
    """One finding per feature that the engine lacks."""
    return tuple(finding for check in _CHECKS for finding in check(query))


def temporal_refusals(query: r.ResolvedTemporal) -> tuple[Finding, ...]:
    """What of temporal queries is not run: bounded memory and its shedders, draining."""
    return tuple(_of_temporal(query))


def _of_temporal(query: r.ResolvedTemporal) -> Iterator[Finding]:
    document = query.document
    shedding = document.record("shedding")
    shedder, memory = shedding.get("shedder"), shedding.get("memory")
    if shedder is not None and shedder.value in k.TUPLE_SHEDDERS:
        yield _refused(f"the shedder {shedder.value}", shedder.node.location(), "write none: memory is unbounded then")
    if memory is not None:
        yield _refused("bounded memory", memory.node.location(), "leave it out: memory is unbounded then")
    if document.plain("on_change", "restart") != "restart":
        yield _refused("on_change: drain", document.location("on_change"), "write restart, or leave it out")
    yield from _streams(query)


def _refused(what: str, location: Location | None, hint: str | None = None) -> Finding:
    return Finding(f"{what} is understood, but this version's engine does not run it yet", location, hint)


def _event(query: r.Resolved) -> Written:
    written = query.document.expression("event")
    assert written is not None  # noqa: S101 - there is no resolved query without
    return written


def _pattern(query: r.Resolved) -> Iterator[Finding]:
    written = _event(query)
    yield from _structure(query.pattern, written)
    for leaf in r.leaves(query.pattern):
        if leaf.quantifier is not None:
            what = "an optional item" if leaf.quantifier.optional else "a closure"
            yield _refused(what, written.location(leaf.quantifier.span))
        if leaf.count is not None:
            yield _refused("ANY(n; ..)", written.location(leaf.span))
        if leaf.until is not None:
            yield _refused("UNTIL", written.location(leaf.span))
    for absence in r.absences(query.pattern):
        if absence.for_ms is not None:
            yield _refused("FOR", written.location(absence.span), "use within instead")
        if len(absence.parts) > 1:
            yield _refused("a negated AND", written.location(absence.span))
    if len(query.bindings) > MAX_ITEMS:
        yield Finding(f"a pattern has at most {MAX_ITEMS} items, this one {len(query.bindings)}", written.scalar.location())


def _structure(node: r.Node, written: Written) -> Iterator[Finding]:
    """Layers of the pattern; SEQs inside SEQs are gone by now."""
    if isinstance(node, r.Series):
        for item in node.items:
            yield from _structure(item, written)
    elif isinstance(node, r.AllOf):
        yield _refused("AND of patterns", written.location(node.span))
    elif isinstance(node, r.OneOf):
        yield _refused("OR of patterns", written.location(node.span), "make one query per branch, or write ANY(A, B) x for single events")
    elif isinstance(node, r.Repeat):
        yield _refused("a group with a quantifier", written.location(node.span))


def _within(query: r.Resolved) -> Iterator[Finding]:
    within = query.document.plain("within")
    if within is not None and within.unit == "events":
        yield _refused("within in events", query.document.location("within"), 'write a duration, for instance "5 s"')


def _keys(query: r.Resolved) -> Iterator[Finding]:
    document = query.document
    for key, what in (("window", "an explicit window"), ("max_gap", "max_gap"), ("limits", "limits")):
        if key in document.values:
            yield _refused(what, document.location(key))
    if document.plain("after", "no-skip") != "no-skip":
        yield _refused(f"after: {document.plain('after')}", document.location("after"), "write no-skip, or leave it out")
    if document.plain("emit", "each") == "longest":
        yield _refused("emit: longest", document.location("emit"))
    if document.plain("evaluator", "stacks") != "stacks":
        yield _refused("the evaluator of runs", document.location("evaluator"), "write stacks, or leave it out")
    if document.plain("on_change", "restart") != "restart":
        yield _refused("on_change: drain", document.location("on_change"), "write restart, or leave it out")


def _strategy(query: r.Resolved) -> Iterator[Finding]:
    default, apart = strategies(query)
    used = [one for one in (default, *(located.value for located in apart.values())) if one != k.STRATEGIES[0]]
    if used:
        yield _refused(f"strategy: {used[0]}", query.document.location("strategy"), "write skip-till-any-match, or leave it out")


def _streams(query: r.Resolved | r.ResolvedTemporal) -> Iterator[Finding]:
    given = query.document.values.get("from")
    for entry in given.value if given is not None else ():
        if entry.value.startswith("query:"):
            yield _refused("reading another query's composite events", entry.node.location())


def _shedder(query: r.Resolved) -> Iterator[Finding]:
    shedder = query.document.record("shedding").get("shedder")
    if shedder is not None and shedder.value not in (*RUN_SHEDDERS, *k.TUPLE_SHEDDERS):
        yield _refused(f"the shedder {shedder.value}", shedder.node.location(), "write none or random")


_CHECKS: tuple[Callable[[r.Resolved], Iterator[Finding]], ...] = (_pattern, _within, _keys, _strategy, _streams, _shedder)
