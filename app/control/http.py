"""The driver's HTTP server: health, metrics, queries and log levels, for people and probes; what tasks are to do while the schema registry is away.

One thread per connection, standard library only. It starts before Spark, so that probes are answered from the first second.
"""

from __future__ import annotations

import hmac
import json
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from app.control.health import QUESTIONS, Health
from app.control.pages import Pages, no_pages
from app.control.registry_watch import Notice, Ruling
from app.observe.logs import get_logger

log = get_logger(__name__)

MAX_BODY_BYTES = 64 << 10
"""More than this is nothing that is asked for here."""
TELL_AGAIN_S = 10.0
IDLE_CONNECTION_S = 120
"""Workers keep their connection over quiet times; dead ones must not keep a thread for ever."""


class NotReadyError(Exception):
    """The driver cannot answer yet; tasks ask again."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What the server serves. All callables must be safe to call from any thread.

    Attributes:
        token: what tasks must show, and people who change something.
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

    def __init__(self, host: str, port: int, endpoints: Endpoints) -> None:
        """Binds the address; raises OSError when it is taken."""

        class Handler(_Handler):
            served = endpoints
            told: ClassVar[dict[str, float]] = {}

        self._server = _Server((host, port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="control-http", daemon=True)
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


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128  # all workers connect at the first batch

    def server_bind(self) -> None:
        # HTTPServer looks up its own name here: seconds on machines without working DNS.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients go away in the middle of a request; that is no news. Anything else is a defect."""
        error = sys.exception()
        if not isinstance(error, (ConnectionError, TimeoutError)):
            log.error("a request could not be answered", client=str(client_address), exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    served: Endpoints
    told: ClassVar[dict[str, float]]
    protocol_version = "HTTP/1.1"
    server_version = "cep"
    sys_version = ""
    timeout = IDLE_CONNECTION_S
    # Head and body leave in one segment; with Nagle's algorithm and delayed acknowledgements two would cost 40 ms.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' name
        """Requests are not logged: probes and tasks would fill the log."""

    def _answer(self, handle: Callable[[], _Reply]) -> None:
        try:
            reply = handle()
        except NotReadyError as error:
            reply = _Reply(503, f"{error}\n".encode())
        except ValueError as error:
            reply = _Reply(400, f"{error}\n".encode())
        except Exception as error:  # noqa: BLE001 - the server must go on; the asker gets the reason
            self._tell(error)
            reply = _Reply(500, f"{type(error).__name__}: {error}\n".encode())
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers:
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
        url = urlsplit(self.path)
        asked = parse_qs(url.query, keep_blank_values=True)
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
        if not self._trusted():
            return _Reply(401, b"token missing or wrong\n")
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            return _Reply(413, b"a body of known, moderate length is needed\n")
        body = self.rfile.read(int(length))
        routes: dict[str, Callable[[bytes], _Reply]] = {"/log-level": self._log_level, "/registry": self._registry}
        route = routes.get(urlsplit(self.path).path)
        if route is None:
            return _Reply(404, f"known here: {' '.join(sorted(routes))}\n".encode())
        return route(body)

    def _registry(self, body: bytes) -> _Reply:
        return _Reply(200, self.served.registry(Notice.from_json(body)).to_json(), "application/json")

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

    def _trusted(self) -> bool:
        shown = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(shown.encode(), self.served.token.encode())


def _json(value: object) -> _Reply:
    return _Reply(200, json.dumps(value, indent=1, default=str).encode() + b"\n", "application/json")
