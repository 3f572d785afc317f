"""Tasks keep connections to the owners that there are, and to no others."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading

import pytest

from app.control.messages.directives import Directive
from app.owners import delivering
from app.owners.delivering import Outbox
from app.owners.orders import OwnerPlace, TaskOrders
from app.owners.wire import UnreachableError, WireError, WireKey, accepted

KEY = WireKey(b"of the application")


def listening(open_: contextlib.ExitStack) -> tuple[int, queue.Queue[str]]:
    """An owner's end: its port, and what it heard ("deliver", and "end" when the connection is over)."""
    listener = open_.enter_context(socket.create_server(("127.0.0.1", 0)))
    heard: queue.Queue[str] = queue.Queue()

    def answer() -> None:
        wire = accepted(listener.accept()[0], KEY)
        with contextlib.suppress(WireError):
            while True:
                heard.put(wire.receive().head["op"])
                wire.send({})
        heard.put("end")

    threading.Thread(target=answer, daemon=True).start()
    return listener.getsockname()[1], heard


def test_the_connection_to_an_owner_that_is_gone_is_closed() -> None:
    with contextlib.ExitStack() as open_:
        (first, by_first), (second, by_second) = listening(open_), listening(open_)
        outbox = Outbox(KEY)
        for ports in ([first, second], [second], [second]):
            orders = TaskOrders("test", 1, Directive(1), tuple(OwnerPlace("127.0.0.1", port, (port,)) for port in ports))
            assert outbox.deliver(orders, 0, [(port, b"x") for port in ports]) == ()
        assert [by_first.get(timeout=60) for _ in range(2)] == ["deliver", "end"]
        assert [by_second.get(timeout=60) for _ in range(3)] == ["deliver"] * 3
        assert by_second.empty()


@pytest.mark.parametrize(("error", "tried"), [(UnreachableError("no answer"), 1), (WireError("refused"), 3)])
def test_of_a_machine_that_does_not_answer_one_owner_is_tried(monkeypatch: pytest.MonkeyPatch, error: WireError, tried: int) -> None:
    """Each try takes seconds, and the next attempt waits for the task; where a single owner is gone, the others are there."""
    asked: list[str] = []

    def nobody(host: str, port: int, key: WireKey) -> None:
        asked.append(host)
        raise error

    monkeypatch.setattr(delivering, "connect", nobody)
    places = tuple(OwnerPlace(host, port, (port,)) for port, host in enumerate(("a", "a", "b", "a", "b")))
    failed = Outbox(KEY).deliver(TaskOrders("test", 1, Directive(1), places), 0, [])
    assert sorted(failed) == ["a:0", "a:1", "a:3", "b:2", "b:4"]
    assert (asked.count("a"), asked.count("b")) == (tried, min(tried, 2))
