"""The driver's HTTP server: what probes and people get."""

from __future__ import annotations

import http.client
import json
import logging
import socket
from collections.abc import Callable, Iterator

import pytest

from app.control.server.doors import Door
from app.control.server.health import Flag, Health, Pulse
from app.control.server.http import ControlServer, Endpoints, NotReadyError
from app.control.server.registry_watch import Ruling
from app.observe.logs import levels, set_level


def no_queries() -> object:
    raise NotReadyError("no catalog runs yet")


TOKEN = "what an operator knows"


class Driver:
    def __init__(self, door: Door | None = None) -> None:
        self.health = Health()
        self.queries: Callable[[], object] = lambda: [{"query": "q"}]
        endpoints = Endpoints(
            token="secret",
            health=self.health,
            metrics=lambda: (b"cep_leader 1\n", "text/plain; version=1.0.0"),
            queries=lambda: self.queries(),  # noqa: PLW0108 - tests exchange it
            version=lambda: {"version": "0.1.0"},
            log_levels=levels,
            set_log_level=set_level,
            registry=lambda notice: Ruling("use"),
        )
        self.server = ControlServer("127.0.0.1", 0, endpoints, door or Door(token=lambda: TOKEN))

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=5)

    def get(self, path: str) -> tuple[int, bytes]:
        connection = self.connection()
        connection.request("GET", path)
        response = connection.getresponse()
        answer = response.status, response.read()
        connection.close()
        return answer


@pytest.fixture
def driver() -> Iterator[Driver]:
    running = Driver()
    yield running
    running.server.close()


def test_probes_answer_with_one_line_per_check(driver: Driver) -> None:
    query = Flag("no query runs yet")
    driver.health.add("readyz", "query", query.check)
    assert driver.get("/livez") == (200, b"livez ok\n")
    assert driver.get("/readyz") == (503, b"[-]query failed: no query runs yet\nreadyz failed\n")
    query.good()
    assert driver.get("/readyz") == (200, b"readyz ok\n")
    assert driver.get("/readyz?verbose") == (200, b"[+]query ok\nreadyz ok\n")


def test_check_that_raises_is_bad_but_answered(driver: Driver) -> None:
    driver.health.add("livez", "jvm", lambda: str(1 // 0))
    status, text = driver.get("/livez")
    assert status == 503
    assert b"ZeroDivisionError" in text


def test_liveness_fails_only_when_the_loop_is_silent() -> None:
    now = [0.0]
    pulse = Pulse(lambda: now[0], timeout_s=60)
    now[0] = 59
    assert pulse.check() is None
    now[0] = 61
    assert pulse.check() == "main loop silent for 61 s"
    pulse.beat()
    assert pulse.check() is None


def test_pages_for_people(driver: Driver) -> None:
    assert driver.get("/metrics") == (200, b"cep_leader 1\n")
    assert json.loads(driver.get("/queries")[1]) == [{"query": "q"}]
    assert json.loads(driver.get("/version")[1]) == {"version": "0.1.0"}
    status, text = driver.get("/nothing")
    assert status == 404
    assert b"/metrics" in text


def test_several_questions_over_one_connection(driver: Driver) -> None:
    connection = driver.connection()
    for path, expected in (("/livez", 200), ("/nothing", 404), ("/version", 200)):
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        assert response.status == expected
    connection.close()


def test_what_cannot_be_answered_is_told_and_the_server_lives_on(driver: Driver) -> None:
    driver.queries = no_queries
    assert driver.get("/queries") == (503, b"no catalog runs yet\n")
    driver.queries = lambda: 1 // 0
    assert driver.get("/queries")[0] == 500
    assert driver.get("/livez")[0] == 200


def test_log_levels_are_changed_at_run_time_by_whoever_has_the_token(driver: Driver) -> None:
    def post(body: str, token: str = TOKEN) -> int:
        connection = driver.connection()
        connection.request("POST", "/log-level", body, {"Authorization": f"Bearer {token}"})
        status = connection.getresponse().status
        connection.close()
        return status

    before = logging.getLogger().level
    try:
        assert post('{"level": "debug"}', token="guess") == 401
        assert logging.getLogger().level == before
        assert post('{"level": "debug"}') == 200
        assert post('{"level": "ERROR", "logger": "app.made.up"}') == 200
        told = json.loads(driver.get("/log-level")[1])
        assert (told[""], told["app.made.up"]) == ("DEBUG", "ERROR")
        assert not logging.getLogger("app.made.up").isEnabledFor(logging.WARNING)
        assert [post(body) for body in ("{", "[]", '{"level": 3}', '{"level": "loud"}', '{"level": "info", "logger": 1}')] == [400] * 5
    finally:
        logging.getLogger().setLevel(before)
        logging.getLogger("app.made.up").setLevel(logging.NOTSET)


def test_owners_are_told_over_connections_of_their_own_and_nothing_of_batches_here(driver: Driver) -> None:
    assert driver.get("/directive?batch=0")[0] == 404
    connection = driver.connection()
    connection.request("POST", "/report", b"{}", {"Authorization": f"Bearer {TOKEN}"})
    assert connection.getresponse().status == 404
    connection.close()


def test_a_client_that_says_nothing_keeps_nobody_waiting(driver: Driver) -> None:
    with socket.create_connection(("127.0.0.1", driver.server.port)):
        assert driver.get("/livez")[0] == 200
