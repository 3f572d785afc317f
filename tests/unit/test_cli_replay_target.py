"""Where `cep replay` does not write."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

QUERY = "name: ab\nevent: SEQ(A a, B b)\nwithin: 1 h\n"
EVENTS = "".join(json.dumps({"type": kind, "time": time}) + "\n" for time, kind in enumerate("AB"))


@pytest.fixture
def events() -> Path:
    Path("q.yaml").write_text(QUERY)
    Path("in").mkdir()
    Path("in/e.jsonl").write_text(EVENTS)
    return Path("in/e.jsonl")


@pytest.mark.parametrize("given", ["in/e.jsonl", "in", "in/*.jsonl"])
@pytest.mark.parametrize("out", ["in/e.jsonl", "in/../in/e.jsonl", "link.jsonl", "hard.jsonl"])
def test_the_events_are_not_overwritten(cep, events, given, out) -> None:
    Path("link.jsonl").symlink_to(events)
    os.link(events, "hard.jsonl")
    code, printed, err = cep("replay", "--queries", "q.yaml", "--events", given, "--out", out)
    assert code != 0
    assert printed == ""
    assert f"--out {Path(out)} would overwrite the events of in/e.jsonl" in err
    assert events.read_text() == EVENTS


def test_counts_do_not_overwrite_the_events_either(cep, events) -> None:
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", str(events), "--stats", str(events))
    assert code != 0
    assert "--stats in/e.jsonl would overwrite" in err
    assert events.read_text() == EVENTS


@pytest.mark.parametrize(("there", "stats"), [("", "r.json"), ("", "in/../r.json"), ("", "link.json"), ("[]", "hard.json")])
def test_counts_do_not_overwrite_the_composite_events(cep, events, there, stats) -> None:
    Path("link.json").symlink_to("r.json")
    if there:
        Path("r.json").write_text(there)
        os.link("r.json", "hard.json")
    code, printed, err = cep("replay", "--queries", "q.yaml", "--events", str(events), "--out", "r.json", "--stats", stats)
    assert (code, printed) == (78, "")
    assert f"--stats {Path(stats)} would overwrite what --out writes" in err
    assert (Path("r.json").read_text() if there else Path("r.json").exists()) == (there or False)


@pytest.mark.parametrize("device", ["/dev/null", "/dev/stdout"])
def test_devices_take_both(cep, events, device) -> None:
    code, printed, err = cep("replay", "--queries", "q.yaml", "--events", str(events), "--out", device, "--stats", device)
    assert code == 0, err
    assert ('"query":"ab"' in printed, '"match_s"' in printed) == (device != "/dev/null",) * 2


@pytest.mark.parametrize("out", ["x.csv", "x.xlsx", "x.CSV.gz", "x.jsonl.zip", "x.parquet.gz"])
def test_a_name_of_another_format_is_refused(cep, events, out) -> None:
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", str(events), "--out", out)
    assert code != 0
    assert err.startswith(f"--out {out}: ")
    assert "hint: " in err
    assert not Path(out).exists()


@pytest.mark.parametrize("out", ["x", "x.txt", "x.log", "2026.05.28", "x.json", "x.jsonl.gz", "old.csv.jsonl"])
def test_a_name_of_no_format_holds_json_lines(cep, events, out) -> None:
    code, _, err = cep("replay", "--queries", "q.yaml", "--events", str(events), "--out", out)
    assert code == 0, err
    assert Path(out).stat().st_size
