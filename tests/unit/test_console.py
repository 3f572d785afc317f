"""The console over a control plane without Spark: pages, JSON, what is foreign, what is refused."""

from __future__ import annotations

import http.client
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from markupsafe import Markup

from app.console.automaton import automaton
from app.console.condition import of_application, of_query
from app.console.drawing import drawing, placed
from app.console.figures import Figures, _where
from app.console.plots import Line, plot, sparkline
from app.console.recent import MOST_CONSTITUENTS, MOST_SHOWN, Recent
from app.console.schemas import AGAIN_S, AWAY, REFUSED, Schemas
from app.console.site import HEADERS, Site
from app.console.words import SPACE, duration, short
from app.control.messages.reports import QueryTally, StageReport
from app.control.messages.shed_reports import ShedReport
from app.control.running_catalog import RunningCatalog
from app.control.server.http import HARDENING
from app.control.shown.history import SLOTS
from app.control.shown.query_set import QuerySet
from app.delivery.composite_schema import composite_schema
from app.delivery.tail import MOST_RECORDS, Tail, TailRecord
from app.errors import AccessRefusedError, DependencyError, Finding, Location
from app.events.avro import SchemaError, parse_schema
from app.observe.latency import latency_counts
from app.query.compile import read_queries
from app.query.plan import Catalog, Shedding
from app.query.resolved.vocabulary import UNKNOWN
from shedding.registry import METHODS
from tests.unit.test_control_plane import World, a_plan

ROOT = Path(__file__).parents[2]
EVIL = "<script>alert(1)</script>\"'&"
SHIPPED = {plan.name: plan for plan in read_queries([ROOT / "queries"], UNKNOWN).catalog.plans}
VERDICT, SHED_REPORT = (json.loads((ROOT / "schemas" / f"{name}.avsc").read_text()) for name in ("Verdict", "ShedReport"))


class Topics:
    """What stands on topics, by topic: `Tails` and a registry in one."""

    def __init__(self) -> None:
        self.schemas: dict[int, Any] = {}
        self.records: dict[str, list[TailRecord]] = {}
        self.problem = ""
        self.down: DependencyError | None = None
        self.asked: list[int] = []
        """Ids of schemas that the registry was asked for."""

    def last(self, topic: str, most: int = MOST_RECORDS) -> Tail:
        return Tail(tuple(reversed(self.records.get(topic, [])[-most:])), self.problem)

    def schema(self, number: int) -> Any:
        self.asked.append(number)
        if self.down is not None:
            raise self.down
        return self.schemas.get(number)

    def write(self, topic: str, number: int, schema: dict[str, Any], value: dict[str, Any], key: bytes = b"", kind: bytes = b"") -> None:
        self.schemas[number] = parse_schema(json.dumps(schema))
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
        self.raw(topic, b"\0" + number.to_bytes(4, "big") + stream.getvalue(), key, kind)

    def raw(self, topic: str, value: bytes | None, key: bytes = b"", kind: bytes = b"") -> None:
        records = self.records.setdefault(topic, [])
        records.append(TailRecord(topic, 0, len(records), len(records), key, value, (("ce_type", kind),) if kind else ()))


PLAN = replace(SHIPPED["price-run"], streams=("retail",))


def composite(number: int, symbol: str = "IBM", query: str = "price-run") -> dict[str, Any]:
    event = {"variable": "a", "type": "Quote", "topic": "stocks.quotes", "partition": 1, "offset": number, "time": 1_800_000_000_000}
    fields = {"symbol": symbol, "began": 1_800_000_000_000, "ended": None, "low": 1.5, "high": 2.0, "rise": float("nan")}
    known = {"id": f"{number:032x}", "query": query, "version": 1, "time": 1_800_000_000_000, "detected_at": 1_800_000_000_900}
    return {**known, "window": None, "partition_key": symbol, "fields": fields, "events": [event] * 3}


