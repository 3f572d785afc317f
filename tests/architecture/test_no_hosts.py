"""What a clone on any machine must not depend on: hosts of package registries, and paths of the machine it was written on."""

import re
import subprocess

import pytest

from app.bootstrap.places import PROJECT

REGISTRIES = ["repo1" + r"\.maven", r"maven\." + "org", r"pypi\." + "org", "python" + "hosted", r"crates\." + "io", r"npmjs\." + "org"]
MACHINE = "/work" + "/(main|scratch|shared|venv)"


def tracked_files():
    done = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git clone")
    return [PROJECT / name for name in done.stdout.split("\0") if name]


@pytest.mark.parametrize("pattern", [*REGISTRIES, MACHINE])
def test_no_file_names_a_registry_or_a_path_of_one_machine(pattern):
    found = [path for path in tracked_files() if path.is_file() and re.search(pattern.encode(), path.read_bytes())]
    assert found == []
