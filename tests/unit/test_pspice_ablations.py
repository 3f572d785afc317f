"""The ablations of pSPICE's S8: E-BL that drops nothing for free, and pSPICE that knows what becomes of each partial match."""

from __future__ import annotations

import numpy as np
import pytest

from app.evaluation.contest import Contest
from app.evaluation.windows import OpenedOperator
from ops.experiments import pspice
from ops.experiments import shedding_data as data
from ops.experiments import shedding_queries as queries
from ops.experiments.pspice_ablations import Foreseeing, NothingFree, ablated
from ops.experiments.pspice_verdicts import pspice_verdicts
from ops.experiments.shedding_figures import Point, Points
from ops.experiments.shedding_runs import candidates
from ops.experiments.shedding_verdicts import FORESEEING, NOTHING_FREE
from shedding.candidates import JudgedMatches
from shedding.identity import identities


@pytest.fixture(scope="module")
def soccer() -> Contest:
    plan = queries.p3(2)
    batch = candidates(plan, data.duel_events(*data.soccer_positions(400, 0, 2), 0))
    return pspice.contest(plan, batch, len(batch) // 2, 0)


def test_what_opens_windows_is_not_dropped_and_as_much_of_the_rest_as_is_asked_for(soccer: Contest) -> None:
    windows = OpenedOperator(soccer.plan, soccer.judging).windows
    free = NothingFree.of(soccer)
    pairs = windows.judged(soccer.features.judged(soccer.judging))
    kept = soccer.train(free).gate(0.5).keep(pairs)
    opens = pairs.events.type[pairs.event] == free.openers
    assert opens.any()
    assert kept[opens].all()
    assert kept[~opens].mean() == pytest.approx(0.5, abs=0.1), "shares of kinds are those of the half that was learned from"


def test_who_foresees_gives_nothing_for_what_never_becomes_complete(soccer: Contest) -> None:
    truth, batch, model = soccer.truth, soccer.judging, Foreseeing.of(soccer)
    first, last = truth.rows[truth.starts[:-1]], truth.rows[truth.starts[1:] - 1]
    others = np.setdiff1d(np.flatnonzero(batch.columns["distance"].values == 0), first)
    rows = np.concatenate([first, others])
    left_ms = np.full(len(rows), 15_000.0)  # each at its first event
    matches = JudgedMatches(identities(batch.source[rows], batch.offset[rows]), remaining_ms=left_ms)
    worth = model.utilities(matches)
    assert worth[: len(first)] == pytest.approx(1 / np.maximum(1, batch.time[last] - batch.time[first]))
    assert not worth[len(first) :].any()
    kept = model.gate(len(others) / len(rows)).keep(matches)
    assert kept[: len(first)].all()


def test_both_are_lines_of_the_figure(soccer: Contest) -> None:
    found = list(ablated(soccer, "Eb", (1.2, 2.0)))
    assert [(one.curve, one.x) for one in found] == [(name, x) for name in (NOTHING_FREE, FORESEEING) for x in (120, 200)]
    assert all(one.wrong == 0 for one in found if one.curve == FORESEEING)


def test_each_has_a_verdict_of_its_own() -> None:
    figure = "Eb-Q3-POR-SUI-2019"
    lines = {"pspice": 20.0, "pm-random": 30.0, "e-bl": 5.0, NOTHING_FREE: 50.0, FORESEEING: 18.0}
    points = [
        Point(figure, curve, x, seed, lost + seed / 10 + x / 100) for curve, lost in lines.items() for x in (120, 200) for seed in range(3)
    ]
    status = {one.claim: one.status for one in pspice_verdicts(Points(points))}
    assert status[f"S8, {figure}"] == "not reproduced"
    assert status[f"S8, {figure}, ablation: {NOTHING_FREE}"] == "reproduced"
    assert status[f"S8, {figure}, ablation: {FORESEEING}"] == "not reproduced"
