"""What a hint says to write can be written."""

from __future__ import annotations

import re

import pytest

from app.query.compile import compile_texts
from app.query.resolved.vocabulary import UNKNOWN
from app.query.tree.parse import parse_value


@pytest.mark.parametrize(
    ("more", "written"),
    [
        ("where: \"a[last]['k'].x = 1\"", ["a['k'].x"]),
        ("where: \"b[..i]['k'].x = 1\"", ["sum(b[..i]['k'].x)", "b[i]['k'].x"]),
        ("where: \"sum(a[..i]['k']) = 1\"", ["a['k']"]),
        ("return: {u: \"b[i]['k'].x\"}", ["b['k'].x", "b[last]['k'].x"]),
        ("return: {u: \"sum(b[..i]['k'])\"}", ["sum(b['k'])"]),
        ("where: a[last].x = 1", ["a.x"]),
    ],
)
def test_elements_that_hints_speak_of_are_read(more: str, written: list[str]) -> None:
    (error,) = compile_texts([("q.yaml", f"name: q\nevent: SEQ(A a, B b+)\n{more}\n")], UNKNOWN).errors
    assert re.split(", or | for all elements, or ", (error.hint or "").removeprefix("write ")) == written
    assert all(parse_value(one).tree is not None for one in written)
