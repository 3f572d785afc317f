"""Streams of tuples for the CALS experiments: the synthetic generator, and sensor series in steps."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from shedding.tuples.intervals import Intervals

DOMAIN = 1_000
"""Values of synthetic streams."""
MINUTE_MS = 60_000
LONGEST_MS = 10 * MINUTE_MS
"""Nothing is valid for longer without a new reading."""


@dataclass(frozen=True, slots=True)
class Series:
    """A measured quantity, in steps.

    Attributes:
        name: by which it is cited.
        file: in the folder of recordings.
        time: column, ms.
        node: columns that say which sensor it is.
        quantity: column.
        step: values that fall between the same two multiples of it are one.
    """

    name: str
    file: str
    time: str
    node: tuple[str, ...]
    quantity: str
    step: float


_ROOM = ("sensors/room_climate.csv.gz", "abs_ts_ms", ("location", "node_id"))
_LIBRARY = ("sensors/ulb_library1_motes.csv.gz", "ts_ms", ("node_id",))
SERIES = (
    Series("ROOM-CLIMATE humidity 0.1 %", *_ROOM, "rel_hum", 0.1),
    Series("ROOM-CLIMATE humidity 0.5 %", *_ROOM, "rel_hum", 0.5),
    Series("ROOM-CLIMATE temperature 0.1 K", *_ROOM, "temp_c", 0.1),
    Series("ULB-LIB humidity 0.1 %", *_LIBRARY, "hum", 0.1),
    Series("ULB-LIB humidity 0.5 %", *_LIBRARY, "hum", 0.5),
    Series("ULB-LIB temperature 0.5 K", *_LIBRARY, "temp", 0.5),
)


def synthetic(count: int, probability: float, seed: int) -> Intervals:
    """Tuples of lengths 1 to 10, each with the value of the one before with that probability, else another of `DOMAIN`; each begins where the one before ends."""
    chance = np.random.default_rng([seed, round(1e6 * probability)])
    steps = np.where(chance.random(count) < probability, 0, chance.integers(1, DOMAIN, count))
    length = chance.integers(1, 11, count)
    end = np.cumsum(length)
    return Intervals(np.cumsum(steps) % DOMAIN, end - length, end)


def coalescing_probability(tuples: Intervals) -> float:
    """Share of tuples whose value is that of the one before."""
    return float(np.mean(tuples.value[1:] == tuples.value[:-1]))


def recorded(series: Series, folder: Path) -> list[Intervals]:
    """One stream for each sensor: means of minutes, valid until the next minute with readings, at most for `LONGEST_MS`."""
    streams = []
    for minutes in _minutes(folder / series.file, series.time, series.node, series.quantity).values():
        start = np.array(sorted(minutes), np.int64)
        means = np.array([np.mean(minutes[minute]) for minute in sorted(minutes)])
        end = np.minimum(np.append(start[1:] * MINUTE_MS, np.int64(2**62)), start * MINUTE_MS + LONGEST_MS)
        streams.append(Intervals(np.floor(means / series.step).astype(np.int64), start * MINUTE_MS, end))
    return streams


@cache
def _minutes(path: Path, time: str, node: tuple[str, ...], quantity: str) -> dict[tuple[str, ...], dict[int, list[float]]]:
    """Readings by sensor and minute."""
    found: dict[tuple[str, ...], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row[quantity]:
                found[tuple(row[column] for column in node)][int(row[time]) // MINUTE_MS].append(float(row[quantity]))
    return found
