"""An owner's life: it listens, takes deliveries from tasks and orders from the driver, and holds buckets.

Deliveries are taken in while batches are worked on; orders are worked off one after the other, in the thread of the driver's connection.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from app.control.server.connections import Connections
from app.errors import CepError
from app.observe.logs import get_logger
from app.owners.home import Home
from app.owners.house_log import log_as_told
from app.owners.inbox import Delivery, Inbox
from app.owners.orders import Advance, OwnerSettings
from app.owners.wire import PROOF_S, PROTOCOL, Buffer, Message, WireError, WireKey, accepted

MOST_STRANGERS = 256
"""Connections that have not proved yet whose they are; all tasks of a batch connect at once. One more ends the one that has taken longest."""
Answer = tuple[Mapping[str, Any], Sequence[Buffer]]
log = get_logger(__name__)

REFUSED_S = 0.5
"""Behind a connection that could not be taken: the reason is rarely gone at once."""


class Owner:
    """All that one owner process has. Safe to use from the threads of all connections."""

    def __init__(self) -> None:
        self._inbox = Inbox()
        self._homes: dict[str, Home] = {}
        self._working = threading.Lock()
        self._cpu_ns = time.process_time_ns()
        self._asked: dict[str, Callable[[Message], Answer]] = {
            "hello": self._hello,
            "open": self._open,
            "prepare": self._prepare,
            "deliver": self._deliver,
            "advance": self._advance,
            "committed": self._committed,
            "status": self._status,
            "close": self._close,
        }

    def answer(self, message: Message) -> Answer:
        """Does what was asked; what goes wrong is told, and the owner goes on."""
        try:
            return self._asked[message.head["op"]](message)
        except Exception as error:  # noqa: BLE001 - the owner must go on; the driver gets the reason
            return _refusal(message.head, error), ()

    def _hello(self, message: Message) -> Answer:
        return {"protocol": PROTOCOL, "pid": os.getpid(), "host": socket.gethostname()}, ()

    def _open(self, message: Message) -> Answer:
        """An application begins, or begins anew: what was held for it before is forgotten."""
        settings = OwnerSettings.from_plain(message.head["settings"])
        log_as_told(settings)
        with self._working:
            self._forget(settings.application)
            self._homes[settings.application] = Home(settings)
        return {}, ()

    def _prepare(self, message: Message) -> Answer:
        """A deployment will be used soon: what it needs is loaded now, not in a batch."""
        with self._working:
            self._home(message).prepare(message.head["deployment"])
        return {}, ()

    def _deliver(self, message: Message) -> Answer:
        head = message.head
        payloads: dict[int, list[memoryview]] = {}
        for bucket, payload in zip(head["buckets"], message.parts, strict=True):
            payloads.setdefault(bucket, []).append(payload)
        self._inbox.put(Delivery(head["application"], head["batch"], head["attempt"], head["part"], payloads, head["copy"]))
        return {}, ()

    def _advance(self, message: Message) -> Answer:
        order = Advance.from_plain(message.head, message.parts[0])
        with self._working:
            home = self._home(message)
            faulthandler.dump_traceback_later(home.settings.stall_after_s, exit=False)
            try:
                deliveries = self._inbox.take(order.application, order.batch, order.attempt, order.parts)
                report, returned = home.advance(order, deliveries)
            finally:
                faulthandler.cancel_dump_traceback_later()
            now = time.process_time_ns()
            spent, self._cpu_ns = now - self._cpu_ns, now
        return {"held": sorted(home.held), "cpu_ns": spent}, [report, *returned]

    def _committed(self, message: Message) -> Answer:
        """Between two batches: snapshots are begun, what nobody needs any more is deleted, garbage is collected."""
        with self._working:
            try:
                self._home(message).tend(message.head["batch"])
            finally:
                gc.collect()
        return {}, ()

    def _status(self, message: Message) -> Answer:
        stacks = {
            thread.name: "".join(traceback.format_stack(frame)[-6:])
            for thread in threading.enumerate()
            if thread.ident is not None and (frame := sys._current_frames().get(thread.ident)) is not None  # noqa: SLF001 - there is no other way
        }
        held = {name: sorted(home.held) for name, home in self._homes.items()}
        return {"pid": os.getpid(), "held": held, "stacks": stacks}, ()

    def _close(self, message: Message) -> Answer:
        with self._working:
            self._forget(message.head["application"])
        return {}, ()

    def _home(self, message: Message) -> Home:
        return self._homes[message.head["application"]]

    def _forget(self, application: str) -> None:
        self._inbox.forget(application)
        home = self._homes.pop(application, None)
        if home is not None:
            home.close()


def _refusal(asked: Mapping[str, Any], error: Exception) -> dict[str, Any]:
    """What the driver is told: words, and the stack for whoever has its log at debug. Here a stack is printed of defects only, in case nobody gets the answer."""
    expected, stack = isinstance(error, CepError), "".join(traceback.format_exception(error))
    text = str(error) if expected else "".join(traceback.format_exception(error)[-3:])
    notes = " ".join(getattr(error, "__notes__", ()))
    told = f"{notes}: {text}" if notes else text
    log.error("an order failed", op=asked.get("op"), batch_id=asked.get("batch"), reason=told if expected else stack)
    return {"error": told, "kind": type(error).__name__, "stack": stack}


def serve(listener: socket.socket, key: WireKey) -> None:
    """Listens for ever."""
    gc.collect()
    gc.freeze()
    gc.disable()  # collected between batches, see `Owner._committed`
    owner, strangers = Owner(), Connections(MOST_STRANGERS, PROOF_S)
    while True:
        try:
            connection, _ = listener.accept()
        except OSError as error:  # of a connection that ended while it waited, or of too many files: the batch in work shall not pay for it
            if listener.fileno() < 0:
                raise
            _refuse(error)
            continue
        number = None
        try:
            number = strangers.enter(connection)
            if number is not None:
                known = partial(strangers.leave, number)
                threading.Thread(target=_talk, args=(owner, connection, key, known), name="connection", daemon=True).start()
                continue
        except (OSError, RuntimeError) as error:  # no handle, no thread
            if number is not None:
                strangers.leave(number)
            _refuse(error)
        connection.close()


def _refuse(error: Exception) -> None:
    log.warning("a connection could not be taken", reason=str(error))
    time.sleep(REFUSED_S)


def _talk(owner: Owner, connection: socket.socket, key: WireKey, known: Callable[[], None]) -> None:
    """One connection's life; ``known``: it is no stranger's any more, or has ended."""
    try:
        wire = accepted(connection, key)
    except WireError:
        return  # none of ours
    finally:
        known()
    try:
        while True:
            wire.send(*owner.answer(wire.receive()))
    except WireError:
        pass  # the other end is done with us
    finally:
        wire.close()
