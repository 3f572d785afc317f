"""`cep replay` on files in any order, with inferred schemas, with and without lateness: composite events as by the definitions."""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, note, settings
from hypothesis import strategies as st

from app.cli.replay.replay import replay
from tests.naive.arrival import on_time
from tests.naive.language import Event, Query, yaml_text
from tests.naive.matching import Match, matches, order, return_fields
from tests.property.application_way import by_value
from tests.property.random_queries import Schemas, domain, queries, schemas, streams


@st.composite
def files(draw: st.DrawFn, known: Schemas) -> list[Event]:
    """Lines in any order; one event per type with all its attributes is among them, so that inference finds the schemas."""
    complete = [
        {"type": name, "time": draw(st.integers(0, 10)), "attributes": {a: draw(finite(a, kind)) for a, kind in attributes.items()}}
        for name, attributes in known.items()
    ]
    others = draw(streams(known, most=10))
    for event in others:
        event["attributes"] = {name: finite_or_null(value) for name, value in event["attributes"].items()}
    lines = draw(st.permutations([*complete, *others]))
    return [{**event, "source": 0, "offset": number} for number, event in enumerate(lines)]


def finite(name: str, kind: str) -> st.SearchStrategy[object]:
    return st.sampled_from([v for v in domain(name, kind) if not isinstance(v, float) or math.isfinite(v)])


def line_of(event: Event, *, omit_nulls: bool) -> str:
    cells = {name: value for name, value in event["attributes"].items() if value is not None or not omit_nulls}
    return json.dumps({"type": event["type"], "time": event["time"], **cells})


def answer(match: Match, known: Schemas) -> tuple[object, ...]:
    """What the command has to write about a match."""
    items = match.query.items
    events = sorted((order(event), items[item].var) for item, bound in match.assignment.items() for event in bound)
    fields = {name: written(value) for name, value in return_fields(match, known).items()}
    return match.time, tuple((var, offset) for (_, _, offset), var in events), tuple(sorted(fields.items()))


def finite_or_null(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def written(value: object) -> object:
    return by_value(finite_or_null(value))


def replayed(query: Query, events: list[Event], lateness: int | None) -> Counter[tuple[object, ...]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "q.yaml").write_text(yaml_text(query, "input"), encoding="utf-8")
        (folder / "events.jsonl").write_text("".join(line_of(e, omit_nulls=e["offset"] % 2 == 0) + "\n" for e in events), encoding="utf-8")
        config = None
        if lateness is not None:
            config = folder / "cep.yaml"
            config.write_text(f"streams:\n  input:\n    allowed_lateness: {lateness} ms\n", encoding="utf-8")
        replay(queries=[folder / "q.yaml"], events=[folder / "events.jsonl"], config=config, out=folder / "out.jsonl")
        lines = [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert all((line["query"], line["version"], line["window"]) == ("q", 1, None) for line in lines)
    places = {event["offset"]: order(event) for event in events}
    keys = [(line["time"], [places[event["position"]] for event in line["events"]]) for line in lines]
    assert keys == sorted(keys), "match time, then the events in total order"
    return Counter(
        (
            line["time"],
            tuple((e["var"], e["position"]) for e in line["events"]),
            tuple(sorted((name, by_value(value)) for name, value in line["fields"].items())),
        )
        for line in lines
    )


@settings(max_examples=max(20, settings.default.max_examples // 3))
@given(st.data())
def test_replay_writes_what_the_definitions_find(data: st.DataObject) -> None:
    known = {
        name: {a: k for a, k in attributes.items() if a != "t"} or {"v": "integer"} for name, attributes in data.draw(schemas()).items()
    }
    query = data.draw(queries(known))
    events = data.draw(files(known))
    lateness = data.draw(st.sampled_from([None, 0, 2, 100]))
    note(yaml_text(query, "input") + "\n".join(line_of(event, omit_nulls=False) for event in events))
    fed = events if lateness is None else on_time(events, lateness)
    assert replayed(query, events, lateness) == Counter(answer(match, known) for match in matches(query, fed))


def test_elements_that_another_query_mentions_are_no_fields_of_the_default_return(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(
        'name: one\nevent: A a\n---\nname: other\nevent: A a\nreturn: {t: "a.tags[0]", l: "a.labels[\'k\']"}\n', encoding="utf-8"
    )
    (tmp_path / "events.jsonl").write_text('{"type": "A", "time": 0, "v": 1, "tags": ["x"], "labels": {"k": "y"}}\n', encoding="utf-8")
    replay(queries=[tmp_path / "q.yaml"], events=[tmp_path / "events.jsonl"], out=tmp_path / "out.jsonl")
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {line["query"]: line["fields"] for line in found} == {"one": {"a_v": 1, "a_labels_k": "y"}, "other": {"t": "x", "l": "y"}}
