"""Before the first batch: every executor starts its Python daemon, and with it its owners, and they are found."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from app.observe.logs import get_logger
from app.pipeline.batches import Batches
from app.pipeline.ingress import REPORT_DDL, reported

EXECUTORS_S = 30.0
"""How long to wait for all executors that were asked for; the application begins with those that are there, the others join later."""
PAUSE_S = 0.5

log = get_logger(__name__)


def find_owners(spark: SparkSession, batches: Batches, slots: int) -> int:
    """Finds the owners of all executors; returns how many there are.

    Args:
        spark: the session.
        batches: told of them.
        slots: owners per executor.
    """
    wanted, deadline = _executors(spark) * slots, time.monotonic() + EXECUTORS_S
    while True:
        tasks = max(wanted, 1)
        rows = spark.range(0, tasks, 1, tasks).select("id").mapInArrow(_here, REPORT_DDL).toArrow()
        hosts, ports = rows.column("host").to_pylist(), rows.column("ports").to_pylist()
        found = batches.find((host, port) for host, some in zip(hosts, ports, strict=True) for port in some)
        if found >= wanted or time.monotonic() >= deadline:
            log.info("owners found", owners=found, wanted=wanted)
            return found
        time.sleep(PAUSE_S)


def _here(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Says which owners are beside this task. It takes a moment, so that the tasks spread over all executors."""
    for _ in batches:
        pass
    time.sleep(0.05)
    yield reported(b"")


def _executors(spark: SparkSession) -> int:
    """How many executors were asked for."""
    conf, master = spark.sparkContext.getConf(), spark.sparkContext.master
    if master.startswith("local-cluster"):
        return int(master.removeprefix("local-cluster[").split(",")[0])
    return 1 if master.startswith("local") else int(conf.get("spark.executor.instances", "1") or 1)
