"""The ``tests:`` of a query file: what is given and expected, as plain values. Who runs them lives upstairs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.config.durations import parse_duration, parse_milliseconds
from app.errors import Finding, Location
from app.events.types import Kind, StreamSchema
from app.query.expressions import Literal
from app.query.plan import ReturnField
from app.query.text.source import Items, Node, Scalar
from app.query.text.source import Mapping as MappingNode
from app.query.tree.document import Document, Located, core_value
from app.query.tree.timestamps import parse_timestamp
from app.similar import did_you_mean


@dataclass(frozen=True, slots=True)
class QueryTest:
    """One test.

    Attributes:
        events: in the order of the lines: ``{"type": .., "time": ms, "stream": .. (where written), attribute: value, ..}``, the form of `replay`'s JSON lines.
            Attributes that the schema has and the line does not are None.
        expect: per composite event some of its fields; times and durations in ms.
        timeouts: the same per timeout; None where the test does not look at them.
        location: of the test's name.
    """

    name: str
    events: tuple[Mapping[str, Any], ...]
    expect: tuple[Mapping[str, Any], ...]
    timeouts: tuple[Mapping[str, Any], ...] | None = None
    location: Location | None = field(default=None, compare=False)


_WORD = re.compile(
    r"""\s*(?:(?P<key>[^\s=#'"]+(?:\['(?:[^']|'')*'\])?)=)?(?P<value>'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[^\s'"]\S*|(?<==)(?=\s|$))"""
)


@dataclass(frozen=True, slots=True)
class _Raw:
    """A value before its kind is known."""

    text: str
    quoted: bool
    start: int
    end: int


@dataclass(slots=True)
class _Line:
    time: int
    type: str
    stream: str | None
    values: dict[str, _Raw]
    start: int
    end: int


def read_tests(
    document: Document, schemas: Iterable[StreamSchema], returns: Iterable[ReturnField] | None, findings: list[Finding]
) -> tuple[QueryTest, ...]:
    """The tests of a document.

    Args:
        document: the query.
        schemas: of the query's streams; values are read as the kinds they say, values of unknown attributes as what they look like.
        returns: the query's fields; None where they are not known.
        findings: what is wrong with the tests is appended.
    """
    given = document.values.get("tests")
    tests: list[QueryTest] = []
    names: set[str] = set()
    for record in given.value if given is not None else ():
        if not isinstance(record, dict) or not {"name", "given", "expect"} <= set(record):
            continue
        name: Located = record["name"]
        if name.value in names:
            findings.append(Finding(f'two tests are named "{name.value}"', name.node.location(), "choose another name"))
        names.add(name.value)
        events = _events(record["given"].node, tuple(schemas), findings)
        expect = _expected(record["expect"], returns, findings)
        timeouts = _timeouts(document, record.get("timeouts"), returns, findings)
        tests.append(QueryTest(name.value, events, expect, timeouts, name.node.location()))
    return tuple(tests)


def _events(node: Scalar, schemas: tuple[StreamSchema, ...], findings: list[Finding]) -> tuple[dict[str, Any], ...]:
    lines: list[_Line] = []
    offset = 0
    for text in node.text.splitlines(keepends=True):
        if text.strip() and not text.lstrip().startswith("#"):
            line = _line(text.rstrip(), offset, node, findings)
            if line is not None:
                lines.append(line)
        offset += len(text)
    looks = _looks(lines)
    return tuple(_event(line, schemas, looks, node, findings) for line in lines)


def _line(text: str, offset: int, node: Scalar, findings: list[Finding]) -> _Line | None:
    def report(message: str, start: int, end: int, hint: str) -> None:
        findings.append(Finding(message, node.location(offset + start, offset + end), hint))

    words: list[tuple[str | None, _Raw]] = []
    at = 0
    while at < len(text.rstrip()):
        found = _WORD.match(text, at)
        if found is None or (found.end() < len(text) and not text[found.end()].isspace()):
            begin = len(text) - len(text[at:].lstrip())
            report("this cannot be read", begin, len(text), "a line is: time type attribute=value …, texts with blanks in quotes")
            return None
        value, start = found["value"], found.start("value")
        if found["key"] is None and value.startswith("#"):
            break
        words.append((found["key"], _raw(value, offset + start, offset + found.end())))
        at = found.end()
    if len(words) < 2 or words[0][0] is not None or words[1][0] is not None:
        report("a line of given needs a time and a type", 0, len(text), "for instance 5m CounterReading tag_id=T1")
        return None
    time, kind = words[0][1], words[1][1]
    try:
        at_ms = _offset(time.text)
    except (ValueError, OverflowError):
        findings.append(
            Finding(
                f'"{time.text}" is no time',
                node.location(time.start, time.end),
                "write the duration since the start, for instance 0s, 5m, 1.5h",
            )
        )
        return None
    values: dict[str, _Raw] = {}
    for key, raw in words[2:]:
        if key is None:
            findings.append(
                Finding(
                    f'"{raw.text}" is no attribute=value', node.location(raw.start, raw.end), "quote texts with blanks: title='two words'"
                )
            )
        elif key in values:
            findings.append(Finding(f'attribute "{key}" is given twice', node.location(raw.start, raw.end), "leave one of them out"))
        else:
            values[key] = raw
    stream, _, name = kind.text.rpartition(":") if not kind.quoted else ("", "", kind.text)
    return _Line(at_ms, name.strip("'") if not kind.quoted else name, stream or None, values, kind.start, kind.end)


def _offset(text: str) -> int:
    value = 0 if text == "0" else parse_duration(text)
    if value >= 1 << 53:
        raise OverflowError(text)
    return value


def _raw(value: str, start: int, end: int) -> _Raw:
    if value[:1] == "'":
        return _Raw(value[1:-1].replace("''", "'"), True, start, end)
    if value[:1] == '"':
        return _Raw(re.sub(r"\\(.)", r"\1", value[1:-1]), True, start, end)
    return _Raw(value, False, start, end)


_INTEGER = re.compile(r"[-+]?\d+")
_FLOAT = re.compile(r"[-+]?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?")


def _looks(lines: list[_Line]) -> dict[str, Kind]:
    """What each attribute looks like over all lines: the narrowest kind that all its values have."""
    looks: dict[str, Kind] = {}
    for line in lines:
        for key, raw in line.values.items():
            if not raw.quoted and raw.text in ("null", ""):
                continue
            kind = Kind.STRING
            if not raw.quoted:
                kind = (
                    Kind.INTEGER if _INTEGER.fullmatch(raw.text) else Kind.FLOAT if _FLOAT.fullmatch(raw.text)
                    else Kind.BOOLEAN if raw.text in ("true", "false") else Kind.STRING
                )  # fmt: skip
            known = looks.get(key, kind)
            looks[key] = kind if known is kind else Kind.FLOAT if {known, kind} == {Kind.INTEGER, Kind.FLOAT} else Kind.STRING
    return looks


def _event(
    line: _Line, schemas: tuple[StreamSchema, ...], looks: Mapping[str, Kind], node: Scalar, findings: list[Finding]
) -> dict[str, Any]:
    event: dict[str, Any] = {"type": line.type, "time": line.time}
    read = [schema for schema in schemas if line.stream in (None, schema.stream)]
    if schemas and not any(schema.event_type(line.type) for schema in read):
        known = [event_type.name for schema in read for event_type in schema.types]
        findings.append(
            Finding(f'the query reads no event type "{line.type}"', node.location(line.start, line.end), did_you_mean(line.type, known))
        )
        return event
    if line.stream is not None:
        event["stream"] = line.stream
    kinds: dict[str, Kind] = {}
    open_ended = False
    for schema in read:
        event_type = schema.event_type(line.type)
        if event_type is None:
            continue
        open_ended = open_ended or schema.inferred or not event_type.occurs
        kinds.update({attribute.name: attribute.kind for attribute in event_type.attributes})
        if schema.type_attribute is not None:
            event[schema.type_attribute] = line.type
    event.update({name: None for name in kinds if name not in event})
    for key, raw in line.values.items():
        if key not in kinds and kinds and not open_ended:
            hint = did_you_mean(key, kinds, line.type)
            findings.append(Finding(f'event type "{line.type}" has no attribute "{key}"', node.location(raw.start, raw.end), hint))
            continue
        kind = kinds.get(key) or looks.get(key, Kind.STRING)
        try:
            event[key] = _value(raw, kind)
        except (ValueError, OverflowError) as error:
            what = "finite number" if kind is Kind.FLOAT and isinstance(error, OverflowError) else kind.value
            hint = f'attribute "{key}" has the kind {kind.value}'
            findings.append(Finding(f'"{raw.text}" is no {what}', node.location(raw.start, raw.end), hint))
    return event


def _value(raw: _Raw, kind: Kind) -> Any:
    if not raw.quoted and raw.text in ("null", ""):
        return None
    if kind is Kind.INTEGER:
        return _int64(raw.text)
    if kind is Kind.FLOAT:
        return _finite(raw.text)
    if kind is Kind.BOOLEAN:
        if raw.text not in ("true", "false"):
            raise ValueError(raw.text)
        return raw.text == "true"
    return _time(raw.text) if kind in (Kind.TIME, Kind.DURATION) else raw.text


def _int64(text: str) -> int:
    value = int(text) if len(text) < 40 else 1 << 64
    if not -(1 << 63) <= value < 1 << 63:
        raise OverflowError(text)
    return value


def _finite(text: str) -> float:
    """Events of tests are JSON lines, which know neither infinity nor NaN."""
    value = float(text)
    if not math.isfinite(value):
        raise OverflowError(text)
    return value


def _time(text: str) -> int:
    """Milliseconds of a number, a duration or a timestamp."""
    if _INTEGER.fullmatch(text):
        return _int64(text)
    if text.startswith("-"):
        return -parse_duration(text[1:])
    try:
        return parse_duration(text)
    except ValueError:
        return parse_timestamp(text)


def _written(text: str) -> int:
    """The milliseconds of an expected time or duration: rounded as those of return fields are when they are written, half away from zero.

    >>> _written("0.5ms"), _written("-2.5 ms"), _written("6m")
    (1, -3, 360000)
    """
    negative = text.startswith("-")
    try:
        size = parse_milliseconds(text[negative:])
    except ValueError:
        return _time(text)
    rounded = math.floor(size + 0.5) if isinstance(size, float) else size
    return -rounded if negative else rounded


def _timeouts(
    document: Document, given: Located | None, returns: Iterable[ReturnField] | None, findings: list[Finding]
) -> tuple[dict[str, Any], ...] | None:
    if given is None:
        return None
    if document.plain("on_timeout", "drop") != "emit":
        findings.append(Finding("the query writes no timeouts", given.node.location(), "set on_timeout: emit, or leave timeouts: out"))
    return _expected(given, returns, findings)


def _expected(expect: Located, returns: Iterable[ReturnField] | None, findings: list[Finding]) -> tuple[dict[str, Any], ...]:
    fields = None if returns is None else {one.name: one for one in returns}
    node = expect.node
    rows: list[dict[str, Any]] = []
    for inner in node.nodes if isinstance(node, Items) else ():
        if not isinstance(inner, MappingNode):
            continue
        row: dict[str, Any] = {}
        for name, value in inner.entries:
            known = None if fields is None else fields.get(name.text)
            if fields is not None and known is None:
                findings.append(
                    Finding(f'the query returns no field "{name.text}"', name.location(), did_you_mean(name.text, fields, "return:"))
                )
                row[name.text] = core_value(
                    value
                )  # which nothing has: where schemas are guessed nobody reads the finding, and the test must fail
                continue
            try:
                row[name.text] = _field(value, _known_kind(known))
            except (ValueError, OverflowError):
                kind = known.kind.value if known is not None else "value"
                findings.append(Finding(f"this is no {kind}", value.location(), f'field "{name.text}" has the kind {kind}'))
        rows.append(row)
    return tuple(rows)


def _known_kind(field_: ReturnField | None) -> Kind | None:
    """A field of types that never occur is null, of no kind."""
    if field_ is None or (isinstance(field_.expression, Literal) and field_.expression.value is None):
        return None
    return field_.kind


def _field(node: Node, kind: Kind | None) -> Any:
    if isinstance(node, Items):
        return [_field(inner, kind) for inner in node.nodes]
    if not isinstance(node, Scalar) or kind is None or node.missing:
        return core_value(node)
    if kind in (Kind.TIME, Kind.DURATION):
        return _written(node.text)
    if kind in (Kind.STRING, Kind.BYTES):
        return node.text
    value = core_value(node)
    if kind is Kind.BOOLEAN and not isinstance(value, bool):
        raise ValueError(node.text)
    if kind in (Kind.INTEGER, Kind.FLOAT) and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(node.text)
    return value
