"""Typing what ``docs/tutorial.md`` says, in a folder where `python3 -m app` is this project."""

from __future__ import annotations

from pathlib import Path

from app.cli.demo.world import demo_settings
from tests.pages import Reader, Step, agrees, at_home, steps

__all__ = ["PAGE", "Step", "agrees", "reader_in", "steps"]

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def reader_in(folder: Path, bootstrap_servers: str, registry_url: str, more: dict[str, str] | None = None) -> Reader:
    """The demo's settings are there, as if it ran with ``--keep demo``."""
    (folder / "demo").mkdir()
    demo_settings(folder / "demo", bootstrap_servers, registry_url, 8080)
    return at_home(folder, more)