class Console:
    def __init__(self, folder: Path) -> None:
        self.world, self.topics = World(folder), Topics()
        self.open(PLAN, a_plan(shedder="random", latency_bound_ms=1000))
        plane = self.world.plane
        for flag in (plane.started, plane.running, plane.first_batch):
            flag.good()
        figures = Figures(plane, self.world.settings, Recent(self.topics, self.topics.schema), self.world.clock)
        self.site = Site(figures, "cep")
        plane.pages = self.site.page

    def open(self, *plans: Any, **more: Any) -> None:
        self.world.plane.open(RunningCatalog(Catalog.of(tuple(plans)), "deployment", **more))

    def ask(self, path: str) -> tuple[int, dict[str, str], str]:
        self.site._kept.clear()
        connection = http.client.HTTPConnection("127.0.0.1", self.world.plane.port, timeout=30)
        connection.request("GET", path)
        response = connection.getresponse()
        answer = response.status, dict(response.getheaders()), response.read().decode()
        connection.close()
        return answer

    def json(self, path: str) -> Any:
        return json.loads(self.ask(path)[2])


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    made = Console(tmp_path)
    yield made
    made.world.plane.close()


def test_every_address_answers_and_forbids_what_is_foreign(console):
    for path in ("/", "/queries/q/", "/queries/price-run/", "/console.json", "/queries/q/console.json", "/console.css", "/console.js"):
        status, headers, body = console.ask(path)
        assert (status, bool(body)) == (200, True), path
        for name, value in (*HARDENING, *HEADERS):
            assert headers[name] == value
    assert "unsafe" not in dict(HEADERS)["Content-Security-Policy"]
    assert dict(HEADERS)["Content-Security-Policy"].startswith("default-src 'none'")


@pytest.mark.parametrize(
    "path", ["/queries/nobody/", "/queries/nobody/console.json", "/queries/%3Cscript%3E/", "/nothing", "/queries/q", "/console.css/.."]
)
def test_what_is_not_there_is_not_found(console, path):
    status, _, body = console.ask(path)
    assert status == 404
    assert "<script>" not in body


def test_the_servers_own_answers_stay(console):
    assert "queries" in console.json("/queries")
    assert console.ask("/metrics")[2].startswith("#")
    assert console.ask("/livez")[0] in (200, 503)


def test_nothing_is_changed_through_the_console(console):
    connection = http.client.HTTPConnection("127.0.0.1", console.world.plane.port, timeout=30)
    connection.request("POST", "/", b"x")
    assert connection.getresponse().status in (401, 404)
    connection.close()


def test_what_pages_show_is_behind_json(console):
    for batch in range(6):
        console.world.run(batch, 100)
        console.world.clock.now += 5_000
    told = console.json("/console.json")
    page = console.ask("/")[2]
    assert told["condition"]["word"] == "healthy"
    assert "Healthy" in page
    assert told["consumed_per_s"] == pytest.approx(100 / 5, rel=0.3)
    one = next(query for query in told["queries"] if query["query"] == "q")
    assert one["latency"] == {"bound_ms": 1000, "p50_ms": 75.0, "p95_ms": pytest.approx(97.5), "composite_events": 12, "late": 0}
    assert duration(one["latency"]["p95_ms"]) in page
    assert short(one["matches"]) in page
    detail = console.json("/queries/q/console.json")
    assert len(detail["last_hour"]["latency_p95_ms"]) == SLOTS
    assert any(value is not None for value in detail["last_hour"]["latency_p95_ms"][-3:])
    assert detail["condition"] == one["condition"]


