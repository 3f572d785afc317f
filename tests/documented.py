"""Keys of JSON output as ``ops/runbooks/operate.md`` promises them."""

from __future__ import annotations

import re
from pathlib import Path

COLUMNS = 3
OPERATE = Path(__file__).resolve().parents[1] / "ops" / "runbooks" / "operate.md"


def documented(command: str) -> set[str]:
    """The keys in a command's row; values in parentheses are none."""
    for line in OPERATE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == command and len(cells) == COLUMNS:
            return set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", cells[2])))
    raise AssertionError(f"no row for {command} in {OPERATE}")
