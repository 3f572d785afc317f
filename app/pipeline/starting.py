"""Spark starts while the driver asks brokers and registry and prepares the queries."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from app.config.settings import Settings
from app.observe.logs import get_logger
from app.pipeline.session import start_session
from app.pipeline.task_answers import look_around

log = get_logger(__name__)


@contextmanager
def spark_starting(settings: Settings) -> Iterator[Future[SparkSession]]:
    """The session, as soon as it is there. Behind it the first Python daemon starts as well, with all that it imports, before anybody waits for it.

    Spark is stopped at the end, whatever came of it.
    """
    pool = ThreadPoolExecutor(1, "spark")
    session = pool.submit(_start, settings)
    pool.submit(_wake, session)
    try:
        yield session
    finally:
        with contextlib.suppress(Exception):  # told to who asked for the session
            _stop(session.result())
        pool.shutdown()


def _start(settings: Settings) -> SparkSession:
    began = time.monotonic()
    session = start_session(settings)
    log.info("Spark started", seconds=round(time.monotonic() - began, 1))
    return session


def _wake(session: Future[SparkSession]) -> None:
    with contextlib.suppress(Exception):  # only a head start: it fails again, and is told, where owners are looked for
        spark, began = session.result(), time.monotonic()
        look_around(spark, 1)
        log.info("Python workers started", seconds=round(time.monotonic() - began, 1))


def _stop(spark: SparkSession) -> None:
    with contextlib.suppress(Py4JError, OSError):  # a JVM that is gone need not be stopped
        spark.stop()
