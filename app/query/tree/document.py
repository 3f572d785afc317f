"""A query document: YAML nodes read against the table of keys, with findings for everything that does not fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as Table
from dataclasses import dataclass, field
from typing import Any

from app.config.durations import parse_duration, parse_milliseconds
from app.errors import Finding, Location
from app.query.plan import Within
from app.query.text import keys as k
from app.query.text.source import Items, Mapping, Node, Scalar
from app.query.tree import tree as t
from app.query.tree.parse import Parsed, parse_condition, parse_interval_test, parse_opener, parse_pattern, parse_value
from app.query.tree.parse_tree import whole
from app.similar import closest, did_you_mean


@dataclass(frozen=True, slots=True)
class Written:
    """A parsed expression and the scalar that it was written in."""

    scalar: Scalar
    tree: Any

    def location(self, span: t.Span) -> Location:
        """The place of a part of the expression in its file."""
        return self.scalar.location(span.start, span.end)


@dataclass(frozen=True, slots=True)
class Located:
    """A plain value and its node."""

    value: Any
    node: Node


@dataclass(frozen=True, slots=True)
class Document:
    """A query as written: values by key; keys that are not given, or are wrong, are missing.

    Expressions are `Written`, everything else `Located`; records are tables of the same.
    """

    node: Mapping
    values: Table[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The query's name; empty when it has none."""
        return str(self.plain("name", ""))

    def plain(self, key: str, default: Any = None) -> Any:
        """The value under a key without its place."""
        found = self.values.get(key)
        return found.value if isinstance(found, Located) else default

    def expression(self, key: str) -> Written | None:
        """The expression under a key."""
        found = self.values.get(key)
        return found if isinstance(found, Written) else None

    def record(self, key: str) -> Table[str, Any]:
        """The record under a key; empty when not given."""
        found = self.values.get(key)
        return found if isinstance(found, dict) else {}

    def has(self, key: str) -> bool:
        """Whether the key is written, rightly or not."""
        return self.node.key(key) is not None

    def location(self, key: str) -> Location:
        """The place of a key's value; of the document where it is not given."""
        node = self.node.get(key)
        if node is None:
            return self.node.location()
        if isinstance(node, Scalar) and node.text:
            return node.location()
        name = self.node.key(key)
        return name.location() if name is not None else node.location()


def read_document(node: Node, findings: list[Finding]) -> Document | None:
    """The document's values; whatever does not fit becomes a finding."""
    if not isinstance(node, Mapping):
        findings.append(Finding("a query is a mapping with keys such as name and event", node.location(), "write name: my-query"))
        return None
    values = _record(k.QUERY, node, findings, "a query")
    document = Document(node, values)
    if not document.has("event") and not document.has("coalesce"):
        findings.append(Finding("a query needs event: or coalesce:", node.location(), "for instance event: SEQ(A a, B b)"))
    return document


