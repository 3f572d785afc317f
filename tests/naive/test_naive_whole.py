"""The naive engine finds in every hand-worked case what was worked out by hand, and its two ways to the matches agree."""

from __future__ import annotations

import pytest

from tests.conformance.language_cases import Case, cases
from tests.naive.assignments import declared_by_runs, found
from tests.naive.inputs import events_of, scopes, types_of
from tests.naive.patterns import yaml_text
from tests.naive.reading import query_of
from tests.naive.runs import Player
from tests.naive.shape import shape_of
from tests.naive.whole import by_runs, composite_events

CASES = {case.name: case for case in cases()}


@pytest.mark.parametrize("name", CASES)
def test_naive_engine_finds_what_was_worked_out(name: str) -> None:
    case: Case = CASES[name]
    written = composite_events(query_of(case.yaml_text), case.lines, types_of(case.lines))
    assert case.missing_and_surplus(written) == ([], []), f"(missing, surplus)\n{case.yaml_text}"


@pytest.mark.parametrize("name", CASES)
def test_written_query_reads_the_same(name: str) -> None:
    query = query_of(CASES[name].yaml_text)
    assert query_of(yaml_text(query)) == query


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not declared_by_runs(query_of(case.yaml_text))])
def test_runs_find_what_the_definitions_of_complete_assignments_find(name: str) -> None:
    query = query_of(CASES[name].yaml_text)
    shape = shape_of(query.pattern)
    for scope in scopes(query, events_of(CASES[name].lines, types_of(CASES[name].lines))):
        player = Player(query, shape, scope)
        assert set(by_runs(player)) == set(found(query, shape, scope))
