"""The distribution oracle of SHARP's Q3 + Q4: it knows the laws that DS1 is drawn by, and nothing of what will come. What an online method can reach at best.

    python -m ops.experiments.sharp_laws           # recall within reach at bounds of 90 to 5 %

A bound on the average number of partial matches is a price of each for every event that it is held against (Lagrange). At a price the decisions about partial matches fall apart, because the sums of matches and of work are sums over partial matches, and what comes
is independent of what came: a partial match is worth

    V(t, x) = sum over s = 1 .. t of max(0, r E[V(s - 1, child of x)] - price)

where t is how many events its window still sees, x what it has bound, r the chance that an event is of the type and ID that it waits for, the expectation is over that event's attributes (none, if a predicate fails), and a complete match is worth 1. The sum ends by itself: V grows with t, so who is not worth
its price is never again. So it is kept as long as r E[V(child)] is at least the price, and of all methods that do not see the future and do as much work on average none finds more. DS1: ten types and ten IDs, uniform; places on earth, distances and values, uniform.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from app.features.events import Features
from ops.experiments.sharp_streams import DS1_TYPES, QUERIES, plan_of
from shedding.candidates import JudgedMatches, Mask
from shedding.interface import Manifest
from shedding.partial_matches.selection import all_but_share

Floats = NDArray[np.float64]

WINDOW = QUERIES["Q3+Q4"][3]
FITTING = 1 / 100
"""Chance that an event has the type and the ID that a partial match waits for."""
STARTING = 1 / 10
"""Chance that an event is an A."""
LARGEST = 3e6
"""Values are uniform up to here; as distances they are metres."""
VALUES, LATITUDES, NEARNESS = 64, 36, 50
"""Cells of what partial matches bound: value, latitude of D, chance that a distance reaches so far."""
EARTH_RADIUS_M = 6_371_000.0
PRICES = np.concatenate([[0.0], np.geomspace(1e-6, 5e-3, 60)])


@dataclass(frozen=True, slots=True, eq=False)
class Future:
    """Of partial matches of one stage, by what they bound and by events left of the window: float64 (cells, WINDOW + 1) each.

    Attributes:
        worth: matches to come less what they cost.
        found: matches to come.
        work: partial matches times events, itself and what grows from it.
    """

    worth: Floats
    found: Floats
    work: Floats

    @staticmethod
    def complete() -> Future:
        """Of a match."""
        one = np.ones((1, WINDOW + 1))
        return Future(one, one, np.zeros_like(one))


@dataclass(frozen=True, slots=True, eq=False)
class Laws:
    """What is best at one price.

    Attributes:
        flow: by newest type, float64 (cells, WINDOW + 1): what a partial match brings forth with the next event, on average, counted with what it is worth itself.
        found: matches per event of the stream.
        work: partial matches at a time.
    """

    flow: dict[str, Floats]
    found: float
    work: float

    @staticmethod
    def at(price: float) -> Laws:
        """From complete matches back to the first event."""
        flow: dict[str, Floats] = {}
        near, cells = _nearness(), np.arange(VALUES)
        reach = np.concatenate([[0.0], (np.arange(NEARNESS) + 0.5) / NEARNESS])
        # by b.v, how likely it is that d.v exceeds b.v + c.v with a chance of k / VALUES
        sums = np.zeros((VALUES, VALUES + 1))
        for other in cells:
            left = VALUES - cells - other - 1
            sums[cells[left >= 0], left[left >= 0]] += 1 / VALUES
        above = np.triu(np.ones((VALUES, VALUES)), 1) / VALUES + np.eye(VALUES) / (2 * VALUES)
        stages: list[tuple[str, Callable[[Floats], Floats]]] = [
            ("F", lambda worth: worth),
            ("E", lambda worth: reach[:, None] * worth),
            ("D", lambda worth: 2 * near @ worth),  # E, F, G and H, I, J are alike
            ("C", lambda worth: (np.arange(VALUES + 1) / VALUES)[:, None] * worth.mean(axis=0)),
            ("B", lambda worth: sums @ worth),
            ("A", lambda worth: above @ worth),
        ]
        future = Future.complete()
        for stage, expected in stages:
            worth, found, work = (FITTING * expected(one)[:, :-1] for one in (future.worth, future.found, future.work))
            kept = worth >= price  # column s - 1: with s events left, the next of which may be taken
            flow[stage] = np.concatenate([np.zeros((len(worth), 1)), worth], axis=1)
            future = Future(_summed(kept, worth - price), _summed(kept, found), _summed(kept, work + 1))
        found, work = (STARTING * float(one[:, WINDOW].mean()) for one in (future.found, future.work))
        return Laws({**flow, "H": flow["E"], "I": flow["F"]}, found, work)


def _summed(kept: Mask, each: Floats) -> Floats:
    """What comes with every event that is left, as long as it is kept."""
    return np.concatenate([np.zeros((len(each), 1)), np.cumsum(np.where(kept, each, 0.0), axis=1)], axis=1)


def _nearness() -> Floats:
    """float64 (LATITUDES, NEARNESS + 1): how often the place of an E lies so near that a value reaches it with a chance of that cell, by latitude of D."""
    latitude = np.radians(-90 + 180 * (np.arange(LATITUDES) + 0.5) / LATITUDES)[:, None, None]
    other = np.radians(-90 + (np.arange(180) + 0.5))[None, :, None]
    apart = np.radians(np.arange(180) + 0.5)[None, None, :]
    h = np.sin((other - latitude) / 2) ** 2 + np.cos(latitude) * np.cos(other) * np.sin(apart / 2) ** 2
    chance = np.maximum(0.0, 1 - 2 * EARTH_RADIUS_M * np.arcsin(np.sqrt(np.minimum(1.0, h))) / LARGEST).reshape(LATITUDES, -1)
    return np.stack([np.bincount(row, minlength=NEARNESS + 1) / len(row) for row in np.ceil(chance * NEARNESS).astype(np.int64)])


@dataclass(frozen=True)
class LawsModel:
    """As a shedder of partial matches, by price."""

    manifest: Manifest = field(default_factory=lambda: Manifest("laws"))

    @cached_property
    def at_prices(self) -> list[Laws]:
        """For each of `PRICES`."""
        return [Laws.at(price) for price in PRICES]

    @cached_property
    def left(self) -> Floats:
        """float64 (prices,), falling: share of the work that is left."""
        work = np.array([one.work for one in self.at_prices])
        return work / work[0]

    @property
    def recall(self) -> Floats:
        """float64 (prices,), falling: share of the matches that are found."""
        found = np.array([one.found for one in self.at_prices])
        return found / found[0]

    def priced(self, drop_ratio: float) -> LawsGate:
        """At the price that leaves about so much."""
        return LawsGate(self.at_prices[self._nearest(drop_ratio)], float(PRICES[self._nearest(drop_ratio)]))

    def gate(self, drop_ratio: float) -> LawsGate:
        """A share of whatever there is, those that are worth least at that price."""
        return LawsGate(self.at_prices[self._nearest(drop_ratio)], 0.0, drop_ratio)

    def _nearest(self, drop_ratio: float) -> int:
        return int(np.argmin(np.abs(np.log(np.maximum(self.left, 1e-3)) - np.log(max(1e-3, 1 - drop_ratio)))))


@dataclass(frozen=True, slots=True)
class LawsGate:
    """Drops what is worth less than its price, or a share of all."""

    laws: Laws
    price: float
    drop_ratio: float = 0.0

    def keep(self, candidates: JudgedMatches) -> Mask:
        """Which partial matches stay."""
        worth = self.utilities(candidates)
        if self.drop_ratio:
            return all_but_share(worth, candidates, self.drop_ratio, 0)
        return worth >= self.price

    def utilities(self, matches: JudgedMatches) -> Floats:
        """Matches per event for which each is worth being kept, float64 (matches,)."""
        attributes = _attributes()
        first, newest, slack = matches.values[: len(attributes)], matches.values[len(attributes) : 2 * len(attributes)], matches.values[-4:]
        value, latitude = attributes.index("v"), attributes.index("x")
        cells = {
            "A": first[value] / LARGEST * VALUES,
            "B": newest[value] / LARGEST * VALUES,
            "C": np.rint((1 + slack[1] / LARGEST) * VALUES),  # slack: -(b.v + c.v)
            "D": (newest[latitude] + 90) / 180 * LATITUDES,
            "E": np.ceil((1 + slack[2] / LARGEST) * NEARNESS),  # -distance
            "H": np.ceil((1 + slack[3] / LARGEST) * NEARNESS),
        }
        left = np.clip(matches.remaining, 0, WINDOW).astype(np.int64)
        worth = np.zeros(len(matches))
        for stage, table in self.laws.flow.items():
            own = np.flatnonzero(matches.last_type == DS1_TYPES.index(stage))
            cell = np.clip(cells[stage][own], 0, len(table) - 1).astype(np.int64) if stage in cells else 0
            worth[own] = table[cell, left[own]]
        return worth


@cache
def _attributes() -> tuple[str, ...]:
    return Features.of(plan_of("Q3+Q4")).attributes


def main() -> None:
    """Prints what is within reach."""
    model = LawsModel()
    print(f"unshed: {model.at_prices[0].work:,.0f} partial matches at a time, {model.at_prices[0].found:.3f} matches per event")
    for bound in (90, 70, 50, 30, 20, 10, 5):
        print(f"{bound} %: recall {100 * np.interp(bound / 100, model.left[::-1], model.recall[::-1]):.1f} %")


if __name__ == "__main__":
    main()
