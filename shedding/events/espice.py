"""eSPICE: the utility of an event in a window by its type and its position there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shedding import kernels_windows
from shedding.candidates import JudgedInWindows, Mask
from shedding.identity import pair_identities
from shedding.interface import Arrays, Json, Level, Manifest, Training
from shedding.observations import WindowObservations
from shedding.threshold import Cut, Ties, UtilityShares, keep_by_part, utility_shares

Variant = Literal["probability", "row"]


@dataclass(frozen=True, slots=True, eq=False)
class PositionTable:
    """Utilities by type and position.

    Attributes:
        utility: float64 (types, bins), 0 to 100, or more where events serve several composite events.
        length: positions that it stands for: the mean size of a window. Positions in windows of other sizes are scaled.
        bin: positions of one column.
        unknown: mean of all, for types that were not learned.
    """

    utility: NDArray[np.float64]
    length: int
    bin: int
    unknown: float

    def look_up(self, pairs: JudgedInWindows, parts: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Utility of each pair, and the part of its window that it lies in."""
        utilities, part = np.empty(len(pairs)), np.empty(len(pairs), dtype=np.int32)
        where = (pairs.events.type, pairs.event, pairs.position, pairs.size)
        kernels_windows.by_position(*where, float(self.length), self.bin, self.utility, self.unknown, parts, utilities, part)
        return utilities, part


@dataclass(frozen=True, slots=True)
class EspiceGate:
    """Drops pairs of less utility than the threshold of their part of the window."""

    table: PositionTable
    cuts: tuple[Cut, ...]

    def keep(self, candidates: JudgedInWindows) -> Mask:
        """Keeps the pairs above the threshold, and some at it."""
        utilities, part = self.table.look_up(candidates, len(self.cuts))
        return keep_by_part(self.cuts, utilities, pair_identities(candidates), part)


@dataclass(frozen=True, slots=True, eq=False)
class EspiceModel:
    """What `Espice` learned.

    Attributes:
        manifest: where it comes from.
        table: utilities.
        shares: of utilities, for each part of a window.
        ties: see `shedding.threshold`.
    """

    manifest: Manifest
    table: PositionTable
    shares: tuple[UtilityShares, ...]
    ties: Ties

    def utilities(self, pairs: JudgedInWindows) -> NDArray[np.float64]:
        """Utility of each pair, float64 (pairs,)."""
        return self.table.look_up(pairs, len(self.shares))[0]

    def gate(self, drop_ratio: float) -> EspiceGate:
        """Drops this share of every part of a window."""
        return EspiceGate(self.table, tuple(one.cut(drop_ratio, seed=self.manifest.seed, ties=self.ties) for one in self.shares))

    def arrays(self) -> Arrays:
        """For a file."""
        lengths = np.array([len(one.utility) for one in self.shares], dtype=np.int64)
        whole = [np.concatenate(parts) for parts in ([one.utility for one in self.shares], [one.cumulative for one in self.shares])]
        return {"table": self.table.utility, "lengths": lengths, "utility": whole[0], "cumulative": whole[1]}

    def parameters(self) -> Json:
        """For a file."""
        return {"length": self.table.length, "bin": self.table.bin, "unknown": self.table.unknown, "ties": self.ties}


