"""Hypothesis profiles: ``fast`` is the default, ``--hypothesis-profile=nightly`` looks a hundred times longer."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

SLOW_TO_DRAW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.filter_too_much]
"""Random queries with schemas and streams are large on purpose."""

settings.register_profile("fast", max_examples=200, deadline=None, derandomize=True, suppress_health_check=SLOW_TO_DRAW)
settings.register_profile("nightly", max_examples=20_000, deadline=None, suppress_health_check=SLOW_TO_DRAW)
settings.load_profile("fast")
