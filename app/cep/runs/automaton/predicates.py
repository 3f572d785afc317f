"""Predicates over runs: which elements of which bindings an expression reads, and the expression rewritten to read them from slots.

A program's ``item`` becomes a *slot*: before it runs, the kernel puts the row of every reference into its slot. Slot 0 is the event at hand:
a negated event, or one that an UNTIL is asked. Aggregates become constants of the program that the kernel fills in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from app.cep.runs import arrays as at
from app.events.types import Kind
from app.query import expressions as e

_FUNCTIONS = {"count": at.COUNT_OF, "sum": at.SUM, "min": at.MIN, "max": at.MAX, "avg": at.AVG}


@dataclass(frozen=True, slots=True)
class Argument(e.Literal):
    """An aggregate in a program: a constant that is filled in before the program runs. ``value`` is its number among the arguments."""

    filled_in = True


@dataclass(frozen=True, slots=True)
class Reference:
    """What stands in a slot. ``number``: of the element for FIXED, how far back for LAST and RUNNING."""

    binding: int
    anchor: int
    number: int = 0


@dataclass(slots=True)
class Rewritten:
    """An expression over slots.

    Attributes:
        expression: the rewritten expression.
        references: what stands in slots 1, 2, ...
        arguments: the aggregates.
        own: the binding whose event stands in slot 0, or -1.
        witnessed: some references are not read; they say when, or for which ``i``, the others may be.
        running: the anchor of what speaks of ``i``.
    """

    expression: Any
    references: list[Reference] = field(default_factory=list)
    arguments: list[e.Aggregate] = field(default_factory=list)
    own: int = -1
    witnessed: bool = False
    running: int = at.RUNNING

    @property
    def indexed(self) -> bool:
        """Whether it speaks of ``i``."""
        return any(r.anchor == at.RUNNING for r in self.references) or any(a.running for a in self.arguments)

    def bindings(self) -> frozenset[int]:
        """All bindings that it reads from the run."""
        return frozenset(r.binding for r in self.references) | frozenset(a.item for a in self.arguments)

    def settled_late(self) -> frozenset[int]:
        """Bindings that it reads otherwise than by ``i``: an instance may wait for them."""
        return frozenset(r.binding for r in self.references if r.anchor != at.RUNNING) | frozenset(
            a.item for a in self.arguments if not a.running
        )

    def backs(self, binding: int | None = None) -> list[int]:
        """How far back of ``i`` it reads (of one binding)."""
        own = [r.number for r in self.references if r.anchor == at.RUNNING and binding in (None, r.binding)]
        return own + [a.back for a in self.arguments if a.running and binding in (None, a.item)]


def rewrite(expression: Any, own: int = -1, *, running: int = at.RUNNING) -> Rewritten:
    """Rewrites an expression.

    Args:
        expression: of `app.query.expressions`.
        own: binding whose event without index stands in slot 0.
        running: the anchor of what speaks of ``i``; MAYBE for an UNTIL, which is asked also where there is no such element.
    """
    found = Rewritten(None, own=own, running=running)
    found.expression = _rewritten(expression, found)
    return found


def _rewritten(expression: Any, found: Rewritten) -> Any:
    if isinstance(expression, e.AttributeOf):
        return _reference(expression, found)
    if isinstance(expression, e.Aggregate):
        return _aggregate(expression, found)
    return e.rebuilt(expression, lambda inner: _rewritten(inner, found))


def _reference(attribute: e.AttributeOf, found: Rewritten) -> e.AttributeOf:
    if attribute.item == found.own and (attribute.index is None or (attribute.index.anchor == "running" and attribute.index.back == 0)):
        return replace(attribute, item=0, index=None)
    index = attribute.index
    if index is None:
        reference = Reference(attribute.item, at.PLAIN)
    elif index.anchor == "running":
        reference = Reference(attribute.item, found.running, index.back)
    elif index.anchor == "last":
        reference = Reference(attribute.item, at.LAST, index.back)
    else:
        reference = Reference(attribute.item, at.FIXED, 1 if index.anchor == "first" else index.number)
    return replace(attribute, item=_slot(reference, found), index=None)


def _slot(reference: Reference, found: Rewritten) -> int:
    """The slot in which a reference stands."""
    if reference not in found.references:
        found.references.append(reference)
    return found.references.index(reference) + 1


def _aggregate(aggregate: e.Aggregate, found: Rewritten) -> Any:
    if aggregate.function in ("first", "last"):
        if aggregate.function == "first":
            # the element is known early, but asked for where the elements up to i are there, or when the closure is finished
            running = Reference(aggregate.item, found.running, aggregate.back)
            _slot(running if aggregate.running else Reference(aggregate.item, at.LAST), found)
            found.witnessed = True
        running_last = aggregate.running and aggregate.function == "last"
        index = e.Index("running", back=aggregate.back) if running_last else e.Index(aggregate.function)
        return _reference(e.AttributeOf(aggregate.kind, aggregate.item, aggregate.attribute or "", index), found)
    if aggregate not in found.arguments:
        found.arguments.append(aggregate)
    return Argument(aggregate.kind, found.arguments.index(aggregate))


def function_of(aggregate: e.Aggregate) -> int:
    """Its number for the kernels."""
    return _FUNCTIONS[aggregate.function]


def strict(expression: Any) -> Any:
    """The condition of an UNTIL: a comparison with something that does not exist is false."""
    if isinstance(expression, e.COMPARISONS):
        missing = [_missing(node) for node in _attributes(expression)]
        # the first of the elements before is there as soon as the one before is
        firsts = [node for node in e.walk(expression) if isinstance(node, e.Aggregate) and node.function == "first" and node.running]
        missing += [_missing(e.AttributeOf(Kind.TIME, node.item, "time", e.Index("running", back=node.back))) for node in firsts]
        return e.And((expression, *(e.Not(one) for one in missing))) if missing else expression
    return e.rebuilt(expression, strict)


def _missing(attribute: e.AttributeOf | e.Aggregate) -> e.And:
    """True only where the value is absent: then both of its comparisons with itself are true."""
    return e.And((e.Comparison("=", attribute, attribute), e.Comparison("!=", attribute, attribute)))


def _attributes(expression: e.Expression) -> Iterator[e.AttributeOf | e.Aggregate]:
    for node in e.walk(expression):
        if isinstance(node, e.AttributeOf) or (isinstance(node, e.Aggregate) and node.function != "count"):
            yield node
