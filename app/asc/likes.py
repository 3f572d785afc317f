"""``like`` with a constant pattern: a range of byte strings where the pattern is a prefix or a whole text, else asked once per distinct text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.query.text.like import like_expression

REPLACEMENT = "\ufffd"
"""What bytes that are no UTF-8 are read as: it stands for many byte strings, so no range does."""


@dataclass(frozen=True, slots=True)
class LikeTest:
    """A compiled ``[not] like`` of the item that owns a bit."""

    bit: int
    pattern: re.Pattern[str]
    negated: bool

    @staticmethod
    def of(bit: int, pattern: str, operator: str) -> LikeTest:
        """Compiles the pattern."""
        return LikeTest(bit, re.compile(like_expression(pattern), re.DOTALL), operator == "not like")

    def holds(self, text: str) -> bool:
        """Whether the text passes."""
        return (self.pattern.fullmatch(text) is not None) != self.negated


def like_range(pattern: str) -> tuple[bytes, bytes] | None:
    r"""From where on, and up to what (exclusive), byte strings match; None where no range decides.

    >>> like_range("ab%"), like_range("ab"), like_range("a%b")
    ((b'ab', b'ac'), (b'ab', b'ab\x00'), None)
    """
    prefix = pattern.removesuffix("%")
    if not prefix or any(character in prefix for character in ("%", "_", REPLACEMENT)):
        return None
    encoded = prefix.encode()
    return encoded, encoded + b"\0" if prefix == pattern else encoded[:-1] + bytes([encoded[-1] + 1])
