"""Every query of the language's README passes its own tests, and the table of findings is what the recordings give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from app.cli.queries.test import run_tests

QUERIES = Path(__file__).parents[2] / "queries"
README = (QUERIES / "README.md").read_text(encoding="utf-8")
EXAMPLES = {yaml.safe_load(block)["name"]: block for block in re.findall(r"^```yaml\n(.*?)^```", README, re.DOTALL | re.MULTILINE)}


def test_readme_has_examples() -> None:
    blocks = re.findall(r"^```yaml$", README, re.MULTILINE)
    assert len(EXAMPLES) == len(blocks) >= 55, "every example has a name of its own"


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_does_what_it_says(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text(EXAMPLES[name], encoding="utf-8")
    read = [QUERIES / f"{query}.yaml" for query in re.findall(r"query:([a-z-]+)", EXAMPLES[name])]
    outcomes = [outcome for outcome in run_tests([path, *read]) if outcome.query == name]
    assert outcomes
    for outcome in outcomes:
        assert outcome.passed, f"{outcome.test}\n{outcome.explanation()}"
