"""Who comes late draws few examples, and the run says so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.bootstrap.places import PROJECT
from tests.hurry import FEW

PROPERTIES = """
from hypothesis import given, settings, strategies as st
from pathlib import Path

def note(name):
    with Path(__file__).with_name(name).open("a") as file:
        file.write(".")

@given(st.integers())
@settings(max_examples=37)
def test_by_itself(value):
    note("itself")

class TestOf:
    @given(st.integers())
    @settings(max_examples=37)
    def test_a_class(self, value):
        note("class")

@given(st.integers())
@settings(max_examples=3)
def test_that_wants_few(value):
    note("few")

def test_that_is_no_property():
    note("none")
"""


@pytest.mark.parametrize(("after", "drawn"), [("0", FEW), ("3600", 37)])
def test_a_late_property_draws_few_examples_and_the_summary_says_so(tmp_path: Path, after: str, drawn: int) -> None:
    file = tmp_path / "test_drawn.py"
    file.write_text(PROPERTIES)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.hurry", "--hurry-after", after, "--rootdir", str(tmp_path), str(file)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {name: len((tmp_path / name).read_text()) for name in ("itself", "class", "few", "none")}
    assert counts == {"itself": drawn, "class": drawn, "few": 3, "none": 1}
    told = re.search(rf"(\d+) properties drew {FEW} examples", done.stdout)
    assert (told and int(told[1])) == (2 if drawn == FEW else None)
