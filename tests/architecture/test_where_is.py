"""The page "Where is …" of the house's document names files and functions that are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "app" / "ARCHITECTURE.md").read_text(encoding="utf-8").split("## Where is …")[1].split("\n## ")[0]
LINES = re.findall(r"^\| (.+?) \| `(.+?)` \| `(.+?)` \|$", PAGE, flags=re.MULTILINE)


def defined(source: str) -> set[str]:
    """Functions and classes of a module, and the methods of its classes.

    >>> sorted(defined("class A:\\n    def b(self): pass\\ndef c(): pass"))
    ['A', 'A.b', 'c']
    """
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


def test_every_line_of_the_page_is_read():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(LINES) == len(rows) - 1  # the head
    assert len(LINES) >= 20
    assert len({question for question, _, _ in LINES}) == len(LINES)


@pytest.mark.parametrize(("question", "file", "function"), LINES, ids=[question for question, _, _ in LINES])
def test_what_the_page_names_is_there(question, file, function):
    assert function in defined((ROOT / file).read_text(encoding="utf-8"))
