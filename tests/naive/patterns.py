"""A whole query of the language as value objects, and the same as text; what `tests.naive.language` is for plain sequences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.naive.language import Equivalence, constant_text, text


@dataclass(frozen=True)
class Quantifier:
    """``low`` to ``high`` times (None: no end); ``optional`` is written ``?`` and makes no closure."""

    low: int
    high: int | None
    reluctant: bool = False
    optional: bool = False


@dataclass(frozen=True)
class Item:
    """A place for events of some types; with ``count`` it is ``ANY(count; types by ..)``."""

    types: tuple[str, ...]
    var: str | None = None
    quantifier: Quantifier | None = None
    count: int | None = None
    by: str | None = None
    until: Any = None


@dataclass(frozen=True)
class Absence:
    """``!(part)``, ``!(AND(part, part))``; ``for_ms`` of ``FOR``."""

    parts: tuple[Item, ...]
    for_ms: int | None = None


@dataclass(frozen=True)
class Seq:
    """One after the other; some items are `Absence`."""

    items: tuple[Any, ...]


@dataclass(frozen=True)
class All:
    """All, in any order."""

    operands: tuple[Any, ...]


@dataclass(frozen=True)
class OneOf:
    """One of them."""

    operands: tuple[Any, ...]


@dataclass(frozen=True)
class Group:
    """``( ... )`` with a quantifier."""

    inner: Any
    quantifier: Quantifier


@dataclass(frozen=True)
class Span:
    """A length in milliseconds or in events."""

    size: int
    unit: str = "ms"

    def __str__(self) -> str:
        return f"{self.size} {self.unit}"


@dataclass(frozen=True)
class Window:
    """An explicit window; ``opener`` is an `Item` with perhaps a condition."""

    size: Span
    slide: Span | None = None
    per_partition: bool = False
    opener: Item | None = None
    condition: Any = None


@dataclass(frozen=True)
class WholeQuery:
    """Any pattern query."""

    pattern: Any
    equivalence: tuple[Equivalence, ...] = ()
    where: tuple[Any, ...] = ()
    within: Span | None = None
    window: Window | None = None
    max_gap: int | None = None
    strategy: str = "skip-till-any-match"
    ways: dict[str, str] = field(default_factory=dict)
    """Strategies set apart: of ``x`` and of ``x[]``."""
    after: str = "no-skip"
    longest: bool = False
    timeouts: bool = False
    returns: tuple[tuple[str, Any], ...] | None = None
    name: str = "q"
    version: int = 1


def children(node: Any) -> tuple[Any, ...]:
    match node:
        case Seq(items):
            return items
        case All(operands) | OneOf(operands):
            return operands
        case Group(inner):
            return (inner,)
    return ()


def items_of(node: Any) -> Iterator[Item]:
    """All positive items in textual order."""
    if isinstance(node, Item):
        yield node
    for child in children(node):
        yield from items_of(child)


def groups_of(node: Any) -> Iterator[Group]:
    """All quantified groups."""
    if isinstance(node, Group):
        yield node
    for child in children(node):
        yield from groups_of(child)


def absences_of(node: Any) -> Iterator[Absence]:
    """All negations in textual order."""
    if isinstance(node, Absence):
        yield node
    for child in children(node):
        yield from absences_of(child)


def closures_of(node: Any, *, inside: bool = False) -> Iterator[str]:
    """Closure variables: they, or a group around them, carry + * {..}, or they belong to ANY(n; ..)."""
    quantifier = node.quantifier if isinstance(node, Item | Group) else None
    inside = inside or (quantifier is not None and not quantifier.optional)
    if isinstance(node, Item) and node.var and (inside or node.count is not None):
        yield node.var
    for child in children(node):
        yield from closures_of(child, inside=inside)


# -- text --------------------------------------------------------------------------------------------------------------


def pattern_text(node: Any) -> str:
    """The text behind ``event:``."""
    match node:
        case Item():
            return item_text(node)
        case Absence(parts, for_ms):
            inner = item_text(parts[0]) if len(parts) == 1 else f"AND({', '.join(map(item_text, parts))})"
            return f"!({inner})" + (f" FOR {for_ms} ms" if for_ms is not None else "")
        case Group(inner, quantifier):
            return f"({pattern_text(inner)}){quantifier_text(quantifier)}"
    word = {Seq: "SEQ", All: "AND", OneOf: "OR"}[type(node)]
    return f"{word}({', '.join(map(pattern_text, children(node)))})"


def item_text(item: Item) -> str:
    names = ", ".join(name if name.isidentifier() else constant_text(name, "string") for name in item.types)
    if item.count is not None:
        types = f"ANY({item.count}; {names}{f' BY {item.by}' if item.by else ''})"
    else:
        types = names if len(item.types) == 1 else f"ANY({names})"
    variable = f" {item.var}" if item.var else ""
    until = f" UNTIL ({text(item.until)})" if item.until is not None else ""
    return f"{types}{variable}{quantifier_text(item.quantifier)}{until}"


def quantifier_text(quantifier: Quantifier | None) -> str:
    if quantifier is None:
        return ""
    low, high = quantifier.low, quantifier.high
    if quantifier.optional:
        body = "?"
    elif high is None and low < 2:
        body = "*" if low == 0 else "+"
    else:
        body = f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"
    return body + "?" * quantifier.reluctant


def where_text(query: WholeQuery) -> str:
    """The text behind ``where:``."""
    tests = [f"[{e.attribute}]" if e.value is None else f"[{e.attribute} = {text(e.value)}]" for e in query.equivalence]
    return " AND ".join([*tests, *map(text, query.where)])


def yaml_text(query: WholeQuery) -> str:
    """The query file."""
    lines = [f"name: {query.name}", f"version: {query.version}", f"event: {quoted(pattern_text(query.pattern))}"]
    if where := where_text(query):
        lines.append(f"where: {quoted(where)}")
    if query.within is not None:
        lines.append(f"within: {query.within}")
    if query.window is not None:
        lines.append(f"window: {{{window_text(query.window)}}}")
    if query.max_gap is not None:
        lines.append(f"max_gap: {query.max_gap} ms")
    apart = [f"{quoted(name)}: {strategy}" for name, strategy in query.ways.items()]
    lines.append(f"strategy: {{{', '.join([f'default: {query.strategy}', *apart])}}}" if apart else f"strategy: {query.strategy}")
    lines += [f"after: {query.after}"] * (query.after != "no-skip")
    lines += ["emit: longest"] * query.longest + ["on_timeout: emit"] * query.timeouts
    if query.returns is not None:
        lines += ["return:", *(f"  {name}: {quoted(text(expression))}" for name, expression in query.returns)]
    return "\n".join(lines) + "\n"


def window_text(window: Window) -> str:
    parts = [f"size: {window.size}"]
    if window.slide is not None:
        parts.append(f"slide: {window.slide}")
    if window.per_partition:
        parts.append("per: partition")
    if window.opener is not None:
        condition = f" WHERE {text(window.condition)}" if window.condition is not None else ""
        parts.append(f"open: {quoted(item_text(window.opener) + condition)}")
    return ", ".join(parts)


def quoted(content: str) -> str:
    return '"' + content.replace("\\", "\\\\").replace('"', '\\"') + '"'
