"""A plugin of pytest for running all tests in several processes: ``-p tests.parts --part 1/2`` and ``2/2`` are the whole.

No conftest: its hooks would not be asked about doctests of other folders.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", metavar="N/M", default="1/1", help="only the Nth of M parts of all files, by a hash of their names")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of other parts are not even imported."""
    if collection_path.suffix != ".py":
        return None
    number, parts = map(int, config.getoption("--part").split("/"))
    return crc32(str(collection_path.relative_to(config.rootpath)).encode()) % parts != number - 1 or None
