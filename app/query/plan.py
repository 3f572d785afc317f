"""The plan of a query: all that engines, selection, pipeline and shedders need to know, as plain values.

Made by `app.query` from YAML; read by everyone above. A plan is data: engines turn it into integer and float arrays,
so deploying a query never compiles code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from app.events.types import Kind
from app.query.expressions import Constant, Expression

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

    An event is a *candidate* of the item if its type is among ``types``, all ``tests`` and all ``local`` conditions hold,
    and no equivalence attribute that it has is null (see `Plan.equivalence`).
    """

    index: int
    variable: str | None
    types: tuple[str, ...]
    negated: bool = False
    tests: tuple[ConstantTest, ...] = ()
    """A conjunction; evaluated by selection before the shuffle."""
    local: tuple[Expression, ...] = ()
    """Conditions on this event alone that are no `ConstantTest`; evaluated by the engine, vectorised, before the event enters a stack."""
    lacks: tuple[str, ...] = ()
    """Equivalence attributes that *some* type of this (negated) item does not have: such an event agrees with every value."""


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


@dataclass(frozen=True, slots=True)
class Output:
    """Where composite events go."""

    topic: str | None = None
    """None: the application's default, ``<prefix>.<query name>``."""
    key: str | None = None
    """A return field whose value becomes the record key; None: the partition key."""


@dataclass(frozen=True, slots=True)
class Shedding:
    """The query's shedder and its latency bound; see `shedding`."""

    shedder: str = "none"
    latency_bound_ms: int | None = None
    safety: float = 0.8
    max_drop_ratio: float = 0.95
    pane: Within | None = None
    allow_false_positives: bool = True
    memory_tuples: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A query, resolved against the schemas of its streams and ready to run.

    The ``stacks`` evaluator runs exactly: a SEQ of `Item` (positive and negated, in textual order), skip-till-any-match,
    ``within`` in ms or none. `app.query` refuses everything else at validation until an engine for it exists.
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
    evaluator: OneOf["stacks", "runs"] = "stacks"
    fingerprint: str = ""
    """Hash of everything that changes the meaning of state: equal fingerprint, state is reused. Includes name and version, not title or labels."""

    @property
    def positive(self) -> tuple[Item, ...]:
        """The items that a match binds, in textual order."""
        return tuple(item for item in self.items if not item.negated)


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """Queries of the same streams with the same partition attributes: one route, one shipment of each event, one bucket set."""

    number: int
    streams: tuple[str, ...]
    equivalence: tuple[str, ...]
    queries: tuple[int, ...]
    """Indices into `Catalog.plans`."""
    columns: tuple[str, ...]
    """Union of the columns of its queries, sorted."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All enabled queries, in order of name, and their groups."""

    version: int
    plans: tuple[Plan, ...]
    groups: tuple[QueryGroup, ...]

    @staticmethod
    def of(plans: tuple[Plan, ...], version: int = 1) -> Catalog:
        """Groups the plans; plans are sorted by name so that the catalog does not depend on file order."""
        ordered = tuple(sorted(plans, key=lambda plan: plan.name))
        members: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
        for number, plan in enumerate(ordered):
            members.setdefault((tuple(sorted(plan.streams)), tuple(sorted(plan.equivalence))), []).append(number)
        groups = tuple(
            QueryGroup(number, streams, equivalence, tuple(queries), tuple(sorted({c for q in queries for c in ordered[q].columns})))
            for number, ((streams, equivalence), queries) in enumerate(sorted(members.items()))
        )
        return Catalog(version, ordered, groups)
