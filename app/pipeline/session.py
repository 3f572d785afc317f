"""The Spark session: every setting with the measured reason for it (architecture.md section 7; ops/bench/README.md)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from app.bootstrap.artifacts import connector_jars
from app.bootstrap.java import find_java
from app.config.settings import Settings
from app.pipeline.limits import ARROW_UNLIMITED

LOCAL_CHECKPOINT_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""WAL and commit 65 → 15 ms on local and PVC paths; its rename is not atomic there, so one driver per checkpoint."""


def own_settings(settings: Settings, arrow_bytes: int = ARROW_UNLIMITED) -> dict[str, str]:
    """Spark settings that the application needs; `settings.spark.conf` wins over them."""
    conf = {
        "spark.app.name": settings.application,
        "spark.python.unix.domain.socket.enabled": "true",  # a Python stage 78 → 28 ms
        "spark.python.daemon.module": "app.pipeline.daemon",  # workers are forked with the stages imported
        "spark.sql.execution.arrow.maxRecordsPerBatch": "8192",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(arrow_bytes),
        "spark.sql.shuffle.partitions": str(settings.spark.buckets),
        "spark.sql.adaptive.enabled": "false",  # would re-plan every micro-batch
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.streaming.stopTimeout": str(settings.spark.stop_timeout),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.log.level": "WARN",
        "spark.task.maxFailures": "4",
        # threads and collectors sized for few cores: the JVM shares them with the Python workers
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:ParallelGCThreads=2",
    }
    if "://" not in settings.checkpoint.path or settings.checkpoint.path.startswith("file:"):
        conf["spark.sql.streaming.checkpointFileManagerClass"] = LOCAL_CHECKPOINT_MANAGER
    if settings.spark.master.startswith("local"):
        conf["spark.driver.host"] = "127.0.0.1"
        conf["spark.driver.bindAddress"] = "127.0.0.1"
    jars = connector_jars()
    if jars:
        conf["spark.jars"] = ",".join(str(jar) for jar in jars)
    return conf


def start_session(settings: Settings, arrow_bytes: int = ARROW_UNLIMITED) -> SparkSession:
    """Starts the JVM and the Spark context.

    Args:
        settings: of the application.
        arrow_bytes: see `app.pipeline.limits`.

    Python workers run this interpreter and find this project whatever the working directory is.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    project = str(Path(__file__).resolve().parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join([project, *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a pool per worker would outnumber the cores, and nothing here uses it
    os.environ["JAVA_HOME"] = str(find_java().home)
    builder = SparkSession.builder.master(_master(settings.spark.master))
    for name, value in {**own_settings(settings, arrow_bytes), **settings.spark.conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _master(master: str) -> str:
    """``local[n]`` gives up at a task's first failure; ``local[n,4]`` repeats it as a cluster does."""
    return master[:-1] + ",4]" if master.startswith("local[") and "," not in master else master
