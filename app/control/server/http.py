"""The driver's HTTP server: health, metrics, queries and log levels, for people and probes; what tasks are to do while the schema registry is away.

One thread per connection, standard library only. It starts before Spark, so that probes are answered from the first second. A port may be for probes
and metrics alone, with the control port beside it (`app.control.server.doors`). Who has shown nothing yet can send little, and not for long (`app.control.server.connections`).
"""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import ssl
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from app.config.settings import Http
from app.control.server.connections import PATIENCE_S, Connections
from app.control.server.doors import PROBES, PROBES_DOOR, Door, control_door
from app.control.server.health import QUESTIONS, Health
from app.control.server.pages import Pages, no_pages
from app.control.server.registry_watch import Notice, Ruling
from app.control.server.signed import ANSWER_HEADER, signer
from app.observe.logs import get_logger

log = get_logger(__name__)

MAX_BODY_BYTES = 64 << 10
"""More than this is nothing that is asked for here."""
MAX_HEADERS = 50
TELL_AGAIN_S = 10.0
LOOK_S = 0.1
"""How often slow connections are looked for, and how soon a close is noticed."""
HARDENING = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)
"""Headers of every answer that says nothing else: browsers guess no types, show it in no foreign page, tell nobody where they come from, and keep nothing."""


class NotReadyError(Exception):
    """The driver cannot answer yet; tasks ask again."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What the server serves. All callables must be safe to call from any thread.

    Attributes:
        token: with which tasks sign what they say.
        metrics: Prometheus text and its content type.
        queries: JSON values for ``/queries``.
        version: JSON values for ``/version``.
        log_levels: levels by logger, for ``/log-level``.
        set_log_level: sets that of a logger, all loggers' when it is empty; ValueError when there is no such level.
        registry: takes a task's notice about the schema registry, and rules.
        pages: for people: the console.
    """

    token: str
    health: Health
    metrics: Callable[[], tuple[bytes, str]]
    queries: Callable[[], object]
    version: Callable[[], object]
    log_levels: Callable[[], object]
    set_log_level: Callable[[str, str], None]
    registry: Callable[[Notice], Ruling]
    pages: Pages = no_pages


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class ControlServer:
    """Listens from construction until `close`."""

    def __init__(self, host: str, port: int, endpoints: Endpoints, door: Door | None = None) -> None:
        """Binds the address; raises OSError when it is taken."""

        class Handler(_Handler):
            served = endpoints
            behind = door or Door()
            told: ClassVar[dict[str, float]] = {}

        self._server = _Server((host, port), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": LOOK_S}, name="control-http", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port, also when 0 was asked for."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stops listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


def servers(http: Http, endpoints: Endpoints) -> tuple[ControlServer, ...]:
    """One that answers everything, or one for probes and metrics and then the control port's.

    Raises:
        OSError: an address is taken.
        ConfigurationError: the control port's certificate cannot be used.
    """
    door, control = control_door(http.control), http.control
    if control.port is None:
        return (ControlServer(http.host, http.port, endpoints, door),)
    probes = ControlServer(http.host, http.port, endpoints, PROBES_DOOR)
    try:
        return probes, ControlServer(control.host or http.host, control.port, endpoints, door)
    except OSError:
        probes.close()
        raise


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128  # all workers connect at the first batch

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.connections = Connections()
        self.numbers: dict[int, int] = {}
        """Of connections, by the identity of their sockets, for as long as they are open."""
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:  # "::" takes IPv4 as well, whatever the machine does by default
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # HTTPServer looks up its own name here: seconds on machines without working DNS.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for the connection, unless there are too many."""
        number = self.connections.enter(request)
        if number is None:
            super().shutdown_request(request)
            return
        self.numbers[id(request)] = number
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """The connection has ended."""
        number = self.numbers.pop(id(request), None)
        if number is not None:
            self.connections.leave(number)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Comes by all the time."""
        self.connections.end_slow()

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients go away in the middle of a request; that is no news. Anything else is a defect."""
        error = sys.exception()
        if not isinstance(error, (ConnectionError, TimeoutError, ssl.SSLError)):
            log.error("a request could not be answered", client=str(client_address), exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    served: Endpoints
    behind: Door
    server: _Server
    told: ClassVar[dict[str, float]]
    protocol_version = "HTTP/1.1"
    server_version = "cep"
    sys_version = ""
    timeout = PATIENCE_S
    # Head and body leave in one segment; with Nagle's algorithm and delayed acknowledgements two would cost 40 ms.
    wbufsize = -1
    disable_nagle_algorithm = True

    def setup(self) -> None:
        """In the connection's own thread: a client that does not finish its handshake keeps nobody else waiting."""
        self._number = self.server.numbers.get(id(self.request), -1)
        self._wrapped: ssl.SSLSocket | None = None
        if self.behind.tls is not None:
            self.request.settimeout(self.timeout)
            self.request = self._wrapped = self.behind.tls.context().wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self) -> None:
        """Ends what `setup` began."""
        try:
            super().finish()
        finally:
            if self._wrapped is not None:  # it took the socket over from the server
                with contextlib.suppress(OSError):
                    self._wrapped.shutdown(socket.SHUT_RDWR)
                self._wrapped.close()

    def handle_one_request(self) -> None:
        """From here on the request must arrive in time."""
        self.server.connections.asks(self._number)
        super().handle_one_request()

    def handle_expect_100(self) -> bool:
        """Nobody is asked for a body before it is known who he is."""
        self.close_connection = True
        self.send_error(417)
        return False

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' name
        """Requests are not logged: probes and tasks would fill the log."""

    def _answer(self, handle: Callable[[], _Reply]) -> None:
        try:
            reply = handle() if len(self.headers) <= MAX_HEADERS else _Reply(431, b"too many headers\n")
        except NotReadyError as error:
            reply = _Reply(503, f"{error}\n".encode())
        except ValueError as error:
            reply = _Reply(400, f"{error}\n".encode())
        except Exception as error:  # noqa: BLE001 - the server must go on; the asker gets the reason
            self._tell(error)
            reply = _Reply(500, f"{type(error).__name__}: {error}\n".encode())
        self.server.connections.answered(self._number)
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in {**dict(HARDENING), **dict(reply.headers)}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(reply.body)
        self.wfile.flush()

    def _tell(self, error: Exception) -> None:
        """Who asks asks again, so the same failure of the same request is logged once in a while."""
        what, now = f"{urlsplit(self.path).path} {type(error).__name__}: {error}", time.monotonic()
        if now - self.told.get(what, -TELL_AGAIN_S) >= TELL_AGAIN_S:
            self.told.clear()  # one is enough: these are no daily events
            self.told[what] = now
            log.error("a request failed", path=self.path, exc_info=error)

    def _get(self) -> _Reply:
        self._arrived()
        url = urlsplit(self.path)
        if self.behind.probes_only and url.path not in PROBES:
            return _Reply(404, f"known here: {' '.join(sorted(PROBES))}; everything else is at the control port\n".encode())
        if not self.behind.may_read(self.headers.get("Authorization", ""), url.path):
            return _Reply(401, b"token missing or wrong\n", headers=(("WWW-Authenticate", 'Basic realm="cep: the token is the password"'),))
        asked = parse_qs(url.query, keep_blank_values=True, max_num_fields=MAX_HEADERS)
        routes: dict[str, Callable[[], _Reply]] = {
            **{f"/{question}": lambda question=question: self._health(question, "verbose" in asked) for question in QUESTIONS},  # type: ignore[misc]
            "/metrics": self._metrics,
            "/queries": lambda: _json(self.served.queries()),
            "/log-level": lambda: _json(self.served.log_levels()),
            "/version": lambda: _json(self.served.version()),
        }
        route = routes.get(url.path)
        if route is not None:
            return route()
        page = self.served.pages(self.path)
        if page is not None:
            return _Reply(page.status, page.body, page.content_type, page.headers)
        return _Reply(404, f"known here: {' '.join(sorted(routes))}\n".encode())

    def _post(self) -> _Reply:
        self.close_connection = True  # a body that is not read leaves the next request's beginning unknown
        routes: dict[str, Callable[[], _Reply]] = {"/log-level": self._changed_log_level, "/registry": self._ruled}
        route = routes.get(urlsplit(self.path).path)
        if route is None or self.behind.probes_only:
            return _Reply(404, f"known here: {' '.join(sorted(routes))}, at the control port\n".encode())
        return route()

    def _changed_log_level(self) -> _Reply:
        if self.behind.token() is None:
            return _Reply(403, b"nothing can be changed here: no http.control.token_file is set\n")
        if not self.behind.may_change(self.headers.get("Authorization", "")):
            return _Reply(401, b"token missing or wrong\n")
        return self._with_body(self._log_level)

    def _ruled(self) -> _Reply:
        """What a task asks. Its signature is over the body, which is therefore read before it is known whose it is."""
        return self._with_body(self._registry)

    def _with_body(self, handle: Callable[[bytes], _Reply]) -> _Reply:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > MAX_BODY_BYTES:
            return _Reply(413, b"a body of known, moderate length is needed\n")
        body = self.rfile.read(int(length))
        self._arrived()
        return handle(body)

    def _arrived(self) -> None:
        """All of the request is here."""
        self.server.connections.asked(self._number)

    def _registry(self, body: bytes) -> _Reply:
        ours = signer(self.served.token)
        nonce = ours.accepts(self.headers.get("Authorization", ""), self.path, body)
        if nonce is None:
            return _Reply(401, b"signature missing or wrong\n")
        answer = self.served.registry(Notice.from_json(body)).to_json()
        return _Reply(200, answer, "application/json", ((ANSWER_HEADER, ours.answer(nonce, 200, answer)),))

    def _log_level(self, body: bytes) -> _Reply:
        asked = json.loads(body)
        if not isinstance(asked, dict) or not isinstance(asked.get("level"), str) or not isinstance(asked.get("logger", ""), str):
            return _Reply(400, b'write {"level": "debug"}, or with "logger": "app.control" for one logger\n')
        self.served.set_log_level(asked.get("logger", ""), asked["level"])
        return _json(self.served.log_levels())

    def _health(self, question: str, verbose: bool) -> _Reply:  # noqa: FBT001 - from the query string
        answer = self.served.health.ask(question)  # type: ignore[arg-type]
        # Bad answers always say why: probes' messages end up in Kubernetes events.
        text = "\n".join([*(answer.lines if verbose or not answer.good else ()), f"{question} {'ok' if answer.good else 'failed'}"])
        return _Reply(200 if answer.good else 503, f"{text}\n".encode())

    def _metrics(self) -> _Reply:
        body, content_type = self.served.metrics()
        return _Reply(200, body, content_type)


def _json(value: object) -> _Reply:
    return _Reply(200, json.dumps(value, indent=1, default=str).encode() + b"\n", "application/json")
