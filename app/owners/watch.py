"""Notices that a machine has vanished without a word (power, network), and wakes whoever waits for an owner there.

An owner in a kernel reads nothing for seconds, and what is sent to it meanwhile waits: such a connection cannot be told from a lost one for a minute
(`app.owners.wire.BUSY_MS`). So there is a light connection beside them, one per machine, over which nothing is ever said: a living machine's kernel answers
its tests (TCP keepalive), whatever the owner at its other end does, also while it is stopped.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from dataclasses import dataclass, field

from app.observe.logs import get_logger
from app.owners.wire import Wire, WireError, WireKey, connect

LIGHT_QUIET_S, LIGHT_EVERY_S, LIGHT_TESTS = 2, 1, 6
"""A light connection is tested after so many seconds, and then so often; who leaves that many tests unanswered has vanished. One or two are lost on any network."""
VANISHED_S = LIGHT_QUIET_S + LIGHT_EVERY_S * LIGHT_TESTS
"""Until a machine that vanishes is noticed: 8 s. No `TCP_USER_TIMEOUT`: tests are counted, so a driver that was itself paused for longer does not hold all others for gone."""
PAUSE_S = 1.0
"""Before a light connection is made again that the owner has ended, or did not take: it may be busy, and another one may take its place."""
_ENDED = frozenset({0, errno.ECONNRESET, errno.EPIPE})
"""How a connection ends whose machine is there. Where tests run out the kernel says what it was told last of the way to the machine, whatever that is."""

log = get_logger(__name__)


@dataclass(slots=True)
class _Machine:
    """A machine with owners.

    Attributes:
        wires: connections to its owners, with their ports; none any more: nobody looks at it.
        light: the light connection; None while there is none.
    """

    host: str
    wires: dict[Wire, int] = field(default_factory=dict)
    light: Wire | None = None


class Watch:
    """All machines that a process has connections to. Safe to use from any thread.

    Args:
        key: of the application's connections.
    """

    def __init__(self, key: WireKey) -> None:
        self._key = key
        self._lock = threading.Lock()
        self._machines: dict[str, _Machine] = {}
        self._vanished: set[str] = set()

    def guard(self, host: str, port: int, wire: Wire) -> None:
        """Ends a connection when its machine vanishes, unless it was released before.

        Args:
            host: of the owner.
            port: of the owner.
            wire: a connection to it.
        """
        with self._lock:
            self._vanished.discard(host)
            machine = self._machines.get(host)
            if machine is not None:
                machine.wires[wire] = port
                return
            machine = _Machine(host, {wire: port})
            threading.Thread(target=self._look, args=(machine,), name=f"watch-{host}", daemon=True).start()
            self._machines[host] = machine

    def release(self, host: str, wire: Wire) -> None:
        """To be called before a connection is closed: another one may get its descriptor."""
        with self._lock:
            machine = self._machines.get(host)
            if machine is None:
                return
            machine.wires.pop(wire, None)
            if not machine.wires:
                del self._machines[host]
                if machine.light is not None:
                    machine.light.end("nobody asks any more")

    def vanished(self, host: str) -> bool:
        """Whether a machine has vanished, and nobody has reached it since."""
        with self._lock:
            return host in self._vanished

    def _look(self, machine: _Machine) -> None:
        """A thread's life: until the machine vanishes, or nobody asks for it any more. Its owners may end and be replaced meanwhile."""
        turn = os.getpid()  # not all tasks at the same owner
        while (port := self._port(machine, turn)) is not None:
            turn += 1
            try:
                light = connect(machine.host, port, self._key, _tests())
            except WireError:  # no sign of anything: it may be busy, and the machine has not been tested
                time.sleep(PAUSE_S)
                continue
            try:
                reason = self._end_of(machine, light)
            except OSError as error:  # too many open files, say
                log.warning("a machine with owners cannot be watched for a while", host=machine.host, reason=str(error))
                reason = None
            if reason is not None:
                self._end(machine, reason)
                return
            time.sleep(PAUSE_S)

    def _port(self, machine: _Machine, turn: int) -> int | None:
        with self._lock:
            ports = sorted(set(machine.wires.values()))
            return ports[turn % len(ports)] if ports else None

    def _end_of(self, machine: _Machine, light: Wire) -> str | None:
        """Waits for a light connection's end; the reason where its machine has vanished."""
        with self._lock:
            if not machine.wires:
                light.close()
                return None
            machine.light = light
        try:
            number = light.wait_for_end()
        finally:
            with self._lock:
                machine.light = None
                light.close()
        return None if number in _ENDED else os.strerror(number)

    def _end(self, machine: _Machine, reason: str) -> None:
        with self._lock:
            if not machine.wires:
                return
            log.warning("a machine with owners has vanished", host=machine.host, reason=reason)
            self._vanished.add(machine.host)
            del self._machines[machine.host]
            for wire in machine.wires:
                wire.end(f"the machine {machine.host} does not answer any more")
            machine.wires.clear()


def _tests() -> dict[str, int]:
    return {"TCP_KEEPIDLE": LIGHT_QUIET_S, "TCP_KEEPINTVL": LIGHT_EVERY_S, "TCP_KEEPCNT": LIGHT_TESTS}
