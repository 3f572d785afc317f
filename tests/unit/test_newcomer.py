"""The README's section for newcomers, as far as it can be looked at without running it."""

from __future__ import annotations

from pathlib import Path

from app.cli.demo.world import demo_settings
from tests.command_line import Shell
from tests.newcomer import QUERY, typed


def test_the_section_has_the_blocks_that_the_newcomer_types() -> None:
    kinds = [step.kind for step in typed()]
    assert kinds == ["", f"yaml file=demo/queries/{QUERY}.yaml", "sh", "sh", "console", ""]
    begin, *_, overload = typed()
    assert begin.text.startswith("python3 -m app demo --keep demo")
    assert overload.text.startswith(begin.text.strip()), "the same folder: the query is still there"


def test_the_query_of_the_section_is_valid_beside_the_demos(tmp_path: Path, shell: Shell) -> None:
    settings = demo_settings(tmp_path, "127.0.0.1:1", "http://127.0.0.1:2", 3)
    (tmp_path / "queries" / f"{QUERY}.yaml").write_text(typed()[1].text)
    ended = shell("validate", "--settings", settings)
    assert "10 queries in 10 files: 0 errors" in ended.out
    assert f"{QUERY}.yaml" not in ended.out + ended.err, "no warning either"
