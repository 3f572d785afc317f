"""The diagnosis plays runs as the language means them: over random queries it comes to the matches that the naive engine finds."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from app.cep.why_not.diagnosis import Diagnosis
from app.cep.why_not.plain_events import Stream
from app.cep.why_not.why_not import Explorer, why_not, why_not_these
from app.cli.inputs.events import Choices, read_input
from app.query.compile import compile_texts
from app.query.planning.planning import plan_as_runs
from tests.naive.inputs import events_of, scopes, types_of
from tests.naive.patterns import WholeQuery, yaml_text
from tests.naive.runs import Player
from tests.naive.shape import items_by_number, shape_of
from tests.naive.whole import matches
from tests.property.test_whole_language import told
from tests.property.whole_language import is_valid_for, queries, streams

Lines = list[dict[str, Any]]


def diagnosis_of(query: WholeQuery, lines: Lines) -> Diagnosis | None:
    """None where the query is not valid for the lines."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "events.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        source = read_input(path, None, Choices())
    compiled = compile_texts([("q.yaml", yaml_text(query))], source.streams)
    if compiled.errors:
        return None
    plan = plan_as_runs(compiled.queries[0].resolved)  # type: ignore[arg-type]
    batch = source.sorted_events(plan.streams)
    return Diagnosis(Stream(plan, batch, source.line_finder().lines_of(batch.source, batch.offset).tolist()))


@settings(max_examples=60)
@given(st.data())
def test_diagnosis_comes_to_the_matches_of_the_naive_engine(data: st.DataObject) -> None:
    query = data.draw(queries())
    lines = data.draw(streams(query))
    assume(is_valid_for(query, lines))
    note(told(query, lines))
    diagnosis = diagnosis_of(query, lines)
    assume(diagnosis is not None)
    assert diagnosis is not None
    explorer = Explorer(diagnosis)
    for events in diagnosis.stream.by_key.values():
        explorer.play(events)
    items = diagnosis.plan.items
    played = {frozenset((step.event.line, items[step.item].variable) for step in run.steps) for run in explorer.matching()}
    shape = shape_of(query.pattern)
    names = items_by_number(shape)
    expected = {
        frozenset((scope.events[bound.event]["position"], names[bound.number].var) for bound in match)
        for scope in scopes(query, events_of(lines, types_of(lines)))
        for match in matches(Player(query, shape, scope))
    }
    event("matches" if expected else "no match")
    assert played == expected
    went_on: list[int] = []
    answer = why_not(diagnosis, advance=went_on.append)
    assert not answer.followed_all or sum(went_on) == sum(map(len, diagnosis.stream.by_key.values()))
    by_line = {one.line: one for one in diagnosis.stream.events}
    for match in sorted(expected, key=str)[:3]:
        assert why_not_these(diagnosis, [by_line[line] for line, _ in match]) is None