def test_a_query_that_is_late_is_told_at_first_glance():
    late = {
        "query": "q",
        "status": "running",
        "drop_ratio": 0.4,
        "latency": {"late": 6, "composite_events": 100, "bound_ms": 1000},
        "shedding": {"what": "events"},
    }
    condition = of_query(late)
    assert condition.word == "bound broken"
    assert len(condition.reasons) == 2
    assert "6.0 % of the composite events" in condition.reasons[1].replace(SPACE, " ")
    assert of_query({**late, "latency": {"late": 5, "composite_events": 100, "bound_ms": 1000}}).word == "shedding"
    assert of_query({**late, "drop_ratio": 0.0, "latency": {"late": 0, "composite_events": 0, "bound_ms": 1000}}).word == "healthy"
    assert of_query({**late, "drop_ratio": 0.0, "latency": {"late": 6, "composite_events": 100, "bound_ms": None}}).word == "healthy"
    assert of_query({"query": "q", "status": "disabled"}).word == "disabled"


@pytest.mark.parametrize(("bound_ms", "took_ms", "late", "word"), [(3_500, 3_100, 0, "healthy"), (45_000, 50_000, 100, "bound broken")])
def test_a_bound_between_two_buckets_of_the_histogram_is_as_exact_as_any(console, bound_ms, took_ms, late, word):
    console.open(a_plan(shedder="random", latency_bound_ms=bound_ms))
    tally = QueryTally("q", latencies=latency_counts(np.full(100, took_ms)), latency_sum_ms=100 * took_ms, late=late)
    console.world.run(0, 100, StageReport(0, "cep", 1, queries=(tally,)))
    (one,) = console.json("/console.json")["queries"]
    assert (one["latency"]["p95_ms"] > bound_ms) is (word == "healthy"), "the percentile says the opposite"
    assert (one["latency"]["late"], one["condition"]["word"]) == (late, word)


def test_the_worst_gives_the_headline_and_all_are_told():
    def query(word: str, ratio: float = 0.0) -> dict[str, Any]:
        return {"query": word, "drop_ratio": ratio, "condition": {"word": word}}

    good, bad = {"outcome": "reloaded"}, {"outcome": "broken"}
    assert of_application((), good, [query("healthy")]).word == "healthy"
    assert of_application((), good, [query("healthy"), query("shedding", 0.1)]).word == "shedding"
    assert of_application((), bad, [query("shedding", 0.1)]).word == "reload failed"
    worst = of_application((), bad, [query("bound broken", 0.1)])
    assert worst.word == "bound broken"
    assert len(worst.reasons) == 3
    assert of_application(("Spark is starting",), bad, []).word == "not ready"


def test_before_anything_runs_the_page_says_what_is_waited_for(console):
    console.world.plane.running.bad("no query runs yet")
    page = console.ask("/")[2]
    assert "Not ready" in page
    assert "no query runs yet" in page
    console.world.plane.running.good()
    console.world.clock.now += 120_000
    assert "main loop silent for 120 s" in console.json("/console.json")["condition"]["reasons"]


def test_the_page_of_a_query_that_does_not_run_says_so_and_what_it_is(console):
    last_ms = console.world.clock.now - 7_200_000
    model = {"method": "gspice", "file": "models/q/3.model", "digest": "ab" * 32, "events": 5000, "first_ms": 1, "last_ms": last_ms}
    console.open(PLAN, a_plan(shedder="gspice", latency_bound_ms=1000), models={"q": model})
    console.world.plane.running.bad("stopping")
    for name in ("q", "price-run"):
        status, _, page = console.ask(f"/queries/{name}/")
        assert (status, f"<title>{name}: stopped" in page, "<dt>Latency p95</dt>" in page) == (200, True, False)
        assert "<dt>Shedder</dt>" in page
        assert console.json(f"/queries/{name}/console.json")["condition"]["word"] == "stopped"
    assert f"gspice, {duration(7_200_000)} old" in console.ask("/queries/q/")[2]
    assert console.ask("/")[0] == 200


def test_errors_in_files_are_shown_where_they_are_and_nothing_in_them_runs(console):
    place = Location("queries/a.yaml", 9, 8, 3, f"where: {EVIL}")
    told = QuerySet("broken", console.world.clock.now, (Finding(f"no such thing {EVIL}", place, f"try {EVIL}"),), (EVIL,), ("q", "new"))
    console.world.plane.tell(told)
    page = console.ask("/")[2]
    assert "Reload failed" in page
    assert "queries/a.yaml:9:8" in page
    assert "       ^^^" in page
    assert page.count("&lt;script&gt;alert(1)") >= 4
    assert "<script>alert" not in page
    assert "queries/a.yaml:9:8" in console.ask("/queries/q/")[2]
    assert console.json("/console.json")["last_reading"]["findings"][0]["source"].startswith("where")


