"""The tasks' side of questions to the driver: what to do without a schema registry. Such questions are rare, so each has a connection of its own.

Both ends sign what they say (`app.control.server.signed`), so nothing depends on who else listens; where the control port speaks TLS its certificate is made for
people, by an authority that tasks need not know.
"""

from __future__ import annotations

import http.client
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.config.secret_files import read_secret
from app.control.server.registry_watch import Notice, Ruling
from app.control.server.signed import ANSWER_HEADER, signer
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
    """Where the driver listens, and where the token is. Small and picklable, without a secret: it travels in the tasks' closures.

    Attributes:
        token_file: on the task's machine.
        tls: whether that port speaks TLS.
        deadline_s: how long to try; then the task fails and Spark repeats it.
    """

    host: str
    port: int
    token_file: str
    tls: bool = False
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
        ours = signer(read_secret(Path(self.token_file)))
        nonce, authorization = ours.request(path, body)
        connection = self._connection()
        try:
            connection.request("POST", path, body, {"Authorization": authorization, "Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            if response.status == 200 and not ours.believes(response.headers.get(ANSWER_HEADER, ""), nonce, 200, answer):
                return 502, b"somebody else answered in the driver's place"
            return response.status, answer
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if not self.tls:
            return http.client.HTTPConnection(self.host, self.port, timeout=10)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # what is said is signed
        return http.client.HTTPSConnection(self.host, self.port, timeout=10, context=context)
