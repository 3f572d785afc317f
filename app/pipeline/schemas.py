"""Writers' schemas for the ingress: from the checkpoint, where every schema ever used is kept, else from the registry.

A schema never changes under its id. Once a worker has seen it, all workers find it in the checkpoint, so a registry that is down stops
nobody whose producers use known schemas, and a repeated batch reads records as it did before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from app.errors import DependencyError
from app.events.avro import AvroSchema
from app.events.registry import Registry, RegistrySettings
from app.storage.frames import ForeignError, TornError, read_frame, write_frame
from app.storage.open import open_store
from app.storage.store import MissingError

KIND, FORMAT = "schema", 1
"""Of the files: one part, JSON with the schema and the schemas that it refers to."""
PAUSE_S = 0.5
PROBE_S = 5.0
"""How often a registry that has been given up is asked again. A question to one that answers nothing at all takes seconds itself."""


@dataclass(frozen=True, slots=True)
class SchemaKeeping:
    """Where schemas are kept, and how long an unreachable registry is asked again before an unknown schema makes dead letters."""

    checkpoint: str
    registry: RegistrySettings
    retry_for_s: float


class KeptSchemas:
    """A `SchemaSource`: memory, then checkpoint, then registry.

    Args:
        keeping: where and how long.
        registry: who is asked; made from the settings when not given.
        clock_s: seconds that never go back.
        sleep: waits between attempts.
    """

    def __init__(
        self,
        keeping: SchemaKeeping,
        registry: Registry | None = None,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._keeping = keeping
        self._registry = registry or Registry(keeping.registry)
        self._clock_s, self._sleep = clock_s, sleep
        self._store = open_store(keeping.checkpoint)
        where = sha256(keeping.registry.url.encode()).hexdigest()[:12]  # ids of another registry mean other schemas
        self._folder = f"schemas/{where}"
        self._known: dict[int | str, AvroSchema] = {}
        self._down_since: float | None = None
        self._asked_again_at = 0.0

    def schema(self, key: int | str) -> AvroSchema | None:
        """The schema of an id or GUID; None if the registry does not know it, or could not be asked for `retry_for_s`.

        Raises:
            SchemaError: it is no Avro schema.
        """
        known = self._known.get(key)
        if known is None:
            known = self._read(key)
            if known is None and (known := self._ask(key)) is not None:
                self._write(key, known)
            if known is not None:
                self._known[key] = known
        return known

    def _ask(self, key: int | str) -> AvroSchema | None:
        """Patient once per outage; then nobody waits, and only now and then a question shows whether the registry is back.

        So a stray id, or a flood of them, holds the stream up for `retry_for_s` once, not in every batch.
        """
        if self._down_since is not None and self._clock_s() < self._asked_again_at:
            return None
        while True:
            try:
                found = self._registry.schema(key)
            except DependencyError:
                now = self._clock_s()
                self._down_since = now if self._down_since is None else self._down_since
                if now >= self._down_since + self._keeping.retry_for_s:
                    self._asked_again_at = now + PROBE_S
                    return None
                self._sleep(PAUSE_S)
            else:
                self._down_since = None
                return found

    def _name(self, key: int | str) -> str:
        return f"{self._folder}/{key}.bin"

    def _read(self, key: int | str) -> AvroSchema | None:
        """The kept schema; None if there is none, or its file is damaged: then the registry is asked, and the file written anew."""
        try:
            plain = json.loads(read_frame(self._store, self._name(key), KIND, {FORMAT}).parts[0].tobytes())
        except (MissingError, TornError, ForeignError):
            return None
        return AvroSchema(plain["root"], plain["names"])

    def _write(self, key: int | str, schema: AvroSchema) -> None:
        write_frame(self._store, self._name(key), KIND, FORMAT, [json.dumps({"root": schema.root, "names": schema.names}).encode()])
