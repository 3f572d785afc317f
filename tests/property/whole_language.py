"""Hypothesis strategies: valid queries over the whole grammar, small and with parts that interact, and short streams for them.

Types A to E share k, v and s; D has no k, B and C no s, E no v. Times are single milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from tests.naive.language import Aggregate, And, Arith, Attr, Compare, Const, Element, Equivalence, IsNull, Not, Or, mentioned, references
from tests.naive.negation import CONTIGUOUS
from tests.naive.patterns import (
    Absence,
    All,
    Group,
    Item,
    OneOf,
    Quantifier,
    Seq,
    Span,
    WholeQuery,
    Window,
    absences_of,
    children,
    closures_of,
    items_of,
)
from tests.naive.shape import Repeat, can_be_empty, shape_of

TYPES: dict[str, tuple[str, ...]] = {"A": ("k", "v", "s"), "B": ("k", "v"), "C": ("k", "v"), "D": ("v", "s"), "E": ("k", "s")}
DOMAINS: dict[str, list[Any]] = {"k": [1, 2], "v": [0, 1, 2, 3], "s": ["x", "y"]}
COMPARISONS = ["=", "!=", "<", "<=", ">", ">="]
STRATEGIES = ["skip-till-any-match", "skip-till-next-match", "strict-contiguity", "partition-contiguity"]
PLUS, STAR, OPTIONAL = Quantifier(1, None), Quantifier(0, None), Quantifier(0, 1, optional=True)
QUANTIFIERS = [
    PLUS,
    PLUS,
    PLUS,
    STAR,
    STAR,
    OPTIONAL,
    OPTIONAL,
    OPTIONAL,
    Quantifier(2, 2),
    Quantifier(1, 2),
    Quantifier(2, None),
    Quantifier(0, 2),
]
GROUP_QUANTIFIERS = [PLUS, PLUS, STAR, OPTIONAL, OPTIONAL, Quantifier(2, 2), Quantifier(1, 2)]


def chance(draw: st.DrawFn, percent: int) -> bool:
    return draw(st.integers(0, 99)) < percent


@dataclass
class Author:
    """Draws the parts of one query; ``budget`` items are left."""

    draw: st.DrawFn
    keyed: bool
    budget: int
    names: Any = field(default_factory=lambda: iter("abcdefgh"))
    negated: Any = field(default_factory=lambda: iter("nmopqruvwxyz"))
    seen: list[Item] = field(default_factory=list)
    """Positive items so far: what stands before, for UNTIL."""

    @property
    def types(self) -> list[str]:
        return [name for name, attributes in TYPES.items() if not self.keyed or "k" in attributes]

    def pattern(self) -> Any:
        return self.sequence(0) if chance(self.draw, 80) else self.node(0)

    def node(self, depth: int) -> Any:
        if depth >= 3 or self.budget <= 1:
            return self.item()
        kind = self.draw(st.sampled_from(["item"] * 9 + ["and", "or", "group", "group", "seq"]))
        if kind == "item":
            return self.item()
        if kind == "group":
            inner = self.sequence(depth + 1) if chance(self.draw, 70) else self.several(depth + 1, [All, OneOf])
            return Group(inner, self.reluctant(self.draw(st.sampled_from(GROUP_QUANTIFIERS))))
        return self.sequence(depth + 1) if kind == "seq" else self.several(depth + 1, [All] if kind == "and" else [OneOf])

    def several(self, depth: int, kinds: list[Any]) -> Any:
        kind = self.draw(st.sampled_from(kinds))
        before = list(self.seen)
        operands = []
        for _ in range(2):
            self.seen = list(before)
            operands.append(self.sequence(depth + 1) if chance(self.draw, 35) and self.budget > 1 else self.node(depth + 1))
        self.seen = before
        first, second = operands
        if kind is OneOf and isinstance(first, Item) and isinstance(second, Item) and first.var and chance(self.draw, 25):
            second = replace(second, var=first.var, until=None)
        return kind((first, second))

    def sequence(self, depth: int) -> Seq:
        items: list[Any] = []
        for _ in range(self.draw(st.sampled_from([1, 2, 2, 2, 3, 3] if depth == 0 else [1, 2, 2]))):
            if self.budget > 0 or not items:
                items += self.absences(12)
                items.append(self.node(depth + 1))
        items += self.absences(10)
        return Seq(tuple(items))

    def absences(self, percent: int) -> list[Absence]:
        if not chance(self.draw, percent):
            return []
        return [Absence(tuple(self.negative() for _ in range(self.draw(st.sampled_from([1, 1, 1, 1, 2])))))]

    def negative(self) -> Item:
        types = self.draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=2, unique=True))
        return Item(tuple(types), next(self.negated, None) if chance(self.draw, 80) else None)

    def item(self) -> Item:
        self.budget -= 1
        types = tuple(self.draw(st.lists(st.sampled_from(self.types), min_size=1, max_size=2 if chance(self.draw, 30) else 1, unique=True)))
        var = next(self.names, None) if chance(self.draw, 92) else None
        made = Item(types, var)
        if chance(self.draw, 9):
            made = self.block(made)
        if chance(self.draw, 45 if made.count is None else 15):
            made = replace(made, quantifier=self.reluctant(self.draw(st.sampled_from(QUANTIFIERS))))
            if made.quantifier is not None and not made.quantifier.optional and chance(self.draw, 15):
                made = replace(made, until=self.until(made))
        self.seen.append(made)
        return made

    def block(self, item: Item) -> Item:
        if chance(self.draw, 40):
            able = [name for name in TYPES if "k" in TYPES[name]] if self.keyed else list(TYPES)
            by = self.draw(st.sampled_from(["k", "v", "s"]))
            types = [name for name in able if by in TYPES[name]][:1] + list(item.types)
            return replace(item, types=tuple(dict.fromkeys(types)), count=2, by=by)
        types = self.draw(st.lists(st.sampled_from(self.types), min_size=2, max_size=3, unique=True))
        return replace(item, types=tuple(types), count=2)

    def reluctant(self, quantifier: Quantifier) -> Quantifier:
        return replace(quantifier, reluctant=chance(self.draw, 15))

    def until(self, item: Item) -> Any:
        if not has(item.types, "v"):
            return Compare("=", Attr(item.var, "s"), Const("x", "string")) if item.var else None
        if item.var is None:
            return None
        own: Any = Attr(item.var, "v")
        earlier = [one for one in self.seen if one.var and has(one.types, "v") and not is_closure(one)]
        shape = self.draw(st.sampled_from(["constant", "sum", "before", "previous", "number"]))
        op = self.draw(st.sampled_from(["=", ">", "<"]))
        if shape == "sum":
            return Compare(">", Aggregate("sum", item.var, "v", running=True), constant(self.draw))
        if shape == "before" and earlier:
            return Compare(op, own, Attr(str(self.draw(st.sampled_from(earlier)).var), "v"))
        if shape == "previous":
            return Compare(op, Element(item.var, "i", "v", 1), own)
        if shape == "number":
            return Compare(op, Element(item.var, 1, "v"), constant(self.draw))
        return Compare(op, own, constant(self.draw))


def is_closure(item: Item) -> bool:
    return item.count is not None or (item.quantifier is not None and not item.quantifier.optional)


def has(types: tuple[str, ...], attribute: str) -> bool:
    return any(attribute in TYPES[name] for name in types)


def constant(draw: st.DrawFn) -> Const:
    return Const(draw(st.sampled_from(DOMAINS["v"])), "integer")


# -- predicates --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variable:
    name: str
    types: tuple[str, ...]
    closure: bool
    optional: bool
    alone: bool = False
    """A negated one in a repeated group: its predicates mention nothing else."""


def variables_of(pattern: Any) -> list[Variable]:
    closures = set(closures_of(pattern))
    types: dict[str, list[str]] = {}
    for item in items_of(pattern):
        if item.var:
            types.setdefault(item.var, []).extend(item.types)
    return [Variable(name, tuple(dict.fromkeys(own)), name in closures, optional=True) for name, own in types.items()]


def negated_of(node: Any, *, repeated: bool = False) -> list[Variable]:
    if isinstance(node, Absence):
        return [Variable(part.var, part.types, closure=False, optional=False, alone=repeated) for part in node.parts if part.var]
    repeated = repeated or isinstance(node, Group)
    return [one for child in children(node) for one in negated_of(child, repeated=repeated)]


def predicate(draw: st.DrawFn, positive: list[Variable], negated: list[Variable]) -> Any:
    if negated and chance(draw, 35):
        one = draw(st.sampled_from(negated))
        others = [] if one.alone else [p for p in positive if has(p.types, "v")]
        left = number(draw, one)
        if left is None:
            return Compare("=", Attr(one.name, "s"), Const("x", "string"))
        right = number(draw, draw(st.sampled_from(others))) if others and chance(draw, 60) else constant(draw)
        return Compare(draw(st.sampled_from(COMPARISONS)), left, right)
    made = comparison(draw, positive)
    if chance(draw, 15):
        return Or((made, comparison(draw, positive)))
    if chance(draw, 6):
        return And((made, comparison(draw, positive)))
    return Not(made) if chance(draw, 7) else made


def comparison(draw: st.DrawFn, positive: list[Variable]) -> Any:
    one, other = draw(st.sampled_from(positive)), draw(st.sampled_from(positive))
    kind = draw(st.sampled_from(["value"] * 6 + ["pair"] * 3 + ["count", "null", "type", "time", "rising", "rising"]))
    op = draw(st.sampled_from(COMPARISONS))
    if kind == "count":
        return Compare(op, Aggregate("count", one.name), Const(draw(st.integers(0, 3)), "integer"))
    if kind == "null":
        return IsNull(reference(draw, one, draw(st.sampled_from([a for a in "kvs" if has(one.types, a)]))), draw(st.booleans()))
    if kind == "type":
        return Compare(draw(st.sampled_from(["=", "!="])), reference(draw, one, "type"), Const(draw(st.sampled_from(one.types)), "string"))
    if kind == "time":
        between = Arith("-", reference(draw, other, "time"), reference(draw, one, "time"))
        return Compare(op, between, Const(draw(st.integers(0, 5)), "duration"))
    left, right = number(draw, one), number(draw, other)
    if left is None:
        return Compare("=", reference(draw, one, "s"), Const(draw(st.sampled_from(DOMAINS["s"])), "string"))
    if kind == "rising" and one.closure:
        before = draw(st.sampled_from([Element(one.name, "i", "v", 1), Aggregate("avg", one.name, "v", running=True, back=1)]))
        return Compare(op, Element(one.name, "i", "v"), before)
    return Compare(op, left, right if kind == "pair" and right is not None else constant(draw))


def number(draw: st.DrawFn, one: Variable) -> Any:
    """A numeric value of the variable; None where no type has v."""
    if not has(one.types, "v"):
        return None
    if one.closure and chance(draw, 35):
        function = draw(st.sampled_from(["sum", "avg", "min", "max", "first", "last"]))
        running = chance(draw, 40)
        return Aggregate(function, one.name, "v", running, draw(st.sampled_from([0, 0, 1])) if running else 0)
    return reference(draw, one, "v")


def reference(draw: st.DrawFn, one: Variable, name: str) -> Any:
    if not one.closure or chance(draw, 40):
        return Attr(one.name, name)
    anchor, back = draw(st.sampled_from([("i", 0), ("i", 1), ("first", 0), ("last", 0), ("last", 1), (1, 0), (2, 0)]))
    return Element(one.name, anchor, name, back)


def returned(draw: st.DrawFn, positive: list[Variable]) -> tuple[tuple[str, Any], ...]:
    fields = []
    for place in range(draw(st.integers(1, 3))):
        one = draw(st.sampled_from(positive))
        kind = draw(st.sampled_from(["bare", "aggregate", "element", "count"]))
        made: Any = Attr(one.name, draw(st.sampled_from(["time", "type", *(a for a in "kvs" if has(one.types, a))])))
        if kind == "count" and (one.closure or one.optional):
            made = Aggregate("count", one.name)
        elif one.closure and kind == "aggregate" and has(one.types, "v"):
            made = Aggregate(draw(st.sampled_from(["sum", "avg", "min", "max", "first", "last"])), one.name, "v")
        elif one.closure and kind == "element":
            anchor, back = draw(st.sampled_from([("first", 0), ("last", 0), ("last", 1), (2, 0)]))
            made = Element(one.name, anchor, made.name, back)
        fields.append((f"f{place}", made))
    return tuple(fields)


# -- queries -----------------------------------------------------------------------------------------------------------


@st.composite
def queries(draw: st.DrawFn) -> WholeQuery:
    """A valid query."""
    keyed = chance(draw, 50)
    author = Author(draw, keyed, draw(st.sampled_from([2, 3, 3, 4])))
    pattern = author.pattern()
    positive, negated = variables_of(pattern), negated_of(pattern)
    query = WholeQuery(
        pattern,
        (Equivalence("k", Const(1, "integer") if chance(draw, 10) else None),) if keyed else (),
        tuple(predicate(draw, positive, negated) for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2])) if positive else 0)),
        returns=returned(draw, positive) if positive and chance(draw, 35) else None,
    )
    if len(query.where) == 1 and not keyed and isinstance(query.where[0], And):
        query = replace(query, where=query.where[0].operands)  # parentheses around the whole condition change nothing
    query = with_for(draw, bounded(draw, query, keyed=keyed, negated=negated))
    query = with_strategy(draw, query, positive)
    limited = query.within is not None or query.window is not None
    return replace(
        query,
        after=policy(draw, positive),
        longest=limited and chance(draw, 12),
        timeouts=(limited or query.max_gap is not None) and chance(draw, 20),
    )


def bounded(draw: st.DrawFn, query: WholeQuery, *, keyed: bool, negated: list[Variable]) -> WholeQuery:
    kind = draw(st.sampled_from(["none"] * 3 + ["ms"] * 6 + ["events"] * 2 + ["window"] * 3))
    if kind == "none" and any(absences_of(query.pattern)):
        kind = "ms"
    gap = draw(st.integers(1, 4)) if chance(draw, 12) else None
    if kind == "window":
        return replace(query, window=window(draw, query, keyed=keyed), max_gap=gap)
    size = {"none": None, "ms": Span(draw(st.integers(2, 10))), "events": Span(draw(st.integers(2, 7)), "events")}[kind]
    return replace(query, within=size, max_gap=gap)


def window(draw: st.DrawFn, query: WholeQuery, *, keyed: bool) -> Window:
    unit = draw(st.sampled_from(["ms", "events"]))
    size = draw(st.integers(2, 7))
    if chance(draw, 25):
        condition = Compare(draw(st.sampled_from(COMPARISONS)), Attr("z", "v"), constant(draw)) if chance(draw, 50) else None
        return Window(Span(size, unit), opener=Item((draw(st.sampled_from(["A", "B", "C", "D"])),), "z"), condition=condition)
    slide = Span(draw(st.integers(1, size)), unit) if chance(draw, 60) else None
    all_keyed = all("k" in TYPES[name] for absence in absences_of(query.pattern) for part in absence.parts for name in part.types)
    return Window(Span(size, unit), slide, per_partition=unit == "events" and keyed and all_keyed and chance(draw, 40))


def with_for(draw: st.DrawFn, query: WholeQuery) -> WholeQuery:
    """FOR at the negations behind everything else."""
    pattern = query.pattern
    if query.window is not None or not isinstance(pattern, Seq) or not isinstance(pattern.items[-1], Absence) or not chance(draw, 30):
        return query
    last = replace(pattern.items[-1], for_ms=draw(st.integers(1, 5)))
    return replace(query, pattern=Seq((*pattern.items[:-1], last)))


def with_strategy(draw: st.DrawFn, query: WholeQuery, positive: list[Variable]) -> WholeQuery:
    default = draw(st.sampled_from([*STRATEGIES, *STRATEGIES[:2] * 4]))
    ways = {}
    if positive and chance(draw, 18):
        for one in draw(st.lists(st.sampled_from(positive), min_size=1, max_size=2, unique_by=lambda v: v.name)):
            further = one.closure and chance(draw, 60)
            ways[one.name + "[]" * further] = draw(st.sampled_from(STRATEGIES))
    if chance(draw, 30):
        able = contiguous_negations(query.pattern)
        ways |= {name: draw(st.sampled_from(CONTIGUOUS)) for name in able}
    return replace(query, strategy=default, ways=ways)


def contiguous_negations(pattern: Any) -> list[str]:
    """Single negated items that stand right behind a positive item that must bind."""
    items = pattern.items if isinstance(pattern, Seq) else ()
    return [
        str(item.parts[0].var)
        for before, item in pairwise(items)
        if isinstance(item, Absence) and len(item.parts) == 1 and item.parts[0].var
        if isinstance(before, Item) and (before.quantifier is None or before.quantifier.low > 0)
    ]


def policy(draw: st.DrawFn, positive: list[Variable]) -> str:
    if not chance(draw, 35):
        return "no-skip"
    chosen = draw(st.sampled_from(["skip-past-last-event", "skip-to-next", "skip-to-first", "skip-to-last"]))
    if not chosen.endswith(("first", "last")):
        return chosen
    return f"{chosen} {draw(st.sampled_from(positive)).name}" if positive else "skip-to-next"


# -- streams -----------------------------------------------------------------------------------------------------------


@st.composite
def streams(draw: st.DrawFn, query: WholeQuery, most: int = 9) -> list[dict[str, Any]]:
    """Lines for the query: mostly types that it speaks of, ties in time, nulls; a type that occurs has a value of each of its attributes."""
    spoken = [name for item in items_of(query.pattern) for name in item.types]
    spoken += [name for absence in absences_of(query.pattern) for part in absence.parts for name in part.types]
    names = [*spoken * 4, *TYPES] if spoken else list(TYPES)
    time, lines, seen = 0, [], set()
    for _ in range(draw(st.sampled_from([1, 3, 5, 6, 7, 8, most, most]))):
        time += draw(st.sampled_from([0, 0, 1, 1, 1, 2, 3]))
        name = draw(st.sampled_from(names))
        cells = {
            attribute: None if name in seen and chance(draw, 7) else draw(st.sampled_from(DOMAINS[attribute])) for attribute in TYPES[name]
        }
        seen.add(name)
        lines.append({"type": name, "time": time, **cells})
    return draw(st.permutations(lines)) if chance(draw, 10) else lines


def is_valid_for(query: WholeQuery, lines: list[dict[str, Any]]) -> bool:
    """Whether everything that the query mentions is known: it is an error if types of a variable occur and none of them has the attribute.

    And whether negated starts that reach back so many events of a partition are decided by the newest event, where it is in no partition.
    """
    occurring = {line["type"] for line in lines}
    types: dict[str, set[str]] = {}
    parts = [part for absence in absences_of(query.pattern) for part in absence.parts]
    for item in [*items_of(query.pattern), *parts, *([query.window.opener] if query.window and query.window.opener else [])]:
        if item.var:
            types.setdefault(item.var, set()).update(occurring.intersection(item.types))
    untils = [item.until for item in items_of(query.pattern) if item.until is not None]
    expressions = [*query.where, *untils, *(expression for _, expression in query.returns or ()), query.window and query.window.condition]
    asked = [(one.var, one.name) for expression in expressions if expression is not None for one in references(expression)]
    asked += [(item.var, item.by) for item in items_of(query.pattern) if item.by is not None and item.var]
    counted = query.within is not None and query.within.unit == "events"
    for absence in absences_at_start(shape_of(query.pattern)) if counted else ():
        reaching = occurring.intersection(name for part in absence.parts for name in part.types)
        lacking = any(test.attribute not in TYPES[name] for name in reaching for test in query.equivalence)
        names = {part.var for part in absence.parts if part.var}
        if lacking and (len(absence.parts) > 1 or any(names & (own := mentioned(one)) and own - names for one in query.where)):
            return False
    return all(
        not types[var] or name in ("time", "type", None) or any(name in TYPES[one] for one in types[var]) for var, name in asked
    ) and all(
        item.by is None
        or not occurring.intersection(item.types)
        or any(item.by in TYPES[one] for one in occurring.intersection(item.types))
        for item in items_of(query.pattern)
    )


def absences_at_start(node: Any, *, first: bool = True) -> list[Absence]:
    """The negations before which no event need be bound."""
    if isinstance(node, Absence):
        return [node] if first else []
    if isinstance(node, Repeat):
        return absences_at_start(node.inner, first=first)
    found: list[Absence] = []
    for child in children(node):
        found += absences_at_start(child, first=first)
        first = first and (not isinstance(node, Seq) or can_be_empty(child))
    return found
