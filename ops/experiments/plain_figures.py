"""Figures and verdicts of an experiment as a file that is small enough to be committed and can be judged again: a line each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

Figure = TypeVar("Figure")


def write(file: Path, figures: Sequence[Any], verdicts: Sequence[Any]) -> None:
    """Writes both.

    Args:
        file: its name ends in ``.json``.
        figures: frozen dataclasses of numbers, texts and tuples of numbers; six digits of each are kept.
        verdicts: frozen dataclasses of texts.
    """
    parts = {
        name: ",\n  ".join(json.dumps(_short(asdict(one))) for one in rows) for name, rows in (("verdicts", verdicts), ("figures", figures))
    }
    file.write_text("{\n" + ",\n".join(f' "{name}": [\n  {lines}\n ]' for name, lines in parts.items()) + "\n}\n", encoding="utf-8")


def read(file: Path, kind: type[Figure]) -> tuple[list[Figure], list[dict[str, str]]]:
    """Figures of this kind, and verdicts as they were written."""
    found = json.loads(file.read_text(encoding="utf-8"))
    figures = [
        kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in one.items()}) for one in found["figures"]
    ]
    return figures, found["verdicts"]


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_short(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