def test_composite_events_are_shown_with_constituents_and_verdicts_and_nothing_in_them_runs(console):
    schema = composite_schema(PLAN)
    for number in range(3):
        console.topics.write("cep.price-run", 7, schema, composite(number, EVIL))
    verdict = {"time": 1, "query": "price-run", "version": 1, "batch_id": 4, "composite_event": f"{1:032x}", "verdict": "FALSE_POSITIVE"}
    console.topics.write("cep.audit", 8, VERDICT, {**verdict, "refuted_by": {"topic": EVIL, "partition": 0, "offset": 3}}, b"price-run")
    detail = console.json("/queries/price-run/console.json")
    events = detail["composite_events"]["records"]
    assert [event["verdict"] for event in events] == [None, "FALSE_POSITIVE", None]
    assert events[0]["fields"]["symbol"] == EVIL
    assert events[0]["fields"]["rise"] is None, "JSON has no NaN"
    assert events[0]["events"][0] == composite(2)["events"][0]
    page = console.ask("/queries/price-run/")[2]
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)") >= 4
    assert "stocks.quotes/1/2" in page
    assert "<summary>3 events<" in page
    assert "false positive" in page


def test_what_a_reconciliation_took_back_is_not_shown_and_what_was_written_twice_is_shown_once(console):
    schema, kind = composite_schema(PLAN), b"cep.price-run.v1"
    written = [(1, kind), (2, kind), (3, kind), (3, kind), (2, kind + b".retracted"), (4, kind + b".reconciled")]
    written += [(5, kind), (5, kind + b".retracted"), (5, kind + b".reconciled")]
    for number, own in written:
        console.topics.write("cep.price-run", 7, schema, composite(number), kind=own)
    found = console.json("/queries/price-run/console.json")["composite_events"]
    assert [event["id"] for event in found["records"]] == [f"{number:032x}" for number in (5, 4, 3, 1)]
    assert found["looked_at"] == len(written)


def test_verdicts_are_found_behind_a_thousand_audit_records_of_other_kinds(console):
    verdict = {"time": 1, "query": "price-run", "version": 1, "batch_id": 4, "composite_event": f"{1:032x}", "verdict": "CONFIRMED"}
    console.topics.write("cep.audit", 8, VERDICT, {**verdict, "refuted_by": None}, b"price-run")
    report = ShedReport(0, "price-run", 1, 7, "random", 0.5, considered=4, dropped=1).to_avro()
    for _ in range(5 * MOST_RECORDS):
        console.topics.write("cep.audit", 9, SHED_REPORT, report, b"price-run")
    told = console.json("/queries/price-run/console.json")["verdicts"]
    assert [one["verdict"] for one in told["records"]] == ["CONFIRMED"]
    assert told["looked_at"] == 5 * MOST_RECORDS + 1


def test_composite_events_have_their_verdicts_where_more_verdicts_are_known_than_shown(console):
    verdict = {"time": 1, "query": "price-run", "version": 1, "batch_id": 4, "verdict": "CONFIRMED", "refuted_by": None}
    console.topics.write("cep.price-run", 7, composite_schema(PLAN), composite(0))
    for number, word in [(0, "UNVERIFIABLE"), *((number, "CONFIRMED") for number in range(3 * MOST_SHOWN))]:
        console.topics.write("cep.audit", 8, VERDICT, {**verdict, "composite_event": f"{number:032x}", "verdict": word}, b"price-run")
    told = console.json("/queries/price-run/console.json")
    assert [event["verdict"] for event in told["composite_events"]["records"]] == ["CONFIRMED"], "of two the newer one"
    shown = [one["composite_event"] for one in told["verdicts"]["records"]]
    assert shown == [f"{number:032x}" for number in reversed(range(2 * MOST_SHOWN, 3 * MOST_SHOWN))]


