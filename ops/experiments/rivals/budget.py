"""How much state may stay, in the two forms that ICDE'20 and SHARP are given here: their own, a budget of consumption at every look; and by price, as ours has it where the bound is on the average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedMatches, Mask
from shedding.identity import shuffled
from shedding.interface import Gate, Manifest
from shedding.observations import Succession
from shedding.partial_matches.selection import price_at, prices_that_leave
from shedding.partial_matches.stateful import PricedGate, Promising

Floats = NDArray[np.float64]


class Estimate(Protocol):
    """What a method knows of partial matches.

    Attributes:
        manifest: where it comes from.
    """

    manifest: Manifest

    def expected(self, matches: JudgedMatches) -> tuple[Floats, Floats]:
        """What each contributes and what it consumes, itself and all that grows from it: float64 (matches,) composite events and seconds, none of these 0."""
        ...

    def order(self, contribution: Floats, consumption: Floats) -> Floats:
        """float64 (matches,): who has more stays longer."""
        ...


@dataclass(frozen=True, slots=True)
class Judged:
    """An estimate as utilities."""

    estimate: Estimate

    def utilities(self, matches: JudgedMatches) -> Floats:
        """Contribution per consumption, float64 (matches,)."""
        contribution, consumption = self.estimate.expected(matches)
        return contribution / consumption


@dataclass(frozen=True, slots=True)
class BudgetModel:
    """As published: at every look the first in order stay, until they consume the share of all consumption that the bound leaves."""

    estimate: Estimate

    @property
    def manifest(self) -> Manifest:
        """The estimate's."""
        return self.estimate.manifest

    def gate(self, drop_ratio: float) -> BudgetGate:
        """Leaves so much less consumption."""
        return BudgetGate(self.estimate, drop_ratio)


@dataclass(frozen=True, slots=True)
class BudgetGate:
    """At one drop ratio."""

    estimate: Estimate
    drop_ratio: float

    def keep(self, candidates: JudgedMatches) -> Mask:
        """Which stay."""
        contribution, consumption = self.estimate.expected(candidates)
        order = np.lexsort((shuffled(candidates.identity, 0), -self.estimate.order(contribution, consumption)))
        kept = np.empty(len(candidates), np.bool_)
        kept[order] = np.cumsum(consumption[order]) <= (1.0 - self.drop_ratio) * consumption.sum() * (1 + 1e-9)
        return kept


@dataclass(frozen=True, slots=True, eq=False)
class PriceModel:
    """Whoever has utilities, by price.

    Attributes:
        model: gives utilities.
        prices: see `prices_that_leave`.
    """

    model: Promising
    manifest: Manifest
    prices: Floats

    @staticmethod
    def of(model: Promising, manifest: Manifest, sample: JudgedMatches, succession: Succession) -> PriceModel:
        """With prices from what was observed."""
        return PriceModel(model, manifest, prices_that_leave(model.utilities(sample), succession))

    def priced(self, drop_ratio: float) -> PricedGate:
        """In the long run, so much less than without shedding."""
        return PricedGate(self.model, price_at(self.prices, drop_ratio))

    def gate(self, drop_ratio: float) -> Gate[JudgedMatches]:
        """The same: it is asked by price only."""
        return self.priced(drop_ratio)
