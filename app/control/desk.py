"""The tasks' side of questions to the driver: what to do without a schema registry. Such questions are rare, so each has a connection of its own."""

from __future__ import annotations

import http.client
import time
from dataclasses import dataclass
from typing import Protocol

from app.control.registry_watch import Notice, Ruling
from app.errors import CepError

PAUSE_S = 0.5


class DeskError(CepError):
    """The driver did not answer in time, or refused."""


class RegistryDesk(Protocol):
    """Whom tasks ask what to do without a schema registry."""

    def registry(self, notice: Notice) -> Ruling:
        """See `Desk.registry`."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Where the driver listens, and what to show it. Small and picklable: it travels in the tasks' closures.

    Attributes:
        deadline_s: how long to try; then the task fails and Spark repeats it.
    """

    host: str
    port: int
    token: str
    deadline_s: float = 30.0

    def registry(self, notice: Notice) -> Ruling:
        """Tells what became of a question to the schema registry, and is told what to do.

        Raises:
            DeskError: no answer before the deadline, or a refusal.
        """
        deadline = time.monotonic() + self.deadline_s
        while True:
            try:
                status, answer = self._asked("/registry", notice.to_json())
            except (OSError, http.client.HTTPException) as error:
                status, answer = 503, f"{type(error).__name__}: {error}".encode()
            if status == 200:
                return Ruling.from_json(answer)
            failure = f"{answer.decode(errors='replace').strip()} (HTTP {status})"
            if status < 500:
                raise DeskError(f"the driver refused /registry: {failure}")
            if time.monotonic() >= deadline:
                raise DeskError(f"no answer from the driver at {self.host}:{self.port} to /registry in {self.deadline_s:g} s: {failure}")
            time.sleep(PAUSE_S)

    def _asked(self, path: str, body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        try:
            connection.request("POST", path, body, {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
