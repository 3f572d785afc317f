"""What the schema registry answered at earlier starts, kept in the checkpoint: a restart needs no registry for it.

Readers' schemas by subject and the ids of our own schemas. The registry is asked first, and what it says now counts; only when it does not
answer, what it said then does. Nothing here is needed to read the state, so a damaged file counts as none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar

from app.errors import DependencyError, SnapshotError
from app.events.avro import parse_schema
from app.events.registry import Registered, Subjects
from app.observe.logs import get_logger
from app.storage.frames import read_frame, write_frame
from app.storage.open import open_store
from app.storage.store import MissingError, StorageError

FILE, KIND, FORMAT = "registry-answers.bin", "registry-answers", 1
PROBE_S = 5.0
"""A registry that did not answer is not asked again for so long where an answer is held: with 1,000 queries each question would wait for its time-out."""
Answer = TypeVar("Answer")

log = get_logger(__name__)


class RememberedRegistry:
    """The registry as the driver asks it, with a memory.

    Args:
        registry: who is asked.
        url: answers of another registry count for nothing.
        checkpoint: where the memory is; `save` writes it.
        failed: told of every question that was not answered.
        clock_s: seconds that never go back.
    """

    def __init__(
        self,
        registry: Subjects,
        url: str,
        checkpoint: str,
        failed: Callable[[], None] = lambda: None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry, self._failed, self._clock_s = registry, failed, clock_s
        self._store = open_store(checkpoint)
        self._where = sha256(url.encode()).hexdigest()[:12]
        self._asked_again_at: float | None = None
        plain = self._read()
        self._subjects: dict[str, dict[str, Any]] = plain.get("subjects", {})
        self._ids: dict[str, dict[str, int]] = plain.get("ids", {})
        self._changed = False

    def latest(self, subject: str) -> Registered | None:
        """The newest version of a subject, now or when it was last asked for; None if there is none.

        Raises:
            SchemaError: it is no Avro schema.
            DependencyError: the registry cannot be asked, and nothing is held.
        """
        held = self._subjects.get(subject)
        answered, found = self._asked(lambda: self._registry.latest(subject), held is not None, subject)
        if not answered and held is not None:
            return Registered(held["id"], held["version"], held["text"], parse_schema(held["text"]), held["guid"])
        if found is not None:
            plain = {"id": found.schema_id, "version": found.version, "text": found.text, "guid": found.guid}
            self._changed |= held != plain
            self._subjects[subject] = plain
        return found

    def register(self, subject: str, text: str) -> int:
        """Registers a schema and returns its id; the id that it got before, where the registry does not answer.

        Raises:
            SchemaError: the registry refuses it.
            DependencyError: the registry cannot be asked, and the schema was never registered.
        """
        hash_ = sha256(text.encode()).hexdigest()
        ids = self._ids.setdefault(subject, {})
        held = ids.get(hash_)
        _, found = self._asked(lambda: self._registry.register(subject, text), held is not None, subject)
        if found is not None:
            self._changed |= held != found
            ids[hash_] = found
            return found
        if held is None:
            raise AssertionError("a registry that answers gives an id")
        return held

    def save(self) -> None:
        """Writes what was learned into the checkpoint; to be called when the application can start with it."""
        if not self._changed:
            return
        plain = {"registry": self._where, "subjects": self._subjects, "ids": self._ids}
        write_frame(self._store, FILE, KIND, FORMAT, [json.dumps(plain).encode()])
        self._changed = False

    def _asked(self, question: Callable[[], Answer], held: bool, subject: str) -> tuple[bool, Answer | None]:  # noqa: FBT001 - of one use
        """Whether the registry answered, and what."""
        if held and self._asked_again_at is not None and self._clock_s() < self._asked_again_at:
            return False, None
        try:
            answer = question()
        except DependencyError as error:
            self._failed()
            if not held:
                raise
            if self._asked_again_at is None:
                log.warning("the schema registry does not answer, the checkpoint does", subject=subject, reason=str(error))
            self._asked_again_at = self._clock_s() + PROBE_S
            return False, None
        self._asked_again_at = None
        return True, answer

    def _read(self) -> dict[str, Any]:
        try:
            plain = json.loads(read_frame(self._store, FILE, KIND, {FORMAT}).parts[0].tobytes())
            known = plain["registry"] == self._where
        except MissingError:
            return {}
        except (SnapshotError, StorageError, ValueError, KeyError, TypeError) as error:
            log.warning("what the schema registry answered before cannot be read", file=FILE, reason=str(error))
            return {}
        return plain if known else {}
