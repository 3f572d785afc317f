"""The tutorial up to Kafka, typed as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tutorial import PAGE, reader_in, steps


@pytest.mark.slow
def test_the_tutorial_says_what_happens(tmp_path: Path) -> None:
    reader = reader_in(tmp_path, "localhost:9092", "http://localhost:8081")
    for step in steps(PAGE):
        reader.follow(step)


def test_every_block_of_the_page_is_of_a_known_kind() -> None:
    kinds = [re.sub(r" file=.*", " file", step.kind) for step in steps(PAGE)]
    assert set(kinds) == {"sh", "console", "console kafka", "yaml file", "json file", ""}
    assert [step.text for step in steps(PAGE) if not step.kind] == [
        "python3 -m app demo --keep demo\n",
        "python3 -m app run --settings fridges/settings.yaml\n",
    ], "what runs until somebody ends it is told apart"
    assert kinds.count("console") >= 6
