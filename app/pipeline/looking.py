"""Executors are looked for whose owners nobody knows: by a job, which Spark holds back until it has an executor."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

from pyspark.sql import SparkSession

from app.pipeline.task_answers import look_around

LOOK_AGAIN_S = 0.5
"""Between two looks at executors whose owners refuse, and at whether the application is to stop."""


def owners_around(spark: SparkSession, stop: threading.Event, deadline_s: float, tasks: int = 1) -> set[tuple[str, int]] | None:
    """Addresses of owners beside tasks; None where the application is to stop before there is one.

    Args:
        spark: its session.
        stop: set when it is to stop.
        deadline_s: until when it is waited for (monotonic seconds).
        tasks: so many are asked.

    Raises:
        TimeoutError: no executor has come by then.
    """
    looking: Future[set[tuple[str, int]]] = Future()  # for a job that Spark may hold back for ever
    threading.Thread(target=_look, args=(spark, tasks, looking), name="looking", daemon=True).start()
    while not stop.is_set():
        left_s = max(0.0, deadline_s - time.monotonic())
        try:
            return looking.result(min(left_s, LOOK_AGAIN_S))
        except TimeoutError:
            if looking.done() or not left_s:
                raise
    return None


def _look(spark: SparkSession, tasks: int, found: Future[set[tuple[str, int]]]) -> None:
    try:
        found.set_result(look_around(spark, tasks))
    except Exception as error:  # noqa: BLE001 - told to whoever waits
        found.set_exception(error)
