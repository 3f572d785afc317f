"""DARLING (PVLDB 15(3), 2021; specification section 4), as a shedder of events: what is the chance that an event's conditions hold, given its own attributes?

An event's utility is the product, over the conditions of the pattern that its type takes part in, of the chance that the condition holds with partners by chance. Each type has its share of the room, in proportion to its rate and to how long an event of it takes; here an event of whatever type is held against the partial matches of
its ID, so the share that stays is the same for every type, and in each those of least utility go.

Given its best form: chances are those with partners from the stream that was learned from, not with normal approximations of them, and they are not rounded to percent. It knows no windows, no negation (an event that forbids is kept like one without conditions), and of a pair of patterns an event's utility is the mean over those that have its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.evaluation.contest import Contest
from app.features.events import Features
from app.features.slack import haversine
from shedding.candidates import JudgedEvents, Mask
from shedding.interface import Manifest
from shedding.threshold import Cut, UtilityShares, keep_by_part, utility_shares

Floats = NDArray[np.float64]
Attributes = Mapping[str, Floats]
PARTNERS = 300
"""Combinations of other events that a condition is tried with."""
_AT_ONCE = 2_000
"""Events whose conditions are tried at a time."""
UNKNOWN = Cut(-np.inf, 0)
"""Keeps what was never seen."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition between events of some types.

    Attributes:
        types: letters, one for each event that it speaks of.
        holds: takes the attributes of one event after the other, arrays that broadcast.
    """

    types: str
    holds: Callable[..., NDArray[np.bool_]]


def _nearer(latest: str) -> Condition:
    def holds(d: Attributes, other: Attributes, last: Attributes) -> NDArray[np.bool_]:
        return haversine(d["x"], d["y"], other["x"], other["y"]) <= last["v"]

    return Condition(latest, holds)


_RISING = Condition("AB", lambda a, b: a["v"] < b["v"])
_SUM = Condition("BCD", lambda b, c, d: b["v"] + c["v"] < d["v"])
PATTERNS: Mapping[str, Sequence[tuple[str, Sequence[Condition]]]] = {
    "Q3+Q4": (("ABCDEFG", (_RISING, _SUM, _nearer("DEF"))), ("ABCDHIJ", (_RISING, _SUM, _nearer("DHI")))),
    "Q1+Q2": (
        ("ABCD", (Condition("BC", lambda b, c: b["x"] < c["x"]),)),
        ("ABEF", (Condition("ABEF", lambda a, b, e, f: a["x"] + b["x"] < e["x"] + f["x"]),)),
    ),
    "Q5+Q6": (("ABCD", (Condition("AB", lambda a, b: a["x"] < b["x"]),)), ("ABCE", ())),
}
"""Of each pair of queries: types, and conditions beside the same ID. A closure (``B+``) is taken for one event: the fewest conditions that it can fail."""


@dataclass(frozen=True, slots=True, eq=False)
class Satisfiability:
    """What was learned.

    Attributes:
        manifest: where it comes from.
        features: how events are described.
        pair: of `PATTERNS`.
        partners: by letter, attributes of events of the stream that was learned from, float64 (`PARTNERS`,) each, in an order by chance.
        shares: by letter, of the type's events there.
    """

    manifest: Manifest
    features: Features
    pair: str
    partners: Mapping[str, Attributes]
    shares: Mapping[str, UtilityShares]

    @staticmethod
    def of(contest: Contest, pair: str, seed: int) -> Satisfiability:
        """That of a contest's learning stream."""
        features = contest.features
        events = features.judged(contest.learning)
        random = np.random.default_rng([seed, 301])
        partners = {}
        for letter, own in _by_letter(features, events).items():
            some = own[random.integers(0, len(own), PARTNERS)]
            partners[letter] = _attributes(features, events, some)
        bare = Satisfiability(Manifest("darling", seed=seed), features, pair, partners, {})
        chances = bare.chances(events)
        shares = {letter: utility_shares(chances[own]) for letter, own in _by_letter(features, events).items()}
        return Satisfiability(bare.manifest, features, pair, partners, shares)

    def chances(self, events: JudgedEvents) -> Floats:
        """float64 (events,): that all conditions hold."""
        found = np.ones(len(events))
        for letter, own in _by_letter(self.features, events).items():
            taking_part = [conditions for types, conditions in PATTERNS[self.pair] if letter in types]
            for start in range(0, len(own), _AT_ONCE):
                rows = own[start : start + _AT_ONCE]
                attributes = _attributes(self.features, events, rows)
                found[rows] = np.mean([self._of_all(letter, attributes, conditions) for conditions in taking_part], axis=0)
        return found

    def _of_all(self, letter: str, attributes: Attributes, conditions: Sequence[Condition]) -> Floats:
        product = np.ones(len(next(iter(attributes.values()))))
        for condition in conditions:
            if letter in condition.types:
                own = {name: values[:, None] for name, values in attributes.items()}
                asked = [
                    own if other == letter else {name: values[None] for name, values in self.partners[other].items()}
                    for other in condition.types
                ]
                product *= condition.holds(*asked).mean(axis=1)
        return product

    def gate(self, drop_ratio: float) -> SatisfiabilityGate:
        """Drops this share of every type."""
        return SatisfiabilityGate(self, drop_ratio)


@dataclass(frozen=True, slots=True)
class SatisfiabilityGate:
    """At one drop ratio."""

    model: Satisfiability
    drop_ratio: float

    def keep(self, candidates: JudgedEvents) -> Mask:
        """Of each type those whose conditions are likeliest; of equal ones some by chance."""
        labels = self.model.features.labels
        cuts = [self.model.shares[label].cut(self.drop_ratio) if label in self.model.shares else UNKNOWN for label in labels]
        kept = keep_by_part(cuts, self.model.chances(candidates), candidates.identity, np.maximum(candidates.type, 0))
        return kept & (candidates.type >= 0)


def _by_letter(features: Features, events: JudgedEvents) -> dict[str, NDArray[np.int64]]:
    found = {label: np.flatnonzero(events.type == number) for number, label in enumerate(features.labels)}
    return {label: own for label, own in found.items() if len(own)}


def _attributes(features: Features, events: JudgedEvents, rows: NDArray[np.int64]) -> Attributes:
    return {name: events.values[place, rows] for place, name in enumerate(features.attributes)}
