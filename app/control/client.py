"""The tasks' side of the control server: what to do while the schema registry is away. Runs in Spark's Python workers, over a connection that is kept."""

from __future__ import annotations

import http.client
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.control.registry_watch import Notice, Ruling
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

    def registry(self, notice: Notice) -> Ruling:
        """Tells what became of a question to the schema registry, and is told what to do.

        Raises:
            ControlError: no answer before the deadline, or a refusal.
        """
        return Ruling.from_json(self._post("/registry", notice.to_json()))

    def close(self) -> None:
        """Ends the connection; the next request opens another."""
        if self._connection is not None and self._pid == os.getpid():
            self._connection.close()
        self._connection = None

    def _post(self, path: str, body: bytes) -> bytes:
        deadline = self._clock_s() + self._address.deadline_s
        attempt = 0
        while True:
            try:
                status, answer = self._attempt(path, body)
                if status < 300:
                    return answer
                failure = f"HTTP {status}: {answer.decode(errors='replace').strip()}"
                if status < 500:
                    raise ControlError(f"the driver refused {path}: {failure}")
            except (OSError, http.client.HTTPException) as error:
                self.close()
                failure = f"{type(error).__name__}: {error}"
            # A connection that the driver closed while idle is opened again at once; only then is there something to wait for.
            pause = 0.0 if attempt == 0 else PAUSE_S[min(attempt - 1, len(PAUSE_S) - 1)]
            if self._clock_s() + pause >= deadline:
                raise ControlError(
                    f"no answer from the driver at {self._address.host}:{self._address.port} to {path} "
                    f"in {self._address.deadline_s:g} s: {failure}"
                )
            self._sleep(pause)
            attempt += 1

    def _attempt(self, path: str, body: bytes) -> tuple[int, bytes]:
        if self._pid != os.getpid():  # Spark forks workers: a connection must not be shared with the parent
            self._connection, self._pid = None, os.getpid()
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._address.host, self._address.port, timeout=self._address.timeout_s)
            self._connection.connect()
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        headers = {"Authorization": f"Bearer {self._address.token}", "Content-Type": "application/json"}
        self._connection.request("POST", path, body, headers)
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
