"""The house's document is in step with the code."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "app" / "ARCHITECTURE.md").read_text(encoding="utf-8")
FLOORS = DOCUMENT.split("## Floors")[1].split("\n## ")[0]
WORDS = re.findall(r"^\* \*\*(.+?)\*\* — ", DOCUMENT.split("## Words")[1], flags=re.MULTILINE)
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS = {contract["containers"][0]: contract for contract in CONTRACTS if contract["type"] == "layers"}


def said(text: str) -> str:
    """Text as words between single spaces, so that a word is found wherever a line ends, or in a name.

    >>> said("Active instance\\n    stacks; spark_partition, drop-ratio")
    'active instance stacks; spark partition, drop ratio'
    """
    return re.sub(r"[\s_#-]+", " ", text).lower()


SAID = said(
    " ".join(
        path.read_text(encoding="utf-8")
        for package in ("app", "shedding", "queries", "ops/decisions")
        for path in sorted((ROOT / package).rglob("*"))
        if path.suffix in (".py", ".md") and path.name != "ARCHITECTURE.md"
    )
)


def test_a_word_is_explained_once():
    assert sorted(WORDS) == sorted(set(WORDS))


@pytest.mark.parametrize("word", WORDS)
def test_the_words_of_the_house_are_those_that_it_speaks(word):
    assert said(word) in SAID


def test_every_floor_has_a_paragraph_in_the_order_of_the_contract():
    floors = [name for layer in LAYERS["app"]["layers"] for name in layer.split(" | ")]
    described = [name for line in re.findall(r"^\* (.+?) — ", FLOORS, flags=re.MULTILINE) for name in re.findall(r"\*\*(\w+)\*\*", line)]
    assert described == floors


def test_every_package_is_a_floor():
    packages = {path.name for path in (ROOT / "app").iterdir() if (path / "__init__.py").exists()}
    assert packages <= {name for layer in LAYERS["app"]["layers"] for name in layer.split(" | ")}


@pytest.mark.parametrize("floor", [name for name in LAYERS if name != "app"])
def test_every_room_of_a_floor_is_described(floor):
    """Rooms are packages; the document names each, and the contract knows all (it is exhaustive)."""
    assert LAYERS[floor]["exhaustive"]
    rooms = {path.name for path in (ROOT / floor.replace(".", "/")).iterdir() if (path / "__init__.py").exists()}
    assert rooms <= {name for layer in LAYERS[floor]["layers"] for name in layer.split(" | ")}
    described = set(re.findall(r"`(\w+)`", FLOORS + DOCUMENT.split("## Rooms of")[1].split("\n## ")[0]))
    assert rooms <= described


def test_files_that_the_document_names_are_there():
    for name in re.findall(r"`((?:app|shedding|tests|ops)/[\w/.-]+\.(?:py|md))`", DOCUMENT):
        assert (ROOT / name).exists(), name
    floors = {path.name for path in (ROOT / "app").iterdir() if path.is_dir()}
    for name in re.findall(r"`((\w+)/[\w/]+)(?:\.py)?`", DOCUMENT):
        if name[1] in floors:
            assert (ROOT / "app" / f"{name[0]}.py").exists() or (ROOT / "app" / name[0]).is_dir(), name[0]


TEXTS = [
    path
    for folder in ("app", "shedding", "ops", "tests", "queries", "helm", "schemas")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md") and path != Path(__file__) and path.name not in ("NEXT.md", "CHANGELOG.md")
]
ELSEWHERE = re.compile(r"query-language\.md|kafka-facts\.md|shedding-and-asc\.md|(?<!xxHash )\b[Ss]pecification \d|\b[Ii]ssue \d+\b")


def test_nothing_is_explained_by_a_document_that_readers_do_not_have():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ELSEWHERE.search(line)
    ]
    assert found == []


def test_decisions_that_are_cited_are_there_and_all_are_in_the_index():
    decisions = ROOT / "ops" / "decisions"
    names = {path.name for path in decisions.glob("0*.md")}
    numbers = {name[:4] for name in names}
    cited = {
        (str(path.relative_to(ROOT)), found)
        for path in TEXTS
        for found in re.findall(r"(?:ops/decisions/|decisions/|\(|`)(0\d{3})(?=[-`),:; ])", path.read_text(encoding="utf-8"))
    }
    assert sorted(one for one in cited if one[1] not in numbers) == []
    index = (decisions / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\((0[^)]+\.md)\)", index)) == names
