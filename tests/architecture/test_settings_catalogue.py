"""Settings: every one is documented, and the documents are in step with the code."""

from __future__ import annotations

from pathlib import Path

from app.config.catalogue import catalogue, rows

ROOT = Path(__file__).parents[2]


def test_catalogue_is_up_to_date() -> None:
    assert (ROOT / "ops" / "settings.md").read_text() == catalogue(), "run: python -m app.config.catalogue > ops/settings.md"


def test_every_setting_says_what_it_means() -> None:
    for name, kind, _, meaning in rows():
        assert meaning.endswith((".", ")")), f"{name} has no sentence under it"
        assert "|" not in meaning, f"{name}: a bar would break the table"
        assert not kind.startswith(("typing", "<")), f"{name}: {kind}"
