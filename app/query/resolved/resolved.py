"""A query after resolution: every name has become a binding or an attribute with a kind. The whole language, before planning."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.events.types import Kind
from app.query import expressions as e
from app.query.plan import ReturnField
from app.query.resolved.vocabulary import Vocabulary
from app.query.tree import tree as t
from app.query.tree.document import Document


@dataclass(frozen=True, slots=True)
class Binding:
    """A variable, or an anonymous item: what an event (or, of a closure, a list of events) is bound to.

    Bindings are numbered in textual order; a variable of several OR branches has one number.
    """

    index: int
    variable: str | None
    types: tuple[str, ...]
    negated: bool = False
    closure: bool = False
    optional: bool = False
    """Whether a match may leave it unbound."""
    span: t.Span = t.NOWHERE
    groups: tuple[int, ...] = ()
    """Numbers of the repeated groups around it, outermost first; of a variable of several OR branches those of all."""

    @property
    def label(self) -> str:
        """What to call it in a message."""
        return self.variable or "/".join(self.types)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A place of the pattern."""

    binding: int
    types: tuple[str, ...]
    quantifier: t.Quantifier | None = None
    count: int | None = None
    by: str | None = None
    until: e.Expression | None = None
    span: t.Span = t.NOWHERE


@dataclass(frozen=True, slots=True)
class Absence:
    """A negation."""

    parts: tuple[Leaf, ...]
    for_ms: int | None = None
    at_start: bool = False
    at_end: bool = False
    span: t.Span = t.NOWHERE


@dataclass(frozen=True, slots=True)
class Series:
    """One after the other."""

    items: tuple[Node, ...]
    span: t.Span = t.NOWHERE


@dataclass(frozen=True, slots=True)
class AllOf:
    """All, in any order."""

    operands: tuple[Node, ...]
    span: t.Span = t.NOWHERE


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of them."""

    operands: tuple[Node, ...]
    span: t.Span = t.NOWHERE


@dataclass(frozen=True, slots=True)
class Repeat:
    """A group with a quantifier."""

    inner: Node
    quantifier: t.Quantifier
    number: int = 0
    span: t.Span = t.NOWHERE


Node = Leaf | Absence | Series | AllOf | OneOf | Repeat


@dataclass(frozen=True, slots=True)
class Equivalence:
    """``[attr]``, ``[attr = 'v']``."""

    attribute: str
    kind: Kind
    value: e.Literal | None = None
    span: t.Span = t.NOWHERE


@dataclass(frozen=True, slots=True)
class Predicate:
    """An argument of the outermost ANDs."""

    condition: e.Expression
    bindings: tuple[int, ...]
    negated: int | None = None
    """The negated binding that it mentions."""
    span: t.Span = t.NOWHERE


@dataclass(frozen=True, slots=True)
class Resolved:
    """A pattern query whose names and kinds are all known."""

    document: Document
    streams: tuple[str, ...]
    pattern: Node
    bindings: tuple[Binding, ...]
    predicates: tuple[Predicate, ...]
    equivalence: tuple[Equivalence, ...]
    returns: tuple[ReturnField, ...]
    vocabulary: Vocabulary
    opener: e.Expression | None = None

    @property
    def returns_known(self) -> bool:
        """Whether all return fields are known. Where no `return` says them they are the attributes of the types, of which some may never have been described."""
        types = [self.vocabulary.event_type(name) for binding in self.bindings if not binding.negated for name in binding.types]
        return self.document.has("return") or all(known is not None and known.occurs for known in types)

    def binding(self, variable: str) -> Binding | None:
        """The binding of a variable."""
        return next((b for b in self.bindings if b.variable == variable), None)


@dataclass(frozen=True, slots=True)
class ResolvedTemporal:
    """A temporal query whose names and kinds are all known.

    ``types``: those that have all of ``select`` and ``key``, whose events are the tuples; empty: any.
    """

    document: Document
    streams: tuple[str, ...]
    types: tuple[str, ...]
    select: tuple[str, ...]
    key: tuple[str, ...]
    where: e.Expression | None
    valid: t.IntervalTest | None
    returns: tuple[ReturnField, ...]
    vocabulary: Vocabulary


def absences(node: Node) -> list[Absence]:
    """All negations of a pattern, in textual order."""
    if isinstance(node, Absence):
        return [node]
    if isinstance(node, Leaf):
        return []
    inner = (node.inner,) if isinstance(node, Repeat) else node.items if isinstance(node, Series) else node.operands
    return [absence for part in inner for absence in absences(part)]


def leaves(node: Node) -> list[Leaf]:
    """All positive places of a pattern, in textual order."""
    if isinstance(node, Leaf):
        return [node]
    if isinstance(node, Absence):
        return []
    inner = (node.inner,) if isinstance(node, Repeat) else node.items if isinstance(node, Series) else node.operands
    return [leaf for part in inner for leaf in leaves(part)]


def flattened(node: Node) -> Node:
    """The same pattern without layers that mean nothing: a SEQ inside a SEQ, an AND or OR of one."""
    if isinstance(node, AllOf | OneOf):
        operands = tuple(flattened(operand) for operand in node.operands)
        return operands[0] if len(operands) == 1 else replace(node, operands=operands)
    if isinstance(node, Repeat):
        return replace(node, inner=flattened(node.inner))
    if not isinstance(node, Series):
        return node
    items: list[Node] = []
    for item in node.items:
        flat = flattened(item)
        items.extend(flat.items if isinstance(flat, Series) else (flat,))
    return replace(node, items=tuple(items))