def test_records_of_others_and_rubbish_are_passed_over(console):
    schema = composite_schema(PLAN)
    foreign = {**schema, "name": "PriceRunner"}
    console.topics.write("cep.price-run", 7, schema, composite(1))
    console.topics.write("cep.price-run", 7, schema, composite(2, query="other"))
    console.topics.write("cep.price-run", 9, foreign, composite(3))
    cut = console.topics.records["cep.price-run"][0].value
    for value in (None, b"", b"\0", b"\0\0\0\0\x63zz", b"hello world", b"\0\0\0\0\x07", cut[:-4], b"\0\0\0\0\x07" + b"\xff" * 50):
        console.topics.raw("cep.price-run", value)
    found = console.json("/queries/price-run/console.json")["composite_events"]
    assert [event["id"] for event in found["records"]] == [f"{1:032x}"]
    assert found["looked_at"] == 11


def test_no_more_are_shown_than_fit(console):
    for number in range(60):
        console.topics.write(
            "cep.price-run", 7, composite_schema(PLAN), {**composite(number, "x" * 5000), "events": composite(0)["events"] * 400}
        )
    found = console.json("/queries/price-run/console.json")["composite_events"]["records"]
    assert len(found) == MOST_SHOWN
    assert found[0]["id"] == f"{59:032x}", "the newest first"
    assert (len(found[0]["events"]), found[0]["constituents"]) == (MOST_CONSTITUENTS, 1200)
    assert f"<summary>1200 events, the first {MOST_CONSTITUENTS}<" in console.ask("/queries/price-run/")[2]
    assert len(found[0]["fields"]["symbol"]) < 1000


def test_a_broker_that_is_away_is_told_on_the_page(console):
    console.topics.problem = f"Broker: {EVIL}"
    page = console.ask("/queries/price-run/")[2]
    assert "Broker: &lt;script&gt;" in page
    assert "None among them" not in page


@pytest.mark.parametrize(("down", "why"), [(DependencyError("it is away"), AWAY), (AccessRefusedError("wrong password"), REFUSED)])
def test_a_registry_that_is_away_is_told_on_the_page_and_asked_once(console, down, why):
    report = ShedReport(0, "price-run", 1, 7, "random", 0.5, considered=4, dropped=1).to_avro()
    for number in range(100):
        console.topics.write("cep.price-run", 7 + number % 3, composite_schema(PLAN), composite(number))
        console.topics.write("cep.audit", 20 + number, SHED_REPORT, report, b"price-run")
    console.topics.down = down
    status, _, page = console.ask("/queries/price-run/")
    assert (status, page.count(f"<strong>{why}</strong>")) == (200, 2), "of composite events, and of verdicts"
    assert "None among them" not in page
    assert "No verdicts among" not in page
    told = console.json("/queries/price-run/console.json")
    assert told["composite_events"] == {"records": [], "looked_at": 100, "problem": why}
    assert len(console.topics.asked) == 1, "a question takes seconds, and others wait for the page"


def test_what_the_registry_told_before_it_went_away_can_still_be_read(console):
    console.topics.write("cep.price-run", 7, composite_schema(PLAN), composite(1))
    assert console.json("/queries/price-run/console.json")["composite_events"]["problem"] == ""
    console.topics.raw("cep.price-run", b"\0\0\0\0\x63zz")
    console.topics.down = DependencyError("it is away")
    told = console.json("/queries/price-run/console.json")["composite_events"]
    assert (len(told["records"]), told["problem"]) == (1, AWAY)


