"""The tuples: D1 (uniform), D2 (non-uniform), D2 that drifts, and the recording KDD99-int.

The paper's D1 and D2 have 20 integer attributes; only those that a query set uses are drawn here, as the others are never read.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Tuples = NDArray[np.int64]
"""(attributes, tuples), each attribute contiguous."""
VALUES = 100
"""Of an attribute of D1 and D2: 0 to 99, the paper's."""
KDD_ROWS, KDD_ATTRIBUTES = 805_050, 15
RECORDINGS = Path(__file__).parents[3].parent / "shared" / "data"
DRIFT_STEPS = 50


def uniform(seed: int, attributes: int, count: int) -> Tuples:
    """D1."""
    return np.random.default_rng([seed, 11]).integers(0, VALUES, (attributes, count))


def normal(seed: int, attributes: int, count: int) -> Tuples:
    """D2: per attribute a normal distribution cut off at the ends of the domain, of random centre and a deviation of 5 to 20."""
    random = np.random.default_rng([seed, 12])
    centres, deviations = random.uniform(0, VALUES, attributes), random.uniform(5, 20, attributes)
    return np.stack([_cut_normal(random, centres[a], deviations[a], count) for a in range(attributes)])


def drifting(seed: int, attributes: int, count: int) -> Tuples:
    """As D2, but every centre wanders to another place while the stream runs."""
    random = np.random.default_rng([seed, 13])
    start, end, deviations = random.uniform(0, VALUES, attributes), random.uniform(0, VALUES, attributes), random.uniform(5, 20, attributes)
    bounds = np.linspace(0, count, DRIFT_STEPS + 1).astype(int)
    found = np.empty((attributes, count), dtype=np.int64)
    for step, (first, stop) in enumerate(pairwise(bounds)):
        centres = start + (end - start) * step / (DRIFT_STEPS - 1)
        for a in range(attributes):
            found[a, first:stop] = _cut_normal(random, centres[a], deviations[a], stop - first)
    return found


def _cut_normal(random: np.random.Generator, centre: float, deviation: float, count: int) -> NDArray[np.int64]:
    weights = np.exp(-((np.arange(VALUES) - centre) ** 2) / (2 * deviation**2))
    cumulated = np.cumsum(weights)
    return np.searchsorted(cumulated / cumulated[-1], random.random(count), side="right").clip(max=VALUES - 1)


@cache
def kdd(path: Path = RECORDINGS / "integers" / "kddcup99_int15.csv.gz") -> Tuples:
    """KDD99-int in its recorded order: 15 attributes.

    Raises:
        FileNotFoundError: the recording is not on this machine; it is not part of the project.
    """
    table = np.loadtxt(path, dtype=np.int64, delimiter=",", skiprows=1, usecols=range(1, 1 + KDD_ATTRIBUTES))
    return np.ascontiguousarray(table.T)


def domains_of(tuples: Tuples) -> list[NDArray[np.int64]]:
    """Per attribute its values, ascending: ranges take shares of them."""
    return [np.unique(values) for values in tuples]
