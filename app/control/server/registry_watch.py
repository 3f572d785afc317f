"""A schema registry that is away: what tasks that need an unseen schema are to do, decided by the driver for all of them.

Tasks say what they met, the driver rules. So an outage has one beginning, one limit and one line in the log, whatever number of tasks and
attempts meet it; and where records may become dead letters for it, all tasks of a batch, and its repetitions, do the same: once the registry
has been given up in a batch, that is written down together with the schemas that tasks of this batch had found before, and holds.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Literal, Protocol

from app.config.settings import SchemaRegistry
from app.control.outages import Outage
from app.observe.metrics import Metrics

Key = int | str
"""Id or GUID of a schema."""
LONG_MS = 60_000
"""Between two questions: the registry may have been there meanwhile. One that nobody answers takes some seconds itself, and the next comes after a pause."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What a task met.

    Attributes:
        outcome: ``failed``: nobody could be asked; ``found``: the registry gave an unseen schema; ``answered``: it does not know the id.
        reason: of a failure.
    """

    batch: int
    key: Key
    outcome: Literal["failed", "found", "answered"]
    reason: str = ""

    def to_json(self) -> bytes:
        """For the wire."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_json(data: bytes) -> Notice:
        """Reads what `to_json` wrote.

        Raises:
            ValueError: not a notice.
        """
        try:
            return Notice(**json.loads(data))
        except TypeError as error:
            raise ValueError(f"no notice: {error}") from error


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the task is to do.

    Attributes:
        then: ``again``: ask the registry again soon; ``use``: go on with what was found; ``unresolved``: make dead letters of records with unseen
            schemas, in this batch; ``fail``: end with an error.
        waited_s: how long the registry has been away.
        found: with ``unresolved``, schemas that tasks of this batch have used: for these it must be waited.
    """

    then: Literal["again", "use", "unresolved", "fail"]
    waited_s: float = 0.0
    found: tuple[Key, ...] = ()

    def to_json(self) -> bytes:
        """For the wire."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_json(data: bytes) -> Ruling:
        """Reads what `to_json` wrote."""
        plain = json.loads(data)
        return Ruling(**{**plain, "found": tuple(plain["found"])})


@dataclass(frozen=True, slots=True)
class Decided:
    """What holds for a batch.

    Attributes:
        away: the registry was given up; unseen schemas are unresolved.
        found: schemas that were unseen before the batch and found in it, before it was given up.
    """

    away: bool = False
    found: frozenset[Key] = frozenset()


class Decisions(Protocol):
    """Where decisions survive the driver."""

    def read(self, batch: int) -> Decided:
        """Of a batch; the default where there is none."""

    def write(self, batch: int, decided: Decided) -> None:
        """Returns when it is safe."""


class NoDecisions:
    """Before there is a checkpoint."""

    def read(self, batch: int) -> Decided:
        """Nothing."""
        return Decided()

    def write(self, batch: int, decided: Decided) -> None:
        """Nowhere."""


class RegistryWatch:
    """One per driver; its methods may be called from any thread.

    Args:
        settings: of the registry.
        metrics: errors and waiting time are shown there.
        clock: ms, one that only goes on: how long the registry has been away is no matter of the time of day.

    Attributes:
        decisions: where they are kept; set when there is a checkpoint.
    """

    def __init__(self, settings: SchemaRegistry, metrics: Metrics, clock: Callable[[], int]) -> None:
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._lock = threading.Lock()
        self._since_ms: int | None = None
        self._failed_ms = 0
        self._met_in: int | None = None
        self._outage = Outage("the schema registry cannot be asked", "the schema registry answers again")
        self._batch: tuple[int, Decided] | None = None
        self.decisions: Decisions = NoDecisions()

    def rule(self, notice: Notice) -> Ruling:
        """What the task is to do."""
        with self._lock:
            if notice.outcome == "failed":
                return self._failed(notice)
            self._over()
            return self._found(notice) if notice.outcome == "found" and self._settings.on_registry_down == "dead_letter" else Ruling("use")

    def committed(self, batch: int) -> None:
        """A batch is over, so nobody waits in it. Where tasks wait until they are answered, the outage is over as well.

        That is told late: tasks of the next batch may have met the outage before.
        """
        with self._lock:
            if self._met_in is not None and batch < self._met_in:
                return
            self._metrics.set("cep_schema_registry_waiting_seconds", 0)
            if self._settings.on_registry_down == "wait":
                self._over()

    def _failed(self, notice: Notice) -> Ruling:
        waited_s, self._met_in = self._note(notice.reason), notice.batch
        if self._settings.on_registry_down == "wait":
            return Ruling("fail" if waited_s >= self._settings.wait_for / 1000 else "again", waited_s)
        decided = self._decided(notice.batch)
        if notice.key in decided.found:
            return Ruling("fail" if waited_s >= self._settings.wait_for / 1000 else "again", waited_s)
        if not decided.away:
            if waited_s < self._settings.retry_for / 1000:
                return Ruling("again", waited_s)
            decided = self._decide(notice.batch, replace(decided, away=True))
        return Ruling("unresolved", waited_s, tuple(decided.found))

    def _found(self, notice: Notice) -> Ruling:
        decided = self._decided(notice.batch)
        if notice.key in decided.found:
            return Ruling("use")
        if decided.away:
            return Ruling("unresolved", 0.0, tuple(decided.found))
        self._decide(notice.batch, replace(decided, found=decided.found | {notice.key}))
        return Ruling("use")

    def _decided(self, batch: int) -> Decided:
        if self._batch is None or self._batch[0] != batch:
            self._batch = batch, self.decisions.read(batch)
        return self._batch[1]

    def _decide(self, batch: int, decided: Decided) -> Decided:
        self.decisions.write(batch, decided)
        self._batch = batch, decided
        return decided

    def _note(self, reason: str) -> float:
        """Counts a failure; seconds since the first one."""
        now = self._clock()
        silent_ms = max(self._settings.wait_for, LONG_MS)
        if self._since_ms is None or now - self._failed_ms > silent_ms:  # nobody has asked for long: it may have been there
            self._since_ms = now
        self._failed_ms = now
        waited_s = (now - self._since_ms) / 1000
        self._metrics.add("cep_schema_registry_errors_total", 1)
        self._metrics.set("cep_schema_registry_waiting_seconds", waited_s)
        self._outage.failed(reason)
        return waited_s

    def _over(self) -> None:
        self._since_ms = None
        self._metrics.set("cep_schema_registry_waiting_seconds", 0)
        self._outage.worked()
