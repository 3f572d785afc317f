"""Matching scales out: four owners do the work of one, each a part of it, and nothing is fed twice."""

import pytest

from ops.bench.scale import scale

SHAPE = "local-cluster[4,1,1024]"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_four_executors_match_at_the_cost_of_one(tmp_path):
    figures = scale(tmp_path, quick=True, shapes=[SHAPE])
    assert figures["fed_ratio"][SHAPE] <= 1.1
    assert figures["cpu_ratio"][SHAPE] <= 1.2
    assert figures["memory_ratio"][SHAPE] <= 1.3
    assert figures["shapes"][SHAPE]["holders"] == [4], "every owner has a bucket, or the ratios show nothing"
