"""Lark's parse trees, as far as the builders of the syntax tree look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lark import Token, Tree

from app.query.tree import tree as t

Branch: TypeAlias = Tree

LARGEST = 10**19
"""What numbers of more than 19 digits count as: too large for anything, and Python refuses to read very long ones."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in an expression's text."""

    message: str
    span: t.Span
    hint: str | None = None
    unfinished: bool = False
    """Whether the text ends too early."""


def whole(text: str) -> int:
    """A whole number, however many digits it has.

    >>> whole("007"), whole("9" * 5000) == LARGEST
    (7, True)
    """
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) < 20 else LARGEST


def span_of(part: object) -> t.Span:
    """The characters of a token or a branch."""
    if isinstance(part, Token):
        return t.Span(part.start_pos or 0, part.end_pos or 0)
    if isinstance(part, Tree) and not part.meta.empty:
        return t.Span(part.meta.start_pos, part.meta.end_pos)
    return t.NOWHERE


def unquote(token: str) -> str:
    """A quoted text without its quotes.

    >>> unquote("'it''s'")
    "it's"
    """
    return str(token)[1:-1].replace("''", "'")


_OPERATORS = {"≠": "!=", "≤": "<=", "≥": ">="}


def operator_text(token: Token) -> str:
    """A comparison operator in ASCII."""
    return _OPERATORS.get(str(token), str(token))


def branches(branch: Branch) -> Sequence[Branch]:
    """The branches directly below, without tokens."""
    return [child for child in branch.children if isinstance(child, Tree)]


def has_terminal(branch: Branch, terminal: str) -> bool:
    """Whether a token of a terminal stands directly below."""
    return any(isinstance(child, Token) and child.type == terminal for child in branch.children)


def tree_of(part: Any) -> Branch:
    """A part that the grammar makes a branch."""
    assert isinstance(part, Tree)  # noqa: S101 - guaranteed by the grammar
    return part


def token_of(part: Any) -> Token:
    """A part that the grammar makes a token."""
    assert isinstance(part, Token)  # noqa: S101
    return part
