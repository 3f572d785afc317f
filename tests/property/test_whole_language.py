"""Random queries over the whole language: `cep replay` writes what the naive engine finds."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from app.cli.replay import replay
from app.errors import FindingsError
from tests.naive.assignments import declared_by_runs, found
from tests.naive.inputs import events_of, scopes, types_of
from tests.naive.language import Aggregate, references, text
from tests.naive.patterns import Absence, WholeQuery, absences_of, groups_of, items_of, yaml_text
from tests.naive.reading import query_of
from tests.naive.runs import Player
from tests.naive.shape import can_be_empty, nodes, shape_of
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
            replay(queries=[folder / "q.yaml"], events=folder / "events.jsonl", out=folder / "out.jsonl")
        except FindingsError as error:
            others = [finding.render() for finding in error.findings if NOT_YET not in finding.message]
            assert not others, "\n".join(others)
            return None
        return [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]


def known_difference(query: WholeQuery) -> str | None:
    """What the engine is known to do otherwise: each has a case marked ``engine: differs`` in ``tests/conformance/language``."""
    items = list(items_of(query.pattern))
    in_events = query.within is not None and query.within.unit == "events"
    grouped = [item for node in groups_of(query.pattern) for item in items_of(node)]
    counted = [
        one for _, expression in query.returns or () for one in references(expression) if isinstance(one, Aggregate) and one.name is None
    ]
    variables = [item.var for item in items if item.var is not None]
    parts = [node for node in nodes(shape_of(query.pattern)) if not isinstance(node, Absence)]
    found = {
        "anonymous items that may bind nothing or more": any(
            item.var is None and (item.quantifier or item.count or item in grouped) for item in items
        ),
        "max_gap beside within in events": in_events and query.max_gap is not None,
        "sliding count windows per partition": query.window is not None and query.window.per_partition and query.window.slide is not None,
        "UNTIL of blocks and in groups": any(item.until is not None and (item.count is not None or item in grouped) for item in items),
        "timeouts of strict runs within events": in_events and query.timeouts and "contiguity" in query.strategy + str(query.ways),
        "counts of what did not bind in timeouts": query.timeouts and bool(counted),
        "NOT of what did not bind": any("NOT (" in text(predicate) for predicate in query.where),
        "blocks that share a variable": len(set(variables)) < len(variables) and any(item.count is not None for item in items),
        "UNTIL where nothing bound before": any(item.until is not None for item in items) and any(can_be_empty(node) for node in parts),
        "timeouts with negations or UNTIL": query.timeouts
        and (any(absences_of(query.pattern)) or any(item.until is not None for item in items)),
    }
    return next((what for what, applies in found.items() if applies), None)


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
    if (difference := known_difference(query)) is not None:
        event(f"known difference: {difference}")
        return
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
