"""Every registered shedder of every level passes every check here."""

from __future__ import annotations

import itertools
import pickle
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shedding.interface import Method, Model, Training
from shedding.model_file import DamagedModelError, ForeignModelError, NewerModelError, load, save
from shedding.registry import METHODS, method
from tests.conformance.shedding_cases import CASES, SIZE, Case, arrays_of, emptied, locked

RATIOS = (0.0, 0.01, 0.1, 0.33, 0.5, 0.9, 0.95, 1.0)
TOLERANCE = 4 * 0.5 / SIZE**0.5
"""Four standard deviations of a share of independent choices."""
LEARNED = TOLERANCE * 6**0.5
"""Where the threshold itself is measured on a fifth as many candidates."""


@pytest.fixture(params=sorted(METHODS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def case_of(name: str) -> Case:
    return CASES[METHODS[name].level]


@cache
def trained(name: str, seed: int = 7) -> Model[Any]:
    return method(name).train(case_of(name).observations(2), Training(seed, query="abc"))


def kept(name: str, ratio: float, seed: int = 7) -> np.ndarray:
    return trained(name, seed).gate(ratio).keep(case_of(name).candidates(1))


def test_method_has_the_interface_and_the_registered_name_and_level(name: str) -> None:
    made = method(name)
    assert isinstance(made, Method)
    assert (made.name, made.level) == (name, METHODS[name].level)
    assert isinstance(trained(name), Model)


def test_manifest_says_where_the_model_comes_from(name: str) -> None:
    manifest = trained(name).manifest
    assert (manifest.method, manifest.query, manifest.seed) == (name, "abc", 7)
    assert {"python", "numpy", "numba", "scikit-learn"} == set(dict(manifest.libraries))
    if METHODS[name].learns:
        assert manifest.observed > 0
        assert manifest.last_ms >= manifest.first_ms


def test_pickled_model_and_gate_decide_the_same(name: str) -> None:
    again = pickle.loads(pickle.dumps(trained(name)))
    np.testing.assert_array_equal(again.gate(0.4).keep(case_of(name).candidates(1)), kept(name, 0.4))
    gate = pickle.loads(pickle.dumps(trained(name).gate(0.4)))
    np.testing.assert_array_equal(gate.keep(case_of(name).candidates(1)), kept(name, 0.4))


def test_saved_model_decides_the_same_and_is_the_same_file_again(name: str, tmp_path: Path) -> None:
    save(trained(name), tmp_path / "model")
    again = load(tmp_path / "model", query="abc")
    np.testing.assert_array_equal(again.gate(0.4).keep(case_of(name).candidates(1)), kept(name, 0.4))
    assert again.manifest == trained(name).manifest
    save(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_same_seed_learns_the_same_model(name: str) -> None:
    once, twice = (method(name).train(case_of(name).observations(2), Training(5)) for _ in range(2))
    candidates = case_of(name).candidates(1)
    np.testing.assert_array_equal(once.gate(0.4).keep(candidates), twice.gate(0.4).keep(candidates))
    assert once.parameters() == twice.parameters()
    for array, other in zip(once.arrays().values(), twice.arrays().values(), strict=True):
        np.testing.assert_array_equal(array, other)


def test_batches_may_be_cut_anywhere(name: str) -> None:
    cut = case_of(name).parts
    if cut is None:
        pytest.skip("chooses among all candidates of the moment")
    gate = trained(name).gate(0.4)
    parts = cut(case_of(name).candidates(1))
    np.testing.assert_array_equal(np.concatenate([gate.keep(part) for part in parts]), kept(name, 0.4))


def test_input_is_left_untouched_and_may_be_read_only(name: str) -> None:
    observations, candidates = locked(case_of(name).observations(2)), locked(case_of(name).candidates(1))
    before = [array.copy() for array in arrays_of(observations) + arrays_of(candidates)]
    model = method(name).train(observations, Training(7))
    model.gate(0.5).keep(candidates)
    for array, copy in zip(arrays_of(observations) + arrays_of(candidates), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_gates_leave_the_model_as_it_was(name: str) -> None:
    before = {key: array.copy() for key, array in trained(name).arrays().items()}
    kept(name, 0.5)
    for key, array in trained(name).arrays().items():
        np.testing.assert_array_equal(array, before[key])


@pytest.mark.parametrize("ratio", RATIOS)
def test_share_of_dropped_candidates_is_the_ratio(name: str, ratio: float) -> None:
    candidates = case_of(name).candidates(1)
    if METHODS[name].keyed:  # of seven partitions none is half of one
        candidates = replace(candidates, key=candidates.identity)
    mask = trained(name).gate(ratio).keep(candidates)
    assert mask.dtype == np.bool_
    assert mask.shape == (len(candidates),)
    if name == "none":
        assert mask.all()
    else:
        assert abs((1 - mask.mean()) - ratio) <= (LEARNED if METHODS[name].learns else TOLERANCE)


def test_ratio_zero_keeps_all_and_ratio_one_drops_all(name: str) -> None:
    assert kept(name, 0.0).all()
    assert name == "none" or not kept(name, 1.0).any()


def test_what_a_ratio_drops_every_higher_one_drops_too(name: str) -> None:
    for lower, higher in itertools.pairwise(RATIOS):
        assert not (kept(name, higher) & ~kept(name, lower)).any()


def test_no_candidates_no_mask(name: str) -> None:
    nothing = emptied(case_of(name).candidates(1))
    for ratio in (0.0, 0.4, 1.0):
        assert trained(name).gate(ratio).keep(nothing).shape == (0,)


@pytest.mark.slow
def test_damaged_foreign_and_newer_files_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model"
    save(trained(name), path)
    whole = path.read_bytes()
    with pytest.raises(ForeignModelError, match="another query"):
        load(path, query="xyz")
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        _assert_refused_or_the_same(path, name)
        path.write_bytes(whole[:place])
        with pytest.raises((DamagedModelError, ForeignModelError)):
            load(path)
    path.write_bytes(b"hello")
    with pytest.raises(ForeignModelError, match="no model"):
        load(path)
    path.write_bytes(whole)
    with zipfile.ZipFile(path) as archive:
        contents = {one: archive.read(one) for one in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for one, content in contents.items():
            archive.writestr(one, content.replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(NewerModelError, match="format 2"):
        load(path)


def _assert_refused_or_the_same(path: Path, name: str) -> None:
    """A changed byte may lie where it says nothing (a date)."""
    try:
        model = load(path)
    except (DamagedModelError, ForeignModelError):
        return
    np.testing.assert_array_equal(model.gate(0.4).keep(case_of(name).candidates(1)), kept(name, 0.4))
