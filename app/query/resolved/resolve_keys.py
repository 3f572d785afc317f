"""The keys beside ``event:``, ``where:`` and ``return:``: whether they fit the pattern and each other."""

from __future__ import annotations

from collections.abc import Callable

from app.errors import Finding
from app.query import expressions as e
from app.query.resolved import resolved as r
from app.query.resolved.resolve_expressions import Checker
from app.query.resolved.resolve_pattern import PatternResolver
from app.query.resolved.vocabulary import Vocabulary
from app.query.text import keys as k
from app.query.tree import tree as t
from app.query.tree.document import Document, Located, Written
from app.similar import did_you_mean


def _check_bounds(query: r.Resolved, findings: list[Finding]) -> None:
    document = query.document
    event = document.expression("event")
    assert event is not None  # noqa: S101 - there is no resolved query without
    window = document.has("window")
    if window and document.has("within"):
        findings.append(Finding("within and window exclude each other", document.location("window"), "leave one of them out"))
    bounded = window or document.has("within")
    for absence in r.absences(query.pattern):
        if absence.for_ms is not None and window:
            findings.append(Finding("FOR and window exclude each other", event.location(absence.span), "use within, or leave FOR out"))
        if bounded or absence.for_ms is not None:
            continue
        if absence.at_start or absence.at_end:
            place = "start" if absence.at_start else "end"
            hint = "write for instance within: 10 minutes" + (", or !(B b) FOR 10 s" if place == "end" else "")
            findings.append(Finding(f"a negation at the {place} needs within", event.location(absence.span), hint))


def _check_counting_in_partitions(query: r.Resolved, findings: list[Finding]) -> None:
    """Negated types without a partition attribute have no rank among the events of a partition."""
    per, event = query.document.record("window").get("per"), query.document.expression("event")
    within = query.document.values.get("within")
    if event is None:
        return
    counted = within is not None and getattr(within.value, "unit", "") == "events"
    joined = {one.negated for one in query.predicates if set(one.bindings) - {one.negated}}
    starts = {
        part.binding: absence
        for absence in r.absences(query.pattern)
        if absence.at_start
        for part in absence.parts
        if len(absence.parts) > 1 or part.binding in joined
    }
    for binding in query.bindings:
        for one in query.equivalence:
            lacking = query.vocabulary.lacking(binding.types, one.attribute)
            if not binding.negated or lacking is None:
                continue
            message = f'a negated {lacking[1].name} has no "{one.attribute}": it is in no partition, but '
            if per is not None:
                message += "windows are per partition"
                findings.append(Finding(message, event.location(binding.span), "leave per: partition out, or negate other types"))
            elif counted and binding.index in starts:
                asked = "which of several events it is" if len(starts[binding.index].parts) > 1 else "what other items say of it"
                message += f"how far the start reaches back is counted in events of the partition, and {asked} is asked as well"
                findings.append(Finding(message, event.location(binding.span), "write within: 10 minutes, or negate other types"))


def resolve_window(document: Document, vocabulary: Vocabulary, findings: list[Finding]) -> e.Expression | None:
    """Checks ``window:`` and resolves the condition of its opener."""
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
            findings.append(
                Finding(
                    "the slide is longer than the window: events between windows would be lost",
                    slide.node.location(),
                    "make slide at most size",
                )
            )
    if per is not None and (size is None or size.value.unit != "events"):
        findings.append(
            Finding("per: partition goes with count windows only", per.node.location(), "write size: 1000 events, or leave per out")
        )
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
    return Checker(written, vocabulary, {b.variable: b for b in resolver.bindings if b.variable is not None}, findings).condition(
        opener.where
    )


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
    absent = [leaf.binding for absence in r.absences(query.pattern) for leaf in absence.parts]
    for name, strategy in apart.items():
        key = node.key(name) if node is not None else None
        place = key.location() if key is not None else strategy.node.location()
        binding = query.binding(name.removesuffix("[]"))
        if binding is None:
            known = [b.variable for b in query.bindings if b.variable is not None]
            findings.append(Finding(f'unknown variable "{name}"', place, did_you_mean(name.removesuffix("[]"), known, "the pattern")))
        elif name.endswith("[]") and (binding.negated or not binding.closure):
            findings.append(Finding(f'"{binding.variable}" is no closure: it has no further events', place, f"write {binding.variable}"))
        elif binding.index in absent and not strategy.value.endswith("contiguity"):
            findings.append(
                Finding("a negated item can only have a contiguous strategy", place, "write strict-contiguity or partition-contiguity")
            )
        elif binding.index in absent and any(
            part.binding == binding.index and absence.at_start for absence in r.absences(query.pattern) for part in absence.parts
        ):
            findings.append(Finding("a contiguous negation stands behind a positive item", place, "leave it out, or move the negation"))


def _check_after(query: r.Resolved, findings: list[Finding]) -> None:
    policy = query.document.plain("after", "no-skip")
    if " " not in policy:
        return
    variable = policy.split()[1]
    binding = query.binding(variable)
    known = [b.variable for b in query.bindings if b.variable is not None and not b.negated]
    if binding is None:
        findings.append(
            Finding(f'unknown variable "{variable}"', query.document.location("after"), did_you_mean(variable, known, "the pattern"))
        )
    elif binding.negated:
        findings.append(
            Finding(
                f'"{variable}" is negated: there is no such event to skip to',
                query.document.location("after"),
                did_you_mean("", known, "the pattern"),
            )
        )


def _check_output(query: r.Resolved, findings: list[Finding]) -> None:
    key = query.document.record("output").get("key")
    names = [one.name for one in query.returns]
    if key is not None and key.value not in names:
        if query.returns_known:
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
        findings.append(
            Finding(
                f'"{shedder.value}" sheds tuples of temporal queries',
                shedder.node.location(),
                f"choose one of {', '.join((k.AUTO, *k.EVENT_SHEDDERS, *k.WINDOW_SHEDDERS, *k.MATCH_SHEDDERS))}",
            )
        )
    if "memory" in shedding:
        findings.append(Finding('"memory" belongs to temporal queries', shedding["memory"].node.location(), "leave it out"))


CHECKS: tuple[Callable[[r.Resolved, list[Finding]], None], ...] = (
    _check_bounds,
    _check_counting_in_partitions,
    _check_strategy,
    _check_after,
    _check_output,
    _check_emit,
    _check_shedding,
)
