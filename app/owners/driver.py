"""The driver's side of owners: connections, who is there, and orders given to all of them at once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from app.control.placement import OwnerId
from app.errors import CepError, DependencyError, SnapshotError
from app.observe.logs import get_logger
from app.owners.orders import OwnerSettings
from app.owners.watch import Watch
from app.owners.wire import PROTOCOL, Buffer, Message, RefusedError, Wire, WireError, WireKey, connect
from app.storage.frames import ForeignError, FormatError, OtherKindError, TornError
from app.storage.store import MissingError, StorageAwayError, StorageError

SLOWLY_S, LEFT_ALONE_S = 5.0, 60.0
"""Who says nothing for so long when it is greeted (stopped, or in a long batch that nobody waits for any more) is left alone for so long: every attempt of a batch would wait for it. Not where there is no other."""
MOST_OWNERS = 1024
"""That are spoken with at once; a thread for each, made when it is needed."""
HELLO_S = 20.0
"""How long an owner may take to answer a greeting: it may be writing a snapshot of gigabytes when it is asked."""

STACKS_S = 2.0
"""An owner in a kernel does not answer at all."""

AWAY = frozenset({DependencyError.__name__, StorageAwayError.__name__})
"""Errors by name, as owners tell them: these pass."""

_BROKEN = (StorageError, MissingError, SnapshotError, TornError, ForeignError, OtherKindError, FormatError)
STORAGE = frozenset(kind.__name__ for kind in _BROKEN)
"""Likewise: what a person has to mend."""

log = get_logger(__name__)


class OwnersFailedError(CepError):
    """Owners did not do what they were asked.

    Attributes:
        lost: those that are gone.
        refused: what the others said, by owner.
    """

    def __init__(self, lost: Sequence[OwnerId], refused: Mapping[OwnerId, RefusedError]) -> None:
        said = [str(error) for error in refused.values()]
        gone = [f"the owner at {owner.host}:{owner.port} is gone" for owner in lost]
        super().__init__("; ".join([*said, *gone]))
        self.lost, self.refused = tuple(lost), dict(refused)

    @property
    def unreachable(self) -> bool:
        """Whether all of it is that Kafka, or the checkpoint's storage, cannot be reached."""
        return not self.lost and all(error.kind in AWAY for error in self.refused.values())

    @property
    def of_storage(self) -> bool:
        """Whether all of it is that files of the checkpoint cannot be read or written, or are damaged."""
        return not self.lost and all(error.kind in AWAY | STORAGE for error in self.refused.values())


@dataclass(frozen=True, slots=True)
class Ask:
    """An order for one owner."""

    head: Mapping[str, Any]
    parts: Sequence[Buffer] = ()


