"""Keeps an executor's owners running: forked from Spark's Python daemon, it forks one owner per slot and another one when one ends.

Who dies with whom: the daemon ends with its executor (its standard input closes), the keeper is killed when the daemon ends, the owners when the
keeper does. The ports are opened before anything is forked, so they stay the same for the executor's life and its tasks know them by memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from app.config.secret_files import read_secret
from app.owners.wire import WireKey

SETTING = "CEP_OWNERS"
"""Environment variable of executors: what `OwnerSlots.to_text` gave."""
PAUSE_S = 0.5
"""Between two starts of an owner in one slot: one that cannot start at all must not burn a core."""
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
YOUNG_S = 5.0
"""An owner that lived longer is replaced at once."""


@dataclass(frozen=True, slots=True)
class OwnerSlots:
    """How many owners an executor has, and how they are reached.

    Attributes:
        token_file: what both ends of every connection must know is in it; at the same path on all machines.
        slots: owners per executor, as many as it has cores.
        local: whether driver and executors are on one machine: then nobody else may connect.
        encrypted: whether connections are.
    """

    token_file: str
    slots: int = 1
    local: bool = False
    encrypted: bool = False

    @property
    def key(self) -> WireKey:
        """What connections need, read from the file.

        Raises:
            ConfigurationError: it cannot be read here.
        """
        return WireKey(read_secret(Path(self.token_file)).encode(), self.encrypted)

    def to_text(self) -> str:
        """For the environment."""
        return orjson.dumps([self.token_file, self.slots, self.local, self.encrypted]).decode()

    @staticmethod
    def from_text(text: str) -> OwnerSlots:
        """Reads what `to_text` gave."""
        return OwnerSlots(*orjson.loads(text))


@dataclass(frozen=True, slots=True)
class LocalOwners:
    """The owners of this executor, as its workers know them: addresses of its slots."""

    host: str = ""
    ports: tuple[int, ...] = ()


_local = LocalOwners()


def local_owners() -> LocalOwners:
    """The owners of the executor that this Python worker belongs to."""
    return _local


def start_owners(serve: Callable[[socket.socket, WireKey], None]) -> None:
    """Opens the ports and forks the keeper. For Spark's Python daemon, before it forks workers.

    Args:
        serve: an owner's life; see `app.owners.server.serve`.
    """
    global _local  # noqa: PLW0603 - what forked workers inherit
    text = os.environ.get(SETTING)
    if not text:
        return
    slots = OwnerSlots.from_text(text)
    key = slots.key
    host = "127.0.0.1" if slots.local else _own_address()
    listeners = [_listener(host) for _ in range(slots.slots)]
    _local = LocalOwners(host, tuple(one.getsockname()[1] for one in listeners))
    sys.stdout.flush()
    daemon = os.getpid()
    if os.fork() == 0:
        _keep(listeners, key, serve, daemon)
    for one in listeners:
        one.close()


def _own_address() -> str:
    """Where other machines reach this executor: its pod's address, or the one that its name stands for."""
    told = os.environ.get("SPARK_EXECUTOR_POD_IP") or os.environ.get("SPARK_LOCAL_IP")
    if told:
        return told
    with contextlib.suppress(OSError):
        return socket.gethostbyname(socket.gethostname())
    return "127.0.0.1"


def _listener(host: str) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.bind((host, 0))
    listener.listen(256)  # all tasks of a batch connect at once
    return listener


def _keep(listeners: list[socket.socket], key: WireKey, serve: Callable[[socket.socket, WireKey], None], daemon: int) -> None:
    """The keeper's life."""
    die_with_parent(daemon)
    # the daemon leaves the terminal's group only behind our fork: Ctrl-C would end us and all owners, and the batch in flight waits for these
    os.setpgid(0, 0)
    call_yourself("cep-keeper")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _quiet_input()
    running: dict[int, tuple[int, float]] = {}
    try:
        while True:
            for slot in set(range(len(listeners))) - {slot for slot, _ in running.values()}:
                running[_fork_owner(listeners, slot, key, serve)] = (slot, time.monotonic())
            pid, status = os.waitpid(-1, 0)
            if pid in running:
                print(f"cep: an owner (pid {pid}) ended with {_ending(status)}; another one takes its place", file=sys.stderr, flush=True)
                _, since = running.pop(pid)
                time.sleep(PAUSE_S if time.monotonic() - since < YOUNG_S else 0)
    except BaseException:  # noqa: BLE001 - nothing of the daemon's own life may go on here
        traceback.print_exc()
    finally:
        os._exit(1)


def _fork_owner(listeners: list[socket.socket], slot: int, key: WireKey, serve: Callable[[socket.socket, WireKey], None]) -> int:
    keeper = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        die_with_parent(keeper)
        call_yourself("cep-owner")
        for other in listeners:
            if other is not listeners[slot]:
                other.close()
        serve(listeners[slot], key)
    except BaseException:  # noqa: BLE001 - as above
        traceback.print_exc()
    finally:
        os._exit(1)


def die_with_parent(parent: int) -> None:
    """Lets the kernel kill this process when its parent ends, however that happens."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before we could ask
        os._exit(1)


def call_yourself(name: str) -> None:
    """Sets what ``ps`` and ``top`` show."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def _quiet_input() -> None:
    """The daemon's standard input is how Spark tells it to end; nobody else may hold or read it, nor its standard output."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)


def _ending(status: int) -> str:
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {os.waitstatus_to_exitcode(status)}"
