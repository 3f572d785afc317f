"""Random queries over the whole language: `cep replay` writes what the naive engine finds."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from app.cli.replay.replay import replay
from app.errors import FindingsError
from tests.naive.assignments import declared_by_runs, found
from tests.naive.inputs import events_of, scopes, types_of
from tests.naive.patterns import WholeQuery, yaml_text
from tests.naive.reading import query_of
from tests.naive.runs import Player
from tests.naive.shape import shape_of
from tests.naive.whole import by_runs, composite_events
from tests.property.whole_language import is_valid_for, queries, streams

NOT_YET = "this version's engine does not run it yet"
Lines = list[dict[str, Any]]


def replayed(query: WholeQuery, lines: Lines) -> Lines | None:
    """What the command writes; None where it says at validation that it does not run the query yet."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "q.yaml").write_text(yaml_text(query), encoding="utf-8")
        (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        try:
            replay(queries=[folder / "q.yaml"], events=[folder / "events.jsonl"], out=folder / "out.jsonl")
        except FindingsError as error:
            others = [finding.render() for finding in error.findings if NOT_YET not in finding.message]
            assert not others, "\n".join(others)
            return None
        return [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]


def comparable(composites: Lines) -> Counter[Any]:
    """Composite events by value, in any order; constituents of one event sorted by variable."""
    return Counter(
        (
            one.get("kind"),
            one["time"],
            one["window"],
            tuple(sorted((name, by_value(value)) for name, value in one["fields"].items())),
            tuple(sorted((entry["position"], entry["var"] or "") for entry in one["events"])),
        )
        for one in composites
    )


def by_value(value: Any) -> Any:
    """Lists as tuples, floats without the last digits of their sums."""
    if isinstance(value, list):
        return tuple(map(by_value, value))
    return round(value, 9) if isinstance(value, float) else value


def told(query: WholeQuery, lines: Lines) -> str:
    return yaml_text(query) + "".join(f"{number}: {json.dumps(line)}\n" for number, line in enumerate(lines))


@given(st.data())
def test_replay_writes_what_the_naive_engine_finds(data: st.DataObject) -> None:
    query = data.draw(queries())
    lines = data.draw(streams(query))
    assume(is_valid_for(query, lines))
    note(told(query, lines))
    written = replayed(query, lines)
    event("refused" if written is None else "run")
    if written is None:
        return
    expected = composite_events(query, lines, types_of(lines))
    event("matches" if expected else "no match")
    assert comparable(written) == comparable(expected)
    order = {line: place for place, line in enumerate(sorted(range(len(lines)), key=lambda number: (lines[number]["time"], number)))}
    keys = [(one["time"], [order[entry["position"]] for entry in one["events"]]) for one in written]
    assert keys == sorted(keys), "match time, then the events in total order"


@given(st.data())
def test_naive_runs_and_definitions_agree(data: st.DataObject) -> None:
    """The naive engine's two ways to the matches of queries that do not depend on runs."""
    query = data.draw(queries().filter(lambda one: not declared_by_runs(one)))
    lines = data.draw(streams(query, most=7))
    note(told(query, lines))
    shape = shape_of(query.pattern)
    for scope in scopes(query, events_of(lines, types_of(lines))):
        assert set(by_runs(Player(query, shape, scope))) == set(found(query, shape, scope))


@settings(max_examples=100)
@given(queries())
def test_generated_queries_are_read_as_they_are_written(query: WholeQuery) -> None:
    assert query_of(yaml_text(query)) == query


@pytest.mark.parametrize("strategy", ["skip-till-next-match", "skip-till-any-match"])
@pytest.mark.parametrize(
    "pattern",
    ["SEQ(A a, B b, X x)", "SEQ(A a, X? x, B b)", "SEQ(A a, B b+, X x)", "SEQ(A a, OR(B b, X x), A c)", "SEQ(A a, ANY(B, X) b, X x)"],
)
@pytest.mark.parametrize("where", ["a.v > 1 OR NOT (x.z > 3)", "NOT (x.z > a.v)", "x.z > 3 AND a.v > 0", "NOT (x.z > 3 OR a.v > 0)"])
def test_a_comparison_with_a_type_that_never_occurs_waits_for_its_event(pattern: str, where: str, strategy: str) -> None:
    """It is true, but until the event is bound the partial match lives on: what is decided shows in timeouts."""
    text = f'name: q\nfrom: s\nevent: {pattern}\nwhere: "{where}"\nwithin: 6 ms\nstrategy: {strategy}\non_timeout: emit\n'
    query, times = query_of(text), [0, 1, 1, 3, 4, 8]
    for values in ("021012", "110220"):
        lines = [{"type": "AB"[k % 2], "time": time, "v": int(v)} for k, (time, v) in enumerate(zip(times, values, strict=True))]
        written = replayed(query, lines)
        assert written is not None
        assert comparable(written) == comparable(composite_events(query, lines, types_of(lines)))
