"""pSPICE: a partial match's utility is its probability to complete over the work that it still takes, by its state and what is left of its window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedMatches, Mask
from shedding.interface import Arrays, Json, Level, Manifest, Training
from shedding.observations import MatchObservations
from shedding.partial_matches.kernels_look_up import look_up
from shedding.partial_matches.markov import Chain, chain_of, prospects
from shedding.partial_matches.selection import all_but_share

_LEAST_TIME = 1e-6
"""Share of the longest remaining time that divides at least: none left is not an infinite utility."""


@dataclass(frozen=True, slots=True, eq=False)
class UtilityTable:
    """Utilities of partial matches.

    Attributes:
        utility: float64 (queries, states, bins + 1), C-contiguous; states that a query lacks are 0.
        bin_size: float64 (queries,), remaining events from one bin to the next.
    """

    utility: NDArray[np.float64]
    bin_size: NDArray[np.float64]

    def look_up(self, matches: JudgedMatches) -> NDArray[np.float64]:
        """Utility of each partial match, float64 (matches,)."""
        utilities = np.empty(len(matches))
        look_up(matches.query, matches.state, matches.remaining, self.utility, self.bin_size, utilities)
        return utilities


@dataclass(frozen=True, slots=True)
class PspiceGate:
    """Drops a share of the partial matches at hand, those of least utility."""

    table: UtilityTable
    seed: int
    drop_ratio: float

    def keep(self, candidates: JudgedMatches) -> Mask:
        """Which partial matches stay; how many go is rounded to the nearest whole number."""
        return all_but_share(self.table.look_up(candidates), candidates, self.drop_ratio, self.seed)


@dataclass(frozen=True, slots=True, eq=False)
class PspiceModel:
    """What `Pspice` learned.

    Attributes:
        manifest: where it comes from.
        table: utilities.
        chains: of each query.
    """

    manifest: Manifest
    table: UtilityTable
    chains: tuple[Chain, ...]

    def utilities(self, matches: JudgedMatches) -> NDArray[np.float64]:
        """Utility of each partial match, float64 (matches,)."""
        return self.table.look_up(matches)

    def gate(self, drop_ratio: float) -> PspiceGate:
        """Drops this share of whatever partial matches there are."""
        return PspiceGate(self.table, self.manifest.seed, drop_ratio)

    def arrays(self) -> Arrays:
        """For a file."""
        return {
            "utility": self.table.utility,
            "bin_size": self.table.bin_size,
            "states": np.array([len(chain.step_s) for chain in self.chains], dtype=np.int64),
            "transitions": np.concatenate([chain.transitions.ravel() for chain in self.chains]),
            "step_s": np.concatenate([chain.step_s for chain in self.chains]),
            "seen": np.concatenate([chain.seen for chain in self.chains]),
        }

    def parameters(self) -> Json:
        """None."""
        return {}


@dataclass(frozen=True, slots=True)
class Pspice:
    """Settings of pSPICE.

    Attributes:
        name: ``pspice``, or ``pspice-minus`` for completion probability alone.
        time_exponent: of the remaining processing time: 1, or 0 to leave it out.
        bins: a window is cut into at most so many, between which utilities are linear.

    Source: pSPICE (IEEE BigData 2019), equation 1. The paper scales probability and time before it divides and does not say how: here both
    are divided by their maximum over all queries, states and bins *together*, which keeps the queries' different costs. Utilities are interpolated, not
    probability and time apart. A state from which no step was observed has the best utility of its query: what training never reached lies far along.
    """

    name: str = "pspice"
    time_exponent: int = 1
    bins: int = 256
    level: Level = "partial matches"

    def train(self, observations: MatchObservations | None, training: Training) -> PspiceModel:
        """Learns chains and works out utilities.

        Raises:
            ValueError: no step was observed.
        """
        if observations is None or not len(observations.query):
            raise ValueError("no steps of partial matches to learn from")
        chains = chains_of(observations)
        sizes = [max(1, ceil(size / self.bins)) for size in observations.window_size]
        ahead = [prospects(chain, self.bins, size) for chain, size in zip(chains, sizes, strict=True)]
        likeliest = max(float(completion[:, :-1].max(initial=0.0)) for completion, _ in ahead) or 1.0
        longest = max(float(seconds.max()) for _, seconds in ahead) or 1.0
        utility = np.zeros((len(chains), int(observations.states.max()), self.bins + 1))
        for number, (chain, (completion, seconds)) in enumerate(zip(chains, ahead, strict=True)):
            time = np.maximum(_LEAST_TIME, seconds / longest) ** self.time_exponent
            own = float(observations.weight[number]) * (completion / likeliest) / time
            seen = chain.seen.copy()
            seen[-1] = False
            own[:, ~seen] = own[:, seen].max(axis=1, keepdims=True, initial=0.0)
            utility[number, : len(seen)] = own.T
        manifest = training.manifest(self.name, len(observations.query))
        return PspiceModel(manifest, UtilityTable(utility, np.array(sizes, dtype=np.float64)), chains)

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> PspiceModel:
        """The inverse of `PspiceModel.arrays`."""
        states = arrays["states"].tolist()
        ends, squares = np.cumsum(states)[:-1], np.cumsum(np.square(states))[:-1]
        parts = (np.split(arrays["transitions"], squares), np.split(arrays["step_s"], ends), np.split(arrays["seen"], ends))
        chains = tuple(Chain(matrix.reshape(m, m), step_s, seen) for m, matrix, step_s, seen in zip(states, *parts, strict=True))
        return PspiceModel(manifest, UtilityTable(np.ascontiguousarray(arrays["utility"]), arrays["bin_size"]), chains)


PSPICE_MINUS = partial(Pspice, "pspice-minus", time_exponent=0)


def chains_of(observations: MatchObservations) -> tuple[Chain, ...]:
    """The chain of each query."""
    chains = []
    for number, states in enumerate(observations.states.tolist()):
        mine = observations.query == number
        chains.append(chain_of(observations.before[mine], observations.after[mine], observations.spent_s[mine], states))
    return tuple(chains)
