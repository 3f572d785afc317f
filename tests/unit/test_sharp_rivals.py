"""Shedders of other papers, which SHARP's experiment compares with: what they learn, worked out by hand where it can be, and that they know more than chance."""

from __future__ import annotations

import numpy as np
import pytest

from ops.experiments import sharp as experiment
from ops.experiments.rivals.budget import BudgetGate, Floats
from ops.experiments.rivals.classes import icde20
from ops.experiments.rivals.outcomes import later_looks
from ops.experiments.rivals.satisfiability import PARTNERS, Satisfiability
from ops.experiments.rivals.sketch import sharp
from ops.experiments.sharp_streams import DS1_TYPES
from ops.experiments.shedding_command import Size
from ops.experiments.shedding_figures import Points
from shedding.candidates import JudgedMatches
from shedding.interface import Manifest
from shedding.observations import MatchObservations, Succession

LOOKS, EACH = 30, 400


def seen(random: np.random.Generator) -> JudgedMatches:
    """Partial matches of two kinds with two attributes and the time left."""
    count = LOOKS * EACH
    kind = random.integers(0, 2, count).astype(np.int32)
    left = random.uniform(0, 100, count)
    nothing = np.zeros(count, np.int32)
    return JudgedMatches(np.arange(count, dtype=np.uint64), nothing, kind, left, left, kind, random.random((2, count)))


def observed() -> MatchObservations:
    """Whether one of the second kind completes says its second attribute; of the first kind nobody does. Each is seen once."""
    sample = seen(np.random.default_rng(1))
    gain = ((sample.state == 1) & (sample.values[1] > 0.8)).astype(np.float64)
    cost_s = np.where(sample.state == 1, 10.0, 20.0)
    starts = np.arange(0, len(sample) + 1, EACH)
    succession = Succession(starts, np.full(len(sample), -1), gain, cost_s)
    steps = np.zeros(0, np.int32)
    return MatchObservations(
        steps, steps, steps, np.zeros(0), np.array([3], np.int32), np.ones(1), np.array([100.0]), sample, gain, cost_s, succession
    )


@pytest.mark.parametrize("learn", [icde20, sharp])
def test_who_completes_by_an_attribute_is_known_by_it(learn: object) -> None:
    assert callable(learn)
    estimate, new = learn(observed(), 0), seen(np.random.default_rng(2))
    contribution, consumption = estimate.expected(new)
    completes = (new.state == 1) & (new.values[1] > 0.8)
    # ranges and leaves blur the border a little
    assert contribution[completes].mean() > 0.85
    assert contribution[~completes].mean() < 0.05
    assert consumption[new.state == 1].mean() == pytest.approx(10, rel=0.05)
    assert consumption[new.state == 0].mean() == pytest.approx(20, rel=0.05)


@pytest.mark.parametrize("learn", [icde20, sharp])
def test_nothing_is_expected_of_a_kind_that_was_never_seen(learn: object) -> None:
    assert callable(learn)
    new = seen(np.random.default_rng(3))
    unknown = JudgedMatches(new.identity, new.query, new.state + 5, new.remaining, new.remaining_ms, new.last_type, new.values)
    assert not learn(observed(), 0).expected(unknown)[0].any()


class Known:
    """An estimate by hand."""

    manifest = Manifest("known")

    def expected(self, matches: JudgedMatches) -> tuple[Floats, Floats]:
        return matches.values[0], matches.values[1]

    def order(self, contribution: Floats, consumption: Floats) -> Floats:
        return contribution / consumption


def test_the_best_stay_until_they_consume_what_is_left() -> None:
    values = np.array([[4.0, 9.0, 1.0, 3.0], [2.0, 3.0, 4.0, 1.0]])  # worth 2, 3, 0.25, 3 per second, 10 s in all
    matches = JudgedMatches(np.arange(4, dtype=np.uint64), values=values)
    kept = [BudgetGate(Known(), ratio).keep(matches).tolist() for ratio in (0.0, 0.3, 0.4, 0.5, 0.65, 1.0)]
    assert kept[0] == [True] * 4
    assert kept[1] == kept[2] == [True, True, False, True], "6 of 7 s, 6 of 6 s"
    assert kept[3] == [False, True, False, True], "4 of 5 s"
    assert sum(kept[4]) == 1, "of two that are worth as much the hash says who is first"
    assert kept[5] == [False] * 4


def test_later_looks_end_as_they_did_with_those_before() -> None:
    """Who is dropped at an earlier look is not there later, but who was first seen later is owed to nobody."""
    owner = np.array([-1, -1, 0, 1, -1, 2, 3, 4])
    whole = Succession(np.array([0, 2, 5, 8]), owner, np.arange(8.0), np.ones(8))
    later = later_looks(whole, 2)
    assert later.starts.tolist() == [0, 3, 6]
    assert later.owner.tolist() == [-1, -1, -1, 0, 1, 2]
    kept = np.array([True, False, True, True, True, True])
    assert later.survive(kept).tolist() == [True, False, True, True, False, True]


def test_darling_asks_how_likely_conditions_are() -> None:
    one = experiment.contest("Q3+Q4", Size(1, 3000, 1500), 0)
    model = Satisfiability.of(one, "Q3+Q4", 0)
    events = one.features.judged(one.judging)
    chances = model.chances(events)
    value = events.values[one.features.attributes.index("v")]
    letter = {name: events.type == one.features.labels.index(name) for name in DS1_TYPES}
    # a.v < b.v with b.v even up to 3e6; G has no condition; F must reach from D to E
    partners = model.partners["B"]["v"]
    assert len(partners) == PARTNERS
    assert chances[letter["A"]] == pytest.approx([np.mean(partners > own) for own in value[letter["A"]]])
    assert np.abs(chances[letter["A"]] - (1 - value[letter["A"]] / 3e6)).max() < 0.15
    assert (chances[letter["G"]] == 1).all()
    assert np.corrcoef(chances[letter["F"]], value[letter["F"]])[0, 1] > 0.8
    kept = model.gate(0.6).keep(events)
    for name, own in letter.items():
        assert kept[own].mean() == pytest.approx(0.4, abs=0.12), name
    assert chances[letter["A"] & kept].min() >= chances[letter["A"] & ~kept].max()
    assert (model.gate(0.3).keep(events) >= kept).all()


@pytest.mark.slow
def test_a_small_run_has_points_of_all_of_them() -> None:
    size = Size(1, 1500, 600)
    points = Points([*experiment.of_rivals("Q5+Q6", size, 0), *experiment.of_darling("Q5+Q6", size, 0)])
    assert set(points.curves("Q5+Q6")) == {"icde20", "icde20-priced", "sharp", "sharp-priced", "pspice-priced", "darling"}
    assert points.mean("Q5+Q6", "icde20-priced", 10) < 95
