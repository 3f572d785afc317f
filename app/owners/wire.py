"""Messages between tasks, driver and owners: a head in JSON and any number of parts, over an authenticated TCP connection.

Both ends prove that they know the application's token (challenge and response, `multiprocessing.connection`); it never travels itself. Where they may be on
several machines, all of it goes through TLS (`app.owners.tls`).
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

import orjson

from app.errors import CepError
from app.owners.tls import TlsConnection, encrypted

PROTOCOL = 3
"""Of the messages. Driver and owners are of one installation, but executors that come later load what is installed then."""
Buffer = bytes | bytearray | memoryview

CONNECT_S = 5.0
"""How long a connection may take; an executor that is gone answers nothing at all."""
PROOF_S = 10.0
"""How long the other end may take to prove that it knows the token: port scanners wait for ever."""
BUSY_MS = 60_000
"""An owner in a kernel reads nothing for seconds while a task sends it megabytes: that is no lost connection yet. Machines that vanish are noticed sooner (`app.owners.watch`)."""
QUIET_S = 5
"""After so many seconds without a word the connection is tested; where nothing answers for `BUSY_MS` it ends (Linux goes by that alone, however many tests are lost)."""
TESTS = {"TCP_KEEPIDLE": QUIET_S, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": BUSY_MS}
"""How connections are tested that something is said over."""


class WireError(CepError):
    """The other end is gone, does not answer in time, or is none of ours."""


class UnreachableError(WireError):
    """There is no way to its machine, or nothing answers there; one that is there refuses at once where nobody listens."""


class RefusedError(CepError):
    """The other end could not do what it was asked; it goes on.

    Attributes:
        kind: what happened there, as the name of its exception.
        stack: where it happened.
    """

    def __init__(self, kind: str, text: str, stack: str = "") -> None:
        super().__init__(text)
        self.kind, self.stack = kind, stack


@dataclass(frozen=True, slots=True)
class WireKey:
    """What both ends know.

    Attributes:
        token: of the application.
        encrypted: whether connections are.
    """

    token: bytes
    encrypted: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """What one end says."""

    head: Mapping[str, Any]
    parts: Sequence[memoryview] = field(default_factory=tuple)


class Wire:
    """One end of a connection. Not for several threads at once.

    Args:
        connection: it is the wire's own from now on.
        tests: how the kernel finds out that the other machine is gone: options of TCP.
    """

    def __init__(self, connection: socket.socket, tests: Mapping[str, int] = TESTS) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in tests.items():
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        connection.settimeout(None)
        self._connection: Connection[Any, Any] | TlsConnection = (
            TlsConnection(connection) if isinstance(connection, ssl.SSLSocket) else Connection(connection.detach())
        )
        self._pid = os.getpid()
        self._ended = ""
        """Why somebody else has ended it."""

    def send(self, head: Mapping[str, Any], parts: Sequence[Buffer] = ()) -> None:
        """Says something; the parts are sent one after the other, without a joined copy.

        Raises:
            WireError: the other end is gone.
        """
        try:
            self._connection.send_bytes(orjson.dumps({**head, "parts": len(parts)}))
            for part in parts:
                self._connection.send_bytes(part)
        except (OSError, ValueError) as error:
            raise WireError(f"connection lost: {self._ended or error}") from error

    def receive(self, timeout_s: float | None = None) -> Message:
        """What the other end says next.

        Args:
            timeout_s: how long to wait for its beginning; None: for ever.

        Raises:
            WireError: the other end is gone, or said nothing in time.
        """
        try:
            if timeout_s is not None and not self._connection.poll(timeout_s):
                raise WireError(f"no answer in {timeout_s:g} s")
            head = orjson.loads(self._connection.recv_bytes())
            return Message(head, [memoryview(self._connection.recv_bytes()).toreadonly() for _ in range(head["parts"])])
        except (OSError, EOFError) as error:
            raise WireError(f"connection lost: {self._ended or error or 'closed by the other end'}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise WireError(f"not one of our messages: {error}") from error

    def ask(self, head: Mapping[str, Any], parts: Sequence[Buffer] = (), timeout_s: float | None = None) -> Message:
        """Says something and waits for the answer.

        Raises:
            WireError: there is none.
            RefusedError: the other end could not do it.
        """
        self.send(head, parts)
        answer = self.receive(timeout_s)
        if "error" in answer.head:
            raise RefusedError(answer.head.get("kind", "error"), answer.head["error"], answer.head.get("stack", ""))
        return answer

    @property
    def alive(self) -> bool:
        """Whether the connection stands, and belongs to this process. Nothing may be under way on it."""
        if self._pid != os.getpid() or self._connection.closed:
            return False
        try:
            return not self._connection.poll(0)  # nothing was asked: what is there to be read is the end
        except (OSError, EOFError):
            return False

    def prove(self, token: bytes, *, first: bool) -> None:
        """Both ends prove that they know the token.

        Raises:
            WireError: the other end does not, or takes too long.
        """
        try:
            with socket.socket(fileno=os.dup(self._connection.fileno())) as own:  # both challenges read, so both must end
                own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(PROOF_S), int(PROOF_S % 1 * 1e6)))
                for challenge in (deliver_challenge, answer_challenge) if first else (answer_challenge, deliver_challenge):
                    challenge(self._connection, token)  # type: ignore[arg-type]
                own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
        except (BlockingIOError, ssl.SSLWantReadError) as error:
            raise WireError("the other end does not prove who it is") from error
        except (OSError, EOFError, AuthenticationError, AssertionError, ValueError) as error:
            raise WireError(f"the other end is none of ours: {error}") from error

    def close(self) -> None:
        """Ends the connection; whoever reads from it sees its end."""
        self._shut()
        self._connection.close()

    def end(self, reason: str) -> None:
        """From another thread: whoever says something, or waits for an answer, gets an error with this reason. It is to be closed all the same, and not meanwhile."""
        self._ended = reason
        self._shut()

    def wait_for_end(self) -> int:
        """Waits until a connection ends over which nothing is said.

        Returns:
            the kernel's reason, a number of `errno`; 0 where one of both ends has ended it. (TLS takes the one for the other.)
        """
        with socket.socket(fileno=os.dup(self._connection.fileno())) as own:
            ending = select.poll()
            ending.register(own, select.POLLIN)
            ending.poll()
            return own.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def _shut(self) -> None:
        with suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as own:
            own.shutdown(socket.SHUT_RDWR)


def accepted(connection: socket.socket, key: WireKey) -> Wire:
    """The listening end of a connection, once the other one has proved that it knows the token.

    Raises:
        WireError: it does not, or takes too long; the connection has ended then.
    """
    return _proved(connection, key, TESTS, listening=True)


def _proved(connection: socket.socket, key: WireKey, tests: Mapping[str, int], *, listening: bool) -> Wire:
    try:
        wire = Wire(encrypted(connection, key.token, PROOF_S, server=listening) if key.encrypted else connection, tests)
    except TimeoutError as error:
        connection.close()
        raise WireError("the other end does not prove who it is") from error
    except OSError as error:
        connection.close()
        raise WireError(f"the other end is none of ours: {error}") from error
    try:
        wire.prove(key.token, first=listening)
    except WireError:
        wire.close()
        raise
    return wire


def connect(host: str, port: int, key: WireKey, tests: Mapping[str, int] = TESTS) -> Wire:
    """A connection to a listening owner.

    Args:
        host: of the owner.
        port: of the owner.
        key: of the application.
        tests: see `Wire`.

    Raises:
        UnreachableError: the machine does not answer.
        WireError: nobody listens there, or none of ours.
    """
    try:
        connection = socket.create_connection((host, port), CONNECT_S)
    except ConnectionError as error:
        raise WireError(f"nobody answers at {host}:{port}: {error}") from error
    except OSError as error:
        raise UnreachableError(f"nobody answers at {host}:{port}: {error}") from error
    return _proved(connection, key, tests, listening=False)
