"""Patterns of ``like`` as regular expressions, for whoever asks texts one by one."""

from __future__ import annotations

import re


def like_expression(pattern: str) -> str:
    r"""The regular expression of a LIKE pattern. What stands between two ``%`` is looked for from the left, once: an earlier place is never worse, and to try all of them takes the power of the text's length.

    >>> like_expression("a%b_."), like_expression("%a%b%")
    ('a.*b.\\.', '(?>.*?a)(?>.*?b).*')
    """
    first, *others = ("".join("." if character == "_" else re.escape(character) for character in part) for part in pattern.split("%"))
    if not others:
        return first
    *between, last = others
    return first + "".join(f"(?>.*?{part})" for part in between if part) + ".*" + last
