"""A naive query as a plan, without the way through YAML: the engine's own tests do not wait for the language's."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.events.types import Kind
from app.query import expressions as ex
from app.query.plan import Item, JoinPredicate, Plan, ReturnField, Within
from tests.naive import language as nl
from tests.naive.language import Event, Query

Schemas = dict[str, dict[str, str]]
KIND = {
    "integer": Kind.INTEGER,
    "float": Kind.FLOAT,
    "string": Kind.STRING,
    "boolean": Kind.BOOLEAN,
    "time": Kind.TIME,
    "duration": Kind.DURATION,
}


class Translation:
    """Expressions of one query, with kinds from the schemas."""

    def __init__(self, query: Query, schemas: Schemas) -> None:
        self.kinds = {name: KIND[kind] for attributes in schemas.values() for name, kind in attributes.items()}
        self.index = {item.var: i for i, item in enumerate(query.items) if item.var}

    def __call__(self, node: Any) -> Any:
        match node:
            case nl.Const(value, kind):
                return ex.Literal(KIND[kind], value)
            case nl.Attr(var, name):
                kind = {"time": Kind.TIME, "type": Kind.STRING}.get(name) or self.kinds[name]
                return ex.AttributeOf(kind, self.index[var], name)
            case nl.Arith(op, left, right):
                a, b = self(left), self(right)
                kind = Kind.FLOAT if op == "/" or Kind.FLOAT in (a.kind, b.kind) else Kind.INTEGER
                if Kind.TIME in (a.kind, b.kind):
                    kind = Kind.DURATION if a.kind is b.kind else Kind.TIME
                return ex.Arithmetic(kind, op, a, b)
            case nl.Minus(operand):
                inner = self(operand)
                return ex.Negative(inner.kind, inner)
            case nl.Call(function, arguments):
                inner = tuple(self(a) for a in arguments)
                kind = Kind.INTEGER if function == "length" else Kind.FLOAT if any(a.kind is Kind.FLOAT for a in inner) else inner[0].kind
                return ex.Call(kind, function, inner)
            case nl.Compare(op, left, right):
                return ex.Comparison(op, self(left), self(right))
            case nl.In(operand, values, negated):
                return ex.In(self(operand), tuple(self(v) for v in values), negated)
            case nl.Between(operand, low, high, negated):
                return ex.Between(self(operand), self(low), self(high), negated)
            case nl.IsNull(operand, negated):
                return ex.IsNull(self(operand), negated)
            case nl.Like(operand, pattern, negated):
                return ex.Like(self(operand), pattern, negated)
            case nl.Not(operand):
                return ex.Not(self(operand))
            case nl.And(operands):
                return ex.And(tuple(self(o) for o in operands))
            case nl.Or(operands):
                return ex.Or(tuple(self(o) for o in operands))
        raise TypeError(node)


def plan_of(query: Query, schemas: Schemas) -> Plan:
    """The plan; conditions on one event stand in `Item.local`, so that the engine must evaluate them."""
    translate = Translation(query, schemas)
    local: dict[int, list[Any]] = {}
    joins = []
    for predicate in query.where:
        condition = translate(predicate)
        mentioned = sorted(ex.mentioned_items(condition))
        if len(mentioned) == 1:
            local.setdefault(mentioned[0], []).append(condition)
        else:
            negated = [i for i in mentioned if query.items[i].negated]
            joins.append(JoinPredicate(condition, tuple(mentioned), negated[0] if negated else None))
    equivalence = tuple(sorted(test.attribute for test in query.equivalence))
    items = tuple(
        Item(
            i,
            item.var,
            item.types,
            item.negated,
            local=tuple(local.get(i, ())),
            lacks=tuple(a for a in equivalence if any(a not in schemas[t] for t in item.types)),
        )
        for i, item in enumerate(query.items)
    )
    columns = tuple(sorted({name for attributes in schemas.values() for name in attributes}))
    within = None if query.within is None else Within(query.within)
    returns = tuple(_field(name, translate(e)) for name, e in query.returns or ())
    return Plan(
        query.name, query.version, "", (), 1.0, ("input",), items, equivalence, tuple(joins), within, returns, columns, fingerprint="f"
    )


def _field(name: str, expression: Any) -> ReturnField:
    return ReturnField(name, expression, expression.kind)


def candidate_masks(query: Query, events: list[Event]) -> np.ndarray:
    """By type and fixed equivalence values alone, what selection leaves to the engine at most."""
    masks = np.zeros(len(events), np.uint64)
    for row, event in enumerate(events):
        fixed = all(
            test.value is None
            or test.attribute not in event["attributes"]
            or event["attributes"][test.attribute] in (None, test.value.value)
            for test in query.equivalence
        )
        for i, item in enumerate(query.items):
            if fixed and event["type"] in item.types:
                masks[row] |= np.uint64(1 << i)
    return masks
