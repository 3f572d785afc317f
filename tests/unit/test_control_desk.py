"""What tasks may ask the driver, and what becomes of requests that fail."""

from __future__ import annotations

import http.client
import pickle
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from app.control.desk import Desk, DeskError
from app.control.health import Health
from app.control.http import MAX_BODY_BYTES, ControlServer, Endpoints
from app.control.registry_watch import Notice, Ruling
from app.observe.logs import levels, set_level


def rule(notice: Notice) -> Ruling:
    if notice.key == 500:
        raise OSError("disk full")
    return Ruling("unresolved", 1.5, (7, "guid")) if notice.key == 3 else Ruling("use")


@pytest.fixture
def server() -> Iterator[ControlServer]:
    endpoints = Endpoints("secret", Health(), lambda: (b"", ""), list, dict, levels, set_level, rule)
    running = ControlServer("127.0.0.1", 0, endpoints)
    yield running
    running.close()


def desk(server: ControlServer, token: str = "secret", deadline_s: float = 0.0) -> Desk:
    return pickle.loads(pickle.dumps(Desk("127.0.0.1", server.port, token, deadline_s)))


def posted(server: ControlServer, body: bytes, path: str = "/registry") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request("POST", path, body, {"Authorization": "Bearer secret"})
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_task_asks_what_to_do_without_a_registry(server):
    assert desk(server).registry(Notice(5, 3, "failed", "refused")) == Ruling("unresolved", 1.5, (7, "guid"))
    assert desk(server).registry(Notice(5, "guid", "found")) == Ruling("use")


def test_who_shows_no_token_is_refused_before_the_body_is_read(server):
    with pytest.raises(DeskError, match="token missing or wrong"):
        desk(server, "guess").registry(Notice(5, 3, "failed"))


def test_nonsense_is_refused(server):
    assert posted(server, b'{"batch": 3}') == 400
    assert posted(server, b"[") == 400
    assert posted(server, b"{}", "/elsewhere") == 404
    assert posted(server, b" " * (MAX_BODY_BYTES + 1)) == 413


def test_a_driver_that_is_away_is_told_as_such():
    with pytest.raises(DeskError, match=r"no answer from the driver at 127\.0\.0\.1:9 to /registry in 0 s"):
        Desk("127.0.0.1", 9, "secret", 0.0).registry(Notice(5, 3, "failed"))


def test_a_request_that_fails_is_logged_but_not_with_every_repetition(server):
    with capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(DeskError, match="disk full"):
                desk(server).registry(Notice(5, 500, "failed"))
    assert [(line["log_level"], line["path"], str(line["exc_info"])) for line in logs] == [("error", "/registry", "disk full")]


def failing_connection(server: ControlServer, error: Exception) -> None:
    try:
        raise error
    finally:
        server._server.handle_error(None, ("127.0.0.1", 1))


def test_a_defect_in_a_connection_is_logged_and_a_client_that_goes_away_is_not(server):
    with capture_logs() as logs:
        for error in (BrokenPipeError(), TimeoutError(), ZeroDivisionError("a defect")):
            with pytest.raises(type(error)):
                failing_connection(server, error)
    assert [str(line["exc_info"]) for line in logs] == ["a defect"]
