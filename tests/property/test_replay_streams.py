"""Files that go through `cep replay` in the smallest parts give the bytes that all events in memory and the plain writer give."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from app.bucket.recording import match_sorted
from app.cli.replay import replay
from app.cli.replay_held import tells_at_once
from app.cli.replay_input import Choices, read_input
from app.cli.replay_output import json_lines, ordered_queries
from app.events.files import gather
from app.query.compile import read_queries
from tests.naive.patterns import yaml_text
from tests.naive.replay_lines import plain_lines
from tests.property.whole_language import queries, streams

SMALL = {
    "app.bucket.in_order.SLICE": 3,
    "app.cli.replay_held.WORTH_WRITING": 1,
    "app.cli.replay_lines.BLOCK": 2,
    "app.events.opened.BLOCK_BYTES": 100,
    "app.cli.replay_input.gather": functools.partial(gather, held_bytes=0),
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
