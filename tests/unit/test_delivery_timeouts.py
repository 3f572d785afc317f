"""Partial matches that ran out of their window, as people see them: in `cep replay`, in `cep test`, as Avro records."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import fastavro
import numpy as np
from typer.testing import CliRunner

from app.bucket.recording import match_sorted
from app.cep.matches import Matches
from app.cli.main import cli
from app.cli.queries.test import run_tests
from app.delivery.composite_schema import CONSTITUENT, composite_schema, timeout_schema
from app.events.batch import events_of_types
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.owners.composites import Destination, add_composite_events
from app.owners.deployment import OutputTopic
from app.owners.egress import Records
from app.query.compile import compile_texts
from app.query.plan import Catalog, Plan
from tests.documented import OPERATE, documented
from tests.naive.composites import composite_events

QUERY = """\
name: unpaid
event: SEQ(Order o, ANY(Card, Cash), Receipt r)
within: 10 s
on_timeout: emit
return: {placed: o.time, took: r.time - o.time}
"""
SCHEMAS = Path(__file__).parents[2] / "schemas"
EVENTS = [("Order", 0), ("Cash", 1000), ("Receipt", 2000), ("Order", 20_000)]


def replayed(folder: Path, *options: str) -> list[dict]:
    (folder / "q.yaml").write_text(QUERY)
    (folder / "e.jsonl").write_text("".join(json.dumps({"type": name, "time": time}) + "\n" for name, time in EVENTS))
    arguments = ["replay", "--queries", str(folder / "q.yaml"), "--events", str(folder / "e.jsonl"), *options]
    done = CliRunner().invoke(cli, [*arguments, "--out", str(folder / "out.jsonl")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


def test_replay_writes_timeouts_among_the_matches_by_time_then_events(tmp_path: Path) -> None:
    found = replayed(tmp_path)
    assert [(one.get("kind"), one["time"], [event["position"] for event in one["events"]]) for one in found] == [
        (None, 2000, [0, 1, 2]),
        ("timeout", 10_000, [0]),
        ("timeout", 10_000, [0, 1]),
        ("timeout", 30_000, [3]),
    ]
    assert found[2] == {
        "kind": "timeout",
        "query": "unpaid",
        "version": 1,
        "time": 10_000,
        "window": None,
        "fields": {"placed": 0, "took": None},
        "events": [{"var": "o", "position": 0}, {"var": None, "position": 1}],
    }


def test_stats_count_matches_and_timeouts_apart(tmp_path: Path) -> None:
    replayed(tmp_path, "--stats", str(tmp_path / "stats.json"))
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert (stats["matches"], stats["timeouts"]) == (1, 3)


def compiled(text: str = QUERY) -> Plan:
    types = tuple(EventType(name, (Attribute("n", Kind.INTEGER),)) for name in ("Order", "Card", "Cash", "Receipt"))
    compilation = compile_texts([("q.yaml", text + "from: shop\n")], {"shop": StreamSchema("shop", types)})
    assert not compilation.errors, compilation.errors
    return compilation.catalog.plans[0]


def expired(plan: Plan) -> Matches:
    batch = events_of_types([name for name, _ in EVENTS], [time for _, time in EVENTS])
    (found,) = [one.timeouts for one in match_sorted(Catalog.of((plan,)), batch).found if one.timeouts is not None]
    return found


def timeouts(plan: Plan) -> list:
    return list(composite_events(plan, expired(plan), ["shop"], "timeout"))


def test_a_timeout_says_what_is_missing_and_has_an_identity_of_its_own() -> None:
    plan = compiled()
    found = timeouts(plan)
    assert [event.missing for event in found] == [("Card or Cash", "r"), ("r",), ("Card or Cash", "r")]
    assert len({event.id for event in found}) == 3
    short = compiled(QUERY.replace(", Receipt r", "").replace("took: r.time - o.time", "placed2: o.time"))
    batch = events_of_types(["Order", "Cash"], [0, 1000])
    (match,) = [one.matches for one in match_sorted(Catalog.of((short,)), batch).found]
    (complete,) = composite_events(short, match, ["shop"])
    assert complete.events == found[1].events, "the same events in a match and in a timeout"
    assert complete.id not in {event.id for event in found}


def test_a_timeout_leaves_as_avro_with_cloudevents_headers() -> None:
    plan = compiled()
    schema = timeout_schema(plan)
    records = Records()
    to = Destination(OutputTopic("cep.timeouts", 7, json.dumps(schema)), "shop", ["shop"], 99)
    assert add_composite_events(records, plan, expired(plan), to, "timeout") == [event.id for event in timeouts(plan)]
    assert records.topics == ["cep.timeouts"] * 3
    written = fastavro.schemaless_reader(io.BytesIO(records.values[1][5:]), schema)
    assert written["missing"] == ["r"]
    assert written["fields"]["took"] is None
    assert [(event["variable"], event["type"], event["offset"]) for event in written["events"]] == [("o", "Order", 0), (None, "Cash", 1)]
    headers = dict(records.headers[1])
    assert headers["ce_type"] == b"cep.unpaid.v1.timeout"
    assert headers["ce_time"] == b"1970-01-01T00:00:10.000Z"
    assert "ce_window" not in headers


def test_matches_and_timeouts_have_schemas_of_their_own() -> None:
    plan = compiled()
    assert timeout_schema(plan)["name"] == "UnpaidTimeout"
    assert composite_schema(plan)["name"] == "Unpaid"
    assert "missing" not in {field["name"] for field in composite_schema(plan)["fields"]}
    for schema in (timeout_schema(plan), composite_schema(plan)):
        fastavro.parse_schema(json.loads(json.dumps(schema)))


TESTS = """\
tests:
  - name: forgotten
    given: |
      0s Order n=1
    expect: []
    timeouts: {timeouts}
