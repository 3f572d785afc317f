"""What ICDE'20 and SHARP learn from, and how their best form is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ops.experiments.rivals.budget import Estimate, Floats, Judged
from shedding.candidates import JudgedMatches
from shedding.observations import MatchObservations, Succession
from shedding.partial_matches.branching import kinds_among, kinds_of

LATER = 1 / 3
"""Of the looks: on which forms are compared."""
BOUNDS = (0.5, 0.1)
"""Shares of the work at which they are."""

One = TypeVar("One", bound=Estimate)
Form = TypeVar("Form")


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Partial matches at some looks and what came of them without shedding.

    Attributes:
        sample: the partial matches.
        gain: float64 (sample,), composite events of it and what grew from it.
        cost_s: float64 (sample,), seconds, likewise.
        kinds: int32 (kinds, 2), ascending: states and newest events' items.
    """

    sample: JudgedMatches
    gain: Floats
    cost_s: Floats
    kinds: NDArray[np.int32]

    @staticmethod
    def of(sample: JudgedMatches, gain: Floats, cost_s: Floats) -> Outcomes:
        """With all kinds that there are."""
        return Outcomes(sample, gain, cost_s, kinds_of(sample))

    def by_kind(self) -> Iterator[NDArray[np.int64]]:
        """Which are of each kind."""
        kind = kinds_among(self.kinds, self.sample)
        return (np.flatnonzero(kind == number) for number in range(len(self.kinds)))


def expected_by_kind(
    kinds: NDArray[np.int32], matches: JudgedMatches, ask: Callable[[int, NDArray[np.int64]], tuple[Floats, Floats]]
) -> tuple[Floats, Floats]:
    """What each contributes and consumes, at least a second of the latter, so that it divides; of kinds that were never seen nothing, and that second.

    Args:
        kinds: that are known.
        matches: partial matches.
        ask: the number of a kind, and which are of it; gives both for these.
    """
    kind = kinds_among(kinds, matches)
    contribution, consumption = np.zeros(len(matches)), np.ones(len(matches))
    for number in np.unique(kind[kind >= 0]).tolist():
        own = np.flatnonzero(kind == number)
        contribution[own], consumption[own] = ask(number, own)
    return contribution, np.maximum(consumption, 1.0)


def best_of(
    forms: Sequence[Form],
    learn: Callable[[Form, Outcomes], One],
    observations: MatchObservations,
) -> One:
    """The form that finds most on the later looks when it learned from the earlier ones, learned from all.

    Raises:
        ValueError: partial matches do not branch, or none was seen.
    """
    sample, succession = observations.sample, observations.succession
    if succession is None or not len(sample):
        raise ValueError("nothing to learn from: partial matches that branch are wanted")
    gain, cost_s = observations.gain, observations.cost_s
    border = int(succession.starts[round((1 - LATER) * (len(succession.starts) - 1))])
    earlier = Outcomes.of(sample.only(slice(border)), gain[:border], cost_s[:border])
    later, after = sample.only(slice(border, None)), later_looks(succession, border)
    found = [_found(Judged(learn(form, earlier)), later, after) for form in forms]
    return learn(forms[int(np.argmax(found))], Outcomes.of(sample, gain, cost_s))


def _found(judge: Judged, sample: JudgedMatches, succession: Succession) -> float:
    """Share of the composite events that is found at some bounds, on average."""
    worth = judge.utilities(sample)
    tried = np.quantile(worth, np.linspace(0, 0.99, 34))
    left = [succession.survive(worth >= price) for price in tried]
    work = np.minimum.accumulate([float(one.mean()) for one in left])
    recall = [float(succession.gain[one].sum() / max(1e-9, succession.gain.sum())) for one in left]
    return float(np.mean([np.interp(-bound, -work, recall) for bound in BOUNDS]))


def later_looks(succession: Succession, border: int) -> Succession:
    """Without the looks before this row of the sample."""
    owner = succession.owner[border:]
    starts = succession.starts[succession.starts >= border] - border
    return Succession(starts, np.where(owner >= border, owner - border, -1), succession.gain[border:], succession.spent_s[border:])
