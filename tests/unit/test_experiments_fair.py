"""The harness handicaps nobody: what shedders lose in its worlds is what can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
import pytest

from app.evaluation.contest import Contest, Terms
from app.evaluation.operator import Operator
from app.evaluation.windows import OpenedOperator
from app.events.batch import take
from app.features.events import candidate_items
from ops.experiments import pspice
from ops.experiments import shedding_data as data
from ops.experiments import shedding_queries as queries
from ops.experiments.shedding_runs import contest_of, under
from shedding.events.baseline import drop_shares
from shedding.panes import Pane
from shedding.registry import method


def at_least(steps: int, events: int, chance: float) -> float:
    """The probability of so many successes or more."""
    return 1 - sum(comb(events, k) * chance**k * (1 - chance) ** (events - k) for k in range(steps))


@pytest.mark.parametrize("window", [6000, 10_000])
def test_what_dropping_from_windows_loses_is_a_binomial_chance(window: int) -> None:
    """Of a window's events behind its opener, ten must take its partial match a step further, whichever: each does with one chance, if it is not dropped."""
    one = pspice.contest(queries.p1(window), data.steps(5000, 3), 1000, 3)
    model = one.train(method("e-bl"))
    (standing,) = one.standings(method("e-bl"), model, (1.2,))
    events, chance = round(window * data.OF_USE) - 1, data.ADVANCE / data.OF_USE
    shares = drop_shares(model.repetition, model.frequency, 1 - 1 / 1.2)
    step = float(np.average(shares[1:11], weights=model.frequency[1:11]))
    by_hand = 1 - at_least(10, events, chance * (1 - step)) / at_least(10, events, chance)
    by_window = standing.quality.false_negatives - standing.quality.false_positives  # any match of a window counts as the window's
    assert by_window == pytest.approx(by_hand, abs=0.05)
    handicapped = 1 - (1 - shares[0]) * (1 - by_hand)  # as if openers of windows were dropped like others
    assert handicapped > by_hand + 0.1


def test_what_opened_a_window_stays_in_it_and_can_go_from_others() -> None:
    one = pspice.contest(queries.p1(3500), data.steps(1500, 1), 500, 1)
    operator = OpenedOperator(one.plan, one.judging)
    leaders = np.flatnonzero(one.judging.type.values == 0)
    assert operator.windows.event[operator.opening].tolist() == leaders.tolist()

    class Everything:
        name, manifest = "e-bl", method("e-bl").train(one._observations(method("e-bl")), pspice.Training()).manifest

        def gate(self, drop_ratio: float):
            return self

        def keep(self, candidates):
            return np.zeros(len(candidates), np.bool_)

    (standing,) = one.standings(method("e-bl"), Everything(), (2.0,))
    assert standing.dropped == pytest.approx(1 - len(leaders) / len(operator.windows))
    assert standing.quality.false_negatives == 1


@pytest.mark.parametrize("hz", [1, 5])
def test_soccer_has_more_samples_between_the_same_seconds(hz: int) -> None:
    coarse, fine = data.soccer_positions(40, 2), data.soccer_positions(40, 2, hz)
    assert len(fine[2]) == 39 * hz + 1
    assert np.diff(fine[2]).tolist() == [1000 // hz] * (39 * hz)
    for before, now in zip(coarse[:2], fine[:2], strict=True):
        assert now[::hz] == pytest.approx(before)
    assert fine[1][hz // 2 : hz // 2 + 2].mean(axis=0) == pytest.approx(fine[1][hz // 2] + (fine[1][hz // 2 + 1] - fine[1][hz // 2]) / 2)


def players(hz: int, seconds: int = 500) -> Contest:
    everything = data.duel_events(*data.soccer_positions(seconds, 4, hz), 4)
    return pspice._players(3, everything, 4)


def test_a_limit_of_less_than_one_partial_match_is_kept_on_average() -> None:
    one, own = players(1, 1500), method("pm-random")
    assert 0.5 < one.calm < 2
    model = one.train(own)
    held = {}
    for average_over in (0, pspice.AVERAGE_OVER):
        (standing,) = under(one, replace(one.terms, average_over=average_over, match_interval=2)).standings(own, model, (2.0,))
        held[average_over] = standing.held
    assert held[pspice.AVERAGE_OVER] == pytest.approx(0.5, abs=0.12)
    assert held[0] < 0.3  # what whole numbers made of it
    assert one.terms.average_over == pspice.AVERAGE_OVER


def test_at_five_samples_a_second_there_are_partial_matches_to_choose_among() -> None:
    assert players(pspice.SOCCER_HZ, 300).calm > 2 * players(1, 300).calm


@pytest.mark.parametrize("name", ["gspice", "bl", "espice", "random"])
def test_behind_selection_a_share_is_one_of_candidates(name: str) -> None:
    batch = data.letters("DS1", 5000, 2)  # Q1 takes half of these by their own predicates
    one = contest_of(queries.g1(), batch, 0.8, Terms(fixed=True, selected=True))
    rows = np.flatnonzero(candidate_items(one.plan, one.judging))
    assert 0.4 < len(rows) / len(one.judging) < 0.6
    assert sorted(one.truth.identity.tolist()) == sorted(Operator(one.plan, one.judging).run().identity.tolist())
    own = method(name)
    model = one.train(own)
    (standing,) = one.standings(own, model, (2.0,))
    assert standing.dropped == pytest.approx(0.5, abs=0.03)
    assert len(standing.latency_s) == len(rows)
    (before,) = under_all(one).standings(own, under_all(one).train(own), (2.0,))
    if name == "gspice":  # in front of selection all that goes is what costs nothing behind it
        assert before.quality.false_negatives < 0.05
        assert standing.quality.false_negatives > 0.3


def under_all(one: Contest) -> Contest:
    return Contest(one.plan, one.learning, one.judging, replace(one.terms, selected=False))


def test_behind_selection_panes_hold_what_selection_keeps_away() -> None:
    batch = data.letters("DS1", 3000, 5)
    one = contest_of(queries.g1(), batch, 0.8, Terms(fixed=True, selected=True))
    rows = np.flatnonzero(candidate_items(one.plan, one.judging))
    own = method("gspice", pane=Pane(events=6))
    model = one.train(own)
    everything = one.features.judged(one.judging)
    alone = one.features.judged(take(one.judging, rows))
    seen: list[np.ndarray] = []

    class Watched:
        manifest = model.manifest

        def gate(self, ratio: float):
            class Gate:
                def keep(self, candidates):
                    seen.append(model.utilities(candidates))
                    return model.gate(ratio).keep(candidates)

            return Gate()

    list(one.standings(own, Watched(), (2.0,)))
    assert seen[-1].tolist() == model.utilities(everything).tolist()
    assert np.mean(seen[-1][rows] != model.utilities(alone)) > 0.2  # panes of candidates alone would say something else
