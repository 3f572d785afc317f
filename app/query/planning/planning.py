"""Resolved query → plan: every predicate goes where it is cheapest without changing what matches.

On one attribute and constants: to the selection before events travel. On one event: to its item. On several: joins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.events.types import Kind
from app.query import expressions as e
from app.query.plan import Item, JoinPredicate, Output, Plan, ReturnField, Shedding
from app.query.planning.constant_tests import ItemConditions
from app.query.planning.fingerprint import fingerprint
from app.query.planning.occurring import FALSE, fixed_values, unknown
from app.query.planning.planning_runs import RunsPlanner, needs_runs, ranks_of, read_attributes
from app.query.resolved import resolved as r
from app.query.resolved.folding import counted
from app.query.resolved.vocabulary import BUILT_IN, NUMERIC
from app.query.text.keys import AUTO
from app.query.tree.document import Document


def plan_query(query: r.Resolved) -> Plan:
    """The plan of a query that `app.query.checks.refusals` let pass, for the evaluator that it needs (or that ``evaluator:`` names)."""
    values = query.document.values
    if query.document.plain("evaluator") == "runs" or needs_runs(query):
        return replace(_plan_of_runs(query), apart="evaluator" not in values and "limits" not in values)
    return _plan_of_stacks(query)


def plan_as_runs(query: r.Resolved) -> Plan:
    """The plan of a query for the runs evaluator, whichever it needs: its meaning is the same."""
    return _plan_of_runs(query)


def _plan_of_runs(query: r.Resolved) -> Plan:
    equivalence = tuple(dict.fromkeys(one.attribute for one in query.equivalence))
    planner = RunsPlanner(query, lambda binding: _lacks(binding, equivalence, query))
    for predicate in query.predicates:
        planner.predicate(predicate, _decided_when_written(predicate, predicate.condition, query))
    for test in fixed_values(query):
        planner.fix(test)
    runs = planner.runs()
    within = query.document.plain("within")
    plan = replace(
        _headed(query, equivalence, tuple(planner.items), tuple(planner.joins)),
        evaluator="runs",
        runs=runs,
        ranks=ranks_of(runs, within),
    )
    attributes = set(columns_of(plan)) | (read_attributes(runs) - set(BUILT_IN))
    return finished(replace(plan, columns=tuple(sorted(attributes))), query)


def _plan_of_stacks(query: r.Resolved) -> Plan:
    """A sequence of single events and negations."""
    alone = {binding.index: ItemConditions() for binding in query.bindings}
    joins: list[JoinPredicate] = []
    first_positive = next(binding.index for binding in query.bindings if not binding.negated)
    for predicate in query.predicates:
        condition = _decided_when_written(predicate, counted(predicate.condition), query)
        if isinstance(condition, e.Literal):
            if not condition.value:
                # a negated item that never counts, or, without it, a match that never is
                alone[predicate.negated if predicate.negated is not None else first_positive].local.append(FALSE)
            continue
        mentioned = tuple(sorted(e.mentioned_items(condition)))
        if predicate.negated is not None and predicate.negated not in mentioned:
            # what is left speaks of other events only, but still decides whether the negated one counts
            mentioned = tuple(sorted((*mentioned, predicate.negated)))
        if not mentioned:
            alone[first_positive].local.append(condition)
        elif len(mentioned) > 1:
            joins.append(JoinPredicate(condition, mentioned, predicate.negated))
        else:
            alone[mentioned[0]].push_down(condition, query.bindings[mentioned[0]].types, query.vocabulary)
    _fix_values(query, alone)
    equivalence = tuple(dict.fromkeys(one.attribute for one in query.equivalence))
    items = tuple(
        Item(
            b.index,
            b.variable,
            b.types,
            b.negated,
            tuple(dict.fromkeys(alone[b.index].tests)),
            tuple(alone[b.index].local),
            _lacks(b, equivalence, query),
            either=alone[b.index].either,
        )
        for b in query.bindings
    )
    plan = replace(_headed(query, equivalence, items, tuple(joins)), evaluator="stacks")
    # every item of a plain sequence is bound in a match: it counts 1
    plan = replace(plan, returns=tuple(replace(field, expression=counted(field.expression)) for field in plan.returns))
    return finished(replace(plan, columns=columns_of(plan)), query)


def _headed(query: r.Resolved, equivalence: tuple[str, ...], items: tuple[Item, ...], joins: tuple[JoinPredicate, ...]) -> Plan:
    """What every plan of a pattern takes from its query, without columns and fingerprint."""
    return replace(
        headed(query, items),
        equivalence=equivalence,
        joins=joins,
        within=query.document.plain("within"),
        returns=tuple(replace(field, expression=_known(field, query)) for field in query.returns),
        on_timeout=query.document.plain("on_timeout", "drop"),
    )


def headed(query: r.Resolved | r.ResolvedTemporal, items: tuple[Item, ...]) -> Plan:
    """What every plan takes from its document."""
    document = query.document
    output = document.record("output")
    return Plan(
        name=document.name,
        version=document.plain("version", 1),
        title=document.plain("title", ""),
        labels=tuple((key, one.value) for key, one in document.plain("labels", {}).items()),
        weight=document.plain("weight", 1.0),
        streams=query.streams,
        items=items,
        equivalence=(),
        joins=(),
        within=None,
        returns=query.returns,
        columns=(),
        output=Output(output_value(output, "topic"), output_value(output, "key"), bool(output_value(output, "hold_for_verdict"))),
        shedding=replace(
            shedding_of(document.record("shedding"), unnamed=AUTO if isinstance(query, r.Resolved) else "none"),
            state_bytes=_state_bytes(document),
        ),
    )


def _fix_values(query: r.Resolved, alone: dict[int, ItemConditions]) -> None:
    """``[attr = 'v']`` is a test on every item; events without the attribute pass it."""
    for test in fixed_values(query):
        for conditions in alone.values():
            conditions.tests.append(test)


def _lacks(binding: r.Binding, equivalence: tuple[str, ...], query: r.Resolved) -> tuple[str, ...]:
    if not binding.negated:
        return ()
    return tuple(attribute for attribute in equivalence if query.vocabulary.lacking(binding.types, attribute) is not None)


def _known(field: ReturnField, query: r.Resolved) -> e.Expression:
    """Attributes that no event has (types that never occur) are null; no match will ever show it."""
    nodes = [node for node in e.walk(field.expression) if unknown(node, query)]
    return e.Literal(field.kind, None) if nodes else field.expression


def simplified(condition: e.Expression, query: r.Resolved | r.ResolvedTemporal) -> e.Expression:
    """Comparisons whose truth is known before any event come out as literals; the rest stays as it is."""
    if isinstance(condition, e.Not):
        inner = simplified(condition.operand, query)
        return _truth(not inner.value) if isinstance(inner, e.Literal) else e.Not(inner)
    if isinstance(condition, e.And | e.Or):
        decisive = isinstance(condition, e.Or)
        operands = [simplified(operand, query) for operand in condition.operands]
        if any(isinstance(operand, e.Literal) and operand.value is decisive for operand in operands):
            return _truth(decisive)
        rest = tuple(operand for operand in operands if not isinstance(operand, e.Literal))
        if not rest:
            return _truth(not decisive)
        return rest[0] if len(rest) == 1 else replace(condition, operands=rest)
    if any(unknown(node, query) for node in e.walk(condition)):
        return _truth(True)  # an attribute that the event does not have makes its comparison true
    if isinstance(condition, e.Comparison) and isinstance(condition.left, e.Literal) and isinstance(condition.right, e.Literal):
        return _compared(condition)
    return condition


def _decided_when_written(predicate: r.Predicate, condition: e.Expression, query: r.Resolved) -> e.Expression:
    """The condition simplified, but it still asks all events that it mentions as written, where that makes a difference.

    A comparison with an attribute that no event has is true, but only once its event is bound: until then the partial match lives on, and where timeouts are emitted it times out. And of the
    elements of a closure it is asked one by one: where the closure is empty it holds, whatever it comes to for an element. In its place something of the same event is asked that always holds.
    (Elsewhere only matches count, and they are the same.)
    """
    short = simplified(condition, query)
    emitted = query.document.plain("on_timeout", "drop") == "emit"
    if predicate.negated is not None or (isinstance(short, e.Literal) and short.value):
        return short
    lost = dict.fromkeys(node for node in e.walk(condition) if isinstance(node, e.AttributeOf) and unknown(node, query))
    if not lost or not (emitted or any(node.index is not None for node in lost)):
        return short
    types = (replace(node, kind=Kind.STRING, attribute="type") for node in lost)
    holds = tuple(e.Comparison("=", one, one) for one in types)
    return e.Not(e.And(holds)) if isinstance(short, e.Literal) else e.And((short, *holds))


def _compared(condition: e.Comparison) -> e.Expression:
    left, right = condition.left, condition.right
    if not isinstance(left, e.Literal) or not isinstance(right, e.Literal) or left.value is None or right.value is None:
        return condition
    if left.kind is not right.kind and not (left.kind in NUMERIC and right.kind in NUMERIC):
        return condition
    first, second = left.value, right.value
    orders = {"=": first == second, "!=": first != second}
    if condition.operator in orders:
        return _truth(orders[condition.operator])
    smaller, equal = first < second, first == second  # type: ignore[operator]
    return _truth({"<": smaller, "<=": smaller or equal, ">": not smaller and not equal, ">=": not smaller}[condition.operator])


def _truth(value: bool) -> e.Literal:  # noqa: FBT001
    return e.Literal(Kind.BOOLEAN, value)


def finished(plan: Plan, query: r.Resolved | r.ResolvedTemporal) -> Plan:
    """The plan with what follows from its columns: which of them are floats, and its fingerprint."""
    own = set(plan.equivalence)
    floats = tuple(
        name for name in plan.columns if query.vocabulary.mixed(name) or (name in own and query.vocabulary.column_kind(name) is Kind.FLOAT)
    )
    plan = replace(plan, floats=floats)
    return replace(plan, fingerprint=fingerprint(plan))


def columns_of(plan: Plan) -> tuple[str, ...]:
    """Attributes that items, predicates and return fields of a plan read, and those that partition it; sorted."""
    expressions: list[e.Expression] = [condition for item in plan.items for condition in item.local]
    expressions += [join.condition for join in plan.joins]
    expressions += [field.expression for field in plan.returns]
    mentioned = {
        node.attribute
        for expression in expressions
        for node in e.walk(expression)
        if isinstance(node, e.AttributeOf | e.Aggregate) and node.attribute is not None
    }
    return tuple(sorted((mentioned | set(plan.equivalence)) - set(BUILT_IN)))


def output_value(record: object, key: str) -> Any:
    """A value of ``output:``."""
    found = record.get(key) if isinstance(record, dict) else None
    return found.value if found is not None else None


def _state_bytes(document: Document) -> int | None:
    found = document.record("limits").get("state_bytes")
    return None if found is None else int(found.value)


def shedding_of(record: object, unnamed: str) -> Shedding:
    """The plan's part of ``shedding:``; ``unnamed`` keeps a bound for which no shedder is named."""
    if not isinstance(record, dict):
        return Shedding()
    values = {key: one.value for key, one in record.items()}
    bound, memory = values.get("latency_bound"), values.get("memory")
    return Shedding(
        shedder=values.get("shedder", "none" if bound is None else unnamed),
        latency_bound_ms=bound.size if bound is not None else None,
        safety=values.get("safety", 0.8),
        max_drop_ratio=values.get("max_drop_ratio", 0.99),
        pane=values.get("pane"),
        allow_false_positives=values.get("allow_false_positives", True),
        memory_tuples=memory.size if memory is not None else None,
        catch_up=values.get("catch_up"),
    )