class Owners:
    """All owners that were found. For one thread, which may speak with all of them at once.

    Args:
        key: of the application's connections.
        settings: told to every owner.

    Attributes:
        refusal: why the last one that was greeted did not answer; empty where all did.
    """

    def __init__(self, key: WireKey, settings: OwnerSettings) -> None:
        self._key = key
        self._settings = settings
        self._watch = Watch(key)
        self._wires: dict[OwnerId, Wire] = {}
        self._given_up: list[OwnerId] = []
        self._pool = ThreadPoolExecutor(MOST_OWNERS, "owners")
        self.refusal = ""
        self._silent: dict[tuple[str, int], float] = {}
        """Until when addresses are left alone."""

    def find(self, addresses: Iterable[tuple[str, int]]) -> list[OwnerId]:
        """Greets who listens at these addresses and is not known yet; returns the new ones."""
        self.refusal = ""
        known, now_s = {(owner.host, owner.port) for owner in self._wires}, time.monotonic()
        silent = {address for address, until_s in self._silent.items() if now_s < until_s} if known else set()
        found = self._pool.map(self._greet, sorted(set(addresses) - known - silent))
        new = {owner: wire for owner, wire in filter(None, found)}  # noqa: C416 - an explicit mapping
        self._wires |= new
        return sorted(new)

    def gone(self) -> list[OwnerId]:
        """Owners whose connections have ended since the last question, or who were given up and are not back; they are forgotten."""
        for owner in [owner for owner, wire in self._wires.items() if not wire.alive]:
            self.give_up(owner)
        dead, self._given_up = [owner for owner in self._given_up if owner not in self._wires], []
        return dead

    def give_up(self, owner: OwnerId, *, leave_alone: bool = False) -> None:
        """Speaks no more with an owner.

        Args:
            owner: who.
            leave_alone: for a while, too, where there are others: it answers us, and cannot be reached by those that have something for it. So is
                who was on a machine that has vanished: to look for it would take seconds.
        """
        if leave_alone or self._watch.vanished(owner.host):
            self._silent[owner.host, owner.port] = time.monotonic() + LEFT_ALONE_S
        wire = self._wires.pop(owner, None)
        if wire is not None:
            self._watch.release(owner.host, wire)
            wire.close()
            self._given_up.append(owner)

    def ask(self, asks: Mapping[OwnerId, Ask], timeout_s: float | None = None) -> dict[OwnerId, Message]:
        """Gives orders to several owners at once and waits for all answers.

        Raises:
            OwnersFailedError: some are gone, or could not do it; all have answered, or are gone, by then.
        """
        asked = {owner: self._pool.submit(self._ask, owner, ask, timeout_s) for owner, ask in asks.items()}
        answers: dict[OwnerId, Message] = {}
        lost: list[OwnerId] = []
        refused: dict[OwnerId, RefusedError] = {}
        for owner, future in asked.items():
            try:
                answers[owner] = future.result()
            except WireError as error:
                log.warning("owner lost", owner=f"{owner.host}:{owner.port}", pid=owner.pid, reason=str(error))
                self.give_up(owner)
                lost.append(owner)
            except RefusedError as error:
                log.debug("an owner could not do it", owner=f"{owner.host}:{owner.port}", **{"error.stack": error.stack})
                refused[owner] = error
        if lost or refused:
            raise OwnersFailedError(lost, refused)
        return answers

    def tell(self, ask: Ask, timeout_s: float | None = HELLO_S) -> None:
        """As `ask`, to all owners; who cannot do it is passed over."""
        with contextlib.suppress(OwnersFailedError):
            self.ask(dict.fromkeys(self._wires, ask), timeout_s)

    def stacks(self) -> dict[str, Any]:
        """What all owners are doing, asked over connections of their own."""

        def look(owner: OwnerId) -> tuple[str, Any]:
            try:
                wire = connect(owner.host, owner.port, self._key)
                said = wire.ask({"op": "status"}, timeout_s=STACKS_S).head
                wire.close()
            except (WireError, RefusedError) as error:
                return f"{owner.host}:{owner.port}", f"does not say ({error}); its standard error does"
            return f"{owner.host}:{owner.port}", said["stacks"]

        wires = list(self._wires)
        with ThreadPoolExecutor(max(1, len(wires)), "stacks") as pool:  # the others may all wait for owners that do not answer
            return dict(pool.map(look, wires))

    def close(self, *, say: bool = True) -> None:
        """Leaves the owners.

        Args:
            say: tell them to forget what they held; not while somebody else waits for an answer of theirs.
        """
        if say:
            self.tell(Ask({"op": "close", "application": self._settings.application}))
        for owner in list(self._wires):
            self.give_up(owner)
        self._pool.shutdown(wait=False)  # an owner may yet be at a batch that nobody waits for any more

    def _ask(self, owner: OwnerId, ask: Ask, timeout_s: float | None) -> Message:
        wire = self._wires.get(owner)
        if wire is None:
            raise WireError("it was given up")
        return wire.ask(ask.head, ask.parts, timeout_s)

    def _greet(self, address: tuple[str, int]) -> tuple[OwnerId, Wire] | None:
        place, began_s = f"{address[0]}:{address[1]}", time.monotonic()
        try:
            wire = connect(*address, self._key)
            said = wire.ask({"op": "hello"}, timeout_s=HELLO_S).head
            wire.ask({"op": "open", "settings": self._settings.to_plain()}, timeout_s=HELLO_S)
        except (WireError, RefusedError) as error:
            log.warning("an owner does not answer", owner=place, reason=str(error))
            self.refusal = f"the owner at {place} does not answer: {error}"
            if (now_s := time.monotonic()) - began_s >= SLOWLY_S:
                self._silent[address] = now_s + LEFT_ALONE_S
            return None
        if said["protocol"] != PROTOCOL:
            log.error("an owner is of another version, restart the application", owner=place, protocol=said["protocol"], own=PROTOCOL)
            return None
        self._watch.guard(*address, wire)
        return OwnerId(address[0], address[1], int(said["pid"])), wire
