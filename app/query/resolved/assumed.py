"""Schemas guessed from the query itself, for people who explain a query where no schemas are known.

Nothing is ever reported on the ground of a guess: a plan made so is only shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.resolved import resolved as r
from app.query.resolved.vocabulary import BUILT_IN, NUMERIC
from app.query.tree import tree as t
from app.query.tree.document import Written
from app.query.tree.inline_tests import QueryTest

_LITERALS = {"timestamp": Kind.TIME}
_OPENER = "open:"
"""Stands for the window's opener among variables."""
_LOOKS: tuple[tuple[type, Kind], ...] = ((bool, Kind.BOOLEAN), (int, Kind.INTEGER), (float, Kind.FLOAT), (str, Kind.STRING))


@dataclass(slots=True)
class _Evidence:
    """What a query's expressions say about the kinds of attributes; attributes that are compared have one kind."""

    kinds: dict[str, set[Kind]] = field(default_factory=dict)
    links: list[tuple[str, str]] = field(default_factory=list)
    owners: dict[str, set[str]] = field(default_factory=dict)
    """Variables by attribute."""
    opener: bool = False
    """Whether what is read belongs to the window's opener, whose variable is its own."""
    bare: bool = False
    """Whether attributes stand without variables, as in temporal queries."""

    def expression(self, node: t.Expression) -> Kind | str | None:
        """Reads a node; returns its kind, or the attribute that it is, or None where it could be anything."""
        readers: dict[type, Callable[..., Kind | str | None]] = {
            t.Constant: lambda n: _LITERALS.get(n.kind) or Kind(n.kind),
            t.Reference: self._reference,
            t.Arithmetic: self._arithmetic,
            t.Negative: lambda n: self._together([n.operand], Kind.FLOAT),
            t.Call: self._call,
            t.Comparison: lambda n: self._together([n.left, n.right]),
            t.Between: lambda n: self._together([n.operand, n.low, n.high]),
            t.In: lambda n: self._together([n.operand, *n.values]),
            t.Like: lambda n: self._together([n.operand], Kind.STRING),
            t.IsNull: lambda n: self.expression(n.operand),
            t.Not: lambda n: self.expression(n.operand),
            t.And: self._each,
            t.Or: self._each,
            t.Equivalence: self._equivalence,
        }
        return readers[type(node)](node)

    def query(self, query: r.Resolved | r.ResolvedTemporal) -> None:
        """Reads all that a query says: where, return, UNTILs, its window's opener."""
        given = query.document.values.get("return")
        written = [query.document.expression("where"), *(given.value.values() if given is not None else ())]
        event = query.document.expression("event")
        self.bare = isinstance(query, r.ResolvedTemporal)
        untils = [] if event is None else [primary.until for primary in _primaries(event.tree) if primary.until is not None]
        for tree in (*(one.tree for one in written if one is not None), *untils):
            self.expression(tree)
        opener = _opener(query)
        if opener is not None and opener.where is not None:
            self.opener = True
            self.expression(opener.where)
            self.opener = False

    def _each(self, node: t.And | t.Or) -> None:
        for operand in node.operands:
            self.expression(operand)

    def _reference(self, node: t.Reference) -> Kind | str | None:
        path = t.bare_path(node) if self.bare else node.path
        if path in BUILT_IN:
            return BUILT_IN[path]
        if path:
            self.owners.setdefault(path, set()).add(_OPENER if self.opener else node.variable)
        return path or None

    def _equivalence(self, node: t.Equivalence) -> None:
        self.owners.setdefault(node.path, set()).add("")
        if node.value is not None:
            self._note(node.path, self.expression(node.value))

    def _note(self, attribute: str, other: Kind | str | None) -> None:
        if isinstance(other, Kind):
            self.kinds.setdefault(attribute, set()).add(other)
        elif other is not None:
            self.links.append((attribute, other))

    def _together(self, nodes: Iterable[t.Expression], kind: Kind | None = None) -> Kind | None:
        """All of these have one kind."""
        seen: list[Kind | str | None] = [self.expression(node) for node in nodes] + [kind]
        for one in seen:
            for other in seen:
                if isinstance(one, str) and not isinstance(one, Kind) and one != other:
                    self._note(one, other)
        return kind

    def _arithmetic(self, node: t.Arithmetic) -> Kind | None:
        sides = [self.expression(node.left), self.expression(node.right)]
        timely = {Kind.TIME, Kind.DURATION} & set(sides)
        for one in sides:
            if isinstance(one, str) and not isinstance(one, Kind) and Kind.DURATION not in timely:
                self._note(one, Kind.TIME if timely else Kind.FLOAT)
        if not timely:
            return Kind.FLOAT
        return Kind.DURATION if Kind.DURATION not in timely or Kind.TIME not in timely else Kind.TIME

    def _call(self, node: t.Call) -> Kind | None:
        if node.function in ("length", "lower", "upper"):
            self._together(node.arguments, Kind.STRING)
            return Kind.INTEGER if node.function == "length" else Kind.STRING
        if node.function in ("count", "first", "last", "min", "max"):
            self._together(node.arguments)
            return Kind.INTEGER if node.function == "count" else None
        return self._together(node.arguments, Kind.FLOAT)

    def kind(self, attribute: str, looks: Mapping[str, Kind]) -> Kind:
        """The best guess: what the tests' values look like, what it is compared with, a text."""
        linked = self._linked(attribute)
        kinds = {kind for name in linked for kind in self.kinds.get(name, ())} - {Kind.DURATION}
        if Kind.TIME in kinds:
            return Kind.TIME
        if attribute in looks:
            return looks[attribute]
        if kinds and kinds <= set(NUMERIC):
            return Kind.FLOAT if Kind.FLOAT in kinds else Kind.INTEGER
        return next(iter(sorted(kinds))) if kinds else next((looks[name] for name in sorted(linked) if name in looks), Kind.STRING)

    def _linked(self, attribute: str) -> set[str]:
        known, waiting = {attribute}, [attribute]
        while waiting:
            name = waiting.pop()
            near = {other for pair in self.links if name in pair for other in pair} - known
            known |= near
            waiting += near
        return known


