"""A JVM that does what the driver's does, and writes the classes that it needed: ``python -m app.pipeline.class_training ARCHIVE``.

For `app.bootstrap.class_archive`. A stream goes the way of the application's records, from Spark's own clock as there may be no broker (the image's build);
the classes of Kafka's client and source are loaded by their names.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from app.bootstrap.artifacts import connector_jars
from app.config.settings import Settings
from app.pipeline.session import DRIVER_JVM, start_session
from app.pipeline.source import record_columns
from app.pipeline.task_answers import ANSWER_DDL, answers_of_batch, look_around, nothing_done

BATCHES = 3
TIMEOUT_S = 120
LOADED = ("org/apache/kafka/clients/", "org/apache/kafka/common/", "org/apache/spark/sql/kafka010/", "org/apache/spark/kafka010/")
"""Folders of classes in the connector's jars that its source needs; of what else is there no task knows."""


def train(archive: Path) -> None:
    """Runs a small stream in a JVM that writes the archive when it ends, and waits for that.

    Raises:
        TimeoutError: the stream did not work off its batches.
    """
    options = f"{DRIVER_JVM} -XX:ArchiveClassesAtExit={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.model_validate(
            {"checkpoint": {"path": folder}, "spark": {"master": "local[2]", "conf": {"spark.driver.extraJavaOptions": options}}}
        )
        session = start_session(settings)
        look_around(session, 1)
        _stream(session, settings)
        _load(session)
        gateway: Any = SparkContext._gateway  # noqa: SLF001 - its JVM ends when nobody holds the pipe to it
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(TIMEOUT_S)


def _stream(session: SparkSession, settings: Settings) -> None:
    enough = threading.Event()

    def batch(frame: DataFrame, number: int) -> None:
        answers_of_batch(frame)
        if number >= BATCHES:
            enough.set()

    records = session.readStream.format("rate").option("rowsPerSecond", 100).load()
    like_kafkas = records.select(
        sql.lit("a topic").alias("topic"),
        sql.lit(0).alias("partition"),
        sql.col("value").alias("offset"),
        "timestamp",
        sql.col("value").cast("string").cast("binary").alias("value"),
    )
    reports = record_columns(like_kafkas, ["a topic"]).coalesce(2).mapInArrow(nothing_done, ANSWER_DDL)
    query = reports.writeStream.foreachBatch(batch).option("checkpointLocation", settings.checkpoint.spark_location).start()
    if not enough.wait(TIMEOUT_S):
        raise TimeoutError(f"no {BATCHES} batches in {TIMEOUT_S} s: {query.exception() or 'it goes on'}")
    query.stop()


def _load(session: SparkSession) -> None:
    """Classes by name; those that need a library that is not there are left out, as they are at run time."""
    java: Any = session._jvm  # noqa: SLF001 - pyspark's way to Java
    loader = java.Thread.currentThread().getContextClassLoader()
    for name in _names():
        try:
            java.java.lang.Class.forName(name, False, loader)
        except Py4JJavaError:
            continue


def _names() -> Iterator[str]:
    for jar in connector_jars():
        with zipfile.ZipFile(jar) as classes:
            for path in classes.namelist():
                if path.startswith(LOADED) and path.endswith(".class"):
                    yield path.removesuffix(".class").replace("/", ".")


if __name__ == "__main__":
    train(Path(sys.argv[1]))
