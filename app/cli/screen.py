"""Where commands print for people."""

from __future__ import annotations

import sys

from rich.console import Console

WIDE = 200
"""Columns where nobody looks at a terminal: rows of tables stay whole for `grep`."""


def screen() -> Console:
    """Standard output: lines are not broken, numbers not coloured."""
    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)
