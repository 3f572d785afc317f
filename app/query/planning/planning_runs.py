"""Resolved query → plan for the runs evaluator: the pattern as a tree of items, and predicates where one event alone decides them.

Items are the leaves of the pattern in textual order (negated ones too), then what is asked but never bound: the events of UNTILs and of a
window's opener.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from app.query import expressions as e
from app.query.plan import (
    Absent,
    ConstantTest,
    Either,
    Every,
    ExplicitWindow,
    Item,
    JoinPredicate,
    Limits,
    Ordered,
    Pattern,
    Ranks,
    Repeated,
    Runs,
    Strategy,
    Take,
    Ways,
    Within,
)
from app.query.planning.constant_tests import ItemConditions
from app.query.planning.occurring import FALSE, occurs, stopping
from app.query.resolved import resolved as r
from app.query.resolved.features import runs_features
from app.query.resolved.folding import counted
from app.query.resolved.resolve_keys import strategies
from app.query.text import keys as k
from app.query.tree import tree as t

RUNS_ITEMS = 62
"""Items of a plan of runs: two bits of an event's mask are the engine's own."""


def needs_runs(query: r.Resolved) -> bool:
    """Whether only the runs evaluator can run the query; the stacks evaluator runs plain sequences under skip-till-any-match."""
    return next(runs_features(query), None) is not None


class RunsPlanner:
    """Items and pattern of one query.

    Args:
        query: without findings.
        lacks: the equivalence attributes that some type of a negated binding does not have.
    """

    def __init__(self, query: r.Resolved, lacks: Callable[[r.Binding], tuple[str, ...]]) -> None:
        self._query, self._lacks = query, lacks
        self.items: list[Item] = []
        self._asking: list[tuple[int, r.Leaf]] = []
        self._alone = {binding.index: ItemConditions() for binding in query.bindings}
        self.joins: list[JoinPredicate] = []

    def predicate(self, predicate: r.Predicate, condition: e.Expression) -> None:
        """Puts a predicate, already simplified, where it is decided."""
        mentioned = tuple(sorted(e.mentioned_items(condition)))
        if isinstance(condition, e.Literal) or not mentioned:
            if isinstance(condition, e.Literal) and condition.value:
                return
            local = FALSE if isinstance(condition, e.Literal) else condition
            owners = [predicate.negated] if predicate.negated is not None else [b.index for b in self._query.bindings if not b.negated]
            for owner in owners:
                self._alone[owner].local.append(local)
            return
        if predicate.negated is not None and predicate.negated not in mentioned:
            mentioned = tuple(sorted((*mentioned, predicate.negated)))
        if len(mentioned) > 1 or not _of_one_event(condition):
            self.joins.append(JoinPredicate(condition, mentioned, predicate.negated))
            return
        binding = self._query.bindings[mentioned[0]]
        if binding.optional and not binding.closure and not binding.negated and not _surely_holds_unbound(condition):
            self.joins.append(JoinPredicate(condition, mentioned, None))
        self._alone[binding.index].push_down(_without_index(condition), binding.types, self._query.vocabulary)

    def fix(self, test: ConstantTest) -> None:
        """``[attr = 'v']``: a test on every item."""
        for alone in self._alone.values():
            alone.tests.append(test)

    def pattern(self) -> Pattern:
        """The pattern; items are complete afterwards, but for the opener's."""
        found = self._node(self._query.pattern)
        for item, leaf in self._asking:
            index = self._add(Item(0, None, leaf.types, asked=True, binding=self.items[item].bound_to))
            found = _replaced(found, item, index)
        return found

    def runs(self) -> Runs:
        """Everything of the plan that only runs need."""
        document, query = self._query.document, self._query
        pattern = self.pattern()
        gap, limits = document.plain("max_gap"), document.record("limits")
        policy, _, variable = document.plain("after", "no-skip").partition(" ")
        skipped = query.binding(variable) if variable else None
        defaults = Limits()
        return Runs(
            pattern=pattern,
            ways=self._ways(),
            max_gap_ms=gap.size if gap is not None else None,
            window=self._window(),
            after=policy,
            after_binding=skipped.index if skipped is not None else -1,
            longest=document.plain("emit", "each") == "longest",
            limits=Limits(
                limits["matches_per_event"].value if "matches_per_event" in limits else defaults.matches_per_event,
                limits["partial_matches_per_partition"].value
                if "partial_matches_per_partition" in limits
                else defaults.partial_matches_per_partition,
            ),
        )

    def _add(self, item: Item) -> int:
        self.items.append(replace(item, index=len(self.items)))
        return len(self.items) - 1

    def _item(self, leaf: r.Leaf, *, negated: bool) -> int:
        binding = self._query.bindings[leaf.binding]
        alone = self._alone[binding.index]
        tests, local = tuple(dict.fromkeys(alone.tests)), tuple(alone.local)
        lacks = self._lacks(binding) if negated else ()
        return self._add(Item(0, binding.variable, leaf.types, negated, tests, local, lacks, binding.index, either=alone.either))

    def _node(self, node: r.Node) -> Pattern:
        match node:
            case r.Leaf():
                return self._take(node)
            case r.Absence(parts, for_ms):
                return Absent(tuple(self._item(part, negated=True) for part in parts), for_ms)
            case r.Series(items):
                return Ordered(tuple(self._node(item) for item in items))
            case r.AllOf(operands):
                return Every(tuple(self._node(operand) for operand in operands))
            case r.OneOf(operands):
                return Either(tuple(self._node(operand) for operand in operands))
            case r.Repeat(inner, quantifier):
                return Repeated(self._node(inner), quantifier.low, quantifier.high, quantifier.reluctant)
        raise TypeError(node)

    def _take(self, leaf: r.Leaf) -> Take:
        item = self._item(leaf, negated=False)
        until = leaf.until if occurs(leaf.types, self._query.vocabulary) else None
        if until is not None:
            self._asking.append((item, leaf))
            until = stopping(until, self._query)
        quantifier = leaf.quantifier or t.Quantifier(1, 1)
        return Take(item, quantifier.low, quantifier.high, quantifier.reluctant, leaf.count or 0, leaf.by, until)

    def _ways(self) -> tuple[Ways, ...]:
        default, apart = strategies(self._query)
        # windows of a partition hold nothing but its events: there, strict contiguity is that of the partition
        alone = "per" in self._query.document.record("window")
        rows = []
        for binding in self._query.bindings:
            own = default if not binding.negated else k.STRATEGIES[0]
            first = apart[binding.variable].value if binding.variable in apart else own
            further = apart[f"{binding.variable}[]"].value if f"{binding.variable}[]" in apart else own
            if alone:
                first, further = (way.replace("strict-", "partition-") for way in (first, further))
            rows.append(Ways(cast("Strategy", first), cast("Strategy", further)))
        return tuple(rows)

    def _window(self) -> ExplicitWindow | None:
        window = self._query.document.record("window")
        if "size" not in window:
            return None
        size: Within = window["size"].value
        if "open" in window:
            return ExplicitWindow(size.size, size.unit, None, self._opener(window["open"].tree))
        slide: Within = window["slide"].value if "slide" in window else size
        return ExplicitWindow(size.size, size.unit, slide.size, per_partition="per" in window)

    def _opener(self, opener: t.Opener) -> int:
        types = tuple(dict.fromkeys(name.name for name in opener.types.names))
        alone = ItemConditions()
        if self._query.opener is not None and occurs(types, self._query.vocabulary):
            alone.push_down(counted(self._query.opener), types, self._query.vocabulary)
        return self._add(Item(0, None, types, tests=tuple(alone.tests), local=tuple(alone.local), asked=True, either=alone.either))


