"""The README's second page, typed as it stands: a changed query in the console, and an overload with its audits.

Every run of the tests takes this machine's environment and caches; ``CEP_NEWCOMER=fresh`` (the nightly run sets it) begins with a copy of the project and nothing else.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.newcomer import FRESH_S, PATIENCE_S, Newcomer, follow, fresh
from tests.pages import at_home

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FRESH = os.environ.get("CEP_NEWCOMER") == "fresh"


@pytest.mark.timeout(2 * FRESH_S if FRESH else 3000)
def test_who_reads_nothing_but_the_readme_sees_a_changed_query_and_an_overload_in_the_console(tmp_path: Path, record_property) -> None:
    newcomer = Newcomer(fresh(tmp_path) if FRESH else at_home(tmp_path), tmp_path, FRESH_S if FRESH else PATIENCE_S)
    follow(newcomer)
    for what, seconds in newcomer.seen.items():
        record_property(f"{what}, s", f"{seconds:.1f}")