def test_each_schema_is_asked_for_once_in_a_look_and_an_absent_registry_again_after_a_while():
    now, asked = [0.0], []

    def schema_of(number: int) -> Any:
        asked.append(number)
        raise SchemaError("Protobuf") if number < 3 else DependencyError("it is away")

    schemas = Schemas(schema_of, lambda: now[0])
    look = schemas.look()
    for number in (1, 2, 1, 2, 3, 4, 1, 3):
        assert look.schema(b"\0" + number.to_bytes(4, "big")) is None
    assert (asked, look.problem) == ([1, 2, 3], AWAY)
    assert schemas.look().schema(b"\0\0\0\0\1") is None
    now[0] = AGAIN_S
    later = schemas.look()
    assert later.schema(b"\0\0\0\0\1") is None
    assert (asked, later.problem) == ([1, 2, 3, 1], ""), "what it says counts again"


def test_a_model_is_told_with_its_age(console):
    now = console.world.clock.now
    known = {"method": "gspice", "file": "models/q/3.model", "digest": "ab" * 32, "events": 5000}
    model = {**known, "first_ms": now - 9_200_000, "last_ms": now - 7_200_000}
    console.open(PLAN, a_plan(shedder="gspice", latency_bound_ms=1000), models={"q": model})
    told = console.json("/queries/q/console.json")["model"]
    assert (told["method"], told["age_ms"], told["events"]) == ("gspice", 7_200_000, 5000)
    assert f"gspice, {duration(7_200_000)} old" in console.ask("/queries/q/")[2]


@pytest.mark.parametrize(
    ("plan", "share", "why"),
    [
        (PLAN, 0.01, "nothing is shed for a latency bound"),
        (replace(PLAN, shedding=Shedding("random", 1000), equivalence=()), 0.01, "it has no partition attribute"),
        (replace(PLAN, shedding=Shedding("random", 1000)), 0.0, "audit.sample is 0"),
        (replace(PLAN, shedding=Shedding("random", 1000)), 0.01, None),
    ],
)
def test_where_there_is_no_live_recall_the_page_says_why(console, plan, share, why):
    console.world.plane.open(RunningCatalog(replace(Catalog.of((plan,)), sample=share), "sampled"))
    page = console.ask("/queries/price-run/")[2]
    (recall,) = re.findall(r"<dt>Recall</dt><dd>(.*?)</dd>", page)
    assert console.json("/queries/price-run/console.json")["sample"] == (why or "possible")
    assert (f"no control sample: {why}" if why else "") in recall
    assert ("no control sample" in recall) == (why is not None)


def test_of_a_thousand_queries_a_page_shows_the_worst(console):
    console.open(*(a_plan(f"q{number}") for number in range(1000)))
    console.world.plane.tell(QuerySet("broken", 1, (), (), ("q77",)))
    page = console.ask("/")[2]
    names = re.findall(r'href="/queries/(q\d+)/"', page)
    assert names[0] == "q77"
    assert len(names) == 50
    second = re.findall(r'href="/queries/(q\d+)/"', console.ask("/?page=2")[2])
    assert not set(names) & set(second)
    assert "Page 20 of 20" in console.ask("/?page=999999")[2]
    assert console.ask("/?page=x%3Cscript%3E")[0] == 200


def test_many_who_look_cost_one_page_a_second(console):
    made = []
    figures = console.site._figures
    whole = figures.overview
    figures.overview = lambda: made.append(1) or whole()
    for _ in range(20):
        assert console.site.page("/").status == 200
        assert console.site.page(f"/?page=1&cache=buster-{len(made)}").status == 200
    assert len(made) <= 4


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_shipped_query_is_drawn(name):
    plan = SHIPPED[name]
    told = automaton(plan)
    assert any(state["ends"] for state in told["states"])
    assert all(edge["to"] >= 0 for state in told["states"] for edge in state["edges"])
    places = placed(told["states"])
    boxes = sorted((place.x, place.y) for place in places.values())
    assert len(set(boxes)) == len(told["states"]), "no state hides another"
    shown = drawing(told, name)
    assert isinstance(shown, Markup)
    assert shown.count('class="node"') == len(told["states"])


