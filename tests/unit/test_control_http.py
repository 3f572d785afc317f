from __future__ import annotations

import http.client
import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from app.control.client import ControlAddress, ControlClient, ControlError, client_of
from structlog.testing import capture_logs

from app.control.directives import Directive, DirectiveLog, Frozen
from app.control.health import Flag, Health, Pulse
from app.control.http import ControlServer, Endpoints, NotReadyError
from app.control.registry_watch import Notice, Ruling
from app.control.reports import SourceProgress, StageReport


class Driver:
    def __init__(self, folder: Path) -> None:
        self.log = DirectiveLog(folder)
        self.health = Health()
        self.asked = 0
        self.not_ready = 0
        self.broken: Exception | None = None
        self.server = self.listen(0)

    def listen(self, port: int) -> ControlServer:
        endpoints = Endpoints(
            token="secret",
            health=self.health,
            metrics=lambda: (b"cep_leader 1\n", "text/plain; version=1.0.0"),
            queries=lambda: [{"query": "q"}],
            version=lambda: {"version": "0.1.0"},
            directive=self.directive,
            report=self.log.record,
            registry=lambda notice: Ruling("unresolved", 1.5, (7, "guid")) if notice.key == 3 else Ruling("use"),
        )
        return ControlServer("127.0.0.1", port, endpoints)

    def directive(self, batch: int) -> bytes:
        self.asked += 1
        if self.broken:
            raise self.broken
        if self.not_ready:
            self.not_ready -= 1
            raise NotReadyError("no catalog runs yet")
        return self.log.directive(batch, lambda number, times: Frozen(Directive(number, greatest_times=times))).to_json()

    def get(self, path: str, token: str | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=5)
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        response = connection.getresponse()
        answer = response.status, response.read()
        connection.close()
        return answer


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    running = Driver(tmp_path)
    yield running
    running.server.close()


def client(driver: Driver, token: str = "secret", deadline_s: float = 5.0) -> ControlClient:
    return ControlClient(ControlAddress("127.0.0.1", driver.server.port, token, deadline_s))


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


def test_tasks_get_directives_and_give_reports_over_one_connection(driver: Driver) -> None:
    task = client(driver)
    assert task.directive(0).batch == 0
    assert task.directive(0).batch == 0
    assert driver.asked == 1
    connection = task._connection
    task.report(StageReport(0, "ingress", 0, sources=(SourceProgress(1, 3, 100),)))
    assert task._connection is connection
    assert driver.log.totals(0).reports == 1
    assert client(driver).directive(1).greatest_times == {1: 100}


def test_a_task_asks_what_to_do_without_a_registry(driver: Driver) -> None:
    task = client(driver)
    assert task.registry(Notice(5, 3, "failed", "refused")) == Ruling("unresolved", 1.5, (7, "guid"))
    assert task.registry(Notice(5, "guid", "found")) == Ruling("use")
    with pytest.raises(ControlError, match="no notice"):
        task._request("POST", "/registry", b'{"batch": 3}')


def test_wrong_token_is_refused_at_once(driver: Driver) -> None:
    assert driver.get("/directive?batch=0")[0] == 401
    assert driver.get("/directive?batch=0", "secret")[0] == 200
    with pytest.raises(ControlError, match="401"):
        client(driver, token="guess").directive(0)
    with pytest.raises(ControlError, match="401"):
        client(driver, token="guess").report(StageReport(0, "cep", 0))
    assert driver.log.totals(0).reports == 0


@pytest.mark.parametrize("batch", ["", "x", "-1", "1.5", "9" * 30])
def test_nonsense_batches_are_refused(driver: Driver, batch: str) -> None:
    assert driver.get(f"/directive?batch={batch}", "secret")[0] == 400


def test_bad_reports_are_refused_and_the_connection_lives_on(driver: Driver) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", driver.server.port, timeout=5)
    headers = {"Authorization": "Bearer secret"}
    for body, expected in ((b"{", 400), (b"[]", 400), (b'{"batch": 1}', 400), (StageReport(1, "cep", 0).to_json(), 204)):
        connection.request("POST", "/report", body, headers)
        response = connection.getresponse()
        response.read()
        assert response.status == expected
    connection.close()


def test_task_waits_for_a_driver_that_is_not_ready(driver: Driver) -> None:
    driver.not_ready = 3
    pauses: list[float] = []
    task = ControlClient(ControlAddress("127.0.0.1", driver.server.port, "secret"), sleep=pauses.append)
    assert task.directive(4).batch == 4
    assert len(pauses) == 3


def test_task_finds_a_restarted_driver_again(driver: Driver) -> None:
    task = client(driver)
    task.directive(0)
    port = driver.server.port
    driver.server.close()
    driver.server = driver.listen(port)
    # The old connection is dead; it is opened anew without a word.
    task._connection.close()  # type: ignore[union-attr]
    task.report(StageReport(0, "cep", 0))
    assert driver.log.totals(0).reports == 1


def test_forked_worker_opens_a_connection_of_its_own(driver: Driver) -> None:
    task = client(driver)
    task.directive(0)
    of_the_parent = task._connection
    task._pid = -1  # as after a fork
    task.report(StageReport(0, "cep", 0))
    assert task._connection is not of_the_parent
    assert of_the_parent is not None
    assert of_the_parent.sock is not None  # left open: the parent still uses it


def test_a_request_that_fails_is_logged_but_not_with_every_repetition(driver: Driver) -> None:
    driver.broken = OSError("disk full")
    with capture_logs() as logs:
        for _ in range(3):
            assert driver.get("/directive?batch=3", "secret") == (500, b"OSError: disk full\n")
        assert driver.get("/directive?batch=4", "secret")[0] == 500
    assert [(line["log_level"], line["path"], str(line["exc_info"])) for line in logs] == [("error", "/directive?batch=3", "disk full")]


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


def test_task_gives_up_at_the_deadline_and_says_where() -> None:
    now = [0.0]

    def sleep(pause: float) -> None:
        now[0] += max(pause, 0.01)

    address = ControlAddress("127.0.0.1", 9, "secret", deadline_s=2.0)
    with pytest.raises(ControlError, match=r"no answer from the driver at 127\.0\.0\.1:9 .* in 2 s"):
        ControlClient(address, clock_s=lambda: now[0], sleep=sleep).directive(0)
    assert now[0] > 1


def test_worker_keeps_its_client_and_addresses_travel() -> None:
    address = ControlAddress("127.0.0.1", 9, "secret")
    assert client_of(address) is client_of(pickle.loads(pickle.dumps(address)))
    assert client_of(ControlAddress("127.0.0.1", 10, "secret")) is not client_of(address)
