"""The tasks' side of the control server: get the directive of a batch, give a report. Runs in Spark's Python workers.

A worker asks once per batch (the answer is kept for its other tasks of the batch) over a connection that it keeps.
"""

from __future__ import annotations

import http.client
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.control.directives import Directive
from app.control.registry_watch import Notice, Ruling
from app.control.reports import StageReport
from app.errors import CepError

PAUSE_S = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Waits between attempts; the last one repeats. A restarting driver is back in seconds, a busy one in milliseconds."""


class ControlError(CepError):
    """The driver did not answer in time, or refused."""


@dataclass(frozen=True, slots=True)
class ControlAddress:
    """Where the driver listens, and what to show it. Small and picklable: it travels in the tasks' closures.

    Attributes:
        deadline_s: how long to try; then the task fails and Spark repeats it.
    """

    host: str
    port: int
    token: str
    deadline_s: float = 30.0
    timeout_s: float = 10.0


class ControlClient:
    """A kept connection to one driver. Not for several threads: a worker's tasks run one after the other."""

    def __init__(
        self, address: ControlAddress, clock_s: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._address = address
        self._clock_s = clock_s
        self._sleep = sleep
        self._connection: http.client.HTTPConnection | None = None
        self._pid = os.getpid()
        self._known: Directive | None = None

    def directive(self, batch: int) -> Directive:
        """The directive of a batch; asked for once, then remembered until another batch is asked for.

        Raises:
            ControlError: no answer before the deadline, or a refusal.
        """
        if self._known is None or self._known.batch != batch:
            self._known = Directive.from_json(self._request("GET", f"/directive?batch={batch}", None))
        return self._known

    def report(self, report: StageReport) -> None:
        """Gives a report; when this returns, the driver has written it down. A task must not end before.

        Raises:
            ControlError: no answer before the deadline, or a refusal.
        """
        self._request("POST", "/report", report.to_json())

    def registry(self, notice: Notice) -> Ruling:
        """Tells what became of a question to the schema registry, and is told what to do.

        Raises:
            ControlError: no answer before the deadline, or a refusal.
        """
        return Ruling.from_json(self._request("POST", "/registry", notice.to_json()))

    def close(self) -> None:
        """Ends the connection; the next request opens another."""
        if self._connection is not None and self._pid == os.getpid():
            self._connection.close()
        self._connection = None

    def _request(self, method: str, path: str, body: bytes | None) -> bytes:
        deadline = self._clock_s() + self._address.deadline_s
        attempt = 0
        while True:
            try:
                status, answer = self._attempt(method, path, body)
                if status < 300:
                    return answer
                failure = f"HTTP {status}: {answer.decode(errors='replace').strip()}"
                if status < 500:
                    raise ControlError(f"the driver refused {method} {path}: {failure}")
            except (OSError, http.client.HTTPException) as error:
                self.close()
                failure = f"{type(error).__name__}: {error}"
            # A connection that the driver closed while idle is opened again at once; only then is there something to wait for.
            pause = 0.0 if attempt == 0 else PAUSE_S[min(attempt - 1, len(PAUSE_S) - 1)]
            if self._clock_s() + pause >= deadline:
                raise ControlError(
                    f"no answer from the driver at {self._address.host}:{self._address.port} to {method} {path} "
                    f"in {self._address.deadline_s:g} s: {failure}"
                )
            self._sleep(pause)
            attempt += 1

    def _attempt(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        if self._pid != os.getpid():  # Spark forks workers: a connection must not be shared with the parent
            self._connection, self._pid = None, os.getpid()
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._address.host, self._address.port, timeout=self._address.timeout_s)
            self._connection.connect()
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        headers = {"Authorization": f"Bearer {self._address.token}", "Content-Type": "application/json"}
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        return response.status, response.read()


_clients: dict[ControlAddress, ControlClient] = {}


def client_of(address: ControlAddress) -> ControlClient:
    """This worker's client for an address; module globals outlive batches in Spark's Python workers."""
    client = _clients.get(address)
    if client is None:
        _clients.clear()  # an address is that of one driver run: older ones are gone
        client = _clients[address] = ControlClient(address)
    return client
