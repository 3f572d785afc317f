"""What the driver must not forget about batches, in the checkpoint: the directive of each, before it runs, and its totals, before Spark commits it.

Two small files a batch, written once and whole (`app.storage`). A directive is on its way to storage while the batch's records are read; nothing
that outlives a crash may come of it before it is there (`BatchLog.await_directive`). Directive *n + 1* carries the greatest times after *n*, so it can be made after a crash
too. A batch that is repeated has its directive already; its totals are written again.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import orjson

from app.config.settings import SPARK_FOLDER
from app.control.messages.directives import Directive, Frozen
from app.control.messages.totals import BatchTotals
from app.errors import SnapshotError
from app.observe.logs import get_logger
from app.storage.frames import read_frame, write_frame
from app.storage.store import MissingError, StorageError, Store

FOLDER = "batches"
DIRECTIVE, TOTALS, RUN = "directive", "totals", "run"
FORMAT = 1
KEPT_BATCHES = 100
"""Batches whose files stay after they were committed: more than Spark keeps of its own log, for whoever wants to know what happened."""
RUN_FILE = "run.bin"
Result = TypeVar("Result")
log = get_logger(__name__)
_NAME = re.compile(r"/(\d{12})-(directive|totals)\.bin$")


class BatchLog:
    """The directives and totals of a checkpoint. Safe to use from several threads; one process per checkpoint.

    Args:
        store: the checkpoint.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.RLock()
        self._frozen: dict[int, Frozen] = {}
        self._totals: dict[int, BatchTotals] = {}
        self._batches: dict[str, set[int]] = {DIRECTIVE: set(), TOTALS: set()}
        self._freezing: tuple[Frozen, Future[None]] | None = None
        self._writer = ThreadPoolExecutor(1, "directives")
        for stored in store.names(FOLDER):
            if name := _NAME.search(stored.name):
                self._batches[name[2]].add(int(name[1]))

    def directive(self, batch: int, decide: Callable[[int, Mapping[int, int]], Frozen]) -> Directive:
        """The directive of a batch: the logged one, else the decision of now, which is being logged when this returns.

        Args:
            batch: Spark's batch id.
            decide: makes the decision from the batch id and the greatest times before it; called at most once per batch, ever.

        Raises:
            SnapshotError: the logged one is damaged: deciding again might shed other events than were shed before.
        """
        with self._lock:
            known = self.frozen(batch)
            if known is None:
                known = decide(batch, self.greatest_times_before(batch))
                self._frozen[batch] = known
                self._batches[DIRECTIVE].add(batch)
                self._freezing = known, self._writer.submit(self._freeze, known)
            return known.directive

    def await_directive(self) -> None:
        """Waits until the latest directive survives a crash.

        Raises:
            StorageError: the checkpoint cannot be written.
        """
        if self._freezing is not None:
            known, written = self._freezing
            try:
                written.result()
            except StorageError:  # whoever asks again gets another try
                self._freezing = known, self._writer.submit(self._freeze, known)
                raise

    def rewrite(self, known: Frozen) -> None:
        """Writes another directive in the place of a batch's. Only for who has changed what the directive speaks of: no batch may run.

        Raises:
            StorageError: the checkpoint cannot be written.
        """
        with self._lock:
            self._freeze(known)
            self._frozen[known.directive.batch] = known
            self._batches[DIRECTIVE].add(known.directive.batch)

    def finish(self, totals: BatchTotals) -> None:
        """Keeps what became of a batch; when this returns it survives a crash."""
        plain = replace(totals, selection={}).to_plain()  # samples are used at once, and large
        self.await_directive()
        with self._lock:
            self._write(totals.batch, TOTALS, plain)
            self._batches[TOTALS].add(totals.batch)
            self._totals[totals.batch] = totals

    def totals(self, batch: int) -> BatchTotals:
        """What became of a batch; nothing, if it is not over."""
        with self._lock:
            if batch not in self._totals and batch in self._batches[TOTALS]:
                self._totals[batch] = _understood(self._path(batch, TOTALS), lambda: BatchTotals.from_plain(self._read(batch, TOTALS)))
            return self._totals.get(batch, BatchTotals(batch))

    def frozen(self, batch: int) -> Frozen | None:
        """The directive of a batch and its memory, if there is one; never decides."""
        with self._lock:
            if batch not in self._frozen and batch in self._batches[DIRECTIVE]:
                self._frozen[batch] = self._read_frozen(batch)
            return self._frozen.get(batch)

    def logged(self, batch: int) -> Directive | None:
        """The directive of a batch, if there is one; never decides."""
        known = self.frozen(batch)
        return None if known is None else known.directive

    def latest(self) -> Frozen | None:
        """The newest directive and its memory: where a restarted driver goes on."""
        with self._lock:
            return self.frozen(max(self._batches[DIRECTIVE])) if self._batches[DIRECTIVE] else None

    def greatest_times_before(self, batch: int) -> dict[int, int]:
        """Per source, the greatest event time that any batch before this one has seen, ms."""
        with self._lock:
            earlier = max((number for number in self._batches[DIRECTIVE] if number < batch), default=None)
            known = None if earlier is None else self.frozen(earlier)
            if known is None or earlier is None:
                return {}
            times = dict(known.directive.greatest_times)
            for number in sorted(number for number in self._batches[TOTALS] if earlier <= number < batch):
                for source in self.totals(number).sources.values():
                    if source.greatest_time is not None:
                        times[source.source] = max(times.get(source.source, source.greatest_time), source.greatest_time)
            return times

    def prune(self, committed: int) -> None:
        """Deletes files of batches that Spark committed long ago. Nobody waits for the store meanwhile; what it does not delete is deleted with the next ones.

        Args:
            committed: the newest batch that Spark has committed.
        """
        with self._lock:
            old = {kind: {batch for batch in kept if batch <= committed - KEPT_BATCHES} for kind, kept in self._batches.items()}
            for kind, batches in old.items():
                self._batches[kind] -= batches
            for known in (self._frozen, self._totals):
                for batch in [batch for batch in known if batch < committed - 2]:
                    del known[batch]
        names = [self._path(batch, kind) for kind, batches in old.items() for batch in sorted(batches)]
        if not names:
            return
        try:
            self._store.delete(names)
        except StorageError as error:
            with self._lock:
                for kind, batches in old.items():
                    self._batches[kind] |= batches
            log.warning("files of old batches could not be deleted; it is tried again", files=len(names), reason=str(error))

    def logged_files(self) -> list[tuple[int, str]]:
        """Batch and kind (`DIRECTIVE`, `TOTALS`) of all files."""
        with self._lock:
            return sorted((batch, kind) for kind, batches in self._batches.items() for batch in batches)

    def latest_batch(self, kind: str) -> int | None:
        """The newest batch that has a file of this kind."""
        with self._lock:
            return max(self._batches[kind], default=None)

    def deployments(self) -> set[str]:
        """Fingerprints that directives still name."""
        with self._lock:
            batches = sorted(self._batches[DIRECTIVE])
            known = {batch: self._frozen[batch].directive for batch in batches if batch in self._frozen}
        found = set()
        for batch in batches:  # a hundred files of a store that may be far away: batches are not to wait for that
            with suppress(MissingError):  # it was pruned meanwhile
                found.add((known.get(batch) or self._read_frozen(batch).directive).deployment)
        return found

    def begin_run(self) -> int:
        """Counts the driver's runs on this checkpoint: 1 for the first. Epochs of bucket holders begin with it."""
        with self._lock:
            try:
                runs = _understood(RUN_FILE, lambda: int(orjson.loads(read_frame(self._store, RUN_FILE, RUN).parts[0])["runs"]))
            except MissingError:
                if self._batches[TOTALS]:
                    hint = "without it holders of buckets would be numbered from 1 again; restore it, or begin with another checkpoint.path"
                    raise SnapshotError(f"{RUN_FILE} is missing, but batches are done\nhint: {hint}") from None
                runs = 0
            write_frame(self._store, RUN_FILE, RUN, FORMAT, [orjson.dumps({"runs": runs + 1})])
            return runs + 1

    def _freeze(self, known: Frozen) -> None:
        batch = known.directive.batch
        # first: who has a directive has the offsets that it is about; the commit before it says that they are what comes next
        self._store.sync([f"{SPARK_FOLDER}/offsets/{batch}", f"{SPARK_FOLDER}/commits/{batch - 1}"])
        self._write(known.directive.batch, DIRECTIVE, {"directive": known.directive.to_plain(), "memory": dict(known.memory)})

    def _write(self, batch: int, kind: str, plain: Mapping[str, Any]) -> None:
        data = orjson.dumps(plain, option=orjson.OPT_NON_STR_KEYS)
        write_frame(self._store, self._path(batch, kind), kind, FORMAT, [data])

    def _read_frozen(self, batch: int) -> Frozen:
        return _understood(self._path(batch, DIRECTIVE), lambda: _frozen(self._read(batch, DIRECTIVE)))

    def _read(self, batch: int, kind: str) -> Any:
        return orjson.loads(read_frame(self._store, self._path(batch, kind), kind).parts[0])

    def _path(self, batch: int, kind: str) -> str:
        return f"{FOLDER}/{batch:012}-{kind}.bin"


def _frozen(plain: Mapping[str, Any]) -> Frozen:
    try:
        return Frozen(Directive.from_plain(plain["directive"]), plain["memory"])
    except SnapshotError as error:
        raise ValueError(str(error)) from error  # the file's name is still to be told


def _understood(name: str, read: Callable[[], Result]) -> Result:
    try:
        return read()
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise SnapshotError(f"{name} is whole, but says nothing that this version understands: {error}") from error
