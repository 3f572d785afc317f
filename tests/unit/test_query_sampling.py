"""Why a control sample can say nothing of a query: told where people ask, and true of who makes the samples."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.audit.verdicts import control_sample
from app.cli.main import cli
from app.query.compile import compile_texts
from app.query.plan import Plan
from app.query.sampling import why_no_sample
from tests.golden.streams import STREAMS

SHEDS = "shedding: {shedder: random, latency_bound: 1 s}"
PLAIN = "from: stocks\nevent: SEQ(MSFT a, MSFT b)\nwhere: '[volume]'\nwithin: 10 s"
READER = "name: r\nfrom: [query:q]\nevent: SEQ(q a, q b)\nwhere: '[p]'\nwithin: 6 s\n" + SHEDS
CASES = {
    "": (PLAIN, SHEDS),
    "nothing is shed for a latency bound": (PLAIN, "shedding: {shedder: none, latency_bound: 1 s}"),
    "it has no partition attribute": (PLAIN.replace("where: '[volume]'\n", ""), SHEDS),
    "with after: what it finds depends on all matches before": (PLAIN, f"after: skip-to-next\n{SHEDS}"),
    "its matches have no bound in time": (PLAIN.replace("10 s", "10 events"), SHEDS),
    "it is a temporal query": (
        "from: stocks\nselect: [volume]\nkey: [symbol]\ncoalesce: {duration: 1 s}\nwindow: {range: 2 s, slide: 1 s}",
        "shedding: {shedder: cals, memory: 10 tuples, latency_bound: 1 s}",
    ),
}


def plans(*texts: str) -> dict[str, Plan]:
    compiled = compile_texts([(f"{number}.yaml", text) for number, text in enumerate(texts)], STREAMS)
    assert not compiled.errors, [finding.render() for finding in compiled.errors]
    return {plan.name: plan for plan in compiled.catalog.plans}


@pytest.mark.parametrize("why", CASES)
def test_the_reason_is_the_first_of_those_that_keep_a_query_from_a_sample(why: str) -> None:
    text, shedding = CASES[why]
    plan = plans(f"name: q\n{text}\n{shedding}\n")["q"]
    assert (why_no_sample(plan) or "") == why
    assert (control_sample(plan, 0.05) is None) is bool(why)


def test_a_query_of_queries_has_no_sample_of_its_own() -> None:
    reader = plans(f"name: q\n{PLAIN}\nreturn: {{p: a.price}}\n", READER)["r"]
    assert why_no_sample(reader) == "it reads other queries"
    assert control_sample(reader, 0.05) is None


@pytest.mark.parametrize(("where", "told"), [("where: '[k]'\n", False), ("", True)])
def test_explain_says_why(tmp_path: Path, where: str, *, told: bool) -> None:
    file = tmp_path / "q.yaml"
    file.write_text(f"name: q\nevent: SEQ(A a, B b)\n{where}within: 10 s\n{SHEDS}\n")
    said = CliRunner().invoke(cli, ["explain", str(file)])
    assert said.exit_code == 0, said.output
    assert ("no control sample tells its recall under shedding: it has no partition attribute" in said.output) is told
