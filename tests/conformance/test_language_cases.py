"""`cep replay` finds in every hand-worked case what the language page says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.cli.replay.replay import replay
from app.errors import FindingsError
from tests.conformance.language_cases import Case, cases

CASES = {case.name: case for case in cases()}
NOT_YET = "this version's engine does not run it yet"


def replayed(case: Case, folder: Path) -> list[dict[str, Any]]:
    (folder / "q.yaml").write_text(case.yaml_text, encoding="utf-8")
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in case.lines), encoding="utf-8")
    replay(queries=[folder / "q.yaml"], events=[folder / "events.jsonl"], out=folder / "out.jsonl")
    return [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]


def test_names_are_unique() -> None:
    assert len(CASES) == len(cases())


DIFFERS = pytest.mark.xfail(strict=True, reason="the engine does not find it yet")


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(case.name, marks=[DIFFERS] * case.differs) for case in CASES.values()])
def test_replay_writes_what_the_page_says(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    try:
        written = replayed(case, tmp_path)
    except FindingsError as error:
        others = [finding.render() for finding in error.findings if NOT_YET not in finding.message]
        assert not others, "\n".join(others)
        pytest.skip(error.findings[0].message)
    assert case.missing_and_surplus(written) == ([], []), f"(missing, surplus)\n{case.yaml_text}"
    assert written == sorted(written, key=lambda one: (one["time"], [event["position"] for event in one["events"]]))
