"""A micro-batch from the driver's side: what Spark's query calls for each of them.

The ingress runs as a Spark job, whose tasks deliver chunks to the owners of buckets and hand their reports back as rows; then all owners match at once. Both
are one *attempt*. Where an owner is gone, or a task could not reach one, buckets get other owners and the next attempt does all of it again: the
directive is frozen, so it comes to the same. Spark commits the batch when this returns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from app.control.arrivals.accounts import Breach, First, Planned, breaches, unread
from app.control.messages.directives import Directive
from app.control.messages.totals import BatchTotals, add_up, head_of
from app.control.placement import Holding, OwnerId, Placement
from app.errors import CepError, DependencyError
from app.observe.logs import get_logger, log_failure
from app.owners.deployment import load_deployment
from app.owners.driver import Ask, Owners, OwnersFailedError
from app.owners.orders import EPOCHS_PER_RUN, PROPERTY, Advance, BucketOrder, OwnerPlace, OwnerSettings, TaskOrders, packed_orders
from app.owners.spent import Spent
from app.owners.wire import WireKey
from app.pipeline.causes import brokers_are_away, cause, credentials_refused, lies_outside, registry_is_away, storage_is_away
from app.pipeline.looking import LOOK_AGAIN_S, owners_around
from app.pipeline.task_answers import TaskAnswer, answers_of_batch, owners_beside
from app.storage.store import StorageAwayError, StorageError

Phase = Literal["decide", "wait", "ingress", "match", "add-up"]
"""What the driver's time in a batch goes to: the directive; owners that still tend their state, or are found; the ingress job; all owners; totals."""
OWNERS_CPU = "owners_cpu"
"""Phase of the costs: processor time of all owner processes since their batch before."""
REFUSED_PAUSE_S = 5.0
"""Between two attempts when the broker refuses our credentials, or storage is away."""
WAIT_FOR_OWNERS_S = 120.0
"""How long a batch waits for any owner: Spark replaces executors in about a minute."""

Taker = Callable[[int, pa.Table], None]
"""Takes the output records of a batch, where they do not go to Kafka."""
Answers = Callable[[DataFrame], list[TaskAnswer]]
"""Runs the tasks of a batch."""
Answer = TypeVar("Answer")


class Plane(Protocol):
    """Who decides about batches, and remembers what became of them; see `app.control.plane.ControlPlane`."""

    def begin_run(self) -> int:
        """Counts this run."""

    def directive(self, batch: int) -> Directive:
        """The same for every attempt of a batch."""

    def await_directive(self) -> None:
        """Waits until the directive survives a crash."""

    def finish(self, totals: BatchTotals, owners: int = 0) -> None:
        """Takes what became of a batch."""

    def count_owners(self, owners: int) -> None:
        """So many are there."""

    def planned(self, batch: int) -> Planned | None:
        """The offsets of a batch."""

    def untouched(self, planned: Planned, totals: BatchTotals) -> dict[tuple[str, int], tuple[int, int]]:
        """Planned topic partitions of which nothing came."""

    def count_failed_attempt(self) -> None:
        """An attempt has failed."""

    def count_breaches(self, breaches: Sequence[Breach]) -> None:
        """Accounts do not close."""


log = get_logger(__name__)


class StoppedError(Exception):
    """The application was asked to stop: this batch has not begun, or waits for owners, and the next start does it."""


class UndoneError(Exception):
    """A batch could not be done; why is in `Batches.failure`."""


class AccountsError(CepError):
    """The accounts of a batch do not close: something was lost, or doubled, on the way."""


@dataclass(frozen=True, slots=True)
class BatchInWork:
    """A batch in work, and since when (monotonic seconds)."""

    batch: int
    since_s: float


class BatchFailedError(CepError):
    """A batch failed as often as it may (exit code 65)."""

    def __init__(self, batch: int, attempts: int, reason: str) -> None:
        super().__init__(
            f"batch {batch} failed {attempts} times: {reason}\n"
            f"hint: if its records cannot be matched, cep checkpoint skip {batch} leaves them out and writes their offsets to a file"
        )
        self.batch = batch


