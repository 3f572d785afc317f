"""Temporal queries over files: what `cep replay`, `cep test`, `cep validate` and `cep explain` say of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from app.cli.main import main

HUMID = """\
name: humid
from: climate
select: [humidity]
key: [mote]
where: humidity > 75
coalesce: {duration: until-next}
window: {range: 10 s, slide: 5 s}
"""


@pytest.fixture
def cep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture):
    """Runs a command in an empty folder; gives exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cep", *arguments])
        code = 0
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code or 0
        out, err = capfd.readouterr()
        return code, out, err

    return run


def reading(time: int, humidity: float | None, mote: str | None = "M", **more: object) -> dict:
    return {"type": "Reading", "time": time, "mote": mote, "humidity": humidity, **more}


def replay(cep, query: str, rows: list[dict], *arguments: str) -> list[dict]:
    Path("q.yaml").write_text(query)
    Path("e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = cep("replay", "--queries", "q.yaml", "--events", "e.jsonl", *arguments)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def intervals(found: list[dict]) -> list[tuple[int, int, int]]:
    return [(one["time"], one["fields"]["start"], one["fields"]["end"]) for one in found]


def test_a_coalesced_tuple_has_exactly_the_promised_form(cep) -> None:
    found = replay(cep, HUMID, [reading(1000, 80), reading(3000, 80), reading(4000, 70)])
    assert found == [
        {
            "query": "humid",
            "version": 1,
            "time": 5000,
            "window": 1,
            "fields": {
                "mote": "M",
                "humidity": 80,
                "start": 1000,
                "end": 4000,
                "length": 3000,
                "truncated_start": False,
                "truncated_end": False,
            },
            "events": [{"var": None, "position": 0}, {"var": None, "position": 1}],
        }
    ]


def test_the_last_window_ends_after_the_last_event_of_whatever_type(cep) -> None:
    rows = [reading(1000, 80)]
    assert intervals(replay(cep, HUMID + "emit: all\n", rows)) == [(5000, 1000, 5000)]
    door = {"type": "Door", "time": 15000, "mote": "M"}
    assert intervals(replay(cep, HUMID + "emit: all\n", [*rows, door])) == [
        (5000, 1000, 5000),
        (10000, 1000, 10000),
        (15000, 5000, 15000),
        (20000, 10000, 20000),
    ]


def test_a_type_without_the_attributes_neither_ends_a_tuple_nor_is_counted(cep) -> None:
    rows = [reading(1000, 80), {"type": "Door", "time": 2000, "mote": "M"}, reading(3000, 81)]
    assert intervals(replay(cep, HUMID, rows)) == [(5000, 1000, 3000), (5000, 3000, 5000)]
    counted = HUMID.replace("10 s, slide: 5 s", "2 events, slide: 2 events")
    assert intervals(replay(cep, counted, rows)) == [(3000, 1000, 3000)]


def test_a_null_key_is_a_key_and_a_null_value_a_value(cep) -> None:
    query = HUMID.replace("where: humidity > 75\n", "")
    found = replay(cep, query, [reading(1000, None, None), reading(2000, None), reading(3000, None, None), reading(4000, 1, None)])
    assert [
        (one["fields"]["mote"], one["fields"]["humidity"], *interval) for one, interval in zip(found, intervals(found), strict=True)
    ] == [
        (None, None, 5000, 1000, 4000),
        ("M", None, 5000, 2000, 5000),
        (None, 1, 5000, 4000, 5000),
    ]


def test_events_in_file_order_and_late_ones_find_what_sorted_ones_find(cep) -> None:
    Path("cep.yaml").write_text("streams: {climate: {topics: [climate], allowed_lateness: 2 s}}\n")
    rows = [reading(3000, 80), reading(1000, 80), reading(9000, 70), reading(2000, 70), reading(12000, 80)]
    assert intervals(replay(cep, HUMID, rows, "--config", "cep.yaml", "--types", "infer")) == [
        (5000, 1000, 5000),
        (10000, 1000, 9000),
        (15000, 12000, 15000),
    ]


def test_a_type_that_is_an_attributes_value_needs_no_name(cep) -> None:
    """Beside a query whose items fill a word of the result bitmap."""
    pattern = "SEQ(" + ", ".join(f"X{k}" for k in range(64)) + ")"
    both = (
        HUMID.replace("select: [humidity]", "select: [humidity, type]") + f"---\nname: many\nfrom: climate\nevent: {pattern}\nwithin: 1 s\n"
    )
    Path("cep.yaml").write_text("streams: {climate: {topics: [climate], type: kind, schemas: [r.avsc]}}\n")
    fields = [{"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}}]
    fields += [{"name": name, "type": kind} for name, kind in (("kind", "string"), ("mote", "string"), ("humidity", "double"))]
    Path("r.avsc").write_text(json.dumps({"type": "record", "name": "R", "fields": fields}))
    rows = [{**reading(time, 80.0), "type": kind, "kind": kind} for time, kind in ((1000, "a"), (2000, "b"))]
    found = replay(cep, both, rows, "--config", "cep.yaml")
    assert [(one["fields"]["type"], *interval) for one, interval in zip(found, intervals(found), strict=True)] == [
        ("a", 5000, 1000, 2000),
        ("b", 5000, 2000, 5000),
    ]


def test_identities_do_not_depend_on_the_configuration(cep) -> None:
    rows = [reading(1000, 80), reading(6000, 80), reading(11000, 80)]
    found = replay(cep, HUMID + "emit: all\n", rows, "--identities")
    assert len({one["id"] for one in found}) == len(found) == 3


def test_a_query_that_reads_nothing_finds_nothing(cep) -> None:
    assert replay(cep, HUMID, [reading(1000, 70)]) == []


def test_validate_and_explain_know_temporal_queries(cep) -> None:
    Path("q.yaml").write_text(HUMID)
    code, out, _ = cep("validate", "q.yaml")
    assert (code, out.strip()) == (0, "1 queries in 1 files: 0 errors, 0 warnings")
    for stage, word in (("ast", "coalesce"), ("plan", "evaluator coalesce"), ("asc", "#0"), ("code", "coalescing: duration -1")):
        code, out, err = cep("explain", "q.yaml", "--stage", stage)
        assert code == 0 and word in out, err