def ranks_of(runs: Runs, within: Within | None) -> Ranks:
    """Which events beside candidates the engine must see."""
    ways = [way for pair in runs.ways for way in (pair.first, pair.further)]
    window = runs.window
    if "strict-contiguity" in ways or (
        window is not None and (window.slide is None or (window.unit == "events" and not window.per_partition))
    ):
        return "stream"
    counted = (within is not None and within.unit == "events") or (window is not None and window.per_partition)
    return "partition" if counted or "partition-contiguity" in ways else "none"


def read_attributes(runs: Runs) -> set[str]:
    """Attributes that the pattern itself reads: of UNTILs, and those by which a block differs."""
    found: set[str] = set()

    def visit(pattern: Pattern) -> None:
        if isinstance(pattern, Take):
            if pattern.by is not None:
                found.add(pattern.by)
            for node in e.walk(pattern.until) if pattern.until is not None else ():
                if isinstance(node, e.AttributeOf | e.Aggregate) and node.attribute is not None:
                    found.add(node.attribute)
        elif isinstance(pattern, Repeated):
            visit(pattern.part)
        elif not isinstance(pattern, Absent):
            for part in pattern.parts:
                visit(part)

    visit(runs.pattern)
    return found


def _of_one_event(condition: e.Expression) -> bool:
    """Whether a condition on one binding speaks of a single event: no aggregates, and of closures only ``x[i]``."""
    for node in e.walk(condition):
        if isinstance(node, e.Aggregate):
            return False
        if isinstance(node, e.AttributeOf) and node.index is not None and (node.index.anchor, node.index.back) != ("running", 0):
            return False
    return True


def _surely_holds_unbound(condition: e.Expression) -> bool:
    """Whether a condition on one variable holds where it is not bound, as far as can be told without asking: a comparison of constants alone is asked."""
    comparisons = (node for node in e.walk(condition) if isinstance(node, e.COMPARISONS))
    return all(map(e.mentioned_items, comparisons)) and _holds_unbound(condition)


def _holds_unbound(condition: e.Expression) -> bool:
    """What is not bound makes comparisons true, and so a NOT of one false."""
    match condition:
        case e.Not(operand):
            return not _holds_unbound(operand)
        case e.And(operands):
            return all(map(_holds_unbound, operands))
        case e.Or(operands):
            return any(map(_holds_unbound, operands))
    return True


def _without_index(condition: Any) -> Any:
    if isinstance(condition, e.AttributeOf):
        return replace(condition, index=None)
    return e.rebuilt(condition, _without_index)


def _replaced(pattern: Pattern, item: int, asked: int) -> Pattern:
    """The pattern with the UNTIL of an item asking another one."""
    if isinstance(pattern, Take):
        return replace(pattern, until_item=asked) if pattern.item == item else pattern
    if isinstance(pattern, Absent):
        return pattern
    if isinstance(pattern, Repeated):
        return replace(pattern, part=_replaced(pattern.part, item, asked))
    return replace(pattern, parts=tuple(_replaced(part, item, asked) for part in pattern.parts))