def assumed_schemas(query: r.Resolved | r.ResolvedTemporal, tests: Sequence[QueryTest]) -> dict[str, StreamSchema]:
    """For every stream of the query the same schema: its types, with the attributes that it and its tests mention."""
    evidence = _Evidence()
    evidence.query(query)
    types, looks = _given(tests)
    if isinstance(query, r.ResolvedTemporal):
        _of_tuples(query, evidence, types)
    else:
        _of_bindings(query, evidence, types, {event["type"] for test in tests for event in test.events})
    made = tuple(
        EventType(name, tuple(Attribute(attribute, evidence.kind(attribute, looks), nullable=True) for attribute in attributes))
        for name, attributes in types.items()
    )
    return {stream: StreamSchema(stream, made) for stream in query.streams}


def asked_kinds(queries: Iterable[r.Resolved | r.ResolvedTemporal], attributes: Iterable[str]) -> dict[str, Kind]:
    """The kinds as which queries take attributes that have no value in any event; a text where none of them says."""
    evidence = _Evidence()
    for query in queries:
        evidence.query(query)
    return {attribute: evidence.kind(attribute, {}) for attribute in attributes}


def _given(tests: Sequence[QueryTest]) -> tuple[dict[str, dict[str, None]], dict[str, Kind]]:
    """What the tests' events show: the attributes of their types, and what values look like."""
    types: dict[str, dict[str, None]] = {}
    looks: dict[str, Kind] = {}
    for event in (event for test in tests for event in test.events):
        for name, value in event.items():
            if name in ("type", "time", "stream"):
                continue
            types.setdefault(event["type"], {})[name] = None
            look = next((kind for python, kind in _LOOKS if isinstance(value, python)), None)
            if look is not None:
                looks[name] = look if looks.get(name, look) is look else Kind.FLOAT if {look, looks[name]} <= set(NUMERIC) else Kind.STRING
    return types, looks


def _of_tuples(query: r.ResolvedTemporal, evidence: _Evidence, types: dict[str, dict[str, None]]) -> None:
    """What no line gives, all types have: a null, no mistake. Without any line there is one type."""
    if not types:
        types["tuple"] = {}
    for attribute in dict.fromkeys([*query.key, *query.select, *evidence.owners]):
        if attribute not in BUILT_IN and not any(attribute in attributes for attributes in types.values()):
            for attributes in types.values():
                attributes[attribute] = None


def _of_bindings(query: r.Resolved, evidence: _Evidence, types: dict[str, dict[str, None]], occurring: set[str]) -> None:
    opener = _opener(query)
    opening = [] if opener is None else [r.Binding(-1, _OPENER, tuple(name.name for name in opener.types.names))]
    for name in (name for binding in (*query.bindings, *opening) for name in binding.types):
        types.setdefault(name, {})
    for binding in sorted((*query.bindings, *opening), key=lambda binding: len(binding.types)):
        for attribute, variables in evidence.owners.items():
            having = {name for name in binding.types if attribute in types[name]}
            lacking = set(binding.types) - having
            if "" in variables and binding.variable != _OPENER and not (binding.negated and occurring & lacking):
                # of [attr], every positive type has it; a negated one whose lines lack it agrees with every value
                having = set()
            elif binding.variable not in variables:
                continue
            _give(attribute, binding.types, having, types)
    event = query.document.expression("event")
    for primary in () if event is None else _primaries(event.tree):
        if primary.types.by is not None and primary.types.by not in BUILT_IN:
            names = tuple(name.name for name in primary.types.names)
            _give(primary.types.by, names, {name for name in names if primary.types.by in types[name]}, types)


def _give(attribute: str, names: Sequence[str], having: set[str], types: dict[str, dict[str, None]]) -> None:
    """Of ANY(A, B) x, B lacks what only A is known to have; where none is, all have it."""
    for name in () if having else names:
        types[name][attribute] = None


def _primaries(node: t.Pattern | t.Negation) -> Iterator[t.Primary]:
    """The places of a pattern, in textual order."""
    if isinstance(node, t.Primary):
        yield node
    elif isinstance(node, t.Group):
        yield from _primaries(node.inner)
    else:
        parts = node.items if isinstance(node, t.Sequence) else node.parts if isinstance(node, t.Negation) else node.operands
        for part in parts:
            yield from _primaries(part)


def _opener(query: r.Resolved | r.ResolvedTemporal) -> t.Opener | None:
    """What opens the query's windows."""
    written = query.document.record("window").get("open")
    return written.tree if isinstance(written, Written) else None