@dataclass(frozen=True, slots=True)
class Espice:
    """Settings of eSPICE.

    Attributes:
        variant: ``probability``: composite events per event of this type at this position (E-prob). ``row``: a type's composite events, divided among positions, in
            whole hundredths (E-row).
        bin: so many neighbouring positions are one.
        parts: windows are cut into so many parts, and each part loses its share; see `shedding.detector.parts_of_window`.
        holdout: share of the windows, the last ones, on which the thresholds are measured.
        ties: see `shedding.threshold`.

    Source: eSPICE (Middleware 2019). Where a type was never seen at a position it has its mean utility (E-prob). Thresholds are measured on
    utilities as they come out, not on the table: they differ where windows vary in size.
    """

    variant: Variant = "probability"
    bin: int = 1
    parts: int = 1
    holdout: float = 0.2
    ties: Ties = "split"

    name = "espice"
    level: Level = "events per window"

    def train(self, observations: WindowObservations | None, training: Training) -> EspiceModel:
        """Learns utilities from the earlier windows, thresholds from the later ones.

        Raises:
            ValueError: there are no observations.
        """
        seen = present(observations)
        windows = np.unique(seen.pairs.window)
        border = len(windows) - int(len(windows) * self.holdout)
        later = seen.pairs.window >= windows[border] if border < len(windows) else np.ones(len(seen.pairs), dtype=np.bool_)
        earlier = ~later if border < len(windows) else later
        table = self._table(cut_out(seen.pairs, earlier), seen.weight[earlier])
        utilities, part = table.look_up(cut_out(seen.pairs, later), self.parts)
        shares = tuple(utility_shares(utilities[part == number]) for number in range(self.parts))
        return EspiceModel(manifest_of(seen, training, self.name), table, shares, self.ties)

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> EspiceModel:
        """The model of a file."""
        table = PositionTable(arrays["table"], parameters["length"], parameters["bin"], parameters["unknown"])
        borders = np.cumsum(arrays["lengths"])[:-1]
        parts = zip(np.split(arrays["utility"], borders), np.split(arrays["cumulative"], borders), strict=True)
        return EspiceModel(manifest, table, tuple(UtilityShares(*one) for one in parts), parameters["ties"])

    def _table(self, pairs: JudgedInWindows, weight: NDArray[np.float64]) -> PositionTable:
        types = pairs.events.type[pairs.event]
        sizes = pairs.size[np.unique(pairs.window, return_index=True)[1]]
        length = max(1, round(float(sizes.mean())))
        shape = (int(types.max(initial=-1)) + 1, -(-length // self.bin))
        low, high = _cells(pairs, length)
        counts = high - low + 1
        pair = np.repeat(np.arange(len(pairs)), counts)
        column = np.minimum((np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts - low, counts)) // self.bin, shape[1] - 1)
        known = types[pair] >= 0
        cell = types[pair][known] * shape[1] + column[known]
        share = (1 / counts)[pair][known]
        gained, seen = (_sums(cell, one, shape) for one in (weight[pair][known] * share, share))
        utility = np.ascontiguousarray(_VARIANTS[self.variant](gained, seen))
        utility.flags.writeable = False
        return PositionTable(utility, length, self.bin, float((utility * seen).sum() / max(seen.sum(), 1.0)))


def _probability(gained: NDArray[np.float64], seen: NDArray[np.float64]) -> NDArray[np.float64]:
    means = 100 * gained.sum(axis=1, keepdims=True) / np.maximum(seen.sum(axis=1, keepdims=True), 1e-300)
    utility: NDArray[np.float64] = np.where(seen > 0, 100 * gained / np.where(seen > 0, seen, 1.0), means)
    return utility


def _row(gained: NDArray[np.float64], seen: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = gained.sum(axis=1, keepdims=True)
    utility: NDArray[np.float64] = np.floor(100 * gained / np.where(sums > 0, sums, 1.0) + 1e-9)
    return utility


def _sums(cell: NDArray[np.int64], what: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.float64]:
    return np.bincount(cell, what, minlength=shape[0] * shape[1]).astype(np.float64).reshape(shape)


_VARIANTS = {"probability": _probability, "row": _row}


def _cells(pairs: JudgedInWindows, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last position of the table that each pair stands for."""
    sizes = np.maximum(pairs.size, 1.0)
    low = np.minimum((pairs.position * float(length) / sizes).astype(np.int64), length - 1)
    high = np.minimum(np.ceil((pairs.position + 1) * float(length) / sizes).astype(np.int64) - 1, length - 1)
    return low, np.where(sizes >= length, low, np.maximum(low, high))


def present(observations: WindowObservations | None) -> WindowObservations:
    """The observations.

    Raises:
        ValueError: there are none.
    """
    if observations is None or not len(observations.weight):
        raise ValueError("there is nothing to learn from: no windows that are over")
    return observations


def cut_out(pairs: JudgedInWindows, rows: Mask) -> JudgedInWindows:
    """Some of the pairs, of the same events."""
    return JudgedInWindows(pairs.events, pairs.event[rows], pairs.window[rows], pairs.position[rows], pairs.size[rows])


def manifest_of(observations: WindowObservations, training: Training, method: str) -> Manifest:
    """The manifest of a model learned from these."""
    times = observations.pairs.events.time
    return training.manifest(method, len(observations.weight), *((int(times[0]), int(times[-1])) if len(times) else (0, 0)))