def _record(shape: k.Record, node: Mapping, findings: list[Finding], of: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in node.entries:
        key = shape.key(name.text)
        if key is None:
            known = [candidate.name for candidate in shape.keys]
            nearest = closest(name.text, known)
            hint = f'did you mean "{nearest}"?' if nearest else f"{of} may have {', '.join(known)}"
            findings.append(Finding(f'unknown key "{name.text}"', name.location(), hint))
            continue
        if isinstance(value, Scalar) and value.missing and not isinstance(key.shape, k.Anything):
            findings.append(Finding(f'key "{name.text}" has no value', name.location(), "give one, or leave the key out"))
            continue
        read = _READERS[type(key.shape)](key.shape, value, findings, name.text)
        if read is not None:
            values[name.text] = read
    findings.extend(
        Finding(f'{of} needs the key "{key.name}"', node.location(), f"{key.name}: {key.description[0].lower()}{key.description[1:]}")
        for key in shape.keys
        if key.required and node.key(key.name) is None
    )
    return values


def _wrong(node: Node, findings: list[Finding], message: str, hint: str | None = None) -> None:
    findings.append(Finding(message, node.location(), hint))


def _scalar(node: Node, findings: list[Finding], key: str, what: str) -> Scalar | None:
    if isinstance(node, Scalar):
        return node
    kind = "a list" if isinstance(node, Items) else "a mapping"
    if what == "an expression":
        begun = node.file.text[node.start]
        hint = f'an expression that begins with "{begun}" must be quoted' if begun in "[{" else "write it as one text"
    else:
        hint = "one value, without brackets or further lines"
    _wrong(node, findings, f'"{key}" is {what}, not {kind}', hint)
    return None


def _text(shape: k.Text, node: Node, findings: list[Finding], key: str) -> Located | None:
    scalar = _scalar(node, findings, key, "a text")
    if scalar is None:
        return None
    if shape.pattern is not None and re.fullmatch(shape.pattern, scalar.text) is None:
        _wrong(node, findings, f'"{scalar.text}" is not {shape.of}', shape.hint)
        return None
    # blanks between words are one: what is read may be split at them
    return Located(scalar.text if shape.pattern is None else " ".join(scalar.text.split()), node)


_PARSERS: dict[str, Callable[[str], Parsed[Any]]] = {
    "pattern": parse_pattern,
    "condition": parse_condition,
    "value": parse_value,
    "opener": parse_opener,
    "interval": parse_interval_test,
}


_COMMENT = 'YAML takes " #" for the beginning of a comment: put the whole expression into double quotes, or write | and the expression on the next line'


def _expression(shape: k.Expression, node: Node, findings: list[Finding], key: str) -> Written | None:
    scalar = _scalar(node, findings, key, "an expression")
    if scalar is None:
        return None
    parsed = _PARSERS[shape.language](scalar.text)
    for problem in parsed.problems:
        hint = _COMMENT if problem.unfinished and scalar.cut_off else problem.hint
        findings.append(Finding(problem.message, scalar.location(problem.span.start, problem.span.end), hint))
    return Written(scalar, parsed.tree) if parsed.tree is not None else None


_INTEGER = re.compile(r"[-+]?\d+")
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")


def _number(shape: k.Number, node: Node, findings: list[Finding], key: str) -> Located | None:
    scalar = _scalar(node, findings, key, "a number")
    if scalar is None:
        return None
    pattern, what = (_INTEGER, "whole number") if shape.integer else (_NUMBER, "number")
    if pattern.fullmatch(scalar.text) is None:
        _wrong(node, findings, f'"{scalar.text}" is no {what}', "write it in digits")
        return None
    value = float(scalar.text)
    if shape.integer and abs(value) < 1 << 53:
        value = int(value)  # exact below 2^53; of very long texts Python makes no integers
    too_low = shape.low is not None and (value <= shape.low if shape.above else value < shape.low)
    if too_low or (shape.high is not None and value > shape.high) or abs(value) > 2**53:
        _wrong(node, findings, f'"{key}" cannot be {scalar.text}', "it is too large" if abs(value) > 2**53 else _range(shape))
        return None
    return Located(value, node)


def _range(shape: k.Number) -> str:
    low = None if shape.low is None else f"{'greater than' if shape.above else 'at least'} {shape.low:,.10g}"
    high = None if shape.high is None else f"at most {shape.high:,.10g}"
    return f"it is {' and '.join(bound for bound in (low, high) if bound)}"


_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def _flag(shape: k.Flag, node: Node, findings: list[Finding], key: str) -> Located | None:
    scalar = _scalar(node, findings, key, "true or false")
    if scalar is None:
        return None
    if not scalar.plain or scalar.text not in _BOOLEANS:
        meant = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(scalar.text.lower())
        _wrong(node, findings, f'"{key}" is true or false, not "{scalar.text}"', f"write {meant}" if meant else None)
        return None
    return Located(_BOOLEANS[scalar.text], node)


def _choice(shape: k.Choice, node: Node, findings: list[Finding], key: str) -> Located | None:
    scalar = _scalar(node, findings, key, "a word")
    if scalar is None:
        return None
    if scalar.text not in shape.words:
        _wrong(node, findings, f'"{scalar.text}" is no value of "{key}"', _one_of(scalar.text, shape.words))
        return None
    return Located(scalar.text, node)


def _one_of(text: str, words: tuple[str, ...]) -> str:
    hint = did_you_mean(text, words) or ""
    return hint.replace("known are", "it is one of")


def _duration(shape: k.Duration, node: Node, findings: list[Finding], key: str) -> Located | None:
    scalar = _scalar(node, findings, key, "a duration")
    if scalar is None:
        return None
    value = _duration_ms(scalar, findings)
    if value == 0 and not shape.zero:
        _wrong(node, findings, f'"{key}" cannot be 0', 'write a duration such as "5 s"')
        return None
    return None if value is None else Located(Within(value), node)


def _duration_ms(scalar: Scalar, findings: list[Finding]) -> int | None:
    try:
        value = parse_duration(scalar.text)
    except (ValueError, OverflowError):
        unit = _NUMBER.fullmatch(scalar.text.strip()) is not None
        hint = f'a duration needs a unit: "{scalar.text} s"' if unit else 'write a number and one of ms, s, m, h, d, w, for instance "5 s"'
        _wrong(scalar, findings, f'"{scalar.text}" is no duration', hint)
        return None
    if value >= 1 << 53:
        _wrong(scalar, findings, f'"{scalar.text}" is longer than time is counted', "leave the key out for no bound")
        return None
    return value


def _count(shape: k.Count, node: Node, findings: list[Finding], key: str) -> Located | None:
    scalar = _scalar(node, findings, key, f"a number of {shape.unit}")
    if scalar is None:
        return None
    found = re.fullmatch(rf"\s*(\d+)\s*{shape.unit[:-1]}s?\s*", scalar.text)
    if found is not None and whole(found[1]) == 0:
        _wrong(node, findings, f'"{key}" cannot be 0', f'write for instance "1000 {shape.unit}"')
        return None
    if found is None or whole(found[1]) >= 1 << 53:
        _wrong(node, findings, f'"{scalar.text}" is no number of {shape.unit}', f'write for instance "1000 {shape.unit}"')
        return None
    return Located(Within(whole(found[1]), "events"), node)


def _either(shape: k.Either, node: Node, findings: list[Finding], key: str) -> Any:
    """Tries the shapes in turn; when none fits, the first that fits the node's kind complains."""
    for inner in shape.shapes:
        trial: list[Finding] = []
        read = _READERS[type(inner)](inner, node, trial, key)
        if not trial:
            return read
    fitting = [inner for inner in shape.shapes if isinstance(inner, k.MapOf | k.Record) == isinstance(node, Mapping)] or list(shape.shapes)
    if isinstance(node, Scalar) and k.Duration in map(type, fitting) and k.Count in map(type, fitting):
        meant = _meant(node.text)
        if meant is None:
            return _no_size(node, findings)
        fitting = [inner for inner in fitting if isinstance(inner, meant)]
    if isinstance(node, Scalar) and isinstance(fitting[0], k.Choice) and isinstance(fitting[-1], k.Duration) and node.text[:1].isdigit():
        fitting = [fitting[-1]]
    return _READERS[type(fitting[0])](fitting[0], node, findings, key)


def _meant(text: str) -> type[k.Duration | k.Count] | None:
    """As which of the two a size is written that is none; None where that cannot be told."""
    if re.fullmatch(r".*[\d\s]events?", text.strip()):
        return k.Count
    try:
        parse_milliseconds(text)
    except ValueError:
        return None
    return k.Duration


def _no_size(node: Scalar, findings: list[Finding]) -> None:
    text = node.text.strip()
    hint = 'write for instance "5 s" or "500 events"'
    if re.fullmatch(r"[\d.]+", text):
        hint = f'a unit is missing: write "{text} s" or "{text} events"'
    _wrong(node, findings, f'"{node.text}" is neither a duration nor a number of events', hint)


def _list_of(shape: k.ListOf, node: Node, findings: list[Finding], key: str) -> Any:
    if shape.single and isinstance(node, Scalar):
        nodes: tuple[Node, ...] = (node,)
    elif isinstance(node, Items):
        nodes = node.nodes
    else:
        return _wrong(node, findings, f'"{key}" is a list', f"write {key}: [a, b], or one line per entry that begins with -")
    read = [_READERS[type(shape.shape)](shape.shape, inner, findings, key) for inner in nodes]
    if not nodes and not isinstance(shape.shape, k.MapOf | k.Record):
        return _wrong(node, findings, f'"{key}" is an empty list', "leave the key out")
    return Located([entry for entry in read if entry is not None], node)


def _map_of(shape: k.MapOf, node: Node, findings: list[Finding], key: str) -> Any:
    if not isinstance(node, Mapping):
        return _wrong(node, findings, f'"{key}" is a mapping', f"write {key}: {{name: value}}, or one line per name below it")
    values: dict[str, Any] = {}
    for name, value in node.entries:
        if re.fullmatch(shape.key_pattern, name.text) is None:
            _wrong(name, findings, f'"{name.text}" is not {shape.of}', shape.hint)
            continue
        read = _READERS[type(shape.shape)](shape.shape, value, findings, name.text)
        if read is not None:
            values[name.text] = read
    return Located(values, node)


def _anything(shape: k.Anything, node: Node, findings: list[Finding], key: str) -> Located:
    return Located(core_value(node), node)


def core_value(node: Node) -> Any:
    """A node as YAML 1.2's core schema reads it.

    Plain ``null ~``, ``true false``, numbers; everything else, ``yes`` and ``12:30`` too, is text.
    """
    if isinstance(node, Items):
        return [core_value(inner) for inner in node.nodes]
    if isinstance(node, Mapping):
        return {name.text: core_value(inner) for name, inner in node.entries}
    if not node.plain:
        return node.text
    if node.missing:
        return None
    if node.text in _BOOLEANS:
        return _BOOLEANS[node.text]
    if _INTEGER.fullmatch(node.text) and len(node.text) < 20:
        return int(node.text)
    return float(node.text) if _NUMBER.fullmatch(node.text) else node.text


def _nested(shape: k.Record, node: Node, findings: list[Finding], key: str) -> Any:
    if not isinstance(node, Mapping):
        return _wrong(node, findings, f'"{key}" is a mapping', f"it may have {', '.join(inner.name for inner in shape.keys)}")
    return _record(shape, node, findings, f'"{key}"')


_READERS: dict[type, Callable[..., Any]] = {
    k.Text: _text,
    k.Expression: _expression,
    k.Number: _number,
    k.Flag: _flag,
    k.Choice: _choice,
    k.Duration: _duration,
    k.Count: _count,
    k.Either: _either,
    k.ListOf: _list_of,
    k.MapOf: _map_of,
    k.Anything: _anything,
    k.Record: _nested,
}