@dataclass(frozen=True, slots=True)
class BatchRules:
    """How batches are worked on.

    Attributes:
        buckets: of the application.
        attempts: of one batch, before the application gives up.
        strict: whether a breach of the accounts ends the application.
    """

    buckets: int
    attempts: int = 4
    strict: bool = True


class Batches:
    """For ``foreachBatch``; called by one thread.

    Args:
        plane: decides and remembers.
        rules: how often, and how strictly.
        settings: told to owners.
        key: of the owners' connections.
        take: gets output records where there is no Kafka.
        first: asks the broker for a record where none was read; None: nobody is asked.
        answers: runs a batch's tasks.
    """

    def __init__(
        self,
        plane: Plane,
        rules: BatchRules,
        settings: OwnerSettings,
        key: WireKey,
        take: Taker | None = None,
        *,
        first: First | None = None,
        answers: Answers = answers_of_batch,
    ) -> None:
        self._first, self._answers = first, answers
        self._plane, self._rules, self._settings, self._take = plane, rules, settings, take
        self._owners = Owners(key, settings)
        self._placement = Placement(rules.buckets, plane.begin_run() * EPOCHS_PER_RUN)
        self._attempt = 0
        self._unknown: dict[int, Sequence[int | str]] = {}  # of the batch, see `TaskOrders.unknown`
        self._asked_to_stop = threading.Event()
        self._tending: threading.Thread | None = None
        self.running: BatchInWork | None = None
        """The batch in work."""
        self.failure: BaseException | None = None
        """Why the last batch could not be done."""

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Works a batch off; when this returns, Spark commits it.

        Raises:
            StoppedError: the application stops.
            UndoneError: it could not be done, see `failure`. In a few words: Spark's look for the reason overflows its stack on longer ones.
        """
        if self._asked_to_stop.is_set():
            self.failure = StoppedError()
            raise StoppedError("stopped between two batches") from None
        self.running = BatchInWork(batch, time.monotonic())
        try:
            self._work_off(frame, batch)
        except StoppedError as error:
            self.failure = error
            raise StoppedError(str(error)) from None
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for the query
            self.failure = error
            log_failure(log, "batch failed", error, batch_id=batch)
            raise UndoneError(f"batch {batch} could not be done") from None
        finally:
            self.running = None

    def stop(self) -> None:
        """No further batch begins."""
        self._asked_to_stop.set()

    def find(self, addresses: Iterable[tuple[str, int]]) -> int:
        """Makes owners known; returns how many there are."""
        for owner in self._owners.find(addresses):
            log.info("owner found", owner=f"{owner.host}:{owner.port}", pid=owner.pid)
            self._placement.join(owner)
        self._plane.count_owners(len(self._placement.owners))
        return len(self._placement.owners)

    def prepare(self, deployment: str) -> None:
        """Lets all owners load a deployment before a batch needs it."""
        self._owners.tell(Ask({"op": "prepare", "application": self._settings.application, "deployment": deployment}), None)

    @property
    def owners(self) -> frozenset[OwnerId]:
        """Who is there."""
        return self._placement.owners

    def holdings(self) -> Mapping[int, Holding]:
        """Which owner has which bucket."""
        return self._placement.holdings

    def stacks(self) -> dict[str, Any]:
        """What the owners are doing, by address; for people, when a batch does not end."""
        return self._owners.stacks()

    def close(self) -> None:
        """Owners forget the application; while one is still at work for it nothing more is said to them: connections are spoken on by one at a time."""
        if self._tending is not None:
            self._tending.join(2 * REFUSED_PAUSE_S)
        busy = self.running is not None or (self._tending is not None and self._tending.is_alive())
        self._owners.close(say=not busy)

    def _work_off(self, frame: DataFrame, batch: int) -> None:
        spent = Spent()
        directive = self._patiently(lambda: self._plane.directive(batch))
        spent.phase("decide")
        self._unknown, failures = {}, list[str]()
        while len(failures) < self._rules.attempts:
            self._attempt += 1
            if self._tending is not None:
                self._tending.join()  # an owner's connection is spoken on by one at a time
            self._lose(self._owners.gone())
            spent.phase("wait")
            try:
                self._attempted(frame, directive, len(failures) + 1, spent)
            except (PySparkException, Py4JError) as error:
                told = str(error)
                if registry_is_away(told):
                    raise DependencyError(cause(told)) from None
                if self._asked_to_stop.is_set() or isinstance(error, Py4JNetworkError) or lies_outside(told):
                    raise
                failures.append(cause(told, hint=False))
                self._plane.count_failed_attempt()
                self._let_it_return(told, len(failures))
                log.warning("attempt failed", batch_id=batch, attempt=len(failures), **{"error.stack": told})
            except OwnersFailedError as error:
                self._lose(error.lost)
                failures.append(str(error))
                self._plane.count_failed_attempt()
                log.warning("attempt failed", batch_id=batch, attempt=len(failures), reason=str(error))
                if error.unreachable:
                    if len(failures) == self._rules.attempts:
                        raise DependencyError(str(error)) from None
                    self._asked_to_stop.wait(REFUSED_PAUSE_S)
                elif error.of_storage and len(failures) == self._rules.attempts:
                    raise StorageError(
                        f"batch {batch} failed {len(failures)} times: {error}\n"
                        "hint: its records have no part in it, so skipping it would not help; cep doctor and cep checkpoint verify look at the checkpoint"
                    ) from None
            else:
                self._tend(batch)
                return
        raise BatchFailedError(batch, len(failures), failures[-1])

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        """What the driver itself asks of storage, which may be away for a while: no fault of the batch."""
        for _ in range(self._rules.attempts - 1):
            try:
                return ask()
            except StorageAwayError as error:
                log.warning("waiting for storage", reason=str(error))
                self._asked_to_stop.wait(REFUSED_PAUSE_S)
        return ask()

    def _let_it_return(self, failure: str, failures: int) -> None:
        """Credentials that are being exchanged are refused until their files are here, and storage may be away for a while: no fault of the batch."""
        if credentials_refused(failure) or storage_is_away(failure) or brokers_are_away(failure):
            if failures == self._rules.attempts:
                raise DependencyError(cause(failure)) from None
            self._asked_to_stop.wait(REFUSED_PAUSE_S)

    def _attempted(self, frame: DataFrame, directive: Directive, attempt: int, spent: Spent) -> None:
        if not self._placement.assign_buckets():
            self._wait_for_owners(frame.sparkSession)
        reports, beside = self._ingress(frame, directive)
        spent.phase("ingress")
        self._patiently(self._plane.await_directive)
        self.find(beside)  # of executors that joined; they get buckets at the next border
        heads = [head_of(report) for report in reports]
        self._unknown |= {head["part"]: head["unknown"] for head in heads}
        self._require_delivered(heads)
        greatest = {source[0]: source[2] for head in heads for source in head["sources"] if source[2] is not None}
        answers = self._owners.ask(self._advances(directive, greatest, {head["part"]: head["copy"] for head in heads}))
        spent.phase("match")
        names = _names(self._settings.checkpoint, directive.deployment)
        packed = [*reports, *(bytes(answer.parts[0]) for answer in answers.values())]
        totals = add_up(directive.batch, packed, names)
        owners_ns = sum(answer.head["cpu_ns"] for answer in answers.values())
        totals = replace(totals, attempts=attempt, cost_ns={**totals.cost_ns, OWNERS_CPU: owners_ns})
        self._require_closed(totals)
        spent.phase("add-up")
        totals = replace(totals, phases_ns=dict(spent.by_phase))
        self._patiently(lambda: self._plane.finish(totals, owners=len(self._placement.owners)))
        if self._take is not None:
            returned = [part for owner in sorted(answers) for part in answers[owner].parts[1:]]
            self._take(directive.batch, _table(returned))

    def _ingress(self, frame: DataFrame, directive: Directive) -> tuple[list[bytes], set[tuple[str, int]]]:
        """Runs the ingress; gives back its tasks' reports, and the owners that the tasks have beside them."""
        orders = TaskOrders(self._settings.application, self._attempt, directive, self._places(), self._unknown)
        frame.sparkSession.sparkContext.setLocalProperty(PROPERTY, orders.to_text())
        answers = self._answers(frame)
        return [answer.report for answer in answers], owners_beside(answers)

    def _places(self) -> tuple[OwnerPlace, ...]:
        return tuple(OwnerPlace(owner.host, owner.port, tuple(held)) for owner, held in self._placement.by_owner().items())

    def _advances(self, directive: Directive, greatest: Mapping[int, int], parts: Mapping[int, int]) -> dict[OwnerId, Ask]:
        orders = {
            owner: [BucketOrder(bucket, holding.epoch, holding.why) for bucket, holding in held.items()]
            for owner, held in self._placement.by_owner().items()
        }
        return advance_asks(TaskOrders(self._settings.application, self._attempt, directive), greatest, parts, orders)

    def _require_delivered(self, heads: Sequence[Mapping[str, Any]]) -> None:
        unreached = {place for head in heads for place in head["undelivered"]}
        lost = [owner for owner in self._placement.owners if f"{owner.host}:{owner.port}" in unreached]
        if lost:
            for owner in lost:
                self._owners.give_up(owner, leave_alone=True)
            raise OwnersFailedError(lost, {})

    def _require_closed(self, totals: BatchTotals) -> None:
        planned = self._plane.planned(totals.batch)
        found = breaches(totals, planned, to_kafka=self._take is None)
        if self._first is not None and planned is not None:
            found += unread(self._plane.untouched(planned, totals), self._first)
        for breach in found:
            log.error("accounts do not close", batch_id=totals.batch, account=breach.account, figures=breach.text)
        self._plane.count_breaches(found)
        if found and self._rules.strict:
            hint = "hint: this is a defect of the application; delivery.on_accounting_breach: warn goes on in spite of it"
            raise AccountsError(f"batch {totals.batch}: {'; '.join(breach.text for breach in found)}\n{hint}")

    def _lose(self, owners: Iterable[OwnerId]) -> None:
        lost = list(owners)
        for owner in lost:
            self._placement.lose(owner)
        self.find([(owner.host, owner.port) for owner in lost])  # its keeper may have started another one in its place

    def _wait_for_owners(self, spark: SparkSession) -> None:
        """All executors are gone, or none has come yet: Spark holds jobs back until it has one."""
        deadline = time.monotonic() + WAIT_FOR_OWNERS_S
        while not self._placement.assign_buckets():
            try:
                found = owners_around(spark, self._asked_to_stop, deadline)
            except TimeoutError:
                raise DependencyError(self._owners.refusal or f"no executor has come in {WAIT_FOR_OWNERS_S:.0f} s") from None
            if found is None:
                raise StoppedError("stopped while it waited for owners")
            if not self.find(found):
                self._asked_to_stop.wait(LOOK_AGAIN_S)  # those that are there refuse

    def _tend(self, batch: int) -> None:
        """Owners do what is not urgent while the next batch is planned and read, however long it takes. Spark has certainly committed the batch before this one."""
        ask = Ask({"op": "committed", "application": self._settings.application, "batch": batch - 1})
        self._tending = threading.Thread(target=self._owners.tell, args=(ask, None), name="tending")
        self._tending.start()


def advance_asks(
    task: TaskOrders, greatest: Mapping[int, int], parts: Mapping[int, int], buckets: Mapping[OwnerId, Sequence[BucketOrder]]
) -> dict[OwnerId, Ask]:
    """What all owners are told; what is the same for all is made once."""
    packed, directive = packed_orders(task.directive, greatest), task.directive
    asks = {}
    for owner, own in buckets.items():
        advance = Advance(task.application, directive.batch, task.attempt, directive, greatest, parts, tuple(own), packed)
        asks[owner] = Ask({"op": "advance", **advance.to_plain()}, [packed])
    return asks


@lru_cache(maxsize=8)
def _names(checkpoint: str, deployment: str) -> tuple[str, ...]:
    return tuple(plan.name for plan in load_deployment(checkpoint, deployment).catalog.plans)


def _table(streams: Sequence[memoryview]) -> pa.Table:
    tables = [pa.ipc.open_stream(pa.py_buffer(stream)).read_all() for stream in streams]
    return pa.concat_tables(tables) if tables else pa.table({})
