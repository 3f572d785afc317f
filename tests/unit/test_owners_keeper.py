"""The keeper of an executor's owners, with real processes: a child plays Spark's daemon."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.owners.keeper import SETTING, OwnerSlots
from app.owners.wire import WireError, WireKey, connect

ROOT = Path(__file__).parents[2]
TOKEN = "of the application"
SLOTS = 3
DEADLINE_S = 60.0
DAEMON = """\
import json, os, sys
from app.owners.keeper import local_owners, start_owners
from app.owners.wire import WireError, accepted


def serve(listener, key):
    while True:
        connection, _ = listener.accept()
        try:
            wire = accepted(connection, key)
        except WireError:
            continue
        try:
            while True:
                message = wire.receive()
                if message.head["op"] == "raise":
                    raise ValueError("as told")
                wire.send({"pid": os.getpid(), "keeper": os.getppid(), "input": os.fstat(0).st_rdev, "null": os.stat("/dev/null").st_rdev})
        except WireError:
            wire.close()


start_owners(serve)
read, write = os.pipe()
if os.fork() == 0:  # a worker of Spark's
    own = local_owners()
    os.write(write, json.dumps([own.host, own.ports]).encode())
    os._exit(0)
print(os.read(read, 1000).decode(), flush=True)
print("the worker's word", flush=True)
sys.stdin.read()
"""


class Daemon:
    """A process that starts owners as Spark's Python daemon does."""

    def __init__(self, slots: OwnerSlots | None) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        environment.pop(SETTING, None)
        if slots is not None:
            environment[SETTING] = slots.to_text()
        self.process = subprocess.Popen(
            [sys.executable, "-c", DAEMON], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        assert self.process.stdout is not None
        self.host, self.ports = json.loads(self.process.stdout.readline())

    def asked(self, port: int, op: str = "who") -> dict[str, int]:
        wire = connect(self.host, port, WireKey(TOKEN.encode()))
        try:
            return dict(wire.ask({"op": op}, timeout_s=DEADLINE_S).head)
        finally:
            wire.close()

    def owners(self) -> list[int]:
        return [self.asked(port)["pid"] for port in self.ports]

    def end(self) -> str:
        """Kills it; returns what was said on its standard error."""
        self.process.kill()
        return self.process.communicate()[1].decode()


@pytest.fixture
def daemon(tmp_path) -> Iterator[Daemon]:
    (tmp_path / "token").write_text(TOKEN + "\n")
    started = Daemon(OwnerSlots(str(tmp_path / "token"), SLOTS, local=True))
    yield started
    started.end()


def until(what: Callable[[], bool]) -> None:
    """Waits for a condition, with a deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """A process may end before its file is opened, and between opening and reading it (no such process)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_forked_worker_knows_the_ports_and_an_owner_listens_at_each(daemon):
    assert daemon.host == "127.0.0.1"
    assert len(set(daemon.ports)) == SLOTS
    assert len(set(daemon.owners())) == SLOTS


def test_ctrl_c_in_the_terminal_is_not_meant_for_owners(daemon):
    groups = {os.getpgid(pid) for pid in daemon.owners()}
    assert groups.isdisjoint({os.getpgid(0), os.getpgid(daemon.process.pid)})


def test_owners_ask_for_the_token(daemon):
    with pytest.raises(WireError):
        connect(daemon.host, daemon.ports[0], WireKey(b"a guess"))
    assert daemon.asked(daemon.ports[0])["pid"]


def test_a_killed_owner_is_replaced_at_the_same_port_and_the_others_stay(daemon):
    before = daemon.owners()
    os.kill(before[1], signal.SIGKILL)
    until(lambda: not runs(before[1]))
    after = daemon.owners()  # a connection waits until the new one takes it
    assert after[1] != before[1]
    assert [after[0], after[2]] == [before[0], before[2]]
    assert f"an owner (pid {before[1]}) ended with signal 9" in daemon.end()


def test_an_owner_that_fails_is_replaced(daemon):
    before = daemon.owners()
    with pytest.raises(WireError):
        daemon.asked(daemon.ports[0], "raise")
    assert daemon.owners()[0] != before[0]
    said = daemon.end()
    assert "ValueError: as told" in said
    assert "exit code 1" in said


def test_all_owners_killed_at_once_are_replaced(daemon):
    before = daemon.owners()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    for pid in before:
        until(lambda pid=pid: not runs(pid))
    assert not set(daemon.owners()) & set(before)


def test_all_end_when_the_daemon_is_killed(daemon):
    keeper, owners = daemon.asked(daemon.ports[0])["keeper"], daemon.owners()
    daemon.process.kill()
    for pid in (keeper, *owners):
        until(lambda pid=pid: not runs(pid))
    with pytest.raises(WireError):
        daemon.asked(daemon.ports[0])


def test_all_end_when_the_daemon_ends_because_its_executor_did(daemon):
    """Spark closes the daemon's standard input; nobody else may hold it open, nor its standard output."""
    owners = daemon.owners()
    assert daemon.process.stdin is not None
    assert daemon.process.stdout is not None
    daemon.process.stdin.close()
    daemon.process.stdin = None
    assert daemon.process.wait(DEADLINE_S) == 0
    assert daemon.process.stdout.read() == b"the worker's word\n"
    for pid in owners:
        until(lambda pid=pid: not runs(pid))


def test_owners_end_when_the_keeper_is_killed(daemon):
    keeper, owners = daemon.asked(daemon.ports[0])["keeper"], daemon.owners()
    os.kill(keeper, signal.SIGKILL)
    for pid in owners:
        until(lambda pid=pid: not runs(pid))


def test_owners_do_not_read_the_daemons_input(daemon):
    said = daemon.asked(daemon.ports[0])
    assert said["input"] == said["null"]


def test_without_the_setting_there_are_none():
    daemon = Daemon(None)
    assert (daemon.host, daemon.ports) == ("", [])
    daemon.end()


def test_slots_travel_in_the_environment():
    slots = OwnerSlots("/etc/tøken", 4, local=True, encrypted=True)
    assert OwnerSlots.from_text(slots.to_text()) == slots


def test_a_port_stays_when_its_owner_is_between_two_lives(daemon):
    """Tasks connect meanwhile: the keeper holds the port open."""
    pid = daemon.owners()[0]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not runs(pid))  # a dying one may still accept
    with socket.create_connection((daemon.host, daemon.ports[0]), timeout=DEADLINE_S) as early:
        early.settimeout(DEADLINE_S)
        assert early.recv(1), "the next owner's challenge"


def test_the_token_is_in_no_environment_and_no_command_line(daemon):
    for pid in (daemon.process.pid, *daemon.owners()):
        for what in ("environ", "cmdline"):
            assert TOKEN.encode() not in Path(f"/proc/{pid}/{what}").read_bytes()
