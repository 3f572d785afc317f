"""Writers' schemas for the ingress: from the checkpoint, where every schema ever used is kept, else from the registry.

A schema never changes under its id. Once a worker has seen it, all workers find it in the checkpoint, so a registry that is down stops
nobody whose producers use known schemas, and a repeated batch reads records as it did before. Whoever needs an unseen one asks the driver
what to do (`app.control.server.registry_watch`): as a rule, to wait. What the registry does not know is kept nowhere, since it may be there tomorrow: a task
remembers it to its end, says it in its report, and the driver tells it to the same task of the batch's next attempt (`TaskOrders.unknown`). A start that repeats a batch asks anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from app.control.server.registry_watch import Decided, Key, Notice, Ruling
from app.errors import DependencyError, SnapshotError
from app.events.avro import AvroSchema
from app.events.registry import Registry, RegistrySettings
from app.storage.frames import ForeignError, TornError, read_frame, write_frame
from app.storage.open import open_store
from app.storage.store import MissingError

KIND, FORMAT = "schema", 1
"""Of the files: one part, JSON with the schema and the schemas that it refers to."""
DECIDED, DECISION, DECISION_FORMAT = "schemas/decided", "registry-decision", 1
"""Of the files with batches' decisions: their folder, and what they are."""
PAUSE_S = 0.5
KEPT_BATCHES = 100
"""Files of decisions that stay, as of directives."""

Desk = Callable[[Notice], Ruling]
"""Asks the driver."""


@dataclass(frozen=True, slots=True)
class SchemaKeeping:
    """Where schemas are kept, and who is asked for others.

    Attributes:
        decided: whether the driver must know of every schema that is found (`schema_registry.on_registry_down: dead_letter`).
    """

    checkpoint: str
    registry: RegistrySettings
    decided: bool = False


class KeptSchemas:
    """A `SchemaSource`: memory, then checkpoint, then registry.

    Args:
        keeping: where.
        registry: who is asked; made from the settings when not given.
        sleep: waits between attempts.
    """

    def __init__(self, keeping: SchemaKeeping, registry: Registry | None = None, sleep: Callable[[float], None] = time.sleep) -> None:
        self._keeping = keeping
        self._registry = registry or Registry(keeping.registry)
        self._sleep = sleep
        self._store = open_store(keeping.checkpoint)
        where = sha256(keeping.registry.url.encode()).hexdigest()[:12]  # ids of another registry mean other schemas
        self._folder = f"schemas/{where}"
        self._known: dict[Key, AvroSchema] = {}
        self._kept: frozenset[str] | None = None
        """Files that were there when this task first wanted one; None: not looked."""
        self._batch = 0
        self._desk: Desk = _nobody
        self._waits_for: Key | None = None
        self._given_up: Ruling | None = None

    def begin(self, batch: int, desk: Desk) -> None:
        """A task's beginning.

        Args:
            batch: that it works on.
            desk: asks its driver.
        """
        if batch != self._batch:
            self._given_up = None
        # a repeated task has to find what the attempt before it found, so nothing is remembered to be missing
        self._batch, self._desk, self._kept = batch, desk, None

    def schema(self, key: Key) -> AvroSchema | None:
        """The schema of an id or GUID; None if the registry does not know it, or the driver has given the registry up for this batch.

        Raises:
            SchemaError: it is no Avro schema.
            DependencyError: the registry has been away for too long.
        """
        known = self._known.get(key)
        if known is None and self._is_kept(key):
            known = self._read(key)
        while known is None:
            found, again = self._ask(key)
            if not again:
                return found
            known = self._read(key)
        self._known[key] = known
        return known

    def _ask(self, key: Key) -> tuple[AvroSchema | None, bool]:
        """What the registry, or the driver in its place, says; and whether to look again, since another worker may have found it."""
        if self._given_up is not None and key not in self._given_up.found:
            return None, False
        try:
            found = self._registry.schema(key)
        except DependencyError as error:
            return None, self._shall_wait(key, str(error))
        waited, self._waits_for = self._waits_for == key, None
        if found is None:
            if waited:  # others are unknown without a question
                self._desk(Notice(self._batch, key, "answered"))
            return None, False
        if waited or self._keeping.decided:
            ruling = self._desk(Notice(self._batch, key, "found"))
            if ruling.then == "unresolved":
                self._given_up = ruling
                return None, False
        self._write(key, found)
        self._known[key] = found
        return found, False

    def _shall_wait(self, key: Key, reason: str) -> bool:
        ruling = self._desk(Notice(self._batch, key, "failed", reason))
        if ruling.then == "fail":
            raise DependencyError(
                f"the schema registry has been away for {ruling.waited_s:.0f} s, and batch {self._batch} needs its schema {key}: {reason}"
            )
        if ruling.then == "unresolved":
            self._given_up = ruling
            return False
        self._waits_for = key
        self._sleep(PAUSE_S)
        return True

    def _name(self, key: Key) -> str:
        return f"{self._folder}/{key}.bin"

    def _is_kept(self, key: Key) -> bool:
        """By one listing per task: files are few, but records of another format can bring thousands of ids, and each would cost a look."""
        if self._kept is None:
            self._kept = frozenset(stored.name for stored in self._store.names(self._folder))
        return self._name(key) in self._kept

    def _read(self, key: Key) -> AvroSchema | None:
        """The kept schema; None if there is none, or its file is damaged: then the registry is asked, and the file written anew."""
        try:
            plain = json.loads(read_frame(self._store, self._name(key), KIND, {FORMAT}).parts[0].tobytes())
        except (MissingError, TornError, ForeignError):
            return None
        return AvroSchema(plain["root"], plain["names"])

    def _write(self, key: Key, schema: AvroSchema) -> None:
        write_frame(self._store, self._name(key), KIND, FORMAT, [json.dumps({"root": schema.root, "names": schema.names}).encode()])


def _nobody(notice: Notice) -> Ruling:
    """Without a driver nobody waits."""
    return Ruling("fail" if notice.outcome == "failed" else "use")


class KeptDecisions:
    """`app.control.server.registry_watch.Decisions` in the checkpoint: ``schemas/decided/<batch>.bin``."""

    def __init__(self, checkpoint: str) -> None:
        self._store = open_store(checkpoint)

    def read(self, batch: int) -> Decided:
        """Of a batch; the default where there is none.

        Raises:
            SnapshotError: it is damaged, or of a newer version.
        """
        name = _decision(batch)
        try:
            part = read_frame(self._store, name, DECISION, {DECISION_FORMAT}).parts[0]
        except MissingError:
            return Decided()
        try:
            plain = json.loads(part.tobytes())
            return Decided(plain["away"], frozenset(plain["found"]))
        except (ValueError, LookupError, TypeError) as error:
            raise SnapshotError(f"{name} is whole, but says nothing that this version understands: {error!r}") from error

    def write(self, batch: int, decided: Decided) -> None:
        """Returns when it is there; files of batches long past go."""
        plain = {"away": decided.away, "found": sorted(decided.found, key=str)}
        write_frame(self._store, _decision(batch), DECISION, DECISION_FORMAT, [json.dumps(plain).encode()])
        oldest = _decision(max(0, batch - KEPT_BATCHES))
        self._store.delete(stored.name for stored in self._store.names(DECIDED) if stored.name <= oldest and batch > KEPT_BATCHES)


def _decision(batch: int) -> str:
    return f"{DECIDED}/{batch:020}.bin"
