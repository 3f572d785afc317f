"""Hypothesis profiles, chosen by HYPOTHESIS_PROFILE (``python3 -m tests`` sets it): ``fast``, ``ci``, ``nightly``; pytest by itself draws `some`.

And golden files: ``--golden-update`` writes what the tests see into them; the diff is reviewed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from app.bootstrap.bytecode import bytecode_in_cache
from tests.command_line import shell
from tests.hurry import limit_examples
from tests.s3 import bucket, s3_log, s3_requests, s3_server

__all__ = ["bucket", "s3_log", "s3_requests", "s3_server", "shell"]  # fixtures for all tests

bytecode_in_cache()

SLOW_TO_DRAW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.filter_too_much]
"""Random queries with schemas and streams are large on purpose."""

settings.register_profile("some", max_examples=50, deadline=None, derandomize=True, suppress_health_check=SLOW_TO_DRAW)
settings.register_profile("fast", max_examples=5, deadline=None, derandomize=True, suppress_health_check=SLOW_TO_DRAW)
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True, suppress_health_check=SLOW_TO_DRAW, print_blob=True)
settings.register_profile("nightly", max_examples=20_000, deadline=None, suppress_health_check=SLOW_TO_DRAW, print_blob=True)
CHART = Path(__file__).parent / "chart"
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "some")
settings.load_profile(PROFILE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The chart's come last: what they ask is installed meanwhile (`tests.tools`). The fast loop draws no more for properties that say by themselves how many examples they want."""
    items.sort(key=lambda item: CHART in item.path.parents)
    for item in items if PROFILE == "fast" else ():
        limit_examples(item, settings.default.max_examples)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden-update", action="store_true", help="write what the golden tests see into their files; review the diff")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """A function (file, text) that holds a text against a golden file, or writes it under ``--golden-update``."""
    update = request.config.getoption("--golden-update")

    def check(path: Path, actual: str) -> None:
        if update:
            path.write_text(actual, encoding="utf-8")
            return
        assert path.exists(), f"{path} is missing; run pytest --golden-update and review it"
        assert actual == path.read_text(encoding="utf-8")

    return check
