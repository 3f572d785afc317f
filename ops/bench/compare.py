"""Holds a benchmark's figures against an earlier run's. Run:

    python -m ops.bench.compare EARLIER.json NOW.json [--tolerance 0.2]

Every figure whose name ends in ``_per_s`` should not fall, every other one that ends in ``_s``, ``_ms`` or ``_bytes`` should not grow, by more
than the tolerance (a share; the machines are noisy). Exit 1 when one does. Figures that only one run has are named, and are no failure.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def figures(content: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """All figures of a run with a direction, by their path.

    >>> list(figures({"a": {"m_events_per_s": 2, "events": 9}}))
    [('a.m_events_per_s', 2.0)]
    """
    if isinstance(content, dict):
        for key, value in content.items():
            yield from figures(value, f"{name}.{key}" if name else str(key))
    elif isinstance(content, int | float) and name.endswith(("_s", "_ms", "_bytes")):
        yield name, float(content)


def worse_by(name: str, earlier: float, now: float) -> float:
    """By which share a figure got worse; negative when it got better.

    >>> round(worse_by("a_per_s", 10, 8), 2), round(worse_by("a_ms", 10, 12), 2)
    (0.2, 0.2)
    """
    if earlier == 0:
        return 0.0
    return (earlier - now) / earlier if name.endswith("_per_s") else (now - earlier) / earlier


def main() -> None:
    """Prints every figure, and marks those that got worse."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("earlier", type=Path)
    parser.add_argument("now", type=Path)
    parser.add_argument("--tolerance", type=float, default=0.2)
    arguments = parser.parse_args()
    earlier, now = (dict(figures(json.loads(path.read_text()))) for path in (arguments.earlier, arguments.now))
    failed = False
    for name in sorted(earlier.keys() | now.keys()):
        if name not in earlier or name not in now:
            print(f"  {name}: only in the {'earlier' if name in earlier else 'new'} run")
            continue
        share = worse_by(name, earlier[name], now[name])
        failed |= share > arguments.tolerance
        print(f"{'✗' if share > arguments.tolerance else ' '} {name}: {earlier[name]:g} → {now[name]:g} ({-share:+.0%})")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
