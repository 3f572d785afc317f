"""Which plans of runs are *chains*: item after item, only the last one so often as comes, and no strategy that leaves a choice.

One item may come behind that (`Closing`), where no event can be both. A partial match of a chain can go on in one way only, so it never splits: an
event lengthens it, passes it, or (contiguity) ends it. What predicates ask of its events are values of single ones, known when they are bound.
`app.cep.chains` runs such plans; all others need a tree of bound events and states of what is left (`app.cep.runs`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.events.types import Kind
from app.query import expressions as e
from app.query.plan import MAX_ITEMS, Absent, Either, Every, Limits, Ordered, Plan, Repeated, Runs, Take
from app.query.planning.chain_values import (
    CLOSING,
    Event,
    Field,
    Spans,
    Test,
    Value,
    closed_field,
    closing_test,
    field_of,
    tests_of,
)
from app.query.planning.obstacle import Obstacle
from app.query.text.keys import MATCH_SHEDDERS

MOST_REPETITIONS = 64
"""Counted repetitions take a row of the tables each."""
MOST_TESTS = 31
"""A test may need a register of every partial match; the states of registers are one word."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A negated event that may not come while the ``before``-th event is awaited: nothing comes of a partial match that meets one.

    Attributes:
        item: index into `Plan.items`.
        before: a place; its tests speak of the negated event as of the one there.
        tests: what it must pass.
    """

    item: int
    before: int
    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """What of ``after:`` and ``emit:`` a chain has to know. The matches of one partial match are beginnings of each other.

    Attributes:
        once: one of them is reported at most: what begins no later than a reported one ends is skipped, and so are its own longer matches.
        longest: the longest of them is.
        border: the event of a reported match up to which no further match may begin; None: all may.
        itself: whether at that event none may, either.
    """

    once: bool = False
    longest: bool = False
    border: Event | None = None
    itself: bool = True


@dataclass(frozen=True, slots=True)
class Closing:
    """An item behind the one that is bound so often as comes: its event ends the closure and the match, and no event can be both.

    Attributes:
        item: index into `Plan.items`.
        tests: predicates that it decides.
    """

    item: int
    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """What the pattern of such a plan is.

    Attributes:
        items: indices into `Plan.items`, in order; one that binds so many events stands there so often.
        low, high: how often the last one is bound (high None: without end).
        tests: predicates between events.
        fields: of `Plan.returns`.
        policy: which matches of a partial match are reported.
        kills: negations between its items, and behind the last one.
        timeouts: whether partial matches that run out of window are told.
        starts: indices into `Plan.items` of those that no event may be shortly before a match: in the time, or of the events, of ``within``.
        waits: whether it waits behind its last event until nothing can prevent it any more.
        wait_ms: how long; None: until its window is over.
        closing: what comes behind the last one of the items.
    """

    items: tuple[int, ...]
    low: int
    high: int | None
    tests: tuple[Test, ...]
    fields: tuple[Field, ...]
    policy: Policy
    kills: tuple[Kill, ...] = ()
    timeouts: bool = False
    starts: tuple[int, ...] = ()
    waits: bool = False
    wait_ms: int | None = None
    closing: Closing | None = None


def chain_of(plan: Plan) -> Chain | None:
    """The chain that a plan of runs is, or None."""
    if plan.runs is None or any(_unfit(plan, plan.runs)):
        return None
    try:
        return _chain(plan, plan.runs)
    except Obstacle:
        return None


def obstacles(plan: Plan) -> list[str]:
    """What keeps a plan of runs from being a chain, in words: keys, and the first thing in its pattern, predicates and return fields."""
    if plan.runs is None:
        return ["no pattern for the runs evaluator"]
    found = list(_unfit(plan, plan.runs))
    try:
        _chain(plan, plan.runs)
    except Obstacle as one:
        found.append(str(one))
    return found


def _chain(plan: Plan, runs: Runs) -> Chain:
    takes, absent = _takes(runs)
    closing = takes[-1] if len(takes) > 1 and _count(takes[-2]) is None else None
    if closing is not None:
        takes = takes[:-1]
        _check_closing(plan, runs, takes[-1], closing)
        if any(before >= len(takes) for _, before in absent):
            raise Obstacle("a negation behind a quantifier that leaves open how often")
    last = takes[-1]
    # as often as it may come the last one stands once
    counts = [_count(take) or 1 for take in takes]
    if _count(last) is not None and not last.different:
        counts[-1] = 1
    items = tuple(take.item for take, count in zip(takes, counts, strict=True) for _ in range(count))
    bindings = [plan.items[take.item].bound_to for take in takes]
    begins = [sum(counts[:k]) for k in range(len(counts) + 1)]
    closure = (last.low, last.high) != (1, 1)
    ways = [runs.ways[binding].first for binding in bindings[1:]]
    ways += [runs.ways[binding].further for k, binding in enumerate(bindings) if counts[k] > 1 or (closure and k == len(takes) - 1)]
    if "skip-till-any-match" in ways:
        raise Obstacle("skip-till-any-match")
    places = dict(zip(bindings, begins, strict=False))
    repeated = {binding: count for binding, take, count in zip(bindings, takes, counts, strict=True) if count > 1 or take.different}
    spans = Spans(places, repeated, len(items), plan.on_timeout == "emit")
    timeouts = plan.on_timeout == "emit"
    if timeouts and set(ways) - {"skip-till-next-match"}:
        raise Obstacle("on_timeout: emit beside contiguity")
    if absent and runs.limits != Limits():
        raise Obstacle("limits: beside a negation")
    starts = tuple(_start(plan, runs, one.items[0]) for one, before in absent if not before)
    ends = [one for one, before in absent if before == len(takes)]
    if ends:
        _check_ends(plan, runs, last, ends)
    kills = tuple(_kill(plan, runs, spans, one.items[0], begins[before]) for one, before in absent if before)
    asked = [join.condition for join in plan.joins if join.negated_item is None]
    closed = -1 if closing is None else plan.items[closing.item].bound_to
    closings = [closing_test(one, spans, closed) for one in asked if closed in e.mentioned_items(one)]
    tests = [test for one in asked if closed not in e.mentioned_items(one) for test in tests_of(one, spans)]
    if closing is not None and any(test.ending for test in tests):
        raise Obstacle("a predicate that waits for a closure's last event, with an item behind it")
    tests += [test for take in takes if take.different for test in _differing(take, plan, spans)]
    if len(tests) + len(closings) + sum(len(kill.tests) for kill in kills) > MOST_TESTS:
        raise Obstacle(f"more than {MOST_TESTS} predicates")
    known = spans if closing is None else replace(spans, places=spans.places | {closed: CLOSING})
    fields = tuple(field_of(field, known, bindings[-1]) for field in plan.returns)
    policy = _policy(runs, known, closure=closure)
    often = (1, 1) if last.different else (last.low, last.high)
    chain = Chain(items, *often, tuple(tests), fields, policy, kills, timeouts, starts, bool(ends), ends[0].for_ms if ends else None)
    if closing is None:
        return chain
    if policy.border is not None and (policy.border != Event(-1) or not policy.itself):  # the last event is the closing one
        raise Obstacle("after: an item of a pattern with a quantifier before the last item")
    return replace(chain, fields=tuple(closed_field(field, spans) for field in fields), closing=Closing(closing.item, tuple(closings)))


def _check_closing(plan: Plan, runs: Runs, last: Take, closing: Take) -> None:
    """Whether a partial match behind a closure that stays open has one way to go on with every event."""
    item, behind = plan.items[last.item], plan.items[closing.item]
    if not item.types or not behind.types or set(item.types) & set(behind.types):
        raise Obstacle("a quantifier before the last item that leaves open how often, where an event may be both")
    if (closing.low, closing.high) != (1, 1) or closing.different:
        raise Obstacle("a quantifier before a last item that is repeated")
    if runs.ways[item.bound_to].further != runs.ways[behind.bound_to].first:
        raise Obstacle("a quantifier before a last item with another strategy")
    if plan.on_timeout == "emit":
        raise Obstacle("on_timeout: emit beside a quantifier before the last item")


def _start(plan: Plan, runs: Runs, item: int) -> int:
    """A negation in front of all items, if its newest event alone decides."""
    own = plan.items[item]
    if own.lacks:
        raise Obstacle("a negation of events without the key")
    if any(join.negated_item == own.bound_to for join in plan.joins):
        raise Obstacle("a negation at the start that is compared with other items")
    if runs.window is not None:
        raise Obstacle("a negation at the start or the end in windows")
    return item


def _check_ends(plan: Plan, runs: Runs, last: Take, ends: list[Absent]) -> None:
    """Whether a partial match can wait in its place for what may not come behind it: it must be the only match that it is."""
    if (last.low, last.high) != (1, 1):
        raise Obstacle("a negation behind a repeated item")
    if runs.window is not None:
        raise Obstacle("a negation at the start or the end in windows")
    if plan.within is not None and plan.within.unit == "events" and any(one.for_ms is not None for one in ends):
        raise Obstacle("FOR beside within in events")
    if plan.on_timeout == "emit" or runs.after != "no-skip" or runs.longest:
        raise Obstacle("a negation at the end beside on_timeout: emit, after: or emit: longest")
    if len({one.for_ms for one in ends}) > 1:
        raise Obstacle("negations at the end of different lengths")
    if len(plan.items) >= MAX_ITEMS:
        raise Obstacle("a negation at the end of that many items")


def _count(take: Take) -> int | None:
    """How many events an item binds, if that is known."""
    if take.different:
        return take.different if (take.low, take.high) == (1, 1) else None
    return take.low if take.low == take.high else None


def _differing(take: Take, plan: Plan, spans: Spans) -> Iterator[Test]:
    """The events of a block differ pairwise: one that has no such attribute from all, one whose attribute is null from none, as comparisons have it."""
    place = spans.places[plan.items[take.item].bound_to]
    one = e.AttributeOf(Kind.STRING, 0, take.by or "type")  # whatever its kind: columns tell
    for k in range(take.different):
        yield from (Test("!=", Value(one, (Event(place + k),)), Value(one, (Event(place + j),))) for j in range(k))


def _kill(plan: Plan, runs: Runs, spans: Spans, item: int, before: int) -> Kill:
    """A negation in front of the ``before``-th item, if the partial match knows at once what it needs to decide it."""
    own = plan.items[item]
    if own.lacks:
        raise Obstacle("a negation of events without the key")
    if runs.ways[own.bound_to].first in ("strict-contiguity", "partition-contiguity"):
        raise Obstacle("a negation with a contiguous strategy")
    known = {binding: place for binding, place in spans.places.items() if place < before} | {own.bound_to: before}
    conditions = [join.condition for join in plan.joins if join.negated_item == own.bound_to]
    if any(item not in known for condition in conditions for item in e.mentioned_items(condition)):
        raise Obstacle("a negation that reads an event behind it")
    if any(own.bound_to not in e.mentioned_items(condition) for condition in conditions):
        raise Obstacle("a negation whose predicate speaks of other events only")
    asked = replace(spans, places=known, all=before + 1)
    return Kill(item, before, tuple(test for condition in conditions for test in tests_of(condition, asked)))


def _policy(runs: Runs, spans: Spans, *, closure: bool) -> Policy:
    """The policy; where one match of a partial match may leave room for another one the chain does not know it."""
    if runs.after in ("no-skip", "skip-to-next"):
        return Policy(runs.longest or runs.after == "skip-to-next", runs.longest)
    if runs.after == "skip-past-last-event":
        return Policy(once=True, longest=runs.longest, border=Event(-1))
    place = spans.places[runs.after_binding]
    if place == 0:
        raise Obstacle(f"after: {runs.after} of the first item")
    last = runs.after == "skip-to-last" and closure and place == spans.all - 1
    if runs.after == "skip-to-last":
        place += spans.counts.get(runs.after_binding, 1) - 1
    return Policy(once=True, longest=runs.longest, border=Event(-1 if last else place), itself=False)


def _unfit(plan: Plan, runs: Runs) -> Iterator[str]:
    if plan.within is not None and plan.within.unit == "events" and runs.limits != Limits():
        yield "within in events beside limits:"
    plain = runs.after == "no-skip" and not runs.longest
    if runs.window is not None and (runs.window.slide is None or runs.window.per_partition):
        yield "window: opened by events, or of events of a partition"
    if runs.window is not None and not plain:
        yield "window: beside after: or emit: longest"
    if runs.limits != Limits() and not plain:
        yield "limits: beside after: or emit: longest"
    if len(plan.joins) > MOST_TESTS:
        yield f"more than {MOST_TESTS} predicates"
    if plan.on_timeout == "emit" and not (plain and runs.window is None):
        yield "on_timeout: emit beside window:, after: or emit: longest"
    if plan.shedding.shedder in MATCH_SHEDDERS:
        yield f"the shedder {plan.shedding.shedder}"
    if plan.shedding.state_bytes is not None:
        yield "limits: state_bytes"


def _takes(runs: Runs) -> tuple[tuple[Take, ...], list[tuple[Absent, int]]]:
    """The items in order, and the negations with the number of items in front."""
    parts = runs.pattern.parts if isinstance(runs.pattern, Ordered) else (runs.pattern,)
    names = {
        Absent: "a negation of several items",
        Either: "OR",
        Every: "AND",
        Repeated: "a repeated group",
        Ordered: "a SEQ inside the pattern",
    }
    takes: list[Take] = []
    absent: list[tuple[Absent, int]] = []
    for part in parts:
        if isinstance(part, Absent) and len(part.items) == 1:
            absent.append((part, len(takes)))
            continue
        if not isinstance(part, Take):
            raise Obstacle(names[type(part)])
        if part.until is not None or (part.different and _count(part) is None):
            raise Obstacle("UNTIL" if part.until is not None else "ANY(n; ..) with a quantifier")
        takes.append(part)
    often = [_count(take) for take in takes]
    if not takes or any((count or 0) < 1 for count in often[:-2]) or 0 in often[:-1]:
        raise Obstacle("a quantifier before the last item that leaves open how often")
    last = takes[-1] if None not in often[:-1] else takes[-2]
    if max((_count(take) or 1 for take in takes), default=0) > MOST_REPETITIONS:
        raise Obstacle(f"an item counted beyond {MOST_REPETITIONS}")
    if last.low < 1 or last.high == 0 or max(last.low, last.high or 0) > MOST_REPETITIONS:
        raise Obstacle(f"a last item that may be left out, or is counted beyond {MOST_REPETITIONS}")
    return tuple(takes), absent
