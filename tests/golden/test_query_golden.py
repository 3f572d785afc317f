"""Query files in, findings or representations out. ``--golden-update`` rewrites the answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.inputs.events import Choices, read_input
from app.cli.queries.explain import ALL_STAGES
from app.cli.queries.why_not import explain_why_not
from app.errors import CepError
from app.query.compile import Compilation, compile_texts
from app.query.explain.stages import explain
from tests.golden.streams import STREAMS

HERE = Path(__file__).parent
Golden = Callable[[Path, str], None]


def _queries(folder: str) -> list[Path]:
    return sorted((HERE / folder).glob("*.yaml"))


def _compiled(path: Path) -> Compilation:
    return compile_texts([(path.name, path.read_text(encoding="utf-8"))], STREAMS)


@pytest.mark.parametrize("path", _queries("errors"), ids=lambda path: path.stem)
def test_every_mistake_is_told_with_its_place_and_what_to_write_instead(path: Path, golden: Golden) -> None:
    compiled = _compiled(path)
    assert compiled.errors
    assert all(finding.location is not None and finding.hint for finding in compiled.errors), "a place and what to write instead"
    golden(path.with_suffix(".txt"), "\n".join(finding.render() for finding in compiled.errors) + "\n")


def test_there_are_golden_mistakes_of_all_kinds() -> None:
    assert len(_queries("errors")) >= 60


@pytest.mark.parametrize("path", _queries("warnings"), ids=lambda path: path.stem)
def test_valid_queries_that_will_hardly_do_what_is_wanted_are_warned_about(path: Path, golden: Golden) -> None:
    compiled = _compiled(path)
    assert compiled.warnings
    golden(path.with_suffix(".txt"), "\n".join(finding.render() for finding in compiled.warnings) + "\n")


def test_windows_of_two_units_are_an_error_and_not_many() -> None:
    text = (HERE / "warnings" / "many-windows.yaml").read_text(encoding="utf-8")
    (finding,) = compile_texts([("q.yaml", text.replace("slide: 1 s", "slide: 5 events"))], STREAMS).findings
    assert finding.message == "size and slide have different units"


@pytest.mark.parametrize("form", ["text", "mermaid", "json"])
@pytest.mark.parametrize("path", _queries("ast"), ids=lambda path: path.stem)
def test_syntax_tree_of_a_query(path: Path, form: str, golden: Golden) -> None:
    compiled = _compiled(path)
    suffix = {"text": ".txt", "mermaid": ".mmd", "json": ".json"}[form]
    golden(path.with_suffix(suffix), "\n".join(explain(query, "ast", form) for query in compiled.queries))


@pytest.mark.parametrize("form", ["text", "mermaid", "json"])
@pytest.mark.parametrize("path", _queries("plan"), ids=lambda path: path.stem)
def test_plan_of_a_query(path: Path, form: str, golden: Golden) -> None:
    compiled = _compiled(path)
    assert not compiled.errors, compiled.errors
    suffix = {"text": ".txt", "mermaid": ".mmd", "json": ".json"}[form]
    golden(path.with_suffix(suffix), "\n".join(explain(query, "plan", form) for query in compiled.queries))


@pytest.mark.parametrize("form", ["text", "mermaid", "json"])
@pytest.mark.parametrize("path", _queries("runs"), ids=lambda path: path.stem)
def test_plan_of_runs_with_its_automaton(path: Path, form: str, golden: Golden) -> None:
    compiled = _compiled(path)
    assert not compiled.errors, compiled.errors
    suffix = {"text": ".txt", "mermaid": ".mmd", "json": ".json"}[form]
    stage = "automaton" if form == "json" else "plan"
    golden(path.with_suffix(suffix), "\n".join(explain(query, stage, form, ALL_STAGES) for query in compiled.queries))


def test_tables_of_a_chain_are_those_of_its_own_engine() -> None:
    (chain,), (other,) = (_compiled(HERE / "runs" / f"{name}.yaml").queries for name in ("chain", "rising"))
    assert "\nkeeps:\n" in explain(chain, "code", "text", ALL_STAGES)
    assert "\nstates:\n" in explain(other, "code", "text", ALL_STAGES)


def test_tables_of_alternatives_are_those_of_their_stacks() -> None:
    (apart,) = _compiled(HERE / "runs" / "apart.yaml").queries
    told = explain(apart, "code", "text", ALL_STAGES)
    assert "\n0 barriers:" in told
    assert "\n1 barriers:" in told
    assert "states:" not in told


def test_automaton_of_a_plain_sequence_is_refused_in_words() -> None:
    query = _compiled(HERE / "plan" / "stocks.yaml").queries[0]
    with pytest.raises(CepError, match="stacks evaluator"):
        explain(query, "automaton", "text", ALL_STAGES)


@pytest.mark.parametrize("stage", ["asc", "code"])
@pytest.mark.parametrize("form", ["text", "mermaid", "json"])
@pytest.mark.parametrize("path", _queries("runs"), ids=lambda path: path.stem)
def test_selection_and_tables_of_runs_can_be_shown(path: Path, stage: str, form: str) -> None:
    assert explain(_compiled(path).queries[0], stage, form, ALL_STAGES)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("path", _queries("whynot"), ids=lambda path: path.stem)
def test_why_events_give_no_match(path: Path, form: str, golden: Golden) -> None:
    source = read_input(path.with_suffix(".jsonl"), None, Choices())
    compiled = compile_texts([(path.name, path.read_text(encoding="utf-8"))], source.streams)
    assert not compiled.errors, compiled.errors
    golden(path.with_suffix({"text": ".txt", "json": ".json"}[form]), explain_why_not(compiled.queries[0], source, form, None, compiled))
