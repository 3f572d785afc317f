"""What is too large for the engines, or asks for one that cannot run it: told at validation, in plain words, at its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from app.errors import Finding
from app.query.plan import MAX_ITEMS, QUERY_STREAM
from app.query.planning.planning_runs import RUNS_ITEMS, needs_runs
from app.query.planning.planning_temporal import UNTIL_NEXT
from app.query.resolved import resolved as r
from app.query.tree.document import Document


def refusals(query: r.Resolved) -> tuple[Finding, ...]:
    """One finding per thing that no engine runs."""
    return tuple(finding for check in _CHECKS for finding in check(query))


def drains(document: Document) -> Iterator[Finding]:
    """What is wrong with ``on_change: drain``: the old version must be over some day, and run beside a new one of its name."""
    if document.plain("on_change", "restart") != "drain":
        return
    window = document.record("window")
    spans = [one.value.unit for one in (document.values.get("within"), window.get("size"), window.get("range")) if one is not None]
    if "ms" not in spans:
        message = "on_change: drain needs a window in time, or the old version would never be over"
        yield Finding(message, document.location("on_change"), "write for instance within: 10 minutes, or on_change: restart")
    elif (duration := document.record("coalesce").get("duration")) is not None and duration.value == UNTIL_NEXT:
        message = "on_change: drain needs tuples that end: one that is valid until the next one may end at any time, and the old version would have to wait for it"
        yield Finding(message, document.location("on_change"), "write a duration, or on_change: restart")
    if any(one.value.startswith(QUERY_STREAM) for one in document.values["from"].value) if "from" in document.values else False:
        message = "a query that reads another one cannot drain"
        yield Finding(message, document.location("on_change"), "write on_change: restart")


def _pattern(query: r.Resolved) -> Iterator[Finding]:
    written = query.document.expression("event")
    assert written is not None  # noqa: S101 - there is no resolved query without
    limit, count = (RUNS_ITEMS, _places(query.pattern) + _opens(query)) if needs_runs(query) else (MAX_ITEMS, len(query.bindings))
    if count > limit:
        message = f"a pattern has at most {limit} items, this one {count}"
        yield Finding(message, written.scalar.location(), "repeat items by a closure, A a{9}, or split the query: from: [query:name]")


def _opens(query: r.Resolved) -> int:
    """One place for the events that open windows, where the query says which."""
    return int("open" in query.document.record("window"))


def _places(node: r.Node) -> int:
    """Items of the plan: leaves, negated ones too, and one for every UNTIL."""
    return sum(1 + (leaf.until is not None) for leaf in r.leaves(node)) + sum(len(absence.parts) for absence in r.absences(node))


def _keys(query: r.Resolved) -> Iterator[Finding]:
    document = query.document
    if document.plain("evaluator") == "stacks" and needs_runs(query):
        message = "the stacks evaluator runs plain sequences under skip-till-any-match; this query needs runs"
        yield Finding(message, document.location("evaluator"), "write runs, or leave it out")


_CHECKS: tuple[Callable[[r.Resolved], Iterator[Finding]], ...] = (_pattern, _keys)
