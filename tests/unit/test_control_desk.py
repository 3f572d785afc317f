"""What tasks may ask the driver, and what becomes of requests that fail."""

from __future__ import annotations

import http.client
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.control.server.desk import Desk, DeskError
from app.control.server.health import Health
from app.control.server.http import MAX_BODY_BYTES, ControlServer, Endpoints
from app.control.server.registry_watch import Notice, Ruling
from app.control.server.signed import signer
from app.observe.logs import levels, set_level


def rule(notice: Notice) -> Ruling:
    if notice.key == 500:
        raise OSError("disk full")
    return Ruling("unresolved", 1.5, (7, "guid")) if notice.key == 3 else Ruling("use")


TOKEN = "the application's token"


@pytest.fixture
def server() -> Iterator[ControlServer]:
    endpoints = Endpoints(TOKEN, Health(), lambda: (b"", ""), list, dict, levels, set_level, rule)
    running = ControlServer("127.0.0.1", 0, endpoints)
    yield running
    running.close()


@pytest.fixture
def desk(server: ControlServer, tmp_path: Path) -> Callable[..., Desk]:
    def make(token: str = TOKEN, port: int = server.port) -> Desk:
        (tmp_path / "token").write_text(token)
        return pickle.loads(pickle.dumps(Desk("127.0.0.1", port, str(tmp_path / "token"), deadline_s=0.0)))

    return make


def posted(server: ControlServer, body: bytes, path: str = "/registry") -> int:
    _, authorization = signer(TOKEN).request(path, body)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request("POST", path, body, {"Authorization": authorization})
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_task_asks_what_to_do_without_a_registry(desk):
    assert desk().registry(Notice(5, 3, "failed", "refused")) == Ruling("unresolved", 1.5, (7, "guid"))
    assert desk().registry(Notice(5, "guid", "found")) == Ruling("use")


def test_who_does_not_know_the_token_is_refused(desk):
    with pytest.raises(DeskError, match="signature missing or wrong"):
        desk("a guess").registry(Notice(5, 3, "failed"))


def test_what_travels_holds_no_token_and_the_token_itself_is_no_signature(desk, server):
    asked = desk()
    assert TOKEN.encode() not in pickle.dumps(asked)
    with socket.create_server(("127.0.0.1", 0)) as eavesdropper:
        thread = threading.Thread(target=lambda: heard.append(read_request(eavesdropper)), daemon=True)
        heard: list[bytes] = []
        thread.start()
        with pytest.raises(DeskError, match="no answer"):
            desk(port=eavesdropper.getsockname()[1]).registry(Notice(5, 3, "failed"))
        thread.join(20)
    assert b"POST /registry" in heard[0]
    assert TOKEN.encode() not in heard[0]
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request("POST", "/registry", Notice(5, 3, "failed").to_json(), {"Authorization": f"Bearer {TOKEN}"})
    assert connection.getresponse().status == 401
    connection.close()


def read_request(listener: socket.socket) -> bytes:
    connection, _ = listener.accept()
    with connection:
        return connection.recv(65536)


def test_an_answer_of_somebody_else_is_not_believed(desk):
    """It has no way to sign it."""
    body = Ruling("unresolved", 1.5).to_json()
    with socket.create_server(("127.0.0.1", 0)) as impostor:

        def answer() -> None:
            connection, _ = impostor.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Cep-Signature: aa\r\n\r\n%s" % (len(body), body))

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(DeskError, match="somebody else answered"):
            desk(port=impostor.getsockname()[1]).registry(Notice(5, 3, "failed"))
        thread.join(20)


def test_nonsense_is_refused(server):
    assert posted(server, b'{"batch": 3}') == 400
    assert posted(server, b"[") == 400
    assert posted(server, b"{}", "/elsewhere") == 404
    assert posted(server, b" " * (MAX_BODY_BYTES + 1)) == 413


def test_a_driver_that_is_away_is_told_as_such(desk):
    with pytest.raises(DeskError, match=r"no answer from the driver at 127\.0\.0\.1:9 to /registry in 0 s"):
        desk(port=9).registry(Notice(5, 3, "failed"))


def test_a_request_that_fails_is_logged_but_not_with_every_repetition(desk):
    with capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(DeskError, match="disk full"):
                desk().registry(Notice(5, 500, "failed"))
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
