"""One Spark session for all tests of the session."""

import os

import pytest

from app.config.settings import Settings
from app.pipeline.session import start_session


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/" in str(item.path).replace(os.sep, "/"):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark():
    session = start_session(Settings())
    yield session
    session.stop()
