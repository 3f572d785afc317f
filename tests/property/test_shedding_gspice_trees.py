"""Compiled trees against scikit-learn, and against the definition of their features."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from shedding.candidates import JudgedEvents
from shedding.events.gspice_trees import GspiceTreesModel
from shedding.forest import Trees, compiled
from shedding.identity import identities
from shedding.interface import Training
from shedding.observations import EventObservations
from shedding.panes import Pane
from shedding.registry import method
from tests.conformance.shedding_cases import event_observations, some_events
from tests.naive import shedding_gspice as naive

TYPES, ATTRIBUTES = 3, 2


def features_of(events: JudgedEvents, pane: Pane, missing: np.ndarray) -> np.ndarray:
    """Type, frequencies, attributes, from the definition."""
    stream = [naive.Event(int(t), int(time), ()) for t, time in zip(events.type, events.time, strict=True)]
    panes = [naive.frequencies(naive.pane(stream, at, pane.events, pane.time_ms), TYPES) for at in range(len(stream))]
    values = np.where(np.isnan(events.values), missing[:, None], events.values).T
    return np.concatenate([events.type[:, None], np.array(panes), values], axis=1).astype(np.float32)


def a_stream(chance: np.random.Generator, count: int) -> JudgedEvents:
    values = np.where(chance.random((ATTRIBUTES, count)) < 0.2, np.nan, chance.normal(size=(ATTRIBUTES, count)))
    types = chance.integers(0, TYPES, count).astype(np.int32)
    return JudgedEvents(identities(np.zeros(count, np.int64), np.arange(count)), np.cumsum(chance.integers(0, 3, count)), types, values)


def model_of(trees: Trees, pane: Pane, missing: np.ndarray) -> GspiceTreesModel:
    trained = method("gspice-tree", pane=pane).train(EventObservations(a_stream(np.random.default_rng(0), 50), np.zeros(50)), Training())
    assert isinstance(trained, GspiceTreesModel)
    return GspiceTreesModel(trained.manifest, pane, TYPES, missing, trees, trained.shares, "split", trained.type_shares)


@settings(max_examples=12)
@given(
    st.integers(0, 2**31), st.sampled_from([Pane(events=1), Pane(events=7), Pane(time_ms=5)]), st.sampled_from([1, 4]), st.integers(0, 12)
)
def test_compiled_trees_answer_as_scikit_learn(seed: int, pane: Pane, count: int, depth: int) -> None:
    chance = np.random.default_rng(seed)
    events, missing = a_stream(chance, 200), np.array([-9.0, -9.0])
    table, labels = features_of(events, pane, missing), chance.poisson(0.7, 200).astype(np.float64)
    shape = {"max_depth": depth or None, "random_state": 1}
    if count == 1:
        fitted = DecisionTreeRegressor(**shape).fit(table, labels)
        estimators = [fitted]
    else:
        fitted = RandomForestRegressor(count, **shape).fit(table, labels)
        estimators = fitted.estimators_
    other = a_stream(chance, 150)
    found = model_of(compiled(estimators), pane, missing).utilities(other)
    np.testing.assert_array_equal(found, fitted.predict(features_of(other, pane, missing)))


@pytest.mark.parametrize("name", ["gspice-tree", "gspice-forest"])
def test_trees_learn_what_the_table_learns(name: str) -> None:
    """Only types 0 to 2 with a first attribute of at most 5 are of use."""
    events = some_events(9)
    found = method(name).train(event_observations(2), Training()).utilities(events)
    for type_, likely in enumerate([0.1, 0.4, 0.9, 0.0, 0.0]):
        small = (events.type == type_) & (events.values[0] <= 5)
        large = (events.type == type_) & (events.values[0] > 5)
        assert abs(found[small].mean() - likely - 0.1 * (type_ == 1)) < 0.06
        assert abs(found[large].mean() - 0.1 * (type_ == 1)) < 0.06


def test_forest_has_ten_trees_and_tree_one() -> None:
    assert len(method("gspice-forest").train(event_observations(2), Training()).trees.roots) == 10
    assert len(method("gspice-tree").train(event_observations(2), Training()).trees.roots) == 1


def test_depth_and_leaves_bound_the_trees() -> None:
    small = method("gspice-tree", depth=3).train(event_observations(2), Training())
    assert len(small.trees.feature) <= 15
    assert len(method("gspice-tree", leaf_events=1e9).train(event_observations(2), Training()).trees.feature) <= 3
