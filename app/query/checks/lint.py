"""Warnings: queries that are valid but will hardly do what their author wants."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from app.config.durations import format_duration
from app.errors import Finding, Location, Severity
from app.query.checks.lint_symbols import no_such_symbol
from app.query.checks.walk import parts, primaries
from app.query.resolved import resolved as r
from app.query.resolved.resolve_keys import strategies
from app.query.tree import tree as t

MANY_WINDOWS = 1000
"""At once, of which each is matched apart, and learned from apart."""


def lint(query: r.Resolved, *, whole: bool = True) -> tuple[Finding, ...]:
    """All warnings about a resolved query.

    Args:
        query: as far as it could be resolved.
        whole: nothing of it is broken: else what is missing in ``where`` may be what is.
    """
    return tuple(finding for rule in RULES if whole or rule not in ABOUT_MISSING for finding in rule(query))


def _warning(message: str, location: Location | None, hint: str | None = None) -> Finding:
    return Finding(message, location, hint, Severity.WARNING)


def _unbounded(query: r.Resolved) -> Iterator[Finding]:
    document = query.document
    one_event = len(query.bindings) == 1 and not query.bindings[0].closure
    if not one_event and not any(document.has(key) for key in ("within", "window", "max_gap")):
        yield _warning("without within the state grows without bound", document.location("event"), "add for instance within: 1 hour")


def _no_partition(query: r.Resolved) -> Iterator[Finding]:
    if not query.equivalence and len([b for b in query.bindings if not b.negated]) > 1:
        hint = 'if the events of a match share an attribute, write it in brackets: where: "[tag_id]"'
        yield _warning("without [attr] all events go to one bucket: the query will not scale out", query.document.location("event"), hint)


def _equality_instead_of_equivalence(query: r.Resolved) -> Iterator[Finding]:
    """``a.x = b.x`` between all positive variables is an equivalence test that nobody can partition by."""
    written = query.document.expression("where")
    if written is None or query.equivalence:
        return
    positive = {b.variable for b in query.bindings if not b.negated}
    linked: dict[str, set[str]] = {}
    for part in written.tree.operands if isinstance(written.tree, t.And) else (written.tree,):
        if not isinstance(part, t.Comparison) or part.operator != "=":
            continue
        left, right = part.left, part.right
        if (
            isinstance(left, t.Reference)
            and isinstance(right, t.Reference)
            and left.path == right.path
            and left.path not in ("time", "type")
        ):
            linked.setdefault(left.path, set()).update((left.variable, right.variable))
    for path, variables in linked.items():
        if None not in positive and variables >= positive and len(positive) > 1:
            yield _warning(
                f'"{path}" is compared between all variables',
                written.scalar.location(),
                f"write [{path}]: the query can then be partitioned",
            )


def _unused(query: r.Resolved) -> Iterator[Finding]:
    event = query.document.expression("event")
    if event is None or not query.document.has("return"):
        return
    used = _mentioned_names(query)
    for binding in query.bindings:
        if binding.variable is not None and not binding.negated and binding.variable not in used:
            yield _warning(
                f'variable "{binding.variable}" is never used',
                event.location(binding.span),
                "leave the name out, or return an attribute of it",
            )


def _repeated_types(query: r.Resolved) -> Iterator[Finding]:
    event = query.document.expression("event")
    for node in primaries(query):
        seen: set[str] = set()
        for name in node.types.names:
            if name.name in seen and event is not None:
                yield _warning(f'type "{name.name}" stands twice in ANY', event.location(name.span), "leave one of them out")
            seen.add(name.name)


def _mentioned_names(query: r.Resolved) -> set[str]:
    document = query.document
    given = document.values.get("return")
    written = [document.expression("where"), *(given.value.values() if given is not None else ())]
    names = {name for one in written if one is not None for name in variables(one.tree)}
    for node in primaries(query):
        if node.until is not None:
            names |= variables(node.until)
    _, apart = strategies(query)
    return names | {name.removesuffix("[]") for name in apart} | set(document.plain("after", "").split()[1:])


def variables(node: t.Expression) -> frozenset[str]:
    """The variables that an expression mentions."""
    return frozenset(one.variable for one in references(node))


def references(node: t.Expression) -> Iterator[t.Reference]:
    """What an expression speaks of."""
    return (part for part in parts(node) if isinstance(part, t.Reference))


def _contiguity_with_negation(query: r.Resolved) -> Iterator[Finding]:
    default, apart = strategies(query)
    event = query.document.expression("event")
    if not default.endswith("contiguity") or event is None:
        return
    for absence in r.absences(query.pattern):
        own = any((query.bindings[part.binding].variable or "") in apart for part in absence.parts)
        if not absence.at_start and not absence.at_end and not own:
            yield _warning(f"under {default} a negation in the middle always holds", event.location(absence.span), "leave the negation out")


def _reluctant_without_after(query: r.Resolved) -> Iterator[Finding]:
    event = query.document.expression("event")
    if event is None or query.document.plain("after", "no-skip") != "no-skip":
        return
    for leaf in r.leaves(query.pattern):
        if leaf.quantifier is not None and leaf.quantifier.reluctant:
            yield _warning(
                "reluctant only changes which match comes first, and without after: all are reported",
                event.location(leaf.quantifier.span),
                "leave the ? out, or choose a policy, for instance after: skip-past-last-event",
            )


def _waiting_after(query: r.Resolved) -> Iterator[Finding]:
    policy = query.document.plain("after", "no-skip")
    if policy not in ("no-skip", "skip-to-next"):
        yield _warning(
            f"{policy} holds a match back until every partial match that began earlier is finished or dead",
            query.document.location("after"),
        )


def _late_negation(query: r.Resolved) -> Iterator[Finding]:
    event, within = query.document.expression("event"), query.document.plain("within")
    if event is None or within is None or within.unit != "ms" or within.size < 3_600_000:
        return
    for absence in r.absences(query.pattern):
        if absence.at_end and absence.for_ms is None:
            yield _warning(
                f"matches are emitted {format_duration(within.size)} after their first event: a negation at the end waits for the window",
                event.location(absence.span),
            )


def _many_windows(query: r.Resolved) -> Iterator[Finding]:
    window = query.document.record("window")
    if "size" not in window or "slide" not in window:
        return
    size, slide = window["size"].value, window["slide"].value
    windows = -(-size.size // slide.size)
    if size.unit == slide.unit and windows >= MANY_WINDOWS:  # two units are an error, and no number of windows
        yield _warning(
            f"every event is in {windows:,} windows at once, and each of them is matched apart",
            query.document.location("window"),
            "let them slide further, or write within: if a match only has to be short",
        )


def _never_of_that_type(query: r.Resolved) -> Iterator[Finding]:
    """``a.type = 'B'`` where a can only be an A, and the like, are comparisons that never hold."""
    written = query.document.expression("where")
    if written is None:
        return
    for part in written.tree.operands if isinstance(written.tree, t.And) else (written.tree,):
        if (
            not isinstance(part, t.Comparison)
            or part.operator != "="
            or not isinstance(part.left, t.Reference)
            or not isinstance(part.right, t.Constant)
        ):
            continue
        binding = query.binding(part.left.variable)
        if part.left.path == "type" and binding is not None and part.right.value not in binding.types:
            yield _warning(
                f'"{part.left.variable}" is never of type "{part.right.value}"',
                written.location(part.span),
                f"its types are {', '.join(binding.types)}",
            )


def _beyond_the_end(query: r.Resolved) -> Iterator[Finding]:
    """An element that no match has makes every comparison with it true: ``p[3]`` of ``p{2}``."""
    written = query.document.expression("where")
    if written is None:
        return
    most: dict[int, float] = {}
    for leaf in r.leaves(query.pattern):
        alone = not query.bindings[leaf.binding].groups
        high = leaf.quantifier.high if leaf.quantifier is not None and alone else None
        most[leaf.binding] = max(most.get(leaf.binding, 0), math.inf if high is None else high * (leaf.count or 1))
    for node in references(written.tree):
        binding = query.binding(node.variable)
        if binding is None or node.index is None or node.index.anchor != "number" or node.index.number <= most.get(binding.index, math.inf):
            continue
        yield _warning(
            f'"{node.variable}" never has an element {node.index.number}: it binds at most {most[binding.index]:g} events, and comparisons with one that is not there hold',
            written.location(node.span),
            f"write an index up to {most[binding.index]:g}, or {node.variable}[last]",
        )


def _variable_in_brackets(query: r.Resolved) -> Iterator[Finding]:
    """``[o.id]`` asks for an attribute of that name."""
    written = query.document.expression("where")
    if written is None or any(schema.types for schema in query.vocabulary.schemas):  # where types are known, it is an error
        return
    for one in query.equivalence:
        variable, _, rest = one.attribute.partition(".")
        if rest and query.binding(variable) is not None:
            message = f'[{one.attribute}] is the attribute "{one.attribute}" of all events, and "{variable}" is a variable'
            yield _warning(message, written.location(one.span), f"write [{rest}]")


ABOUT_MISSING = (_no_partition, _equality_instead_of_equivalence, _unused)
RULES: tuple[Callable[[r.Resolved], Iterator[Finding]], ...] = (
    _unbounded,
    _no_partition,
    _equality_instead_of_equivalence,
    _unused,
    _repeated_types,
    _contiguity_with_negation,
    _reluctant_without_after,
    _waiting_after,
    _late_negation,
    _many_windows,
    _never_of_that_type,
    _beyond_the_end,
    _variable_in_brackets,
    no_such_symbol,
)
