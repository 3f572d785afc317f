"""`cep status` asks the HTTP server that the driver runs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, ThreadingTCPServer

import numpy as np
import pytest
from rich.text import Text

from app.cli.running.status import Look, _cells, report
from app.config.settings import Http
from app.control.shown.query_set import QuerySet
from app.errors import Finding, Location
from app.local.ports import free_ports
from app.observe.latency import latency_counts
from app.observe.metrics import Metrics
from app.observe.scrape import Scrape, between, quantile
from tests.certificates import Authority, Identity
from tests.documented import documented
from tests.unit.test_control_plane import T0, World


@pytest.fixture
def world(tmp_path) -> Iterator[World]:
    made = World(tmp_path)
    made.start(shedder="random", latency_bound_ms=4_000)
    yield made
    made.plane.close()


def url(world: World) -> str:
    return f"http://127.0.0.1:{world.plane.port}"


def ready(world: World) -> None:
    world.plane.started.good()
    world.plane.running.good()
    world.run(0, 100, arrived=130)


def test_one_object_says_what_runs_and_how(world, shell):
    ready(world)
    world.plane.tell(QuerySet("reloaded", T0))
    ended = shell("status", "--url", url(world), "--over", "0 s", "--output", "json")
    assert (ended.code, ended.err) == (0, "")
    (told,) = ended.lines
    assert (told["ready"], told["not_ready"], told["version"], told["lag_records"], told["batches"]) == (True, [], "0.1.0", 30, 1)
    assert told["last_reading"] == {"outcome": "reloaded", "read_at_ms": T0, "findings": []}
    (query,) = told["queries"]
    assert (set(told), set(query)) == (documented("`status`"), documented("`status`, each of `queries`"))
    assert (query["query"], query["version"], query["status"], query["broken"]) == ("q", 2, "running", False)
    assert (query["drop_ratio"], query["shedder"], query["latency_bound_ms"], query["composite_events"]) == (0, "random", 4_000, 2)
    assert (query["input_per_s"], query["composite_events_per_s"]) == (None, None), "one look tells no rate"
    latencies = Scrape.of(world.plane.metrics.text()[0].decode()).buckets("cep_detection_latency_seconds", query="q")
    assert query["latency_p99_ms"] == 1000 * quantile(latencies, 0.99)
    assert query["latency_over"] == "since_start"


def test_rates_and_latencies_are_those_of_the_time_that_was_looked_at(world, shell):
    ready(world)
    done = threading.Event()

    def batches() -> None:
        number = 1
        while not done.wait(0.02):
            world.run(number, 100)
            number += 1

    running = threading.Thread(target=batches)
    running.start()
    try:
        (told,) = shell("status", "--url", url(world), "--over", "1 s", "--output", "json").lines
    finally:
        done.set()
        running.join()
    (query,) = told["queries"]
    assert told["arrival_per_s"] > 0
    assert query["input_per_s"] > 0
    assert query["composite_events_per_s"] > 0
    assert query["latency_over"] == "now"


def test_people_get_a_table(world, shell):
    ready(world)
    ended = shell("status", "--url", url(world), "--over", "0 s")
    assert ended.code == 0
    assert f"cep 0.1.0 at {url(world)}: ready" in ended.out
    (row,) = [line for line in ended.out.splitlines() if line.startswith("q v2")]
    assert "running" in row
    assert "/ 4 s" in row
    assert "query files: reloaded" in ended.out


def looks(*batches: tuple[float, int, int]) -> list[Look]:
    """Looks at a query, each after some more composite events: how long all of them took, in s, how many they were, and how many came after the bound."""
    metrics, taken = Metrics(), []
    for latency_s, found, late in batches:
        metrics.add_counts(
            "cep_detection_latency_seconds", latency_counts(np.full(found, int(1000 * latency_s))), latency_s * found, query="q"
        )
        metrics.add("cep_late_composite_events_total", late, query="q")
        taken.append(Look(float(len(taken)), Scrape.of(metrics.text()[0].decode())))
    return taken


def shown(first: Look, second: Look, bound_ms: int) -> tuple[float | None, str, str]:
    """The share that is late, the cell of p99 and bound, and its colour."""
    told = {"generation": 1, "last_reading": {}, "queries": [{"query": "q", "status": "running", "latency_bound_ms": bound_ms}]}
    (one,) = report("", told, {}, first, second)["queries"]
    cell = _cells(one)[4]
    assert isinstance(cell, Text)
    return one["late_ratio"], cell.plain, str(cell.style)


def test_red_is_who_was_late_and_not_whose_bound_lies_between_two_buckets():
    assert shown(*looks((3.1, 50, 0), (3.1, 100, 0)), 3_500) == (0, "5 s / 3500 ms", "")
    assert shown(*looks((50, 50, 0), (50, 100, 0)), 90_000) == (0, "> 30 s / 90 s", "")
    assert shown(*looks((3.1, 50, 0), (3.1, 100, 1)), 3_500) == (0.01, "5 s / 3500 ms", "")
    assert shown(*looks((3.1, 50, 0), (4, 100, 2)), 3_500) == (0.02, "5 s / 3500 ms", "red")
    assert shown(*looks((50, 50, 50), (1, 100, 0)), 60_000)[::2] == (0, ""), "who was late before we looked"


def test_who_was_late_since_the_start_is_told_where_nothing_came_while_we_looked():
    first, second = looks((3.1, 50, 5), (3.1, 0, 0))
    assert shown(first, second, 3_000) == (0.1, "5 s* / 3 s", "red")
    assert shown(second, second, 3_000) == (0.1, "5 s* / 3 s", "red")
    assert shown(Look(0, Scrape()), Look(1, Scrape()), 3_000) == (None, "– / 3 s", "")


def test_who_was_late_is_counted_anew_by_an_application_that_began_anew():
    before, (after,) = looks((3.1, 50, 40))[0], looks((3.1, 10, 5))
    after = replace(after, at_s=1.0)
    assert shown(before, after, 3_000) == (0.5, "5 s / 3 s", "red")


def test_broken_query_files_and_an_application_that_is_not_ready_are_exit_code_1_with_reasons(world, shell):
    not_ready = shell("status", "--url", url(world), "--over", "0 s")
    assert not_ready.code == 1
    assert "no query runs yet" in not_ready.out
    ready(world)
    world.plane.tell(QuerySet("broken", T0, (Finding("no such attribute", Location("q.yaml", 3, 7), "did you mean b?"),), broken=("q",)))
    broken = shell("status", "--url", url(world), "--over", "0 s")
    assert broken.code == 1
    assert "running, file broken" in broken.out
    assert "q.yaml:3:7: error: no such attribute" in broken.out
    assert "→ did you mean b?" in broken.out


def test_estimates_are_shown_with_their_interval(world, shell, monkeypatch):
    ready(world)
    monkeypatch.setattr(world.plane._quality, "told", lambda query: {"recall": [0.8, 0.9, 0.95], "precision": [0.97, 0.99, 1.0]})
    (told,) = shell("status", "--url", url(world), "--over", "0 s", "--output", "json").lines
    assert (told["queries"][0]["recall"], told["queries"][0]["precision"]) == ([0.8, 0.9, 0.95], [0.97, 0.99, 1.0])
    assert "0.90 (0.80–0.95)" in shell("status", "--url", url(world), "--over", "0 s").out


def test_nobody_there_is_69_with_the_next_step(shell):
    ended = shell("status", "--url", f"http://127.0.0.1:{free_ports(1)[0]}")
    assert ended.code == 69
    assert "nobody answers at http://127.0.0.1:" in ended.err
    assert "hint: is the application running (cep run)?" in ended.err


@pytest.mark.parametrize("address", ["localhost:8080", "driver", "", "http://[::1", "http://a b:80"])
def test_no_address_is_nobody_there(shell, address):
    ended = shell("status", "--url", address)
    assert ended.code == 69
    assert ended.err.startswith(f"nobody answers at {address}: ")


def test_who_does_not_speak_http_is_somebody_else(shell):
    class Greets(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            self.request.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

    with ThreadingTCPServer(("127.0.0.1", 0), Greets) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ended = shell("status", "--url", f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    assert ended.code == 69
    assert "is no cep" in ended.err


class _Stranger(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        shown = self.headers.get("Authorization")
        self.send_response(404 if self.server.token in (None, shown) else 401)
        self.end_headers()

    def log_message(self, format, *args) -> None:  # noqa: A002 - the base class' name
        pass


def test_somebody_else_at_the_address_is_told_and_so_is_a_token_that_is_missing(shell, tmp_path):
    file = tmp_path / "token"
    file.write_text("let me in\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Stranger) as server:
        server.token = None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asked = ("status", "--url", f"http://127.0.0.1:{server.server_port}")
        strange = shell(*asked)
        server.token = "Bearer let me in"
        refused, let_in = shell(*asked), shell(*asked, "--token-file", file)
        server.shutdown()
    assert strange.code == 69
    assert "is no cep" in strange.err
    assert "hint: " in strange.err
    assert refused.code == 77
    assert "hint: name a file with the right token" in refused.err
    assert let_in.code == 69, "it is still no cep"
    missing = shell(*asked, "--token-file", tmp_path / "none")
    assert missing.code == 1
    assert "--token-file: cannot read" in missing.err


def test_the_settings_say_where_it_listens(world, shell, tmp_path):
    ready(world)
    file = tmp_path / "settings.yaml"
    file.write_text(json.dumps({"http": {"host": "0.0.0.0", "port": world.plane.port}}))
    assert shell("status", "--settings", file, "--over", "0 s").code == 0


@pytest.mark.parametrize("over", ["soon", "5"])
def test_a_wrong_duration_is_told(shell, over):
    ended = shell("status", "--url", "http://127.0.0.1:9", "--over", over)
    assert ended.code == 1
    assert "--over: " in ended.err


def test_a_histogram_that_began_anew_counts_from_there():
    assert between({1.0: 5, float("inf"): 6}, {1.0: 7, float("inf"): 9}) == {1.0: 2, float("inf"): 3}
    assert between({1.0: 5, float("inf"): 6}, {1.0: 2, float("inf"): 2}) == {1.0: 2, float("inf"): 2}


@contextmanager
def guarded(folder, own: Identity):
    """A server whose control port has a token and this certificate: its settings file, and the port's address."""
    (folder / "token").write_text("an operator's own token")
    (folder / "checkpoint").mkdir()
    made = World(folder / "checkpoint")
    made.plane.close()
    control = {
        "port": 0,
        "token_file": str(folder / "token"),
        "read_with_token": True,
        "certificate_file": str(own.certificate),
        "key_file": str(own.key),
    }
    http = {"host": "127.0.0.1", "port": 0, "control": control}
    made.settings = made.settings.model_copy(update={"http": Http.model_validate(http)})
    made.start()
    ready(made)
    file = folder / "settings.yaml"
    file.write_text(json.dumps({"http": {**http, "port": made.plane.port, "control": {**control, "port": made.plane.control_port}}}))
    try:
        yield file, f"https://127.0.0.1:{made.plane.control_port}"
    finally:
        made.plane.close()


@pytest.mark.slow
def test_a_control_port_with_token_and_certificate_is_asked_as_the_settings_say(tmp_path, shell):
    authority = Authority(tmp_path)
    with guarded(tmp_path, authority.issue("driver")) as (file, at):
        assert shell("status", "--settings", file, "--over", "0 s").code == 0
        assert shell("status", "--url", at, "--ca-file", authority.file).code == 77, "no token is shown"
        strange = shell("status", "--url", at)
        assert strange.code == 69
        assert "certificate" in strange.err
        assert "--ca-file" in strange.err


def test_on_its_own_machine_a_server_is_told_by_the_certificate_of_its_settings_whatever_names_that_has(tmp_path, shell):
    authority = Authority(tmp_path)
    with guarded(tmp_path, authority.issue("driver", hosts=["cep.example"], here=False)) as (file, at):
        assert shell("status", "--settings", file, "--over", "0 s").code == 0
        assert shell("status", "--url", at, "--settings", file, "--over", "0 s").code == 0, "as through a forwarded port"
        assert shell("status", "--url", at, "--settings", file, "--ca-file", authority.file).code == 69, (
            "who is signed by it may be anybody"
        )
