"""Ports: what each shows, to whom, over TLS or not; and how little somebody can do who has shown nothing."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.config.settings import Control, Http, load_settings
from app.control.server.connections import Connections
from app.control.server.desk import Desk
from app.control.server.doors import KeptToken, control_door
from app.control.server.health import Health
from app.control.server.http import MAX_BODY_BYTES, ControlServer, Endpoints, servers
from app.control.server.registry_watch import Notice, Ruling
from app.errors import ConfigurationError
from app.observe.logs import levels, set_level
from tests.certificates import Authority, replace

TOKEN = "an operator's token"
DEADLINE_S = 60.0


def endpoints(metrics: bytes = b"cep_leader 1\n") -> Endpoints:
    return Endpoints("a task's token", Health(), lambda: (metrics, "text/plain"), list, dict, levels, set_level, lambda _: Ruling("use"))


@contextmanager
def running(http_settings: Http, metrics: bytes = b"cep_leader 1\n") -> Iterator[tuple[ControlServer, ...]]:
    started = servers(http_settings, endpoints(metrics))
    try:
        yield started
    finally:
        for server in started:
            server.close()


def settings(**control: object) -> Http:
    return Http.model_validate({"port": 0, "control": control})


def asked(
    server: ControlServer, path: str, authorization: str = "", method: str = "GET", body: bytes | None = None
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
    with contextlib.closing(connection):
        connection.request(method, path, body, {"Authorization": authorization} if authorization else {})
        response = connection.getresponse()
        response.read()
        return response


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_one_port_answers_everything_unless_the_control_port_is_one_of_its_own():
    with running(settings()) as (only,):
        assert [asked(only, path).status for path in ("/livez", "/metrics", "/queries", "/version")] == [200] * 4
    with running(settings(port=0)) as (probes, control):
        assert [asked(probes, path).status for path in ("/livez", "/readyz", "/startupz", "/metrics")] == [200] * 4
        assert [asked(probes, path).status for path in ("/queries", "/version", "/log-level", "/")] == [404] * 4
        assert asked(probes, "/log-level", f"Bearer {TOKEN}", "POST", b"{}").status == 404
        assert asked(probes, "/registry", method="POST", body=b"{}").status == 404
        assert [asked(control, path).status for path in ("/livez", "/metrics", "/queries", "/version")] == [200] * 4


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ({}, "http://127.0.0.1:8080"),
        ({"host": "0.0.0.0", "port": 9000}, "http://127.0.0.1:9000"),
        ({"host": "10.0.0.1", "control": {"port": 9001}}, "http://10.0.0.1:9001"),
        ({"control": {"port": 9001, "host": "::", "certificate_file": "a", "key_file": "b"}}, "https://[::1]:9001"),
    ],
)
def test_tools_on_the_same_machine_know_the_one_address_that_answers_everything(written, url):
    assert Http.model_validate(written).control_url == url


def test_a_second_port_that_cannot_be_had_leaves_the_first_one_free_again():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (free,) = (one.getsockname()[1] for one in [socket.create_server(("127.0.0.1", 0))])
        wanted = Http.model_validate({"port": free, "control": {"port": taken.getsockname()[1]}})
        with pytest.raises(OSError, match="in use"):
            servers(wanted, endpoints())
        socket.create_server(("127.0.0.1", free)).close()


def test_without_a_token_nobody_changes_anything_and_everybody_reads():
    with running(settings()) as (server,):
        assert asked(server, "/log-level", "Bearer ", "POST", b'{"level": "debug"}').status == 403
        assert asked(server, "/log-level", method="POST", body=b'{"level": "debug"}').status == 403
        assert asked(server, "/log-level").status == 200


def test_browsers_may_read_with_the_token_as_password_but_change_nothing_with_it():
    basic = "Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode()
    with running(settings(token=TOKEN, read_with_token=True)) as (server,):
        refused = asked(server, "/queries")
        assert (refused.status, refused.headers["WWW-Authenticate"].split()[0]) == (401, "Basic")
        for wrong in (
            "Bearer guess",
            "Basic guess",
            "Basic " + base64.b64encode(b"me:guess").decode(),
            "Basic " + base64.b64encode(b"\xff").decode(),
        ):
            assert asked(server, "/queries", wrong).status == 401, wrong
        assert [asked(server, "/queries", shown).status for shown in (basic, f"Bearer {TOKEN}")] == [200, 200]
        assert asked(server, "/livez").status == 200, "a probe has no token"
        assert asked(server, "/log-level", basic, "POST", b'{"level": "info", "logger": "made.up"}').status == 401, (
            "pages elsewhere could ask for this"
        )


def test_a_token_that_is_exchanged_in_its_file_counts_from_then_on(tmp_path):
    (tmp_path / "settings.yaml").write_text(f"http: {{control: {{token_file: {tmp_path / 'token'}}}}}")
    (tmp_path / "token").write_text(TOKEN + "\n")
    loaded = load_settings(tmp_path / "settings.yaml", {}).http.control
    kept = KeptToken(loaded.token, loaded.token_file)
    assert kept() == TOKEN
    replace(tmp_path / "token", "another one, long enough")
    assert kept() == "another one, long enough"
    (tmp_path / "token").unlink()
    assert kept() == "another one, long enough", "Kubernetes exchanges files one after the other"


def test_settings_that_would_let_people_in_by_accident_are_refused(tmp_path):
    for wrong in (
        {"read_with_token": True},
        {"token": "short"},
        {"certificate_file": "a.crt", "port": 1},
        {"certificate_file": "a", "key_file": "b"},
    ):
        with pytest.raises(ValueError, match=r"needs|at least 16|go together"):
            Control.model_validate(wrong)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def over_tls(port: int, authority: Authority, path: str = "/queries") -> tuple[int, int]:
    """Status, and the serial number of the server's certificate."""
    context = ssl.create_default_context(cafile=str(authority.file))
    connection = http.client.HTTPSConnection("localhost", port, timeout=DEADLINE_S, context=context)
    with contextlib.closing(connection):
        connection.request("GET", path)
        shown = connection.sock.getpeercert()
        response = connection.getresponse()
        response.read()
        return response.status, int(shown["serialNumber"], 16)


