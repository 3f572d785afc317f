"""Files that go through `cep replay` in the smallest parts give the bytes that all events in memory and the plain writer give."""

from __future__ import annotations

import functools
import json
import tempfile
from datetime import datetime
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from app.bucket.recording import match_sorted
from app.cli.inputs.events import Choices, read_input
from app.cli.replay.held import tells_at_once
from app.cli.replay.output import json_lines, ordered_queries
from app.cli.replay.replay import replay
from app.errors import CepError
from app.files.gathering import gather
from app.query.compile import read_queries
from tests.naive.patterns import yaml_text
from tests.naive.replay_lines import plain_lines
from tests.property.whole_language import queries, streams

SMALL = {
    "app.bucket.in_order.SLICE": 3,
    "app.cli.replay.held.WORTH_WRITING": 1,
    "app.cli.replay.lines.BLOCK": 2,
    "app.files.opened.BLOCK_BYTES": 100,
    "app.cli.inputs.events.gather": functools.partial(gather, held_bytes=0),
}


@settings(max_examples=max(60, settings.default.max_examples))
@given(st.data())
def test_small_parts_of_files_give_the_bytes_of_the_whole(data: st.DataObject) -> None:
    first, second = data.draw(queries()), data.draw(queries())
    lines = [json.dumps(line) + "\n" for line in data.draw(streams(first))]
    cut = data.draw(st.integers(0, len(lines)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        query, files = folder / "q.yaml", [folder / "a.jsonl", folder / "b.jsonl"]
        other = "---\n" + yaml_text(second).replace("name: q\n", "name: p\n", 1)
        query.write_text(yaml_text(first) + other * data.draw(st.booleans()), encoding="utf-8")
        files[0].write_text("".join(lines[:cut]), encoding="utf-8")
        files[1].write_text("".join(lines[cut:]), encoding="utf-8")
        source = read_input(files, None, Choices.for_queries([query]))
        compiled = read_queries([query], source.streams)
        assume(not compiled.errors)
        note(query.read_text() + "".join(lines))
        found = match_sorted(compiled.catalog, source.sorted_events(())).found
        expected = plain_lines(ordered_queries(compiled.catalog, found, ()), source.line_finder())
        event(f"matches {min(3, len(expected))}, at once {all(tells_at_once(plan) for plan in compiled.catalog.plans)}")
        assert b"".join(json_lines(compiled.catalog, found, source)) == b"".join(expected)
        identities = plain_lines(ordered_queries(compiled.catalog, found, ()), source.line_finder(), ())
        assert b"".join(json_lines(compiled.catalog, found, source, identities=True)) == b"".join(identities)
        with pytest.MonkeyPatch.context() as patch:
            for target, value in SMALL.items():
                patch.setattr(target, value)
            replay(queries=[query], events=files, out=folder / "out.jsonl")
        assert (folder / "out.jsonl").read_bytes() == b"".join(expected)
        objects = [json.loads(line) for line in expected]
        try:
            replay(queries=[query], events=files, out=folder / "out.parquet")
        except CepError as error:
            assert "a table has one column of a name" in str(error)  # noqa: PT017
        else:
            assert [without_nulls(row) for row in pq.read_table(folder / "out.parquet").to_pylist()] == [
                without_nulls(one) for one in objects
            ]
        replay(queries=[query], events=files, out=folder / "out.avro")
        with (folder / "out.avro").open("rb") as file:
            found = [
                (as_json(row), name)
                for row, name in named(fastavro.reader(file, return_record_name=True, return_record_name_override=True))
            ]
        assert [row for row, _ in found] == list(with_kinds(objects, found))


def named(rows):
    return [(row[1], row[0]) if isinstance(row, tuple) else (row, "") for row in rows]


def with_kinds(objects, found):
    """The objects without what the name of an Avro record says."""
    for one, (_, name) in zip(objects, found, strict=True):
        assert ("kind" in one) == name.endswith("Timeout") or not name
        yield {**one, "kind": None}


def as_json(value):
    """What a container or a table holds, as JSON lines write it."""
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, list):
        return [as_json(one) for one in value]
    if isinstance(value, dict):
        known = {name: as_json(one) for name, one in value.items()}
        return {**known, "kind": None} if "query" in known else known
    return value


def without_nulls(row):
    """Rows of tables have all fields of all queries, and say of what kind they are."""
    plain = as_json(row)
    kind = row.get("kind", "match")
    return {**plain, "kind": kind, "fields": {name: value for name, value in plain.get("fields", {}).items() if value is not None}}
