"""Hypothesis profiles, chosen by HYPOTHESIS_PROFILE (``python3 -m tests`` sets it): ``fast`` (default), ``ci``, ``nightly``."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW_TO_DRAW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.filter_too_much]
"""Random queries with schemas and streams are large on purpose."""

settings.register_profile("fast", max_examples=50, deadline=None, derandomize=True, suppress_health_check=SLOW_TO_DRAW)
settings.register_profile("ci", max_examples=300, deadline=None, derandomize=True, suppress_health_check=SLOW_TO_DRAW, print_blob=True)
settings.register_profile("nightly", max_examples=20_000, deadline=None, suppress_health_check=SLOW_TO_DRAW, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
