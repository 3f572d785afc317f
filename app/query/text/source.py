"""YAML files as located nodes: every scalar knows, for each of its characters, where in the file it stands.

PyYAML only composes; what a scalar *means* is decided by whoever reads it (YAML 1.1 would read ``no`` as false and ``12:30`` as 750).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

import yaml

from app.errors import Finding, Location

_COMMENT = re.compile(r"[ \t]+#")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file's path and text."""

    path: str
    text: str
    line_starts: tuple[int, ...] = field(repr=False)

    @staticmethod
    def of(path: str, text: str) -> SourceFile:
        """A source file; finds where its lines start."""
        starts = [0, *(found.end() for found in re.finditer(r"\r\n|[\n\r]", text))]
        return SourceFile(path, text, tuple(starts))

    def location(self, start: int, end: int | None = None) -> Location:
        """The place of the characters from ``start`` to ``end`` (one character when not given), cut at the end of the line."""
        row = bisect_right(self.line_starts, start) - 1
        first = self.line_starts[row]
        line = re.split(r"[\r\n]", self.text[first : first + 10_000], maxsplit=1)[0]
        width = max(1, min((end if end is not None else start + 1) - start, len(line) - (start - first)))
        return Location(self.path, row + 1, start - first + 1, width, line)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text, whatever it looks like."""

    file: SourceFile
    start: int
    end: int
    text: str
    plain: bool
    origin: tuple[int, ...] = field(repr=False, compare=False)
    """For every character of ``text`` its place in the file, and one past the last."""

    @property
    def missing(self) -> bool:
        """Whether this is YAML's null (nothing, ``~`` or ``null``, unquoted)."""
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")

    @property
    def cut_off(self) -> bool:
        """Whether a comment follows, so that YAML may have taken for one what was meant."""
        return self.plain and _COMMENT.match(self.file.text, self.end) is not None

    def location(self, start: int | None = None, end: int | None = None) -> Location:
        """The place of the whole scalar, or of the characters ``start:end`` of its text."""
        if start is None:
            return self.file.location(self.start, self.end)
        if not self.text:
            return self.file.location(self.start, self.end)
        first = self.origin[min(start, len(self.text))]
        last = first + 1 if end is None or end <= start else self.origin[min(end, len(self.text)) - 1] + 1
        return self.file.location(first, max(last, first + 1))


@dataclass(frozen=True, slots=True)
class Items:
    """A YAML sequence."""

    file: SourceFile
    start: int
    end: int
    nodes: tuple[Node, ...]

    def location(self) -> Location:
        """Where it begins."""
        return self.file.location(self.start, self.end)


@dataclass(frozen=True, slots=True)
class Mapping:
    """A YAML mapping, keys in the order of the file; of a key given twice the first counts."""

    file: SourceFile
    start: int
    end: int
    entries: tuple[tuple[Scalar, Node], ...]

    def get(self, key: str) -> Node | None:
        """The node under a key."""
        return next((node for name, node in self.entries if name.text == key), None)

    def key(self, key: str) -> Scalar | None:
        """The key itself, for its place."""
        return next((name for name, _ in self.entries if name.text == key), None)

    def location(self) -> Location:
        """Where it begins."""
        return self.file.location(self.start, self.end)


Node = Scalar | Items | Mapping


