"""A line of JSON may be longer than any room that was made for texts so far."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

QUERY = """\
name: long
event: SEQ(Note a, Note b)
where: "a.text != b.text"
within: 10 s
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("megabytes", [5, 20])
def test_a_text_of_many_megabytes_is_read(cep, megabytes: int) -> None:
    Path("q.yaml").write_text(QUERY)
    texts = ["short", "x" * (megabytes << 20), "y" * (megabytes << 20)]
    Path("e.jsonl").write_text("".join(json.dumps({"type": "Note", "time": k, "text": text}) + "\n" for k, text in enumerate(texts)))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl")
    assert code == 0, err
    found = [tuple(event["position"] for event in json.loads(line)["events"]) for line in out.splitlines()]
    assert sorted(found) == [(0, 1), (0, 2), (1, 2)]
