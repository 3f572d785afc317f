"""An owner's answers to orders that it cannot do: words for people, the stack for whoever looks for a defect."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.control.server.connections import Connections
from app.owners import server, wire
from app.owners.server import Owner, serve
from app.owners.wire import Message, WireError, WireKey, connect
from app.storage.store import StorageError
from tests.unit.owners_world import World


def test_a_damaged_file_is_told_by_name_and_printed_without_a_stack(tmp_path: Path) -> None:
    world, owner = World(tmp_path, batches=1, events=20), Owner()
    (file,) = (world.checkpoint / "deployments").glob(f"{world.deployments[1]}*")
    file.write_bytes(file.read_bytes()[:-1])
    owner.answer(Message({"op": "open", "settings": world.settings.to_plain()}))
    with capture_logs() as printed:
        told, _ = owner.answer(Message({"op": "prepare", "application": "test", "deployment": world.deployments[1]}))
    assert (told["kind"], file.name in told["error"]) == ("TornError", True)
    assert "Traceback" not in told["error"]
    assert "Traceback (most recent call last)" in told["stack"], "for the driver's log at debug"
    assert [(one["log_level"], one["reason"]) for one in printed] == [("error", told["error"])]


def test_a_defect_is_printed_with_its_stack() -> None:
    with capture_logs() as printed:
        told, _ = Owner().answer(Message({"op": "no such order"}))
    assert told["kind"] == "KeyError"
    assert "server.py" in printed[0]["reason"]


def test_strangers_that_say_nothing_keep_no_task_out_and_no_thread_each(monkeypatch) -> None:
    monkeypatch.setattr(server, "MOST_STRANGERS", 4)
    for module in (server, wire):
        monkeypatch.setattr(module, "PROOF_S", 600.0)  # nobody is shown out for being slow
    monkeypatch.setattr(server.gc, "disable", lambda: None)
    monkeypatch.setattr(server.gc, "freeze", lambda: None)
    key = WireKey(b"of the application")
    with contextlib.ExitStack() as open_:
        listener = open_.enter_context(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=serve, args=(listener, key), daemon=True).start()
        port = listener.getsockname()[1]
        strangers = [open_.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)) for _ in range(20)]
        known = []
        for _ in range(6):
            known.append(connect("127.0.0.1", port, key))
            assert known[-1].ask({"op": "hello"}, timeout_s=60).head["pid"]  # who was answered is no stranger any more
        for one in strangers[:12]:
            with contextlib.suppress(ConnectionResetError):
                while one.recv(1000):  # the challenge, then the end
                    pass
        for one in known:
            assert one.ask({"op": "hello"}, timeout_s=60).head["pid"]
            one.close()


def test_a_connection_that_cannot_be_taken_does_not_end_the_owner(monkeypatch) -> None:
    monkeypatch.setattr(server.gc, "disable", lambda: None)
    monkeypatch.setattr(server.gc, "freeze", lambda: None)
    monkeypatch.setattr(server, "REFUSED_S", 0.0)
    faults = [OSError(errno.EMFILE, "too many open files"), RuntimeError("can't start new thread")]
    entered = Connections.enter

    def enter(self: Connections, connection: socket.socket) -> int | None:
        if faults:
            raise faults.pop()
        return entered(self, connection)

    monkeypatch.setattr(Connections, "enter", enter)
    key = WireKey(b"of the application")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve, args=(listener, key), daemon=True)
        serving.start()
        for _ in range(2):
            with pytest.raises(WireError):
                connect("127.0.0.1", listener.getsockname()[1], key)
        wire_ = connect("127.0.0.1", listener.getsockname()[1], key)
        assert wire_.ask({"op": "hello"}, timeout_s=60).head["pid"]
        assert serving.is_alive()
        wire_.close()


def test_garbage_is_collected_also_where_tending_fails(tmp_path: Path, monkeypatch) -> None:
    world, owner, collected = World(tmp_path, batches=1, events=20), Owner(), []
    owner.answer(Message({"op": "open", "settings": world.settings.to_plain()}))

    def fails(*_: object) -> None:
        raise StorageError("no")

    monkeypatch.setattr(server.Home, "tend", fails)
    monkeypatch.setattr(server.gc, "collect", lambda: collected.append(1))
    told, _ = owner.answer(Message({"op": "committed", "application": "test", "batch": 0}))
    assert told["kind"] == "StorageError"
    assert collected == [1]
