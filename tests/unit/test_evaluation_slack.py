"""What is told of bound events, worked out again event by event."""

from __future__ import annotations

import numpy as np
import pytest

from app.evaluation.slack import Bound

PLAIN = {
    "first": lambda x: x[0],
    "last": lambda x: x[-1],
    "min": min,
    "max": max,
    "sum": sum,
    "avg": lambda x: sum(x) / len(x),
    "count": len,
}


def bound_of(chance: np.random.Generator, runs: int) -> Bound:
    run = np.repeat(np.arange(runs), chance.integers(0, 5, runs))
    return Bound(run, chance.integers(0, 3, len(run)), chance.permutation(len(run)), runs, chance.normal(size=(2, len(run))), ("x", "y"))


@pytest.mark.parametrize("function", PLAIN)
@pytest.mark.parametrize("runs", [0, 1, 40])
def test_what_is_told_is_what_each_partial_match_has_bound(function: str, runs: int) -> None:
    bound = bound_of(np.random.default_rng(runs), runs)
    for binding in range(4):
        expected = np.full(runs, np.nan)
        for number in range(runs):
            rows = [row for run, own, row in zip(bound.run, bound.binding, bound.row, strict=True) if (run, own) == (number, binding)]
            values = [1.0 if function == "count" else float(bound.values[1, row]) for row in rows]
            expected[number] = PLAIN[function](values) if values else np.nan
        told = bound.told(function, binding, None if function == "count" else "y")
        np.testing.assert_allclose(told, expected)
        assert bound.told(function, binding, None if function == "count" else "y") is told, "asked once"
    assert np.isnan(bound.told(function, 0, "unknown")).all()
