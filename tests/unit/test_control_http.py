"""The driver's HTTP server: what probes and people get."""

from __future__ import annotations

import http.client
import json
import logging
import socket
from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs

from app.control.client import ControlAddress, ControlClient, ControlError, client_of
from app.control.health import Flag, Health, Pulse
from app.control.http import ControlServer, Endpoints, NotReadyError
from app.control.registry_watch import Notice, Ruling
from app.observe.logs import levels, set_level


def no_queries() -> object:
    raise NotReadyError("no catalog runs yet")


class Driver:
    def __init__(self) -> None:
        self.health = Health()
        self.queries: Callable[[], object] = lambda: [{"query": "q"}]
        self.not_ready = 0
        self.server = self.listen(0)

    def listen(self, port: int) -> ControlServer:
        endpoints = Endpoints(
            token="secret",
            health=self.health,
            metrics=lambda: (b"cep_leader 1\n", "text/plain; version=1.0.0"),
            queries=lambda: self.queries(),  # noqa: PLW0108 - tests change it
            version=lambda: {"version": "0.1.0"},
            log_levels=levels,
            set_log_level=set_level,
            registry=self.registry,
        )
        return ControlServer("127.0.0.1", port, endpoints)

    def registry(self, notice: Notice) -> Ruling:
        if self.not_ready:
            self.not_ready -= 1
            raise NotReadyError("no catalog runs yet")
        return Ruling("unresolved", 1.5, (7, "guid")) if notice.key == 3 else Ruling("use")

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=5)

    def get(self, path: str) -> tuple[int, bytes]:
        connection = self.connection()
        connection.request("GET", path)
        response = connection.getresponse()
        answer = response.status, response.read()
        connection.close()
        return answer


NOTICE = Notice(5, 3, "failed", "refused")
RULING = Ruling("unresolved", 1.5, (7, "guid"))


def client(driver: Driver, token: str = "secret") -> ControlClient:
    return ControlClient(ControlAddress("127.0.0.1", driver.server.port, token, deadline_s=2))


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
    def post(body: str, token: str = "secret") -> int:
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
    connection.request("POST", "/report", b"{}", {"Authorization": "Bearer secret"})
    assert connection.getresponse().status == 404
    connection.close()


def test_a_task_asks_what_to_do_without_a_registry(driver: Driver) -> None:
    task = client(driver)
    assert task.registry(NOTICE) == RULING
    assert task.registry(Notice(5, "guid", "found")) == Ruling("use")
    with pytest.raises(ControlError, match="no notice"):
        task._post("/registry", b'{"batch": 3}')


def test_a_task_with_another_token_is_refused_at_once(driver: Driver) -> None:
    with pytest.raises(ControlError, match="refused /registry: HTTP 401"):
        client(driver, token="guess").registry(NOTICE)


def test_a_task_waits_for_a_driver_that_is_not_ready(driver: Driver) -> None:
    driver.not_ready = 3
    pauses: list[float] = []
    task = ControlClient(ControlAddress("127.0.0.1", driver.server.port, "secret"), sleep=pauses.append)
    assert task.registry(NOTICE) == RULING
    assert len(pauses) == 3


def test_a_task_finds_a_restarted_driver_again(driver: Driver) -> None:
    task = client(driver)
    task.registry(NOTICE)
    port = driver.server.port
    driver.server.close()
    driver.server = driver.listen(port)
    # The old connection is dead; it is opened anew without a word.
    task._connection.close()  # type: ignore[union-attr]
    assert task.registry(NOTICE) == RULING


def test_a_forked_worker_opens_a_connection_of_its_own(driver: Driver) -> None:
    task = client(driver)
    task.registry(NOTICE)
    of_the_parent = task._connection
    task._pid = -1  # as after a fork
    task.registry(NOTICE)
    assert task._connection is not of_the_parent
    assert of_the_parent is not None
    assert of_the_parent.sock is not None  # left open: the parent still uses it


def test_a_task_gives_up_at_the_deadline_and_says_where() -> None:
    now = [0.0]

    def sleep(pause: float) -> None:
        now[0] += pause + 0.5

    with socket.socket() as taken:  # nobody listens there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        task = ControlClient(ControlAddress("127.0.0.1", port, "", deadline_s=2), lambda: now[0], sleep)
        with pytest.raises(
            ControlError, match=rf"no answer from the driver at 127.0.0.1:{port} to /registry in 2 s: ConnectionRefusedError"
        ):
            task.registry(NOTICE)


def test_a_worker_keeps_its_client_and_a_new_run_of_the_driver_gets_another(driver: Driver) -> None:
    address = ControlAddress("127.0.0.1", driver.server.port, "secret")
    assert client_of(address) is client_of(address)
    assert client_of(ControlAddress("127.0.0.1", driver.server.port, "other")) is not client_of(address)


def test_a_request_that_fails_is_logged_but_not_with_every_repetition(driver: Driver) -> None:
    def broken() -> object:
        raise OSError("disk full")

    driver.queries = broken
    with capture_logs() as logs:
        for _ in range(3):
            assert driver.get("/queries?first") == (500, b"OSError: disk full\n")
        assert driver.get("/queries?second")[0] == 500
    assert [(line["log_level"], line["path"], str(line["exc_info"])) for line in logs] == [("error", "/queries?first", "disk full")]


def failing_connection(driver: Driver, error: Exception) -> None:
    try:
        raise error
    finally:
        driver.server._server.handle_error(None, ("127.0.0.1", 1))


def test_a_defect_in_a_connection_is_logged_and_a_client_that_goes_away_is_not(driver: Driver) -> None:
    with capture_logs() as logs:
        for error in (BrokenPipeError(), TimeoutError(), ZeroDivisionError("a defect")):
            with pytest.raises(type(error)):
                failing_connection(driver, error)
    assert [str(line["exc_info"]) for line in logs] == ["a defect"]


def test_a_client_that_says_nothing_keeps_nobody_waiting(driver: Driver) -> None:
    with socket.create_connection(("127.0.0.1", driver.server.port)):
        assert driver.get("/livez")[0] == 200
