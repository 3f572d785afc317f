"""Names of elements of arrays and maps, as queries write them."""

from __future__ import annotations

import re
from collections.abc import Iterable


def element_path(name: str) -> tuple[str | int, ...]:
    """The steps from a record to an element.

    >>> element_path("a.tags[0]"), element_path("labels['k']")
    (('a', 'tags', 0), ('labels', 'k'))
    """
    steps: list[str | int] = []
    for word, index, key in re.findall(r"([^.\[\]]+)|\[(\d+)\]|\['((?:[^']|'')*)'\]", _protect(name)):
        steps.append(int(index) if index else (key.replace("''", "'").replace("\x00", ".") if key else word))
    return tuple(steps)


def _protect(name: str) -> str:
    """Quoted keys may hold dots and brackets; words may not."""
    return re.sub(r"\['((?:[^']|'')*)'\]", lambda match: "['" + match[1].replace(".", "\x00") + "']", name)


def with_named(elements: Iterable[str], renames: Iterable[str]) -> tuple[str, ...]:
    """Elements that queries speak of, and those that a stream's configuration gives a name (`Stream.rename`).

    >>> with_named(["tags[0]"], {"n": "m", "tags[1]": "second"})
    ('tags[0]', 'tags[1]')
    """
    return tuple(dict.fromkeys([*elements, *(path for path in renames if "[" in path)]))