def test_a_negation_is_drawn_where_it_is_decided():
    states = automaton(SHIPPED["shoplifting"])["states"]
    assert [edge["decides"] for state in states for edge in state["edges"]][-1][-1] == "no CounterReading/ShelfReading c in between"
    assert states[-1]["ends"]


def test_names_in_a_drawing_are_text():
    told = {
        "states": [
            {"state": 0, "left": EVIL, "ends": True, "deciding": [], "edges": [{"item": EVIL, "to": 0, "decides": [EVIL], "until": False}]}
        ]
    }
    assert "<script>" not in drawing(told, EVIL)


def series(*values: float | None) -> np.ndarray:
    padded = [None] * (SLOTS - len(values)) + list(values)
    return np.array([np.nan if value is None else value for value in padded], np.float32)


def test_a_plot_says_in_words_and_numbers_what_it_shows():
    one = plot(
        "latency",
        "Latency",
        [Line("p95", series(100.0, None, 300.0, 200.0)), Line("bound", series(250.0), "bound")],
        1_800_000_000_000,
        duration,
    )
    assert one is not None
    assert f"now {duration(200)}, between {duration(100)} and {duration(300)}" in one.picture
    assert [legend[1:] for legend in one.legend] == [("p95", duration(200)), ("bound", duration(250))]
    assert one.columns == ("until", "p95", "bound")
    assert one.rows[0][1] == duration(300), "of the slots up to there the greatest"
    assert one.top == duration(500)
    assert one.end == "08:00:00"
    assert plot("x", "X", [Line("x", series())], 0, duration) is None
    assert sparkline("x", "X", [Line("x", series())], 180, duration) == ""


def test_a_few_great_values_do_not_flatten_the_others():
    usual = plot("x", "X", [Line("x", series(*[100.0] * 60, 120.0))], 0, duration)
    peaked = plot("x", "X", [Line("x", series(27_000.0, *[100.0] * 60))], 0, duration)
    assert usual is not None
    assert peaked is not None
    assert (usual.peak, usual.top) == ("", duration(200))
    assert (peaked.peak, peaked.top) == (duration(27_000), duration(200))
    assert duration(27_000) in peaked.picture, "it is told"
    assert peaked.rows[-1][1] == duration(27_000)
    broken = plot("x", "X", [Line("x", series(*[300.0] * 30)), Line("bound", series(*[1000.0] * 30), "bound")], 0, duration)
    assert broken is not None
    assert (broken.peak, broken.top) == ("", duration(1000)), "a bound is always in the picture"


def test_lines_break_where_nothing_was_known_for_long():
    def pieces(*values: float | None) -> int:
        drawn = plot("x", "X", [Line("x", series(*values))], 0, duration)
        assert drawn is not None
        return re.search(r'class="line main" d="([^"]+)"', drawn.picture)[1].count("M")

    assert pieces(1.0, 2.0, 1.0) == 1
    assert pieces(1.0, *[None] * 10, 1.0) == 1
    assert pieces(1.0, *[None] * 20, 1.0) == 2


def test_every_key_of_the_json_is_described(console):
    console.world.run(0, 100)
    page = (ROOT / "ops" / "console" / "README.md").read_text()
    whole, one = console.json("/console.json"), console.json("/queries/q/console.json")
    for keys in (
        whole,
        one,
        *(query for query in whole["queries"]),
        one["plan"],
        one["latency"],
        one["shedding"],
        one["automaton"],
        one["composite_events"],
    ):
        for key in keys:
            assert f"`{key}`" in page or key in ("last_reading", "generation"), key


@pytest.mark.parametrize(
    ("shedder", "where"),
    [
        ("random", "at the ingress"),
        ("espice", "at the ingress"),
        ("prefix", "in the bucket"),
        ("hspice", "in matching"),
        ("pspice", "in matching"),
    ],
)
def test_where_a_shedder_drops_is_said_as_it_is(shedder: str, where: str) -> None:
    assert _where(METHODS[shedder]) == where
