"""The house's document is in step with the code."""

import re
import tomllib
from pathlib import Path

from app.terms import TERMS

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "app" / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_the_glossary_is_the_list_of_terms():
    words = dict(re.findall(r"^\* \*\*(.+?)\*\* — (.+)$", DOCUMENT.split("## Words")[1], flags=re.MULTILINE))
    assert words == TERMS


def test_every_floor_has_a_paragraph_in_the_order_of_the_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    floors = [name for layer in layers for name in layer.split(" | ")]
    section = DOCUMENT.split("## Floors")[1].split("## What")[0]
    described = [name for line in re.findall(r"^\* (.+?) — ", section, flags=re.MULTILINE) for name in re.findall(r"\*\*(\w+)\*\*", line)]
    assert described == floors


def test_every_package_is_a_floor():
    packages = {path.name for path in (ROOT / "app").iterdir() if (path / "__init__.py").exists()}
    described = set(re.findall(r"\*\*(\w+)\*\*", DOCUMENT.split("## Floors")[1].split("## What")[0]))
    assert packages <= described
