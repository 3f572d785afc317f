"""Ablations of S8 (`ops.experiments.pspice`, figures ``Eb-Q3-*``): what E-BL may drop for nothing, and what pSPICE does not know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.evaluation.contest import Contest
from app.features.events import candidate_items
from ops.experiments.shedding_figures import Point, known
from ops.experiments.shedding_runs import judged, point_of
from ops.experiments.shedding_verdicts import FORESEEING, NOTHING_FREE
from shedding.candidates import JudgedMatches, Mask
from shedding.events.baseline import TypeModel, e_bl
from shedding.identity import identities
from shedding.interface import Json, Level, Manifest, Training
from shedding.observations import WindowObservations
from shedding.partial_matches.selection import all_but_share
from shedding.registry import method


@dataclass(frozen=True, slots=True)
class NothingFree:
    """E-BL where an event that opens a window neither costs nor can be dropped in the windows that others opened: no match of theirs takes it, so dropping it there is free.

    Attributes:
        openers: number of the kind of events that open windows.
        name: whose work is counted alike.
        level: what it drops.
    """

    openers: int
    name: str = "e-bl"
    level: Level = "events per window"

    @staticmethod
    def of(contest: Contest) -> NothingFree:
        """The one of a contest.

        Raises:
            ValueError: events of several kinds open windows.
        """
        plan, batch = contest.plan, contest.judging
        opens = candidate_items(plan, batch) & np.uint64(1 << plan.positive[0].index) != 0
        (kind,) = np.unique(contest.features.kinds(batch)[opens]).tolist()
        return NothingFree(kind)

    def train(self, observations: WindowObservations | None, training: Training) -> TypeModel:
        """As E-BL, which is told that windows hold no such events."""
        model = e_bl().train(observations, training)
        frequency = model.frequency.copy()
        frequency[self.openers] = 0.0
        return replace(model, frequency=frequency / frequency.sum())

    def restored(self, manifest: Manifest, parameters: Json, arrays: Any) -> TypeModel:
        """As E-BL."""
        return e_bl().restored(manifest, parameters, arrays)


@dataclass(frozen=True, slots=True, eq=False)
class Foreseeing:
    """pSPICE's rule with what really becomes of each partial match of the judged stream in place of its chain: its worth is 0, or 1 over the time until it is complete. A reference that no method can have.

    Attributes:
        identity: uint64 (complete,), partial matches that become complete without shedding, ascending.
        spare_ms: float64 (complete,), what is then left of their windows, ms.
        manifest: seed of the order of equals.
    """

    identity: NDArray[np.uint64]
    spare_ms: NDArray[np.float64]
    manifest: Manifest

    @staticmethod
    def of(contest: Contest) -> Foreseeing:
        """The one of a contest on a query with a window in time whose partial matches do not branch."""
        truth, batch, within = contest.truth, contest.judging, contest.plan.within
        if within is None or within.unit != "ms":
            raise ValueError(f"{contest.plan.name}: no window in time")
        first, last = truth.rows[truth.starts[:-1]], truth.rows[truth.starts[1:] - 1]
        identity = identities(batch.source[first], batch.offset[first])
        order = np.argsort(identity)
        spare = within.size - (batch.time[last] - batch.time[first])
        return Foreseeing(identity[order], spare[order].astype(np.float64), Manifest("pspice", contest.terms.seed))

    def utilities(self, matches: JudgedMatches) -> NDArray[np.float64]:
        """Float64 (matches,)."""
        if not len(self.identity):
            return np.zeros(len(matches))
        place = np.minimum(np.searchsorted(self.identity, matches.identity), len(self.identity) - 1)
        left_ms = np.maximum(1.0, matches.remaining_ms - self.spare_ms[place])
        return np.where(self.identity[place] == matches.identity, 1.0 / left_ms, 0.0)

    def gate(self, drop_ratio: float) -> ForeseeingGate:
        """Drops this share, as pSPICE does."""
        return ForeseeingGate(self, drop_ratio)


@dataclass(frozen=True, slots=True)
class ForeseeingGate:
    """Drops a share of the partial matches at hand, those of least worth."""

    model: Foreseeing
    drop_ratio: float

    def keep(self, candidates: JudgedMatches) -> Mask:
        """Which stay."""
        return all_but_share(self.model.utilities(candidates), candidates, self.drop_ratio, self.model.manifest.seed)


def ablated(contest: Contest, figure: str, rates: Sequence[float]) -> Iterator[Point]:
    """Both, at every rate; leaves out what an earlier run found."""
    yield from judged(contest, figure, {NOTHING_FREE: NothingFree.of(contest)}, rates)
    seed = contest.terms.seed
    missing = [rate for rate in rates if not known(figure, FORESEEING, round(100 * rate), seed)]
    if missing:
        model: Any = Foreseeing.of(contest)
        for standing in contest.standings(method("pspice"), model, missing):
            yield point_of(standing, figure, FORESEEING, round(100 * standing.rate), seed)
