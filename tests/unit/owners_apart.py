"""An owner on a machine of its own: a network namespace, whose kernel answers by itself, at the other end of a cable. Run by `test_owners_watch`, as

    unshare -rn python -m tests.unit.owners_apart SCENARIO FOLDER

Driver and task wait for an owner that is stopped, so that it reads nothing: the driver for an answer, the task to be rid of more than fits between the two.
Then the machine vanishes (``vanishes``: what is sent to it arrives nowhere), or lives on until both would have noticed a machine that has (``lives``).
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from app.control.messages.directives import Directive
from app.owners import watch
from app.owners.delivering import Outbox
from app.owners.driver import Ask, Owners, OwnersFailedError
from app.owners.orders import OwnerPlace, OwnerSettings, TaskOrders
from app.owners.server import serve
from app.owners.wire import BUSY_MS, WireKey

OURS, THEIRS, PORT = "10.9.0.1", "10.9.0.2", 7070
NOBODY = "02:00:00:00:00:99"
"""No machine has this address."""
KEY = WireKey(b"of the application", encrypted=os.environ.get("ENCRYPTED") == "yes")
MORE_THAN_FITS = 64 << 20
"""Bytes: what the kernels of both ends keep of one connection is some 6 MB."""
DEADLINE_S = 60.0


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def be_owner() -> None:
    """The other machine's only process."""
    print("here", flush=True)
    sys.stdin.readline()  # the cable is plugged in
    for words in (["addr", "add", f"{THEIRS}/24", "dev", "theirs"], ["link", "set", "theirs", "up"]):
        ip(*words)
    listener = socket.create_server((THEIRS, PORT))
    print("listening", flush=True)
    serve(listener, KEY)


def started() -> subprocess.Popen[str]:
    """The other machine."""
    words = ["unshare", "-n", sys.executable, "-m", "tests.unit.owners_apart", "owner"]
    there = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert there.stdout is not None
    assert there.stdin is not None
    assert there.stdout.readline() == "here\n"
    ip("link", "add", "ours", "type", "veth", "peer", "name", "theirs", "netns", str(there.pid))
    ip("addr", "add", f"{OURS}/24", "dev", "ours")
    ip("link", "set", "ours", "up")
    there.stdin.write("plugged in\n")
    there.stdin.flush()
    assert there.stdout.readline() == "listening\n"
    return there


def beside(call: Callable[[], Any]) -> Future[Any]:
    """Calls it in a thread."""
    found: Future[Any] = Future()

    def run() -> None:
        try:
            found.set_result(call())
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return found


def unsent(outbox: Outbox) -> int:
    """Bytes that the other machine has not taken yet."""
    (wire,) = outbox._wires.values()
    return int.from_bytes(fcntl.ioctl(wire._connection.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def play(scenario: str, folder: Path, there: subprocess.Popen[str]) -> None:
    watch.LIGHT_QUIET_S, watch.LIGHT_TESTS = 1, 3
    noticed_s = watch.LIGHT_QUIET_S + watch.LIGHT_TESTS * watch.LIGHT_EVERY_S
    owners, outbox = Owners(KEY, OwnerSettings("test", str(folder), "state")), Outbox(KEY)
    (owner,) = owners.find([(THEIRS, PORT)])
    orders = TaskOrders("test", 1, Directive(1), (OwnerPlace(THEIRS, PORT, (0,)),))
    assert outbox.deliver(orders, 0, [(0, b"x")]) == ()
    for one in (owners._watch, outbox._watch):
        until(lambda one=one: one._machines[THEIRS].light, "there is no light connection")
    there.send_signal(signal.SIGSTOP)
    asked = beside(lambda: owners.ask({owner: Ask({"op": "hello"})}))
    delivered = beside(lambda: outbox.deliver(orders, 0, [(0, bytes(MORE_THAN_FITS))]))
    until(lambda: unsent(outbox) > 0, "there is room for all of it")
    if scenario == "lives":
        time.sleep(2 * noticed_s)  # nothing can be waited for: nothing is to happen
        assert not asked.done()
        assert not delivered.done()
        there.send_signal(signal.SIGCONT)
        assert owner in asked.result(DEADLINE_S)
        assert delivered.result(DEADLINE_S) == ()
        return
    began_s = time.monotonic()
    ip("neigh", "replace", THEIRS, "lladdr", NOBODY, "dev", "ours", "nud", "permanent")
    error = asked.exception(DEADLINE_S)
    assert isinstance(error, OwnersFailedError), error
    assert error.lost == (owner,)
    assert delivered.result(DEADLINE_S) == (f"{THEIRS}:{PORT}",)
    assert time.monotonic() - began_s < BUSY_MS / 2000, "nobody has noticed but the connections themselves"
    assert owners.gone() == [owner]


def main(scenario: str, folder: Path) -> None:
    there = started()
    try:
        play(scenario, folder, there)
    finally:
        there.kill()
        there.wait()


if __name__ == "__main__":
    if sys.argv[1] == "owner":
        be_owner()
    else:
        main(sys.argv[1], Path(sys.argv[2]))
        os._exit(0)  # threads may wait for who is gone
