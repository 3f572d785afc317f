"""All measured figures of a run, one value per seed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What was measured.

    Attributes:
        figure: of the paper.
        on: query set and tuples.
        scheme: who was measured.
        measure: what of it.
        x: where on the axis.
    """

    figure: int
    on: str
    scheme: str
    measure: str
    x: float = 0.0


@dataclass(slots=True)
class Figures:
    """Values by key, in order of seeds."""

    values: dict[Key, list[float]] = field(default_factory=dict)

    def add(self, key: Key, value: float) -> None:
        """Appends the value of the next seed."""
        self.values.setdefault(key, []).append(float(value))

    def of(self, figure: int, on: str, scheme: str, measure: str = "cost", x: float = 0.0) -> tuple[float, ...]:
        """One value per seed.

        Raises:
            KeyError: never measured.
        """
        return tuple(self.values[Key(figure, on, scheme, measure, x)])

    def workloads(self, figure: int) -> list[str]:
        """What a figure was measured on, in order of measurement."""
        return list(dict.fromkeys(key.on for key in self.values if key.figure == figure))

    def places(self, figure: int, on: str, scheme: str, measure: str = "cost") -> list[float]:
        """Where on the axis there are figures, ascending."""
        return sorted(key.x for key in self.values if (key.figure, key.on, key.scheme, key.measure) == (figure, on, scheme, measure))

    def curve(self, figure: int, on: str, scheme: str, measure: str = "cost") -> tuple[list[float], list[float], list[float]]:
        """Places, means, standard deviations."""
        places = self.places(figure, on, scheme, measure)
        points = [self.of(figure, on, scheme, measure, x) for x in places]
        return places, [mean(point) for point in points], [deviation(point) for point in points]

    @staticmethod
    def read(file: Path) -> Figures:
        """What `write` wrote; of traces their means."""
        found = Figures()
        for row in json.loads(file.read_text(encoding="utf-8"))["figures"]:
            found.values[Key(row["figure"], row["on"], row["scheme"], row["measure"], row["x"])] = row.get("seeds", [row["mean"]])
        return found

    def write(self, file: Path, **more: Any) -> None:
        """As JSON: a line per key; of traces, which are long, without their seeds."""
        lines = []
        for key, values in sorted(self.values.items()):
            seeds = {} if key.measure == "trace" else {"seeds": [_short(one) for one in values]}
            lines.append(json.dumps({**asdict(key), "mean": _short(mean(values)), "sd": _short(deviation(values)), **seeds}))
        head = "".join(f' "{name}": {json.dumps(value, indent=1)},\n' for name, value in more.items())
        file.write_text("{\n" + head + ' "figures": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n", encoding="utf-8")


def mean(values: Iterable[float]) -> float:
    """Over seeds."""
    return float(np.mean(list(values)))


def deviation(values: Iterable[float]) -> float:
    """Over seeds; of a sample."""
    found = list(values)
    return float(np.std(found, ddof=1)) if len(found) > 1 else 0.0


def _short(value: float) -> float:
    return float(f"{value:.6g}")