class _Loader(yaml.SafeLoader):
    """A loader for which every scalar is a text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's attribute


def read_documents(path: str, text: str) -> tuple[tuple[Node, ...], tuple[Finding, ...]]:
    """The documents of a file as nodes, and what is wrong with them as YAML.

    Documents before a syntax error are returned too; empty documents are left out.
    """
    text = text.removeprefix("\ufeff")
    file = SourceFile.of(path, text)
    documents: list[Node] = []
    findings: list[Finding] = []
    rest: str | None = text
    while rest is not None:
        rest = _read_on(rest, file, documents, findings)
    return tuple(documents), tuple(findings)


def _read_on(text: str, file: SourceFile, documents: list[Node], findings: list[Finding]) -> str | None:
    """Reads documents up to the first that is broken; returns the text behind it, its beginning blanked so that places stay."""
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = _convert(_next_document(loader), file, findings, {}, 0)
            if _size(node, {}) > _MAX_NODES:
                findings.append(Finding("a document of too many values", node.location(), "write aliases (*name) out, or split the file"))
            elif not (isinstance(node, Scalar) and node.missing):
                documents.append(node)
    except yaml.MarkedYAMLError as error:
        findings.append(_broken(error, file))
        mark = _mark(error)
        begun = len(text) - len(text.lstrip())
        following = re.compile(r"^---(?=\s)", re.MULTILINE).search(text, max(mark.index, begun + 1) if mark else len(text))
        if following is None:
            return None
        return re.sub(r"[^\r\n]", " ", text[: following.start()]) + text[following.start() :]
    except yaml.reader.ReaderError as error:
        findings.append(
            Finding(f"a character that YAML does not allow: {chr(error.character)!r}", file.location(error.position), "remove it")
        )
    except RecursionError:
        findings.append(
            Finding("nested too deeply", file.location(0), "write it out flat; a query needs few levels, and no alias of itself")
        )
    return None


_MAX_NODES = 200_000
"""Aliases of aliases of aliases make a small file a huge document."""


def _size(node: Node, known: dict[int, int]) -> int:
    """How many values a node has when aliases are written out."""
    if isinstance(node, Scalar):
        return 1
    if id(node) not in known:
        inner = node.nodes if isinstance(node, Items) else [value for _, value in node.entries]
        known[id(node)] = 1 + sum(_size(one, known) for one in inner)
    return known[id(node)]


def _mark(error: yaml.MarkedYAMLError) -> yaml.Mark | None:
    """Where the mistake is: for a quote or bracket that is never closed, where it was opened."""
    problem = error.problem or ""
    if error.context_mark is not None and re.search(r"stream|document separator|<document", problem):
        return error.context_mark
    return error.problem_mark or error.context_mark


def _next_document(loader: _Loader) -> yaml.Node:
    node = loader.get_node()
    assert node is not None  # noqa: S101 - check_node said so
    return node


_MAX_DEPTH = 60
"""Deeper nesting is no query but an attack on the reader's stack."""


def _convert(node: yaml.Node, file: SourceFile, findings: list[Finding], seen: dict[int, Node], depth: int) -> Node:
    start, end = node.start_mark.index, node.end_mark.index
    if id(node) in seen:
        return seen[id(node)]
    if depth > _MAX_DEPTH:
        raise RecursionError
    if isinstance(node, yaml.ScalarNode):
        if node.tag.startswith("!") or (node.tag.startswith("tag:") and not node.tag.endswith(":str")):
            findings.append(
                Finding(
                    f'"{_tag_text(file.text, start)}" is a YAML tag here, not part of the text',
                    file.location(start),
                    "quote the whole value",
                )
            )
        origin = _origins(file.text, start, end, node.style, node.value)
        if not node.value.isprintable() and any(0xD800 <= ord(character) <= 0xDFFF for character in node.value):
            hint = "write the character itself, or \\U and eight digits: YAML knows no pairs as JSON has them"
            findings.append(Finding("an escape stands for half of a character", file.location(start), hint))
            return seen.setdefault(id(node), Scalar(file, start, end, "", node.style is None, (start,)))
        return seen.setdefault(id(node), Scalar(file, start, end, node.value, node.style is None, origin))
    if isinstance(node, yaml.SequenceNode):
        nodes = tuple(_convert(inner, file, findings, seen, depth + 1) for inner in node.value)
        return seen.setdefault(id(node), Items(file, start, end, nodes))
    entries: list[tuple[Scalar, Node]] = []
    for key_node, value_node in node.value:
        key = _convert(key_node, file, findings, seen, depth + 1)
        if not isinstance(key, Scalar):
            findings.append(Finding("a key must be a plain name", key.location(), "write name: value, one line per key"))
            continue
        value = _convert(value_node, file, findings, seen, depth + 1)
        first = next((known for known, _ in entries if known.text == key.text), None)
        if first is not None:
            hint = f"it is first given in line {first.location().line}"
            findings.append(Finding(f'key "{key.text}" is given twice', key.location(), hint))
            continue
        entries.append((key, value))
    return seen.setdefault(id(node), Mapping(file, start, end, tuple(entries)))


def _tag_text(text: str, start: int) -> str:
    found = re.match(r"!\S*", text[start : start + 80])
    return found[0] if found else "!"


def _broken(error: yaml.MarkedYAMLError, file: SourceFile) -> Finding:
    mark = _mark(error)
    location = file.location(mark.index) if mark else file.location(0)
    problem = error.problem or "cannot be read"
    hint = _indent_hint(file, location.line) or _yaml_hint(location.source, problem)
    return Finding(f"this is no YAML: {_PROBLEMS.get(problem, problem)}", location, hint)


def _indent_hint(file: SourceFile, number: int) -> str | None:
    """What to say of a key that stands too far to the right, where no mapping begins on the line before."""
    *before, line = file.text.splitlines()[:number] or [""]
    above = next((one for one in reversed(before) if one.strip() and not one.lstrip().startswith("#")), "")
    deeper = len(line) - len(line.lstrip(" ")) > len(above) - len(above.lstrip(" "))
    if not above or not deeper or above.rstrip().endswith((":", "|", ">", "-")) or not re.match(r"\s+[\w-]+\s*:(\s|$)", line):
        return None
    return f'the line is indented deeper than the one before: begin it below "{above.strip().partition(":")[0]}"'


