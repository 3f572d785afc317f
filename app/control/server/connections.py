"""Who is connected to the HTTP server, and how long somebody may take to ask and to read the answer.

Before anybody has shown a token, they must not be able to keep others out.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

MOST_CONNECTIONS = 100
"""Each has a thread. Probes, scrapers, a few browsers and the tasks of a batch are far below."""
PATIENCE_S = 30.0
"""From the connection, or the last answer, to the end of the next request, and again from the beginning of an answer to its end.
Whoever keeps connections over longer pauses than that connects anew."""


@dataclass(slots=True)
class _Connection:
    """A connection.

    Attributes:
        handle: a second one of its socket, so that it can be ended whoever reads from it or writes to it.
        waiting_since: since when it keeps us waiting, for its request or for taking its answer; None while it is we who work.
    """

    handle: socket.socket
    waiting_since: float | None


class Connections:
    """All connections of one port. Safe to use from any thread.

    Args:
        most: at a time. One more ends the one that has kept us waiting longest: who asks at once is always heard, however many say
            nothing, or read nothing.
        patience_s: how long a request may take to arrive, and how long an answer to be taken.
        clock: seconds that never go back.
    """

    def __init__(self, most: int = MOST_CONNECTIONS, patience_s: float = PATIENCE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._patience_s, self._clock = most, patience_s, clock
        self._open: dict[int, _Connection] = {}
        self._numbers = count()
        self._lock = threading.Lock()

    def enter(self, connection: socket.socket) -> int | None:
        """A new one; its number, or None when it must go: we work for all others."""
        with self._lock:
            if len(self._open) >= self._most and not self._end_longest():
                return None
            number = next(self._numbers)
            self._open[number] = _Connection(socket.socket(fileno=os.dup(connection.fileno())), self._clock())
            return number

    def asks(self, number: int) -> None:
        """It may ask something from now on."""
        self._waits(number, self._clock())

    def asked(self, number: int) -> None:
        """Its request is here; what takes time now is our work."""
        self._waits(number, None)

    def answered(self, number: int) -> None:
        """The answer is made; what takes time now is how it is read."""
        self._waits(number, self._clock())

    def leave(self, number: int) -> None:
        """It has ended."""
        with self._lock:
            if (one := self._open.pop(number, None)) is not None:
                one.handle.close()

    def end_slow(self) -> None:
        """Ends those that take too long to ask, or to take an answer."""
        with self._lock:
            now = self._clock()
            for one in self._open.values():
                if one.waiting_since is not None and now - one.waiting_since > self._patience_s:
                    _end(one.handle)

    def __len__(self) -> int:
        with self._lock:
            return len(self._open)

    def _waits(self, number: int, since: float | None) -> None:
        with self._lock:
            if (one := self._open.get(number)) is not None:
                one.waiting_since = since

    def _end_longest(self) -> bool:
        waiting = [(one.waiting_since, number) for number, one in self._open.items() if one.waiting_since is not None]
        if not waiting:
            return False
        gone = self._open.pop(min(waiting)[1])
        _end(gone.handle)
        gone.handle.close()
        return True


def _end(handle: socket.socket) -> None:
    """Whoever waits for it, in whatever thread, gets the end."""
    with contextlib.suppress(OSError):
        handle.shutdown(socket.SHUT_RDWR)
