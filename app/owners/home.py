"""The buckets that an owner holds for one application, and what it does with them in a batch.

The order of things makes a repeated batch harmless: the batch is fed, its output goes to Kafka while its log entry is written, and only when both are
safe does the driver get its answer. Who is asked again for a batch that is done gives the same answer again. Whatever fails on the way takes
the bucket's state with it: the next attempt rebuilds it from storage, from the batch before.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from time import perf_counter_ns
from typing import Any

import pyarrow as pa

from app.bucket.bucket import Bucket
from app.control.messages.totals import head_of, joined, pack_report, with_fields
from app.errors import CepError, SnapshotError
from app.observe.logs import get_logger
from app.owners.arrivals import Arrivals
from app.owners.blocks import Known
from app.owners.chains import chains_of
from app.owners.coming import get_ready
from app.owners.deployment import load_deployment
from app.owners.egress import Records
from app.owners.inbox import Payload
from app.owners.matching import Work, report_of, work_off
from app.owners.orders import Advance, BucketOrder, OwnerSettings
from app.owners.outlet import KafkaOutlet
from app.owners.rebuilding import Rebuilt, entry_parts, moved, rebuilt
from app.owners.shipment import arrived
from app.owners.snapshots import SnapshotWriter, Written, cut_snapshot, is_due
from app.owners.spent import Spent
from app.owners.state_log import Generation, StateLog, state_log
from app.owners.tuple_memory import tuple_memory
from app.storage.open import open_store
from app.storage.store import StorageError

DELETED_AT_ONCE = 16
"""Files, between two batches: in a bucket each takes three requests."""
KEPT_BATCHES = 20
"""How far back a checkpoint can be rewound: as many batches as Spark keeps of its own log (`app.pipeline.session`)."""
BESIDE = 0.08
"""The share of an owner's time that the control samples' truth may take: 1 % of the work of an input of eight times the capacity. It takes cores that the next batch is read with."""
MOST_BESIDE_NS = 40_000_000
"""At once: the next batch's events may be here by then."""

log = get_logger(__name__)

Deliveries = Mapping[int, Mapping[int, Sequence[Payload]]]
"""By task and bucket."""


@contextlib.contextmanager
def _left_for_later() -> Iterator[None]:
    """What cannot be deleted stays: snapshots, and with them the time that a recovery takes, do not wait for it."""
    try:
        yield
    except StorageError as error:
        log.warning("files that nobody needs stay in the checkpoint", reason=str(error))


class MissingDeliveryError(SnapshotError):
    """A task's delivery is not here: this owner took another's place while the attempt ran."""


@dataclass(slots=True)
class Held:
    """A bucket in its only place.

    Attributes:
        epoch: of this holding.
        batch: that was fed last.
        deployment: fingerprint of what it runs.
        entries, entry_bytes: of the log since the last snapshot that is safe.
        snapshot_batch, snapshot_bytes: of that snapshot; the bytes are those of the state.
        known: what the last two snapshots hold. The next one names blocks of the one before the last only: two neighbours have no file in common, so
            a damaged file leaves one of them whole.
        answer: what was told about `batch`: its report, and its records where they go back to the driver.
    """

    bucket: Bucket
    epoch: int
    batch: int
    deployment: str
    log: StateLog
    arrivals: Arrivals = field(default_factory=Arrivals)
    entries: int = 0
    entry_bytes: int = 0
    snapshot_batch: int = -1
    snapshot_bytes: int = 0
    known: tuple[Known, Known] = (Known(), Known())
    answer: tuple[bytes, bytes] | None = None


@dataclass(frozen=True, slots=True)
class _Done:
    """A bucket whose batch is fed; its entry may still be on its way to storage."""

    held: Held
    report: bytes
    returned: bytes
    entry: Future[int] | None


@dataclass(frozen=True, slots=True)
class _Safe:
    """A snapshot that has been written, and what of the log it makes superfluous."""

    number: int
    epoch: int
    batch: int
    written: Written
    entries: int
    entry_bytes: int


