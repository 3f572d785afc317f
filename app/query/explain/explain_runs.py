"""Plans of the runs evaluator in words: why it is needed, the pattern, strategies, windows, what is reported and when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from app.config.durations import format_duration
from app.query.compile import Compiled
from app.query.plan import QUERY_STREAM, Absent, Either, Every, Item, Ordered, Pattern, Plan, Repeated, Runs, Take, Within
from app.query.planning import alternatives, chains
from app.query.resolved import resolved as r
from app.query.resolved.features import quantifier_text, runs_features
from app.query.tree import tree as t
from app.query.tree.printer import print_type

ANY_MATCH = "skip-till-any-match"


def name_of(item: Item) -> str:
    """What an item is called: its variable; of anonymous ones the number."""
    return item.variable or f"#{item.index}"


def binding_names(plan: Plan) -> dict[int, str]:
    """By binding, what expressions call it."""
    names: dict[int, str] = {}
    for item in plan.items:
        if not item.asked:
            names.setdefault(item.bound_to, name_of(item))
    return names


opener_names: Mapping[int, str] = defaultdict(lambda: "it")
"""Conditions of a window's opener speak of one event that the pattern does not name."""


def opens(item: Item) -> bool:
    """Whether events of an item open windows."""
    return item.asked and item.binding < 0


def asked_text(item: Item, names: Mapping[int, str]) -> str:
    """What an item that no event takes is asked for."""
    if not item.asked:
        return ""
    return " (opens a window)" if opens(item) else f" (asked by the UNTIL of {names[item.binding]})"


def pruning_text(plan: Plan) -> str:
    """What selection can tell items by before events are shipped: types, and constants of one attribute; empty where it cannot."""
    attributes: dict[str, list[str]] = {"type": [name_of(item) for item in plan.items if item.types]}
    for item in plan.items:
        for test in (test for one in (item.tests, *item.either) for test in one):
            attributes.setdefault(test.attribute, []).append(name_of(item))
    return "; ".join(f"{attribute}: {', '.join(dict.fromkeys(names))}" for attribute, names in attributes.items() if names)


def types_text(item: Item) -> str:
    """The types of an item."""
    return "/".join(map(print_type, item.types)) or "any type"


def why_text(query: Compiled) -> str:
    """Why this evaluator runs the query."""
    if not isinstance(query.resolved, r.Resolved):
        return "a temporal query"
    found = list(dict.fromkeys(runs_features(query.resolved)))
    if found:
        return f"needed for {', '.join(found)}"
    plan = query.plan
    if plan is not None and plan.evaluator == "runs":
        return "the query says evaluator: runs; stacks could run it, too"
    return "a plain sequence under skip-till-any-match"


def routing_text(query: Compiled, plan: Plan) -> str:
    """Where events go: which of them meet in one place."""
    key = ", ".join(plan.equivalence)
    read = [stream.removeprefix(QUERY_STREAM) for stream in plan.streams if stream.startswith(QUERY_STREAM)]
    together = [f"reads {', '.join(read)}"] * bool(read) + [f"read by {', '.join(query.read_by)}"] * bool(query.read_by)
    within = f"{key}, inside one bucket" if key else "none: one bucket, does not scale out"
    if together:
        return f"{within}; with the queries that share it ({', '.join(together)})"
    if plan.ranks == "stream":
        return f"{within}; every on-time event of the streams is counted, so all go there, in total order"
    if not key:
        return within
    return f"hash of {key}" + ("; every event of a partition is shipped, because it is counted" if plan.ranks == "partition" else "")


def pattern_text(pattern: Pattern, plan: Plan) -> str:
    """The pattern by the names of its items."""
    match pattern:
        case Take():
            item = plan.items[pattern.item]
            name = name_of(item)
            if pattern.different:
                by = f" by {pattern.by}" if pattern.by is not None else ""
                name = f"ANY({pattern.different}; {types_text(item)}{by}) {name}"
            quantifier = "" if (pattern.low, pattern.high) == (1, 1) else _quantifier(pattern)
            return name + quantifier + (" UNTIL (..)" if pattern.until is not None else "")
        case Absent(items, for_ms):
            names = ", ".join(name_of(plan.items[item]) for item in items)
            inner = names if len(items) == 1 else f"AND({names})"
            return f"!{inner}" + (f" FOR {format_duration(for_ms)}" if for_ms is not None else "")
        case Repeated(part):
            return f"({pattern_text(part, plan)}){_quantifier(pattern)}"
    word = {Ordered: "SEQ", Every: "AND", Either: "OR"}[type(pattern)]
    return f"{word}({', '.join(pattern_text(part, plan) for part in pattern.parts)})"


def _quantifier(pattern: Take | Repeated) -> str:
    return quantifier_text(t.Quantifier(pattern.low, pattern.high, reluctant=pattern.reluctant))


