"""What the language has but this version's engine does not run yet: told at validation, in plain words, at its place.

The issue that brings an engine for a feature deletes its line here and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from app.errors import Finding, Location
from app.query import resolved as r
from app.query.plan import MAX_ITEMS
from app.query.planning_runs import RUNS_ITEMS, needs_runs


def refusals(query: r.Resolved) -> tuple[Finding, ...]:
    """One finding per feature that the engine lacks."""
    return tuple(finding for check in _CHECKS for finding in check(query))


def temporal_refusals(query: r.ResolvedTemporal) -> tuple[Finding, ...]:
    """What of temporal queries is not run: draining."""
    return tuple(_of_temporal(query))


def _of_temporal(query: r.ResolvedTemporal) -> Iterator[Finding]:
    document = query.document
    if document.plain("on_change", "restart") != "restart":
        yield _refused("on_change: drain", document.location("on_change"), "write restart, or leave it out")


def _refused(what: str, location: Location | None, hint: str | None = None) -> Finding:
    return Finding(f"{what} is understood, but this version's engine does not run it yet", location, hint)


def _pattern(query: r.Resolved) -> Iterator[Finding]:
    written = query.document.expression("event")
    assert written is not None  # noqa: S101 - there is no resolved query without
    limit, count = (RUNS_ITEMS, _places(query.pattern)) if needs_runs(query) else (MAX_ITEMS, len(query.bindings))
    if count > limit:
        message = f"a pattern has at most {limit} items, this one {count}"
        yield Finding(message, written.scalar.location(), "repeat items by a closure, A a{9}, or split the query: from: [query:name]")


def _places(node: r.Node) -> int:
    """Items of the plan: leaves, negated ones too, and one for every UNTIL."""
    return sum(1 + (leaf.until is not None) for leaf in r.leaves(node)) + sum(len(absence.parts) for absence in r.absences(node))


def _keys(query: r.Resolved) -> Iterator[Finding]:
    document = query.document
    if document.plain("evaluator") == "stacks" and needs_runs(query):
        message = "the stacks evaluator runs plain sequences under skip-till-any-match; this query needs runs"
        yield Finding(message, document.location("evaluator"), "write runs, or leave it out")
    if document.plain("on_change", "restart") != "restart":
        yield _refused("on_change: drain", document.location("on_change"), "write restart, or leave it out")


_CHECKS: tuple[Callable[[r.Resolved], Iterator[Finding]], ...] = (_pattern, _keys)
