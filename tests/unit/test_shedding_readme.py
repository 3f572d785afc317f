"""The library's page and the query language name every method that there is, and no other."""

import re
from pathlib import Path

from app.query.text.keys import AUTO, SHEDDERS
from shedding.registry import METHODS


def test_the_table_of_methods_is_complete() -> None:
    text = (Path(__file__).parents[2] / "shedding" / "README.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall(r"`([a-z-]+)`", row)) == sorted(METHODS)


def test_queries_may_name_every_method() -> None:
    assert sorted(SHEDDERS) == sorted([AUTO, *METHODS])