class Home:
    """All buckets that this owner holds for one application. For one thread.

    Args:
        settings: of the application.
    """

    def __init__(self, settings: OwnerSettings) -> None:
        self.settings = settings
        self.store = open_store(settings.checkpoint)
        with contextlib.suppress(CepError):  # of attempts that were killed; what is amiss with the storage shows soon enough
            self.store.sweep()
        self.held: dict[int, Held] = {}
        self._outlet = KafkaOutlet(settings.producer_options, settings.max_record_bytes) if settings.producer_options else None
        self._writers = ThreadPoolExecutor(2, "state-log")
        self._writing: list[Future[Any]] = []
        """Entries of the attempt."""
        self._snapshots = SnapshotWriter(self.store)
        self._safe: deque[_Safe] = deque()
        self._beside_ns = perf_counter_ns()
        """When control samples were looked at last."""
        self._turn = 0
        """The place of the bucket that was looked at first then."""

    def advance(self, order: Advance, deliveries: Deliveries) -> tuple[bytes, list[bytes]]:
        """One batch of all buckets.

        Args:
            order: the driver's.
            deliveries: of the order's attempt.

        Returns:
            the report, packed, and the records of the buckets, as Arrow streams, where there is no Kafka.

        Raises:
            MissingDeliveryError: a task's delivery is not here.
            SnapshotError: the state before the batch cannot be had.
            DependencyError: the output could not be written.
        """
        wanted = {bucket.number for bucket in order.buckets}
        for number in set(self.held) - wanted:
            del self.held[number]
        get_ready(self.settings.checkpoint, order.directive.coming)
        deployment = load_deployment(self.settings.checkpoint, order.directive.deployment)
        names = [plan.name for plan in deployment.catalog.plans]
        done: list[_Done] = []
        self._writing.clear()
        try:
            for bucket in order.buckets:
                known = self._answered(bucket, order.batch)
                if known is None:
                    self._require(order, deliveries)
                    known = self._work_off(bucket, Work(order, deployment, self.settings, Spent()), deliveries, names)
                done.append(known)
            sent = self._outlet.flush() if self._outlet is not None else 0
            for one in done:
                self._finish(one, order.batch)
        except BaseException:
            if self._outlet is not None:
                self._outlet.forget()
            wait(self._writing)  # the next attempt writes under the same names, and who fails late would take its files away
            for bucket in order.buckets:  # what is half done is rebuilt by the next attempt
                if (held := self.held.get(bucket.number)) is not None and held.answer is None:
                    del self.held[bucket.number]
            raise
        report = joined([one.report for one in done], order.buckets[0].number if order.buckets else 0)
        if self._outlet is not None:
            sent += sum(head_of(one.report)["records"] for one in done if one.entry is None)  # by an attempt before
        return with_fields(report, sent=sent), [one.returned for one in done if one.returned]

    def prepare(self, deployment: str) -> None:
        """Loads a deployment and what its engines need: a minute of compiling, at worst, that no batch shall wait for."""
        known = load_deployment(self.settings.checkpoint, deployment)
        Bucket(known.catalog, [stream.rules for stream in known.streams], 0, known.topics, tuple_memory, chains_of=chains_of)

    def tend(self, committed: int) -> None:
        """Between batches: begins the snapshot that is most overdue, deletes what no restart can need once one is safe, and finds out what control samples would have found.

        Args:
            committed: newest batch that Spark is known to have committed.
        """
        while self._safe:
            safe = self._safe.popleft()
            held = self.held.get(safe.number)
            if held is not None and held.epoch == safe.epoch:
                if held.snapshot_batch < safe.batch:  # else it was rebuilt from this snapshot before we looked
                    held.entries, held.entry_bytes = held.entries - safe.entries, held.entry_bytes - safe.entry_bytes
                    held.snapshot_batch, held.snapshot_bytes = safe.batch, safe.written.known.total
                    held.known = (held.known[1], safe.written.known)
                held.log.remember(Generation(safe.batch, safe.epoch), safe.written.known.files)
                with _left_for_later():
                    held.log.prune(committed, KEPT_BATCHES, at_once=0)
        most = DELETED_AT_ONCE + 2 * len(self.held)  # a batch leaves an entry in each of them
        with _left_for_later():
            any(held.log.prune_more(most) for held in self.held.values())  # of one of them: nobody's batch shall wait
        due = [(one.entry_bytes, number) for number, one in self.held.items() if one.answer is not None and self._is_due(number, one)]
        if due and not self._snapshots.busy:
            self._begin_snapshot(max(due)[1])
        self._look_beside()

    def close(self) -> None:
        """Lets go of everything."""
        self._writers.shutdown()
        self._snapshots.wait()
        self.held.clear()

    def _look_beside(self) -> None:
        """Works for a while at what waits of control samples, beginning with another bucket, and in each with another group, every time."""
        last, self._beside_ns = self._beside_ns, perf_counter_ns()
        until_ns = self._beside_ns + min(MOST_BESIDE_NS, int(BESIDE * (self._beside_ns - last)))
        numbers = sorted(self.held)
        self._turn += 1
        round_, first = divmod(self._turn, max(1, len(numbers)))
        for number in numbers[first:] + numbers[:first]:
            self.held[number].bucket.look_beside(perf_counter_ns, until_ns, round_)

    def _is_due(self, number: int, held: Held) -> bool:
        return is_due(held.entries, held.entry_bytes, held.snapshot_bytes, number * 97 % 256)

    def _begin_snapshot(self, number: int) -> None:
        held = self.held[number]
        generation, entries, size = Generation(held.batch, held.epoch), held.entries, held.entry_bytes
        name = held.log.snapshot_name(generation)

        def done(written: Written) -> None:
            self._safe.append(_Safe(number, held.epoch, generation.batch, written, entries, size))

        self._snapshots.write(name, lambda: cut_snapshot(name, held.deployment, held.bucket, held.known[0]), done)

    def log_of(self, number: int) -> StateLog:
        """The log of a bucket."""
        return state_log(self.store, self.settings.state, number)

    def _answered(self, bucket: BucketOrder, batch: int) -> _Done | None:
        held = self.held.get(bucket.number)
        if held is None or held.epoch != bucket.epoch or held.batch != batch or held.answer is None:
            return None
        return _Done(held, *held.answer, None)

    def _require(self, order: Advance, deliveries: Deliveries) -> None:
        if missing := sorted(set(order.parts) - set(deliveries)):
            raise MissingDeliveryError(f"batch {order.batch}, attempt {order.attempt}: nothing came from the tasks {missing}")

    def _work_off(self, bucket: BucketOrder, work: Work, deliveries: Deliveries, names: Sequence[str]) -> _Done:
        spent, order = work.spent, work.order
        held, fed, damaged = self._before(bucket, order)
        held.answer = None
        spent.phase("recover")
        came = arrived(deliveries.values(), bucket.number)
        try:
            worked = work_off(held.bucket, came, held.arrivals, work)
        except Exception as error:
            error.add_note(f"bucket {bucket.number}, batch {order.batch}")
            raise
        entry = self._writers.submit(held.log.append, order.batch, held.epoch, entry_parts(order, came.chunks))
        self._writing.append(entry)
        if self._outlet is not None and len(worked.records):
            self._outlet.send(worked.records)
        held.batch = order.batch
        spent.phase("send")
        report = report_of(bucket.number, worked, work)
        report = replace(report, fed={**fed, "own": 1}, damaged=damaged, state_bytes=held.snapshot_bytes + held.entry_bytes)
        returned = b"" if self._outlet is not None or not len(worked.records) else _stream(worked.records)
        return _Done(held, pack_report(report, names), returned, entry)

    def _before(self, bucket: BucketOrder, order: Advance) -> tuple[Held, dict[str, int], int]:
        """The bucket as it was before the batch, under the batch's deployment.

        And what it took: entries that had to be fed, by why; snapshots that were damaged and passed over.
        """
        held, fed, damaged = self.held.get(bucket.number), {}, 0
        if held is None or held.epoch != bucket.epoch or held.batch != order.batch - 1:
            self.held.pop(bucket.number, None)
            state = self.log_of(bucket.number)
            found: Rebuilt = rebuilt(self.settings.checkpoint, state, bucket.number, order)
            held = Held(
                found.bucket,
                bucket.epoch,
                order.batch - 1,
                found.deployment,
                state,
                entries=found.entries,
                entry_bytes=found.entry_bytes,
                snapshot_batch=found.snapshot_batch,
                snapshot_bytes=found.snapshot_bytes,
                known=(Known(), found.known),
            )
            self.held[bucket.number] = held
            damaged = found.damaged
            if found.entries:
                fed[bucket.why] = found.entries
        if held.deployment != order.directive.deployment:
            held.bucket = moved(self.settings.checkpoint, held.bucket, order.directive.deployment)
            held.deployment = order.directive.deployment
        return held, fed, damaged

    def _finish(self, one: _Done, batch: int) -> None:
        if one.entry is not None:
            one.held.entry_bytes += one.entry.result()
            one.held.entries += 1
        one.held.answer = (one.report, one.returned)


def _stream(records: Records) -> bytes:
    batch, sink = records.to_arrow(), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
