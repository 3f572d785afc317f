"""A plugin of pytest for runs that have to end in time: ``-p tests.hurry --hurry-after SECONDS``.

Behind that time properties draw few examples, and the summary says how many did. So a machine of half the usual speed, or one with a busy neighbour, still looks at every test
before continuous integration gives up and has looked at none of the last ones. What is drawn is the same at every run (``derandomize``) and the nightly run draws all.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import settings

FEW = 10
"""Examples of a property that comes late; shrinking and the given examples are as ever."""
HURRIED = pytest.StashKey[int]()
BEGAN = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--hurry-after", metavar="SECONDS", type=float, default=float("inf"), help=f"from then on properties draw {FEW} examples"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[HURRIED] = 0


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What runs from now on is what it was before, with fewer examples."""
    if time.monotonic() - BEGAN >= item.config.getoption("--hurry-after") and limit_examples(item, FEW):
        item.config.stash[HURRIED] += 1


def limit_examples(item: pytest.Item, most: int) -> bool:
    """At most so many examples, whatever a property asks for; False where it asks for no more, or the test is none."""
    test = getattr(item, "function", None)
    own = getattr(test, "_hypothesis_internal_use_settings", None)
    if own is None or own.max_examples <= most:
        return False
    test._hypothesis_internal_use_settings = settings(own, max_examples=most)  # type: ignore[union-attr]
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Nobody takes a hurried run for a whole one."""
    if hurried := config.stash[HURRIED]:
        after = config.getoption("--hurry-after")
        terminalreporter.write_line(f"{hurried} properties drew {FEW} examples: the tests had taken {after:.0f} s before them")