def test_the_control_port_speaks_tls_with_the_certificate_that_its_files_hold_now(authority, tmp_path):
    own = authority.issue("driver", "a key's password")
    (tmp_path / "settings.yaml").write_text(
        json.dumps(
            {
                "http": {
                    "port": 0,
                    "control": {
                        "port": 0,
                        "certificate_file": str(own.certificate),
                        "key_file": str(own.key),
                        "key_password_file": str(tmp_path / "password"),
                    },
                }
            }
        )
    )
    (tmp_path / "password").write_text("a key's password")
    with running(load_settings(tmp_path / "settings.yaml", {}).http) as (probes, control):
        status, serial = over_tls(control.port, authority)
        assert status == 200
        assert asked(probes, "/metrics").status == 200, "scrapers speak plain HTTP"
        with pytest.raises((OSError, http.client.HTTPException)):
            asked(control, "/queries")
        replace(own.certificate, "half of an exchange")
        assert over_tls(control.port, authority) == (200, serial)
        authority.issue("driver", "a key's password")
        assert over_tls(control.port, authority)[1] != serial


def test_a_client_that_never_ends_its_handshake_keeps_nobody_waiting(authority):
    own = authority.issue("driver")
    with (
        running(settings(port=0, certificate_file=own.certificate, key_file=own.key)) as (_, control),
        socket.create_connection(("127.0.0.1", control.port)),
    ):
        assert over_tls(control.port, authority)[0] == 200


def test_certificates_that_cannot_be_used_are_told_at_the_start(authority, tmp_path):
    own, other = authority.issue("driver", "a password"), authority.issue("other")
    for wrong in ({"key_file": other.key}, {"key_file": own.key}, {"key_file": tmp_path / "missing.key"}):
        with pytest.raises(ConfigurationError, match=r"http\.control: certificate .* cannot be used"):
            control_door(Control.model_validate({"port": 0, "certificate_file": own.certificate, **wrong}))


def test_tasks_ask_through_tls_as_well(authority, tmp_path):
    own = authority.issue("driver")
    (tmp_path / "token").write_text("a task's token")
    with running(settings(port=0, certificate_file=own.certificate, key_file=own.key)) as (_, control):
        desk = Desk("127.0.0.1", control.port, str(tmp_path / "token"), tls=True, deadline_s=0.0)
        assert desk.registry(Notice(1, 2, "failed")) == Ruling("use")


# How little somebody can do who has shown nothing.


def raw(server: ControlServer, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as connection:
        connection.sendall(data)
        with contextlib.suppress(ConnectionError):
            return connection.recv(65536)
    return b""


def test_a_body_is_not_read_without_the_token_and_never_when_it_is_large():
    with running(settings(token=TOKEN)) as (server,):
        head = b"POST /log-level HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n"
        assert b" 401 " in raw(server, head + b"\r\n"), "the answer comes before the body"
        assert b" 417 " in raw(server, head + b"Expect: 100-continue\r\n\r\n")
        for length in (str(MAX_BODY_BYTES + 1), "-1", "1e3", "", "9" * 30):
            told = raw(server, f"POST /registry HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n".encode())
            assert b" 413 " in told, length
        assert b" 413 " in raw(server, b"POST /registry HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")


def test_heads_are_bounded():
    with running(settings()) as (server,):
        many = b"".join(b"X-%d: a\r\n" % number for number in range(60))
        assert b" 431 " in raw(server, b"GET /livez HTTP/1.1\r\n" + many + b"\r\n")
        assert b" 414 " in raw(server, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n")


def test_who_asks_at_once_is_heard_however_many_say_nothing(monkeypatch):
    with running(settings()) as (server,):
        server._server.connections = Connections(most=5)
        with contextlib.ExitStack() as silent:
            idle = [silent.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)) for _ in range(12)]
            for _ in range(3):
                assert asked(server, "/livez").status == 200
            assert idle[0].recv(1) == b"", "the longest silent one had to go"
            until(lambda: len(server._server.connections) <= 5)


