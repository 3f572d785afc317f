"""Resolution of ``event:``: types are looked up, variables become bindings, negations learn where they stand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from app.errors import Finding
from app.query.resolved import resolved as r
from app.query.resolved.kinds import clash
from app.query.resolved.vocabulary import BUILT_IN, Vocabulary
from app.query.tree import tree as t
from app.query.tree.document import Written
from app.similar import did_you_mean


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node stands, seen from the root."""

    branches: tuple[tuple[int, int], ...] = ()
    """(number of an OR, branch) for every OR around it."""
    groups: tuple[int, ...] = ()
    optional: bool = False
    repeated: bool = False
    """Inside a group that makes closures."""
    nothing_before: bool = True
    """Whether the match may have no positive event before."""
    nothing_behind: bool = True
    only_negations_behind: bool = True
    in_sequence: bool = True
    """Whether all nodes around it are SEQs (FOR needs that)."""


@dataclass(slots=True)
class _Occurrence:
    primary: t.Primary
    place: _Place
    negated: bool


@dataclass(slots=True)
class PatternResolver:
    """Walks a pattern once; `untils` are left for later, when all variables are known."""

    written: Written
    vocabulary: Vocabulary
    findings: list[Finding]
    bindings: list[r.Binding] = field(default_factory=list)
    untils: list[tuple[int, t.Primary, frozenset[str]]] = field(default_factory=list)
    """(binding, primary, variables bound before)."""
    _occurrences: dict[int, list[_Occurrence]] = field(default_factory=dict)
    _count: int = 0

    def report(self, message: str, span: t.Span, hint: str | None = None) -> None:
        """One finding at a part of the pattern."""
        self.findings.append(Finding(message, self.written.location(span), hint))

    def resolve(self, pattern: t.Pattern) -> r.Node:
        """The resolved pattern; bindings are complete afterwards."""
        node = self._node(pattern, _Place(), frozenset())
        if not any(not binding.negated for binding in self.bindings):
            self.report("a pattern needs an event that is not negated", pattern.span, "for instance SEQ(A a, !(B b))")
        return node

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _node(self, node: t.Pattern | t.Negation, place: _Place, before: frozenset[str]) -> r.Node:
        if isinstance(node, t.Primary):
            return self._leaf(node, place, before, negated=False)
        if isinstance(node, t.Negation):
            return self._absence(node, place)
        if isinstance(node, t.Sequence):
            return self._series(node, place, before)
        if isinstance(node, t.Group):
            return self._group(node, place, before)
        number = self._number()
        if isinstance(node, t.Conjunction):
            inner = replace(place, in_sequence=False)
            # the parts of an AND are neither before nor after each other, but a match has the events of all of them
            operands = []
            for index, operand in enumerate(node.operands):
                others = [other for position, other in enumerate(node.operands) if position != index]
                empty = all(_can_be_empty(other) for other in others)
                here = replace(
                    inner,
                    nothing_before=inner.nothing_before,
                    nothing_behind=inner.nothing_behind,
                    only_negations_behind=inner.only_negations_behind and empty,
                )
                operands.append(self._node(operand, here, before))
            return r.AllOf(tuple(operands), node.span)
        branches = []
        for index, operand in enumerate(node.operands):
            inner = replace(
                place, branches=(*place.branches, (number, index)), optional=place.optional or len(node.operands) > 1, in_sequence=False
            )
            branches.append(self._node(operand, inner, before))
        return r.OneOf(tuple(branches), node.span)

    def _series(self, node: t.Sequence, place: _Place, before: frozenset[str]) -> r.Node:
        items: list[r.Node] = []
        for index, item in enumerate(node.items):
            earlier, later = node.items[:index], node.items[index + 1 :]
            here = replace(
                place,
                nothing_before=place.nothing_before and all(_can_be_empty(other) for other in earlier),
                nothing_behind=place.nothing_behind and all(_can_be_empty(other) for other in later),
                only_negations_behind=place.only_negations_behind and all(isinstance(other, t.Negation) for other in later),
            )
            items.append(self._node(item, here, before))
            before |= _variables(item)
        return r.Series(tuple(items), node.span)

    def _group(self, node: t.Group, place: _Place, before: frozenset[str]) -> r.Node:
        if isinstance(node.inner, t.Primary) and node.inner.quantifier is None and node.inner.types.count is None:
            # parentheses around a single item change nothing
            primary = replace(node.inner, quantifier=node.quantifier, span=node.span)
            return self._leaf(primary, place, before, negated=False)
        number = self._number()
        quantifier = node.quantifier
        inner = replace(
            place,
            groups=(*place.groups, number) if quantifier.closure else place.groups,
            optional=place.optional or quantifier.low == 0,
            repeated=place.repeated or quantifier.closure,
            in_sequence=False,
        )
        resolved = self._node(node.inner, inner, before)
        if not tuple(r.leaves(resolved)):
            self.report("a group with a quantifier needs an event that is not negated", node.span, "write !(B b) without the group")
        return r.Repeat(resolved, quantifier, number, node.span)

    def _leaf(self, primary: t.Primary, place: _Place, before: frozenset[str], *, negated: bool) -> r.Leaf:
        types = tuple(dict.fromkeys(name.name for name in primary.types.names))
        for name in primary.types.names:
            if self.vocabulary.event_type(name.name) is None:
                streams = ", ".join(f'"{schema.stream}"' for schema in self.vocabulary.schemas)
                owner = f"stream {streams}" if len(self.vocabulary.schemas) == 1 else f"streams {streams}"
                hint = did_you_mean(name.name, self.vocabulary.names, "it" if len(self.vocabulary.schemas) == 1 else "they together")
                has = "has" if len(self.vocabulary.schemas) == 1 else "have"
                self.report(f'{owner} {has} no event type "{name.name}"', name.span, hint)
        if primary.types.by is not None:
            self._check_by(primary)
        index = self._bind(primary, types, place, negated=negated)
        if primary.until is not None:
            self.untils.append((index, primary, before))
        return r.Leaf(index, types, primary.quantifier, primary.types.count, primary.types.by, None, primary.span)

    def _check_by(self, primary: t.Primary) -> None:
        path = primary.types.by or ""
        found = [event_type for name in primary.types.names if (event_type := self.vocabulary.event_type(name.name)) is not None]
        occurring = [event_type for event_type in found if event_type.occurs]
        if path in BUILT_IN or not occurring:
            return
        if any(event_type.attribute(path) for event_type in occurring):
            if self.vocabulary.column_kind(path) is None:
                message, hint = clash(path, self.vocabulary)
                self.report(message, primary.types.by_span, hint)
            return
        names = "/".join(event_type.name for event_type in occurring)
        listing = [attribute.name for event_type in occurring for attribute in event_type.attributes]
        self.report(f'event type "{names}" has no attribute "{path}"', primary.types.by_span, did_you_mean(path, listing, names))

    def _bind(self, primary: t.Primary, types: tuple[str, ...], place: _Place, *, negated: bool) -> int:
        quantifier = primary.quantifier
        closure = place.repeated or primary.types.count is not None or (quantifier is not None and quantifier.closure)
        optional = place.optional or (quantifier is not None and quantifier.low == 0)
        known = next((b for b in self.bindings if primary.variable is not None and b.variable == primary.variable), None)
        if known is None:
            span = primary.variable_span if primary.variable is not None else primary.span
            binding = r.Binding(len(self.bindings), primary.variable, types, negated, closure, optional, span, place.groups)
            self.bindings.append(binding)
            self._occurrences[binding.index] = [_Occurrence(primary, place, negated)]
            return binding.index
        for other in self._occurrences[known.index]:
            if not _in_different_branches(place, other.place):
                self.report(
                    f'variable "{primary.variable}" stands twice',
                    primary.variable_span,
                    "choose another name; only branches of an OR may share one",
                )
                break
            if negated or other.negated:
                self.report(f'variable "{primary.variable}" is negated in another branch', primary.variable_span, "choose another name")
                break
        self._occurrences[known.index].append(_Occurrence(primary, place, negated))
        merged = replace(
            known,
            types=tuple(dict.fromkeys((*known.types, *types))),
            closure=known.closure or closure,
            groups=tuple(dict.fromkeys((*known.groups, *place.groups))),
        )
        self.bindings[known.index] = merged
        return known.index

    def _absence(self, node: t.Negation, place: _Place) -> r.Absence:
        parts = tuple(self._leaf(part, place, frozenset(), negated=True) for part in node.parts)
        if node.for_ms is not None and not (place.only_negations_behind and place.in_sequence):
            self.report(
                "FOR stands only at the end: only negations may stand behind it",
                node.for_span,
                "move the negation to the end, or leave FOR out",
            )
        return r.Absence(parts, node.for_ms, place.nothing_before, place.nothing_behind, node.span)


def _in_different_branches(left: _Place, right: _Place) -> bool:
    other = dict(right.branches)
    return any(number in other and other[number] != branch for number, branch in left.branches)


def _can_be_empty(node: t.Pattern | t.Negation) -> bool:
    """Whether a match may have no positive event of the node."""
    if isinstance(node, t.Negation):
        return True
    if isinstance(node, t.Primary):
        return node.quantifier is not None and node.quantifier.low == 0
    if isinstance(node, t.Group):
        return node.quantifier.low == 0 or _can_be_empty(node.inner)
    inner = [_can_be_empty(part) for part in (node.items if isinstance(node, t.Sequence) else node.operands)]
    return any(inner) if isinstance(node, t.Disjunction) else all(inner)


def _variables(node: t.Pattern | t.Negation) -> frozenset[str]:
    """The positive variables inside a node."""
    if isinstance(node, t.Primary):
        return frozenset({node.variable} if node.variable else ())
    if isinstance(node, t.Negation):
        return frozenset()
    if isinstance(node, t.Group):
        return _variables(node.inner)
    parts = node.items if isinstance(node, t.Sequence) else node.operands
    return frozenset().union(*(_variables(part) for part in parts))
