"""BL and E-BL: event types that patterns name rarely, and that are frequent in the stream, lose more events; within a type chance decides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shedding import kernels_windows
from shedding.candidates import JudgedEvents, JudgedInWindows, Mask
from shedding.events import espice, judging
from shedding.identity import pair_identities
from shedding.interface import Arrays, Json, Level, Manifest, Training
from shedding.observations import EventObservations, WindowObservations

_RANGE = 1 << 53


@dataclass(frozen=True, slots=True, eq=False)
class TypeGate:
    """Drops a share of each type; takes events, or pairs of an event and a window.

    Attributes:
        limits: uint64 (types + 1,), of 2**53: identities with a smaller hash go; the last is for types that are not known.
        seed: mixed into the hash.
    """

    limits: NDArray[np.uint64]
    seed: int

    def keep(self, candidates: JudgedEvents | JudgedInWindows) -> Mask:
        """Keeps each candidate with the probability of its type, by its identity."""
        kept = np.empty(len(candidates), dtype=np.bool_)
        if isinstance(candidates, JudgedInWindows):
            identity, types = pair_identities(candidates), candidates.events.type[candidates.event]
        else:
            identity, types = candidates.identity, candidates.type
        kernels_windows.keep_by_type(identity, types, self.limits, np.uint64(self.seed), kept)
        return kept


@dataclass(frozen=True, slots=True, eq=False)
class TypeModel:
    """What `Baseline` knows.

    Attributes:
        manifest: where it comes from.
        repetition: float64 (types + 1,), how often patterns name the type, weighted; 0 for the last: all types that are not known.
        frequency: float64 (types + 1,), share of the stream (or of windows).
    """

    manifest: Manifest
    repetition: NDArray[np.float64]
    frequency: NDArray[np.float64]

    def gate(self, drop_ratio: float) -> TypeGate:
        """Drops this share of all candidates."""
        shares = drop_shares(self.repetition, self.frequency, drop_ratio)
        return TypeGate(np.round(shares * _RANGE).astype(np.uint64), self.manifest.seed)

    def arrays(self) -> Arrays:
        """For a file."""
        return {"repetition": self.repetition, "frequency": self.frequency}

    def parameters(self) -> Json:
        """None."""
        return {}


@dataclass(frozen=True, slots=True)
class Baseline:
    """BL (whole events) and E-BL (events in a window); without settings.

    Attributes:
        name: as queries write it.
        level: what it drops.

    Source: He, Barman, Naughton (ICDT 2014) as read by gSPICE (2023) and pSPICE (2019), which give no formula. A type's utility is
    its repetition in the patterns over its frequency in windows. Types that no pattern names go first; when these alone are too many, by chance.
    """

    name: str
    level: Level

    def train(self, observations: EventObservations | WindowObservations | None, training: Training) -> TypeModel:
        """Counts types.

        Raises:
            ValueError: there are no observations, or they do not say how often the patterns name each type.
        """
        if isinstance(observations, WindowObservations):
            seen = espice.present(observations)
            types, manifest = seen.pairs.events.type[seen.pairs.event], espice.manifest_of(seen, training, self.name)
        else:
            observations = judging.present(observations)
            types, manifest = observations.events.type, judging.manifest_of(observations, training, self.name)
        if not len(observations.repetition):
            raise ValueError(f"{self.name} must know how often the patterns name each event type")
        known = len(observations.repetition)
        counts = np.bincount(np.where((types >= 0) & (types < known), types, known), minlength=known + 1)
        return TypeModel(manifest, np.append(observations.repetition, 0.0), counts / counts.sum())

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> TypeModel:
        """The model of a file."""
        return TypeModel(manifest, arrays["repetition"], arrays["frequency"])


def bl() -> Baseline:
    """Whole events."""
    return Baseline("bl", "events")


def e_bl() -> Baseline:
    """Events in a window."""
    return Baseline("e-bl", "events per window")


def drop_shares(repetition: NDArray[np.float64], frequency: NDArray[np.float64], drop_ratio: float) -> NDArray[np.float64]:
    """The share of each type to drop, so that ``drop_ratio`` of everything is dropped.

    A type of utility u = repetition / frequency loses min(1, c / u) of its events, with c such that the sum is right.

    Args:
        repetition: float64 (types,).
        frequency: float64 (types,), sum 1.
        drop_ratio: 0 to 1.

    Returns:
        float64 (types,).

    >>> drop_shares(np.array([1.0, 1.0, 0.0]), np.array([0.6, 0.3, 0.1]), 0.475).round(3).tolist()  # u = 1.67, 3.33, 0
    [0.5, 0.25, 1.0]
    """
    if drop_ratio >= 1:
        return np.ones(len(frequency))
    unnamed = repetition <= 0
    free = float(frequency[unnamed].sum())
    shares = np.zeros(len(frequency))
    if drop_ratio <= free:
        shares[unnamed] = drop_ratio / free if free > 0 else 0.0
        return shares
    shares[unnamed] = 1.0
    named = np.flatnonzero(~unnamed & (frequency > 0))
    utility = repetition[named] / frequency[named]
    order = np.argsort(utility, kind="stable")
    named, utility = named[order], utility[order]
    taken = np.concatenate([[0.0], np.cumsum(frequency[named])[:-1]])
    per_unit = np.cumsum((frequency[named] / utility)[::-1])[::-1]
    level = (drop_ratio - free - taken) / per_unit
    fitting = np.flatnonzero(level <= utility)
    shares[named] = np.minimum(1.0, level[fitting[0]] / utility) if len(fitting) else 1.0
    return shares
