"""The plan of a query: all that engines, selection, pipeline and shedders need to know, as plain values.

Made by `app.query` from YAML; read by everyone above. A plan is data: engines turn it into integer and float arrays, so deploying a query never compiles code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from app.events.types import Kind
from app.query.expressions import Constant, Expression

QUERY_STREAM = "query:"
"""What the names of streams begin with that are other queries' composite events."""
MAX_ITEMS = 64
"""Items per query: an event's candidate items travel as one 64-bit mask."""


@dataclass(frozen=True, slots=True)
class ConstantTest:
    """One attribute against constants: the form that selection (ASC) evaluates for all queries at once.

    An absent attribute makes it true, a null one false (only ``is null`` sees it); absent wins.
    ``values``: one constant for comparisons and ``like``, two for ``between`` (inclusive), any number for ``in``, none for ``is null``.
    """

    attribute: str
    kind: Kind
    operator: OneOf["=", "!=", "<", "<=", ">", ">=", "in", "not in", "between", "not between", "is null", "is not null", "like", "not like"]
    values: tuple[Constant, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One place of the pattern that an event can take (or, negated, must not).

    An event is a *candidate* of the item if its type is among ``types``, all ``tests``, one of ``either`` and all ``local`` conditions hold,
    and no equivalence attribute that it has is null (see `Plan.equivalence`).
    """

    index: int
    variable: str | None
    types: tuple[str, ...]
    """Empty: any type."""
    negated: bool = False
    tests: tuple[ConstantTest, ...] = ()
    """A conjunction; evaluated by selection before events travel."""
    local: tuple[Expression, ...] = ()
    """Conditions on this event alone that are no `ConstantTest`; evaluated by the engine, vectorised, before the event enters a stack."""
    lacks: tuple[str, ...] = ()
    """Equivalence attributes that *some* type of this (negated) item does not have: such an event agrees with every value."""
    binding: int = -1
    """What it binds: expressions speak of bindings. Items of one variable in several OR branches share one; -1: its own index."""
    asked: bool = False
    """No place that an event can take: events of these types are asked by an UNTIL (or open a window)."""
    either: tuple[tuple[ConstantTest, ...], ...] = ()
    """Conjunctions of which at least one must hold beside ``tests``: disjunctive conditions, split; evaluated by selection. Empty: nothing more."""

    @property
    def bound_to(self) -> int:
        """The binding that expressions call it by."""
        return self.index if self.binding < 0 else self.binding


@dataclass(frozen=True, slots=True)
class JoinPredicate:
    """A predicate over two or more items (at most one of them negated)."""

    condition: Expression
    items: tuple[int, ...]
    """Indices of the items mentioned, ascending."""
    negated_item: int | None = None


@dataclass(frozen=True, slots=True)
class ReturnField:
    """A field of the composite event. ``array`` fields (bare closure attributes) hold one value per element."""

    name: str
    expression: Expression
    kind: Kind
    array: bool = False


@dataclass(frozen=True, slots=True)
class Within:
    """``time(last) - time(first) < size`` in ms, or ranks when ``unit`` is events."""

    size: int
    unit: OneOf["ms", "events"] = "ms"


# --- patterns of the runs evaluator (queries/README.md) --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Take:
    """One item, ``low`` to ``high`` times (None: no end): a plain item is 1 to 1.

    ``different``: for ``ANY(n; ..)``, how many events make a block; they differ pairwise in ``by`` (None: in type).
    ``until``: stops the closure, asked of every event of item ``until_item``.
    """

    item: int
    low: int = 1
    high: int | None = 1
    reluctant: bool = False
    different: int = 0
    by: str | None = None
    until: Expression | None = None
    until_item: int = -1


@dataclass(frozen=True, slots=True)
class Absent:
    """A negation: not all of these (negated) items by different events. ``for_ms``: how long after the last event, at the end."""

    items: tuple[int, ...]
    for_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Ordered:
    """``SEQ``: one after the other."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Every:
    """``AND``: all, in any order, interleaved."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """``OR``: one of them; the first in the text where they bind the same events."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A group, ``low`` to ``high`` times."""

    part: Pattern
    low: int
    high: int | None
    reluctant: bool = False


Pattern = Take | Absent | Ordered | Every | Either | Repeated

Ranks = OneOf["none", "partition", "stream"]
Strategy = OneOf["skip-till-any-match", "skip-till-next-match", "strict-contiguity", "partition-contiguity"]


@dataclass(frozen=True, slots=True)
class Ways:
    """Selection strategies of a binding: of the way to its first event, and to every further one."""

    first: Strategy = "skip-till-any-match"
    further: Strategy = "skip-till-any-match"


@dataclass(frozen=True, slots=True)
class ExplicitWindow:
    """``window:``. ``slide`` None: windows that events of item ``opener`` (an asked item) open."""

    size: int
    unit: OneOf["ms", "events"]
    slide: int | None
    opener: int = -1
    per_partition: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """What stops a runaway query (queries/README.md, *A query that explodes*)."""

    matches_per_event: int = 100_000
    partial_matches_per_partition: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Runs:
    """What the runs evaluator needs beside the items: the pattern whole.

    ``joins`` of the plan hold every predicate that is not decided by one event alone; their ``items`` are bindings.
    """

    pattern: Pattern
    ways: tuple[Ways, ...]
    """By binding; for negated ones ``first`` is contiguous where only the very next event is asked."""
    max_gap_ms: int | None = None
    window: ExplicitWindow | None = None
    after: OneOf["no-skip", "skip-past-last-event", "skip-to-next", "skip-to-first", "skip-to-last"] = "no-skip"
    after_binding: int = -1
    longest: bool = False
    limits: Limits = Limits()


# --- temporal queries (queries/README.md, *Values that last*) ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """``window: {range: .., slide: ..}``: evaluated at every multiple of the slide (ms), or after every slide-th tuple."""

    range: int
    slide: int
    unit: OneOf["ms", "events"] = "ms"


@dataclass(frozen=True, slots=True)
class IntervalTest:
    """``valid:``. Comparisons have a length in ms, the other tests an interval ``[start_ms, end_ms)``."""

    operator: OneOf["<", "<=", ">", ">=", "OVERLAPS", "CONTAINS", "DURING"]
    length_ms: int = 0
    start_ms: int = 0
    end_ms: int = 0


@dataclass(frozen=True, slots=True)
class Temporal:
    """What the coalesce evaluator needs beside the plan's only item, whose local conditions are the query's ``where``."""

    select: tuple[str, ...]
    """Attributes whose values make tuples equivalent; perhaps ``type`` or ``time``."""
    key: tuple[str, ...]
    """Attributes that separate the streams of tuples; a null one is a value like any other."""
    duration_ms: int | None
    """How long a tuple is valid; None: until the next one of its key."""
    max_gap_ms: int
    window: SlidingWindow
    valid: IntervalTest | None = None
    emit: OneOf["changes", "all"] = "changes"


@dataclass(frozen=True, slots=True)
class Output:
    """Where composite events go."""

    topic: str | None = None
    """None: the application's default, ``<prefix>.<query name>``."""
    key: str | None = None
    """A return field whose value becomes the record key; None: the partition key."""
    hold_for_verdict: bool = False
    """Composite events that shedding is known to have made up are not written, nor read by other queries."""


@dataclass(frozen=True, slots=True)
class Shedding:
    """The query's shedder and its latency bound; see `shedding`."""

    shedder: str = "none"
    latency_bound_ms: int | None = None
    safety: float = 0.8
    max_drop_ratio: float = 0.99
    pane: Within | None = None
    allow_false_positives: bool = True
    memory_tuples: int | None = None
    """Of temporal queries: tuples kept per key; None: all."""
    catch_up: OneOf["shed", "complete"] | None = None
    """After an outage: the bound for new events first, or completeness; None: as the settings say."""
    state_bytes: int | None = None
    """``limits.state_bytes``: beyond, partial matches are ended; None: no limit. It stands here because what is dropped decides nothing about what state means."""

    @property
    def bounds_memory(self) -> bool:
        """Whether a shedder says which tuples stay in memory."""
        return self.memory_tuples is not None and self.shedder != "none"


@dataclass(frozen=True, slots=True)
class Draining:
    """An old version of a changed query goes on for what began before the change (``on_change: drain``)."""

    until_ms: int | None = None
    """When time has passed this, nothing of it can still become a match; None: not known yet."""
    last: int = 0
    """Generation of the catalog in which it was the running version last; 0: an older version of the application did not note it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A query, resolved against the schemas of its streams and ready to run.

    The ``stacks`` evaluator runs a SEQ of `Item` (positive and negated, in textual order), skip-till-any-match, ``within`` in ms or none.
    Everything else has ``runs`` and goes to the runs evaluator (or what stands in for it, `app.cep.door.way_of`); items are then the leaves of its pattern, in textual order.
    """

    name: str
    version: int
    title: str
    labels: tuple[tuple[str, str], ...]
    weight: float
    streams: tuple[str, ...]
    items: tuple[Item, ...]
    equivalence: tuple[str, ...]
    """Attributes of ``[attr]``: equal in all events of a match; the engine partitions by them. An event with a null one matches and prevents nothing."""
    joins: tuple[JoinPredicate, ...]
    within: Within | None
    returns: tuple[ReturnField, ...]
    columns: tuple[str, ...]
    """Attributes that must travel to the engine (equivalence, local, joins, returns), sorted; without ``time`` and ``type``."""
    on_timeout: OneOf["drop", "emit"] = "drop"
    output: Output = Output()
    shedding: Shedding = Shedding()
    evaluator: OneOf["stacks", "runs", "coalesce"] = "stacks"
    runs: Runs | None = None
    """None: a plain sequence, which both evaluators can run."""
    temporal: Temporal | None = None
    """Of temporal queries: one item, evaluator coalesce."""
    ranks: Ranks = "none"
    """Which events the engine must see beside candidates, because it counts them (contiguity, windows and ``within`` in events): none; all that are in a partition; all on-time events of the streams, in total order and in one place."""
    apart: bool = False
    """Whether the alternatives of its pattern may be matched apart: the query does not say how it is to be run (``evaluator:``, ``limits:``)."""
    floats: tuple[str, ...] = ()
    """Of the columns, those that are floats in one of its streams and integers in another, and float attributes that partition it: engines take them for floats before any event has shown it."""
    draining: Draining | None = None
    """Of old versions; the running one has the same name and another fingerprint."""
    fingerprint: str = ""
    """Hash of everything that changes the meaning of state: equal fingerprint, state is reused. Includes name and version, not title or labels."""

    @property
    def positive(self) -> tuple[Item, ...]:
        """The items that a match binds, in textual order."""
        return tuple(item for item in self.items if not item.negated and not item.asked)

    @property
    def staying(self) -> int:
        """Items, as bits, of which no event may be dropped: negated ones, where the query allows no false positives."""
        return 0 if self.shedding.allow_false_positives else sum(1 << item.index for item in self.items if item.negated)

    @property
    def pattern(self) -> Pattern:
        """The pattern, whichever evaluator runs it; that of the stacks evaluator is the sequence of its items."""
        if self.runs is not None:
            return self.runs.pattern
        return Ordered(tuple(Absent((item.index,)) if item.negated else Take(item.index) for item in self.items))


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """Queries of the same streams with the same partition attributes (and `Plan.ranks`; temporal ones apart): one route, one shipment of each event, one bucket set."""

    number: int
    streams: tuple[str, ...]
    equivalence: tuple[str, ...]
    queries: tuple[int, ...]
    """Indices into `Catalog.plans`."""
    columns: tuple[str, ...]
    """Union of the columns of its queries, sorted."""
    ranks: Ranks = "none"
    """See `Plan.ranks`; ``stream``: all events of the streams go to one bucket, whatever their key."""
    temporal: bool = False
    """Whether the queries are temporal: to them a null key is a key like any other, and they wait for the watermark even in trusted order."""
    composed: bool = False
    """Whether the queries read, or are read by, other queries: these are all in one place, so that composite events need no way there."""
    floats: tuple[str, ...] = ()
    """Of ``equivalence``, what is a float to the queries' engines (`Plan.floats`), whatever an event's own stream has."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All enabled queries, in order of name, and their groups."""

    version: int
    plans: tuple[Plan, ...]
    groups: tuple[QueryGroup, ...]
    sample: float = 0.0
    """Share of the partitions that tell, in turns, what shedding costs: all that comes to them is matched once more (`app.bucket.beside`)."""
    audit_bytes: int = 16 << 20
    """Of events that verdicts are given by, per bucket and group (`app.audit.memory`)."""

    @property
    def current(self) -> tuple[Plan, ...]:
        """The plans without old versions that only finish what they began; their names differ."""
        return tuple(plan for plan in self.plans if plan.draining is None)

    @staticmethod
    def of(plans: tuple[Plan, ...], version: int = 1) -> Catalog:
        """Groups the plans; plans are sorted by name so that the catalog does not depend on file order."""
        ordered = tuple(sorted(plans, key=lambda plan: (plan.name, plan.draining is not None, plan.fingerprint)))
        members: dict[tuple[tuple[str, ...], tuple[str, ...], Ranks, bool, bool], list[int]] = {}
        read = {stream for plan in plans for stream in plan.streams}
        for number, plan in enumerate(ordered):
            composed = f"{QUERY_STREAM}{plan.name}" in read or any(stream.startswith(QUERY_STREAM) for stream in plan.streams)
            key = (tuple(sorted(plan.streams)), tuple(sorted(plan.equivalence)), plan.ranks, plan.temporal is not None, composed)
            members.setdefault(key, []).append(number)
        columns = {key: tuple(sorted({c for q in own for c in ordered[q].columns})) for key, own in members.items()}
        floats = {key: tuple(sorted({c for q in own for c in ordered[q].floats} & set(key[1]))) for key, own in members.items()}
        pairs = enumerate(sorted(members.items()))
        groups = (QueryGroup(n, key[0], key[1], tuple(own), columns[key], *key[2:], floats=floats[key]) for n, (key, own) in pairs)
        return Catalog(version, ordered, tuple(groups))
