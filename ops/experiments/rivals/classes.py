"""State-based shedding of Zhao, Hung, Weidlich: *Load Shedding for Complex Event Processing: Input-based and State-based Techniques* (ICDE 2020), as a shedder of partial matches.

Partial matches of a state are clustered by what came of them (composite events, and work of themselves and all that grew from them, both divided by the state's largest); a decision tree learns from attributes and time left (the paper's time slices) which cluster one is in; a cluster stands for a high percentile of its members'
contributions and consumptions. When too much is there, clusters of least contribution per consumption go, until enough consumption is gone (the greedy form of its knapsack).

**Its input filter** drops events that would make partial matches of a cluster that is shed. Here those are looked at when they are made, before anything is held against them, so it would save nothing more in this account of work.

Given its best form: clusters and the weight of rare ones are those that did best on the last third of what was learned from; its trees ask all that ours ask, slack of comparisons included; as published (a budget at every look) and by price. Its moving update of contributions is left out: these streams do not drift.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.tree import DecisionTreeClassifier

from ops.experiments.rivals.budget import Floats
from ops.experiments.rivals.outcomes import Outcomes, best_of, expected_by_kind
from shedding.candidates import JudgedMatches
from shedding.interface import Manifest
from shedding.observations import MatchObservations
from shedding.partial_matches.forest_rows import rows_of

PERCENTILE = 90
LEAF, DEPTH = 100, 12
FORMS = tuple((clusters, weights) for clusters in (4, 8, 16) for weights in (None, "balanced"))
"""Clusters of a state, and how a tree weighs them."""
_MOST = 200_000
"""Partial matches of a state that are clustered and learned from; of more some by chance."""


@dataclass(frozen=True, slots=True)
class _State:
    """Of one kind of partial match: a tree that says the cluster, and what clusters stand for, float64 (clusters,)."""

    tree: Any
    contribution: Floats
    consumption: Floats

    def expected(self, rows: NDArray[np.float32]) -> tuple[Floats, Floats]:
        cluster = self.tree.predict(rows)
        return self.contribution[cluster], self.consumption[cluster]


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """What was learned.

    Attributes:
        kinds: int32 (kinds, 2), ascending: states and newest events' items.
        states: one for each.
        values: attributes that trees ask for.
    """

    manifest: Manifest
    kinds: NDArray[np.int32]
    states: Sequence[_State]
    values: int

    def expected(self, matches: JudgedMatches) -> tuple[Floats, Floats]:
        """That of its cluster; nothing of kinds that were never seen."""
        rows = rows_of([matches.remaining], matches, self.values)
        return expected_by_kind(self.kinds, matches, lambda number, own: self.states[number].expected(rows[own]))

    def order(self, contribution: Floats, consumption: Floats) -> Floats:
        """Least contribution per consumption goes first."""
        return contribution / consumption


def icde20(observations: MatchObservations, seed: int) -> Classes:
    """Its best form for what was observed."""
    return best_of(FORMS, lambda form, outcomes: _learned(outcomes, *form, seed), observations)


def _learned(outcomes: Outcomes, clusters: int, weights: str | None, seed: int) -> Classes:
    rows = rows_of([outcomes.sample.remaining], outcomes.sample, len(outcomes.sample.values))
    states = [_state(rows[own], outcomes.gain[own], outcomes.cost_s[own], clusters, weights, seed) for own in outcomes.by_kind()]
    return Classes(Manifest("icde20", seed=seed), outcomes.kinds, states, len(outcomes.sample.values))


def _state(rows: NDArray[np.float32], gain: Floats, cost_s: Floats, clusters: int, weights: str | None, seed: int) -> _State:  # noqa: PLR0917 - what is learned from, and how
    some = np.random.default_rng(seed).permutation(len(rows))[:_MOST]
    rows, gain, cost_s = rows[some], gain[some], cost_s[some]
    outcome = np.stack([gain / max(gain.max(), 1e-9), cost_s / max(cost_s.max(), 1e-9)], axis=1)
    there = min(clusters, len(np.unique(outcome, axis=0)))
    number = KMeans(there, n_init=1, random_state=seed % 2**32).fit_predict(outcome)
    tree = DecisionTreeClassifier(max_depth=DEPTH, min_samples_leaf=min(LEAF, len(rows)), class_weight=weights, random_state=seed % 2**32)
    stands_for = [[np.percentile(one[number == cluster], PERCENTILE) for cluster in range(there)] for one in (gain, cost_s)]
    return _State(tree.fit(rows, number), np.array(stands_for[0]), np.array(stands_for[1]))