_PROBLEMS = {
    "mapping values are not allowed here": 'a ": " stands where no mapping can begin',
    "expected <block end>, but found '<scalar>'": "text after the end of a quoted text or a list",
    "expected <block end>, but found '<block sequence start>'": "a list begins where none can stand",
    "expected <block end>, but found '<block mapping start>'": "a key is indented differently from its neighbours",
    "found character '\\t' that cannot start any token": "a tab; YAML is indented with blanks",
    "found unexpected end of stream": "a quoted text does not end",
    "found unexpected document separator": "a quoted text does not end before the next document",
    "expected ',' or ']', but got '<stream end>'": "a list does not end",
    "expected ',' or '}', but got '<stream end>'": "a mapping does not end",
    "could not find expected ':'": "a key without colon",
}


def _yaml_hint(line: str, problem: str) -> str:
    content = line.strip()
    if "\\t" in problem:
        return "replace tabs by blanks"
    if content.startswith("return") and "{" in content and "[" in content:
        return 'in one-line mappings quote expressions with brackets, for instance return: {up: "b[last].price - a.price"}'
    if re.match(r"[\w-]+\s*:\s*\[", content):
        return 'an expression that begins with a bracket must be quoted, for instance where: "[tag_id] AND a.x = 1"'
    if re.match(r"[\w-]+\s*:\s*'", content):
        return "an expression that begins with a quote must be quoted as a whole with double quotes"
    if "{" in content and "[" in content:
        return 'in one-line mappings quote expressions with brackets, for instance return: {up: "b[last].price - a.price"}'
    return "quote texts that hold any of : # { } [ ] , & * ! | > ' \" % @"


def _origins(source: str, start: int, end: int, style: str | None, value: str) -> tuple[int, ...]:
    """For every character of a scalar's value its place in the source; one more for the end.

    Follows the source once, style by style; where it cannot follow, characters stay at the last place it knew.
    """
    follow = {None: _plain, "'": _single_quoted, '"': _double_quoted, "|": _block, ">": _block}[style]
    return follow(source, start, end, value)


def _plain(source: str, start: int, end: int, value: str) -> tuple[int, ...]:
    return _aligned(source, start, end, value, {})


def _single_quoted(source: str, start: int, end: int, value: str) -> tuple[int, ...]:
    return _aligned(source, start + 1, end - 1, value, {"''": "'"})


_ESCAPES = {
    "\\0": "\0", "\\a": "\a", "\\b": "\b", "\\t": "\t", "\\n": "\n", "\\v": "\v", "\\f": "\f", "\\r": "\r", "\\e": "\x1b",
    '\\"': '"', "\\/": "/", "\\\\": "\\", "\\N": "\x85", "\\_": "\xa0", "\\L": "\u2028", "\\P": "\u2029", "\\ ": " ", "\\\t": "\t",
}  # fmt: skip


def _double_quoted(source: str, start: int, end: int, value: str) -> tuple[int, ...]:
    return _aligned(source, start + 1, end - 1, value, _ESCAPES)


def _block(source: str, start: int, end: int, value: str) -> tuple[int, ...]:
    content = source.find("\n", start)
    return _aligned(source, len(source) if content < 0 else content + 1, end, value, {})


def _aligned(source: str, start: int, end: int, value: str, escapes: dict[str, str]) -> tuple[int, ...]:
    """Walks value and source together: equal characters advance both, white space of folding and indentation advances one."""
    places: list[int] = []
    at = start
    backslashes = "\\\\" in escapes
    for character in value:
        while backslashes and source[at : at + 2] == "\\\n":  # an escaped line break leaves nothing
            at += 2
            while at < end and source[at] in " \t":
                at += 1
        if character.isspace():
            places.append(min(at, max(start, end - 1)))
            if at < end and source[at] == character:
                at += 1
            elif source[at : at + 2] in escapes and escapes[source[at : at + 2]] == character:
                at += 2
            elif at < end and source[at] in "\r\n":
                at += 1
            continue
        while at < end and source[at].isspace():
            at += 1
        places.append(min(at, max(start, end - 1)))
        pair = source[at : at + 2]
        if at >= end:
            continue
        if pair in escapes:
            at += 2
        elif backslashes and pair in ("\\x", "\\u", "\\U"):
            at += 2 + {"\\x": 2, "\\u": 4, "\\U": 8}[pair]
        else:
            at += 1
    places.append(min(at, end))
    return tuple(places)