def runs_lines(plan: Plan, runs: Runs) -> Iterator[str]:
    """What a plan of runs says beside its items and predicates, line by line."""
    yield f"pattern: {pattern_text(runs.pattern, plan)}"
    yield f"strategy: {', '.join(_strategies(plan, runs))}"
    yield from _window_lines(plan, runs)
    if runs.longest:
        yield "reported: of each run only its longest match, when the run ends or its window closes"
    if runs.after != "no-skip":
        yield f"after a match: {_after(plan, runs)}"
    if plan.on_timeout == "emit":
        yield "timeouts: partial matches are written when their window closes"
    limits = runs.limits
    if not alternatives.runs_apart(plan):
        yield (
            f"limits: {limits.matches_per_event:,} matches per event, {limits.partial_matches_per_partition:,} partial matches per partition; "
            "what is beyond is not made, and told"
        )
    if plan.shedding.state_bytes is not None:
        yield f"state: {plan.shedding.state_bytes:,} bytes; partial matches of least worth are ended beyond (in the application)"
    yield f"events seen: {_seen(plan, runs)}"
    yield f"partial matches: {_kept(plan)}"


def _strategies(plan: Plan, runs: Runs) -> Iterator[str]:
    """The strategy of most ways, then the others by variable."""
    positive = list(dict.fromkeys(item.bound_to for item in plan.items if not item.negated and not item.asked))
    ways = [way for binding in positive for way in (runs.ways[binding].first, runs.ways[binding].further)]
    default = max(dict.fromkeys(ways), key=ways.count)
    yield default
    names = binding_names(plan)
    for binding, name in names.items():
        if binding >= len(runs.ways):
            continue
        own = runs.ways[binding]
        if binding not in positive:
            if own.first != ANY_MATCH:
                yield f"{name} {own.first}"
            continue
        if own.first != default:
            yield f"{name} {own.first}"
        if own.further != default:
            yield f"{name}[] {own.further}"


def _window_lines(plan: Plan, runs: Runs) -> Iterator[str]:
    window = runs.window
    if window is not None:
        size = _size(Within(window.size, window.unit))
        if window.slide is None:
            yield f"window: {size}, opened by every {types_text(plan.items[window.opener])} that fits item {window.opener}"
        else:
            where = "partition" if window.per_partition else "input"
            steps = f"every {_size(Within(window.slide, window.unit))}"
            yield f"window: {size} {steps}" + (f", counted in the {where}" if window.unit == "events" else " since the epoch")
    if runs.max_gap_ms is not None:
        yield f"gap: neighbouring events of a match lie less than {format_duration(runs.max_gap_ms)} apart"


def _size(size: Within) -> str:
    return format_duration(size.size) if size.unit == "ms" else f"{size.size} events"


def _after(plan: Plan, runs: Runs) -> str:
    name = f" {binding_names(plan)[runs.after_binding]}" if runs.after_binding >= 0 else ""
    if runs.after == "skip-to-next":
        return f"{runs.after}; no delay"
    longest = plan.within or (None if runs.window is None else Within(runs.window.size, runs.window.unit))
    delay = "for as long as such a partial match lives" if longest is None else f"at most {_size(longest)}"
    return f"{runs.after}{name}; a match waits until every partial match that began earlier is finished or dead ({delay})"


def _kept(plan: Plan) -> str:
    """Which of the engines keeps them, or why none is kept."""
    if alternatives.runs_apart(plan):
        sequences = (tuple(plan.items[item] for item in one.items) for one in alternatives.alternatives_of(plan) or ())
        patterns = (Ordered(tuple(Absent((item.index,)) if item.negated else Take(item.index) for item in own)) for own in sequences)
        return f"none; its alternatives are matched apart, over active instance stacks: {' or '.join(pattern_text(one, plan) for one in patterns)}"
    why = ", ".join(chains.obstacles(plan))
    if not why:
        return "each one row, lengthened in place (a chain: there is one way to go on)"
    together = (
        f"; its alternatives are not matched apart, because of {', '.join(alternatives.obstacles(plan))}" if _has_or(plan.pattern) else ""
    )
    return f"a tree of bound events, because of {why}{together}"


def _has_or(pattern: Pattern) -> bool:
    if isinstance(pattern, Take | Absent):
        return False
    return isinstance(pattern, Either) or any(map(_has_or, (pattern.part,) if isinstance(pattern, Repeated) else pattern.parts))


def _seen(plan: Plan, runs: Runs) -> str:
    """Why events that are no candidates must be seen."""
    window = runs.window
    contiguous = sorted({way for own in runs.ways for way in (own.first, own.further) if way.endswith("contiguity")})
    counting = [f"{way} asks for neighbours" for way in contiguous]
    if plan.within is not None and plan.within.unit == "events":
        counting.append("within counts events")
    if window is not None and window.unit == "events":
        counting.append("the window counts events")
    elif window is not None and window.slide is None:
        counting.append("an event of any partition opens a window")
    why = ", ".join(counting)
    if plan.ranks == "stream":
        return f"all on-time events of the streams, in one place ({why})"
    if plan.ranks == "partition":
        return f"all events of a partition ({why})"
    return "candidates only; all others stop at selection"
