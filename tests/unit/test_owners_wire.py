"""The connections between driver, tasks and owners, over real sockets: who is let in, what arrives, and what is noticed of an end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection

import numpy as np
import pytest

from app.owners import tls
from app.owners import wire as wires
from app.owners.wire import RefusedError, Wire, WireError, WireKey, accepted, connect

TOKEN = WireKey(b"of the application")


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"], autouse=True)
def both_ways(request, monkeypatch) -> None:
    """Every test runs over plain sockets and over TLS."""
    monkeypatch.setitem(globals(), "TOKEN", replace(TOKEN, encrypted=request.param))


@dataclass
class Listening:
    """Answers every connection in a thread of its own, as owners do."""

    answer: Callable[[Wire], None]
    key: WireKey
    refused: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        try:
            wire = accepted(connection, self.key)
            try:
                self.answer(wire)
            finally:
                wire.close()
        except WireError as error:
            self.refused.append(str(error))
        finally:
            self.ended.set()

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def echo(wire: Wire) -> None:
    while True:
        message = wire.receive()
        wire.send(message.head, message.parts)


@contextmanager
def listening(answer: Callable[[Wire], None] = echo) -> Iterator[Listening]:
    made = Listening(answer, TOKEN)
    try:
        yield made
    finally:
        made.close()


def test_parts_arrive_as_they_were_sent():
    with listening() as there:
        wire = connect("127.0.0.1", there.port, TOKEN)
        for parts in ([], [b""], [b"a", b"", bytearray(b"bc"), memoryview(b"def")], [b"x"] * 1000):
            answer = wire.ask({"op": "echo", "number": len(parts)}, parts, timeout_s=20)
            assert answer.head["number"] == len(parts)
            assert [bytes(part) for part in answer.parts] == [bytes(part) for part in parts]
        wire.close()


def test_large_parts_arrive():
    large = np.arange(100 << 17, dtype=np.int64)  # 100 MiB
    with listening() as there:
        wire = connect("127.0.0.1", there.port, TOKEN)
        answer = wire.ask({}, [b"head", memoryview(large).cast("B"), b"tail"], timeout_s=120)
        assert [len(part) for part in answer.parts] == [4, large.nbytes, 4]
        assert np.array_equal(np.frombuffer(answer.parts[1], np.int64), large)
        wire.close()


def test_who_does_not_know_the_token_is_not_let_in():
    with listening() as there:
        with pytest.raises(WireError, match="none of ours"):
            connect("127.0.0.1", there.port, replace(TOKEN, token=b"a guess"))
        assert there.ended.wait(20)
        assert "none of ours" in there.refused[0]


def test_nothing_is_said_to_a_listener_that_does_not_know_the_token():
    """It lets everybody in; it has to prove that it knows the token all the same."""
    with socket.create_server(("127.0.0.1", 0)) as impostor:

        def welcome() -> None:
            connection, _ = impostor.accept()
            there = Connection(connection.detach())
            with contextlib.suppress(OSError, EOFError):  # where they would speak TLS it is left at the first word
                there.send_bytes(b"#CHALLENGE#{sha256}" + b"x" * 40)
                there.recv_bytes()
                there.send_bytes(b"#WELCOME#")
                there.recv_bytes()  # our challenge
                there.send_bytes(b"{sha256}" + b"y" * 32)

        thread = threading.Thread(target=welcome, daemon=True)
        thread.start()
        with pytest.raises(WireError, match="none of ours"):
            connect("127.0.0.1", impostor.getsockname()[1], TOKEN)
        thread.join(20)


def test_a_port_scanner_that_says_nothing_blocks_nobody_and_is_shown_out(monkeypatch):
    monkeypatch.setattr(wires, "PROOF_S", 0.5)
    with listening() as there, socket.create_connection(("127.0.0.1", there.port)) as silent:
        wire = connect("127.0.0.1", there.port, TOKEN)
        assert wire.ask({"op": "echo"}, timeout_s=20).head["op"] == "echo"
        assert there.ended.wait(20), "it must not keep a thread for ever"
        silent.settimeout(20)
        while silent.recv(1000):  # the challenge, then the end
            pass
        assert wire.ask({"op": "echo"}, timeout_s=20).head["op"] == "echo"
        wire.close()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 400, b"\0\0\0\0", b"\0\0\0\x05hello"])
def test_a_stranger_that_speaks_another_language_is_shown_out(said):
    with listening() as there, socket.create_connection(("127.0.0.1", there.port)) as stranger:
        with contextlib.suppress(OSError):  # it may have been shown out before it has said all
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
        assert there.ended.wait(20)
        assert there.refused


def test_a_listener_that_says_nothing_is_given_up(monkeypatch):
    """A process that is stopped: the kernel accepts for it."""
    monkeypatch.setattr(wires, "PROOF_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(WireError, match="prove"):
        connect("127.0.0.1", silent.getsockname()[1], TOKEN)


def test_where_nobody_listens_the_address_is_named():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(WireError, match=f"nobody answers at 127.0.0.1:{port}"):
        connect("127.0.0.1", port, TOKEN)


def test_an_answer_that_does_not_come_in_time_is_an_error():
    asked = threading.Event()

    def slow(wire: Wire) -> None:
        wire.receive()
        asked.wait(20)

    with listening(slow) as there:
        wire = connect("127.0.0.1", there.port, TOKEN)
        with pytest.raises(WireError, match=r"no answer in 0\.2 s"):
            wire.ask({}, timeout_s=0.2)
        asked.set()
        wire.close()


def test_what_the_other_end_could_not_do_is_told_and_it_goes_on():
    def refusing(wire: Wire) -> None:
        while True:
            wire.receive()
            wire.send({"error": "no such bucket", "kind": "KeyError", "stack": "File home.py"})

    with listening(refusing) as there:
        wire = connect("127.0.0.1", there.port, TOKEN)
        for _ in range(2):
            with pytest.raises(RefusedError, match="no such bucket") as told:
                wire.ask({}, timeout_s=20)
            assert (told.value.kind, told.value.stack) == ("KeyError", "File home.py")
        assert wire.alive
        wire.close()


def test_what_is_none_of_our_messages_is_an_error_of_the_connection():
    def babbling(wire: Wire) -> None:
        wire._connection.send_bytes(b"[1]")
        wire._connection.send_bytes(b"not json")
        wire.receive()

    with listening(babbling) as there:
        wire = connect("127.0.0.1", there.port, TOKEN)
        for _ in range(2):
            with pytest.raises(WireError, match="not one of our messages"):
                wire.receive(20)
        wire.close()


def test_a_killed_peer_is_noticed_by_who_waits_and_by_who_asks_whether_it_is_there():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if child == 0:
            try:
                for _ in range(2):
                    connection, _ = listener.accept()
                    kept = accepted(connection, TOKEN)
                    globals().setdefault("_kept", []).append(kept)
                signal.pause()
            finally:
                os._exit(0)
        waiting, idle = (connect("127.0.0.1", listener.getsockname()[1], TOKEN) for _ in range(2))
        assert waiting.alive
        assert idle.alive
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with pytest.raises(WireError, match="connection lost"):
            waiting.ask({})
        assert not idle.alive
        waiting.close()
        idle.close()


def test_a_connection_does_not_belong_to_a_forked_child():
    with listening() as there:
        wire = connect("127.0.0.1", there.port, TOKEN)
        child = os.fork()
        if child == 0:
            os._exit(1 if wire.alive else 0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert wire.alive
        wire.close()
        assert not wire.alive


def test_what_is_said_can_be_read_on_the_way_unless_it_is_encrypted():
    """A listener between the two ends, that passes everything on."""
    word = b"an event that nobody else may read"
    heard: list[bytes] = []
    with listening() as there, socket.create_server(("127.0.0.1", 0)) as middle:

        def pass_on() -> None:
            one, _ = middle.accept()
            with one, socket.create_connection(("127.0.0.1", there.port)) as other, selectors.DefaultSelector() as ready:
                for ours in (one, other):
                    ready.register(ours, selectors.EVENT_READ)
                while True:
                    for key, _ in ready.select():
                        data = key.fileobj.recv(65536)
                        heard.append(data)
                        if not data:
                            return
                        (other if key.fileobj is one else one).sendall(data)

        thread = threading.Thread(target=pass_on, daemon=True)
        thread.start()
        wire = connect("127.0.0.1", middle.getsockname()[1], TOKEN)
        assert bytes(wire.ask({"op": "echo"}, [word], timeout_s=20).parts[0]) == word
        wire.close()
        thread.join(20)
    assert (word in b"".join(heard)) is not TOKEN.encrypted


def test_one_end_that_encrypts_and_one_that_does_not_do_not_speak(monkeypatch):
    monkeypatch.setattr(wires, "PROOF_S", 1.0)
    with listening() as there, pytest.raises(WireError):
        connect("127.0.0.1", there.port, replace(TOKEN, encrypted=not TOKEN.encrypted))


def test_a_kept_connection_counts_as_alive_before_anybody_has_spoken():
    """TLS may send tickets of its own accord, which would look like the end."""
    with listening() as there:
        wire = connect("127.0.0.1", there.port, TOKEN)
        for _ in range(3):
            assert wire.alive
            wire.ask({"op": "echo"}, timeout_s=20)
        wire.close()


def test_received_parts_cannot_be_written():
    """Kernels are compiled for arrays that are not."""
    with listening() as there:
        wire = connect("127.0.0.1", there.port, TOKEN)
        parts = wire.ask({}, [b"a", b"x" * 100_000], timeout_s=20).parts
        assert [part.readonly for part in parts] == [True, True]
        wire.close()


def test_the_handshake_itself_shows_who_does_not_know_the_token():
    """Before anything is said; the challenges behind it would find it out as well."""
    ours, theirs = socket.socketpair()
    failed: list[OSError] = []

    def answer() -> None:
        try:
            tls.encrypted(theirs, b"a guess", 20.0, server=True)
        except OSError as error:
            failed.append(error)
            theirs.close()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        tls.encrypted(ours, b"of the application", 20.0, server=False)
    ours.close()
    thread.join(20)
    assert failed


def test_everybody_makes_the_same_certificate_of_the_same_token():
    assert tls._identity(b"one") == tls._identity(b"one")
    assert tls._identity(b"one")[0] != tls._identity(b"two")[0]
