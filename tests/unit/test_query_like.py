"""LIKE, against a twin that tries everything, and on a text on which trying everything takes for ever."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from app.cep.predicates.program import like_matches


def naive(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return naive(pattern[1:], text) or (bool(text) and naive(pattern, text[1:]))
    return bool(text) and pattern[0] in ("_", text[0]) and naive(pattern[1:], text[1:])


@settings(max_examples=500, deadline=None)
@given(st.text("ab_%.\n", max_size=7), st.text("ab.\n", max_size=7))
def test_like_is_its_obvious_twin(pattern: str, text: str) -> None:
    assert like_matches(pattern, text) == naive(pattern, text)


def test_a_long_text_is_looked_through_once() -> None:
    """Every place of every piece was tried with every place of the others: the text's length to the power of the pieces' number."""
    started = time.process_time()
    assert not like_matches("%a%a%a%a%b", "a" * 20_000)
    assert not like_matches("%error%timeout%", "error " * 20_000)
    assert like_matches("%error%timeout%", "error " * 20_000 + "timeout")
    assert time.process_time() - started < 2
