"""The driver's part in a batch, in the small form of `ops.bench.driver`: its work and its headers grow with queries and with owners, not with their product."""

import pytest

from ops.bench.driver import Size, measured

FEW, MANY = 4, 32


@pytest.mark.slow
def test_work_and_headers_do_not_multiply_with_owners():
    few, many = (measured(Size(queries=200, owners=owners, partitions=200), rounds=7) for owners in (FEW, MANY))
    assert many["driver_cpu_ms"] < 3 * few["driver_cpu_ms"], "8 times as many owners"
    assert many["driver_cpu_ms"] < 100
    # a report per task and owner: 8 times as many; what every task says to every owner is a hundred bytes
    assert many["headers_bytes"] < 10 * few["headers_bytes"]
    assert many["headers_bytes"] < 500_000
