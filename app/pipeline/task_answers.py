"""What tasks of ours answer, and how the driver gets it: a report, and which owners are beside them, on their executor."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from app.owners.keeper import local_owners

ANSWER_DDL = "answer binary"
_ANSWER = pa.schema([("answer", pa.binary())])
LINGER_S = 0.05
"""How long a task that only looks around takes: so that tasks spread over all executors."""


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """What one task said.

    Attributes:
        report: packed, see `app.control.messages.totals`.
        beside: addresses of the owners of its executor.
    """

    report: bytes
    beside: frozenset[tuple[str, int]]

    @staticmethod
    def unpack(packed: bytes) -> TaskAnswer:
        """Reads what `answered` packed."""
        size = int.from_bytes(packed[:4], "little")
        host, ports = orjson.loads(packed[4 : 4 + size])
        return TaskAnswer(packed[4 + size :], frozenset((host, port) for port in ports))


def answered(report: bytes) -> pa.RecordBatch:
    """A task's only row."""
    own = local_owners()
    place = orjson.dumps([own.host, own.ports])
    return pa.RecordBatch.from_pydict({"answer": [len(place).to_bytes(4, "little") + place + report]}, schema=_ANSWER)


def answers_of_batch(frame: DataFrame) -> list[TaskAnswer]:
    """Runs the tasks of a micro-batch, whose frame ``foreachBatch`` was given; each of them answers with one row.

    The frame stands for rows that the streaming query has planned already, and any action on it is planned, explained and executed as a query of
    its own: 30 ms. So their RDD is run.
    """
    planned: Any = frame._jdf.queryExecution().logical()  # noqa: SLF001 - pyspark has no other way to it
    return [TaskAnswer.unpack(row.getBinary(0)) for row in planned.rdd().collect()]


def answers_of_read(frame: DataFrame) -> list[TaskAnswer]:
    """The same for a frame that is read once, outside of a streaming query: it is planned here."""
    planned: Any = frame._jdf.queryExecution()  # noqa: SLF001 - as above
    return [TaskAnswer.unpack(row.getBinary(0)) for row in planned.toRdd().collect()]


def look_around(spark: SparkSession, tasks: int) -> set[tuple[str, int]]:
    """Owners beside the tasks of a job of so many; it waits until there is an executor."""
    rows = spark.range(0, tasks, 1, tasks).select("id").mapInArrow(nothing_done, ANSWER_DDL).toArrow()
    return owners_beside(TaskAnswer.unpack(row) for row in rows.column("answer").to_pylist())


def owners_beside(answers: Iterable[TaskAnswer]) -> set[tuple[str, int]]:
    """Addresses of all owners that tasks have beside them."""
    return {address for answer in answers for address in answer.beside}


def nothing_done(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task that only says where it is."""
    for _ in batches:
        pass
    time.sleep(LINGER_S)
    yield answered(b"")
