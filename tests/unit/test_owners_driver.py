"""Whom the driver holds for gone: who was given up, unless it has come back."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.owners import driver, server, wire
from app.owners.driver import Ask, Owners
from app.owners.server import serve
from app.owners.wire import WireKey
from tests.unit.owners_world import World

KEY = WireKey(b"of the application")


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Of an owner that lives on, whatever happens to connections."""
    monkeypatch.setattr(server.gc, "disable", lambda: None)
    monkeypatch.setattr(server.gc, "freeze", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener, KEY), daemon=True).start()
        yield listener.getsockname()[1]


def test_who_was_given_up_and_found_again_is_not_lost_a_second_time(port: int, tmp_path: Path) -> None:
    owners = Owners(KEY, World(tmp_path, batches=1, events=20).settings)
    (owner,) = owners.find([("127.0.0.1", port)])
    owners.give_up(owner)
    assert owners.gone() == [owner]
    assert owners.find([("127.0.0.1", port)]) == [owner]
    owners.give_up(owner)
    assert owners.find([("127.0.0.1", port)]) == [owner], "the batch looks for it at once, before anybody asks who is gone"
    assert owners.gone() == []
    assert owners.ask({owner: Ask({"op": "hello"})}, 60)[owner].head["pid"] == owner.pid
    owners.close()


def test_who_does_not_answer_a_greeting_is_left_alone_for_a_while_where_there_are_others(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "PROOF_S", 1.0)
    monkeypatch.setattr(driver, "SLOWLY_S", 0.6)
    owners = Owners(KEY, World(tmp_path, batches=1, events=20).settings)
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        hanging = ("127.0.0.1", stopped.getsockname()[1])

        def seconds() -> float:
            began_s = time.monotonic()
            owners.find([hanging])
            return time.monotonic() - began_s

        assert seconds() >= 0.8
        assert seconds() >= 0.8, "there is nobody else"
        assert str(hanging[1]) in owners.refusal
        owners.find([("127.0.0.1", port)])
        assert seconds() < 0.8
        monkeypatch.setattr(driver, "LEFT_ALONE_S", 0.0)
        owners._silent.clear()
        assert seconds() >= 0.8
        assert seconds() >= 0.8, "the time is over"
    owners.close()


def test_who_answers_us_and_cannot_be_reached_by_tasks_is_left_alone_where_there_are_others(port: int, tmp_path: Path) -> None:
    owners = Owners(KEY, World(tmp_path, batches=1, events=20).settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener, KEY), daemon=True).start()
        both = [("127.0.0.1", port), ("127.0.0.1", listener.getsockname()[1])]
        first, second = owners.find(both)
        owners.give_up(first, leave_alone=True)
        assert owners.gone() == [first]
        assert owners.find(both) == []
        owners.give_up(second)
        assert owners.find(both) == [first, second], "better than nobody"
    owners.close()


def test_who_was_on_a_machine_that_has_vanished_is_left_alone_where_there_are_others(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection to it takes seconds to fail, and every attempt of a batch would wait for it."""
    owners = Owners(KEY, World(tmp_path, batches=1, events=20).settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener, KEY), daemon=True).start()
        both = [("127.0.0.1", port), ("127.0.0.1", listener.getsockname()[1])]
        first, second = owners.find(both)
        monkeypatch.setattr(driver.Watch, "vanished", lambda _, host: host == "127.0.0.1")
        owners.give_up(first)
        assert owners.gone() == [first]
        assert owners.find(both) == []
        monkeypatch.setattr(driver.Watch, "vanished", lambda *_: False)
        owners.give_up(second)
        assert owners.find(both) == [first, second], "better than nobody"
    owners.close()
