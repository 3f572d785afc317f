"""A machine that vanishes is noticed in seconds, and one whose owner reads nothing is not taken for it."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from app.owners import watch
from app.owners.watch import Watch
from app.owners.wire import Wire, WireError, WireKey, accepted, connect

KEY = WireKey(b"of the application")
HOST = "127.0.0.1"
ROOT = Path(__file__).parents[2]
CABLE = ["unshare", "-rn", "ip", "link", "add", "ours", "type", "veth", "peer", "name", "theirs"]


def has_namespaces() -> bool:
    """Whether we may have networks of our own here."""
    try:
        return subprocess.run(CABLE, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not has_namespaces(), reason="needs network namespaces")
@pytest.mark.parametrize(("scenario", "encrypted"), [("vanishes", "no"), ("vanishes", "yes"), ("lives", "yes")])
def test_who_waits_for_an_owner_is_woken_when_its_machine_vanishes_and_not_while_it_only_reads_nothing(
    scenario: str, encrypted: str, tmp_path: Path
) -> None:
    words = ["unshare", "-rn", sys.executable, "-m", "tests.unit.owners_apart", scenario, str(tmp_path)]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "ENCRYPTED": encrypted}, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Listening:
    """An owner's end: every connection, as it comes."""

    def __init__(self, open_: contextlib.ExitStack) -> None:
        self._listener = open_.enter_context(socket.create_server((HOST, 0)))
        self.port = self._listener.getsockname()[1]
        self.wires: queue.Queue[Wire] = queue.Queue()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.wires.put(accepted(self._listener.accept()[0], KEY))


def test_an_owner_that_ends_is_no_machine_that_vanishes_and_another_one_there_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PAUSE_S", 0.0)
    with contextlib.ExitStack() as open_:
        there, watching = Listening(open_), Watch(KEY)
        wire = connect(HOST, there.port, KEY)
        others = [there.wires.get(timeout=60)]
        watching.guard(HOST, there.port, wire)
        for _ in range(3):
            there.wires.get(timeout=60).close()  # the light one
        light = there.wires.get(timeout=60)
        assert wire.alive
        assert others[0].alive
        assert not watching.vanished(HOST)
        watching.release(HOST, wire)
        with pytest.raises(WireError, match="lost"):
            light.receive(60)


def test_there_is_one_light_connection_per_machine_and_it_ends_with_the_last_connection_to_it() -> None:
    with contextlib.ExitStack() as open_:
        there, watching = Listening(open_), Watch(KEY)
        wires = [connect(HOST, there.port, KEY) for _ in range(3)]
        others = [there.wires.get(timeout=60) for _ in wires]
        for wire in wires:
            watching.guard(HOST, there.port, wire)
        light = there.wires.get(timeout=60)
        for wire in wires[:2]:
            watching.release(HOST, wire)
        assert all(one.alive for one in [light, *wires, *others])
        watching.release(HOST, wires[2])
        with pytest.raises(WireError, match="lost"):
            light.receive(60)
        assert there.wires.empty()


def test_a_machine_goes_on_being_watched_when_that_was_not_possible_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PAUSE_S", 0.0)
    with contextlib.ExitStack() as open_:
        there, watching = Listening(open_), Watch(KEY)
        wire = connect(HOST, there.port, KEY)
        other = there.wires.get(timeout=60)
        waited: list[int] = []

        def too_many(_: Wire) -> int:
            waited.append(1)
            if len(waited) < 3:
                raise OSError(errno.EMFILE, "too many open files")
            return errno.ECONNREFUSED  # said by a router on the way to a machine that is gone

        monkeypatch.setattr(Wire, "wait_for_end", too_many)
        watching.guard(HOST, there.port, wire)
        with pytest.raises(WireError, match="does not answer any more"):
            wire.receive(60)
        assert len(waited) == 3
        assert watching.vanished(HOST)
        other.close()


def test_who_ends_a_connection_says_why_to_whoever_waits_for_an_answer() -> None:
    with contextlib.ExitStack() as open_:
        there = Listening(open_)
        wire = connect(HOST, there.port, KEY)
        answered: queue.Queue[Exception] = queue.Queue()

        def wait() -> None:
            try:
                wire.receive()
            except WireError as error:
                answered.put(error)

        threading.Thread(target=wait, daemon=True).start()
        wire.end("its machine has vanished")
        assert "its machine has vanished" in str(answered.get(timeout=60))
        assert not wire.alive


def test_a_machine_that_vanishes_is_noticed_within_ten_seconds() -> None:
    """What is promised to those with a latency bound; a living machine has several tests to answer."""
    assert 5 <= watch.VANISHED_S <= 10
    assert watch.LIGHT_TESTS >= 3
