"""Hypothesis strategies: schemas, queries that are valid for them, and streams of events with all that makes life hard.

Domains are small on purpose: predicates must hold now and then, keys must meet, times must tie.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.naive.language import (
    And,
    Arith,
    Attr,
    Between,
    Call,
    Compare,
    Const,
    Equivalence,
    Event,
    In,
    IsNull,
    Item,
    Like,
    Minus,
    Not,
    Or,
    Query,
)

Schemas = dict[str, dict[str, str]]
"""Event types, and their attributes with kinds."""
KINDS = {
    "k": "integer",
    "g": "string",
    "m": "float",
    "v": "integer",
    "u": "integer",
    "w": "float",
    "s": "string",
    "f": "boolean",
    "t": "time",
}
KEYS = ("k", "g", "m")
TYPES = ("A", "B", "C", "E-1")
COMPARISONS = ["=", "!=", "<", "<=", ">", ">="]
DOMAINS: dict[str, list[object]] = {
    "k": [0, 1],
    "g": ["x", "y"],
    "v": [-1, 0, 1, 2],
    "u": [0, 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    "w": [-1.5, 0.0, -0.0, 0.5, 1.0, 2.0, 2.0**53, 1e300, math.nan, math.inf],
    "s": ["", "a", "ab", "Ab", "b%", "it's", "ü_", 'q"\\'],
    "f": [False, True],
    "m": [0.0, -0.0, 1.0, 0.5, math.nan],
    "t": [0, 3, 1003],
}
CONSTANTS = {
    "integer": st.sampled_from([-1, 0, 1, 2, 3]),
    "float": st.sampled_from([0.5, 1.0, 1.5, 2.5e2]),
    "string": st.sampled_from(DOMAINS["s"]),
    "boolean": st.booleans(),
    "duration": st.sampled_from([0, 1, 2, 5]),
    "time": st.sampled_from([0, 3, 7, 1003]),
}
PATTERNS = ["%", "a%", "_b", "%b\\%", "A_", "", "ü\\_", "%'%", "__%"]


@st.composite
def schemas(draw: st.DrawFn) -> Schemas:
    """Types with some of the attributes each; `k` is frequent, so that there is something to partition by."""
    made: Schemas = {}
    for name in TYPES:
        chosen = [a for a in KINDS if draw(st.integers(0, 9)) < (9 if a in KEYS else 5)] or ["v"]
        made[name] = {a: draw(st.sampled_from(["integer", "float"])) if a == "m" else KINDS[a] for a in chosen}
    return made


@dataclass(frozen=True)
class Scope:
    """The variables that a predicate may use: name → attributes that at least one of its types has."""

    attributes: dict[str, dict[str, str]]

    def of_kind(self, variable: str, kinds: tuple[str, ...]) -> list[str]:
        return [name for name, kind in self.attributes[variable].items() if kind in kinds]


@st.composite
def queries(draw: st.DrawFn, known: Schemas, most_items: int = 4) -> Query:
    """A valid sequence query."""
    tests = tuple(
        Equivalence(key, draw(st.sampled_from([None, None, None, Const(DOMAINS[key][0], KINDS[key])])))
        for key in KEYS
        if draw(st.integers(0, 9)) < (4 if key != "m" else 1)
    )
    able = [name for name, attributes in known.items() if all(test.attribute in attributes for test in tests)]
    if not able:
        tests, able = (), list(known)
    items: list[Item] = []
    positives = draw(st.sampled_from([1, 2, 2, 2, 3, 3, most_items]))
    for number in range(positives):
        items += [draw(negated_items(known)) for _ in range(draw(st.sampled_from([0, 0, 0, 0, 0, 1, 1, 2])))]
        types = draw(st.lists(st.sampled_from(able), min_size=1, max_size=3, unique=True))
        items.append(Item(tuple(types), f"p{number}" if draw(st.integers(0, 9)) < 9 else None))
    items += [draw(negated_items(known)) for _ in range(draw(st.sampled_from([0, 0, 0, 0, 0, 1, 1, 2])))]
    named = [Item(item.types, f"n{i}" if item.negated and item.var else item.var, item.negated) for i, item in enumerate(items)]
    edged = named[0].negated or named[-1].negated
    within = draw(st.sampled_from([1, 3, 5, 8, 12, 20, 30, 50])) if edged or draw(st.integers(0, 2)) else None
    where = [
        draw(predicates(known, named)) for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2])) if any(item.var for item in named) else 0)
    ]
    returns = draw(st.none() | return_fields(known, named)) if any(i.var for i in named if not i.negated) else None
    if len(where) == 1 and not tests and isinstance(where[0], And):
        where = list(where[0].operands)  # parentheses around the whole condition change nothing: these are two predicates
    return Query(tuple(named), tests, tuple(where), within, returns)


@st.composite
def negated_items(draw: st.DrawFn, known: Schemas) -> Item:
    types = draw(st.lists(st.sampled_from(list(known)), min_size=1, max_size=2, unique=True))
    return Item(tuple(types), "n" if draw(st.integers(0, 9)) < 8 else None, negated=True)


def attributes_of(known: Schemas, item: Item) -> dict[str, str]:
    """Attributes that at least one type of the item has."""
    return {name: KINDS[name] for type_name in item.types for name in known[type_name]}


@st.composite
def predicates(draw: st.DrawFn, known: Schemas, items: list[Item]) -> object:
    """A predicate over one or more positive variables and at most one negated one."""
    positive = [item for item in items if item.var and not item.negated]
    negated = [item for item in items if item.var and item.negated]
    chosen = draw(st.lists(st.sampled_from(positive), max_size=3, unique_by=lambda i: i.var)) if positive else []
    if negated and (not chosen or draw(st.booleans())):
        chosen.append(draw(st.sampled_from(negated)))
    if not chosen:
        chosen = [draw(st.sampled_from(positive))]
    scope = Scope({str(item.var): attributes_of(known, item) for item in chosen})
    if len(chosen) > 1 and chosen[-1].negated and draw(st.booleans()):
        # one predicate, half of which speaks of positive events alone: it must not restrict them
        alone = Scope({name: attributes for name, attributes in scope.attributes.items() if name != chosen[-1].var})
        return And((draw(comparisons(scope)), draw(comparisons(alone))))
    return draw(conditions(scope, 2))


@st.composite
def conditions(draw: st.DrawFn, scope: Scope, depth: int) -> object:
    shape = draw(st.sampled_from(["plain"] * 6 + ["not", "and", "or"])) if depth else "plain"
    if shape == "not":
        return Not(draw(conditions(scope, depth - 1)))
    if shape in ("and", "or"):
        parts = tuple(draw(st.lists(conditions(scope, depth - 1), min_size=2, max_size=3)))
        return And(parts) if shape == "and" else Or(parts)
    return draw(comparisons(scope))


@st.composite
def comparisons(draw: st.DrawFn, scope: Scope) -> object:
    family = draw(st.sampled_from(["number"] * 5 + ["string", "string", "boolean", "time", "type", "null"]))
    variables = list(scope.attributes)
    if family == "null":
        reference = draw(any_reference(scope, variables))
        return IsNull(reference, draw(st.booleans()))
    if family == "type":
        return Compare(
            draw(st.sampled_from(["=", "!="])),
            Attr(draw(st.sampled_from(variables)), "type"),
            Const(draw(st.sampled_from(TYPES)), "string"),
        )
    if family == "time":
        return draw(time_comparisons(scope))
    values = {"number": numbers, "string": strings, "boolean": booleans}[family]
    left = draw(values(scope, 1))
    if family == "boolean":
        return Compare(draw(st.sampled_from(["=", "!="])), left, draw(values(scope, 1)))
    shape = draw(st.sampled_from(["compare"] * 5 + ["in", "between"] + ["like"] * (family == "string")))
    kinds = {"number": ("integer", "float"), "string": ("string",)}[family]
    if shape == "in":
        constants = draw(st.lists(constant(kinds), min_size=1, max_size=3))
        return In(left, tuple(constants), draw(st.booleans()))
    if shape == "between":
        return Between(left, draw(values(scope, 0)), draw(values(scope, 0)), draw(st.booleans()))
    if shape == "like":
        return Like(left, draw(st.sampled_from([p.replace("\\", "") for p in PATTERNS])), draw(st.booleans()))
    return Compare(draw(st.sampled_from(COMPARISONS)), left, draw(values(scope, 1)))


@st.composite
def constant(draw: st.DrawFn, kinds: tuple[str, ...]) -> Const:
    kind = draw(st.sampled_from(kinds))
    return Const(draw(CONSTANTS[kind]), kind)


@st.composite
def any_reference(draw: st.DrawFn, scope: Scope, variables: list[str]) -> Attr:
    variable = draw(st.sampled_from(variables))
    return Attr(variable, draw(st.sampled_from([*scope.attributes[variable], "time"])))


@st.composite
def reference_or_constant(draw: st.DrawFn, scope: Scope, kinds: tuple[str, ...]) -> object:
    able = [(variable, name) for variable in scope.attributes for name in scope.of_kind(variable, kinds)]
    if able and draw(st.integers(0, 3)):
        return Attr(*draw(st.sampled_from(able)))
    return draw(constant(kinds))


@st.composite
def numbers(draw: st.DrawFn, scope: Scope, depth: int) -> object:
    shape = draw(st.sampled_from(["plain"] * 5 + ["arithmetic", "arithmetic", "minus", "call"])) if depth else "plain"
    inner = numbers(scope, depth - 1) if depth else None
    if shape == "arithmetic":
        return Arith(draw(st.sampled_from("+-*/%")), draw(inner), draw(inner))
    if shape == "minus":
        return Minus(draw(inner))
    if shape == "call":
        name = draw(st.sampled_from(["abs", "min", "max", "round", "floor", "ceil", "length"]))
        if name == "length":
            return Call(name, (draw(strings(scope, 0)),))
        return Call(name, tuple(draw(inner) for _ in range(2 if name in ("min", "max") else 1)))
    return draw(reference_or_constant(scope, ("integer", "float")))


@st.composite
def strings(draw: st.DrawFn, scope: Scope, depth: int) -> object:
    if depth and draw(st.integers(0, 4)) == 0:
        return Call(draw(st.sampled_from(["lower", "upper"])), (draw(strings(scope, 0)),))
    return draw(reference_or_constant(scope, ("string",)))


@st.composite
def booleans(draw: st.DrawFn, scope: Scope, depth: int) -> object:
    return draw(reference_or_constant(scope, ("boolean",)))


@st.composite
def time_comparisons(draw: st.DrawFn, scope: Scope) -> object:
    variables = list(scope.attributes)
    one, other = (Attr(draw(st.sampled_from(variables)), "time") for _ in range(2))
    op = draw(st.sampled_from(COMPARISONS))
    shape = draw(st.sampled_from(["difference", "sum", "constant", "attribute"]))
    if shape == "difference":
        return Compare(op, Arith("-", one, other), Const(draw(CONSTANTS["duration"]), "duration"))
    if shape == "sum":
        return Compare(op, one, Arith("+", other, Const(draw(CONSTANTS["duration"]), "duration")))
    if shape == "attribute" and (able := scope.of_kind(other.var, ("time",))):
        return Compare(op, one, Attr(other.var, able[0]))
    return Compare(op, one, Const(draw(CONSTANTS["time"]), "time"))


@st.composite
def return_fields(draw: st.DrawFn, known: Schemas, items: list[Item]) -> tuple[tuple[str, object], ...]:
    named = [item for item in items if item.var and not item.negated]
    scope = Scope({str(item.var): attributes_of(known, item) for item in named})
    fields = []
    for number in range(draw(st.integers(1, 3))):
        family = draw(st.sampled_from(["number", "string", "reference", "took"]))
        if family == "number":
            expression = draw(numbers(scope, 1))
        elif family == "string":
            expression = draw(strings(scope, 1))
        elif family == "took":
            one, other = (Attr(str(draw(st.sampled_from(named)).var), "time") for _ in range(2))
            expression = Arith("-", one, other)
        else:
            expression = draw(any_reference(scope, list(scope.attributes)))
        fields.append((f"f{number}", expression))
    return tuple(fields)


@st.composite
def streams(draw: st.DrawFn, known: Schemas, most: int = 14, sources: int = 2, start_ms: int = 0) -> list[Event]:
    """Events in total order, with ties in time, nulls, and attributes that their type lacks."""
    time, events = start_ms, []
    mixed = any(attributes.get("m") == "float" for attributes in known.values())  # then the column holds floats, also of integers
    steps = draw(st.sampled_from([[0, 0, 1, 1, 2, 3, 6], [0, 0, 0, 1]]))
    for _ in range(draw(st.sampled_from([0, 1, most // 2, *[most] * 17]))):
        time += draw(st.sampled_from(steps))
        type_name = draw(st.sampled_from(list(known)))
        attributes = {
            name: None if draw(st.integers(0, 14)) == 14 else draw(st.sampled_from(domain(name, kind)))
            for name, kind in known[type_name].items()
        }
        if mixed and attributes.get("m") is not None:
            attributes["m"] = float(attributes["m"])
        events.append({"type": type_name, "time": time, "source": draw(st.integers(0, sources - 1)), "attributes": attributes})
    events.sort(key=lambda event: (event["time"], event["source"]))
    for source in range(sources):
        for offset, event in enumerate(e for e in events if e["source"] == source):
            event["offset"] = offset
    return events


def domain(name: str, kind: str) -> list[object]:
    """Values of an attribute; `m` is an integer in some types and a float in others."""
    return [0, 1] if name == "m" and kind == "integer" else DOMAINS[name]


@st.composite
def cuts(draw: st.DrawFn, length: int, most: int = 4) -> list[int]:
    """Ends of batches, at most one more than ``most``; batches may be empty."""
    return [*sorted(draw(st.lists(st.integers(0, length), max_size=most))), length]
