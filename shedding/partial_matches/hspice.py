"""hSPICE: the utility of an event for one partial match, by the event's type and place in the window and the partial match's state.

The event stays visible to all other partial matches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedInMatches, Mask
from shedding.interface import Arrays, Json, Level, Manifest, Training
from shedding.observations import PairObservations
from shedding.threshold import Cut, Ties, UtilityShares, keep_by_part, utility_shares


@dataclass(frozen=True, slots=True, eq=False)
class PairTable:
    """What is known of pairs.

    Attributes:
        utility: float64 (queries, types, states, bins), use per encounter; 0 where the query lacks the state.
        encounters: float64 (queries, types, states, bins), how many pairs it was learned from.
        unknown: use per encounter of all, for types and states that were not learned.
    """

    utility: NDArray[np.float64]
    encounters: NDArray[np.float64]
    unknown: float

    def cells(self, pairs: JudgedInMatches) -> NDArray[np.int64]:
        """Place of each pair in the flattened table; -1: of what was not learned."""
        queries, types, states, bins = self.utility.shape
        at = np.minimum((pairs.position * bins).astype(np.int64), bins - 1)
        known = (pairs.query < queries) & (pairs.type >= 0) & (pairs.type < types) & (pairs.state < states)
        return np.where(known, ((pairs.query.astype(np.int64) * types + pairs.type) * states + pairs.state) * bins + at, -1)

    def look_up(self, pairs: JudgedInMatches) -> NDArray[np.float64]:
        """Utility of each pair, float64 (pairs,)."""
        cells = self.cells(pairs)
        return np.where(cells >= 0, self.utility.ravel()[cells], self.unknown)


@dataclass(frozen=True, slots=True)
class HspiceGate:
    """Hides events from partial matches where the pair's utility is below the threshold of its part of the window."""

    table: PairTable
    cuts: tuple[Cut, ...]

    def keep(self, candidates: JudgedInMatches) -> Mask:
        """Which pairs stay, bool (pairs,)."""
        part = np.minimum((candidates.position * len(self.cuts)).astype(np.int32), np.int32(len(self.cuts) - 1))
        return keep_by_part(self.cuts, self.table.look_up(candidates), candidates.identity, part)

    def hidden(self, query: int, shape: tuple[int, int, int]) -> NDArray[np.float64]:
        """The same as shares of equal pairs that are hidden, for who looks them up where event and partial match meet.

        Args:
            query: number of the query.
            shape: of the result, float64 (types, states, bins); pairs of others than the model learned from are as rare as any.
        """
        types, states, bins = shape
        at = (np.arange(bins) + 0.5) / bins
        cells = np.indices((types, states)).reshape(2, -1, 1)
        place = [np.broadcast_to(one, (types * states, bins)).ravel() for one in (cells[0], cells[1], at)]
        count = len(place[0])
        pairs = JudgedInMatches(
            np.zeros(count, np.uint64), np.full(count, query, np.int32), place[0].astype(np.int32), place[1].astype(np.int32), place[2]
        )
        utility, part = self.table.look_up(pairs), np.minimum((place[2] * len(self.cuts)).astype(np.int64), len(self.cuts) - 1)
        limits, shares = (np.array([getattr(cut, name) for cut in self.cuts])[part] for name in ("utility", "tie_share"))
        return np.where(utility == limits, shares, (utility < limits).astype(np.float64)).reshape(shape)


@dataclass(frozen=True, slots=True, eq=False)
class HspiceModel:
    """What `Hspice` learned.

    Attributes:
        manifest: where it comes from.
        table: utilities.
        shares: of utilities in the virtual window, for each of its parts.
        ties: see `shedding.threshold`.
    """

    manifest: Manifest
    table: PairTable
    shares: tuple[UtilityShares, ...]
    ties: Ties

    def utilities(self, pairs: JudgedInMatches) -> NDArray[np.float64]:
        """Utility of each pair, float64 (pairs,)."""
        return self.table.look_up(pairs)

    def gate(self, drop_ratio: float) -> HspiceGate:
        """Drops this share of the pairs of every part of a window."""
        return HspiceGate(self.table, tuple(one.cut(drop_ratio, seed=self.manifest.seed, ties=self.ties) for one in self.shares))

    def arrays(self) -> Arrays:
        """For a file."""
        return {"utility": self.table.utility, "encounters": self.table.encounters}

    def parameters(self) -> Json:
        """For a file."""
        return {"unknown": self.table.unknown, "parts": len(self.shares), "ties": self.ties}


@dataclass(frozen=True, slots=True)
class Hspice:
    """Settings of hSPICE.

    Attributes:
        bins: a window is cut into so many, each with utilities of its own.
        parts: of a window, each of which loses its share; ``bins`` is a multiple. See `shedding.detector`.
        ties: see `shedding.threshold`.

    Source: Slo, Bhowmik, Rothermel, hSPICE, DEBS 2020, of which the abstract and a reimplementation are known; specification, section 4. The threshold is that of
    the virtual window: of all pairs that a mean window makes. Windows of other sizes are scaled, as positions are shares of the window. What was never met at a
    place in the window has the mean over all places.
    """

    bins: int = 20
    parts: int = 1
    ties: Ties = "split"

    name = "hspice"
    level: Level = "events per partial match"

    def train(self, observations: PairObservations | None, training: Training) -> HspiceModel:
        """Counts encounters and use.

        Raises:
            ValueError: nothing was observed, or a part is no whole number of bins.
        """
        if observations is None or not len(observations.pairs):
            raise ValueError("no pairs of events and partial matches to learn from")
        if self.bins % self.parts:
            raise ValueError(f"{self.bins} bins are not divisible among {self.parts} parts")
        pairs = observations.pairs
        shape = (int(pairs.query.max()) + 1, int(pairs.type.max()) + 1, int(pairs.state.max()) + 1, self.bins)
        cells = PairTable(np.empty(shape), np.empty(shape), 0.0).cells(pairs)
        learned = cells >= 0
        size = int(np.prod(shape))
        times = observations.times if len(observations.times) else np.ones(len(pairs))
        met = np.bincount(cells[learned], times[learned], minlength=size).astype(np.float64).reshape(shape)
        used = np.bincount(cells[learned], observations.use[learned], minlength=size).reshape(shape)
        unknown = float(observations.use.sum() / times.sum())
        anywhere = np.divide(used.sum(axis=-1), met.sum(axis=-1), out=np.full(shape[:-1], unknown), where=met.sum(axis=-1) > 0)
        utility = np.divide(used, met, out=np.repeat(anywhere[..., None], self.bins, axis=-1), where=met > 0)
        manifest = training.manifest(self.name, round(times.sum()))
        return _model(manifest, PairTable(utility, met, unknown), self.parts, self.ties)

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> HspiceModel:
        """The inverse of `HspiceModel.arrays` and `HspiceModel.parameters`."""
        table = PairTable(np.ascontiguousarray(arrays["utility"]), arrays["encounters"], parameters["unknown"])
        return _model(manifest, table, parameters["parts"], parameters["ties"])


def _model(manifest: Manifest, table: PairTable, parts: int, ties: Ties) -> HspiceModel:
    """With the shares of utilities in each part of the virtual window."""
    cut = [array.reshape(-1, parts, array.shape[-1] // parts) for array in (table.utility, table.encounters)]
    shares = tuple(utility_shares(cut[0][:, part].ravel(), cut[1][:, part].ravel()) for part in range(parts))
    return HspiceModel(manifest, table, shares, ties)