MUCH = b"cep_much 1\n" * 2_000_000
"""More than the kernels of both ends hold for somebody who does not read."""


def reader(server: ControlServer, requests: int) -> socket.socket:
    """Somebody who asks for all metrics, and has not read anything yet."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(DEADLINE_S)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * requests)
    return connection


def test_a_probe_is_answered_however_many_ask_and_read_nothing():
    with running(settings(port=0), MUCH) as (probes, _):
        probes._server.connections = Connections(most=5)
        with contextlib.ExitStack() as blocked:
            idle = [blocked.enter_context(reader(probes, 20)) for _ in range(5)]
            until(lambda: len(select.select(idle, [], [], 0)[0]) == 5)  # an answer is being written to each
            for _ in range(3):
                assert asked(probes, "/livez").status == 200
            until(lambda: len(probes._server.connections) <= 5)


def test_an_answer_that_is_read_in_drips_is_cut_off():
    with running(settings(), MUCH) as (server,):
        server._server.connections = Connections(patience_s=0.5)
        with reader(server, 1) as connection:
            read = len(connection.recv(512))
            while len(server._server.connections) == 1 and read < len(MUCH):
                read += len(connection.recv(512))
                time.sleep(0.001)
            assert read < len(MUCH)


@contextmanager
def socket_pairs(number: int) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """(ours, theirs) of so many connections; reading at their end has a deadline."""
    with contextlib.ExitStack() as opened:
        pairs = [socket.socketpair() for _ in range(number)]
        for ours, theirs in pairs:
            opened.enter_context(ours)
            opened.enter_context(theirs)
            theirs.settimeout(DEADLINE_S)
        yield pairs


def test_who_takes_an_answer_slowly_goes_before_who_came_later():
    now = [0.0]
    connections = Connections(most=2, patience_s=30, clock=lambda: now[0])
    with socket_pairs(4) as pairs:
        slow = connections.enter(pairs[0][0])
        connections.asked(slow)
        connections.answered(slow)
        now[0] = 10.0
        asking = connections.enter(pairs[1][0])
        third = connections.enter(pairs[2][0])
        assert pairs[0][1].recv(1) == b"", "it has kept us waiting longest"
        connections.asked(asking)
        connections.asked(third)
        assert connections.enter(pairs[3][0]) is None
        connections.answered(asking)
        now[0] = 40.5
        connections.end_slow()
        assert pairs[1][1].recv(1) == b"", "an answer must be taken in time"
        pairs[2][0].sendall(b"an answer")
        assert pairs[2][1].recv(100) == b"an answer", "what we work on takes as long as it takes"
        for number in (slow, asking, third):
            connections.leave(number)
        assert len(connections) == 0


def test_a_request_that_drips_is_cut_off_and_one_that_is_being_answered_is_not():
    now = [0.0]
    connections = Connections(most=2, patience_s=30, clock=lambda: now[0])
    with socket_pairs(3) as pairs:
        dripping, answered, third = (connections.enter(ours) for ours, _ in pairs)
        assert third is not None, "the longest silent one, the first, had to go"
        assert pairs[0][1].recv(1) == b""
        connections.asked(answered)
        now[0] = 31.0
        connections.end_slow()
        assert pairs[2][1].recv(1) == b""
        pairs[1][0].sendall(b"an answer")
        assert pairs[1][1].recv(100) == b"an answer"
        connections.asks(answered)
        now[0] = 62.0
        connections.end_slow()
        assert pairs[1][1].recv(1) == b""
        for number in (dripping, answered, third):
            connections.leave(number)
        assert len(connections) == 0


def test_when_all_connections_are_being_answered_one_more_is_turned_away():
    connections = Connections(most=1)
    first, second = socket.socketpair()
    with first, second:
        number = connections.enter(first)
        connections.asked(number)
        assert connections.enter(second) is None
        connections.leave(number)
        other = connections.enter(second)
        assert other is not None
        connections.leave(other)


def test_connections_that_ended_are_forgotten():
    with running(settings()) as (server,):
        for _ in range(20):
            asked(server, "/livez")
        until(lambda: len(server._server.connections) == 0)
        assert server._server.numbers == {}
