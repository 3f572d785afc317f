"""The pages for people: the cookbook's queries pass their tests and stand on the page as they are, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.command_line import Shell

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COOKBOOK = DOCS / "cookbook.md"
RECIPES = sorted((DOCS / "cookbook").glob("*.yaml"))
PATTERNS = 20
FIRST = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
OTHERS = [
    ROOT / "app/ARCHITECTURE.md",
    *(page for room in ("queries", "helm", "ops", "shedding") for page in sorted((ROOT / room).rglob("*.md"))),
]


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language, in order.

    >>> blocks("```sh\\nls\\n```\\n```yaml\\na: 1\\n```\\n", "yaml")
    ['a: 1\\n']
    """
    return re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading.

    >>> slug("1. A, then `b:`")
    '1-a-then-b'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_all_recipes_pass_their_tests(shell: Shell) -> None:
    ended = shell("test", DOCS / "cookbook")
    assert ended.code == 0, ended.out + ended.err
    tested = {line.split()[1].rstrip(":") for line in ended.out.splitlines() if line.startswith("ok ")}
    assert tested == {query["name"] for path in RECIPES for query in yaml.safe_load_all(path.read_text(encoding="utf-8"))}, "each has tests"


def test_the_page_shows_the_files_as_they_are() -> None:
    page = COOKBOOK.read_text(encoding="utf-8")
    shown = re.findall(r"^\| \d+ \| \[.*\]\(#.*\) \| \[`(.*)`\]\(cookbook/.*\) \|$", page, flags=re.MULTILINE)
    assert sorted(shown) == [path.name for path in RECIPES]
    assert len(shown) == PATTERNS
    assert blocks(page, "yaml") == [(DOCS / "cookbook" / name).read_text(encoding="utf-8") for name in shown]


def test_every_pattern_says_when_and_what_to_beware_of() -> None:
    sections = COOKBOOK.read_text(encoding="utf-8").split("\n## ")[1:]
    assert [bool(re.search(r"^\*\*When:\*\* \S.* \*\*Pitfall:\*\* \S", section, flags=re.MULTILINE)) for section in sections] == [
        True
    ] * PATTERNS


def test_every_figure_of_the_sizing_stands_in_the_benchmarks() -> None:
    page = (DOCS / "README.md").read_text(encoding="utf-8")
    measured = "".join((ROOT / "ops" / "bench" / name).read_text(encoding="utf-8") for name in ("README.md", "overload.md"))
    rows = re.findall(r"^\| .+? \| (.+?) \| `python -m (.+?)` \|$", page, flags=re.MULTILINE)
    assert len(rows) == page.count("`python -m ops.bench") > 0
    assert [row for row in rows if row[0] not in measured or row[1] not in measured] == []


def links(page: Path) -> list[str]:
    """Where the links and pictures of a page lead inside the project; code is none."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not target.startswith(("http:", "https:"))]


def test_the_first_pages_lead_on() -> None:
    assert min(len(links(page)) for page in FIRST) > 0


@pytest.mark.parametrize("page", [*FIRST, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in map(slug, headings), link