"""


def outcome(folder: Path, timeouts_: str):
    (folder / "q.yaml").write_text(QUERY + TESTS.replace("{timeouts}", timeouts_))
    (one,) = run_tests([folder / "q.yaml"])
    return one


def test_expected_timeouts_are_one_to_one(tmp_path: Path) -> None:
    assert outcome(tmp_path, "[{took: ~}]").passed
    assert "timeout found, not expected" in outcome(tmp_path, "[]").explanation()
    wrong = outcome(tmp_path, "[{took: 5 s}]")
    assert not wrong.passed
    assert "timeout expected, not found: {took: 5000}" in wrong.explanation()


def test_timeouts_are_not_looked_at_where_a_test_does_not_list_them(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(QUERY + TESTS.replace("    timeouts: {timeouts}\n", ""))
    assert all(one.passed for one in run_tests([tmp_path / "q.yaml"]))


def test_a_query_that_drops_timeouts_cannot_expect_any() -> None:
    text = QUERY.replace("on_timeout: emit\n", "") + TESTS.replace("{timeouts}", "[]")
    findings = compile_texts([("q.yaml", text)], {"s": StreamSchema("s", (), inferred=True)}).errors
    assert [finding.message for finding in findings] == ["the query writes no timeouts"]
    assert np.all([finding.location.line for finding in findings])


def test_the_page_for_consumers_has_every_field_header_and_kind_of_record() -> None:
    plan, page = compiled(), OPERATE.read_text(encoding="utf-8")
    fields = {field["name"] for field in composite_schema(plan)["fields"]}
    assert documented("of a query: `output.topic`, else `<prefix>.<query>`") == fields | {"PriceRun"}
    assert documented("`topics.timeouts`") == {"PriceRunTimeout", *(field["name"] for field in timeout_schema(plan)["fields"])} - fields
    assert " ".join(f"`{field['name']}`" for field in CONSTITUENT["fields"]) in page
    audits = {
        schema["name"] for schema in map(json.loads, map(Path.read_text, SCHEMAS.glob("*.avsc"))) if schema["namespace"] == "cep.audit"
    }
    assert documented("`topics.audit`") == audits
    records = Records()
    to = Destination(OutputTopic("cep.timeouts", 7, json.dumps(timeout_schema(plan))), "shop", ["shop"], 99)
    add_composite_events(records, plan, expired(plan), to, "timeout")
    assert {name for name, _ in records.headers[0]} <= set(re.findall(r"`([\w-]+)`", page))
