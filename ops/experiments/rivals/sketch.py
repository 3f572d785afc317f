"""SHARP's estimate (Yu, Shi, Weidlich, Zhao: arXiv 2507.04872, VLDB 2026, sections 4 and 5; specification section 4), as a shedder of partial matches.

A sketch counts, by a hash of a partial match's attributes, the complete matches of each pattern that came of those that fell there, and the work of all that grew from them. When too much is there, partial matches of most complete matches stay first, until they consume what the bound leaves.

What the specification leaves open is given its best form. **Attributes** on DS1 are real numbers, of which no two are equal: they are cut into ranges that hold equally many, and which of them are hashed (none to three, for each kind of partial match; slack of comparisons and time left are among them) is chosen on the last third of what was learned
from. **Patterns**: both of a pair have the same bound, so the sum of their complete matches decides (dominance never contradicts it). **Counts** are per partial match, not of all that fell into one place: else frequent places would look good. As published (a budget at every look), and by price with matches per work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ops.experiments.rivals.budget import Floats
from ops.experiments.rivals.outcomes import Outcomes, best_of, expected_by_kind
from shedding.candidates import JudgedMatches
from shedding.interface import Manifest
from shedding.observations import MatchObservations

FORMS = tuple((ranges, most) for ranges in (8, 16, 32) for most in (1, 2, 3))
"""Ranges of an attribute, and attributes at most."""
PRIOR = 20
"""A place counts as if so many more partial matches had fallen there that were as all of their kind are."""
SHARES = (0.1, 0.25, 0.5)
"""Of a kind's partial matches: attributes are those that tell who is among the best so many."""


@dataclass(frozen=True, slots=True)
class _Places:
    """Of one kind.

    Attributes:
        rows: which attributes are hashed.
        borders: of each one's ranges.
        contribution: float64 (places,).
        consumption: float64 (places,).
    """

    rows: tuple[int, ...]
    borders: tuple[Floats, ...]
    contribution: Floats
    consumption: Floats

    def expected(self, values: Floats) -> tuple[Floats, Floats]:
        place = _place(values, self.rows, self.borders)
        return self.contribution[place], self.consumption[place]


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """What was learned.

    Attributes:
        kinds: int32 (kinds, 2), ascending: states and newest events' items.
        places: for each.
    """

    manifest: Manifest
    kinds: NDArray[np.int32]
    places: Sequence[_Places]

    def expected(self, matches: JudgedMatches) -> tuple[Floats, Floats]:
        """What came of those that fell into the same place; nothing of kinds that were never seen."""
        values = _values(matches)
        return expected_by_kind(self.kinds, matches, lambda number, own: self.places[number].expected(values[:, own]))

    def order(self, contribution: Floats, consumption: Floats) -> Floats:
        """Most complete matches stay."""
        return contribution


def sharp(observations: MatchObservations, seed: int) -> Sketch:
    """Its best form for what was observed."""
    return best_of(FORMS, lambda form, outcomes: _learned(outcomes, *form, seed), observations)


def _learned(outcomes: Outcomes, ranges: int, most: int, seed: int) -> Sketch:
    values = _values(outcomes.sample)
    places = [_places(values[:, own], outcomes.gain[own], outcomes.cost_s[own], ranges, most) for own in outcomes.by_kind()]
    return Sketch(Manifest("sharp", seed=seed), outcomes.kinds, places)


def _values(matches: JudgedMatches) -> Floats:
    """float64 (attributes + 1, matches): time left, and attributes; what is absent is below all others."""
    table = np.concatenate([matches.remaining[None], matches.values])
    return np.where(np.isnan(table), -np.inf, table)


def _place(values: Floats, rows: Sequence[int], borders: Sequence[Floats]) -> NDArray[np.int64]:
    place = np.zeros(values.shape[1], np.int64)
    for row, border in zip(rows, borders, strict=True):
        place = place * (len(border) + 1) + np.searchsorted(border, values[row], side="right")
    return place


def _places(values: Floats, gain: Floats, cost_s: Floats, ranges: int, most: int) -> _Places:
    """Attributes one by one, each the one with which places that learned from the first half order the second half best."""
    borders = [
        np.unique(np.quantile(row[np.isfinite(row)], np.linspace(0, 1, ranges + 1)[1:-1])) if np.isfinite(row).any() else np.empty(0)
        for row in values
    ]
    half = len(gain) // 2
    rows: tuple[int, ...] = ()
    best = float(np.mean(SHARES))
    while len(rows) < most and gain[half:].any():
        places = {
            row: _placed(values, (*rows, row), borders, gain[:half], cost_s[:half])
            for row in range(len(values))
            if row not in rows and len(borders[row])
        }
        found = {row: _captured(place.expected(values[:, half:]), gain[half:]) for row, place in places.items()}
        row = max(found, key=lambda one: found[one], default=-1)
        if row < 0 or found[row] <= best:
            break
        rows, best = (*rows, row), found[row]
    return _placed(values, rows, borders, gain, cost_s)


def _captured(expected: tuple[Floats, Floats], gain: Floats) -> float:
    """Share of the complete matches that come of the best tenth, quarter and half, on average."""
    contribution, consumption = expected
    order = np.argsort(-contribution / consumption, kind="stable")
    came = np.cumsum(gain[order]) / gain.sum()
    return float(np.mean([came[int(share * (len(gain) - 1))] for share in SHARES]))


def _placed(values: Floats, rows: tuple[int, ...], borders: Sequence[Floats], gain: Floats, cost_s: Floats) -> _Places:
    """What came of those at each place; the values may be more than what came of them is known of."""
    own = tuple(borders[row] for row in rows)
    place = _place(values[:, : len(gain)], rows, own)
    count = int(np.prod([len(one) + 1 for one in own], dtype=np.int64))
    return _Places(rows, own, _means(place, gain, count), np.maximum(1e-9, _means(place, cost_s, count)))


def _means(place: NDArray[np.int64], outcome: Floats, count: int) -> Floats:
    """float64 (count,): of each place, as if `PRIOR` more had fallen there that were as all are."""
    mean = float(outcome.mean()) if len(outcome) else 0.0
    number, total = np.bincount(place, minlength=count), np.bincount(place, outcome, minlength=count)
    return (total + PRIOR * mean) / (number + PRIOR)
