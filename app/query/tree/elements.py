"""Elements of arrays and maps that queries speak of: ``tags[0]``, ``labels['k']``.

Schemas have no attributes for elements until someone asks for them, so whoever makes schemas asks here first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from app.query.text.source import read_documents
from app.query.tree import tree as t
from app.query.tree.document import Document, Written, read_document

_SUBSCRIPT = re.compile(r"""\[\s*['"\d]|\\""")
"""In every text that speaks of an element, as it stands or behind an escape of YAML. Most speak of none, and to parse 1,000 queries takes a second."""


def mentioned_elements(texts: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    r"""The elements in query files given as (path, text), sorted; wrong files are no error here.

    >>> mentioned_elements([("q.yaml", "name: q\nevent: A a\nwhere: a.tags[0] = 'x' AND a.b = 1")])
    ('tags[0]',)
    """
    found: set[str] = set()
    for path, text in texts:
        if _SUBSCRIPT.search(text) is None:
            continue
        for node in read_documents(path, text)[0]:
            document = read_document(node, [])
            if document is not None:
                found |= _of_document(document)
    return tuple(sorted(found))


def _of_document(document: Document) -> set[str]:
    temporal = document.has("coalesce")
    named = [entry.value for key in ("select", "key") for entry in document.plain(key, [])]
    paths = {*named, *(path for written in _written(document.values) for path in _paths(written.tree, temporal=temporal))}
    return {path for path in paths if "[" in path}


def _written(value: Any) -> list[Written]:
    if isinstance(value, Written):
        return [value]
    inner = getattr(value, "value", value)
    parts = list(inner.values()) if isinstance(inner, Mapping) else inner if isinstance(inner, list) else []
    return [written for part in parts for written in _written(part)]


def _paths(node: Any, *, temporal: bool) -> list[str]:
    if isinstance(node, t.Reference):
        return [t.bare_path(node) if temporal else node.path]
    if isinstance(node, t.Equivalence):
        return [node.path]
    own = [node.by] if isinstance(node, t.Types) and node.by is not None else []
    inside = [getattr(node, one.name) for one in fields(node)] if is_dataclass(node) else []
    parts = list(node) if isinstance(node, tuple) else inside
    return own + [path for part in parts for path in _paths(part, temporal=temporal)]
