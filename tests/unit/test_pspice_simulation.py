"""The minimal simulation of pSPICE: its truth against a loop over events, and who loses what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ops.experiments import pspice_simulation as simulation
from ops.experiments.pspice_simulation import Q1, Q2, World


@pytest.mark.parametrize("world", [World(events=30_000), World((Q1, Q2), 8_000, (1.0, 1.0), 30_000)])
def test_complete_matches_are_those_of_a_loop_over_events(world: World) -> None:
    chance = np.random.default_rng(3)
    at = np.flatnonzero(chance.random(world.events) < simulation.ADVANCE * 10)
    events = list(zip(at.tolist(), chance.integers(0, 10, len(at)).tolist(), strict=True))
    expected = set()
    for window in range(world.events // simulation.EVERY):
        for query, pattern in enumerate(world.patterns):
            begin, state = window * simulation.EVERY, 0
            for time, symbol in events:
                if begin <= time < begin + world.window and state < len(pattern) and symbol == pattern[state]:
                    state += 1
            if state == len(pattern):
                expected.add((window, query))
    found = simulation.run(world, 3)
    assert found.complete.keys() == expected
    assert len(expected) > 10


def test_shedding_keeps_within_capacity_and_only_loses() -> None:
    world = World(events=60_000)
    truth, model = simulation.run(world, 1), simulation.trained("pspice", world, 2)
    found = simulation.run(world, 1, simulation.within(world, 20, model, 1))
    assert found.mean_cost <= 20 < truth.mean_cost
    assert found.complete.keys() < truth.complete.keys()
    assert simulation.run(world, 1, simulation.within(world, 1e9, model, 1)).complete.keys() == truth.complete.keys()


@pytest.mark.slow
def test_pspice_loses_less_than_random_choice_and_time_matters_where_costs_differ() -> None:
    world = World(events=120_000)
    lost = {name: simulation.false_negatives(name, world, 1.2, 1)[0] for name in simulation.METHODS}
    assert lost["pspice"] < 0.7 * lost["pm-random"]
    both = replace(world, patterns=(Q1, Q2), window=10_000, cost=(16.0, 1.0))
    assert simulation.false_negatives("pspice", both, 1.2, 1)[0] < 0.7 * simulation.false_negatives("pspice-minus", both, 1.2, 1)[0]
